// All runs, filtered by what the address says; and the start of a new one.

import {
  accountOf, ask, badgeOf, between, Choice, costOf, count, Field, Filters, Form, FormDialog, go, html, joined, KIND,
  Link, LiveBadge, Loaded, lookOf, moment, numOf, part, pathWith, plain, post, ProblemBox, quietOf, runOf, runState,
  Segments, setQuery, short, shortId, span, symbolsOf, Table, textOf, timeOf, tokensOf, useAction, useDraft,
  useEffect, useFollowed, useGet, useKeys, usePreference, useResource, useState, words,
} from '../lib/view.js';
import { STATES } from '../lib/looks.js';
import { wrongFields } from '../lib/refused.js';
import { KINDS } from '../lib/palette.js';

const PAGE = 50;
const FOLDED = 200; // runs of a backtest's sessions that are shown below it
const WATCHED = ['run', 'status.ended', 'turn.completed', 'order.state'];
const LATER_MS = 1_500;
const PAUSE_MS = 300;
const NEWEST = 'began'; // as the list is sorted if the address does not say otherwise

async function rowsOf(query, signal) {
  const answer = await ask('GET', pathWith('/runs', { ...query, short: true }), { signal });
  return { rows: (await answer.json()).map(joined('run')), all: Number(answer.headers.get('X-Total-Count')) };
}

export function Runs({ query, desk }) {
  const { kind, state, account, day, symbol, start, like, sort = NEWEST, up } = query;
  const offset = Math.max(Number(query.offset) || 0, 0);
  const asked = { kind, state, account, day, symbol, sort, down: !up, limit: PAGE, offset, backtests: false };
  const runs = useResource(({ signal }) => rowsOf(asked, signal), [JSON.stringify(asked)]);
  const live = useFollowed(WATCHED, [runs], { ms: LATER_MS });
  const page = (by) => setQuery({ offset: Math.max(offset + by, 0) || null });
  useKeys([
    ['s', 'Start a run', () => setQuery({ start: 'screen' })],
    ['n', 'Next runs', () => runs.data && offset + PAGE < runs.data.all && page(PAGE)],
    ['p', 'Previous runs', () => page(-PAGE)],
  ], 'Runs', [offset, runs.data]);
  const filtered = kind || state || account || day || symbol;
  const setSorting = ({ name, down }) => setQuery({ sort: name === NEWEST ? null : name, up: down ? null : 'yes',
    offset: null });
  return html`<div class="view"><h1>Runs <${LiveBadge} live=${live} /></h1>
    <div class="filters"><${Filters} query=${query} of=${filters(desk.data?.kinds ?? [])} also=${{ offset: null }} />
      ${filtered && html`<button type="button" onClick=${() => setQuery({ kind: null, state: null, day: null,
        account: null, symbol: null, offset: null })}>Clear</button>`}
      <button type="button" class="primary" onClick=${() => setQuery({ start: 'screen' })}>Start a run</button>
    </div>
    <${KeptViews} shown=${{ kind, state, account, day, symbol, sort: query.sort, up }} />
    <${Loaded} from=${runs} what="runs" isEmpty=${(found) => !found.rows.length}
      empty=${filtered ? 'No run is like that' : 'There is no run yet'} hint=${filtered ? 'Change or clear the filters.'
        : html`Start one here, or in a terminal: <code>desk screen</code>`}>${({ rows, all }) => html`
      <${Folded} rows=${rows} sorting=${[{ name: sort, down: !up }, setSorting]} at=${runs.at} />
      <p class="row"><span class="quiet num">${count(offset + 1)} to ${count(offset + rows.length)} of ${count(all)}
        </span>
        <button type="button" disabled=${!offset} onClick=${() => page(-PAGE)}>Previous</button>
        <button type="button" disabled=${offset + PAGE >= all} onClick=${() => page(PAGE)}>Next</button></p>`}<//>
    ${start && html`<${Start} key=${like} kind=${start} like=${like} onClose=${() => setQuery({ start: null,
      like: null })} />`}
  </div>`;
}

