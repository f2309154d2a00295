// One account: equity and drawdown, positions, exposure, comparison with the broker, and the kill switch.

import {
  accountOf, Ago, badgeOf, codeOf, column, Empty, Facts, gain, html, joined, Link, Loaded, lookOf, money, number,
  numOf, orderOf, Panel, part, percent, plain, priceOf, prices, quantity, quietOf, runOf, Segments, setQuery,
  signedMoney, signedPercent, stateOf, symbolOf, symbolsOf, Table, TablePanel, textOf, tickerOf, timeOf, useFollowed,
  useGet, useList, useState,
} from '../lib/view.js';
import { EquityChart } from '../lib/equity.js';
import { Switch } from '../lib/halt.js';
import { orderState, priceTerms } from '../lib/orders.js';

const EVERY_MS = 30_000;

export function Account({ params, query }) {
  const accounts = useGet('/accounts', {}, { every: EVERY_MS });
  const name = params.account ?? accounts.data?.[0]?.account;
  // An account of the address needs no list first.
  return html`<div class="view">${name ? html`<${One} key=${name} name=${name} rows=${accounts.data ?? []}
      query=${query} changed=${accounts.reload} />`
    : html`<${Loaded} from=${accounts} what="accounts" empty="There is no account yet"
      hint="It is opened with the desk's first order.">${() => null}<//>`}</div>`;
}

function One({ name, rows, query, changed }) {
  const detail = useGet(`/accounts/${part(name)}`, {}, { every: EVERY_MS });
  const [version, setVersion] = useState(0);
  const again = () => {
    detail.reload();
    changed();
    setVersion((n) => n + 1);
  };
  useFollowed(['order.fill', 'order.trading'], [{ soon: detail.soon, reload: again }]);
  return html`<h1><span>Account ${accountOf(name)}</span>
      ${detail.data && stateOf('trading', detail.data.trading, plain(detail.data.why))}</h1>
    ${rows.length > 1 && html`<nav class="tabs" aria-label="Accounts">${rows.map((row) => html`
      <${Link} to=${`/accounts/${row.account}`} className=${row.account === name ? 'on' : ''}>${plain(row.account)}
      ${' '}${quietOf(`${row.own ? '' : 'other broker, '}${plain(row.trading)}`)}<//>`)}</nav>`}
    <${Loaded} from=${detail} what="the account">${(found) => html`<div class="grid">
      <${Panel} title="Standing" className="whole" tools=${found.own
        && html`<${Switch} account=${name} state=${found.trading} done=${again} />`}><${Standing} found=${found} /><//>
      <${Equity} account=${name} span=${query.days ?? '260'} setSpan=${(days) =>
        setQuery({ days })} version=${version} />
      <${Panel} title="Positions" className="whole"><${Positions} found=${found} /><//>
      <${Panel} title="Exposure by sector"><${Sectors} found=${found} /><//>
      <${Panel} title="Comparison with the broker"><${Comparison} found=${found.reconciliation} /><//>
      <${Ledger} name=${name} version=${version} />
    </div>`}<//>`;
}

function Standing({ found }) {
  const { equity } = found;
  return html`${found.trading !== 'active'
    && html`<p class=${`notice ${lookOf('trading', found.trading)[1]}`}>${
      stateOf('trading', found.trading)} ${textOf(found.why)}</p>`}
    ${Object.keys(found.missing).length > 0 && html`<p class="notice warn">Not valued: ${byReason(found.missing).map(
      ([why, rows]) => html`${symbolsOf(rows.map(([symbol]) => symbol))}${textOf(why)}. `)}</p>`}
    <${Facts} rows=${[
      ['Value now', html`<strong class="num big">${money(found.value)}</strong>`],
      ['Cash', numOf(money(found.cash))],
      ['Change on the day', equity
        ? gain(equity.change, `${signedMoney(equity.change)} (${signedPercent(equity.change_share)})`) : null],
      ['Drawdown', equity ? numOf(percent(equity.drawdown)) : null],
      ['Highest', equity ? numOf(money(equity.high_water)) : null],
      ['Gross exposure', numOf(money(found.gross))],
      ['Opened with', numOf(money(found.opening_cash))],
      ['Prices of', found.as_of ? timeOf(found.as_of) : null],
      ['Marked', equity ? numOf(equity.day) : null],
    ]} />`;
}

const byReason = (missing) => [...Map.groupBy(Object.entries(missing), ([, why]) => why)];

