// The symbols that runs have researched, the last one first, and any other by its name.

import {
  badgeOf, Block, codeOf, column, count, Empty, Facts, Field, figure, Form, gain, go, html, joined, Link, Loaded,
  money, number, numOf, orderOf, Panel, part, pastOf, plain, priceOf, prices, ProblemBox, prose, quantity, quietOf,
  ratingOf, REPORT, runOf, setQuery, SOURCED, stateOf, symbolOf, Table, TablePanel, Text, textOf, timeOf, upTo,
  useFollowed, useGet, useList, useState, words,
} from '../lib/view.js';
import { Prices } from './prices.js';

const FRESH_MS = 30_000;

export function Symbols({ query }) {
  const [typed, setTyped] = useState(query.q ?? '');
  const text = typed.trim();
  const list = useList('/symbols', { q: query.q }, { every: FRESH_MS });
  const open = () => text && go(`/symbols/${part(text.toUpperCase())}`);
  return html`<div class="view symbol-view"><h1>Symbols</h1>
    <${Form} className="filters" run=${open}><${Field} label="Symbol" type="search" value=${typed}
      autocomplete="off" spellcheck="false" onText=${(next) => {
        setTyped(next);
        setQuery({ q: next.trim() });
      }} /><button type="submit" disabled=${!text}>Open</button><//>
    <${TablePanel} title="Researched" label="Symbols" ...${list} columns=${COLUMNS} rowKey="symbol"
      empty=${query.q ? 'No researched symbol is like that' : 'No symbol was researched yet'}
      hint=${query.q ? 'Open shows it all the same: prices, and whether it is held' : null} /></div>`;
}

const COLUMNS = [
  column('Symbol', symbolOf), ['Last verdict', (row) => ratingOf(row.rating, row.confidence), '', 'rating'],
  number('Runs', count), column('Last run', runOf), column('At', timeOf, 'last_at'),
];

// One symbol across all runs: its chart with what the desk did and when, what roles wrote of it, and what is held.
const SOON_MS = 2_000;

export const Symbol = ({ params, query, desk }) =>
  html`<${One} key=${params.symbol} symbol=${params.symbol} query=${query} desk=${desk} />`;

const flat = (found) => ({
  ...found, hits: found.hits.map(joined('hit')), verdicts: found.verdicts.map(joined('verdict')),
  positions: found.positions.map((one) => ({ ...one, protected_by: one.protected_by.map(joined('order')) })),
});

