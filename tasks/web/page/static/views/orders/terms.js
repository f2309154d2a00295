// An order in words: its instrument, its terms and its state.

import { html } from '../../lib/html.js';
import { MISSING, figure, money } from '../../lib/format.js';
import { Badge } from '../../lib/ui.js';
import { plain } from '../../lib/text.js';

const TONES = {
  approval_pending: 'warn', approved: 'busy', submitting: 'busy', submitted: 'busy', partially_filled: 'busy',
  unknown: 'bad', filled: 'good', denied: 'bad', rejected: 'bad', cancelled: 'warn', expired: 'warn',
};
const NAMES = { approval_pending: 'waits for a person', unknown: 'outcome not known' };

export const STATES = [
  'drafted', 'denied', 'previewed', 'approval_pending', 'approved', 'submitting', 'unknown', 'submitted',
  'partially_filled', 'filled', 'cancelled', 'rejected', 'expired',
];
export const stateName = (state) => NAMES[state] ?? plain(state).replaceAll('_', ' ');
export const stateTone = (state) => TONES[state] ?? 'plain';
export const OrderState = ({ state }) => html`<${Badge} tone=${stateTone(state)}>${stateName(state)}<//>`;

/** What an order trades: its contract, the legs together, or the symbol itself. */
export function instrument(order) {
  if (order.legs?.length) return order.legs.map((leg) => `${leg.side === 'buy' ? '+' : '-'}${leg.ratio ?? 1} ${plain(leg.contract)}`).join(' ');
  return plain(order.contract ?? order.symbol);
}

export const unit = (order) => (order.legs?.length ? 'units' : order.contract ? 'contracts' : 'shares');

/** A quantity as the order has it: whole ones without decimals. */
export const quantity = (value) => (value === null || value === undefined ? MISSING : Number.isInteger(Number(value)) ? figure(value, 0) : figure(value, 4));

/** The price terms: "limit $24.10", "stop $20.00 limit $19.90", "market". */
export function priceTerms(order) {
  const parts = [plain(order.order_type ?? 'market').replaceAll('_', ' ')];
  if (order.stop_price !== null && order.stop_price !== undefined) parts.push(`stop ${money(order.stop_price)}`);
  if (order.trail_percent !== null && order.trail_percent !== undefined) parts.push(`trails by ${figure(order.trail_percent, 2)}\u202f%`);
  if (order.limit_price !== null && order.limit_price !== undefined) parts.push(`at ${money(order.limit_price)}`);
  return parts.join(' ');
}

/** The whole order as one line. */
export const sentence = (order) => `${plain(order.side ?? order.action)} ${quantity(order.quantity)} ${unit(order)} of ${instrument(order)}, ${priceTerms(order)}, ${plain(order.time_in_force)}`;

/** The name of a variable, with places where a narrow column may break it. */
export const breakable = (name) => plain(name).split('_').flatMap((one, n) => (n ? [html`<wbr />`, `_${one}`] : [one]));
