// The desk at a glance: what runs, what waits for a person, what it holds, and with what it would trade.

import {
  Ago, Badge, badgeOf, compact, costOf, count, Empty, EventRow, Facts, Figure, html, joined, Link, LiveBadge, Loaded, Loading, money, numOf,
  Panel, percent, quietOf, runOf, signedMoney, signedPercent, span, standingOf, symbolOf, Table, TablePanel, Text,
  textOf, timeOf, useBounded, useEffect, useGet, useLive, VirtualList, waitOf,
} from '../lib/view.js';
import { Answering, Until } from '../lib/decision.js';
import { Lineage } from './order.js';

const WATCHED = ['run', 'turn', 'order', 'approval', 'status.again', 'tool.completed'];
const LATER_MS = 1_000;
const MOST_EVENTS = 1_000;

export function Desk({ desk }) {
  const [events, add] = useBounded(MOST_EVENTS);
  const live = useLive('/events', {
    query: { type: WATCHED, bodies: false },
    onEvents: (found) => {
      add(found);
      desk.soon(LATER_MS);
    },
    onGap: () => desk.soon(0),
  });
  const asking = desk.data && !desk.data.fleet.workers;
  useEffect(() => {
    if (asking) desk.soon(LATER_MS); // the service asks the workers when it is asked itself
  }, [asking, desk.at]);
  return html`<div class="view"><h1>Desk <${LiveBadge} live=${live} /></h1>
    <${Loaded} from=${desk} what="the desk">${(found) => html`<div class="stack">
      <p class="lead">${found.last ? html`${textOf(found.last.said)} ${runOf(found.last.run_id)}`
        : html`Nothing has run yet. <a class="button" href="#/runs?start=screen">Start a screen</a>`}</p>
      <${Summary} found=${found} />
      <${Panel} title="Waits for a person" tools=${html`<${Link} to="/approvals">All approvals<//>`}>
        <${Table} label="What waits for a person" columns=${WAITING} rows=${found.waiting} rowKey=${(row) => row.approval.id} empty="Nothing waits for you" /><//>
      <${Newest} at=${desk.at} />
      ${found.troubles.length > 0 && html`<${TablePanel} title="What went wrong" columns=${TROUBLES} rows=${found.troubles} rowKey="run_id" />`}
      <div class="grid">
        <${Panel} title="Runs now" tools=${html`<${Link} to="/runs" query=${{ start: 'screen' }}>Start a run<//>`}>
          <${Table} label="Runs now" columns=${RUNNING} rows=${found.runs.map(joined('run'))} empty="Nothing runs now" />
          ${found.all_runs > found.runs.length && html`<p><${Link} to="/runs" query=${{ state: 'running' }}>${found.all_runs} run now<//></p>`}<//>
        <${Panel} title="Workers" tools=${quietOf(fleetAge(found.fleet))}><${Workers} found=${found} /><//>
        <${Panel} title="Queues"><${Queues} found=${found} /><//>
        <${TablePanel} title="Next screens" columns=${SCHEDULED} rows=${found.running ? found.scheduled : []} rowKey="name"
          empty=${found.running ? 'No screen is scheduled' : 'None starts while no desk is up: desk up'} />
        <${Panel} title="Standing"><${Standing} standing=${found.standing} database=${found.database} running=${found.running} /><//>
        <${Panel} title="As it happens" tools=${html`<${LiveBadge} live=${live} />`} className="whole">
          ${events.items.length
            ? html`<${VirtualList} label="Events" items=${events.items} dropped=${events.dropped} stick
            row=${(event) => html`<${EventRow} event=${event} run />`} className="low" />`
            : html`<${Empty} title="Nothing has happened since this view was opened" />`}<//>
      </div></div>`}<//></div>`;
}

const fleetAge = (fleet) => (fleet.age === null ? 'not asked yet' : `asked ${span(fleet.age * 1000)} ago`);

