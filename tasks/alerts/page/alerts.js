// Alerts: what each is on, what it has seen, and what fired; one is written here, or by pointing at a price of a chart.

import {
  ActionButton, Ago, badgeOf, Choice, column, Field, FormDialog, html, Loaded, number, Panel, plain, post, quietOf,
  runOf, setQuery, symbolOf, Table, textOf, timeOf, upTo, useAction, useDraft, useGet,
} from '../../lib/view.js';

const EVERY_MS = 10_000;
const TONES = { armed: 'good', unseen: 'warn', off: 'plain', expired: 'plain' };
const subjectOf = (text) => (/^[A-Z0-9][A-Z0-9.-]*$/.test(text) ? symbolOf(text) : textOf(text, 40));

const columns = (done) => [
  column('Alert', textOf, 'name'), column('On', subjectOf, 'subject'), column('When', upTo(60), 'condition', 'prose'),
  column('Does', textOf, 'action'), ['State', (row) => badgeOf(row.state, TONES[row.state] ?? 'plain'), '', 'state'],
  ['Seen', (row) => row.symbols.filter((one) => one.state === 'unseen').slice(0, 3).map((one) =>
    html`<div class="quiet">${textOf(one.symbol)} ${textOf(one.why, 80)}</div>`), 'wide'],
  number('Fired', (value) => value), ['Last', (row) => (row.last_fired ? html`<${Ago} at=${row.last_fired} />`
    : quietOf('never')), 'wide', 'last_fired'],
  ['By', (row) => html`${textOf(row.by)} <${Ago} at=${row.changed_at} />`, 'wide', 'by'],
  ['Change', (row) => html`<span class="row">
    <${ActionButton} label=${row.enabled ? 'Off' : 'On'} path=${`/alerts/${row.name}`}
      body=${{ enabled: !row.enabled }} done=${done} />
    <${ActionButton} label="Remove…" path=${`/alerts/${row.name}/remove`} done=${done}
      confirm=${{ title: `Remove ${row.name}`, children: html`<p>It looks no more; what fired stays below.</p>` }} />
    </span>`, 'unseen'],
];

const FIRINGS = [
  column('At', timeOf, 'at'), column('Alert', textOf, 'alert'), column('Why', upTo(120), 'why', 'prose'),
  ['Seen at', (row) => timeOf(row.market_at), 'wide', 'market_at'], column('Does', textOf, 'action'),
  ['Run', (row) => (row.run_id ? runOf(row.run_id) : quietOf(textOf(row.note, 80))), '', 'run_id'],
];

const LISTS = [
  column('List', textOf, 'name'),
  ['Symbols', (row) => html`<span class="symbols">${row.symbols.slice(0, 20).map((one) => html`${symbolOf(one)} `)}${
    row.symbols.length > 20 ? `and ${row.symbols.length - 20} more` : ''}</span>`, 'prose'],
  ['By', (row) => html`${textOf(row.by)} <${Ago} at=${row.changed_at} />`, 'wide', 'by'],
];

export function Alerts({ query }) {
  const found = useGet('/alerts', {}, { every: EVERY_MS });
  const fired = useGet('/alerts/firings', { limit: 50 }, { every: EVERY_MS });
  const add = html`<button type="button" onClick=${() => setQuery({ add: 'yes' })}>Add…</button>`;
  const pointed = query.price !== undefined;
  return html`<div class="view"><h1>Alerts</h1>
    <${Loaded} from=${found} what="the alerts">${(all) => html`
      ${all.away && html`<p class="notice warn" role="status">${textOf(all.away, 200)}</p>`}
      <${Panel} title="Alerts" tools=${add}><${Table} label="Alerts" columns=${columns(found.reload)} rows=${all.alerts}
        rowKey="name" empty="No alert yet" /><//>
      <${Panel} title="What fired"><${Loaded} from=${fired} what="what fired">${(rows) =>
        html`<${Table} label="What fired" columns=${FIRINGS} rows=${rows} empty="Nothing has fired yet" />`}<//><//>
      ${all.watchlists.length > 0 && html`<${Panel} title="Watch lists"><${Table} label="Watch lists" columns=${LISTS}
        rows=${all.watchlists} rowKey="name" /><//>`}
      ${(pointed || query.add) && html`<${Add} all=${all} on=${query.symbol ?? ''}
        when=${pointed ? `price ${query.side === 'below' ? 'below' : 'above'} ${query.price}` : 'price above '}
        done=${found.reload} onClose=${() => setQuery({ add: null, symbol: null, price: null, side: null })} />`}`}<//>
    </div>`;
}

/** A name that is free, from what the alert is: aapl-above-200. */
function nameOf(when, on, taken) {
  const made = `${on} ${when.replace(/^price /, '')}`.toLowerCase().replace(/[^a-z0-9]+/g, '-')
    .replace(/^[^a-z]+|-+$/g, '').slice(0, 36) || 'alert';
  const free = (number) => (number === 1 ? made : `${made}-${number}`);
  let number = 1;
  while (taken.includes(free(number))) number += 1;
  return free(number);
}

function Add({ all, when, on, done, onClose }) {
  const [text, setText, forget] = useDraft(`alert:${on}:${when}`, '{}');
  const typed = { name: '', when, on, action: 'notify', given: '', minutes: '0', ...JSON.parse(text) };
  const set = (field) => (value) => setText(JSON.stringify({ ...typed, [field]: value }));
  const name = typed.name.trim() || nameOf(typed.when, typed.on, all.alerts.map((one) => one.name));
  const act = useAction(async (key) => {
    const given = typed.given.split(/[\s;]+/).filter(Boolean);
    await post('/alerts', { name, when: typed.when, on: typed.on.trim() || null, action: typed.action, given,
      for_minutes: Number(typed.minutes) || 0 }, { key });
    forget();
    done();
  });
  const usage = all.conditions.find((one) => typed.when.trim().startsWith(one.name));
  return html`<${FormDialog} title="Add an alert" act=${act} action="Add" ready=${typed.when.trim() !== ''}
    onClose=${onClose}>
    <${Field} label="When" value=${typed.when} onText=${set('when')} maxlength="200" autocomplete="off"
      spellcheck="false" />
    <p class="quiet">${plain(usage ? `${usage.usage}: ${usage.purpose}`
      : all.conditions.map((one) => one.usage).join('; '))}</p>
    <${Field} label="On: a symbol, watchlist:NAME, holdings, universe (empty: the desk's own)" value=${typed.on}
      onText=${set('on')} maxlength="60" autocomplete="off" spellcheck="false" />
    <${Field} label="Minutes for which a price has to hold" type="number" min="0" value=${typed.minutes}
      onText=${set('minutes')} />
    <${Choice} label="Does" values=${all.actions} value=${typed.action} none=${null} onChange=${set('action')} />
    ${typed.action !== 'notify' && html`<${Field} label="With (optional): what a start of this kind takes"
      value=${typed.given} onText=${set('given')} placeholder="budget_tokens=50000" maxlength="4000" autocomplete="off"
      spellcheck="false" />`}
    <${Field} label="Name" value=${typed.name} onText=${set('name')} placeholder=${name} maxlength="40"
      autocomplete="off" spellcheck="false" /><//>`;
}
