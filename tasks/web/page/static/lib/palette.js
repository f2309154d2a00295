// Ctrl-K: symbols, runs, orders and what the page can do, found by a few letters. What a backtest did in its sessions
// is found from the backtest.

import {
  bindings, Dialog, Field, go, html, lookOf, moment, part, plain, quietOf, short, shortId, useEffect, useGet, useState,
} from './view.js';

const MOST = 12;
const EACH = 5;
export const KINDS = ['screen', 'research', 'analyze', 'trade', 'episode', 'backtest'];

const matches = (text, words) => words.every((word) => text.toLowerCase().includes(word));

/** A line for words to each view that takes some. views: of the status. */
export function Words({ views }) {
  const [typed, setTyped] = useState('');
  return (views ?? []).filter((view) => view.words).map((view) => html`<form class="row" key=${view.path} role="search"
    onSubmit=${(event) => { event.preventDefault(); go(view.path, { q: typed.trim() }); }}>
    <${Field} label=${view.words} className="inline grow" value=${typed} onText=${setTyped} autocomplete="off" />
    <button type="submit" disabled=${!typed.trim()}>Ask</button></form>`);
}

/** commands: [[text, run], ...], beside those that have a key. views: of the status, some of which take words. */
export function Palette({ onClose, commands, views = [] }) {
  const [text, setText] = useState('');
  const [at, setAt] = useState(0);
  const [due, setDue] = useState(false); // Enter was pressed before all was there
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  const symbol = /^[A-Za-z0-9][A-Za-z0-9.&-]{0,19}$/.test(text.trim()) ? text.trim().toUpperCase() : null;
  const symbols = useGet(symbol ? '/symbols' : null, { q: symbol, limit: EACH });
  const runs = useGet('/runs', { limit: 50, short: true, backtests: false });
  const orders = useGet('/orders', { limit: 50, backtests: false });
  const found = [
    ...(symbols.data ?? []).map((one) => ['symbol', one.symbol, () => go(`/symbols/${part(one.symbol)}`)]),
    ...bindings.value.filter((one) => one.keys !== 'Ctrl-K').map((one) => [one.group === 'Go to' ? 'go to' : 'page',
      one.what, one.run]),
    ...commands.map(([name, run]) => ['do', name, run]),
    ...KINDS.map((kind) => ['start', `Start: ${kind}`, () => go('/runs', { start: kind })]),
    ...(runs.data ?? []).map(({ run: { id, kind, state, created_at: at } }) =>
      ['run', `${kind} ${lookOf('run', state)[0]}, ${moment(at)}, ${shortId(id)}`, () => go(`/runs/${id}`)]),
    ...(orders.data ?? []).map(({ order: { id, side, action, symbol: of, state } }) =>
      ['order', `${side ?? action} ${of} ${lookOf('order', state)[0]}, ${shortId(id)}`, () => go(`/orders/${id}`)]),
    ...(symbol ? [['symbol', symbol, () => go(`/symbols/${part(symbol)}`)]] : []),
  ].filter(([kind, name], place, all) => matches(`${kind} ${plain(name)}`, words)
    && all.findIndex((one) => one[0] === kind && one[1] === name) === place).slice(0, MOST);
  if (words.length) {
    found.push(...views.filter((view) => view.words).map((view) => ['ask', `${view.words}: ${text.trim()}`,
      () => go(view.path, { q: text.trim() })]));
  }
  const loading = runs.loading || orders.loading || (symbol !== null && symbols.loading);
  useEffect(() => setAt(0), [text]);
  const choose = (one) => {
    onClose();
    one?.[2]();
  };
  useEffect(() => {
    if (due && !loading) choose(found[at]);
  }, [due, loading]);
  const pressed = (event) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step) setAt((now) => Math.min(Math.max(now + step, 0), found.length - 1));
    else if (event.key === 'Enter') setDue(true);
    else if (event.key === 'Escape') onClose(); // a field of searches would take the first one
    else return;
    event.preventDefault();
  };
  return html`<${Dialog} title="Find" onClose=${onClose}>
    <input type="search" class="full" role="combobox" aria-label="Symbols, runs, orders, commands" aria-expanded="true"
      aria-controls="palette" aria-activedescendant=${found.length ? `palette-${at}` : undefined} autofocus
      value=${text} onInput=${(event) => setText(event.target.value)} onKeyDown=${pressed} spellcheck="false"
      autocomplete="off" />
    <ul class="palette" id="palette" role="listbox" aria-label="Found">${found.map((one, place) => html`
      <li key=${`${one[0]} ${one[1]}`} id=${`palette-${place}`} role="option" aria-selected=${!loading && place === at}
        onClick=${() => choose(one)}><span>${short(one[1], 70)}</span> ${quietOf(one[0])}</li>`)}</ul>
    ${!found.length && html`<p class="quiet" role="status">Nothing is like that</p>`}<//>`;
}
