// A backtest: its curve beside two benchmarks, what it came to, and its sessions.

import { LineSeries } from 'lightweight-charts';
import { get } from '../lib/api.js';
import { Chart } from '../lib/chart.js';
import { html } from '../lib/html.js';
import { useKeys } from '../lib/keys.js';
import { MISSING, count, figure, money, percent, signedPercent } from '../lib/format.js';
import { useResource } from '../lib/store.js';
import { Badge, Empty, Facts, Figure, Link, Loaded, Panel, RunLink, Table, Text } from '../lib/ui.js';
import { plain, shortId } from '../lib/text.js';

export const title = (params) => `Backtest ${shortId(params.run)}`;

export default function Backtest({ params }) {
  const run = useResource(({ signal }) => get(`/runs/${encodeURIComponent(params.run)}`, {}, { signal }), [params.run], { every: 20_000 });
  useKeys([['r', 'Load again', run.reload]]);
  return html`<div class="view"><h1>Backtest <${RunLink} id=${params.run} /> ${run.data && html`<${Badge}>${run.data.state}<//>`}</h1>
    <${Loaded} from=${run} what="the backtest" isEmpty=${(found) => !found.backtest} empty=${html`<${Empty} title="This run is no backtest" />`}>${({ backtest }) => html`<${Whole} found=${backtest} account=${run.data.account} />`}<//></div>`;
}

function Whole({ found: { sessions, rows, result, scored }, account }) {
  return html`<p class="lead">Account <${Link} to=${`/accounts/${account}`}>${plain(account)}<//>, <${Link} to="/scores" query=${{ account: scored }}>scores of its verdicts<//></p><div class="grid">
    ${result ? html`<${Result} result=${result} />` : html`<${Panel} title="Result"><${Empty} title="Not yet"><span class="num">${rows.length}</span> of <span class="num">${sessions}</span> sessions are played.<//><//>`}
    <${Panel} title="Sessions" className="whole"><${Table} label="Sessions" columns=${SESSIONS} rows=${rows} rowKey=${(row) => row.day} empty=${html`<${Empty} title="No session is played yet" />`} /><//></div>`;
}

function Result({ result }) {
  if (!result.curve) return html`<${Panel} title="Result"><${Empty} title="It visited no session" /><//>`;
  return html`<${Panel} title="Conclusion" className="whole"><p class="lead"><${Text}>${result.conclusion}<//></p>
    <${Facts} rows=${[
      ['Desk', html`<${Figure} value=${result.returns.desk} sign>${signedPercent(result.returns.desk)}<//>`],
      ['Bought and held', html`<${Figure} value=${result.returns.held} sign>${signedPercent(result.returns.held)}<//>`],
      ['Equal weight', html`<${Figure} value=${result.returns.equal_weight} sign>${signedPercent(result.returns.equal_weight)}<//>`],
      ['Deepest fall', html`<span class="num">${percent(result.drawdown.desk)}</span> against <span class="num">${percent(result.drawdown.held)}</span> held`],
      ['Mean exposure', html`<span class="num">${percent(result.exposure, 1)}</span>`],
      ['Turnover', html`<span class="num">${figure(result.turnover, 2)}</span>`],
      ['Sessions', html`<span class="num">${count(result.sessions)}</span>, <span class="num">${count(result.missing)}</span> missing`],
      ['Costs', html`<${Text}>${result.costs}<//>`],
    ]} /><//>
    <${Panel} title="Equity" className="whole"><${Curve} result=${result} /><//>
    ${HIT_RATES.filter(([name]) => result[name]?.length).map(([name, heading]) => html`<${Panel} title=${heading} key=${name}><p class="quiet"><${Text}>${result.question}<//></p><${Table} label=${heading} columns=${rateColumns(result[name])} rows=${result[name]} /><//>`)}`;
}

const HIT_RATES = [['ratings', 'Hit rates by rating'], ['confidences', 'Hit rates by confidence'], ['lenses', 'Hit rates by lens'], ['roles', 'Hit rates by role']];
const rateColumns = (rows) => Object.keys(rows[0]).map((name) => {
  const known = rows.map((row) => row[name]).filter((value) => typeof value === 'number');
  const digits = known.every(Number.isInteger) ? 0 : 3;
  return {
    id: name, label: name.replaceAll('_', ' '), num: known.length > 0,
    cell: (row) => (known.length ? figure(row[name], digits) : html`<${Text}>${Array.isArray(row[name]) ? row[name].join(', ') : row[name] ?? MISSING}<//>`),
  };
});

function Curve({ result }) {
  const { curve, returns } = result;
  const build = (chart, shades) => {
    const add = (name, color, title, style) => {
      const line = chart.addSeries(LineSeries, { color, lineWidth: name === 'equity' ? 2 : 1, lineStyle: style, title, priceFormat: { type: 'custom', formatter: (value) => money(value, 0) } });
      line.setData(curve.map((one) => (one[name] === null ? { time: one.day } : { time: one.day, value: one[name] })));
    };
    add('held', shades.quiet, 'held', 2);
    add('equal_weight', shades.warn, 'equal weight', 1);
    add('equity', shades.accent, 'desk', 0);
    chart.timeScale().fitContent();
  };
  return html`<${Chart} build=${build} deps=${[curve]} label=${`Equity of the desk, ${signedPercent(returns.desk)}, beside the universe held, ${signedPercent(returns.held)}`} />
    <p class="legend quiet">Thick: the desk. Dashed: bought at equal weight and held. Dotted: kept at equal weight.</p>`;
}

const tally = (counts) => Object.entries(counts).map(([name, n]) => `${n} ${plain(name).replaceAll('_', ' ')}`).join(', ');
const SESSIONS = [
  { id: 'day', label: 'Day', cell: (row) => html`<span class="num">${row.day}</span>`, sort: (row) => row.day },
  { id: 'state', label: 'State', cell: (row) => html`<${Badge}>${row.state}<//>${row.reason && html` <${Text} most=${60}>${row.reason}<//>`}` },
  { id: 'equity', label: 'Equity', num: true, cell: (row) => money(row.equity), sort: (row) => row.equity },
  { id: 'cash', label: 'Cash', num: true, wide: true, cell: (row) => money(row.cash) },
  { id: 'traded', label: 'Traded', num: true, wide: true, cell: (row) => money(row.traded) },
  { id: 'orders', label: 'Orders', wide: true, cell: (row) => html`<${Text}>${tally(row.orders)}<//>` },
  { id: 'denials', label: 'Denied', wide: true, cell: (row) => html`<${Text}>${tally(row.denials)}<//>` },
  { id: 'screen', label: 'Screen', cell: (row) => html`<${RunLink} id=${row.screen_run_id} />` },
  { id: 'trade', label: 'Trade', wide: true, cell: (row) => html`<${RunLink} id=${row.trade_run_id} />` },
];
