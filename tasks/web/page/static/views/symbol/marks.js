// What the desk did with a symbol, on the bar of its market day: hits, verdicts, orders and fills; and levels it holds to.

import { figure, moment } from '../../lib/format.js';
import { plain } from '../../lib/text.js';

export const KINDS = [
  { kind: 'hits', name: 'hits', mark: '○' },
  { kind: 'verdicts', name: 'verdicts', mark: '■' },
  { kind: 'orders', name: 'orders', mark: '□' },
  { kind: 'fills', name: 'fills', mark: '▲▼' },
  { kind: 'levels', name: 'cost and stops', mark: '┄' },
];

const TEXTS = {
  hits: (row) => ({ text: `hit: ${row.lens}`, href: `#/runs/${row.run_id}?stage=hits` }),
  verdicts: (row) => ({ text: row.rating, href: `#/verdicts/${row.id}` }),
  orders: (row) => ({ text: `${row.action} ${row.side ?? ''} ${row.quantity === null ? '' : figure(row.quantity, 0)} ${row.state}`, href: `#/orders/${row.id}`, side: row.side }),
  fills: (row) => ({ text: `${row.side} ${figure(row.quantity, 0)} at ${figure(row.price)}`, href: `#/orders/${row.order_id}`, side: row.side, price: row.price }),
};

/** What happened by the index of its bar. A day without a bar, such as that of a fill after the last one, counts to the
 * bar before it, and its text has the day. */
export function eventsByBar(bars, detail, hidden) {
  const found = new Map();
  const days = bars.map((bar) => bar.at.slice(0, 10));
  for (const kind of Object.keys(TEXTS)) {
    if (hidden.has(kind)) continue;
    for (const row of detail[kind] ?? []) {
      const on = moment(row.market_at ?? row.filled_at, 'day', 'ny');
      const at = lastUpTo(days, on);
      if (at < 0) continue;
      const { text, href, ...more } = TEXTS[kind](row);
      const shown = plain(days[at] === on || bars.at(-1).at.length < 10 ? text : `${text} (${on})`).replaceAll('_', ' ');
      if (!found.has(at)) found.set(at, []);
      found.get(at).push({ kind, text: shown, href, at, ...more });
    }
  }
  return found;
}

function lastUpTo(days, day) {
  let [low, high] = [0, days.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (days[middle] <= day) low = middle + 1;
    else high = middle;
  }
  return low - 1;
}

/** Marks for the chart, few on a bar: of each kind one, which counts the others. */
export function marksOf(events, colours) {
  const marks = [];
  for (const [at, list] of [...events].sort(([a], [b]) => a - b)) {
    for (const { kind } of KINDS) {
      const same = list.filter((event) => event.kind === kind);
      if (!same.length) continue;
      const names = [...new Set(same.map((event) => event.text))];
      const text = kind === 'hits' ? (same.length > 1 ? `${same.length} hits` : 'hit') : kind === 'orders' ? '' : names.length > 1 ? `${names[0]} +${names.length - 1}` : names[0];
      const sells = same[0].side === 'sell';
      marks.push({
        at, text,
        ...({
          hits: { position: 'belowBar', shape: 'circle', color: colours.quiet },
          verdicts: { position: 'aboveBar', shape: 'square', color: /^(BUY|STRONG BUY)/.test(names[0]) ? colours.up : /^(PASS|SELL|STRONG SELL)/.test(names[0]) ? colours.down : colours.warn },
          orders: { position: 'belowBar', shape: 'square', color: colours.accent },
          fills: { position: sells ? 'aboveBar' : 'belowBar', shape: sells ? 'arrowDown' : 'arrowUp', color: colours.accent },
        })[kind],
      });
    }
  }
  return marks;
}

/** Prices that hold now: the average cost of a position, and the stops and limits that protect it. */
export function levels(detail, hidden) {
  if (hidden.has('levels')) return [];
  return detail.positions.filter((one) => one.symbol === detail.symbol).flatMap((one) => [
    { price: one.average_cost, title: 'cost', tone: 'accent' },
    ...one.protected_by.flatMap((stop) => [
      ...(stop.stop_price === null ? [] : [{ price: stop.stop_price, title: 'stop', tone: 'down' }]),
      ...(stop.limit_price === null ? [] : [{ price: stop.limit_price, title: 'limit', tone: 'up' }]),
    ]),
  ]);
}
