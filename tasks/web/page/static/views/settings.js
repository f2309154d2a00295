// Settings by concern with their origin, masked; the schedule, edited here; the limits in force; the doctor's table.

import {
  ActionButton, Ago, badgeOf, Check, Choice, codeOf, column, count, Facts, Field, FormDialog, html, Loaded, money,
  numOf, Panel, Parts, plain, post, quietOf, seconds, setQuery, Table, TablePanel, textOf, timeOf, upTo, useAction,
  useDraft, useEffect, useGet, useState, words,
} from '../lib/view.js';
import { breakable } from '../lib/orders.js';

const PARTS = [['settings', 'Settings', All], ['schedule', 'Schedule', Schedule], ['limits', 'Limits', Limits],
  ['doctor', 'Doctor', Doctor]];

export const SettingsView = ({ query }) => html`<${Parts} title="Settings" parts=${PARTS} query=${query} />`;

function All({ query }) {
  const rows = useGet('/settings');
  const wanted = (query.q ?? '').toLowerCase().split(/\s+/).filter(Boolean);
  const fits = (row) => wanted.every((word) => `${row.variable} ${row.group} ${row.help}`.toLowerCase().includes(word))
    && (query.set !== 'yes' || isSet(row));
  return html`<div class="filters">
    <${Field} label="Search" type="search" size="20" value=${query.q ?? ''}
      onText=${(q) => setQuery({ q })} /><${Check} label="only those that are set" checked=${query.set === 'yes'}
      onChange=${(on) => setQuery({ set: on ? 'yes' : '' })} /></div>
    <p class="quiet">Each process reads them as it starts: a change takes a restart of <code>desk up</code>, and of
      the <code>process</code> that owns it. Runs keep those that they began with.</p>
    <${Loaded} from=${rows} what="settings" isEmpty=${(found) => !found.some(fits)} empty="No setting is like that">
      ${(found) => Object.entries(Object.groupBy(found.filter(fits), (row) => row.group)).map(([group, some]) => html`
        <${TablePanel} key=${group} title=${group} columns=${SETTINGS} rows=${some} rowKey="name"
          rowClass=${(row) => (isSet(row) ? 'changed' : '')} />`)}<//>`;
}
const isSet = ({ value, source }) => value !== null && value !== '' && !['default', 'not set'].includes(source);
const breakableOf = (name) => html`<code>${breakable(name)}</code>`;
const valueOf = (value) => (value === null || value === '' ? quietOf('not set')
  : html`<code>${textOf(value, 60)}</code>`);
const SETTINGS = [
  column('Setting', breakableOf, 'variable'),
  ['Value', ({ value, in_force: begun = null }) => html`${valueOf(value)} ${begun !== null
    && html`${badgeOf('restart', 'warn')} ${quietOf(html`started with ${valueOf(begun)}`)}`}`, 'prose'],
  ['From', (row) => (!isSet(row) ? quietOf(row.source)
    : html`${badgeOf('set', 'busy')} ${textOf(row.source, 44)}`), '', 'source'],
  column('Owner', textOf, 'belongs_to', 'wide'), column('Meaning', upTo(160, 'quiet'), 'help', 'wide'),
];

/** The runs that start by themselves. Beat takes a change over within seconds. */
function Schedule() {
  const found = useGet('/schedule', {}, { every: 10_000 });
  const [edited, setEdited] = useState(null); // an entry, or {} for a new one
  const add = html`<button type="button" onClick=${() => setEdited({})}>Add…</button>`;
  return html`<${Panel} title="Schedule" tools=${add}>
    <${Loaded} from=${found} what="the schedule">${({ why, clock, entries, kinds, exchanges }) => html`
      ${why && html`<p class="notice warn" role="status">${badgeOf('nothing starts', 'warn')} ${textOf(why)}</p>`}
      <${Table} label="Schedule" columns=${entryColumns(clock, !why, setEdited, found.reload)} rows=${entries}
        rowKey="name" empty="Nothing is scheduled" />
      ${edited && html`<${Edit} entry=${edited} clock=${clock} kinds=${kinds} exchanges=${exchanges}
        done=${found.reload} onClose=${() => setEdited(null)} />`}`}<//><//>`;
}

const entryColumns = (at, runs, edit, done) => [
  column('Starts', upTo(80), 'said'), column('Name'), column('Days'),
  [at, (row) => html`${numOf(row.elsewhere ?? row.at)} ${row.outside && quietOf(textOf(row.outside, 120))}`, '', 'at'],
  ['Next', (row) => (!row.enabled ? badgeOf('off') : row.lack ? textOf(`never: ${row.lack}`)
    : runs ? timeOf(row.next) : quietOf('not while no beat runs')), '', 'next'],
  ['Forecast', (row) => html`<${Forecast} asked=${row.asked} />`, 'prose wide'],
  ['Last sent', (row) => (row.last ? html`<${Ago} at=${row.last} />` : 'never'), 'wide', 'last'],
  ['By', (row) => (row.by ? html`${textOf(row.by)} <${Ago} at=${row.changed_at} />`
    : html`<code>${row.setting}</code>`), 'wide'],
  ['Change', (row) => html`<span class="row"><button type="button" onClick=${() => edit(row)}>Change…</button>
    <${ActionButton} label=${row.enabled ? 'Off' : 'On'} path=${`/schedule/${row.name}`}
      body=${{ enabled: !row.enabled }} done=${done} />
    ${row.by && html`<${ActionButton} label=${row.setting ? 'As set…' : 'Remove…'}
      path=${`/schedule/${row.name}/remove`} done=${done}
      confirm=${{ title: row.setting ? `${row.name} as ${row.setting} says` : `Remove ${row.name}`,
        children: html`<p>It starts no ${row.kind} at ${row.at} any more.</p>` }} />`}</span>`, 'unseen'],
];

