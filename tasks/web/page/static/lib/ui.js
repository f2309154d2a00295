// The parts that views are made of. All text of the desk goes through these or through ${...}: never as markup.

import { Component } from 'preact';
import { html, useEffect, useMemo, useRef, useState } from './html.js';
import { newKey, post, Problem, saveFile } from './api.js';
import { MISSING, ago, moment, moments, zone } from './format.js';
import { href } from './router.js';
import { plain, safeUrl, short, shortId } from './text.js';

export { html } from './html.js';
export { VirtualList } from './list.js';

/** Text of the desk, with what hides or reorders it made visible. most: characters shown; the rest is in the tooltip. */
export function Text({ children, most = 0, className = '' }) {
  const text = plain([children].flat().join(''));
  const cut = most ? short(text, most) : text;
  return html`<bdi class=${className} title=${cut === text ? undefined : text}>${cut}</bdi>`;
}

/** A text field of a filter. What is typed stays the field's own until Enter or until it is left: views render anew whenever
 * the desk's events arrive, and would take a half-typed symbol away. onChange gets the text. */
export function FilterField({ label, value = '', onChange, ...rest }) {
  const [typed, setTyped] = useState(value);
  useEffect(() => setTyped(value), [value]);
  return html`<label class="inline">${label}<input type="text" ...${rest} value=${typed} onInput=${(event) => setTyped(event.target.value)} onChange=${(event) => onChange(event.target.value.trim())} /></label>`;
}

/** A link to a view: <${Link} to="/runs/x">. */
export function Link({ to, query, children, className, title }) {
  return html`<a href=${href(to, query)} class=${className} title=${title}>${children}</a>`;
}
export const RunLink = ({ id }) => (id ? html`<${Link} to=${`/runs/${id}`} className="id" title=${id}>${shortId(id)}<//>` : MISSING);
export const SymbolLink = ({ symbol }) => (symbol ? html`<${Link} to=${`/symbols/${encodeURIComponent(symbol)}`} className="symbol">${plain(symbol)}<//>` : MISSING);
export const OrderLink = ({ id }) => (id ? html`<${Link} to=${`/orders/${id}`} className="id" title=${id}>${shortId(id)}<//>` : MISSING);
export const ThreadLink = ({ id, children }) => (id ? html`<${Link} to=${`/threads/${encodeURIComponent(id)}`} className="id" title=${id}>${children ?? shortId(id)}<//>` : MISSING);

/** A link out of the desk, to what a tool or a model named: as text when its address is none of the web. */
export function OutLink({ url, children }) {
  const safe = safeUrl(url);
  const shown = html`<${Text} most=${80}>${children ?? url}<//>`;
  return safe ? html`<a href=${safe} target="_blank" rel="noreferrer noopener" class="out">${shown} ↗</a>` : shown;
}

/** A moment: in New York or local time as the page is set; all of them in the tooltip. parts: time, minute, day, both. */
export function Time({ at, parts = 'both' }) {
  return html`<time class="num" datetime=${at ?? undefined} title=${moments(at)}>${moment(at, parts, zone.value)}</time>`;
}
export function Ago({ at }) {
  const [, draw] = useState(0);
  useEffect(() => {
    const timer = setInterval(() => !document.hidden && draw((n) => n + 1), 5_000);
    return () => clearInterval(timer);
  }, []);
  return html`<time class="num" datetime=${at ?? undefined} title=${moments(at)}>${ago(at)}</time>`;
}

/** A figure, aligned with the others of its column. sign: colour gains and losses, which have their sign as text. */
export function Figure({ children, value, sign = false }) {
  const tone = sign && Number(value) ? (Number(value) > 0 ? 'gain' : 'loss') : '';
  return html`<span class=${`num ${tone}`}>${children}</span>`;
}

const TONES = {
  good: ['done', 'filled', 'confirmed', 'buy', 'strong buy', 'ok', 'active', 'approved', 'completed', 'up', 'running'],
  busy: ['pending', 'ready', 'started', 'submitted', 'waiting', 'previewed', 'submitting', 'accepted', 'draft', 'partial', 'sent'],
  warn: ['stopping', 'caution', 'expired', 'retry', 'reducing', 'hold', 'late', 'stopped', 'cancelled', 'skipped', 'lost', 'preview', 'interrupted'],
  bad: ['failed', 'reject', 'rejected', 'denied', 'halted', 'sell', 'strong sell', 'down', 'refused', 'error', 'unknown', 'live', 'real money'],
};
const MARKS = { good: '●', busy: '◐', warn: '▲', bad: '■', plain: '○' };