/** Filters and sortings that a person keeps in this browser, each with a name. shown: those of the address. */
function KeptViews({ shown }) {
  const [text, setText] = usePreference('run-views', '[]');
  const [name, setName] = useState(null); // as it is typed
  const views = JSON.parse(text);
  const keep = (next) => setText(JSON.stringify(next));
  const given = Object.fromEntries(Object.entries(shown).filter(([, value]) => value));
  const same = (view) => JSON.stringify(view.query) === JSON.stringify(given);
  const none = Object.fromEntries(Object.keys(shown).map((key) => [key, null]));
  const offered = Object.keys(given).length > 0 && !views.some(same);
  if (!views.length && !offered) return null;
  const save = () => {
    keep([...views.filter((one) => one.name !== name.trim()), { name: name.trim(), query: given }]);
    setName(null);
  };
  return html`<div class="row" role="group" aria-label="Kept views">
    ${views.map((view) => html`<span class="kept" key=${view.name}><button type="button" aria-pressed=${same(view)}
      onClick=${() => setQuery({ ...none, ...view.query, offset: null })}>${plain(view.name)}</button><button
      type="button" class="plain" aria-label=${`Forget ${plain(view.name)}`}
      onClick=${() => keep(views.filter((one) => one !== view))}>✕</button></span>`)}
    ${offered && name === null
      && html`<button type="button" onClick=${() => setName('')}>Keep these filters…</button>`}
    ${name !== null && html`<${Form} class="row" run=${() => name.trim() && save()}><${Field} className="inline"
      label="Name" value=${name} maxlength="40" onText=${setName} autofocus /><button type="submit"
      disabled=${!name.trim()}>Keep</button><//>`}</div>`;
}

/** The rows of a list, and below a backtest the runs of its sessions once they are asked for. */
function Folded({ rows, sorting, at }) {
  const [open, setOpen] = useState([]);
  const below = useResource(({ signal }) => Promise.all(open.map((parent) =>
    rowsOf({ parent, limit: FOLDED, sort: 'market', down: false }, signal))), [], { again: [open.join(), at] });
  const turn = (id) => setOpen(open.includes(id) ? open.filter((one) => one !== id) : [...open, id]);
  const inside = (id) => below.data?.find((one) => one.rows[0]?.parent_run_id === id)?.rows ?? [];
  const unfolded = (row, within) => [{ ...row, within, open: open.includes(row.id), turn: () => turn(row.id) },
    ...(open.includes(row.id) ? inside(row.id).flatMap((one) => unfolded(one, true)) : [])];
  return html`<${Table} label="Runs" columns=${COLUMNS} rows=${rows.flatMap((row) => unfolded(row, false))}
    sorting=${sorting} rowClass=${(row) => (row.within ? 'within' : '')} />
    ${open.length > 0 && below.problem && html`<${ProblemBox} problem=${below.problem} again=${below.reload}
      what="the sessions" />`}`;
}

const took = (run) => between(run.created_at, run.finished_at);
const filters = (kinds) => [['kind', 'Kind', kinds],
  ['state', 'State', Object.keys(STATES.run).map((state) => [state, lookOf('run', state)[0]])],
  ['account', 'Account'], ['day', 'Day, New York', 'date'], ['symbol', 'Symbol', 'symbol']];
/** What a run came to, as a link to it; for a backtest also what it opened. */
const resultOf = (run) => html`<${Link} to=${`/runs/${run.id}`}>${textOf(run.said)}<//>
  ${run.children > 0 && html`<button type="button" class="plain fold" aria-expanded=${run.open} onClick=${run.turn}>
    ${run.open ? '▾' : '▸'} ${count(run.children)} ${run.kind === 'backtest' ? 'sessions' : 'more'}</button>`}
  ${' '}${run.waiting > 0 && html`<${Link} to="/approvals">${badgeOf(`${count(run.waiting)} wait`, 'warn')}<//>`}`;
