// An order in words: its instrument, its terms and its state.

import {
  badgeOf, Block, figure, html, Link, lookOf, MISSING, part, plain, priceOf, quantity, shortId, standingOf, stateOf,
  textOf, words,
} from './view.js';
import { STATES as LOOKS } from './looks.js';

export const STATES = Object.keys(LOOKS.order);
export const stateName = (state) => lookOf('order', state)[0];
export const stateTone = (state) => lookOf('order', state)[1];
export const orderState = (state) => stateOf('order', state);

/** What an order trades: its contract, the legs together, or the symbol itself. */
export function instrument(order) {
  const leg = ({ side, ratio, contract }) => `${side === 'buy' ? '+' : '-'}${ratio ?? 1} ${plain(contract)}`;
  return order.legs?.length ? order.legs.map(leg).join(' ') : plain(order.contract ?? order.symbol);
}

export const unit = (order) => (order.legs?.length ? 'units' : order.contract ? 'contracts' : 'shares');

/** What an order is, as a title: "Buy 208 ED at market". */
export function titleOf(order) {
  const [first, ...rest] = `${plain(order.side ?? order.action)} ${quantity(order.quantity)} ${instrument(order)}`;
  const terms = priceTerms(order);
  return `${first.toUpperCase()}${rest.join('')} ${terms === 'market' ? 'at market' : terms}`;
}
export const actionOf = ({ action, side }) => [action, side].filter(Boolean).map(plain).join(', ');

export const Denied = ({ title, code, reason, measured, limit }) => html`<p class="notice bad" role="status">
  ${badgeOf(title, 'bad')} <code>${plain(code)}</code>: ${textOf(reason)}. Measured <strong class="num">
  ${textOf(measured || 'nothing')}</strong>, limit <strong class="num">${textOf(limit || 'none')}</strong></p>`;

/** The price terms: "limit at $24.10", "stop $20.00 limit at $19.90", "market". */
export function priceTerms(order) {
  const has = (value) => value !== null && value !== undefined;
  const stops = has(order.stop_price);
  const parts = [stops ? `stop ${priceOf(order.stop_price, order)}` : words(order.order_type ?? 'market')];
  if (has(order.trail_percent)) parts.push(`trails by ${figure(order.trail_percent, 2)}\u202f%`);
  if (has(order.limit_price)) parts.push(`${stops ? 'limit ' : ''}at ${priceOf(order.limit_price, order)}`);
  return parts.join(' ');
}

/** The name of a variable, with places where a narrow column may break it. */
export const breakable = (name) => plain(name).split('_').flatMap((one, n) => (n ? [html`<wbr />`, `_${one}`] : [one]));

/** A link to a turn of a thread. turn: the runtime's id of it; without one, to the thread. */
export const turnOf = (thread, turn, said = '') => (thread ? html`<${Link} to=${`/threads/${part(thread)}`}
  query=${{ turn }} className=${said ? '' : 'id'} title=${thread}>${said || shortId(thread)}<//>` : MISSING);

/** Whether this moves real money, in text and not by colour alone. */
export function MoneyNotice({ standing }) {
  const found = standing.data?.standing;
  if (!found) return html`<p class="notice warn" role="status">
    ${standing.problem ? 'Whether this moves real money is not known: the desk did not answer.'
    : 'Asking whether this moves real money …'}</p>`;
  if (found.real_money) return html`<p class="notice bad" role="alert"><strong>REAL MONEY.</strong> This goes to the
    broker ${textOf(found.broker)} and moves real money.</p>`;
  return html`<p class="notice">${standingOf(found)} ${found.live ? html`It goes to the broker ${textOf(found.broker)}.`
    : 'Live trading is off: nothing is sent to a broker.'}</p>`;
}

/** What a model asks for, whole: it is the model's own words. */
export function RequestDetail({ kind, detail }) {
  if (kind === 'command') return html`<${Block} label="Command">${plain(detail.command)}<//>
    <p class="quiet">in <code>${textOf(detail.cwd)}</code>${detail.reason && html`: ${textOf(detail.reason)}`}</p>`;
  if (kind === 'file_change') return html`${detail.changes?.map((one) => html`<p>
    ${badgeOf(one.change)} <code>${textOf(one.path)}</code></p>
    <${Block} label=${`Change of ${plain(one.path)}`}>${plain(one.diff)}<//>`)}`;
  if (kind === 'user_input') return null;
  if (kind === 'interrupt') return html`<${Block} label=${`What the node ${plain(detail.node)} asks`}>
    ${plain(detail.asks)}<//>`;
  return html`<${Block} label="What it asks">${plain(JSON.stringify(detail, null, 2))}<//>`;
}
