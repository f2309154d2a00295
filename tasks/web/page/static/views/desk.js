// The front: what was done last, how good the desk has been, what waits for a person, and the newest decision as its
// lineage.

import {
  ActionButton, Badge, badgeOf, column, compact, costOf, count, Empty, EventRow, Facts, Figure, go, html, joined,
  Link, LiveBadge, Loaded, money, Panel, percent, plain, quietOf, runOf, signedMoney, signedPercent, span, symbolOf,
  TablePanel, textOf, timeOf, upTo, useBounded, useEffect, useGet, useLive, useNow, VirtualList, waitOf,
} from '../lib/view.js';
import { Waiting } from '../lib/decision.js';
import { Lines } from '../lib/lines.js';
import { KINDS } from '../lib/palette.js';
import { Lineage } from './order.js';

const WATCHED = ['run', 'turn', 'order', 'approval', 'status', 'tool.completed'];
const SHOWN = /^(run|turn|order|approval|status\.again|tool\.completed)/;
const LATER_MS = 700;
const MOST_EVENTS = 1_000;
const SAMPLE = ['AAPL', 'IBM', 'KO', 'MMM', 'XOM', 'JPM', 'GE', 'WMT'];

export function Desk({ desk }) {
  const [events, add] = useBounded(MOST_EVENTS);
  const live = useLive('/events', {
    query: { type: WATCHED, bodies: false },
    onEvents: (found) => {
      add(found.filter((event) => SHOWN.test(event.type)));
      desk.soon(LATER_MS);
    },
    onGap: () => desk.soon(0),
  });
  const asking = desk.data && !desk.data.fleet.workers;
  useEffect(() => {
    if (asking) desk.soon(LATER_MS); // the service asks the workers when it is asked itself
  }, [asking, desk.at]);
  return html`<div class="view"><h1>Desk <${LiveBadge} live=${live} /></h1>
    <nav class="row starts" aria-label="Start a run">Start: ${KINDS.map((kind) =>
      html`<${Link} to="/runs" query=${{ start: kind }}>${kind}<//>`)}</nav>
    <${Loaded} from=${desk} what="the desk">${(found) => (found.last ? html`<div class="stack">
      <p class="lead">${textOf(found.last.said)} ${runOf(found.last.run_id)}</p>
      <div class="front">
        <${Results} found=${found} />
        <${Waiting} from=${{ ...desk, data: found.waiting }} most=${3} />
      </div>
      ${deciding(found) && html`<${Building} key=${deciding(found).id} run=${deciding(found)} at=${desk.at} />`}
      <${Newest} at=${desk.at} />
      ${found.troubles.length > 0 ? html`<${TablePanel} title="What went wrong" columns=${TROUBLES}
        rows=${found.troubles} rowKey="run_id" />` : html`<p class="quiet">No run failed in the last 24 hours.</p>`}
      <${Fleet} found=${found} at=${desk.at} />
      ${found.runs.length > 0
        && html`<${TablePanel} title="Runs now" columns=${RUNNING} rows=${found.runs.map(joined('run'))}
        tools=${found.all_runs > found.runs.length
          ? html`<${Link} to="/runs" query=${{ state: 'running' }}>all ${found.all_runs}<//>` : ''} />`}
      <${Panel} title="As it happens">
        ${events.items.length
          ? html`<${VirtualList} label="Events" items=${events.items} dropped=${events.dropped} stick
          row=${(event) => html`<${EventRow} event=${event} run />`} className="low" />`
          : html`<${Empty} title="Nothing has happened since this view was opened" />`}<//>
      </div>` : html`<${First} desk=${found} />`)}<//></div>`;
}

/** The first visit: one button. What it starts is the front from then on. */
const First = ({ desk: { fleet, standing } }) => html`<section class="panel first-visit" aria-label="Start">
  <p class="lead">Nothing has run yet.</p>
  <${ActionButton} label="Run a sample screen" className="primary big" path="/runs" body=${{ kind: 'screen',
    symbols: SAMPLE, most: 3 }} done=${() => go('/')} />
  <p class="quiet">${SAMPLE.length} names on the ${plain(standing.market)} market of ${plain(
    standing.day)} with ${plain(standing.model)}: screened,
    researched and decided on; each step is shown here as it happens.</p>
  ${fleet.workers && !fleet.workers.length
    && html`<p class="notice warn">No worker answers, so it would wait: start them with <code>desk up</code>.</p>`}
  </section>`;

