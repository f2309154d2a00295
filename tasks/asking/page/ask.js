// A question in words and its answer from the desk's rows; and what changed since a moment.

import {
  column, Facts, Field, html, Loaded, money, Panel, plain, setQuery, Table, textOf, timeOf, useGet, useState,
} from '../../lib/view.js';

const EXAMPLES = ['what changed since yesterday', 'my weakest three holdings', 'orders waiting', 'cost today', 'help'];
const EVERY_MS = 60_000;

const CHANGES = [
  ['When', (row) => timeOf(row.at), '', 'at'], column('Kind', textOf),
  ['Change', (row) => (row.order_id || row.run_id
    ? html`<a href=${row.order_id ? `#/orders/${row.order_id}` : `#/runs/${row.run_id}`}>${textOf(row.text, 160)}</a>`
    : textOf(row.text, 160)), 'wide', 'text'],
];

export function Ask({ query }) {
  const [typed, setTyped] = useState(query.q ?? '');
  const asked = (event) => { event.preventDefault(); setQuery({ q: typed.trim() }); };
  return html`<div class="view"><h1>Ask the desk</h1>
    <form class="row" onSubmit=${asked}>
      <${Field} label="Question" className="inline grow" value=${typed} onText=${setTyped} maxlength="2000"
        placeholder="why was ED bought" autocomplete="off" />
      <button type="submit" disabled=${!typed.trim()}>Ask</button></form>
    <p class="quiet">Such as: ${EXAMPLES.map((text, n) => html`${n > 0 && '; '}<a
      href=${`#/ask?q=${encodeURIComponent(text)}`} onClick=${() => setTyped(text)}>${text}</a>`)}.</p>
    ${query.q ? html`<${Answered} text=${query.q} />` : html`<${Changed} />`}</div>`;
}

function Answered({ text }) {
  const from = useGet('/asks', { q: text });
  return html`<${Loaded} from=${from} what="the answer">${(found) => html`<${Panel} title=${text} className="whole">
    ${plain(found.text).split('\n').map((line) => html`<p>${line}</p>`)}
    ${found.missing.length > 0 && html`<p class="notice warn">Missing: ${plain(found.missing.join('; '))}.</p>`}
    ${found.sources.length > 0 && html`<p class="quiet">From ${found.sources.slice(0, 8).map((one, n) => html`${
      n > 0 && ', '}<a href=${`#${one.way}`}>${one.kind} ${one.id.slice(0, 8)}</a>`)}.</p>`}<//>`}<//>`;
}

function Changed() {
  const from = useGet('/changes', {}, { every: EVERY_MS });
  return html`<${Loaded} from=${from} what="what changed">${(found) => html`
    <${Panel} title="Since the last close" className="whole"><${Facts} rows=${[
      ['Since', timeOf(found.since)],
      ['Equity', found.equity === null ? 'no mark yet' : money(found.equity)],
      ['Before', found.equity_before === null ? 'no mark yet' : money(found.equity_before)],
      ['Tokens', html`<span class="num">${found.tokens.toLocaleString('en-US')}</span>`],
    ]} /><${Table} columns=${CHANGES} rows=${found.changes} /><//>`}<//>`;
}
