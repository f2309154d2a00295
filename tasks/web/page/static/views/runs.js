// All runs, filtered by what the address says; and the start of a new one.

import {
  ask, badgeOf, between, Check, Choice, column, costOf, count, Field, Filters, FormDialog, go, html, joined, KIND,
  LiveBadge, Loaded, moment, number, pathWith, post, quietOf, runOf, runState, Segments, setQuery, shortId, span,
  symbolsOf, Table, textOf, timeOf, tokensOf, useAction, useDraft, useEffect, useFollowed, useGet, useKeys,
  useResource, useState,
} from '../lib/view.js';

const PAGE = 100;
const STATES = ['running', 'stopping', 'done', 'partial', 'failed', 'stopped'];
const WATCHED = ['run', 'status.ended', 'turn.completed', 'order.state'];
const LATER_MS = 1_500;
const PAUSE_MS = 300;

export function Runs({ query, desk }) {
  const { kind, state, day, symbol, start, backtests } = query;
  const offset = Math.max(Number(query.offset) || 0, 0);
  const runs = useResource(async ({ signal }) => {
    const answer = await ask('GET', pathWith('/runs', { kind, state, day, symbol, limit: PAGE, offset, short: true,
      backtests: backtests === 'yes' }), { signal });
    return { rows: (await answer.json()).map(joined('run')), all: Number(answer.headers.get('X-Total-Count')) };
  }, [kind, state, day, symbol, backtests, offset]);
  const live = useFollowed(WATCHED, [runs], { ms: LATER_MS });
  const page = (by) => setQuery({ offset: Math.max(offset + by, 0) || null });
  useKeys([
    ['s', 'Start a run', () => setQuery({ start: 'screen' })],
    ['n', 'Older runs', () => runs.data && offset + PAGE < runs.data.all && page(PAGE)],
    ['p', 'Newer runs', () => page(-PAGE)],
  ], 'Runs', [offset, runs.data]);
  const filtered = kind || state || day || symbol || backtests;
  return html`<div class="view"><h1>Runs <${LiveBadge} live=${live} /></h1>
    <div class="filters"><${Filters} query=${query} of=${filters(desk.data?.kinds ?? [])} also=${{ offset: null }} />
      <${Check} label="those played on past days too" checked=${backtests === 'yes'} onChange=${(on) =>
        setQuery({ backtests: on ? 'yes' : null, offset: null })} />
      ${filtered && html`<button type="button" onClick=${() => setQuery({ kind: null, state: null, day: null,
        symbol: null, backtests: null, offset: null })}>Clear</button>`}
      <button type="button" class="primary" onClick=${() => setQuery({ start: 'screen' })}>Start a run</button>
    </div>
    <${Loaded} from=${runs} what="runs" isEmpty=${(found) => !found.rows.length}
      empty=${filtered ? 'No run is like that' : 'There is no run yet'} hint=${filtered ? 'Change or clear the filters.'
        : html`Start one here, or in a terminal: <code>desk screen</code>`}>${({ rows, all }) => html`
      <${Table} label="Runs" columns=${COLUMNS} rows=${rows} />
      <p class="row"><span class="quiet num">${count(offset + 1)} to ${count(offset + rows.length)} of ${count(all)}
        </span>
        <button type="button" disabled=${!offset} onClick=${() => page(-PAGE)}>Newer</button>
        <button type="button" disabled=${offset + PAGE >= all} onClick=${() => page(PAGE)}>Older</button></p>`}<//>
    ${start && html`<${Start} kind=${start} onClose=${() => setQuery({ start: null })} />`}
  </div>`;
}

const took = (run) => between(run.created_at, run.finished_at);
const filters = (kinds) => [['kind', 'Kind', kinds], ['state', 'State', STATES], ['day', 'Day, New York', 'date'],
  ['symbol', 'Symbol', 'symbol']];
const COLUMNS = [
  KIND, column('State', runState),
  ['Steps', (run) => `${run.steps_ended}/${run.steps}`, 'num', 'steps'],
  ['Symbols', (run) => html`<span class="symbols">${symbolsOf(run.symbols)}</span>`, 'wide'],
  number('Candidates', count, 'candidates', 'wide'),
  ['Orders', (run) => html`${count(run.orders)} ${run.waiting > 0 && badgeOf(`${run.waiting} wait`, 'warn')}`, 'num',
    'orders'],
  number('Turns', count, 'turns', 'wide'),
  number('Tokens', tokensOf, 'tokens', 'wide'),
  ['Cost', costOf, 'num wide', (run) => run.cost?.usd ?? null],
  ['Market', (run) => html`<span class="num">${textOf(run.market)} ${timeOf(run.market_now, 'day')}</span>`, 'wide',
    'market_now'],
  column('Began', timeOf, 'created_at'),
  ['Took', (run) => (run.final ? span(took(run)) : quietOf(span(took(run)))), 'num', took],
  column('Run', runOf, 'id'),
];

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

function Start({ kind, onClose }) {
  const known = useGet('/openapi.json', {}, { as: kindsOf });
  const [text, setText, forget] = useDraft('start', '{}');
  const typed = JSON.parse(text);
  const { fields = [], help } = known.data?.find(([name]) => name === kind)?.[1] ?? {};
  const given = fields.filter((field) => (typed[field.name] ?? '') !== '');
  const body = { kind, ...Object.fromEntries(given.map((field) => [field.name, valueOf(field, typed[field.name])])) };
  const act = useAction(async (key) => {
    const run = await post('/runs', body, { key });
    forget();
    go(`/runs/${run.id}`);
  });
  const ready = fields.length > 0 && fields.every((field) => !field.required || given.includes(field));
  return html`<${FormDialog} title="Start a run" act=${act} action="Start" what="Not started" ready=${ready}
    onClose=${onClose} done=${() => {}}>
    <${Loaded} from=${known} what="what can be started">${(kinds) => html`
      <${Segments} label="Kind" options=${kinds.map(([name]) => [name, name])} value=${kind} onChange=${(value) =>
        setQuery({ start: value })} />
      <p class="quiet">${help}</p>
      ${fields.map((field) => html`<${StartField} key=${`${kind} ${field.name}`} field=${field}
        value=${typed[field.name] ?? ''}
        set=${(value) => setText(JSON.stringify({ ...typed, [field.name]: value }))} />`)}
      <${Spending} asked=${ready ? JSON.stringify({ by: 'desk', ...body }) : null} />`}<//><//>`;
}

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

function StartField({ field, value, set }) {
  const { name, type, required, format, minimum, maximum } = field;
  const label = `${name[0].toUpperCase()}${name.slice(1).replaceAll('_', ' ')}${required ? '' : ' (optional)'}`;
  const own = { label, value, required, onText: set };
  const choices = field.enum ?? (type === 'boolean' ? ['yes', 'no'] : null);
  const by = { true: 'yes', false: 'no' }[field.default] ?? field.default ?? '';
  if (choices) return html`<${Choice} label=${label} value=${value} onChange=${set}
    none=${by === '' ? 'of the desk' : by} values=${choices.filter((one) => one !== by)} />`;
  if (name === 'run') return html`<${Researched} ...${own} />`;
  const bounds = { min: minimum, max: maximum, step: type === 'number' ? 'any' : 1 };
  const looks = name === 'symbols' ? { of: 'textarea', placeholder: 'AAPL IBM KO' } : format === 'date'
    ? { type: 'date' } : /integer|number/.test(type) ? { type: 'number', placeholder: by, ...bounds }
      : { placeholder: by };
  return html`<${Field} ...${own} ...${looks} spellcheck="false" />`;
}
