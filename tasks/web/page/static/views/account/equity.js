// The equity curve of an account, and below it how far it is under its highest.

import { AreaSeries, BaselineSeries } from 'lightweight-charts';
import { get } from '../../lib/api.js';
import { Chart } from '../../lib/chart.js';
import { html } from '../../lib/html.js';
import { money, percent, signedMoney, signedPercent } from '../../lib/format.js';
import { useResource } from '../../lib/store.js';
import { Empty, Figure, Loaded, Panel, Segments, Table } from '../../lib/ui.js';

const SPANS = [['20', '1 month'], ['65', '3 months'], ['260', '1 year'], ['5000', 'all']];

export function Equity({ account, span, setSpan, version }) {
  const curve = useResource(({ signal }) => get(`/accounts/${encodeURIComponent(account)}/equity`, { days: span }, { signal }), [account, span, version], { every: 60_000 });
  return html`<${Panel} title="Equity" className="whole" tools=${html`<${Segments} label="Span" options=${SPANS} value=${span} onChange=${setSpan} />`}>
    <${Loaded} from=${curve} what="equity" isEmpty=${(found) => !found.days.length} empty=${html`<${Empty} title="No equity is marked yet">The desk marks it on each session day on which the account trades or is compared.<//>`}>${(found) => html`<${Curve} found=${found} />`}<//><//>`;
}

function Curve({ found: { days, deepest } }) {
  const last = days.at(-1);
  if (days.length < 2) return html`<p>One session day so far, <span class="num">${last.day}</span>: equity <strong class="num">${money(last.equity)}</strong>, drawdown <span class="num">${percent(last.drawdown)}</span>. The curve begins with the second.</p>`;
  const values = days.map((one) => one.equity);
  const cents = Math.max(...values) - Math.min(...values) < 50 ? 2 : 0;
  const label = `Equity ${money(last.equity)} on ${last.day}, ${days.length} session days, deepest drawdown ${percent(deepest)}`;
  const build = (chart, shades) => {
    const equity = chart.addSeries(AreaSeries, { lineColor: shades.accent, topColor: `${shades.accent}33`, bottomColor: `${shades.accent}05`, lineWidth: 2, priceFormat: { type: 'custom', formatter: (value) => money(value, cents) }, title: 'equity' });
    equity.setData(days.map((one) => ({ time: one.day, value: one.equity })));
    const fall = chart.addSeries(BaselineSeries, { baseValue: { type: 'price', price: 0 }, topLineColor: shades.good, topFillColor1: 'transparent', topFillColor2: 'transparent', bottomLineColor: shades.loss, bottomFillColor1: `${shades.loss}10`, bottomFillColor2: `${shades.loss}55`, lineWidth: 1, priceFormat: { type: 'custom', minMove: 0.0001, formatter: (value) => percent(Math.abs(value) < 0.00005 ? 0 : value, Math.max(deepest ?? 0, 0) < 0.01 ? 2 : 1) }, title: 'drawdown' }, 1);
    fall.setData(days.map((one) => (one.drawdown === null ? { time: one.day } : { time: one.day, value: -one.drawdown })));
    const panes = chart.panes();
    panes[0].setStretchFactor(3);
    panes[1].setStretchFactor(1);
    chart.timeScale().fitContent();
  };
  return html`<${Chart} build=${build} deps=${[days]} label=${label} height=${300} />
    <p class="legend quiet">Upper: equity. Lower: drawdown from the highest; deepest <span class="num">${percent(deepest)}</span>. Money paid in or out counts as neither.</p>
    <details><summary>As a table</summary><${Table} label="Equity by day" columns=${COLUMNS} rows=${[...days].reverse().slice(0, 260)} rowKey=${(row) => row.day} /></details>`;
}

const COLUMNS = [
  { id: 'day', label: 'Day', cell: (row) => html`<span class="num">${row.day}</span>` },
  { id: 'equity', label: 'Equity', num: true, cell: (row) => money(row.equity) },
  { id: 'change', label: 'Change', num: true, cell: (row) => html`<${Figure} value=${row.change} sign>${signedMoney(row.change)}<//>` },
  { id: 'share', label: 'Share', num: true, cell: (row) => html`<${Figure} value=${row.change} sign>${signedPercent(row.change_share)}<//>` },
  { id: 'drawdown', label: 'Drawdown', num: true, cell: (row) => percent(row.drawdown) },
];
