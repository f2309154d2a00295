// Settings with their origin, masked; the limits in force and the mandates; and the doctor's table.

import {
  Badge, Check, column, count, Facts, Field, html, Loaded, money, numOf, Panel, plain, quietOf, Segments, setQuery,
  span, Table, TablePanel, Text, textOf, upTo, useEffect, useGet, useState,
} from '../lib/view.js';
import { breakable } from '../lib/orders.js';

const SHOWN = [['settings', 'Settings'], ['limits', 'Limits'], ['doctor', 'Doctor']];
const PARTS = { settings: All, limits: Limits, doctor: Doctor };

export function SettingsView({ query }) {
  const shown = PARTS[query.show] ? query.show : 'settings';
  const Part = PARTS[shown];
  return html`<div class="view stack">
    <h1>Settings <${Segments} label="What is shown" options=${SHOWN} value=${shown}
    onChange=${(show) => setQuery({ show })} /></h1><${Part} key=${shown} query=${query} /></div>`;
}

function All({ query }) {
  const rows = useGet('/settings');
  const wanted = (query.q ?? '').toLowerCase();
  const fits = (row) => (!wanted || `${row.variable} ${row.name} ${row.help}`.toLowerCase().includes(wanted))
    && (query.set !== 'yes' || row.source !== 'default');
  return html`<${Panel} title="Settings"
    tools=${html`<${Field} className="inline" label="Search" type="search" size="16" value=${query.q ?? ''}
      onText=${(q) => setQuery({ q })} />
      <${Check} label="only those that are set" checked=${query.set === 'yes'}
        onChange=${(on) => setQuery({ set: on ? 'yes' : '' })} />`}>
    <${Loaded} from=${rows} what="settings" isEmpty=${(found) => !found.some(fits)} empty="No setting is like that">
      ${(found) => html`<${Table} label="Settings" columns=${SETTINGS} rows=${found.filter(fits)}
      rowKey="name" />`}<//><//>`;
}
const breakableOf = (name) => html`<code>${breakable(name)}</code>`;
const SETTINGS = [
  column('Setting', breakableOf, 'variable'),
  ['Value', (row) => (row.value === null || row.value === '' ? quietOf('not set')
    : html`<code>${textOf(row.value, 60)}</code>`), 'prose'],
  ['From', (row) => (row.source === 'default' ? quietOf('default') : textOf(row.source, 44)), '', 'source'],
  column('Owner', textOf, 'belongs_to', 'wide'), column('Meaning', upTo(160, 'quiet'), 'help', 'wide'),
];

function Limits() {
  const found = useGet('/limits');
  return html`<${Loaded} from=${found} what="limits">${({ limits, approval, mandates }) => html`<div class="stack">
    <${Panel} title="Approval and mandates"><p>Orders wait for a person: <strong><code>${plain(approval
      ?? 'as the broker needs it')}</code></strong></p>
      ${mandates.map((one) => html`<h3>${plain(one.broker)}</h3>
        <p><${Badge} tone=${one.in_force ? 'bad' : 'plain'}>
        ${one.in_force ? 'in force: real money can move' : 'none in force'}<//> ${one.why
        && html`<${Text} className="quiet">${one.why}<//>`}</p>
        ${one.in_force && html`<${Facts} rows=${[['Orders used', numOf(count(one.used_orders))],
          ['Money used', numOf(money(one.used_notional))], ...Object.entries(one.terms ?? {})
          .map(([name, value]) => [name.replaceAll('_', ' '),
          textOf(Array.isArray(value) ? value.join(', ') : value)])]} />`}`)}<//>
    <${TablePanel} title="Rules in force" columns=${RULES} rows=${limits} rowKey="code" /></div>`}<//>`;
}
const RULES = [
  column('Code', breakableOf), column('Denies'),
  ['Binds', (row) => (row.exits ? 'entries and exits' : 'entries'), 'wide'],
  ['Limit', (row) => Object.entries(row.limits).map(([name, value]) =>
    html`<div><code class="quiet small">${breakable(name)}</code> <strong class="num">${textOf(value)}
    </strong></div>`)],
];

const TONES = { ok: 'good', warn: 'warn', fail: 'bad' };
const WAIT_MS = 3_000;
function Doctor() {
  const [whole, setWhole] = useState(false);
  const kept = useGet('/doctor', { whole: whole || '' }, { every: 60_000 });
  useEffect(() => {
    if (kept.data?.refreshing) kept.soon(WAIT_MS);
  }, [kept.data]);
  return html`<${Panel} title="Doctor"><${Loaded} from=${kept} what="the checks" isEmpty=${(found) => !found.checks}
    empty="The checks are being made" hint="Load again in a few seconds.">${(found) => html`
    <${Table} label="Checks of the desk" columns=${CHECKS} rows=${found.checks} rowKey="name" />
    <p class="quiet">Made ${numOf(span(found.age * 1000))} ago.${found.refreshing
      && html` <span role="status">Checks are being made …</span>`}</p>
    ${found.left_out.length > 0 && html`<div class="row"><button type="button" disabled=${whole && found.refreshing}
      onClick=${() => (whole ? kept.reload() : setWhole(true))}>Check the rest</button> <span class="quiet">
      ${plain(found.left_out.join(', '))}: they run a turn, which may cost, and read all prices.</span></div>`}`}<//>
        <//>`;
}
const CHECKS = [
  ['Check', (row) => html`<strong class="nowrap">${plain(row.name)}</strong>`, '', 'name'],
  ['State', (row) => html`<${Badge} tone=${TONES[row.status]}>${row.status}<//>`, '', 'status'],
  column('Found', textOf, 'detail'), column('Remedy', textOf, 'remedy', 'wide'),
];
