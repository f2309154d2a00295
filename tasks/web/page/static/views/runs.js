// All runs, filtered by what the address says; and the start of a new one.

import { getResponse, post } from '../lib/api.js';
import { html, useEffect, useState } from '../lib/html.js';
import { go, setQuery } from '../lib/router.js';
import { between, compact, count, date, money, span } from '../lib/format.js';
import { useKeys } from '../lib/keys.js';
import { useLive } from '../lib/live.js';
import { useDraft, useResource } from '../lib/store.js';
import { Badge, Dialog, Empty, LiveBadge, Loaded, ProblemBox, RunLink, Segments, SymbolLink, Table, Text, Time, useAction } from '../lib/ui.js';

const PAGE = 100;
const KINDS = ['screen', 'research', 'analyze', 'trade', 'episode', 'backtest', 'graph'];
const STATES = ['running', 'stopping', 'done', 'partial', 'failed', 'stopped'];
const WATCHED = ['run', 'status.ended', 'turn.completed', 'order.state'];
const LATER_MS = 1_500;

export default function Runs({ query }) {
  const { kind, state, day, symbol, start } = query;
  const offset = Math.max(Number(query.offset) || 0, 0);
  const runs = useResource(async ({ signal }) => {
    const answer = await getResponse('/runs', { kind, state, day, symbol, limit: PAGE, offset, short: true }, { signal });
    return { rows: await answer.json(), all: Number(answer.headers.get('X-Total-Count')) };
  }, [kind, state, day, symbol, offset]);
  const live = useLive('/events', { query: { type: WATCHED, bodies: false }, onEvents: () => runs.soon(LATER_MS), onGap: () => runs.soon(0) });
  const page = (by) => setQuery({ offset: Math.max(offset + by, 0) || null });
  useKeys([
    ['s', 'Start a run', () => setQuery({ start: 'screen' })],
    ['r', 'Load again', runs.reload],
    ['n', 'Older runs', () => runs.data && offset + PAGE < runs.data.all && page(PAGE)],
    ['p', 'Newer runs', () => page(-PAGE)],
  ], 'Runs', [offset, runs.data]);
  const filter = (changes) => setQuery({ ...changes, offset: null });
  return html`<div class="view"><h1>Runs <${LiveBadge} live=${live} /></h1>
    <div class="filters">
      <${Choice} label="Kind" values=${KINDS} value=${kind} onChange=${(value) => filter({ kind: value })} />
      <${Choice} label="State" values=${STATES} value=${state} onChange=${(value) => filter({ state: value })} />
      <label>Day, New York<input type="date" value=${day ?? ''} onChange=${(event) => filter({ day: event.target.value })} /></label>
      <${SymbolFilter} value=${symbol} onChange=${(value) => filter({ symbol: value })} />
      ${(kind || state || day || symbol) && html`<button type="button" onClick=${() => filter({ kind: null, state: null, day: null, symbol: null })}>Clear</button>`}
      <button type="button" class="primary" onClick=${() => setQuery({ start: 'screen' })}>Start a run</button>
    </div>
    <${Loaded} from=${runs} what="runs" isEmpty=${(found) => !found.rows.length} empty=${html`<${Nothing} filtered=${kind || state || day || symbol} />`}>${(found) => html`
      <${Table} label="Runs" columns=${COLUMNS} rows=${found.rows} rowKey=${(run) => run.id} />
      <p class="row"><span class="quiet num">${count(offset + 1)} to ${count(offset + found.rows.length)} of ${count(found.all)}</span>
        <button type="button" disabled=${!offset} onClick=${() => page(-PAGE)}>Newer</button>
        <button type="button" disabled=${offset + PAGE >= found.all} onClick=${() => page(PAGE)}>Older</button></p>`}<//>
    ${start && html`<${Start} kind=${start} onClose=${() => setQuery({ start: null })} />`}
  </div>`;
}

const Nothing = ({ filtered }) => html`<${Empty} title=${filtered ? 'No run is like that' : 'There is no run yet'}>${filtered ? 'Change or clear the filters.' : html`Start one here, or in a terminal: <code>desk screen</code>`}<//>`;

const Choice = ({ label, values, value, onChange }) => html`<label>${label}<select value=${value ?? ''} onChange=${(event) => onChange(event.target.value)}>
  <option value="">all</option>${values.map((one) => html`<option value=${one}>${one}</option>`)}</select></label>`;

