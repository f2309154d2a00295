// The front: what was done last, how good it has been, what waits for a person, and the newest decision as its lineage.

import {
  ActionButton, badgeOf, column, compact, costOf, count, Empty, EventRow, Facts, gain, go, hitsOf, html, joined, KIND,
  Link, LiveBadge, Loaded, money, orderOf, Panel, Pending, percent, plain, quietOf, runOf, signedPercent, span, stateOf,
  stepsOf, symbolOf, TablePanel, textOf, timeOf, upTo, useBounded, useEffect, useGet, useLive, useNow, VirtualList,
  waitOf,
} from '../lib/view.js';
import { Waiting } from '../lib/decision.js';
import { Held, Since } from '../lib/front.js';
import { Lines } from '../lib/lines.js';
import { KINDS, Words } from '../lib/palette.js';
import { Lineage } from './order.js';

const WATCHED = ['run', 'turn', 'order', 'approval', 'status', 'tool.completed'];
const SHOWN = /^(run|turn|order|approval|status\.again|tool\.completed)/;
const LATER_MS = 700;
const MOST_EVENTS = 1_000;
const narrow = matchMedia('(max-width: 640px)'); // one card is a screen
const SAMPLE = ['AAPL', 'IBM', 'KO', 'MMM', 'XOM', 'JPM', 'GE', 'WMT'];

export function Desk({ desk }) {
  const [events, add] = useBounded(MOST_EVENTS);
  const live = useLive('/events', { query: { type: WATCHED, bodies: false }, onGap: () => desk.soon(0),
    onEvents: (found) => {
      add(found.filter((event) => SHOWN.test(event.type)));
      desk.soon(LATER_MS);
    } });
  const asking = desk.data && !desk.data.fleet.workers;
  useEffect(() => {
    if (asking) desk.soon(LATER_MS); // the service asks the workers when it is asked itself
  }, [asking, desk.at]);
  return html`<div class="view"><h1>Desk <${LiveBadge} live=${live} /></h1>
    <nav class="row starts" aria-label="Start a run">Start: ${KINDS.map((kind) =>
      html`<${Link} to="/runs" query=${{ start: kind }}>${kind}<//>`)}</nav>
    <${Loaded} from=${desk} what="the desk">${(found) => (found.last
      ? html`<${Front} found=${found} desk=${desk} events=${events} />` : html`<${First} desk=${found} />`)}<//></div>`;
}

function Front({ found, desk, events }) {
  const runs = found.runs.map(joined('run'));
  const { account } = found.standing;
  const deciding = runs.find((run) => run.account === account && ['screen', 'research', 'trade'].includes(run.kind));
  return html`<div class="stack"><${Words} views=${found.views} />
    <p class="lead">${textOf(found.last.said)} ${runOf(found.last.run_id)}</p>
    ${found.troubles.length > 0 && html`<${TablePanel} title="What went wrong" columns=${TROUBLES}
      rows=${found.troubles} rowKey=${(row) => [row.kind, row.account, row.state, row.run_id, row.order_id].join()} />`}
    <div class=${found.waiting.length ? 'front' : 'stack'}><${Waiting} from=${{ ...desk, data: found.waiting }}
        most=${narrow.matches ? 1 : 3} />
      <div class=${found.waiting.length ? 'stack' : 'grid'}><${Results} found=${found} /><${Since} at=${desk.at} />
      </div></div>
    <${Held} account=${account} marked=${found.database.equity?.marked_at} />
    ${deciding && html`<${Building} key=${deciding.id} run=${deciding} at=${desk.at} />`}
    <${Newest} account=${account} at=${desk.at} />
    ${!found.troubles.length && html`<p class="quiet">${found.database.halts.length > 0
      && 'Trading is stopped. '}In the last 24 hours no run failed or was left unfinished, and no order was
      refused.</p>`}
    <${Fleet} found=${found} at=${desk.at} />
    ${runs.length > 0 && html`<${TablePanel} title="Runs now" columns=${RUNNING} rows=${runs}
      tools=${found.all_runs > runs.length
        && html`<${Link} to="/runs" query=${{ state: 'running' }}>all that run<//>`} />`}
    <${Panel} title="As it happens">${events.items.length ? html`<${VirtualList} label="Events" className="low" stick
        items=${events.items} dropped=${events.dropped} row=${(event) => html`<${EventRow} event=${event} run />`} />`
      : html`<${Empty} title="Nothing has happened since this view was opened" />`}<//></div>`;
}