function One({ symbol, query, desk }) {
  const path = `/symbols/${part(symbol)}`;
  const found = useGet(path, { run: query.run }, { every: FRESH_MS, as: flat });
  useFollowed(['order', 'run.completed'], [found], { ms: SOON_MS,
    of: ({ type, payload }) => type === 'run.completed' || payload.symbol === symbol });
  const { data, problem } = found;
  if (problem && data === undefined && problem.status < 500 && problem.status > 0) {
    return html`<div class="view"><h1>${plain(symbol)}</h1><${ProblemBox} problem=${problem} again=${found.reload} />
      <p><${Link} to="/symbols">All symbols<//></p></div>`;
  }
  return html`<div class="view symbol-view">
    <h1><span class="symbol">${plain(symbol)}</span>
      ${data && quietOf(textOf([data.name, data.sector].filter(Boolean).join(', ') || 'no name known'))}
      ${data && pastOf(data.account)}
      ${query.run && html`${quietOf('as of run')} ${runOf(query.run)} <${Link} to=${path}>as of now<//>`}</h1>
    <div class="stack">
      <${Prices} path=${path} symbol=${symbol} query=${query} detail=${data}
        desk=${desk} />
      <${Loaded} from=${found} what=${plain(symbol)}>${(rows) => html`<${Rest} data=${rows} />`}<//>
    </div></div>`;
}

function Rest({ data }) {
  const never = !data.hits.length && !data.verdicts.length && !data.reports.length && !data.orders.length;
  return html`${never && html`<${Empty} title="No run of this account has looked at it">
    start one under <${Link} to="/runs">Runs<//><//>`}
    <div class="grid">
      <${Panel} title="Position"><${Position} data=${data} /><//>
      <${Panel} title="Memory" tools=${quietOf('as the next prompt has it')}>${data.memory_off
        ? html`<${Empty} title="Memory is off">no prompt gets one: <code>DESK_MEMORY=off</code><//>`
        : data.memory ? html`<${Block} label="Memory">${textOf(data.memory)}<//>`
          : html`<${Empty} title="Nothing is remembered of it" />`}<//>
    </div>
    <${List} title="Verdicts" rows=${data.verdicts} columns=${VERDICTS} empty="No verdict yet" />
    <${List} title="Reports" rows=${data.reports} columns=${REPORTS} empty="No report yet" />
    <div class="grid">
      <${List} title="Orders" rows=${data.orders} columns=${ORDERS} empty="No order yet" />
      <${List} title="Fills" rows=${data.fills} columns=${FILLS} empty="No fill yet" />
    </div>
    <${List} title="Hits" rows=${data.hits} columns=${HITS} empty="No screener put it forward" />
    <${List} title="The trader's notes" rows=${data.notes} columns=${NOTES} empty="No note yet" />`;
}

const List = ({ title, rows, ...table }) => html`<${TablePanel} title=${title} label=${`${title}, as a table`}
  tools=${rows.length > 0 && quietOf(numOf(count(rows.length)))} rows=${rows} ...${table} />`;

function Position({ data }) {
  if (!data.positions.length) return html`<${Empty} title=${`${plain(data.account)} holds none`} />`;
  return data.positions.map((one) => html`<div key=${one.symbol} class="position">
    <${Facts} rows=${[
      ['Holds', html`${gain(one.quantity, `${one.quantity > 0 ? 'long' : 'short'} ${
        quantity(Math.abs(one.quantity))}`)} ${codeOf(one.symbol)}`],
      ['Average cost', numOf(priceOf(one.average_cost, one, 4))],
      ['At cost', numOf(priceOf(one.average_cost * one.quantity, one))],
      ['Last fill', timeOf(one.filled_at)],
    ]} />
    <h3>Protected by</h3>
    <${Table} label=${`Protective orders of ${plain(one.symbol)}`} columns=${STOPS} rows=${one.protected_by}
      empty=${html`<p>${badgeOf('not protected', 'warn')} no stop is in force at the broker</p>`} />
  </div>`);
}

const price = (value, row) => (value === null ? quietOf('none') : priceOf(value, row));
const day = column('Market time', timeOf, 'market_at');
const run = ['Run', (row) => runOf(row.run_id)];
const STOPS = [
  column('Order', orderOf, 'id'),
  ['Type', (row) => words([row.side, row.order_type, row.time_in_force].filter(Boolean).join(' '))],
  ['Stop', (row) => (row.trail_percent === null ? price(row.stop_price, row) : `trails ${figure(row.trail_percent)} %`),
    'num'],
  prices('Limit', 'limit_price'), number('Left', quantity), column('State', badgeOf),
];
const VERDICTS = [
  day, ['Verdict', (row) => ratingOf(row.rating, row.confidence, row.id), '', 'rating'],
  column('Because', prose(160), 'summary'),
  ['Missing', (row) => html`<${Text} most=${90} className="quiet">${row.missing.join('; ')}<//>`, 'wide'], run,
];
const REPORTS = [day, ...REPORT, SOURCED, ['Summary', (row) => textOf(row.summary || row.reason, 150), 'wide'], run];
const ORDERS = [
  day, column('Order', orderOf, 'id'),
  ['What', ({ action, side, order_type: type, contract }) =>
    html`<${Text} className="cell">${words([action, side, type, contract].filter(Boolean).join(' '))}<//>`],
  number('Quantity', quantity),
  ['Price', (row) => (row.limit_price ?? row.stop_price) === null ? quietOf('market')
    : priceOf(row.limit_price ?? row.stop_price, row), 'num wide'],
  ['State', (row) => html`${stateOf('order', row.state, plain(row.denial_reason))}
    ${row.denial_code && html` <code>${plain(row.denial_code)}</code>`}`],
];
const FILLS = [
  column('Market time', timeOf, 'filled_at'), column('Side'), number('Quantity', quantity),
  prices('Price', 'price', '', 4),
  number('Commission', money, 'commission', 'wide'), column('Order', orderOf, 'order_id'),
];
const HITS = [
  day, column('Lens', upTo(0, 'cell')), column('Thesis', prose(140)), column('Conf.', textOf, 'confidence', 'wide'),
  run,
];
const NOTES = [day, column('Note', prose(0), 'line')];
