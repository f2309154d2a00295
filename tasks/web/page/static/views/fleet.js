// The fleet: workers and their app-servers, queues, turns in flight, the oldest step, and parked models.

import { get } from '../lib/api.js';
import { html } from '../lib/html.js';
import { useKeys } from '../lib/keys.js';
import { count, figure, span } from '../lib/format.js';
import { useResource } from '../lib/store.js';
import { Ago, Badge, Empty, Facts, Link, Loaded, Panel, RunLink, SymbolLink, Table, Text, Time } from '../lib/ui.js';
import { plain } from '../lib/text.js';

const EVERY_MS = 5_000;
const OLD_S = 15; // the desk reads its status again after 5 s

export default function Fleet() {
  const kept = useResource(({ signal }) => get('/status', {}, { signal }), [], { every: EVERY_MS });
  useKeys([['r', 'Load again', kept.reload]]);
  return html`<div class="view"><h1>Fleet</h1><${Loaded} from=${kept} what="the fleet" isEmpty=${(found) => !found.status}
    empty=${html`<${Empty} title="The workers are being asked">It takes a second or two.<//>`}>${(found) => html`<${Whole} ...${found} />`}<//></div>`;
}

function Whole({ status, age }) {
  const { database, redis } = status;
  return html`${age > OLD_S && html`<p class="stale" role="status"><${Badge} tone="warn">stale<//> read <span class="num">${span(age * 1000)}</span> ago</p>`}
    ${Object.entries(status.trouble).map(([part, why]) => html`<p class="notice bad" role="status"><${Badge} tone="bad">${part}<//> <${Text}>${why}<//></p>`)}
    <div class="grid">
    <${Panel} title="Now" className="whole"><${Facts} rows=${[
      ['Desk', html`<${Badge} tone=${status.running ? 'good' : 'warn'}>${status.running ? 'up' : status.held ? 'starting or ending' : 'no desk up'}<//>`],
      ['Workers', html`<strong class="num big">${count(status.workers.length)}</strong>`],
      ['Turns in flight', html`<strong class="num big">${count(status.turns_in_flight)}</strong>`],
      ['Steps held', html`<span class="num">${count(status.workers.reduce((sum, one) => sum + one.steps_held, 0))}</span>`],
      ['Running runs', database ? html`<${Link} to="/runs" query=${{ state: 'running' }}><span class="num">${count(Object.values(database.runs).reduce((sum, n) => sum + n, 0))}</span><//>` : null],
      ['Trading', database ? html`<${Link} to="/account"><${Badge} tone=${{ active: 'good', reducing: 'warn', halted: 'bad' }[database.trading]}>${database.trading}<//><//>` : null],
      ['Read', html`<span class="num">${span(age * 1000)}</span> ago`],
    ]} /><//>
    <${Panel} title="Workers" className="whole"><${Table} label="Workers" columns=${WORKERS} rows=${status.workers} rowKey=${(row) => row.node} empty=${html`<${Empty} title="No worker answers"><code>desk up</code> starts them.<//>`} /><//>
    <${Panel} title="App-servers" className="whole"><${Table} label="App-servers" columns=${SERVERS} rows=${status.workers.flatMap((worker) => worker.app_servers.map((one) => ({ ...one, node: worker.node })))} rowKey=${(row) => `${row.node}${row.pid}`} empty=${html`<${Empty} title="No app-server runs">A worker starts one with its first turn.<//>`} /><//>
    <${Panel} title="Queues"><${Queues} redis=${redis} /><//>
    <${Panel} title="Steps"><${Steps} database=${database} /><//>
    <${Panel} title="Schedule"><${Schedule} redis=${redis} /><//>
    <${Panel} title="Parked models"><${Table} label="Parked models" columns=${PARKED} rows=${redis?.parked ?? []} rowKey=${(row) => row.model} empty=${html`<${Empty} title=${redis ? 'None is parked' : 'Not known: Redis does not answer'} />`} /><//>
    ${database?.unprotected.length > 0 && html`<${Panel} title="Shares without a stop"><${Table} label="Shares without a stop" columns=${LACKING} rows=${database.unprotected} rowKey=${(row) => row.symbol} /><//>`}
  </div>`;
}

const WORKERS = [
  { id: 'node', label: 'Worker', cell: (row) => html`<code><${Text}>${row.node}<//></code>`, sort: (row) => row.node },
  { id: 'queues', label: 'Queues', cell: (row) => html`<${Text}>${row.queues.join(', ')}<//>` },
  { id: 'held', label: 'Steps held', num: true, cell: (row) => count(row.steps_held), sort: (row) => row.steps_held },
  { id: 'servers', label: 'App-servers', num: true, wide: true, cell: (row) => count(row.app_servers.length) },
  { id: 'rss', label: 'MiB', num: true, cell: (row) => figure(row.rss_mb, 0), sort: (row) => row.rss_mb },
  { id: 'pid', label: 'Process', num: true, wide: true, cell: (row) => row.pid },
  { id: 'differs', label: 'Settings', wide: true, cell: (row) => (Object.keys(row.differs).length ? html`<${Badge} tone="warn">differ<//> <${Text} most=${60}>${Object.keys(row.differs).join(', ')}<//>` : html`<${Badge} tone="good">agree<//>`) },
  { id: 'trouble', label: 'Trouble', wide: true, cell: (row) => (row.trouble ? html`<${Text} most=${80}>${row.trouble}<//>` : '') },
];
const SERVERS = [
  { id: 'kind', label: 'Kind', cell: (row) => plain(row.kind) },
  { id: 'node', label: 'Worker', cell: (row) => html`<code><${Text}>${row.node}<//></code>`, sort: (row) => row.node },
  { id: 'flight', label: 'In flight', num: true, cell: (row) => count(row.in_flight), sort: (row) => row.in_flight },
  { id: 'turns', label: 'Turns ended', num: true, cell: (row) => count(row.turns), sort: (row) => row.turns },
  { id: 'age', label: 'Age', num: true, cell: (row) => span(row.age * 1000), sort: (row) => row.age },
  { id: 'rss', label: 'MiB', num: true, cell: (row) => figure(row.rss_mb, 0), sort: (row) => row.rss_mb },
  { id: 'pid', label: 'Process', num: true, wide: true, cell: (row) => row.pid },
];
const PARKED = [
  { id: 'model', label: 'Model', cell: (row) => html`<${Text}>${row.model}<//>` },
  { id: 'for', label: 'For', num: true, cell: (row) => span(row.seconds * 1000) },
  { id: 'why', label: 'Why', cell: (row) => html`<${Text}>${row.reason}<//>` },
];
const LACKING = [
  { id: 'symbol', label: 'Symbol', cell: (row) => html`<${SymbolLink} symbol=${row.symbol} />` },
  { id: 'quantity', label: 'Shares', num: true, cell: (row) => figure(row.quantity, 0) },
  { id: 'why', label: 'Why', cell: (row) => html`<${Text}>${row.why}<//>` },
];