/** How good the account has been, and what the day cost. */
function Results({ found: { standing, spent, budget_tokens: budget, database } }) {
  const { equity } = database;
  const record = useGet(`/accounts/${standing.account}/record`, {}, { every: 60_000, deps: [equity?.marked_at] });
  const days = record.data?.days ?? [];
  const [first, last] = [days[0], days.at(-1)];
  const hits = record.data?.hits;
  return html`<${Panel} title="How good it has been" tools=${html`<${Link} to="/scores">The record<//>`}>
    <${Lines} className="tall" label=${last
      ? `Equity ${money(last.equity)} on ${last.day}, and the universe at equal parts ${money(last.equal_weight)}` : ''}
      lines=${[['quiet-line', days.map((one) => one.equal_weight)], ['accent-line', days.map((one) => one.equity)]]} />
    <${Facts} rows=${[
      ['Equity', html`<strong class="num big">${equity ? money(equity.equity) : 'not marked yet'}</strong>
        ${' '}${quietOf(equity && `as of ${equity.day}`)}`],
      [equity?.current ? 'Today' : 'On that day', equity ? html`<${Figure} value=${equity.change} sign>${
        signedMoney(equity.change)}<//>` : null],
      ['Since the first mark', days.length > 1
        ? html`${signedPercent(last.equity / first.equity - 1)} <span class="quiet">against ${last.equal_weight
        ? signedPercent(last.equal_weight / first.equal_weight - 1) : 'no benchmark'}</span>` : null],
      ['Drawdown', equity ? html`${percent(equity.drawdown)} <span class="quiet">
        deepest ${percent(record.data?.deepest)}</span>` : null],
      ['Buys that beat the median', hits
        ? html`${percent(hits.mean, 0)} <span class="quiet">of ${count(hits.n)}${hits.low === null
        ? `, ${plain(hits.lack)} to tell` : `, ${percent(hits.low, 0)} to ${percent(hits.high, 0)}`}</span>`
        : 'none has its outcome yet'],
      ['Cost today', html`${costOf(spent)} <span class="quiet">· ${compact(spent.tokens)} tokens${budget
        ? ` of ${compact(budget)}` : ''}</span>`],
      ['Trading', html`<${Badge} tone=${database.trading === 'active' ? 'good' : 'bad'} title=${database.why}>
        ${database.trading}<//>`],
    ]} />
    ${record.data?.lacking && html`<p class="quiet">No benchmark: ${textOf(record.data.lacking)}.</p>`}<//>`;
}

/** The newest run that decides now. */
const deciding = (found) => found.runs.map(joined('run'))
  .find((run) => ['screen', 'research', 'trade'].includes(run.kind));

/** The newest decision that became an order, from the screener's hit to the fill. at: when the desk was last read. */
function Newest({ at }) {
  const newest = useGet('/orders', { limit: 1 }, { deps: [at] });
  const id = newest.data?.[0]?.order.id;
  return id ? html`<${Panel} title="The newest decision" tools=${html`<${Link} to=${`/orders/${id}`}>The order<//>`}>
    <${OrderLineage} key=${id} id=${id} at=${at} /><//>` : null;
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
    ${order ? html`<${OrderLineage} key=${order.id} id=${order.id} at=${at} />`
      : symbol ? html`<${CandidateLineage} key=${symbol} run=${run.id} symbol=${symbol} at=${at} />`
        : html`<p role="status"><${Progress} steps=${run.progress.steps} /> The screeners look for
          candidates: ${count(run.progress.turns_in_flight)} turns in flight, ${count(run.progress.turns)} ended.</p>`}
          <//>`;
}

function OrderLineage({ id, at }) {
  const found = useGet(`/orders/${id}`, {}, { deps: [at] });
  return html`<${Loaded} from=${found} what="the decision">${(detail) => html`<${Lineage} detail=${detail} />`}<//>`;
}

function CandidateLineage({ run, symbol, at }) {
  const found = useGet(`/runs/${run}/lineage/${symbol}`, {}, { deps: [at] });
  return html`<${Loaded} from=${found} what="the decision">${(chain) =>
    html`<${Lineage} detail=${{ chain, order: { run_id: run, symbol } }} />`}<//>`;
}

const TROUBLES = [
  column('What', upTo(240), 'said'), column('State', badgeOf), column('Began', timeOf, 'at', 'wide'),
  column('Run', runOf, 'run_id'),
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
      : queues?.beat.running ? 'Nothing is scheduled.' : html`Nothing starts by itself: ${queues ? 'no beat runs'
        : 'Redis does not answer'}.`} <${Link} to="/settings" query=${{ show: 'schedule' }}>Schedule<//></p>
    ${wrong.map(([what, why]) => html`<p><${Badge} tone="warn">${what}<//> ${textOf(why)}</p>`)}</section>`;
}

const RUNNING = [
  ['Kind', (run) => html`${run.kind}${run.schedule && html` ${quietOf(textOf(run.schedule))}`}`],
  ['Steps', (run) => html`<${Progress} steps=${run.progress.steps} />`],
  ['Turns', (run) => `${run.progress.turns_in_flight} + ${run.progress.turns}`, 'num', null, 'in flight, and ended'],
  ['Waits for', (run) => run.progress.waits.map((one) => html`<p>${waitOf(one)}</p>`), 'wide'],
  ['Symbols', (run) => textOf(run.symbols.join(' '), 40), 'wide'],
  ['For', (run) => span(run.progress.seconds * 1000), 'num'],
  column('Run', runOf, 'id'),
];

/** Steps that have ended, of those that are there: as a bar and as text. */
function Progress({ steps }) {
  const [ended, all] = Object.values(steps).reduce(([a, b], [c, d]) => [a + c, b + d], [0, 0]);
  const title = Object.entries(steps).map(([kind, [c, d]]) => `${kind} ${c}/${d}`).join('\n');
  return html`<span class="progress" title=${title}><progress value=${ended} max=${Math.max(all, 1)} aria-label="Steps">
    </progress> <span class="num">${ended}/${all}</span></span>`;
}
