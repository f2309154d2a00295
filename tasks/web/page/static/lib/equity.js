// Equity over time: the account, its benchmarks or another account, and below it how far it is under its highest.

import { BaselineSeries, LineSeries } from 'lightweight-charts';
import { html, money, numOf, percent, plain } from './view.js';
import { Chart, pointsOf } from './chart.js';

const LINES = [['held', 'quiet', 2, 'bought and held'], ['equal_weight', 'warn', 1, 'equal weight'],
  ['other', 'good', 0, ''], ['equity', 'accent', 0, 'account']];

/** days: [{day, equity, drawdown, held, equal_weight, other}]. other: the account that is compared with. */
export function EquityChart({ days, other, label }) {
  const last = days.at(-1);
  if (days.length < 2) return html`<p>${last ? html`One session day so far, ${numOf(last.day)}: equity
    ${' '}${numOf(money(last.equity))}, drawdown ${numOf(percent(last.drawdown))}. The curve begins with the second.`
    : 'No equity is marked yet.'}</p>`;
  const known = (name) => days.some((one) => (one[name] ?? null) !== null);
  const shown = LINES.filter(([name]) => known(name));
  const values = days.map((one) => one.equity);
  const cents = Math.max(...values) - Math.min(...values) < 50 ? 2 : 0;
  const deepest = Math.max(...days.map((one) => one.drawdown ?? 0));
  const times = days.map((one) => one.day);
  const points = (name, sign = 1) => pointsOf(times, days.map((one) => one[name] && sign * one[name]));
  const build = (chart, shades) => {
    for (const [name, colour, lineStyle, title] of shown) {
      chart.addSeries(LineSeries, { color: shades[colour], lineWidth: name === 'equity' ? 2 : 1, lineStyle,
        title: title || plain(other), priceFormat: { type: 'custom', formatter: (value) => money(value, cents) } })
        .setData(points(name));
    }
    if (known('drawdown')) {
      const shownAs = (value) => percent(Math.abs(value) < 0.00005 ? 0 : value, deepest < 0.01 ? 2 : 1);
      chart.addSeries(BaselineSeries, { baseValue: { type: 'price', price: 0 }, title: 'drawdown', lineWidth: 1,
        topLineColor: shades.good, topFillColor1: 'transparent', topFillColor2: 'transparent',
        bottomLineColor: shades.loss, bottomFillColor1: `${shades.loss}10`, bottomFillColor2: `${shades.loss}55`,
        priceFormat: { type: 'custom', minMove: 0.0001, formatter: shownAs } }, 1).setData(points('drawdown', -1));
      chart.panes().forEach((pane, at) => pane.setStretchFactor(at ? 1 : 3));
    }
  };
  return html`<${Chart} build=${build} deps=${[days]} label=${label} height=${300} />
    <p class="legend quiet">${['Thick: the account', known('held') && 'dashed: the universe bought and held',
      known('equal_weight') && 'dotted: kept at equal weight', known('other') && `thin: ${plain(other)}`]
      .filter(Boolean).join('; ')}. Below: drawdown, deepest ${numOf(percent(deepest))}.</p>`;
}

export function withDrawdown(rows) {
  let high = 0;
  return rows.map((row) => {
    high = Math.max(high, row.equity ?? 0);
    return { ...row, drawdown: row.equity === null || !high ? null : 1 - row.equity / high };
  });
}
