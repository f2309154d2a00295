// All runs, filtered by what the address says.

import { get } from '../lib/api.js';
import { html } from '../lib/html.js';
import { setQuery } from '../lib/router.js';
import { between, date, span } from '../lib/format.js';
import { useResource } from '../lib/store.js';
import { Badge, Empty, Loaded, RunLink, Table, Time } from '../lib/ui.js';

const PAGE = 100;
const KINDS = ['screen', 'research', 'analyze', 'trade', 'episode', 'backtest', 'graph'];
const STATES = ['running', 'stopping', 'done', 'partial', 'failed', 'stopped'];

export default function Runs({ query }) {
  const asked = { kind: query.kind, state: query.state, limit: PAGE };
  const runs = useResource(({ signal }) => get('/runs', asked, { signal }), [query.kind, query.state], { every: 10_000 });
  return html`<div class="view"><h1>Runs</h1>
    <div class="filters"><${Choice} label="Kind" name="kind" values=${KINDS} query=${query} /><${Choice} label="State" name="state" values=${STATES} query=${query} /></div>
    <${Loaded} from=${runs} what="runs" empty=${html`<${Empty} title="No run is like that" />`}>${(rows) => html`<${Table} label="Runs" columns=${COLUMNS} rows=${rows} rowKey=${(run) => run.id} />`}<//>
  </div>`;
}

const Choice = ({ label, name, values, query }) => html`<label>${label}<select value=${query[name] ?? ''} onChange=${(event) => setQuery({ [name]: event.target.value })}>
  <option value="">all</option>${values.map((value) => html`<option value=${value}>${value}</option>`)}</select></label>`;

const COLUMNS = [
  { id: 'run', label: 'Run', cell: (run) => html`<${RunLink} id=${run.id} />` },
  { id: 'kind', label: 'Kind', cell: (run) => run.kind, sort: (run) => run.kind },
  { id: 'state', label: 'State', cell: (run) => html`<${Badge}>${run.state}<//>`, sort: (run) => run.state },
  { id: 'began', label: 'Began', cell: (run) => html`<${Time} at=${run.created_at} />`, sort: (run) => date(run.created_at) },
  { id: 'took', label: 'Took', num: true, cell: (run) => span(between(run.created_at, run.finished_at)), sort: (run) => between(run.created_at, run.finished_at) },
];