/** The first visit: one button. What it starts is the front from then on. */
const First = ({ desk: { fleet, standing } }) => html`<section class="panel first-visit" aria-label="Start">
  <p class="lead">Nothing has run yet.</p>
  <${ActionButton} label="Run a sample screen" className="primary big" path="/runs" body=${{ kind: 'screen',
    symbols: SAMPLE, most: 3 }} done=${() => go('/')} />
  <p class="quiet">${SAMPLE.length} names on the ${plain(standing.market)} market of ${plain(standing.day)}
    ${' '}with ${plain(standing.model)}: screened, researched and decided on; each step is shown here as it happens.</p>
  ${fleet.workers?.length === 0 && html`<p class="notice warn">No worker answers, so it would wait: start them
    with <code>desk up</code>.</p>`}</section>`;

function Results({ found: { standing, spent, views, budget_tokens: budget, database } }) {
  const { equity } = database;
  const record = useGet(`/accounts/${standing.account}/record`, {}, { every: 60_000, deps: [equity?.marked_at] });
  const days = record.data?.days ?? [];
  const [first, last] = [days[0], days.at(-1)];
  const since = (field) => signedPercent(last[field] / first[field] - 1);
  const whole = views.find((view) => view.name === 'Record');
  return html`<${Panel} title="How good it has been"
    tools=${whole && html`<${Link} to=${whole.path}>The record<//>`}>
    ${record.loading && !record.data && html`<${Pending} />`}
    <${Lines} className="tall" label=${last
      ? `Equity ${money(last.equity)} on ${last.day}, and the universe at equal parts ${money(last.equal_weight)}` : ''}
      lines=${[['quiet-line', days.map((one) => one.equal_weight)], ['accent-line', days.map((one) => one.equity)]]} />
    <${Facts} rows=${[
      ['Equity', html`<strong class="num big">${equity ? money(equity.equity) : 'not marked yet'}</strong>
        ${' '}${equity && html`<span class="quiet num">as of ${equity.day}</span>`}`],
      [equity?.current ? 'Today' : 'On that day', equity ? gain(equity.change) : null],
      ['Since the first mark', days.length > 1 ? html`${since('equity')} ${
        quietOf(`against ${last.equal_weight ? since('equal_weight') : 'no benchmark'}`)}` : null],
      ['Drawdown', equity ? html`${percent(equity.drawdown)} ${
        quietOf(`deepest ${percent(record.data?.deepest)}`)}` : null],
      ['Buys that beat the median', hitsOf(record.data?.hits)],
      ['Cost today', html`${costOf(spent)} ${
        quietOf(`· ${compact(spent.tokens)} tokens${budget ? ` of ${compact(budget)}` : ''}`)}`],
      ['Trading', stateOf('trading', database.trading, database.why)],
    ]} />
    ${record.data?.lacking && html`<p class="quiet">No benchmark: ${textOf(record.data.lacking)}.</p>`}<//>`;
}

/** The account's newest decision that became an order, from the screener's hit to the fill. at: when the desk was last
 * read. */
function Newest({ account, at }) {
  const newest = useGet('/orders', { account, limit: 1 }, { deps: [at] });
  const id = newest.data?.[0]?.order.id;
  if (newest.loading && !newest.data) return html`<${Pending} />`;
  return id && html`<${Panel} title="The newest decision" tools=${html`<${Link} to=${`/orders/${id}`}>The order<//>`}>
    <${Chain} path=${`/orders/${id}`} at=${at} /><//>`;
}

/** A run that decides now, by the candidate that is furthest: hits, reports, verdict, order, as they come. */
function Building({ run, at }) {
  const table = useGet(`/runs/${run.id}/table`, {}, { deps: [at] });
  const rows = table.data?.rows ?? [];
  const far = (row) => 100 * row.orders.length + (row.verdict ? 50 : 0) + Object.values(row.cells)
    .filter((cell) => cell.report_id).length;
  const row = rows.reduce((best, one) => (best && far(best) >= far(one) ? best : one), null);
  const order = row?.orders[0];
  const symbol = row?.candidate.symbol;
  return html`<${Panel} title="Decided now"
    tools=${html`${symbol && symbolOf(symbol)} ${quietOf(`${plain(run.kind)} now`)} ${runOf(run.id)}`}>
    ${order ? html`<${Chain} key="order" path=${`/orders/${order.id}`} at=${at} />`
      : symbol ? html`<${Chain} key="candidate" path=${`/runs/${run.id}/lineage/${symbol}`} at=${at}
        as=${(chain) => ({ chain, order: { run_id: run.id, symbol } })} />`
        : table.loading && !table.data ? html`<${Pending} />`
        : html`<p role="status">${progressOf(run.progress.steps)} The screeners look for
          candidates: ${count(run.progress.turns_in_flight)} turns in flight, ${count(run.progress.turns)} ended.</p>`}
    <//>`;
}

