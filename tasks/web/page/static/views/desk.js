// The desk at a glance: what runs, what waits for a person, and with what it would trade.

import { get } from '../lib/api.js';
import { html } from '../lib/html.js';
import { money } from '../lib/format.js';
import { useKeys } from '../lib/keys.js';
import { useResource } from '../lib/store.js';
import { Ago, Badge, Empty, Facts, Link, Loaded, Panel, RunLink, SymbolLink, Table, Text } from '../lib/ui.js';

const EVERY_MS = 10_000;

export default function Desk() {
  const running = useResource(({ signal }) => get('/runs', { state: 'running', limit: 20 }, { signal }), [], { every: EVERY_MS });
  const waiting = useResource(({ signal }) => get('/approvals', {}, { signal }), [], { every: EVERY_MS });
  const status = useResource(({ signal }) => get('/', {}, { signal }), [], { every: EVERY_MS });
  const again = () => [running, waiting, status].forEach((one) => one.reload());
  useKeys([['r', 'Load again', again]]);
  return html`<div class="view"><h1>Desk</h1><div class="grid">
    <${Panel} title="Waits for a person" className="whole"><${Loaded} from=${waiting} what="what waits" empty=${html`<${Empty} title="Nothing waits for you" />`}>${(rows) => html`<${Waiting} rows=${rows} />`}<//><//>
    <${Panel} title="Runs now"><${Loaded} from=${running} what="runs" empty=${html`<${Empty} title="Nothing runs"><${Link} to="/runs">Start a run<//><//>`}>${(rows) => html`<${Running} rows=${rows} />`}<//><//>
    <${Panel} title="Standing"><${Loaded} from=${status} what="the standing">${(found) => html`<${Standing} found=${found} />`}<//><//>
  </div></div>`;
}

const WAITING = [
  { id: 'what', label: 'What', cell: (row) => html`<${Badge} tone="warn">${row.kind}<//>` },
  { id: 'about', label: 'About', cell: (row) => (row.kind === 'order' ? html`<${SymbolLink} symbol=${row.symbol} /> <${Text}>${[row.action, row.side, row.quantity].filter(Boolean).join(' ')}<//>` : html`<${Text} most=${100}>${`${row.role}: ${row.what}`}<//>`) },
  { id: 'money', label: 'Notional', num: true, cell: (row) => (row.kind === 'order' ? money(row.notional) : '') },
  { id: 'since', label: 'Asked', wide: true, cell: (row) => html`<${Ago} at=${row.asked_at} />` },
  { id: 'open', label: '', cell: (row) => (row.kind === 'order' ? html`<${Link} to=${`/orders/${row.order}`}>decide<//>` : html`<${Link} to="/approvals">decide<//>`) },
];
const Waiting = ({ rows }) => html`<${Table} label="What waits for a person" columns=${WAITING} rows=${rows} rowKey=${(row) => row.approval} />`;

const RUNNING = [
  { id: 'run', label: 'Run', cell: (run) => html`<${RunLink} id=${run.id} />` },
  { id: 'kind', label: 'Kind', cell: (run) => run.kind },
  { id: 'state', label: 'State', cell: (run) => html`<${Badge}>${run.state}<//>` },
  { id: 'since', label: 'Since', cell: (run) => html`<${Ago} at=${run.created_at} />` },
];
const Running = ({ rows }) => html`<${Table} label="Runs now" columns=${RUNNING} rows=${rows} rowKey=${(run) => run.id} />`;

const Standing = ({ found: { standing, running, home } }) => html`<${Facts} rows=${[
  ['Orders', html`<${Badge} tone=${standing.real_money ? 'bad' : standing.live ? 'warn' : 'plain'}>${standing.real_money ? 'live, real money' : standing.live ? 'live, play money' : 'preview'}<//>`],
  ['Broker', html`<${Text}>${standing.broker}<//>`],
  ['Account', html`<${Text}>${standing.account}<//>`],
  ['Model', html`<${Text}>${standing.model}<//>`],
  ['Market', html`<${Text}>${`${standing.market} ${standing.day}`}<//>`],
  ['Desk', running ? html`<${Badge} tone="good">up<//>` : html`<${Badge} tone="warn">no desk up<//>`],
  ['Home', html`<code><${Text}>${home}<//></code>`],
]} />`;