const LIKE_KINDS = new Set(KINDS);
const COLUMNS = [
  ['Result', resultOf, 'prose'],
  ['State', (run) => html`${runState(run.state)}${!run.final && html` ${quietOf(numOf(`${run.steps_ended}/${run.steps
    }`))}`}`, '', 'state'],
  KIND,
  ['Symbols', (run) => html`<span class="symbols">${symbolsOf(run.symbols.slice(0, SYMBOLS), run)}${
    run.candidates > SYMBOLS && quietOf(`+${count(run.candidates - SYMBOLS)}`)}</span>`, 'wide'],
  ['Account', (run) => accountOf(run.account), 'wide', 'account'],
  ['Orders', (run) => count(run.orders), 'num wide', 'orders'],
  ['Tokens', (run) => tokensOf(run.tokens), 'num wide', 'tokens'],
  ['Cost', costOf, 'num wide'],
  ['Market day', (run) => timeOf(run.market_now, 'day'), 'wide', 'market'],
  ['Began', (run) => timeOf(run.created_at), '', 'began'],
  ['Took', (run) => (run.final ? span(took(run)) : quietOf(span(took(run)))), 'num wide', 'took'],
  ['Run', (run) => html`<span class="nowrap">${runOf(run.id)}${LIKE_KINDS.has(run.kind) && !run.within
    && html`<button type="button" class="plain" title="Start another with the same input" onClick=${() => setQuery({
      start: run.kind, like: run.id })} aria-label=${`Run ${shortId(run.id)} again`}>↻</button>`}</span>`],
];
const SYMBOLS = 4; // named in a row

/** What can be started, as the desk's own schema has it: [[kind, {help, fields}], ...]. */
function kindsOf({ paths, components }) {
  const { discriminator } = paths['/runs'].post.requestBody.content['application/json'].schema;
  return Object.entries(discriminator.mapping).map(([kind, ref]) => {
    const found = components.schemas[ref.split('/').at(-1)];
    const fields = Object.entries(found.properties).filter(([name]) => name !== 'kind' && name !== 'by')
      .map(([name, field]) => ({ name, ...field, ...field.anyOf?.find((one) => one.type !== 'null'),
        required: found.required.includes(name) })).sort((a, b) => rank(b) - rank(a));
    return /** @type {[string, any]} */ ([kind, { help: found.description, fields }]);
  });
}
const rank = ({ name, required }) => ({ symbols: 1, budget_tokens: -1 }[name] ?? 0) + (required ? 2 : 0);

/** like: a run whose input the form begins with. */
function Start({ kind, like, onClose }) {
  const known = useGet('/openapi.json', {}, { as: kindsOf });
  const earlier = useGet(like ? `/runs/${part(like)}/request` : null);
  const [text, setText, forget] = useDraft(`start:${like ?? ''}`, '{}');
  const drafts = JSON.parse(text); // by kind: what was typed for one is none of another's
  const typed = drafts[kind] ?? {};
  const type = (next) => setText(JSON.stringify({ ...drafts, [kind]: next }));
  useEffect(() => {
    if (earlier.data && text === '{}') type(typedOf(earlier.data));
  }, [earlier.data]);
  const { fields = [], help } = known.data?.find(([name]) => name === kind)?.[1] ?? {};
  const given = fields.filter((field) => (typed[field.name] ?? '') !== '');
  const body = { kind, ...Object.fromEntries(given.map((field) => [field.name, valueOf(field, typed[field.name])])) };
  const act = useAction(async (key) => {
    const run = await post('/runs', body, { key });
    forget();
    go(`/runs/${run.id}`);
  });
  const first = fields.some((one) => rank(one) > 0) ? (one) => rank(one) > 0 : (one) => one === fields[0];
  const [shown, folded] = [fields.filter(first), fields.filter((one) => !first(one))];
  const wrong = wrongFields(act.problem);
  const fieldOf = (field) => html`<${StartField} key=${`${kind} ${field.name}`} field=${field}
    wrong=${wrong[field.name]}
    value=${typed[field.name] ?? ''} set=${(value) => type({ ...typed, [field.name]: value })} />`;
  const ready = fields.length > 0 && fields.every((field) => !field.required || given.includes(field));
  const said = fields.some((one) => wrong[one.name]) ? { ...act, problem: null } : act;
  return html`<${FormDialog} title="Start a run" action="Start" act=${said} what="Not started" ready=${ready}
    onClose=${onClose} done=${() => {}}>
    <${ProblemBox} problem=${earlier.problem} what="the input of that run" />
    <${Loaded} from=${known} what="what can be started">${(kinds) => html`
      <${Segments} label="Kind" options=${kinds.map(([name]) => [name, name])} value=${kind} onChange=${(value) =>
        setQuery({ start: value })} />
      <p class="quiet">${firstSentence(help)}</p>
      ${shown.map(fieldOf)}
      ${folded.length > 0 && html`<details key=${kind}
        open=${folded.some((one) => given.includes(one) || wrong[one.name])}>
        <summary>More: ${short(folded.map((one) => words(one.name)).join(', '), 60)}</summary>
        <div class="stack">${folded.map(fieldOf)}</div></details>`}
      <${Spending} asked=${ready ? JSON.stringify({ by: 'desk', ...body }) : null} />`}<//><//>`;
}

