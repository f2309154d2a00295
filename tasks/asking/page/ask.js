// Questions in words and their answers, from the desk's rows or by the clerk; and what changed since a moment.

import {
  column, Facts, Field, html, Loaded, money, Panel, part, plain, post, ProblemBox, runOf, setQuery, Table, textOf,
  timeOf, useAction, useFollowed, useGet, useState,
} from '../../lib/view.js';
import { Proposals } from './proposals.js';

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
  const act = useAction(async (key, text, model) => {
    const found = await post('/asks', { question: text, dialogue: query.in ?? null, model, origin: 'page' }, { key });
    setTyped('');
    setQuery({ in: found.dialogue, q: null });
  });
  const asked = (event) => { event.preventDefault(); act.run(typed.trim(), false); };
  return html`<div class="view"><h1>Ask the desk</h1>
    <form class="row" onSubmit=${asked}>
      <${Field} label="Question" className="inline grow" value=${typed} onText=${setTyped} maxlength="20000"
        placeholder=${query.in ? 'and why?' : 'why was ED bought'} autocomplete="off" />
      <button type="submit" disabled=${act.busy || !typed.trim()}>${act.busy ? '…' : 'Ask'}</button>
      <button type="button" disabled=${act.busy || !typed.trim()} title="Also what the rows answer at once"
        onClick=${() => act.run(typed.trim(), true)}>Ask a model</button>
      ${query.in && html`<button type="button" onClick=${() => setQuery({ in: null })}>New</button>`}</form>
    <${ProblemBox} problem=${act.problem} />
    ${!query.q && html`<${Proposals} />`}
    ${query.in ? html`<${Dialogue} id=${query.in} />` : html`<p class="quiet">Such as: ${EXAMPLES.map((text, n) =>
      html`${n > 0 && '; '}<a href=${`#/ask?q=${encodeURIComponent(text)}`} onClick=${() => setTyped(text)}>${text
      }</a>`)}.</p>
      ${query.q ? html`<${Answered} text=${query.q} clerk=${() => act.run(query.q, true)} />`
    : html`<${Changed} /><${Dialogues} />`}`}</div>`;
}

const linesOf = (text) => plain(text).split('\n').map((line) => html`<p>${line}</p>`);

const Rests = ({ missing, sources, found = '' }) => html`
  ${missing.length > 0 && html`<p class="notice warn">Missing: ${plain(missing.join('; '))}.</p>`}
  ${(found || sources.length > 0) && html`<p class="quiet">${found}${sources.length > 0 && html`From ${
    sources.slice(0, 8).map((one, n) => html`${n > 0 && ', '}<a href=${`#${one.way}`}>${one.kind} ${
      one.id.slice(0, 8)}</a>`)}.`}</p>`}`;

/** What the rows answer; where they have no answer, a person may ask the clerk. */
function Answered({ text, clerk }) {
  const from = useGet('/asks', { q: text });
  return html`<${Loaded} from=${from} what="the answer">${(found) => found.intent === 'propose'
    ? html`<${Proposals} text=${text} />` : html`<${Panel} title=${text} className="whole">
    ${linesOf(found.text)}<${Rests} ...${found} />
    ${!found.intent && html`<button type="button" onClick=${clerk}>Ask the clerk</button>`}<//>`}<//>`;
}

function Dialogue({ id }) {
  const from = useGet(`/dialogues/${part(id)}`);
  const running = (from.data ?? []).find((one) => one.state === 'asked');
  useFollowed(['run.completed'], [from], { run: running?.run_id ?? null, ms: 100 });
  return html`<${Loaded} from=${from} what="the dialogue">${(entries) => html`<div class="stack">${entries.map((one) =>
    html`<${Panel} key=${one.id} title=${one.question} className="whole"><${Entry} entry=${one} /><//>`)}</div>`}<//>`;
}

function Entry({ entry }) {
  if (entry.state === 'asked') {
    return html`<p role="status">The clerk looks it up: ${runOf(entry.run_id)}.</p>`;
  }
  if (entry.state !== 'answered') {
    return html`<p class="notice bad" role="status">No answer, ${entry.state}: ${textOf(entry.reason, 400)}</p>`;
  }
  const found = entry.figures ? `${entry.found} of ${entry.figures} figures found in what was looked up. ` : '';
  return html`${pieces(entry).map((line) => html`<p>${line}</p>`)}<${Rests} ...${entry} found=${found} />`;
}

/** The lines of an answer, with each figure that no tool gave marked. Offsets count letters as the service does. */
function pieces({ given, unsupported }) {
  const letters = Array.from(given);
  const marks = [...unsupported].sort((a, b) => a.start - b.start);
  /** @type {any[][]} */
  const lines = [[]];
  const add = (from, to, mark) => letters.slice(from, to).join('').split('\n').forEach((text, n) => {
    if (n > 0) lines.push([]);
    lines.at(-1).push(mark ? html`<mark title="No tool's answer has this figure">${plain(text)}</mark>` : plain(text));
  });
  let at = 0;
  for (const one of marks) {
    add(at, one.start, false);
    add(one.start, one.end, true);
    at = one.end;
  }
  add(at, letters.length, false);
  return lines;
}

const DIALOGUES = [
  ['Last', (row) => timeOf(row.last_at), '', 'last_at'],
  ['First question', (row) => html`<a href=${`#/ask?in=${row.id}`}>${textOf(row.question, 120)}</a>`, 'wide',
    'question'],
  column('Asked', textOf, 'entries'), column('By', textOf, 'person'),
];

function Dialogues() {
  const from = useGet('/dialogues', { limit: 10 });
  return html`<${Loaded} from=${from} what="the dialogues">${(rows) => rows.length > 0 && html`<${Panel}
    title="Dialogues" className="whole"><${Table} label="Dialogues" columns=${DIALOGUES} rows=${rows} rowKey="id" />
    <//>`}<//>`;
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
