// Orders, the newest first, and above them what waits for a person.

import { get } from '../lib/api.js';
import { html, useState } from '../lib/html.js';
import { useKeys } from '../lib/keys.js';
import { useLive } from '../lib/live.js';
import { setQuery } from '../lib/router.js';
import { date, money } from '../lib/format.js';
import { useResource } from '../lib/store.js';
import { Empty, FilterField, Link, Loaded, LiveBadge, OrderLink, Panel, RunLink, SymbolLink, Table, Text, Time } from '../lib/ui.js';
import { plain } from '../lib/text.js';
import { Audit } from './orders/audit.js';
import { Waiting } from './orders/waiting.js';
import { OrderState, STATES, priceTerms, quantity, stateName } from './orders/terms.js';

const FIRST = 100;
const MORE = 400;
const EVERY_MS = 30_000;
const FOLLOWED = { type: ['order', 'approval'], bodies: false };

export default function Orders({ query }) {
  const [most, setMost] = useState(FIRST);
  const asked = { state: query.state, symbol: query.symbol, run: query.run, account: query.account, day: query.day, limit: most };
  const orders = useResource(({ signal }) => get('/orders', asked, { signal }), [query.state, query.symbol, query.run, query.account, query.day, most], { every: EVERY_MS });
  const waiting = useResource(({ signal }) => get('/approvals', {}, { signal }), [], { every: EVERY_MS });
  const again = () => [orders, waiting].forEach((one) => one.reload());
  const live = useLive('/events', { query: FOLLOWED, onEvents: () => [orders, waiting].forEach((one) => one.soon(700)), onGap: again });
  useKeys([['r', 'Load again', again]]);
  return html`<div class="view stack"><h1>Orders <${LiveBadge} live=${live} /></h1>
    <${Waiting} from=${waiting} done=${again} />
    <${Panel} title="All orders" tools=${html`<${Filters} query=${query} />`}>
      <${Loaded} from=${orders} what="orders" empty=${html`<${Empty} title="No order is like that"><${Link} to="/orders">All orders<//><//>`}>${(rows) => html`
        <${Table} label="All orders" columns=${COLUMNS} rows=${rows} rowKey=${(row) => row.order.id} />
        ${rows.length === most && most < 1000 && html`<p class="more"><button type="button" onClick=${() => setMost(Math.min(most + MORE, 1000))}>More</button> the newest ${most} are shown</p>`}`}<//>
    <//>
    <${Audit} />
  </div>`;
}

function Filters({ query }) {
  return html`<label class="inline">State<select value=${query.state ?? ''} onChange=${(event) => setQuery({ state: event.target.value })}>
      <option value="">all</option>${STATES.map((state) => html`<option value=${state}>${stateName(state)}</option>`)}</select></label>
    <${FilterField} label="Symbol" size="7" maxlength="16" value=${query.symbol} onChange=${(text) => setQuery({ symbol: text.toUpperCase() })} />
    <label class="inline">Market day<input type="date" value=${query.day ?? ''} onChange=${(event) => setQuery({ day: event.target.value })} /></label>
    <${FilterField} label="Run" size="9" maxlength="64" value=${query.run} onChange=${(text) => setQuery({ run: text })} />`;
}

const COLUMNS = [
  { id: 'order', label: 'Order', cell: ({ order }) => html`<${OrderLink} id=${order.id} />` },
  { id: 'symbol', label: 'Symbol', cell: ({ order }) => html`<${SymbolLink} symbol=${order.symbol} />`, sort: ({ order }) => order.symbol },
  { id: 'what', label: 'What', cell: ({ order }) => `${plain(order.action)}${order.side ? `, ${plain(order.side)}` : ''}`, sort: ({ order }) => order.action },
  { id: 'quantity', label: 'Quantity', num: true, cell: ({ order }) => quantity(order.quantity), sort: ({ order }) => order.quantity },
  { id: 'terms', label: 'Price', num: true, wide: true, cell: ({ order }) => (order.quantity === null ? '\u2014' : priceTerms(order)) },
  { id: 'money', label: 'Money', num: true, cell: ({ order, preview }) => money(preview?.notional ?? order.notional), sort: ({ order, preview }) => preview?.notional ?? order.notional, title: 'as it was previewed' },
  { id: 'state', label: 'State', cell: ({ order }) => html`<${OrderState} state=${order.state} />`, sort: ({ order }) => order.state },
  { id: 'why', label: 'Why not', wide: true, cell: ({ order }) => (order.denial_code ? html`<code>${plain(order.denial_code)}</code> <${Text} most=${60} className="quiet">${order.denial_reason}<//>` : '') },
  { id: 'account', label: 'Account', wide: true, cell: ({ order }) => html`<${Text}>${order.account}<//>`, sort: ({ order }) => order.account },
  { id: 'run', label: 'Run', wide: true, cell: ({ order }) => html`<${RunLink} id=${order.run_id} />` },
  { id: 'at', label: 'Changed', wide: true, cell: ({ order }) => html`<${Time} at=${order.updated_at} />`, sort: ({ order }) => date(order.updated_at) },
];
