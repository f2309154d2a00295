// Settings with their origin, masked; the limits in force and the mandates; and the doctor's table.

import { get } from '../lib/api.js';
import { html, useEffect, useState } from '../lib/html.js';
import { useKeys } from '../lib/keys.js';
import { setQuery } from '../lib/router.js';
import { count, money, span } from '../lib/format.js';
import { useResource } from '../lib/store.js';
import { Badge, Empty, Facts, Loaded, Panel, Segments, Table, Text } from '../lib/ui.js';
import { plain } from '../lib/text.js';
import { breakable } from './orders/terms.js';

const SHOWN = [['settings', 'Settings'], ['limits', 'Limits'], ['doctor', 'Doctor']];
const PARTS = { settings: All, limits: Limits, doctor: Doctor };

export default function SettingsView({ query }) {
  const shown = PARTS[query.show] ? query.show : 'settings';
  const Part = PARTS[shown];
  return html`<div class="view stack"><h1>Settings <${Segments} label="What is shown" options=${SHOWN} value=${shown} onChange=${(show) => setQuery({ show })} /></h1><${Part} key=${shown} query=${query} /></div>`;
}

function All({ query }) {
  const rows = useResource(({ signal }) => get('/settings', {}, { signal }), []);
  useKeys([['r', 'Load again', rows.reload]]);
  const wanted = (query.q ?? '').toLowerCase();
  const fits = (row) => (!wanted || `${row.variable} ${row.name} ${row.help}`.toLowerCase().includes(wanted)) && (query.set !== 'yes' || row.source !== 'default');
  return html`<${Panel} title="Settings" tools=${html`<label class="inline">Search<input type="search" size="16" value=${query.q ?? ''} onInput=${(event) => setQuery({ q: event.target.value })} /></label>
      <label class="check"><input type="checkbox" checked=${query.set === 'yes'} onChange=${(event) => setQuery({ set: event.target.checked ? 'yes' : '' })} />only those that are set</label>`}>
    <${Loaded} from=${rows} what="settings" isEmpty=${(found) => !found.some(fits)} empty=${html`<${Empty} title="No setting is like that" />`}>${(found) => html`<${Table} label="Settings" columns=${SETTINGS} rows=${found.filter(fits)} rowKey=${(row) => row.name} />`}<//><//>`;
}
const SETTINGS = [
  { id: 'name', label: 'Setting', cell: (row) => html`<code>${breakable(row.variable)}</code>`, sort: (row) => row.variable },
  { id: 'value', label: 'Value', prose: true, cell: (row) => (row.value === null || row.value === '' ? html`<span class="quiet">not set</span>` : html`<code><${Text} most=${60}>${row.value}<//></code>`) },
  { id: 'source', label: 'From', cell: (row) => (row.source === 'default' ? html`<span class="quiet">default</span>` : html`<${Text} most=${44}>${row.source}<//>`), sort: (row) => row.source },
  { id: 'owner', label: 'Owner', wide: true, cell: (row) => plain(row.belongs_to), sort: (row) => row.belongs_to },
  { id: 'help', label: 'Meaning', wide: true, cell: (row) => html`<${Text} className="quiet" most=${160}>${row.help}<//>` },
];

function Limits() {
  const found = useResource(({ signal }) => get('/limits', {}, { signal }), []);
  return html`<${Loaded} from=${found} what="limits">${({ limits, approval, mandates }) => html`<div class="stack">
    <${Panel} title="Approval and mandates"><p>Orders wait for a person: <strong><code>${plain(approval ?? 'as the broker needs it')}</code></strong></p>
      ${mandates.map((one) => html`<h3>${plain(one.broker)}</h3><p><${Badge} tone=${one.in_force ? 'bad' : 'plain'}>${one.in_force ? 'in force: real money can move' : 'none in force'}<//> ${one.why && html`<${Text} className="quiet">${one.why}<//>`}</p>
        ${one.in_force && html`<${Facts} rows=${[['Orders used', html`<span class="num">${count(one.used_orders)}</span>`], ['Money used', html`<span class="num">${money(one.used_notional)}</span>`], ...Object.entries(one.terms ?? {}).map(([name, value]) => [name.replaceAll('_', ' '), html`<${Text}>${Array.isArray(value) ? value.join(', ') : value}<//>`])]} />`}`)}<//>
    <${Panel} title="Rules in force"><${Table} label="Rules in force" columns=${RULES} rows=${limits} rowKey=${(row) => row.code} /><//></div>`}<//>`;
}
const RULES = [
  { id: 'code', label: 'Code', cell: (row) => html`<code>${breakable(row.code)}</code>`, sort: (row) => row.code },
  { id: 'denies', label: 'Denies', cell: (row) => html`<${Text}>${row.denies}<//>` },
  { id: 'binds', label: 'Binds', wide: true, cell: (row) => (row.exits ? 'entries and exits' : 'entries') },
  { id: 'limits', label: 'Limit', cell: (row) => Object.entries(row.limits).map(([name, value]) => html`<div><code class="quiet small">${breakable(name)}</code> <strong class="num"><${Text}>${value}<//></strong></div>`) },
];

const TONES = { ok: 'good', warn: 'warn', fail: 'bad' };
const WAIT_MS = 3_000;
function Doctor() {
  const [whole, setWhole] = useState(false);
  const kept = useResource(({ signal }) => get('/doctor', { whole: whole || '' }, { signal }), [whole], { every: 60_000 });
  useEffect(() => {
    if (kept.data?.refreshing) kept.soon(WAIT_MS);
  }, [kept.data]);
  useKeys([['r', 'Load again', kept.reload]]);
  return html`<${Panel} title="Doctor"><${Loaded} from=${kept} what="the checks" isEmpty=${(found) => !found.checks} empty=${html`<${Empty} title="The checks are being made">Load again in a few seconds.<//>`}>${(found) => html`
    <${Table} label="Checks of the desk" columns=${CHECKS} rows=${found.checks} rowKey=${(row) => row.name} />
    <p class="quiet">Made <span class="num">${span(found.age * 1000)}</span> ago.${found.refreshing && html` <span role="status">Checks are being made …</span>`}</p>
    ${found.left_out.length > 0 && html`<div class="row"><button type="button" disabled=${whole && found.refreshing} onClick=${() => (whole ? kept.reload() : setWhole(true))}>Check the rest</button> <span class="quiet">${plain(found.left_out.join(', '))}: they run a turn, which may cost, and read all prices.</span></div>`}`}<//><//>`;
}
const CHECKS = [
  { id: 'name', label: 'Check', cell: (row) => html`<strong class="nowrap">${plain(row.name)}</strong>`, sort: (row) => row.name },
  { id: 'status', label: 'State', cell: (row) => html`<${Badge} tone=${TONES[row.status]}>${row.status}<//>`, sort: (row) => row.status },
  { id: 'detail', label: 'Found', cell: (row) => html`<${Text}>${row.detail}<//>` },
  { id: 'remedy', label: 'Remedy', wide: true, cell: (row) => html`<${Text}>${row.remedy}<//>` },
];
