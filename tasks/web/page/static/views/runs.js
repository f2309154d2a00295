// All runs, filtered by what the address says; and the start of a new one.

import {
  Badge, badgeOf, between, Choice, compact, costOf, count, date, Empty, FilterField, FormDialog, getResponse, go, html,
  joined, LiveBadge, Loaded, post, quietOf, runOf, Segments, setQuery, span, symbolOf, Table, textOf, timeOf,
  useAction, useDraft, useKeys, useLive, useResource,
} from '../lib/view.js';

const PAGE = 100;
const KINDS = ['screen', 'research', 'analyze', 'trade', 'episode', 'backtest', 'graph'];
const STATES = ['running', 'stopping', 'done', 'partial', 'failed', 'stopped'];
const WATCHED = ['run', 'status.ended', 'turn.completed', 'order.state'];
const LATER_MS = 1_500;

export function Runs({ query }) {
  const { kind, state, day, symbol, start } = query;
  const offset = Math.max(Number(query.offset) || 0, 0);
  const runs = useResource(async ({ signal }) => {
    const answer = await getResponse('/runs', { kind, state, day, symbol, limit: PAGE, offset, short: true }, { signal });
    return { rows: (await answer.json()).map(joined('run')), all: Number(answer.headers.get('X-Total-Count')) };
  }, [kind, state, day, symbol, offset]);
  const live = useLive('/events', { query: { type: WATCHED, bodies: false }, onEvents: () => runs.soon(LATER_MS), onGap: () => runs.soon(0) });
  const page = (by) => setQuery({ offset: Math.max(offset + by, 0) || null });
  useKeys([
    ['s', 'Start a run', () => setQuery({ start: 'screen' })],
    ['n', 'Older runs', () => runs.data && offset + PAGE < runs.data.all && page(PAGE)],
    ['p', 'Newer runs', () => page(-PAGE)],
  ], 'Runs', [offset, runs.data]);
  const filter = (changes) => setQuery({ ...changes, offset: null });
  return html`<div class="view"><h1>Runs <${LiveBadge} live=${live} /></h1>
    <div class="filters">
      <${Choice} label="Kind" values=${KINDS} value=${kind} onChange=${(value) => filter({ kind: value })} />
      <${Choice} label="State" values=${STATES} value=${state} onChange=${(value) => filter({ state: value })} />
      <label>Day, New York<input type="date" value=${day ?? ''} onChange=${(event) => filter({ day: event.target.value })} /></label>
      <${FilterField} label="Symbol" size="8" maxlength="16" value=${symbol} onChange=${(value) => filter({ symbol: value.toUpperCase() })} />
      ${(kind || state || day || symbol) && html`<button type="button" onClick=${() => filter({ kind: null, state: null, day: null, symbol: null })}>Clear</button>`}
      <button type="button" class="primary" onClick=${() => setQuery({ start: 'screen' })}>Start a run</button>
    </div>
    <${Loaded} from=${runs} what="runs" isEmpty=${(found) => !found.rows.length} empty=${html`<${Nothing} filtered=${kind || state || day || symbol} />`}>${(found) => html`
      <${Table} label="Runs" columns=${COLUMNS} rows=${found.rows} rowKey="id" />
      <p class="row"><span class="quiet num">${count(offset + 1)} to ${count(offset + found.rows.length)} of ${count(found.all)}</span>
        <button type="button" disabled=${!offset} onClick=${() => page(-PAGE)}>Newer</button>
        <button type="button" disabled=${offset + PAGE >= found.all} onClick=${() => page(PAGE)}>Older</button></p>`}<//>
    ${start && html`<${Start} kind=${start} onClose=${() => setQuery({ start: null })} />`}
  </div>`;
}

const Nothing = ({ filtered }) => html`<${Empty} title=${filtered ? 'No run is like that' : 'There is no run yet'}>
  ${filtered ? 'Change or clear the filters.' : html`Start one here, or in a terminal: <code>desk screen</code>`}<//>`;

const COLUMNS = [
  ['Run', (run) => runOf(run.id)],
  ['Kind', (run) => html`${run.kind}${run.schedule && html` ${quietOf(textOf(run.schedule))}`}`, '', 'kind'],
  ['State', (run) => badgeOf(run.state), '', 'state'],
  ['Steps', (run) => `${run.steps_ended}/${run.steps}`, 'num', 'steps'],
  ['Symbols', (run) => html`<span class="symbols">${run.symbols.map((one) => html`${symbolOf(one)} `)}</span>`, 'wide'],
  ['Candidates', (run) => count(run.candidates), 'num wide', 'candidates'],
  ['Orders', (run) => html`${count(run.orders)}${run.waiting > 0 && html` <${Badge} tone="warn">${run.waiting} wait<//>`}`, 'num', 'orders'],
  ['Turns', (run) => count(run.turns), 'num wide', 'turns'],
  ['Tokens', (run) => html`<span title=${count(run.tokens)}>${compact(run.tokens)}</span>`, 'num wide', 'tokens'],
  ['Cost', costOf, 'num wide', (run) => run.cost?.usd ?? null],
  ['Market', (run) => html`<span class="num">${textOf(run.market)} ${timeOf(run.market_now, 'day')}</span>`, 'wide', 'market_now'],
  ['Began', (run) => timeOf(run.created_at), '', (run) => date(run.created_at)],
  ['Took', (run) => (run.final ? span(between(run.created_at, run.finished_at)) : quietOf(span(between(run.created_at)))), 'num', (run) => between(run.created_at, run.finished_at)],
];

const STARTS = [['screen', 'Screen'], ['research', 'Research'], ['analyze', 'Analysis']];
const HELP = {
  screen: 'Screens the symbols, or the desk’s universe without any; then research, a decision and orders.',
  research: 'Research on the symbols, or on what the account holds without any.',
  analyze: 'Chart, options and research analysts on each symbol, and a proposed put or covered call.',
};

function Start({ kind, onClose }) {
  const [symbols, setSymbols, forget] = useDraft('start-symbols');
  const [most, setMost, forgetMost] = useDraft('start-most');
  const listed = symbols.toUpperCase().split(/[\s,;]+/).filter(Boolean);
  const act = useAction(async (key) => {
    const body = { kind, ...(listed.length ? { symbols: listed } : {}), ...(kind === 'screen' && most ? { most: Number(most) } : {}) };
    const run = await post('/runs', body, { key });
    forget();
    forgetMost();
    go(`/runs/${run.id}`);
  });
  return html`<${FormDialog} title="Start a run" act=${act} action="Start" what="Not started" ready=${kind !== 'analyze' || listed.length > 0} onClose=${onClose} done=${() => {}}>
    <${Segments} label="Kind" options=${STARTS} value=${kind} onChange=${(value) => setQuery({ start: value })} />
    <p class="quiet">${HELP[kind]}</p>
    <label>Symbols${kind === 'analyze' ? '' : ' (optional)'}
      <textarea value=${symbols} onInput=${(event) => setSymbols(event.target.value)} placeholder="AAPL IBM KO"
      spellcheck="false" required=${kind === 'analyze'}></textarea></label>
    ${kind === 'screen' && html`<label>Candidates at most (optional)<input type="number" min="1" max="500" value=${most} onInput=${(event) => setMost(event.target.value)} /></label>`}<//>`;
}
