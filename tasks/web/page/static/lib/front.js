// Panels of the front: what is held with its plan, and what has changed since a person was here last.

import {
  ActionButton, Ago, badgeOf, count, Dots, gain, go, html, Link, Loaded, money, numOf, Panel, part, percent, plain,
  priceOf, quantity, quietOf, signedMoney, signedPercent, symbolOf, TablePanel, textOf, tickerOf, timeOf, useEffect,
  useGet, useState,
} from './view.js';

const GAP_MS = 30 * 60_000; // away for so long, a person comes back to another visit
const MOST = 8;
const HELD_FIRST = 15; // rows of positions
const FRESH_MS = 30_000;

/** What the account holds, the largest first, with where it ends. at: when the desk's equity was marked. */
export function Held({ account, marked }) {
  const found = useGet(`/accounts/${account}`, {}, { every: FRESH_MS, deps: [marked],
    as: ({ holdings }) => holdings.toSorted((one, other) => Math.abs(other.value ?? 0) - Math.abs(one.value ?? 0)) });
  return html`<${TablePanel} title="Positions" from=${found} first=${HELD_FIRST} columns=${HELD} rowKey="symbol"
    empty="Nothing is held" tools=${html`<${Link} to="/account">The account<//>`} />`;
}

const stopOf = (row) => row.plan?.stop ?? null;
/** What is lost from the price of now to the stop: of a fraction of the price, and in money. */
const distance = (row) => (stopOf(row) === null || !row.market_price ? null
  : (row.market_price - stopOf(row)) * (row.quantity < 0 ? -1 : 1) / row.market_price);
const atRisk = (row) => (distance(row) === null || row.value === null ? null
  : Math.max(distance(row), 0) * Math.abs(row.value));
const HELD = [
  ['Symbol', (row) => html`${row.symbol !== row.underlying && tickerOf(row.symbol)} ${symbolOf(row.underlying)}`, '',
    'symbol'],
  ['Holds', (row) => quantity(row.quantity), 'num', 'quantity'],
  ['Value', (row) => html`${money(row.value, 0)} ${quietOf(percent(row.share))}`, 'num wide', 'value'],
  ['Gain', (row) => gain(row.gain, row.gain === null ? plain(row.missing ?? 'not known')
    : `${signedMoney(row.gain, 0)} ${signedPercent(row.gain_share)}`), 'num', 'gain'],
  ['Price', (row) => priceOf(row.market_price, row), 'num wide', 'market_price'],
  ['Stop', (row) => (stopOf(row) === null ? badgeOf('none', 'warn') : html`${priceOf(stopOf(row), row)}
    ${' '}${quietOf(`${percent(distance(row))} away`)}`), 'num', distance],
  ['Target', (row) => (row.plan?.target ? priceOf(row.plan.target, row) : quietOf('none')), 'num wide'],
  ['At risk', (row) => money(atRisk(row), 0), 'num', atRisk, 'what is lost if its stop fills at its own price'],
  ['Days', (row) => html`${count(row.days)}${row.plan?.ends && html` <span class="quiet">ends ${
    plain(row.plan.ends)}</span>`}`, 'num wide', 'days'],
  ['Why', (row) => (row.order_id ? html`<${Link} to=${`/orders/${row.order_id}`} query=${{ part: 'why' }}>its order<//>`
    : quietOf('no order of the desk')), 'wide'],
  ['Close', (row) => html`<${ActionButton} label="Close…" path=${`/positions/${part(row.symbol)}/close`}
    done=${({ id }) => go(`/runs/${id}`)} confirm=${{ title: `Close ${plain(row.symbol)}`, action: 'Close it',
      children: html`<p>${row.quantity < 0 ? 'Buy back' : 'Sell'} ${quantity(Math.abs(row.quantity))} ${
        plain(row.symbol)} at market, worth about ${money(Math.abs(row.value ?? 0), 0)}, with ${
        signedMoney(row.gain, 0)} gained or lost. The order passes every check, and waits for approval where the desk
        asks a person. Its stop stays until it is sent.</p>` }} />`, 'unseen'],
];

/** When a person was here last, before this visit; null on the first. */
function useVisit(at) {
  const [before, setBefore] = useState(() => {
    const kept = JSON.parse(localStorage.getItem('desk-visit') ?? 'null');
    return !kept ? null : Date.now() - kept.seen > GAP_MS ? kept.seen : kept.before;
  });
  useEffect(() => {
    localStorage.setItem('desk-visit', JSON.stringify({ before, seen: Date.now() }));
  }, [at, before]);
  return [before, () => setBefore(Date.now())];
}

/** What has changed since the last visit; since the exchange's last close on the first. */
export function Since({ at }) {
  const [before, seen] = useVisit(at);
  const since = before && new Date(before).toISOString();
  const found = useGet('/changes', { since, limit: MOST + 1 }, { every: 60_000 });
  if (found.problem?.status === 404) return null; // a desk without this part
  const tools = html`${before && html`<${Ago} at=${since} />`}
    <button type="button" onClick=${seen}>All seen</button>`;
  return html`<${Panel} title=${before ? 'Since your last visit' : 'Since the last close'} tools=${tools}>
    <${Loaded} from=${found} what="what has changed">${({ changes, counts, equity, equity_before: was }) => html`
      ${equity !== null && was !== null && html`<p>Equity ${numOf(money(equity))}, ${gain(equity - was)}</p>`}
      <${Dots} none="Nothing has changed" of=${changes.slice(0, MOST).map((one) => html`${quietOf(timeOf(one.at,
        'minute'))} ${changeOf(one)}`)} />
      ${changes.length > MOST && html`<p class="quiet">${Object.entries(counts).map(([kind, n]) =>
        `${count(n)} ${kind}${n === 1 ? '' : 's'}`).join(', ')} in all</p>`}`}<//><//>`;
}

const changeOf = ({ text, order_id: order, run_id: run }) => (order ? html`<${Link} to=${`/orders/${order}`}>
  ${textOf(text, 140)}<//>` : run ? html`<${Link} to=${`/runs/${run}`}>${textOf(text, 140)}<//>` : textOf(text, 140));