/** The newest decision that became an order, from the screener's hit to the fill. at: when the desk was last read. */
function Newest({ at }) {
  const newest = useGet('/orders', { limit: 1 }, { deps: [at] });
  const id = newest.data?.[0]?.order.id;
  return id ? html`<${NewestOrder} key=${id} id=${id} at=${at} />` : null;
}

function NewestOrder({ id, at }) {
  const found = useGet(`/orders/${id}`, {}, { deps: [at] });
  return html`<${Panel} title="The newest decision" tools=${html`<${Link} to=${`/orders/${id}`}>The order<//>`}>
    <${Loaded} from=${found} what="the newest decision">${(detail) => html`<${Lineage} detail=${detail} />`}<//><//>`;
}

const TROUBLES = [
  ['Run', (row) => runOf(row.run_id)],
  ['State', (row) => badgeOf(row.state)],
  ['What', (row) => html`<${Text} most=${240}>${row.said}<//>`],
  ['Began', (row) => timeOf(row.at), 'wide'],
];

function Summary({ found: { equity, database, fleet, queues, all_runs: all, waiting, spent, budget_tokens: budget } }) {
  const queued = queues ? Object.values(queues.queued).reduce((sum, one) => sum + one, 0) : null;
  return html`<section class="tiles" aria-label="Summary">
    <${Tile} name="Equity" to="/account" note=${equity && (equity.current ? equity.day : `as of ${equity.day}`)}>${equity ? money(equity.equity) : 'not marked yet'}<//>
    <${Tile} name="Today" to="/account" note=${equity && signedPercent(equity.change_share)}><${Figure} value=${equity?.change} sign>${signedMoney(equity?.change)}<//><//>
    <${Tile} name="Drawdown" to="/account">${percent(equity?.drawdown)}<//>
    <${Tile} name="Trading" to="/account" note=${database?.why}>${database ? html`<${Badge} tone=${database.trading === 'active' ? 'good' : 'bad'}>${database.trading}<//>` : 'not known'}<//>
    <${Tile} name="Waiting for you" to="/approvals">${waiting.length}<//>
    <${Tile} name="Runs now" to="/runs?state=running">${count(all)}<//>
    <${Tile} name="Cost today" to="/runs" note=${`${compact(spent.tokens)} tokens${budget ? ` of ${compact(budget)}` : ''}`}>${costOf(spent)}<//>
    <${Tile} name="Fleet" to="/fleet" note=${`${count(queued)} queued`}>${count(fleet.turns_in_flight)} turns<//>
  </section>`;
}

const Tile = ({ name, to, note, children }) => html`<a class="tile" href=${`#${to}`}>${quietOf(name)}
  <strong class="num">${children}</strong>${note && html`<small class="quiet">${textOf(note, 44)}</small>`}</a>`;

const WAITING = [
  ['What', ({ order, approval }) => html`<${Badge} tone="warn">${order ? 'order' : approval.kind}<//>`],
  ['About', ({ order, approval, what }) => (order
    ? html`${symbolOf(order.symbol)} ${textOf([order.action, order.side, count(order.quantity), order.contract]
    .filter(Boolean).join(' '))}` : html`<${Text} most=${120}>${`${approval.role}: ${what}`}<//>`)],
  ['Notional', ({ order, approval }) => (order ? money(approval.notional) : ''), 'num'],
  ['Asked', ({ approval }) => html`<${Ago} at=${approval.asked_at} />`, 'wide'],
  ['Until', (item) => html`<${Until} item=${item} />`, 'wide'],
  ['Decide', (item) => html`<${Answering} item=${item} />`],
];

const RUNNING = [
  ['Run', (run) => runOf(run.id)],
  ['Kind', (run) => html`${run.kind}${run.schedule && html` ${quietOf(textOf(run.schedule))}`}`],
  ['Steps', (run) => html`<${Progress} steps=${run.progress.steps} />`],
  ['Turns', (run) => `${run.progress.turns_in_flight} + ${run.progress.turns}`, 'num', null, 'in flight, and ended'],
  ['Waits for', (run) => run.progress.waits.map((one) => html`<p>${waitOf(one)}</p>`), 'wide'],
  ['Symbols', (run) => textOf(run.symbols.join(' '), 40), 'wide'],
  ['For', (run) => span(run.progress.seconds * 1000), 'num'],
];