/** What a kind of run is; what follows in its description is of the fields, for programs. */
const firstSentence = (help) => `${plain(help).split(/\.(?:\s|$)/)[0]}.`;

/** An earlier request as its fields were typed. */
const typedOf = (request) => Object.fromEntries(Object.entries(request).map(([name, value]) => [name,
  Array.isArray(value) ? value.join(' ') : typeof value === 'boolean' ? (value ? 'yes' : 'no') : String(value)]));

/** What a run would cost by the desk's record, asked when a person stops typing. */
function Spending({ asked }) {
  const [still, setStill] = useState(null);
  useEffect(() => {
    const timer = setTimeout(() => setStill(asked), PAUSE_MS);
    return () => clearTimeout(timer);
  }, [asked]);
  const { problem, data } = useGet(still && '/spending', { asked: still });
  const said = still === null ? 'what is required comes first' : problem ? textOf(problem.detail) : data?.said ?? '…';
  return html`<p class="quiet num" role="status">Forecast: ${said}</p>`;
}

/** A run with verdicts; the newest where none is chosen. */
function Researched({ value, onText, ...rest }) {
  const runs = useGet('/runs', { limit: 50, short: true, backtests: false });
  const found = (runs.data ?? []).map(joined('run')).filter((one) => one.candidates
    && ['done', 'partial'].includes(one.state) && ['screen', 'research'].includes(one.kind));
  useEffect(() => {
    if (!value && found.length) onText(found[0].id);
  }, [found.length]);
  return html`<${Choice} ...${rest} value=${value} onChange=${onText}
    none=${found.length ? null : 'none has verdicts yet'}
    values=${found.map((one) => [one.id, `${one.kind} of ${moment(one.created_at)}, ${shortId(one.id)}`])} />`;
}

const listed = (text) => text.split(/[\s,;]+/).filter(Boolean);
/** What was typed into a field, as the desk takes it. */
function valueOf({ name, type }, text) {
  if (type === 'array') return name === 'symbols' ? listed(text.toUpperCase()) : listed(text);
  if (type === 'boolean') return text === 'yes';
  return type === 'integer' || type === 'number' ? Number(text) : text;
}

const OF_DESK = 'as the desk is set';
/** What holds where nothing is typed, and what may be. */
function rangeText(usual, { minimum, maximum }) {
  const range = minimum !== undefined && maximum !== undefined ? `${minimum} to ${maximum}`
    : minimum !== undefined ? `${minimum} or more` : '';
  return [usual, range].filter(Boolean).join('; ');
}

function StartField({ field, value, set, wrong }) {
  const { name, type, required, format, minimum, maximum } = field;
  const label = `${name[0].toUpperCase()}${name.slice(1).replaceAll('_', ' ')}`;
  const own = { label, value, required, wrong, onText: set, title: field.description };
  const choices = field.enum ?? (type === 'boolean' ? ['yes', 'no'] : null);
  const by = { true: 'yes', false: 'no' }[field.default] ?? field.default ?? '';
  if (choices) return html`<${Choice} label=${label} value=${value} onChange=${set}
    none=${by === '' ? OF_DESK : by} values=${choices.filter((one) => one !== by)} />`;
  if (name === 'run') return html`<${Researched} ...${own} />`;
  const bounds = { min: minimum, max: maximum, step: type === 'number' ? 'any' : 1 };
  const usual = by === '' ? OF_DESK : by;
  const looks = name === 'symbols' ? { of: 'textarea', placeholder: `such as AAPL IBM KO${required ? ''
    : `; empty: ${OF_DESK}`}` } : format === 'date' ? { type: 'date' } : /integer|number/.test(type)
    ? { type: 'number', placeholder: rangeText(usual, field), ...bounds } : { placeholder: usual };
  return html`<${Field} ...${own} ...${looks} spellcheck="false" />`;
}