function SymbolFilter({ value, onChange }) {
  const [typed, setTyped] = useState(value ?? '');
  useEffect(() => setTyped(value ?? ''), [value]);
  const submit = (event) => {
    event.preventDefault();
    onChange(typed.trim().toUpperCase());
  };
  return html`<form onSubmit=${submit}><label>Symbol<input type="text" size="8" maxlength="16" value=${typed} spellcheck="false" autocomplete="off"
    onInput=${(event) => setTyped(event.target.value)} onChange=${submit} /></label></form>`;
}

/** What a run cost: in dollars as far as the models' prices are known, else why not. */
function cost({ cost: found }) {
  if (!found || found.rules) return html`<span class="quiet" title="rules answered, no model">none</span>`;
  if (found.local && !found.usd && !found.unpriced.length) return html`<span class="quiet" title="local models have no price">local</span>`;
  if (found.usd === null) return html`<span title=${found.unpriced.length ? `no price of ${found.unpriced.join(', ')}` : 'no turn was counted yet'}>—</span>`;
  const partial = found.unpriced.length || found.uncounted;
  return html`<span title=${partial ? `without ${[...found.unpriced, found.uncounted && `${found.uncounted} turns that were not counted`].filter(Boolean).join(', ')}` : undefined}>${partial ? '≥ ' : ''}${money(found.usd)}</span>`;
}

const COLUMNS = [
  { id: 'run', label: 'Run', cell: (run) => html`<${RunLink} id=${run.id} />` },
  { id: 'kind', label: 'Kind', cell: (run) => html`${run.kind}${run.schedule && html` <span class="quiet"><${Text}>${run.schedule}<//></span>`}`, sort: (run) => run.kind },
  { id: 'state', label: 'State', cell: (run) => html`<${Badge}>${run.state}<//>`, sort: (run) => run.state },
  { id: 'steps', label: 'Steps', num: true, cell: (run) => `${run.steps_ended}/${run.steps}`, sort: (run) => run.steps },
  { id: 'symbols', label: 'Symbols', wide: true, cell: (run) => html`<span class="symbols">${run.symbols.map((one) => html`<${SymbolLink} symbol=${one} /> `)}</span>` },
  { id: 'candidates', label: 'Candidates', num: true, wide: true, cell: (run) => count(run.candidates), sort: (run) => run.candidates },
  { id: 'orders', label: 'Orders', num: true, cell: (run) => html`${count(run.orders)}${run.waiting > 0 && html` <${Badge} tone="warn">${run.waiting} wait<//>`}`, sort: (run) => run.orders },
  { id: 'turns', label: 'Turns', num: true, wide: true, cell: (run) => count(run.turns), sort: (run) => run.turns },
  { id: 'tokens', label: 'Tokens', num: true, wide: true, cell: (run) => html`<span title=${count(run.tokens)}>${compact(run.tokens)}</span>`, sort: (run) => run.tokens },
  { id: 'cost', label: 'Cost', num: true, wide: true, cell: cost, sort: (run) => run.cost?.usd ?? null },
  { id: 'market', label: 'Market', wide: true, cell: (run) => html`<span class="num"><${Text}>${run.market}<//> <${Time} at=${run.market_now} parts="day" /></span>`, sort: (run) => run.market_now },
  { id: 'began', label: 'Began', cell: (run) => html`<${Time} at=${run.created_at} />`, sort: (run) => date(run.created_at) },
  { id: 'took', label: 'Took', num: true, cell: (run) => (run.final ? span(between(run.created_at, run.finished_at)) : html`<span class="quiet">${span(between(run.created_at))}</span>`), sort: (run) => between(run.created_at, run.finished_at) },
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
  const submit = (event) => {
    event.preventDefault();
    act.run();
  };
  return html`<${Dialog} title="Start a run" onClose=${onClose}><form onSubmit=${submit}>
    <${Segments} label="Kind" options=${STARTS} value=${kind} onChange=${(value) => setQuery({ start: value })} />
    <p class="quiet">${HELP[kind]}</p>
    <label>Symbols${kind === 'analyze' ? '' : ' (optional)'}<textarea value=${symbols} onInput=${(event) => setSymbols(event.target.value)} placeholder="AAPL IBM KO" spellcheck="false" required=${kind === 'analyze'}></textarea></label>
    ${kind === 'screen' && html`<label>Candidates at most (optional)<input type="number" min="1" max="500" value=${most} onInput=${(event) => setMost(event.target.value)} /></label>`}
    <${ProblemBox} problem=${act.problem} what="Not started" />
    <div class="buttons"><button type="button" onClick=${onClose}>Cancel</button><button type="submit" class="primary" disabled=${act.busy || (kind === 'analyze' && !listed.length)}>${act.busy ? '…' : 'Start'}</button></div>
  </form><//>`;
}
