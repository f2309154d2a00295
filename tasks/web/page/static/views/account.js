// One account: equity and drawdown, positions, exposure, comparison with the broker, and the kill switch.

import { get } from '../lib/api.js';
import { html, useState } from '../lib/html.js';
import { useKeys } from '../lib/keys.js';
import { useLive } from '../lib/live.js';
import { setQuery } from '../lib/router.js';
import { date, money, percent, signedMoney, signedPercent } from '../lib/format.js';
import { useResource } from '../lib/store.js';
import { Ago, Badge, Empty, Facts, Figure, Link, Loaded, OrderLink, Panel, RunLink, SymbolLink, Table, Text, Time } from '../lib/ui.js';
import { plain } from '../lib/text.js';
import { Equity } from './account/equity.js';
import { Switch } from './account/switch.js';
import { OrderState, priceTerms, quantity } from './orders/terms.js';

const EVERY_MS = 30_000;
const TRADING = { active: 'good', reducing: 'warn', halted: 'bad' };

export const title = (params) => `Account ${params.account ?? ''}`.trim();

export default function Account({ params, query }) {
  const accounts = useResource(({ signal }) => get('/accounts', {}, { signal }), [], { every: EVERY_MS });
  const name = params.account ?? accounts.data?.[0]?.account;
  // An account of the address needs no list first.
  if (name) return html`<div class="view"><${One} key=${name} name=${name} rows=${accounts.data ?? []} query=${query} changed=${accounts.reload} /></div>`;
  return html`<div class="view"><${Loaded} from=${accounts} what="accounts" empty=${html`<${Empty} title="There is no account yet">It is opened with the desk's first order.<//>`}>${() => null}<//></div>`;
}