/** Steps that have ended, of those that are there: as a bar and as text. */
function Progress({ steps }) {
  const [ended, all] = Object.values(steps).reduce(([a, b], [c, d]) => [a + c, b + d], [0, 0]);
  const title = Object.entries(steps).map(([kind, [c, d]]) => `${kind} ${c}/${d}`).join('\n');
  return html`<span class="progress" title=${title}><progress value=${ended} max=${Math.max(all, 1)} aria-label="Steps"></progress> <span class="num">${ended}/${all}</span></span>`;
}

function Workers({ found: { fleet, database } }) {
  const trouble = Object.entries(fleet.trouble ?? {});
  return html`${trouble.map(([what, why]) => html`<p><${Badge} tone="warn">${what}<//> ${textOf(why)}</p>`)}
    ${!fleet.workers && html`<${Loading} what="the workers' answers" />`}
    ${fleet.workers
      && html`<${Table} label="Workers" columns=${WORKERS} rows=${fleet.workers} rowKey="node"
      empty=${html`<${Empty} title="No worker answers">start them: <code>desk up</code><//>`} />`}
    ${database?.oldest
      && html`<p class="quiet">oldest step: ${textOf(['kind', 'role', 'subject', 'state']
      .map((name) => database.oldest.step[name]).filter(Boolean).join(' '))}, ${numOf(span(database.oldest.seconds * 1000))}</p>`}`;
}

const WORKERS = [
  ['Worker', (row) => html`<code>${textOf(row.node)}</code>`],
  ['State', (row) => (row.trouble ? html`<${Badge} tone="bad" title=${row.trouble}>trouble<//>`
    : Object.keys(row.differs ?? {}).length ? html`<${Badge} tone="warn">other settings<//>`
    : html`<${Badge} tone="good">answers<//>`)],
  ['Steps', (row) => count(row.steps_held), 'num'],
  ['Turns', (row) => count(row.app_servers.reduce((sum, one) => sum + one.in_flight, 0)), 'num'],
  ['MB', (row) => count(row.rss_mb + row.app_servers.reduce((sum, one) => sum + (one.rss_mb ?? 0), 0)), 'num wide'],
];

function Queues({ found: { queues, redis_trouble: trouble } }) {
  if (!queues) return html`<${Empty} title="The queues are not known">${textOf(trouble ?? 'Redis did not answer')}<//>`;
  return html`<${Facts} rows=${[...Object.entries(queues.queued).map(([name, waiting]) => [name, numOf(count(waiting))]), ['held', numOf(count(queues.held))]]} />
    ${queues.parked.length > 0 && html`<h3>Parked models</h3>
      <ul>${queues.parked.map((one) => html`<li>
      <${Badge} tone="warn">parked<//> ${textOf(one.model)} <span class="quiet">
      <${Text} most=${80}>
      ${[one.why, one.seconds === undefined ? null : `for ${span(one.seconds * 1000)}`].filter(Boolean)
      .join(', ')}<//></span></li>`)}</ul>`}`;
}

const SCHEDULED = [
  ['Name', 'name'],
  ['Kind', (row) => row.kind],
  ['At', (row) => timeOf(row.at)],
];

const Standing = ({ standing, running, database }) => html`<${Facts} rows=${[
  ['Orders', standingOf(standing)],
  ['Broker', textOf(standing.broker)],
  ['Account', textOf(standing.account)],
  ['Model', textOf(standing.model)],
  ['Market', textOf(`${standing.market} ${standing.day}`)],
  ['Desk', running ? html`<${Badge} tone="good">up<//>` : html`<${Badge} tone="warn">no desk up<//>`],
  ['Last sweep', database?.sweep?.at ? html`<${Ago} at=${database.sweep.at} />` : 'none yet'],
]} />`;
