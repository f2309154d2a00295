// One symbol across all runs: its chart with what the desk did and when, what roles wrote of it, and what is held.

import { get } from '../lib/api.js';
import { count, figure, money } from '../lib/format.js';
import { html } from '../lib/html.js';
import { useKeys } from '../lib/keys.js';
import { useLive } from '../lib/live.js';
import { part } from '../lib/router.js';
import { useResource } from '../lib/store.js';
import { Badge, Block, Empty, Facts, Figure, Link, Loaded, OrderLink, Panel, ProblemBox, RunLink, Table, Text, Time } from '../lib/ui.js';
import { plain } from '../lib/text.js';
import { Prices } from './symbol/prices.js';

const FRESH_MS = 60_000;
const SOON_MS = 2_000;

export const title = ({ symbol }) => plain(symbol);

export default function Symbol({ params, query }) {
  return html`<${One} key=${params.symbol} symbol=${params.symbol} query=${query} />`;
}

function One({ symbol, query }) {
  const path = `/symbols/${part(symbol)}`;
  const found = useResource(({ signal }) => get(path, { run: query.run }, { signal }), [path, query.run], { every: FRESH_MS });
  useKeys([['r', 'Load again', found.reload]]);
  useLive('/events', { query: { type: ['order', 'run.completed'] }, onEvents: (events) => {
    if (events.some((event) => event.type === 'run.completed' || event.payload?.symbol === symbol)) found.soon(SOON_MS);
  } });
  if (found.problem && found.data === undefined && found.problem.status < 500 && found.problem.status > 0) {
    return html`<div class="view"><h1>${plain(symbol)}</h1><${ProblemBox} problem=${found.problem} again=${found.reload} /><p><${Link} to="/symbols">All symbols<//></p></div>`;
  }
  const data = found.data;
  return html`<div class="view symbol-view">
    <h1><span class="symbol">${plain(symbol)}</span> ${data && html`<span class="quiet"><${Text}>${[data.name, data.sector].filter(Boolean).join(', ') || 'no name known'}<//></span>`}
      ${query.run && html`<span class="quiet">as of run</span> <${RunLink} id=${query.run} /> <${Link} to=${`/symbols/${part(symbol)}`}>as of now<//>`}</h1>
    <div class="stack">
      <${Prices} path=${path} symbol=${symbol} query=${query} detail=${data} />
      <${Loaded} from=${found} what=${plain(symbol)}>${(rows) => html`<${Rest} data=${rows} />`}<//>
    </div></div>`;
}

function Rest({ data }) {
  const never = !data.hits.length && !data.verdicts.length && !data.reports.length && !data.orders.length;
  return html`${never && html`<${Empty} title="No run of this account has looked at it">start one under <${Link} to="/runs">Runs<//><//>`}
    <div class="grid">
      <${Panel} title="Position"><${Position} data=${data} /><//>
      <${Panel} title="Memory" tools=${html`<span class="quiet">as the next prompt has it</span>`}>${data.memory_off
        ? html`<${Empty} title="Memory is off">no prompt gets one: <code>DESK_MEMORY=off</code><//>`
        : data.memory ? html`<${Block} label="Memory"><${Text}>${data.memory}<//><//>` : html`<${Empty} title="Nothing is remembered of it" />`}<//>
    </div>
    <${List} title="Verdicts" rows=${data.verdicts} columns=${VERDICTS} none="No verdict yet" />
    <${List} title="Reports" rows=${data.reports} columns=${REPORTS} none="No report yet" />
    <div class="grid">
      <${List} title="Orders" rows=${data.orders} columns=${ORDERS} none="No order yet" />
      <${List} title="Fills" rows=${data.fills} columns=${FILLS} none="No fill yet" />
    </div>
    <${List} title="Hits" rows=${data.hits} columns=${HITS} none="No screener put it forward" />
    <${List} title="The trader's notes" rows=${data.notes} columns=${NOTES} none="No note yet" />`;
}

const List = ({ title, rows, columns, none }) => html`<${Panel} title=${title} tools=${rows.length ? html`<span class="quiet num">${count(rows.length)}</span>` : null}>
  <${Table} label=${`${title}, as a table`} columns=${columns} rows=${rows} rowKey=${(row) => row.id} empty=${html`<${Empty} title=${none} />`} /><//>`;

function Position({ data }) {
  if (!data.positions.length) return html`<${Empty} title=${`${plain(data.account)} holds none`} />`;
  return data.positions.map((one) => html`<div key=${one.symbol} class="position">
    <${Facts} rows=${[
      ['Holds', html`<${Figure} value=${one.quantity} sign>${one.quantity > 0 ? 'long' : 'short'} ${figure(Math.abs(one.quantity), one.quantity % 1 ? 4 : 0)}<//> <code><${Text}>${one.symbol}<//></code>`],
      ['Average cost', html`<span class="num">${money(one.average_cost, 4)}</span>`],
      ['At cost', html`<span class="num">${money(one.average_cost * one.quantity)}</span>`],
      ['Last fill', html`<${Time} at=${one.filled_at} />`],
    ]} />
    <h3>Protected by</h3>
    <${Table} label=${`Protective orders of ${plain(one.symbol)}`} columns=${STOPS} rows=${one.protected_by} rowKey=${(row) => row.order} empty=${html`<p><${Badge} tone="warn">not protected<//> no stop is in force at the broker</p>`} />
  </div>`);
}

const price = (value) => (value === null ? html`<span class="quiet">none</span>` : money(value));
const day = { id: 'at', label: 'Market time', cell: (row) => html`<${Time} at=${row.market_at} parts="both" />`, sort: (row) => row.market_at };
const filled = { ...day, cell: (row) => html`<${Time} at=${row.filled_at} parts="both" />`, sort: (row) => row.filled_at };
const run = { id: 'run', label: 'Run', cell: (row) => html`<${RunLink} id=${row.run_id} />` };
const STOPS = [
  { id: 'order', label: 'Order', cell: (row) => html`<${OrderLink} id=${row.order} />` },
  { id: 'type', label: 'Type', cell: (row) => html`<${Text}>${`${row.side ?? ''} ${row.order_type ?? ''} ${row.time_in_force}`.replaceAll('_', ' ')}<//>` },
  { id: 'stop', label: 'Stop', num: true, cell: (row) => (row.trail_percent === null ? price(row.stop_price) : `trails ${figure(row.trail_percent)} %`) },
  { id: 'limit', label: 'Limit', num: true, cell: (row) => price(row.limit_price) },
  { id: 'left', label: 'Left', num: true, cell: (row) => figure(row.left, row.left % 1 ? 4 : 0) },
  { id: 'state', label: 'State', cell: (row) => html`<${Badge}>${row.state}<//>` },
];
const VERDICTS = [
  day,
  { id: 'rating', label: 'Verdict', cell: (row) => html`<${Link} to=${`/verdicts/${row.id}`}><${Badge}>${row.rating}<//><//> <span class="quiet">${plain(row.confidence)}</span>`, sort: (row) => row.rating },
  { id: 'summary', label: 'Because', cell: (row) => html`<div class="prose"><${Text} most=${160}>${row.summary}<//></div>` },
  { id: 'missing', label: 'Missing', wide: true, cell: (row) => html`<${Text} most=${90} className="quiet">${row.missing.join('; ')}<//>` },
  run,
];
const REPORTS = [
  day,
  { id: 'role', label: 'Role', cell: (row) => html`<${Link} to=${`/reports/${row.id}`}>${plain(row.role)}<//>`, sort: (row) => row.role },
  { id: 'verdict', label: 'Answer', cell: (row) => html`<${Badge}>${row.verdict ?? row.status}<//> <span class="quiet">${plain(row.confidence)}</span>`, sort: (row) => row.verdict ?? row.status },
  { id: 'figures', label: 'Sourced', title: 'figures of its text with a source', num: true, cell: (row) => (row.figures === null ? html`<span class="quiet">none</span>` : `${row.supported}/${row.figures}`) },
  { id: 'summary', label: 'Summary', wide: true, cell: (row) => html`<${Text} most=${150}>${row.summary || row.reason}<//>` },
  run,
];
const ORDERS = [
  day,
  { id: 'order', label: 'Order', cell: (row) => html`<${OrderLink} id=${row.id} />` },
  { id: 'what', label: 'What', cell: (row) => html`<${Text} className="cell">${[row.action, row.side, row.order_type, row.contract].filter(Boolean).join(' ').replaceAll('_', ' ')}<//>` },
  { id: 'quantity', label: 'Quantity', num: true, cell: (row) => figure(row.quantity, row.quantity % 1 ? 4 : 0) },
  { id: 'price', label: 'Price', num: true, wide: true, cell: (row) => (row.limit_price ?? row.stop_price) === null ? html`<span class="quiet">market</span>` : money(row.limit_price ?? row.stop_price) },
  { id: 'state', label: 'State', cell: (row) => html`<${Badge} title=${plain(row.denial_reason)}>${row.state}<//>${row.denial_code ? html` <code>${plain(row.denial_code)}</code>` : ''}` },
];
const FILLS = [
  filled,
  { id: 'side', label: 'Side', cell: (row) => plain(row.side) },
  { id: 'quantity', label: 'Quantity', num: true, cell: (row) => figure(row.quantity, row.quantity % 1 ? 4 : 0) },
  { id: 'price', label: 'Price', num: true, cell: (row) => money(row.price, 4) },
  { id: 'commission', label: 'Commission', num: true, wide: true, cell: (row) => money(row.commission) },
  { id: 'order', label: 'Order', cell: (row) => html`<${OrderLink} id=${row.order_id} />` },
];
const HITS = [
  day,
  { id: 'lens', label: 'Lens', cell: (row) => html`<${Text} className="cell">${row.lens}<//>`, sort: (row) => row.lens },
  { id: 'thesis', label: 'Thesis', cell: (row) => html`<div class="prose"><${Text} most=${140}>${row.thesis}<//></div>` },
  { id: 'confidence', label: 'Conf.', wide: true, cell: (row) => plain(row.confidence) },
  run,
];
const NOTES = [day, { id: 'line', label: 'Note', cell: (row) => html`<div class="prose"><${Text}>${row.line}<//></div>` }];
