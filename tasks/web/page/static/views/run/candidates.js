// The candidates of a run: one cell a role, the verdict and its rule, and the orders; filtered by the funnel.

import { count, figure } from '../../lib/format.js';
import { html, useMemo, useState } from '../../lib/html.js';
import { setQuery } from '../../lib/router.js';
import { Badge, Empty, Link, Loaded, Panel, SymbolLink, Table, Text, VirtualList } from '../../lib/ui.js';
import { plain, shortId } from '../../lib/text.js';
import { STAGES, chosenSymbols, screened } from './funnel.js';

const MOST = 60; // rows, before a person asks for all

export function Candidates({ table, funnel, query, ended }) {
  const stages = funnel.data?.stages;
  const symbols = useMemo(() => chosenSymbols(stages, query.stage, query.label), [stages, query.stage, query.label]);
  const early = query.stage === 'universe' || query.stage === 'hits';
  const what = query.stage && symbols ? `${query.stage}${query.label ? `: ${plain(query.label)}` : ''}` : '';
  return html`<${Panel} title=${what ? `Candidates, ${what}` : 'Candidates'} tools=${what && html`<button type="button" onClick=${() => setQuery({ stage: '', label: '' })}>Show all candidates</button>`}>
    <${Loaded} from=${table} what="the candidates">${(data) => (early && symbols
      ? html`<${Screened} rows=${screened(stages, symbols)} candidates=${data.rows} stage=${query.stage} />`
      : html`<${Rows} data=${data} symbols=${symbols} stage=${query.stage} ended=${ended} />`)}<//>
  <//>`;
}

function Rows({ data, symbols, stage, ended }) {
  const [all, setAll] = useState(false);
  const columns = useMemo(() => columnsOf(data.roles), [data.roles.join()]);
  const rows = useMemo(() => {
    const wanted = symbols && new Set(symbols);
    return wanted ? data.rows.filter((row) => wanted.has(row.symbol)) : data.rows;
  }, [data.rows, symbols]);
  const empty = html`<${Empty} title=${data.rows.length ? `No candidate among the ${STAGES.includes(stage) ? stage : 'symbols'}` : ended ? 'This run has no candidates' : 'No candidate yet'}>${data.rows.length || ended ? null : 'they come when the screeners are through'}<//>`;
  const shown = all ? rows : rows.slice(0, MOST);
  return html`<${Table} label="Table of candidates" columns=${columns} rows=${shown} rowKey=${(row) => row.candidate_id} empty=${empty} />
    ${shown.length < rows.length && html`<p><button type="button" onClick=${() => setAll(true)}>Show all ${count(rows.length)}</button></p>`}`;
}

const ORDER = { buy: 0, caution: 1, hold: 2, pass: 3, reject: 4, sell: 5 };
const MARKS = { confirmed: ['good', '●'], buy: ['good', '●'], 'strong buy': ['good', '●'], bullish: ['good', '●'], caution: ['warn', '▲'], hold: ['warn', '▲'], neutral: ['plain', '○'], reject: ['bad', '■'], sell: ['bad', '■'], bearish: ['bad', '■'], pass: ['plain', '○'] };

function columnsOf(roles) {
  return [
    { id: 'rank', label: '#', num: true, cell: (row) => row.rank, sort: (row) => row.rank },
    { id: 'symbol', label: 'Symbol', cell: (row) => html`<${SymbolLink} symbol=${row.symbol} />`, sort: (row) => row.symbol },
    { id: 'lenses', label: 'Screened by', wide: true, cell: (row) => (row.lenses.length ? row.lenses.map(plain).join(', ') : plain(row.origin)), sort: (row) => row.lenses.join() || row.origin },
    { id: 'score', label: 'Score', num: true, wide: true, cell: (row) => figure(row.score), sort: (row) => row.score },
    ...roles.map((role) => ({ id: `role-${role}`, label: plain(role).replaceAll('_', ' '), cell: (row) => roleCell(row.cells[role]), sort: (row) => row.cells[role]?.verdict ?? row.cells[role]?.status ?? null })),
    { id: 'verdict', label: 'Verdict', cell: (row) => verdictCell(row), sort: (row) => (row.verdict ? ORDER[row.verdict.rating.toLowerCase()] ?? 9 : null) },
    { id: 'rule', label: 'Because', wide: true, cell: (row) => row.verdict && html`<${Text} most=${46} className="quiet cell">${row.rule}<//>` },
    { id: 'orders', label: 'Orders', cell: (row) => row.orders.map(orderCell) },
  ];
}

