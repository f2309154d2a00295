// Orders, the newest first, and above them what waits for a person.

import {
  Badge, Choice, column, count, date, Field, FilterField, html, Link, LiveBadge, Loaded, money, number, orderOf,
  Panel, plain, runOf, setQuery, shortId, symbolOf, Table, Text, textOf, timeOf, upTo, useGet, useLive, useState,
} from '../lib/view.js';
import { Waiting } from '../lib/decision.js';
import { OrderState, priceTerms, quantity, stateName, STATES } from '../lib/orders.js';

const FIRST = 100;
const MORE = 400;
const EVERY_MS = 30_000;
const FOLLOWED = { type: ['order', 'approval'], bodies: false };

export function Orders({ query }) {
  const [most, setMost] = useState(FIRST);
  const asked = { state: query.state, symbol: query.symbol, run: query.run, account: query.account, day: query.day,
    limit: most };
  const orders = useGet('/orders', asked, { every: EVERY_MS });
  const waiting = useGet('/approvals', {}, { every: EVERY_MS });
  const again = () => [orders, waiting].forEach((one) => one.reload());
  const live = useLive('/events', { query: FOLLOWED, onEvents: () => [orders, waiting].forEach((one) => one.soon(700)),
    onGap: again });
  return html`<div class="view stack"><h1>Orders <${LiveBadge} live=${live} /></h1>
    <${Waiting} from=${waiting} />
    <${Panel} title="All orders" tools=${html`<${Filters} query=${query} />`}>
      <${Loaded} from=${orders} what="orders" empty="No order is like that"
        hint=${html`<${Link} to="/orders">All orders<//>`}>${(rows) => html`
        <${Table} label="All orders" columns=${COLUMNS} rows=${rows} rowKey=${(row) => row.order.id} />
        ${rows.length === most && most < 1000
          && html`<p class="more"><button type="button" onClick=${() => setMost(Math.min(most + MORE, 1000))}>More
          </button> the newest ${most} are shown</p>`}`}<//><//>
    <${Audit} />
  </div>`;
}

function Filters({ query }) {
  return html`<${Choice} class="inline" label="State" values=${STATES.map((state) => [state, stateName(state)])}
      value=${query.state} onChange=${(state) => setQuery({ state })} />
    <${FilterField} label="Symbol" size="7" maxlength="16" value=${query.symbol} onChange=${(text) =>
      setQuery({ symbol: text.toUpperCase() })} />
    <${Field} className="inline" label="Market day" type="date" value=${query.day ?? ''}
      onText=${(day) => setQuery({ day })} />
    <${FilterField} label="Run" size="9" maxlength="64" value=${query.run} onChange=${(text) =>
      setQuery({ run: text })} />`;
}

const COLUMNS = [
  ['Symbol', ({ order }) => symbolOf(order.symbol), '', ({ order }) => order.symbol],
  ['What', ({ order }) => `${plain(order.action)}${order.side ? `, ${plain(order.side)}` : ''}`, '', ({ order }) =>
    order.action],
  ['Quantity', ({ order }) => quantity(order.quantity), 'num', ({ order }) => order.quantity],
  ['Price', ({ order }) => (order.quantity === null ? '\u2014' : priceTerms(order)), 'num wide'],
  ['Money', ({ order, preview }) => money(preview?.notional ?? order.notional), 'num', ({ order, preview }) =>
    preview?.notional ?? order.notional, 'as it was previewed'],
  ['State', ({ order }) => html`<${OrderState} state=${order.state} />`, '', ({ order }) => order.state],
  ['Why not', ({ order }) => (order.denial_code ? html`<code>${plain(order.denial_code)}</code> <${Text} most=${60}
    className="quiet">${order.denial_reason}<//>` : ''), 'wide'],
  ['Account', ({ order }) => textOf(order.account), 'wide', ({ order }) => order.account],
  ['Run', ({ order }) => runOf(order.run_id), 'wide'],
  ['Changed', ({ order }) => timeOf(order.updated_at), 'wide', ({ order }) => date(order.updated_at)],
  ['Order', ({ order }) => orderOf(order.id)],
];

// Whether the audit log is whole.
function Audit() {
  const audit = useGet('/audit', {}, { every: 120_000 });
  return html`<${Panel} title="Audit log" tools=${audit.data
    && html`<${Badge} tone=${audit.data.verified ? 'good' : 'bad'}>${audit.data.verified ? 'whole' : 'broken'}<//>`}>
    <${Loaded} from=${audit} what="the audit log" isEmpty=${(found) => !found.chains.length}
      empty="Nothing is on record yet">
      ${({ chains }) => html`<${Table} label="Chains of the audit log" columns=${CHAINS} rows=${chains}
      rowKey="chain" />
      ${chains.flatMap((one) => one.problems).map((problem) => html`<p class="notice bad">${textOf(problem)}</p>`)}`}
        <//><//>`;
}

const CHAINS = [
  ['Chain', (row) => html`<code title=${plain(row.place)}>${shortId(row.chain)}</code>`],
  ['State', (row) => html`<${Badge} tone=${row.verified ? 'good' : 'bad'}>${row.verified ? 'whole' : row.file_found
    ? `${row.all_problems} problems` : 'its file is missing'}<//>`],
  number('Lines', count, 'entries'),
  ['Last hash', (row) => (row.head ? html`<code title=${plain(row.head)}>${shortId(row.head)}</code>`
    : '\u2014'), 'wide'],
  column('Last line', timeOf, 'at', 'wide'), column('Place', upTo(60, 'quiet'), 'place', 'wide'),
];