const POSITIONS = [
  ['Symbol', (row) => html`${row.symbol !== row.underlying && tickerOf(row.symbol)} ${symbolOf(row.underlying)}`, '',
    'symbol'],
  ['Sector', (row) => (row.sector ? textOf(row.sector, 28) : 'not known'), 'wide', 'sector'],
  number('Quantity', quantity), prices('Average cost', 'average_cost', 'wide'),
  ['Price', (row) => (row.market_price === null ? html`<span title=${plain(row.missing)}>none</span>`
    : priceOf(row.market_price, row)), 'num', null, 'hover for its time'],
  number('Value', money), number('Share', (value) => percent(value), 'share', 'wide'), number('Gain', gain),
  ['Gain %', (row) => gain(row.gain, signedPercent(row.gain_share)), 'num wide', 'gain_share'],
  ['Protected by', (row) => (row.protected_by.length ? row.protected_by.map(joined('order')).map((one) => html`
    <span class="row">${orderOf(one.id)} ${numOf(priceTerms(one))} ${orderState(one.state)}</span>`)
    : quietOf('no stop')), 'wide'],
];

const Positions = ({ found }) => html`<${Table} label="Positions" columns=${POSITIONS} rows=${found.holdings}
  rowKey="symbol" empty="Nothing is held" />
  ${found.unprotected.length > 0 && html`<div class="notice warn">${badgeOf('without a stop', 'warn')}
    ${' '}${found.unprotected.map((one) => html`<span>
      ${symbolOf(one.symbol)} ${numOf(quantity(one.quantity))} ${textOf(one.why)} </span>`)}</div>`}`;

function Sectors({ found: { sectors, gross } }) {
  if (!sectors.length) return html`<${Empty}
    title=${gross === null ? 'Not known: a price is missing' : 'Nothing is held'} />`;
  const most = Math.max(...sectors.map((one) => Math.abs(one.exposure))) || 1;
  return html`<ul class="bars">${sectors.map((one) => html`<li>
    <span class="name">${textOf(one.sector || 'sector not known')} ${quietOf(symbolsOf(one.symbols))}</span>
    <span class="num">${money(one.exposure, 0)} ${quietOf(percent(one.share))}</span>
    <span class="bar" aria-hidden="true">
      <span style=${{ width: `${(Math.abs(one.exposure) / most) * 100}%` }}></span></span></li>`)}</ul>`;
}

function Comparison({ found }) {
  if (!found) return html`<${Empty} title="Not compared with the broker yet"><code>desk reconcile</code> compares; so
    does the trade worker, each minute.<//>`;
  return html`<p>${found.agreed ? badgeOf('the books agree', 'good') : badgeOf('the books differ', 'bad')}
      ${' '}<${Ago} at=${found.at} />, by ${codeOf(found.owner)}</p>
    ${found.differences.length > 0
      && html`<ul class="lines">${found.differences.map((line) => html`<li>${textOf(line)}</li>`)}</ul>`}`;
}

const LEDGER = [
  column('Market time', timeOf, 'at'), column('What', textOf, 'kind'), column('Symbol', tickerOf),
  number('Quantity', quantity), prices('Price'),
  ['Commission', (row) => money(row.commission ?? 0), 'num wide'], number('Cash', gain),
  column('Order', orderOf, 'order_id', 'wide'), column('Run', runOf, 'run_id', 'wide'),
];
const Ledger = ({ name, version }) => html`<${TablePanel} title="Movements" className="whole" columns=${LEDGER}
  ...${useList(`/accounts/${part(name)}/ledger`, {}, { deps: [version], as: (found) => found.map(joined('row')) })}
  empty="Nothing has moved yet" />`;

const SPANS = [['20', '1 month'], ['65', '3 months'], ['260', '1 year'], ['5000', 'all']];

function Equity({ account, span, setSpan, version }) {
  const curve = useGet(`/accounts/${part(account)}/equity`, { days: span }, { every: 60_000, deps: [version] });
  return html`<${Panel} title="Equity" className="whole"
    tools=${html`<${Segments} label="Span" options=${SPANS} value=${span} onChange=${setSpan} />`}>
    <${Loaded} from=${curve} what="equity" isEmpty=${(found) => !found.days.length}  empty="No equity is marked yet"
      hint="The desk marks it on each session day on which the account trades or is compared.">
      ${({ days, deepest }) => html`<${EquityChart} days=${days} label=${`Equity ${money(days.at(-1).equity)} on ${
        days.at(-1).day}, ${days.length} session days, deepest drawdown ${percent(deepest)}`} />
      <p class="quiet">Money paid in or out counts as neither gain nor loss.</p>
      ${days.length > 1 && html`<details><summary>As a table</summary><${Table} label="Equity by day"
        columns=${COLUMNS} rows=${[...days].reverse().slice(0, 260)} rowKey="day" /></details>`}`}<//><//>`;
}

const COLUMNS = [
  column('Day', numOf), number('Equity', money), number('Change', gain),
  ['Share', (row) => gain(row.change, signedPercent(row.change_share)), 'num'], number('Drawdown', percent),
];
