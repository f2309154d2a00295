// Orders, the newest first, and above them what waits for a person.

import {
  badgeOf, Check, column, count, date, Filters, hashOf, html, Link, LiveBadge, Loaded, MISSING, money, number,
  orderOf, Panel, pastOf, plain, quantity, runOf, setQuery, shortHash, symbolOf, Table, TablePanel, Text, textOf,
  timeOf, upTo, useFollowed, useGet, useList,
} from '../lib/view.js';
import { Waiting } from '../lib/decision.js';
import { actionOf, orderState, priceTerms, stateName, STATES } from '../lib/orders.js';

const EVERY_MS = 30_000;
const FILTERS = [['state', 'State', STATES.map((state) => [state, stateName(state)])], ['symbol', 'Symbol', 'symbol'],
  ['day', 'Market day', 'date'], ['run', 'Run']];

export function Orders({ query: { state, symbol, run, account, day, backtests } }) {
  const asked = { state, symbol, run, account, day };
  // Whoever names a run or an account has it, a backtest's too.
  const every = backtests === 'yes' || Boolean(run || account);
  const orders = useList('/orders', { ...asked, backtests: every }, { every: EVERY_MS });
  const waiting = useGet('/approvals', {}, { every: EVERY_MS });
  const live = useFollowed(['order', 'approval'], [orders.from, waiting]);
  return html`<div class="view stack"><h1>Orders <${LiveBadge} live=${live} /></h1>
    <${Waiting} from=${waiting} />
    <${TablePanel} title="All orders" tools=${html`<${Filters} query=${asked} of=${FILTERS} />
      <${Check} label="those played on past days too" checked=${every} onChange=${(on) =>
        setQuery({ backtests: on ? 'yes' : null, ...(on ? {} : { run: null, account: null }) })} />`} ...${orders}
      columns=${COLUMNS} rowKey=${(row) => row.order.id} empty="No order is like that"
      hint=${html`<${Link} to="/orders">All orders<//>`} />
    <${Audit} /></div>`;
}

const COLUMNS = [
  ['Symbol', ({ order }) => html`${symbolOf(order.symbol, order)} ${pastOf(order.account)}`,
    '', ({ order }) => order.symbol],
  ['What', ({ order }) => actionOf(order), '', ({ order }) => order.action],
  ['Quantity', ({ order }) => quantity(order.quantity), 'num', ({ order }) => order.quantity],
  ['Price', ({ order }) => (order.quantity === null ? MISSING : priceTerms(order)), 'num wide'],
  ['Money', (row) => money(notional(row)), 'num', (row) => notional(row), 'as it was previewed'],
  ['State', ({ order }) => orderState(order.state), '', ({ order }) => order.state],
  ['Why not', ({ order }) => (order.denial_code ? html`<code>${plain(order.denial_code)}</code> <${Text} most=${60}
    className="quiet">${order.denial_reason}<//>` : ''), 'wide'],
  ['Account', ({ order }) => textOf(order.account), 'wide', ({ order }) => order.account],
  ['Run', ({ order }) => runOf(order.run_id), 'wide'],
  ['Changed', ({ order }) => timeOf(order.updated_at), 'wide', ({ order }) => date(order.updated_at)],
  ['Order', ({ order }) => orderOf(order.id)],
];

const notional = ({ order, preview }) => preview?.notional ?? order.notional;

function Audit() {
  const audit = useGet('/audit', {}, { every: 120_000 });
  const { verified } = audit.data ?? {};
  return html`<${Panel} title="Audit log"
    tools=${audit.data && badgeOf(verified ? 'whole' : 'broken', verified ? 'good' : 'bad')}>
    <${Loaded} from=${audit} what="the audit log">${({ chains }) => html`<${Table} label="Chains of the audit log"
      columns=${CHAINS} rows=${chains} rowKey="chain" empty="Nothing is on record yet" />
      ${chains.flatMap((one) => one.problems).map((problem) => html`<p class="notice bad">${textOf(problem)}</p>`)}`}
    <//><//>`;
}

const CHAINS = [
  ['Chain', (row) => html`<code title=${plain(row.place)}>${shortHash(row.chain)}</code>`],
  ['State', ({ verified, file_found: found, all_problems: problems }) => (verified ? badgeOf('whole', 'good')
    : badgeOf(found ? `${problems} problems` : 'its file is missing', 'bad'))],
  number('Lines', count, 'entries'),
  column('Last hash', hashOf, 'head', 'wide'),
  column('Last line', timeOf, 'at', 'wide'), column('Place', upTo(60, 'quiet'), 'place', 'wide'),
];