function One({ name, rows, query, changed }) {
  const detail = useResource(({ signal }) => get(`/accounts/${encodeURIComponent(name)}`, {}, { signal }), [name], { every: EVERY_MS });
  const [version, setVersion] = useState(0);
  const again = () => {
    detail.reload();
    changed();
    setVersion((n) => n + 1);
  };
  useLive('/events', { query: { type: ['order.fill', 'order.trading'], bodies: false }, onEvents: () => detail.soon(700), onGap: again });
  useKeys([['r', 'Load again', again]]);
  return html`<h1><span>Account <${Text}>${name}<//></span>
      ${detail.data && html`<${Badge} tone=${TRADING[detail.data.trading]} title=${plain(detail.data.why)}>${detail.data.trading}<//>`}</h1>
    ${rows.length > 1 && html`<nav class="tabs" aria-label="Accounts">${rows.map((row) => html`<${Link} to=${`/accounts/${row.account}`} className=${row.account === name ? 'on' : ''}>${plain(row.account)} <span class="quiet">${row.own ? '' : 'other broker, '}${plain(row.trading)}</span><//>`)}</nav>`}
    <${Loaded} from=${detail} what="the account">${(found) => html`<div class="grid">
      <${Panel} title="Standing" className="whole" tools=${found.own && html`<${Switch} account=${name} state=${found.trading} done=${again} />`}><${Standing} found=${found} /><//>
      <${Equity} account=${name} span=${query.days ?? '260'} setSpan=${(days) => setQuery({ days })} version=${version} />
      <${Panel} title="Positions" className="whole"><${Positions} found=${found} /><//>
      <${Panel} title="Exposure by sector"><${Sectors} found=${found} /><//>
      <${Panel} title="Comparison with the broker"><${Comparison} found=${found.reconciliation} /><//>
      <${Panel} title="Movements" className="whole"><${Ledger} name=${name} version=${version} /><//>
    </div>`}<//>`;
}

function Standing({ found }) {
  const { equity } = found;
  return html`${found.trading !== 'active' && html`<p class=${`notice ${TRADING[found.trading]}`}><${Badge} tone=${TRADING[found.trading]}>${found.trading}<//> <${Text}>${found.why}<//></p>`}
    ${Object.keys(found.missing).length > 0 && html`<p class="notice warn">Not valued: ${byReason(found.missing).map(([why, symbols]) => html`${symbols.map((symbol) => html`<${SymbolLink} symbol=${symbol} /> `)}<${Text}>${why}<//>. `)}</p>`}
    <${Facts} rows=${[
      ['Value now', html`<strong class="num big">${money(found.value)}</strong>`],
      ['Cash', html`<span class="num">${money(found.cash)}</span>`],
      ['Change on the day', equity ? html`<${Figure} value=${equity.change} sign>${signedMoney(equity.change)} (${signedPercent(equity.change_share)})<//>` : null],
      ['Drawdown', equity ? html`<span class="num">${percent(equity.drawdown)}</span>` : null],
      ['Highest', equity ? html`<span class="num">${money(equity.high_water)}</span>` : null],
      ['Gross exposure', html`<span class="num">${money(found.gross)}</span>`],
      ['Opened with', html`<span class="num">${money(found.opening_cash)}</span>`],
      ['Prices of', found.as_of ? html`<${Time} at=${found.as_of} />` : null],
      ['Marked', equity ? html`<span class="num">${equity.day}</span>` : null],
    ]} />`;
}

/** Symbols that are not valued, by why. */
function byReason(missing) {
  const found = new Map();
  for (const [symbol, why] of Object.entries(missing)) found.set(why, [...(found.get(why) ?? []), symbol]);
  return [...found];
}

const POSITIONS = [
  { id: 'symbol', label: 'Symbol', cell: (row) => (row.symbol === row.underlying ? html`<${SymbolLink} symbol=${row.symbol} />` : html`<span class="symbol">${plain(row.symbol)}</span> <${SymbolLink} symbol=${row.underlying} />`), sort: (row) => row.symbol },
  { id: 'sector', label: 'Sector', wide: true, cell: (row) => (row.sector ? html`<${Text} most=${28}>${row.sector}<//>` : 'not known'), sort: (row) => row.sector },
  { id: 'quantity', label: 'Quantity', num: true, cell: (row) => quantity(row.quantity), sort: (row) => row.quantity },
  { id: 'cost', label: 'Average cost', num: true, wide: true, cell: (row) => money(row.average_cost) },
  { id: 'price', label: 'Price', num: true, cell: (row) => (row.price === null ? html`<span title=${plain(row.missing)}>none</span>` : money(row.price)), title: 'hover for its time' },
  { id: 'value', label: 'Value', num: true, cell: (row) => money(row.value), sort: (row) => row.value },
  { id: 'share', label: 'Share', num: true, wide: true, cell: (row) => percent(row.share, 1), sort: (row) => row.share },
  { id: 'gain', label: 'Gain', num: true, cell: (row) => html`<${Figure} value=${row.gain} sign>${signedMoney(row.gain)}<//>`, sort: (row) => row.gain },
  { id: 'gains', label: 'Gain %', num: true, wide: true, cell: (row) => html`<${Figure} value=${row.gain} sign>${signedPercent(row.gain_share)}<//>`, sort: (row) => row.gain_share },
  { id: 'stop', label: 'Protected by', wide: true, cell: (row) => (row.protected_by.length ? row.protected_by.map((one) => html`<span class="row"><${OrderLink} id=${one.order} /> <span class="num">${priceTerms(one)}</span> <${OrderState} state=${one.state} /></span>`) : html`<span class="quiet">no stop</span>`) },
];

const Positions = ({ found }) => html`<${Table} label="Positions" columns=${POSITIONS} rows=${found.holdings} rowKey=${(row) => row.symbol} empty=${html`<${Empty} title="Nothing is held" />`} />
  ${found.unprotected.length > 0 && html`<div class="notice warn"><${Badge} tone="warn">without a stop<//> ${found.unprotected.map((one) => html`<span><${SymbolLink} symbol=${one.symbol} /> <span class="num">${quantity(one.quantity)}</span> <${Text}>${one.why}<//> </span>`)}</div>`}`;

function Sectors({ found: { sectors, gross } }) {
  if (!sectors.length) return html`<${Empty} title=${gross === null ? 'Not known: a price is missing' : 'Nothing is held'} />`;
  const most = Math.max(...sectors.map((one) => Math.abs(one.exposure)));
  return html`<ul class="bars">${sectors.map((one) => html`<li><span class="name">${one.sector ? html`<${Text}>${one.sector}<//>` : 'sector not known'} <span class="quiet">${one.symbols.map((symbol) => html`<${SymbolLink} symbol=${symbol} /> `)}</span></span>
    <span class="num">${money(one.exposure, 0)} <span class="quiet">${percent(one.share, 1)}</span></span>
    <span class="bar" aria-hidden="true"><span style=${{ width: `${most ? (Math.abs(one.exposure) / most) * 100 : 0}%` }}></span></span></li>`)}</ul>`;
}

function Comparison({ found }) {
  if (!found) return html`<${Empty} title="Not compared with the broker yet"><code>desk reconcile</code> compares; so does the trade worker, each minute.<//>`;
  return html`<p><${Badge} tone=${found.agreed ? 'good' : 'bad'}>${found.agreed ? 'the books agree' : 'the books differ'}<//> <${Ago} at=${found.at} />, by <code><${Text}>${found.owner}<//></code></p>
    ${found.differences.length > 0 && html`<ul class="lines">${found.differences.map((line) => html`<li><${Text}>${line}<//></li>`)}</ul>`}`;
}

const LEDGER = [
  { id: 'at', label: 'Market time', cell: (row) => html`<${Time} at=${row.at} />`, sort: (row) => date(row.at) },
  { id: 'kind', label: 'What', cell: (row) => plain(row.kind) },
  { id: 'symbol', label: 'Symbol', cell: (row) => html`<span class="symbol">${plain(row.symbol)}</span>`, sort: (row) => row.symbol },
  { id: 'quantity', label: 'Quantity', num: true, cell: (row) => quantity(row.quantity) },
  { id: 'price', label: 'Price', num: true, cell: (row) => money(row.price) },
  { id: 'commission', label: 'Commission', num: true, wide: true, cell: (row) => money(row.commission) },
  { id: 'cash', label: 'Cash', num: true, cell: (row) => html`<${Figure} value=${row.cash} sign>${signedMoney(row.cash)}<//>`, sort: (row) => row.cash },
  { id: 'order', label: 'Order', wide: true, cell: (row) => html`<${OrderLink} id=${row.order} />` },
  { id: 'run', label: 'Run', wide: true, cell: (row) => html`<${RunLink} id=${row.run_id} />` },
];
const MOST = 100;
function Ledger({ name, version }) {
  const rows = useResource(({ signal }) => get(`/accounts/${encodeURIComponent(name)}/ledger`, { limit: MOST }, { signal }), [name, version]);
  return html`<${Loaded} from=${rows} what="movements" empty=${html`<${Empty} title="Nothing has moved yet" />`}>${(found) => html`<${Table} label="Movements" columns=${LEDGER} rows=${found} rowKey=${(row) => row.id} />
    ${found.length === MOST && html`<p class="quiet">The newest ${MOST}.</p>`}`}<//>`;
}