/** The lineage of an order, or of a candidate that has none yet. as: makes the order's detail of the answer. */
const Chain = ({ path, at, as = undefined }) => html`<${Loaded} from=${useGet(path, {}, { deps: [at], as })}
  what="the decision">${(detail) => html`<${Lineage} detail=${detail} />`}<//>`;

const TROUBLES = [
  column('What', upTo(240), 'said'), column('State', badgeOf), column('At', timeOf, 'at', 'wide'),
  ['See', ({ kind, run_id: run, order_id: order, state, account, count: n }) => (run ? runOf(run)
    : kind === 'messages' ? html`<code>desk notify list</code>` : n > 1
      ? html`<${Link} to="/orders" query=${{ state, account }}>${count(n)} orders<//>` : orderOf(order))],
];

/** The fleet as one line, and below it what is wrong with it. */
function Fleet({ found: { fleet, queues, redis_trouble: away, database, scheduled }, at }) {
  const since = useNow() - at.getTime();
  const queued = queues && Object.values(queues.queued).reduce((sum, one) => sum + one, 0);
  const wrong = Object.entries(fleet.trouble ?? {}).concat(queues ? [] : [['queues', away ?? 'Redis did not answer']]);
  const next = queues?.beat.running && scheduled[0];
  const oldest = database.oldest && ['kind', 'role', 'subject'].map((name) => plain(database.oldest.step[name]))
    .filter(Boolean).join(' ');
  const said = [
    fleet.workers ? `${count(fleet.workers.length)} workers` : 'the workers are being asked',
    `${count(queued)} steps queued`, ...(queues?.parked ?? []).map((one) => `${plain(one.model)} is parked`),
    ...(oldest ? [`the oldest step is ${oldest}, ${span(database.oldest.seconds * 1000 + since)}`] : []),
    ...(fleet.age === null ? [] : [`asked ${span(fleet.age * 1000 + since)} ago`]),
  ];
  return html`<section aria-label="Fleet" class="stack">
    <p class="quiet"><${Link} to="/fleet">Fleet<//>: ${said.join(', ')}. ${next
      ? html`Next: ${plain(next.name)} ${plain(next.kind)} ${timeOf(next.at)}.`
      : queues?.beat.running ? 'Nothing is scheduled.' : html`Nothing starts by itself: ${!queues
        ? 'Redis does not answer' : fleet.trouble?.beat ? `beat: ${plain(fleet.trouble.beat)}` : 'no beat runs'}.`}
      ${' '}<${Link} to="/settings" query=${{ show: 'schedule' }}>Schedule<//></p>
    ${wrong.map(([what, why]) => html`<p>${badgeOf(what, 'warn')} ${textOf(why)}</p>`)}</section>`;
}

const RUNNING = [
  KIND, ['Steps', (run) => progressOf(run.progress.steps)],
  ['Turns', (run) => `${run.progress.turns_in_flight} + ${run.progress.turns}`, 'num', null, 'in flight, and ended'],
  ['Waits for', (run) => run.progress.waits.map((one) => html`<p>${waitOf(one)}</p>`), 'wide'],
  ['Symbols', (run) => textOf(run.symbols.join(' '), 40), 'wide'],
  ['For', (run) => span(run.progress.seconds * 1000), 'num'],
  column('Run', runOf, 'id'),
];

/** Steps that have ended, of those that are there: as a bar and as text. */
function progressOf(steps) {
  const [ended, all] = stepsOf(steps);
  const title = Object.entries(steps).map(([kind, [c, d]]) => `${kind} ${c}/${d}`).join('\n');
  return html`<span class="progress" title=${title}><progress value=${ended} max=${Math.max(all, 1)} aria-label="Steps">
    </progress> <span class="num">${ended}/${all}</span></span>`;
}
