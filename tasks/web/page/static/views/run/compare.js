// Two runs of one kind beside each other: what was judged otherwise, what was spent, and which settings differ.

import { get } from '../../lib/api.js';
import { compact, count, moment, money } from '../../lib/format.js';
import { html } from '../../lib/html.js';
import { part, setQuery } from '../../lib/router.js';
import { useResource } from '../../lib/store.js';
import { Badge, Empty, Loaded, Panel, RunLink, SymbolLink, Table, Text } from '../../lib/ui.js';
import { plain, shortId } from '../../lib/text.js';

const OFFERED = 50;

export function Compare({ run, path, other }) {
  if (!run) return null;
  return html`<${Panel} title="Compare with another run" id="compare" tools=${html`<${Choice} run=${run} other=${other} />`}>
    ${other ? html`<${Compared} path=${path} other=${other} key=${other} />` : html`<p class="quiet">Choose another ${plain(run.kind)}: the address then keeps it.</p>`}<//>`;
}

function Choice({ run, other }) {
  const runs = useResource(({ signal }) => get('/runs', { kind: run.kind, limit: OFFERED, short: true }, { signal }), [run.kind]);
  const offered = (runs.data ?? []).filter((one) => one.id !== run.run_id);
  const known = !other || offered.some((one) => one.id === other);
  return html`<label>Other run<select value=${other ?? ''} onChange=${(event) => setQuery({ with: event.target.value })}>
    <option value="">none</option>
    ${!known && html`<option value=${other}>${shortId(other)}</option>`}
    ${offered.map((one) => html`<option value=${one.id}>${shortId(one.id)}, ${moment(one.created_at)}, ${plain(one.state)}</option>`)}</select></label>`;
}

function Compared({ path, other }) {
  const found = useResource(({ signal }) => get(`${path}/compare/${part(other)}`, {}, { signal }), [path, other]);
  return html`<${Loaded} from=${found} what="the comparison">${(data) => html`<div class="stack">
    <${Table} label="Both runs" columns=${BOTH} rows=${totals(data)} rowKey=${(row) => row.name} />
    <div class="grid">
      <section><h3>Candidates</h3><${Table} label="Candidates of both" columns=${CANDIDATES} rows=${data.candidates} rowKey=${(row) => row.symbol} rowClass=${(row) => (row.changed ? 'changed' : '')} empty=${html`<${Empty} title="Neither has candidates" />`} /></section>
      <section><h3>Roles</h3><${Table} label="Turns and tokens by role" columns=${ROLES} rows=${data.roles} rowKey=${(row) => row.role} empty=${html`<${Empty} title="No turns" />`} /></section>
      <section><h3>Settings that differ</h3><${Table} label="Settings that differ" columns=${VALUES} rows=${[...data.settings, ...data.params]} rowKey=${(row) => row.name} empty=${html`<${Empty} title="None differs" />`} /></section>
    </div></div>`}<//>`;
}

const BOTH = [
  { id: 'name', label: 'What', unseen: true, cell: (row) => row.name },
  { id: 'ours', label: 'This run', num: true, cell: (row) => row.ours },
  { id: 'theirs', label: 'The other', num: true, cell: (row) => row.theirs },
];
const totals = ({ ours, theirs, only_ours: mine, only_theirs: others }) => [
  { name: 'Run', ours: html`<${RunLink} id=${ours.id} />`, theirs: html`<${RunLink} id=${theirs.id} />` },
  { name: 'Began', ours: moment(ours.created_at), theirs: moment(theirs.created_at) },
  { name: 'State', ours: html`<${Badge}>${ours.state}<//>`, theirs: html`<${Badge}>${theirs.state}<//>` },
  ...[['Candidates', 'candidates'], ['Orders', 'orders'], ['Turns', 'turns'], ['Tokens', 'tokens']].map(([name, field]) => ({ name, ours: count(ours[field]), theirs: count(theirs[field]) })),
  { name: 'Money', ours: money(ours.cost?.usd), theirs: money(theirs.cost?.usd) },
  { name: 'Candidates of one alone', ours: count(mine.length), theirs: count(others.length) },
];
const rating = (value, confidence) => (value ? html`<${Badge}>${value}<//> <span class="quiet">${plain(confidence)}</span>` : html`<span class="quiet">none</span>`);
const CANDIDATES = [
  { id: 'symbol', label: 'Symbol', cell: (row) => html`<${SymbolLink} symbol=${row.symbol} />`, sort: (row) => row.symbol },
  { id: 'ours', label: 'This run', cell: (row) => rating(row.ours, row.ours_confidence) },
  { id: 'theirs', label: 'The other', cell: (row) => rating(row.theirs, row.theirs_confidence) },
  { id: 'changed', label: 'Differs', unseen: true, cell: (row) => (row.changed ? html`<${Badge} tone="warn">differs<//>` : ''), sort: (row) => !row.changed },
];
const ROLES = [
  { id: 'role', label: 'Role', cell: (row) => plain(row.role) },
  { id: 'turns', label: 'Turns', num: true, cell: (row) => `${count(row.ours_turns)} / ${count(row.theirs_turns)}` },
  { id: 'tokens', label: 'Tokens', num: true, cell: (row) => `${compact(row.ours_tokens)} / ${compact(row.theirs_tokens)}` },
];
const shown = (value) => html`<code><${Text} most=${60}>${typeof value === 'string' ? value : JSON.stringify(value)}<//></code>`;
const VALUES = [
  { id: 'name', label: 'Name', cell: (row) => plain(row.name), sort: (row) => row.name },
  { id: 'ours', label: 'This run', cell: (row) => shown(row.ours) },
  { id: 'theirs', label: 'The other', cell: (row) => shown(row.theirs) },
];
