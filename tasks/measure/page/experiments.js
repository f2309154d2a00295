// Experiments: arms of one history, their differences in pairs, and the names that they judged apart.

import {
  column, costOf, count, figure, gain, gainShare, html, Link, Loaded, number, numOf, part, plain, rangeOf, runOf,
  shortId, signedPercent, symbolOf, TablePanel, textOf, timeOf, useGet, words,
} from '../../lib/view.js';

const REFRESH_MS = 15_000;
const LIST = [
  ['Experiment', (row) => html`<${Link} to=${`/experiments/${row.id}`} className="id">${shortId(row.id)}<//>`],
  column('Begun', timeOf, 'created_at'),
  ['Sessions', (row) => html`${numOf(count(row.sessions))}, ${textOf(row.first)} to ${textOf(row.last)}`],
  ['Arms', (row) => row.arms.map((arm) => html`<div>${textOf(arm.arm)}: ${words(arm.state)}</div>`)],
];
const ARMS = [
  column('Arm'), ['Changes', (row) => Object.entries(row.changes)
    .map(([name, value]) => html`<div><code>${plain(name)}</code> ${textOf(value, 120)}</div>`)],
  number('Return', gainShare, 'returned'), number('Sessions', count), number('Tokens', count),
  ['Cost', costOf, 'num'], column('Backtest', runOf, 'run_id'),
];
const shown = (row) => (value) => (row.what.startsWith('return') ? signedPercent(value, 3) : figure(value, 4));
const DIFFERENCES = [
  column('Arm'), column('Of', textOf, 'what'),
  ['Difference', (row) => (row.found ? gain(row.found.mean, `${shown(row)(row.found.mean)}${row.told ? '*' : ''}`)
    : 'no pair'), 'num'],
  ['95 %', ({ found, low, high, ...row }) => found
    && rangeOf({ ...found, ...(found.low !== null && low !== null ? { low, high } : {}) }, shown(row)), 'num'],
  ['n', (row) => count(row.found?.n ?? 0), 'num'],
  ['p', (row) => (row.found?.low === null ? '' : figure(row.chance, 3)), 'num'],
  number('Sessions needed', count, 'needed', 'wide'),
];
const call = (given) => (given ? html`<${Link} to=${`/verdicts/${given.verdict}`}>${plain(given.rating)}<//>
  <div class="quiet">${textOf(given.why, 200)}</div>` : 'not judged');
const OTHERS = [
  column('Day'), column('Symbol', symbolOf), ['First arm', (row) => call(row.first)],
  ['This arm', (row) => call(row.arm)],
];

export const Experiments = () => html`<div class="view stack"><h1>Experiments</h1>
  <${TablePanel} title="Arms of one history" label="Experiments" columns=${LIST}
    from=${useGet('/experiments', {}, { every: REFRESH_MS })} empty="No experiment was run yet"
    hint=${html`<code>desk experiment --arm NAME: --arm "NAME: DESK_SETTING=value"</code> plays arms.`} /></div>`;

export function Experiment({ params }) {
  const found = useGet(`/experiments/${part(params.experiment)}`);
  return html`<div class="view stack"><h1>Experiment <span class="id">${shortId(params.experiment)}</span></h1>
    <${Loaded} from=${found} what="the experiment">${(one) => html`<div class="grid">
      <${TablePanel} title="Arms" className="whole" columns=${ARMS} rows=${one.arms} rowKey="run_id" />
      <${TablePanel} title="Less the first arm, in pairs" className="whole" columns=${DIFFERENCES}
        rows=${one.differences} rowKey=${(row) => `${row.arm} ${row.what}`} />
      <p class="quiet whole">* is told from zero among all differences of the experiment, with joint bounds.</p>
      ${Object.entries(one.others).map(([arm, rows]) => html`<${TablePanel} key=${arm} className="whole"
        title=${`Judged otherwise by ${plain(arm)}`} columns=${OTHERS} rows=${rows} empty="No name"
        rowKey=${(row) => `${row.day} ${row.symbol}`} />`)}</div>`}<//></div>`;
}
