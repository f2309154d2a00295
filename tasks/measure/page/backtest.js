// A run's part of a backtest.

import {
  aStep, badgeOf, column, count, Empty, Facts, figure, gainShare, html, Link, MISSING, money, number, numOf, Panel,
  percent, plain, rangeOf, ratio, runOf, signedMoney, signedPercent, Table, TablePanel, textOf, told, words,
} from '../../lib/view.js';
import { EquityChart, withDrawdown } from '../../lib/equity.js';
import { Lines } from '../../lib/lines.js';

// A backtest: its curve beside two benchmarks, what it came to, and its sessions, as they are played.
export function BacktestPart({ detail: { backtest, account } }) {
  const { sessions, rows, result, scored } = backtest;
  const last = rows.at(-1);
  return html`<p><${Link} to="/scores" query=${{ account }}>Its record<//>
    , <${Link} to="/scores" query=${{ show: 'scores', account: scored }}>scores of its verdicts<//>,
    account <${Link} to=${`/accounts/${account}`}>${plain(account)}<//></p><div class="grid">
    ${result ? html`<${Result} result=${result} />` : html`<${Panel} title="Equity so far" className="whole"
      tools=${html`${numOf(rows.length)} of ${numOf(sessions)} sessions`}>
      <progress value=${rows.length} max=${sessions} aria-label="Sessions"></progress>
      <${Lines} className="tall" lines=${[['accent-line', rows.map((row) => row.equity)]]}
        label=${`Equity after ${rows.length} sessions: ${money(last?.equity)}`} />
      <p>${last ? html`${numOf(last.day)}: <strong class="num">${money(last.equity)}</strong>`
        : 'No session is played yet'}</p><//>`}
    <${TablePanel} title="Sessions" className="whole" columns=${SESSIONS} rows=${rows} rowKey="day"
      empty="No session is played yet" /></div>`;
}

function Result({ result }) {
  if (!result.curve) return html`<${Panel} title="Result"><${Empty} title="It visited no session" /><//>`;
  return html`<${Panel} title="Conclusion" className="whole"><p>${textOf(result.conclusion)}</p>
    <${Facts} rows=${[
      ['Desk', gainShare(result.returns.desk)],
      ['Bought and held', gainShare(result.returns.held)],
      ['Equal weight', gainShare(result.returns.equal_weight)],
      ['Deepest fall', `${percent(result.drawdown.desk)} against ${percent(result.drawdown.held)} held`],
      ['Mean exposure', numOf(percent(result.exposure))],
      ['Turnover', numOf(ratio(result.turnover))],
      ['Sessions', html`${numOf(count(result.sessions))}, ${numOf(count(result.missing))} missing`],
      ['Costs', textOf(result.costs)],
    ]} /><//>
    ${result.performance && html`<${TablePanel} title="Desk less each benchmark" columns=${DIFFERENCES}
      rows=${result.performance.differences} rowKey="name" />
      <${Panel} title="Against chance"><${Table} label="Figures" columns=${MEASURES} rows=${result.performance.measures}
        rowKey="name" /><${AgainstChance} found=${result.performance} /><//>`}
    <${Panel} title="Equity" className="whole"><${EquityChart} days=${withDrawdown(result.curve)}
      label=${`Equity of the desk, ${signedPercent(result.returns.desk)}, beside the universe held, ${
        signedPercent(result.returns.held)}`} /><//>
    ${HIT_RATES.map(([name, heading]) => result[name]?.length > 0 && html`<${Panel} title=${heading} key=${name}>
      <p class="quiet">${textOf(result.question)}</p>
      <${Table} label=${heading} columns=${rateColumns(result[name])} rows=${result[name]} /><//>`)}`;
}

const short = (value) => figure(value, Math.abs(value) < 1000 ? 3 : 0);
const DIFFERENCES = [
  column('Less', textOf, 'name'), number('Its return', signedPercent, 'returned'),
  ['A step', (row) => told(row, row.mean, aStep(row.mean)), 'num'],
  ['95 %', (row) => rangeOf(row, aStep), 'num wide'],
];
const MEASURES = [['Figure', 'name'], number('Value', short), ['95 %', (row) => rangeOf(row, short), 'num']];

const AgainstChance = ({ found: { random, deflated, overfitting, trials } }) => [
  random && `${count(random.lots)} lots made ${signedMoney(random.desk, 0)}, above ${
    percent(random.share)} of random entries held as long.`,
  deflated !== null && `The Sharpe ratio beats the best of ${count(trials)} by chance with probability ${
    percent(deflated)}.`,
  overfitting !== null && `The best of ${count(trials)} configurations is overfitted with probability ${
    percent(overfitting)}.`,
  '* is told from 0 among all benchmarks.',
].map((line) => line && html`<p class="quiet">${line}</p>`);

const HIT_RATES = [['ratings', 'Hit rates by rating'], ['confidences', 'Hit rates by confidence'],
  ['lenses', 'Hit rates by lens'], ['roles', 'Hit rates by role']];
const rateColumns = (rows) => Object.keys(rows[0]).map((name) => {
  const known = rows.map((row) => row[name]).filter((value) => typeof value === 'number');
  const digits = name === 'effective' || known.every(Number.isInteger) ? 0 : 3;
  const text = (value) => textOf(Array.isArray(value) ? value.join(', ') : String(value ?? MISSING));
  return known.length ? number(words(name), (value) => figure(value, digits), name) : column(words(name), text, name);
});

const tally = (counts) => Object.entries(counts).map(([name, n]) => `${n} ${words(name)}`).join(', ');
const SESSIONS = [
  column('Day', numOf),
  ['State', (row) => html`${badgeOf(row.state)} ${row.reason && textOf(row.reason, 60)}`],
  number('Equity', money), number('Cash', money, 'cash', 'wide'), number('Traded', money, 'traded', 'wide'),
  ['Orders', (row) => tally(row.orders), 'wide'], ['Denied', (row) => tally(row.denials), 'wide'],
  column('Screen', runOf, 'screen_run_id'), column('Trade', runOf, 'trade_run_id', 'wide'),
];