const marked = (word) => MARKS[String(word).toLowerCase()] ?? ['plain', '○'];

/** A role's answer as a link to its report: few elements, since there are many cells. */
function roleCell(cell) {
  if (!cell) return html`<span class="quiet" title="this role was not asked about it">·</span>`;
  if (!cell.report_id) return html`<${Badge}>${cell.state}<//>`;
  const [tone, mark] = marked(cell.verdict);
  const word = cell.verdict ?? cell.status;
  const notes = [cell.confidence && `confidence ${cell.confidence}`, cell.reason, cell.figures ? `${cell.supported} of ${cell.figures} figures with a source` : '', cell.earlier && 'of an earlier run', !cell.counts && 'does not count for the verdict'];
  return html`<a class=${`cell badge ${cell.verdict ? tone : 'plain'} ${cell.counts ? '' : 'idle'}`} href=${`#/reports/${cell.report_id}`} title=${notes.filter(Boolean).map(plain).join('\n')}>${cell.verdict ? mark : '○'} ${plain(word).replaceAll('_', ' ')}${cell.earlier ? ' ↩' : ''}${cell.figures && cell.supported < cell.figures ? ' ?' : ''}</a>`;
}

function verdictCell({ verdict, rule }) {
  if (!verdict) return html`<span class="quiet">not yet</span>`;
  const [tone, mark] = marked(verdict.rating);
  return html`<a class=${`cell badge ${tone}`} href=${`#/verdicts/${verdict.id}`} title=${plain(rule)}>${mark} ${plain(verdict.rating)} <span class="quiet">${plain(verdict.confidence)}</span></a>`;
}

function orderCell(order) {
  const why = order.denial_reason ?? order.denial_code;
  return html`<${Link} to=${`/orders/${order.id}`} className="cell" title=${plain(why) || shortId(order.id)}>${plain(order.action)} ${order.quantity === null ? '' : figure(order.quantity, order.quantity % 1 ? 2 : 0)} ${plain(order.state).replaceAll('_', ' ')}<//> `;
}

/** The symbols of the universe or of the hits: hundreds, so only those in sight are in the document. */
function Screened({ rows, candidates, stage }) {
  const [text, setText] = useState('');
  const ranks = useMemo(() => new Map(candidates.map((row) => [row.symbol, row])), [candidates]);
  const shown = text ? rows.filter((row) => row.symbol.toLowerCase().includes(text.toLowerCase())) : rows;
  return html`<div class="filters"><label>Symbol<input type="search" value=${text} onInput=${(event) => setText(event.target.value)} spellcheck="false" /></label>
      <span class="quiet">${count(shown.length)} of ${count(rows.length)} symbols</span></div>
    ${shown.length
      ? html`<${VirtualList} className="screened" label=${`Symbols of the ${stage}`} items=${shown} row=${(row) => html`<${SymbolLink} symbol=${row.symbol} />
        <span>${row.lenses.length ? `hit by ${row.lenses.map(plain).join(', ')}` : html`<span class="quiet">no hit</span>`}</span>
        ${ranks.has(row.symbol) && html`<span class="quiet">candidate ${ranks.get(row.symbol).rank}</span>`}
        ${ranks.get(row.symbol)?.verdict && verdictCell(ranks.get(row.symbol).verdict)}`} />`
      : html`<${Empty} title="No symbol is like that" />`}`;
}
