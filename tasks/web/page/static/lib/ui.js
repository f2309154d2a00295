// The parts that views are made of. All text of the desk goes through these or through ${...}: never as markup.

import { Component } from 'preact';
import { newKey, pictureUrl, post, saveFile } from './api.js';
import {
  ago, compact, count, figure, lookOf, MARKS, MISSING, moment, moments, money, PAST, plain, quantity, safeUrl, short,
  shortId, span, words,
} from './format.js';
import { html, useCallback, useEffect, useLayoutEffect, useMemo, useRef, useState } from './html.js';
import { away, Problem } from './request.js';
import { href, part, setQuery } from './router.js';
import { useResource } from './store.js';

/** Text of the desk, what hides or reorders it made visible, what is between backticks as code. most: characters shown;
 * the rest is in the tooltip. */
export function Text({ children, most = 0, className = '' }) {
  const text = plain([children].flat().join(''));
  const cut = most ? short(text, most) : text;
  return html`<bdi class=${className} title=${cut === text ? undefined : text}>${cut.split(/`([^`]+)`/).map((part, n) =>
    (n % 2 ? html`<code>${part}</code>` : part))}</bdi>`;
}

/** A text field of a filter. What is typed stays the field's own until Enter or until it is left: views render anew
 * whenever the desk's events arrive, and would take a half-typed symbol away. onChange gets the text. */
function FilterField({ label, value = '', onChange, ...rest }) {
  const [typed, setTyped] = useState(value);
  useEffect(() => setTyped(value), [value]);
  return html`<label class="inline">${label}
    <input type="text" ...${rest} value=${typed} onInput=${(event) => setTyped(event.target.value)}
    onChange=${(event) => onChange(event.target.value.trim())} /></label>`;
}

/** The filters of a list, which the address keeps: [[name, label, of], ...]. of: the values to choose from, 'date',
 * 'symbol', or else any text. also: what changes with each of them. */
export const Filters = ({ query, of: filters, also = {} }) => filters.map(([name, label, of]) => {
  const set = (value) => setQuery({ [name]: of === 'symbol' ? value.toUpperCase() : value, ...also });
  const field = { label, value: query[name] ?? '' };
  if (Array.isArray(of)) return html`<${Choice} class="inline" ...${field} values=${of} onChange=${set} />`;
  return of === 'date' ? html`<${Field} className="inline" type="date" ...${field} onText=${set} />`
    : html`<${FilterField} ...${field} size=${of === 'symbol' ? 7 : 11} maxlength="64" onChange=${set} />`;
});

/** A field that is one of some values, each as text or [value, text]. none: the text of no choice; null: no such. */
export const Choice = ({ label, values, value = '', onChange, none = 'all', ...rest }) => html`<label ...${rest}>
  ${label}
  <select value=${value} onChange=${(event) => onChange(event.target.value)}>
    ${none !== null && html`<option value="">${none}</option>`}
    ${values.map((one) => [one].flat()).map(([of, text = of]) => html`<option value=${of}>${text}</option>`)}
  </select></label>`;

/** A field with its label; onText gets what is typed. rest: of the input; of: another element than an input; wrong: why
 * what it has was refused. */
export const Field = ({ label, onText, className, of = 'input', type, wrong, ...rest }) => html`<label
  class=${className}>${label}<${of} type=${type ?? (of === 'input' ? 'text' : undefined)} ...${rest}
  aria-invalid=${wrong ? 'true' : undefined} onInput=${(event) => onText(event.target.value)} />
  ${wrong && html`<span class="loss" role="alert">${plain(wrong)}</span>`}</label>`;

export const Check = ({ label, checked, onChange }) => html`<label class="check">
  <input type="checkbox" checked=${checked} onChange=${(event) => onChange(event.target.checked)} />${label}</label>`;

/** Things one below the other, each with a dot; none: what there is to say without any. */
export const Dots = ({ of, none = 'none' }) => (of.length
  ? html`<ul class="dots">${of.map((one) => html`<li>${one}</li>`)}</ul>` : html`<p class="quiet">${none}</p>`);

export function useFirst(rows, most) {
  const [all, setAll] = useState(false);
  const left = !all && rows.length > most;
  return [left ? rows.slice(0, most) : rows, left
    && html`<p><button type="button" onClick=${() => setAll(true)}>Show all ${count(rows.length)}</button></p>`];
}

/** What a click on a link does in its place, unless it is meant for another tab. */
export const inPlace = (act) => (event) => {
  if (event.ctrlKey || event.metaKey || event.shiftKey || event.button) return;
  event.preventDefault();
  act();
};

export function Link({ to, query, children, className, title }) {
  return html`<a href=${href(to, query)} class=${className} title=${title}>${children}</a>`;
}

/** A link to something of the desk by its id; what it says is the short id, if nothing else is given. */
const linkedTo = (path) => (id, children = /** @type {any} */ (shortId(id))) =>
  (id ? html`<${Link} to=${`${path}/${part(id)}`} className="id" title=${id}>${children}<//>` : MISSING);
export const runOf = linkedTo('/runs');
export const orderOf = linkedTo('/orders');
export const threadOf = linkedTo('/threads');
/** The run of something on a backtest's account. */
export const pastRun = (of) => (PAST.test(of?.account ?? '') ? of.run_id ?? of.id : undefined);
/** A link to a symbol. of: what is shown of it, with its account and its run: what a backtest did is shown as of
 * then. */
export const symbolOf = (symbol, of = undefined) => {
  const run = pastRun(of);
  return symbol ? html`<${Link} to=${`/symbols/${part(symbol)}`} query=${{ run }} className="symbol">
    ${plain(symbol)}<//>` : MISSING;
};

/** A link out of the desk, to what a tool or a model named: as text when its address is none of the web. */
export function OutLink({ url, children }) {
  const safe = safeUrl(url);
  const shown = textOf(children ?? url, 80);
  return safe ? html`<a href=${safe} target="_blank" rel="noreferrer noopener" class="out">${shown} ↗</a>` : shown;
}

/** The time in ms, anew each `every` ms while the tab is seen; every 0 stands still. */
export function useNow(every = 1_000) {
  const [now, setNow] = useState(Date.now());
  useEffect(() => {
    const timer = every && setInterval(() => !document.hidden && setNow(Date.now()), every);
    return () => clearInterval(timer);
  }, [every]);
  return now;
}

export function Ago({ at }) {
  useNow();
  return html`<time class="num" datetime=${at ?? undefined} title=${moments(at)}>${ago(at)}</time>`;
}

export const toneOf = (word) => lookOf('any', word)[1];

/** A state as a word with a mark: colour is never the only sign. tone: by the word itself where it is left out. */
export function badgeOf(state, tone = toneOf(state), title = undefined) {
  return html`<span class=${`badge ${tone}`} title=${title}><span aria-hidden="true">${MARKS[tone]}
    </span> ${words(state)}</span>`;
}

/** The state of a run, an order, an approval or of trading, by the table of states. */
export function stateOf(of, state, title = undefined) {
  const [said, tone] = lookOf(of, state);
  return badgeOf(said, tone, title);
}
export const runState = (state) => stateOf('run', state);

/** The mark of what a backtest did, on its own account and at prices of the past. */
export const pastOf = (account) => PAST.test(account ?? '') && badgeOf('backtest', 'warn', plain(account));

// For the cells of tables and the values of facts.
export const textOf = (value, most) => html`<${Text} most=${most}>${value}<//>`;
/** An id beside a title, small, and whole in its tooltip. */
export const idOf = (id) => html`<code class="id quiet" title=${plain(id)}>${shortId(id)}</code>`;
const BY_RULE = /^Rule, not a model: /;
/** A reason; that a rule wrote it and no model is said in a word behind it. */
export const reasonOf = (text, most = 0) => (BY_RULE.test(text ?? '')
  ? html`${textOf(text.replace(BY_RULE, ''), most)} ${quietOf('(a rule)')}` : textOf(text, most));
export const quietOf = (value) => html`<span class="quiet">${value}</span>`;
export const numOf = (value) => html`<span class="num">${value}</span>`;
/** A moment by the exchange's clock or in local time, as the page is set; both in the tooltip. parts:
 * time, minute, day, both. */
export const timeOf = (at, parts = 'both') => html`<time class="num" datetime=${at ?? undefined} title=${moments(at)}>
  ${moment(at, parts)}</time>`;
export const dayOf = (at) => timeOf(at, 'day');
const NEAR_MS = 12 * 3600_000; // of a moment that needs no date
/** What a run waits for, as the desk says it. */
export const waitOf = ({ what, count, unit, until }) => html`${textOf(what)}${until
  && html` until ${timeOf(until, new Date(until).getTime() - Date.now() < NEAR_MS ? 'time' : 'both')}`}
  ${' '}${quietOf(`(${count} ${unit}${count === 1 ? '' : 's'})`)}`;
/** A place of the desk that is short of room, as a badge. */
export const roomOf = ({ what, where, out }) =>
  what === 'soundness'
    ? badgeOf('database not sound', 'bad', plain(where))
    : what === 'home' ? badgeOf('data folder away', 'bad', plain(where))
    : badgeOf(`${out ? 'no' : 'little'} room: ${what}`, out ? 'bad' : 'warn', plain(where));

/** Whether orders are sent, and whether they move real money, as a badge. */
export const standingOf = ({ real_money: real, live, broker, account }) =>
  badgeOf(real ? 'LIVE, REAL MONEY' : live ? 'live, play money' : 'preview', real ? 'bad' : live ? 'warn' : 'plain',
    `broker ${broker}, account ${account}`);

/** What a run cost: in dollars as far as the models' prices are known, else why not. */
export function costOf({ cost }) {
  const said = (text, why) => html`<span class="quiet" title=${why}>${text}</span>`;
  if (!cost) return said('not known', 'no turn was counted yet');
  const { usd, rules, local, unpriced = [], uncounted } = cost;
  if (rules) return said('none', 'the rulebook is no model, and costs nothing');
  if (local && !usd && !unpriced.length) return said('local', 'local models have no price');
  const none = unpriced.length ? `no price of ${unpriced.join(', ')}` : 'no turn was counted yet';
  if (usd === null) return said(MISSING, none);
  const left = [...unpriced, uncounted && `${uncounted} turns that were not counted`].filter(Boolean).join(', ');
  return html`<span class="num" title=${left ? `without ${plain(left)}` : undefined}>
    ${left && '≥ '}${money(usd)}</span>`;
}

/** What went wrong, plainly: what, why, and what a person can do. again: offered as a button. */
export function ProblemBox({ problem, again, what = '' }) {
  if (!problem) return null;
  return html`<div class="problem" role="alert">
    <strong>${what && `${what}: `}${plain(problem.title || problem.message)}</strong>
    ${problem.detail && problem.detail !== problem.title && html`<p><${Text}>${problem.detail}<//></p>`}
    ${problem.remedy && html`<p class="remedy"><${Text}>${problem.remedy}<//></p>`}
    ${again && html`<button type="button" onClick=${again}>Try again</button>`}
  </div>`;
}

/** Nothing to show, and why; children: what a person can do. */
export const Empty = ({ title, children }) => html`<div class="empty"><p><strong>${title}</strong></p>
  ${children && html`<p>${children}</p>`}</div>`;
const nothingIn = (data) => Array.isArray(data) && !data.length;
const emptyOf = (empty, hint) => (typeof empty === 'string' ? html`<${Empty} title=${empty}>${hint}<//>` : empty);
export const Loading = ({ what = '' }) =>
  html`<div class="loading" role="status"><span class="spin" aria-hidden="true"></span> loading ${what}</div>`;
/** The place of a part that shows nothing until it is there: what follows it is not shown before. */
export const Pending = () => html`<span class="loading" hidden></span>`;

/** A resource in whatever state it is: loading, failed, empty, stale or there. children: (data) => content. empty,
 * hint: what there is to say of data that isEmpty finds empty, and what a person can do. */
export function Loaded({ from, what = '', children, empty, hint, isEmpty = nothingIn }) {
  if (from.data === undefined) {
    return from.problem ? html`<${ProblemBox} problem=${from.problem} again=${from.reload} what=${what} />`
      : html`<${Loading} what=${what} />`;
  }
  const stale = from.stale && html`<div class="stale" role="status">
    ${badgeOf('stale', 'warn')} as of <${Ago} at=${from.at?.toISOString()} />: ${plain(from.problem.detail
      || from.problem.title)}
    <button type="button" onClick=${from.reload}>Try again</button></div>`;
  return html`${stale}${empty && isEmpty(from.data) ? emptyOf(empty, hint) : children(from.data)}`;
}

export function Panel({ title, tools, children, className = '', id }) {
  return html`<section class=${`panel ${className}`} id=${id} aria-label=${title}>
    ${(title || tools) && html`<header><h2>${title}</h2><div class="tools">${tools}</div></header>`}
    <div class="body">${children}</div>
  </section>`;
}

/** Names with values: [[name, value], ...]; a row whose value is undefined is left out. */
export function Facts({ rows }) {
  return html`<dl class="facts">${rows.filter(([, value]) => value !== undefined)
    .map(([name, value]) => html`<div><dt>${name}</dt><dd>${value ?? MISSING}</dd></div>`)}</dl>`;
}

/** Text laid out as it is, in a box that scrolls. label: what it is. */
export const Block = ({ label, children }) => html`<pre class="block" tabindex="0" role="group" aria-label=${label}>
  ${children}</pre>`;

const MOST_ROWS = 100; // of a table, before a person asks for all
const valueOf = (row, field) => (typeof field === 'string' ? row[field] : field(row));
const classOf = (looks = '') => looks.replace('num', 'right').replace('unseen', '');

/** A table. columns: [label, cell, looks, sort, title], the last three if needed; a cell or a sort is a function of the
 * row, or the name of a field. looks: words. num: aligned at the decimal point, when cell returns fixed decimals; wide:
 * left out on narrow screens; prose: keeps room for a few words; unseen: its label is for readers that do not see.
 * rowKey: a field of the row, or (row) => key. empty: what there is to say without rows. sorting: [{name, down}, set]
 * where the server sorts, by the names that the columns have as their sort. first: rows before a person asks for
 * all. */
export function Table({ columns, rows, rowKey = 'id', label, empty, hint, rowClass = (_row) => '', sorting = null,
  first = MOST_ROWS }) {
  const own = useState(null);
  const [order, setOrder] = sorting ?? own;
  const shown = useMemo(() => {
    const [, , , sort] = (order && columns.find(([name]) => name === order.name)) ?? [];
    if (!sort || sorting) return rows;
    const ranked = rows.map((row) => [valueOf(row, sort), row]);
    const way = order.down ? -1 : 1;
    const last = (value) => value === null || value === undefined;
    const rank = (a, b) => (a === b ? 0 : last(a) ? 1 : last(b) ? -1 : a < b ? -way : way);
    return ranked.sort(([a], [b]) => rank(a, b)).map(([, row]) => row);
  }, [rows, order, columns]);
  const [some, more] = useFirst(shown, first);
  if (!rows.length && empty) return emptyOf(empty, hint);
  const turn = (name, sort) => {
    if (sorting) setOrder({ name: sort, down: order.name !== sort || !order.down });
    else setOrder(order?.name !== name ? { name, down: false } : order.down ? null : { name, down: true });
  };
  return html`<div class="scroll" tabindex="0" role="group" aria-label=${label}><table>
    <thead><tr>${columns.map(([name, , looks = '', sort, title]) => {
      const chosen = sort && order?.name === (sorting ? sort : name);
      const sorted = chosen ? (order.down ? 'descending' : 'ascending') : undefined;
      const shownName = looks.includes('unseen') ? html`<span class="unseen">${name}</span>` : name;
      return html`<th scope="col" class=${classOf(looks)} aria-sort=${sorted} title=${title}>
        ${sort ? html`<button type="button" class="plain" onClick=${() => turn(name, sort)}>${shownName}${sorted
            && (order.down ? ' ▾' : ' ▴')}</button>`
          : shownName}</th>`;
    })}</tr></thead>
    <tbody>${some.map((row, index) => html`<tr key=${valueOf(row, rowKey) ?? index} data-row class=${rowClass(row)}>
      ${columns.map(([, cell, looks]) => html`<td class=${classOf(looks)}>${typeof cell === 'string' ? textOf(row[cell])
        : cell(row)}</td>`)}</tr>`)}</tbody>
  </table></div>${more}`;
}

/** A panel of one table; the table's label is the panel's title, if none is given. from: a resource of rows, in place
 * of rows; most: as many as were asked for; more: asks for more; of useList. fits: which rows are shown. */
export function TablePanel({ title, label = title, className, id, tools, from, most, more, fits = (_row) => true,
  ...table }) {
  const shown = (rows) => html`<${Table} label=${label} rows=${rows.filter(fits)} ...${table} />
    ${rows.length === most && html`<p class="row"><span class="quiet">The first ${count(most)}.</span>
      ${more && html`<button type="button" onClick=${more}>More</button>`}</p>`}`;
  return html`<${Panel} title=${title} className=${className} id=${id} tools=${tools}>${from
    ? html`<${Loaded} from=${from} what=${title.toLowerCase()}>${shown}<//>` : shown(table.rows)}<//>`;
}

const LOAD_MS = 30_000; // for a module of a view: one that waits while it loads would never be there
// What browsers say of a module that they did not get: of a fault in its code they say something else.
const NOT_GOT = /dynamically imported module|importing a module script/i;

/** Load the module of a view. Rejects with a Problem: whose fault it is says its remedy. */
async function loadView(place, component, feature) {
  const own = feature ? `correct, upgrade or switch off the feature ${feature}` : 'load the page again';
  const late = new Promise((_, reject) => {
    setTimeout(() => reject(new Error(`${place.replace(/^\.\./, '')} still loads after ${LOAD_MS / 1000} s`)), LOAD_MS);
  });
  try {
    const loaded = await Promise.race([import(place), late]);
    if (!loaded[component]) throw new Error(`${place.replace(/^\.\./, '')} has no component ${component}`);
    return loaded;
  } catch (error) {
    const said = String(error?.message ?? error);
    const other = feature ? `, or ${own}` : '';
    throw new Problem({ title: 'The view does not load', detail: said,
      remedy: NOT_GOT.test(said) ? `is the desk up? Try again when it is${other}` : own });
  }
}

/** A component of a view's module, loaded when it is needed. of: [module, component]; given: its properties. */
export function Later({ of: [module, component, feature], what = module, given }) {
  const place = module.includes('/') ? `../${module}.js` : `../views/${module}.js`;
  const found = useResource(() => loadView(place, component, feature), [module, component]);
  return html`<${Loaded} from=${found} what=${what}>${(loaded) => html`<${loaded[component]} ...${given} />`}<//>`;
}

/** A view of several parts, of which the address says which is shown. parts: [[name, label, component], ...]. */
export function Parts({ title, parts, query, ...rest }) {
  const [shown, , Part] = parts.find(([name]) => name === query.show) ?? parts[0];
  return html`<div class="view stack"><h1>${title} <${Segments} label="What is shown" options=${parts} value=${shown}
    onChange=${(show) => setQuery({ show })} /></h1><${Part} key=${shown} query=${query} ...${rest} /></div>`;
}

/** A modal dialog. onClose: also on Escape. */
export function Dialog({ title, onClose, children }) {
  const box = useRef(null);
  useEffect(() => {
    const opened = box.current;
    const before = /** @type {HTMLElement} */ (document.activeElement);
    opened.showModal();
    // The first thing to do in it; a browser would begin with the cross.
    opened.querySelector('[autofocus], form input, form select, form textarea, .buttons button')?.focus();
    return () => {
      opened.close();
      before?.focus();
    };
  }, []);
  return html`<dialog ref=${box} aria-label=${title} onCancel=${(event) => { event.preventDefault(); onClose(); }}>
    <header><h2>${title}</h2><button type="button" class="plain" aria-label="Close" onClick=${onClose}>✕
      </button></header>
    ${children}</dialog>`;
}

/** A form that sends itself nowhere: submitting runs `run`. */
export const Form = ({ run, children, ...rest }) => html`<form ...${rest} onSubmit=${(event) => {
  event.preventDefault();
  run();
}}>${children}</form>`;

/** A dialog whose form does something. act: of useAction. done: called when it succeeded, by default onClose. */
export function FormDialog({ title, act, action, ready = true, danger = false, onClose, done = onClose, what,
  children }) {
  const submit = async () => ready && (await act.run()) && done();
  return html`<${Dialog} title=${title} onClose=${onClose}><${Form} run=${submit}>
    ${children}
    <${ProblemBox} problem=${act.problem} what=${what} />
    <div class="buttons"><button type="button" onClick=${onClose}>Cancel</button>
      <button type="submit" class=${danger ? 'danger' : 'primary'} disabled=${!ready || act.busy}>${act.busy ? '…'
        : action}</button></div><//><//>`;
}

/** Asks before something that cannot be undone: the person types `word`. run: async. */
export function Confirm({ word, run, children, danger = true, ...dialog }) {
  const [typed, setTyped] = useState('');
  const act = useAction(run);
  return html`<${FormDialog} ...${dialog} act=${act} danger=${danger} ready=${!word || typed.trim() === word}>
    ${children}
    ${word && html`<${Field} label=${html`Type <code>${word}</code> to go on`} value=${typed} onText=${setTyped}
      autocomplete="off" spellcheck="false" autofocus />`}<//>`;
}

/** A write as state. run: async (key) => answer; the key stays the same until it succeeded, so that a second try after
 * a lost answer does not do it twice. Returns {run, busy, problem, answer}; run() returns whether it succeeded. */
export function useAction(run) {
  const [state, setState] = useState({ busy: false, problem: null, answer: null });
  const key = useRef(null);
  const busy = useRef(false);
  const start = async (...given) => {
    if (busy.current) return false;
    busy.current = true;
    key.current ??= newKey();
    setState({ busy: true, problem: null, answer: null });
    try {
      const answer = await run(key.current, ...given);
      key.current = null;
      setState({ busy: false, problem: null, answer });
      return true;
    } catch (problem) {
      // Without an answer nobody knows whether it was done; any other problem is an answer.
      if (!(problem instanceof Problem) || (problem.status !== 0 && problem.status < 500)) key.current = null;
      setState({ busy: false, problem, answer: null });
      return false;
    } finally {
      busy.current = false;
    }
  };
  return { ...state, run: start };
}

/** A button that writes: post(path, body), or does what `run` does. confirm: {title, word, action, children} asks
 * first. done: called with the answer. */
export function ActionButton({ label, path = '', body = {}, confirm, done = (_answer) => {}, className = '', disabled,
  run = async (key) => done(await post(path, body, { key })) }) {
  const [asking, setAsking] = useState(false);
  const act = useAction(run);
  return html`<button type="button" class=${className} disabled=${disabled || act.busy} onClick=${() =>
    (confirm ? setAsking(true) : act.run())}>${act.busy ? '…' : label}</button>
    <${ProblemBox} problem=${act.problem} />
    ${asking && html`<${Confirm} action=${label} ...${confirm} run=${run} onClose=${() => setAsking(false)} />`}`;
}

export const SaveButton = ({ label, path, name }) =>
  html`<${ActionButton} label=${label} run=${() => saveFile(path, name)} />`;

/** Choices as buttons of which one is pressed. options: [[value, label], ...]. */
export function Segments({ label, options, value, onChange }) {
  return html`<div class="segments" role="group" aria-label=${label}>
    ${options.map(([one, name]) => html`<button type="button" aria-pressed=${one === value}
    onClick=${() => onChange(one)}>${name}</button>`)}</div>`;
}

const LIVE = {
  live: ['receiving', 'good'], connecting: ['connecting', 'busy'], polling: ['polling', 'busy'],
  hidden: ['paused', 'plain'], away: ['no connection', 'bad'], ended: ['ended', 'plain'], refused: ['no events', 'bad'],
};
/** The state of a stream, of useLive. */
export function LiveBadge({ live: { state, problem } }) {
  const now = away.value && ['live', 'polling'].includes(state) ? 'away' : !away.value && state === 'away'
    ? 'connecting' : state;
  return badgeOf(...LIVE[now], problem ? plain(problem.detail) : undefined);
}

/** Keeps a view that fails from taking the page along. */
export class Shielded extends Component {
  componentDidCatch(error) {
    console.error(error);
    this.setState({ error });
  }

  componentDidUpdate(before) {
    if (before.name !== this.props.name && this.state.error) this.setState({ error: null });
  }

  render({ children }, { error }) {
    if (!error) return children;
    return html`<${ProblemBox} problem=${{ title: 'This view failed', detail: String(error.message ?? error),
      remedy: 'load it again; the rest of the page goes on' }} again=${() => this.setState({ error: null })} />`;
  }
}

// A long list of which only the rows in sight are in the document.
const SPARE = 8; // rows beyond each edge

/** items: an array. row: (item, index) => content. height: of a row, px. stick: stay at the end while it is in sight.
 * dropped: how many items left the beginning, so that a reader's place stays. label: for screen readers. */
export function VirtualList({ items, row, height = 24, stick = false, dropped = 0, label, className = '' }) {
  const box = useRef(null);
  const place = useRef({ top: 0, atEnd: stick, dropped });
  const [range, setRange] = useState([0, 60]);

  const measure = useCallback(() => {
    if (!box.current) return; // the list has gone meanwhile
    const { scrollTop, clientHeight } = box.current;
    const first = Math.max(Math.floor(scrollTop / height) - SPARE, 0);
    const last = Math.ceil((scrollTop + clientHeight) / height) + SPARE;
    setRange((now) => (now[0] === first && now[1] === last ? now : [first, last]));
  }, [height]);

  const scrolled = useCallback(() => {
    if (!box.current) return;
    const { scrollTop, scrollHeight, clientHeight } = box.current;
    const left = scrollHeight - scrollTop - clientHeight;
    // Only going up leaves the end: rows that are added move it away without anybody's doing.
    if (left < height) place.current.atEnd = true;
    else if (scrollTop < place.current.top) place.current.atEnd = false;
    place.current.top = scrollTop;
    measure();
  }, [height, measure]);

  useLayoutEffect(() => {
    const now = place.current;
    if (stick && now.atEnd) box.current.scrollTop = box.current.scrollHeight;
    else if (dropped > now.dropped) box.current.scrollTop -= (dropped - now.dropped) * height;
    now.dropped = dropped;
    now.top = box.current.scrollTop;
    measure();
  }, [items, items.length, dropped, height]);

  useEffect(() => {
    const seen = new ResizeObserver(() => {
      if (box.current && stick && place.current.atEnd) box.current.scrollTop = box.current.scrollHeight;
      measure();
    });
    seen.observe(box.current);
    return () => seen.disconnect();
  }, [measure]);

  const [first, last] = [Math.min(range[0], items.length), Math.min(range[1], items.length)];
  return html`<div class=${`virtual ${className}`} ref=${box} onScroll=${scrolled} tabindex="0" role="group"
    aria-label=${label}>
    <ul style=${{ height: `${items.length * height}px` }}>
      ${items.slice(first, last).map((item, index) => html`<li key=${first + index + dropped} class="virtual-row"
        aria-posinset=${first + index + 1} aria-setsize=${items.length}
        style=${{ height: `${height}px`, transform: `translateY(${(first + index) * height}px)` }}>
        ${row(item, first + index)}</li>`)}</ul></div>`;
}

/** An event in a list. run: of several runs, so it is named. Few elements: there are many rows. */
export function EventRow({ event, run = false }) {
  const { payload } = event;
  const ended = String(payload.state ?? payload.outcome ?? event.type.split('.')[1]);
  const tone = payload.success === false ? 'bad' : toneOf(ended);
  return html`<time class="num quiet" title=${moments(event.occurred_at)}>${moment(event.occurred_at, 'time')}</time>
    ${run && (event.run_id === 'desk' ? html`<span class="id">desk</span>` : runOf(event.run_id))}
    <span class=${`type badge ${tone}`}>${MARKS[tone]} ${plain(event.type)}</span>
    ${pastOf(payload.account)}<bdi class="about">${about(event)}</bdi>
    ${payload.order ? orderOf(payload.order) : event.thread_id ? threadOf(event.thread_id, 'thread') : ''}`;
}

/** Who made a tool's call, where it was not the model. */
const askerOf = (payload) => (payload.by ? `by ${payload.by}: ` : '');

function about({ type, payload }) {
  const subject = [payload.role, payload.kind, payload.subject, payload.symbol].filter(Boolean).join(' ');
  const more = {
    'tool.started': () => `${askerOf(payload)}${payload.tool} ${payload.arguments ?? ''}`,
    'tool.completed': () =>
      `${askerOf(payload)}${payload.tool} ${payload.success ? '' : 'failed '}${payload.answer ?? ''}`,
    'turn.usage': () => `${compact(payload.total_tokens)} tokens`,
    'turn.progress': () => `${subject} ${payload.phase} for ${span(payload.seconds * 1000)}, ${
      compact(payload.tokens)} tokens, call ${payload.calls}`,
    'turn.completed': () => `${subject} ${span(payload.ms)}`,
    'item.completed': () => `${payload.type ?? ''} ${payload.text ?? ''}`,
    'item.started': () => payload.type ?? '',
    'order.fill': () => `${payload.side} ${quantity(payload.quantity)} ${payload.symbol} at ${
      figure(payload.price, 4)}`,
    'order.state': () => [payload.symbol, payload.was && `${payload.was} →`, payload.state, payload.why]
      .filter(Boolean).join(' '),
    'status.started': () =>
      `${subject}${payload.attempt > 1 ? `, attempt ${payload.attempt}` : ''} on ${payload.owner}`,
    'status.again': () => `${subject}, attempt ${payload.attempt} ${payload.outcome}: ${payload.why ?? ''}`,
    'status.ended': () => `${subject} ${payload.state} ${payload.why ?? ''}`,
    'run.completed': () => `${payload.state} ${(payload.notes ?? []).join('; ')}`,
    'thread.started': () => `${subject} ${payload.model ?? ''}`,
  }[type];
  return short(more ? more() : [subject, payload.what, payload.why, payload.state].filter(Boolean).join(' '), 200);
}

// Pictures that tools gave to turns: fetched with the token, shown from memory, and let go when they are not seen.
export function Picture({ digest, caption }) {
  const found = useResource(({ signal }) => pictureUrl(digest, { signal }), [digest]);
  const url = found.data;
  useEffect(() => () => url && URL.revokeObjectURL(url), [url]);
  return html`<${Loaded} from=${found} what=${caption}>${() => html`<figure class="picture">
    <a href=${url} target="_blank" rel="noopener"><img src=${url} alt=${caption} loading="lazy" /></a>
    <figcaption class="quiet"><${Text}>${caption}<//></figcaption></figure>`}<//>`;
}