/** What a run of an entry may cost, by the desk's record. */
function Forecast({ asked }) {
  const { problem, data } = useGet('/spending', { asked });
  return quietOf(problem ? textOf(problem.detail) : data ? textOf(data.said) : '…');
}

function Edit({ entry, clock, kinds, exchanges, done, onClose }) {
  const fresh = !entry.name;
  const [text, setText, forget] = useDraft(`schedule:${entry.name ?? ''}`, '{}');
  const typed = { name: '', kind: kinds.includes('screen') ? 'screen' : kinds[0], at: entry.at ?? '',
    days: entry.days ?? 'sessions', given: '', exchange: '', ...JSON.parse(text) };
  const set = (field) => (value) => setText(JSON.stringify({ ...typed, [field]: value }));
  const act = useAction(async (key) => {
    const { name, kind, at, days, exchange } = typed;
    const given = typed.given.split(/[\s;]+/).filter(Boolean);
    const whole = { name: name.trim(), kind, at, days, given, exchange: exchange || null };
    await (fresh ? post('/schedule', whole, { key })
      : post(`/schedule/${entry.name}`, { at, days, given }, { key }));
    forget();
    done();
  });
  const place = entry.elsewhere || typed.exchange ? 'Time there' : clock;
  return html`<${FormDialog} title=${fresh ? 'Add to the schedule' : `Change ${entry.name}`} act=${act}
    action=${fresh ? 'Add' : 'Change'} ready=${typed.at && (!fresh || typed.name.trim())} onClose=${onClose}>
    ${fresh && html`<${Field} label="Name" value=${typed.name} onText=${set('name')} placeholder="early-screen"
        maxlength="40" autocomplete="off" spellcheck="false" />
      <${Choice} label="Starts" values=${kinds} value=${typed.kind} none=${null} onChange=${set('kind')} />
      <${Choice} label="Exchange" values=${exchanges} value=${typed.exchange} none="the desk's own"
        onChange=${set('exchange')} />`}
    <${Field} label=${`${place} on each exchange day, or open+15m, close-30m`} value=${typed.at}
      onText=${set('at')} placeholder="12:30" maxlength="12" autocomplete="off" spellcheck="false" />
    <${Field} label="Days: sessions, mon,wed, week-first, month-last, or a date" value=${typed.days}
      onText=${set('days')} maxlength="40" autocomplete="off" spellcheck="false" />
    <${Field} label="With (optional): what a start of this kind takes" value=${typed.given} onText=${set('given')}
      placeholder="symbols=AAPL,MSFT" maxlength="4000" autocomplete="off" spellcheck="false" /><//>`;
}

function Limits() {
  const found = useGet('/limits');
  return html`<${Loaded} from=${found} what="limits">${({ limits, approval, mandates }) => html`<div class="stack">
    <${Panel} title="Approval and mandates"><p>Orders wait for a person: <strong>
      ${codeOf(approval ?? 'as the broker needs it')}</strong></p>
      ${mandates.map((one) => html`<h3>${plain(one.broker)}</h3>
        <p>${one.in_force ? badgeOf('in force: real money can move', 'bad') : badgeOf('none in force', 'plain')}
          ${' '}${quietOf(textOf(one.why))}</p>
        ${one.in_force && html`<${Facts} rows=${[['Orders used', numOf(count(one.used_orders))],
          ['Money used', numOf(money(one.used_notional))], ...Object.entries(one.terms ?? {}).map(([name, value]) =>
            [words(name), textOf(Array.isArray(value) ? value.join(', ') : value)])]} />`}`)}<//>
    <${TablePanel} title="Rules in force" columns=${RULES} rows=${limits} rowKey="code" /></div>`}<//>`;
}
const RULES = [
  column('Code', breakableOf), column('Denies'),
  ['Binds', (row) => (row.exits ? 'entries and exits' : 'entries'), 'wide'],
  ['Limit', (row) => Object.entries(row.limits).map(([name, value]) => html`<div>
    <code class="quiet small">${breakable(name)}</code> <strong class="num">${textOf(value)}</strong></div>`)],
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
    <p class="quiet">Made ${numOf(seconds(found.age))} ago. ${found.refreshing
      && html`<span role="status">Checks are being made …</span>`}</p>
    ${found.left_out.length > 0 && html`<div class="row"><button type="button" disabled=${whole && found.refreshing}
      onClick=${() => (whole ? kept.reload() : setWhole(true))}>Check the rest</button> <span class="quiet">
      ${plain(found.left_out.join(', '))}: they run a turn, which may cost, and read all prices.</span></div>`}`}
    <//><//>`;
}
const CHECKS = [
  column('Check', (name) => html`<strong class="nowrap">${plain(name)}</strong>`, 'name'),
  column('State', (status) => badgeOf(status, TONES[status]), 'status'),
  column('Found', textOf, 'detail'), column('Remedy', textOf, 'remedy', 'wide'),
];