function Queues({ redis }) {
  if (!redis) return html`<${Empty} title="Not known: Redis does not answer" />`;
  return html`<${Facts} rows=${[
    ...Object.entries(redis.queued).map(([queue, length]) => [queue, html`<span class="num">${count(length)}</span> waiting`]),
    ['Held by workers', html`<span class="num">${count(redis.held)}</span>`],
    ...Object.entries(redis.places).map(([model, turns]) => [`Turns of ${plain(model)}`, html`<span class="num">${count(turns)}</span>`]),
  ]} />`;
}

function Schedule({ redis }) {
  if (!redis) return html`<${Empty} title="Not known: Redis does not answer" />`;
  const { running, entries } = redis.beat;
  return html`<p>${running ? html`<${Badge} tone="good">beat runs<//>` : html`<${Badge} tone="bad">no beat runs<//> nothing is swept or scheduled; <code>desk up</code> starts one.`}</p>
    <${Table} label="Schedule" columns=${ENTRIES} rows=${entries} rowKey=${(row) => row.name} empty=${html`<${Empty} title="Nothing was ever scheduled" />`} />`;
}
const ENTRIES = [
  { id: 'name', label: 'Entry', cell: (row) => plain(row.name) },
  { id: 'last', label: 'Last sent', cell: (row) => (row.last ? html`<${Ago} at=${row.last} />` : 'never') },
  { id: 'next', label: 'Due', cell: (row) => html`<${Time} at=${row.next} />` },
];

function Steps({ database }) {
  if (!database) return html`<${Empty} title="Not known: the database does not answer" />`;
  const { oldest, sweep } = database;
  return html`<${Facts} rows=${[
    ...Object.entries(database.steps).map(([state, number]) => [state, html`<span class="num">${count(number)}</span>`]),
    ['Last sweep', sweep.at ? html`<${Ago} at=${sweep.at} />${sweep.sweeping ? ', one runs now' : ''}` : 'none yet'],
  ]} />
  ${oldest ? html`<h3>The oldest step</h3><p><${Badge}>${oldest.state}<//> ${plain(oldest.kind)} <strong><${Text}>${[oldest.role, oldest.subject].filter(Boolean).join(' ')}<//></strong> of run <${RunLink} id=${oldest.run_id} />,
    attempt <span class="num">${oldest.attempt} of ${oldest.max_attempts}</span>, for <span class="num">${span(oldest.seconds * 1000)}</span>${oldest.owner && html`, held by <code><${Text}>${oldest.owner}<//></code>`}</p>
    ${oldest.error && html`<p class="notice warn"><${Text}>${oldest.error}<//></p>`}` : html`<p class="quiet">No step is unfinished.</p>`}`;
}