/** A state as a word with a mark: colour is never the only sign. tone: good, busy, warn, bad or plain; by the word
 * itself where it is left out. */
export function Badge({ children, tone, title }) {
  const word = plain([children].flat().join('')).replaceAll('_', ' ');
  const found = tone ?? Object.keys(TONES).find((name) => TONES[name].includes(word.toLowerCase())) ?? 'plain';
  return html`<span class=${`badge ${found}`} title=${title}><span aria-hidden="true">${MARKS[found]}</span> ${word}</span>`;
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
export const Empty = ({ title, children }) => html`<div class="empty"><p><strong>${title}</strong></p>${children && html`<p>${children}</p>`}</div>`;
export const Loading = ({ what = '' }) => html`<div class="loading" role="status"><span class="spin" aria-hidden="true"></span> loading ${what}</div>`;

/** A resource of useResource in whatever state it is: loading, failed, empty, stale or there.
 * children: (data) => content. empty: content for data that isEmpty finds empty. */
export function Loaded({ from, what = '', children, empty, isEmpty = (data) => Array.isArray(data) && !data.length }) {
  if (from.data === undefined) {
    return from.problem ? html`<${ProblemBox} problem=${from.problem} again=${from.reload} what=${what} />` : html`<${Loading} what=${what} />`;
  }
  const stale = from.stale && html`<div class="stale" role="status">
    <${Badge} tone="warn">stale<//> as of <${Ago} at=${from.at?.toISOString()} />: ${plain(from.problem.detail || from.problem.title)}
    <button type="button" onClick=${from.reload}>Try again</button></div>`;
  return html`${stale}${empty && isEmpty(from.data) ? empty : children(from.data)}`;
}

/** A box with a heading. tools: to the right of it. */
export function Panel({ title, tools, children, className = '', id }) {
  return html`<section class=${`panel ${className}`} id=${id} aria-label=${title}>
    ${(title || tools) && html`<header><h2>${title}</h2><div class="tools">${tools}</div></header>`}
    <div class="body">${children}</div>
  </section>`;
}

/** Names with values: [[name, value], ...]; a row whose value is undefined is left out. */
export function Facts({ rows }) {
  return html`<dl class="facts">${rows.filter(([, value]) => value !== undefined).map(([name, value]) => html`<div><dt>${name}</dt><dd>${value ?? MISSING}</dd></div>`)}</dl>`;
}

/** Text laid out as it is, in a box that scrolls. label: what it is. */
export const Block = ({ label, children }) => html`<pre class="block" tabindex="0" role="group" aria-label=${label}>${children}</pre>`;

/** A table. columns: {id, label, cell(row), num, sort(row), wide, prose, unseen, title}. rows: any array. rowKey: (row) =>
 * key. num columns align at the decimal point when cell returns fixed decimals. empty: content without rows. Columns with
 * `wide` are left out on narrow screens; those with `prose` keep room for a few words; the label of `unseen` ones is for
 * readers that do not see. */
export function Table({ columns, rows, rowKey, label, empty, rowClass = () => '' }) {
  const [order, setOrder] = useState(null);
  const shown = useMemo(() => {
    const column = order && columns.find((one) => one.id === order.id);
    if (!column) return rows;
    const ranked = rows.map((row) => [column.sort(row), row]);
    const rank = (a, b) => (a === b ? 0 : a === null || a === undefined ? 1 : b === null || b === undefined ? -1 : (a < b ? -1 : 1) * (order.down ? -1 : 1));
    return ranked.sort(([a], [b]) => rank(a, b)).map(([, row]) => row);
  }, [rows, order, columns]);
  if (!rows.length && empty) return empty;
  const turn = (id) => setOrder((now) => (now?.id !== id ? { id, down: false } : now.down ? null : { id, down: true }));
  const named = (column) => `${column.num ? 'right' : ''} ${column.wide ? 'wide' : ''} ${column.prose ? 'prose' : ''}`;
  const labelOf = (column) => (column.unseen ? html`<span class="unseen">${column.label}</span>` : column.label);
  return html`<div class="scroll" tabindex="0" role="group" aria-label=${label}><table>
    <thead><tr>${columns.map((column) => {
      const sorted = order?.id === column.id ? (order.down ? 'descending' : 'ascending') : undefined;
      const mark = sorted && (order.down ? ' ▾' : ' ▴');
      return html`<th scope="col" class=${named(column)} aria-sort=${sorted} title=${column.title}>
        ${column.sort ? html`<button type="button" class="plain" onClick=${() => turn(column.id)}>${labelOf(column)}${mark}</button>` : labelOf(column)}</th>`;
    })}</tr></thead>
    <tbody>${shown.map((row, index) => html`<tr key=${rowKey ? rowKey(row) : index} data-row class=${rowClass(row)}>
      ${columns.map((column) => html`<td class=${named(column)}>${column.cell(row)}</td>`)}</tr>`)}</tbody>
  </table></div>`;
}

/** A modal dialog. onClose: also on Escape. */
export function Dialog({ title, onClose, children }) {
  const box = useRef(null);
  useEffect(() => {
    const opened = box.current;
    opened.showModal();
    return () => opened.close();
  }, []);
  return html`<dialog ref=${box} aria-label=${title} onCancel=${(event) => { event.preventDefault(); onClose(); }}>
    <header><h2>${title}</h2><button type="button" class="plain" aria-label="Close" onClick=${onClose}>✕</button></header>
    ${children}
  </dialog>`;
}

/** Asks before something that cannot be undone: the person types `word`. run: async; its Problem is shown, and what was
 * typed stays. */
export function Confirm({ title, word, action, run, onClose, children, danger = true }) {
  const [typed, setTyped] = useState('');
  const act = useAction(run);
  const ready = !word || typed.trim() === word;
  const submit = async (event) => {
    event.preventDefault();
    if (ready && (await act.run())) onClose();
  };
  return html`<${Dialog} title=${title} onClose=${onClose}><form onSubmit=${submit}>
    ${children}
    ${word && html`<label>Type <code>${word}</code> to go on<input type="text" value=${typed} onInput=${(event) => setTyped(event.target.value)} autocomplete="off" spellcheck="false" autofocus /></label>`}
    <${ProblemBox} problem=${act.problem} />
    <div class="buttons"><button type="button" onClick=${onClose}>Cancel</button>
      <button type="submit" class=${danger ? 'danger' : 'primary'} disabled=${!ready || act.busy}>${act.busy ? '…' : action}</button></div>
  </form><//>`;
}

/** A write as state. run: async (key) => answer; the key stays the same until it succeeded, so that a second try after a
 * lost answer does not do it twice. Returns {run, busy, problem, answer}; run() returns whether it succeeded. */
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

/** A button that writes: post(path, body). confirm: {title, word, children} asks first. done: called with the answer. */
export function ActionButton({ label, path, body = {}, confirm, done = () => {}, className = '', disabled }) {
  const [asking, setAsking] = useState(false);
  const send = async (key) => {
    const answer = await post(path, typeof body === 'function' ? body() : body, { key });
    done(answer);
    return answer;
  };
  const act = useAction(send);
  return html`<button type="button" class=${className} disabled=${disabled || act.busy} onClick=${() => (confirm ? setAsking(true) : act.run())}>${act.busy ? '…' : label}</button>
    ${act.problem && html`<${ProblemBox} problem=${act.problem} />`}
    ${asking && html`<${Confirm} ...${confirm} action=${label} run=${send} onClose=${() => setAsking(false)} />`}`;
}

/** A button that saves what a path answers as a file. */
export function SaveButton({ label, path, name }) {
  const act = useAction(() => saveFile(path, name));
  return html`<button type="button" disabled=${act.busy} onClick=${() => act.run()}>${act.busy ? '…' : label}</button>
    ${act.problem && html`<${ProblemBox} problem=${act.problem} />`}`;
}

/** Choices as buttons of which one is pressed. options: [[value, label], ...]. */
export function Segments({ label, options, value, onChange }) {
  return html`<div class="segments" role="group" aria-label=${label}>${options.map(([one, name]) => html`<button type="button" aria-pressed=${one === value} onClick=${() => onChange(one)}>${name}</button>`)}</div>`;
}

const LIVE = {
  live: ['good', 'receiving'], connecting: ['busy', 'connecting'], polling: ['busy', 'polling'], hidden: ['plain', 'paused'],
  away: ['bad', 'no connection'], ended: ['plain', 'ended'], refused: ['bad', 'no events'],
};
/** The state of a stream, of useLive. */
export function LiveBadge({ live }) {
  const [tone, word] = LIVE[live.state] ?? ['plain', live.state];
  return html`<${Badge} tone=${tone} title=${live.problem ? plain(live.problem.detail) : undefined}>${word}<//>`;
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
    return html`<${ProblemBox} problem=${{ title: 'This view failed', detail: String(error.message ?? error), remedy: 'load it again; the rest of the page goes on' }} again=${() => this.setState({ error: null })} />`;
  }
}
