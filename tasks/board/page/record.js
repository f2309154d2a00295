// The record: what time made of forecasts and verdicts, the questions, the episodes, and the list of backtests.

import {
  accountOf, aStep, badgeOf, Block, chance, Choice, column, count, dayOf, Empty, Facts, figure, Filters, FORECAST,
  gain, gainShare, hitsOf, html, joined, Link, Loaded, MISSING, money, number, numOf, outcomeOf, OutLink, Panel, part,
  Parts, percent, plain, priceOf, prices, quantity, questionOf, quietOf, rangeOf, ratingOf, runOf, saveRows, score,
  setQuery, shareRange, signedPercent, symbolOf, symbolsOf, Table, TablePanel, Text, textOf, timeOf, told, useGet,
  useList, useState,
} from '../../lib/view.js';
import { EquityChart } from '../../lib/equity.js';

/** A mean with its sign and half of its 95 % interval, which is never written as zero. */
function signed(mean) {
  if (!mean) return MISSING;
  const text = `${mean.mean > 0 ? '+' : ''}${figure(mean.mean, 4)}`;
  if (mean.high === null) return `${text}, ${mean.lack}`;
  const reach = mean.high - mean.mean;
  return `${text} ±${reach < 0.0001 ? reach.toPrecision(1) : figure(reach, 4)}`;
}

/** A row without any record yet has a baseline's score, which is none of its own. */
const unscored = (row) => row.unrecorded !== undefined && row.unrecorded === row.forecasts;

/** The columns of scores. account: of the record, where it is not the desk's own. */
const scoreColumns = (account) => [
  ['Name', (row) => html`<${Link} to=${`/scores/${row.kind}/${part(row.name)}`} query=${{ account }}>
    ${textOf(row.name)}<//>`, '', 'name'],
  ['Questions', (row) => count(row.brier.n), 'num', (row) => row.brier.n],
  ['Effective', (row) => figure(row.alpha.effective, 0), 'num wide', (row) => row.alpha.effective],
  ['Dates', (row) => count(row.brier.dates), 'num wide', (row) => row.brier.dates],
  ['Came true', (row) => html`${chance(row.rate.mean)} ${quietOf(shareRange(row.rate))}`, 'num',
    (row) => row.rate.mean, 'of its questions, with the 95 % interval'],
  ['Brier', (row) => (unscored(row) ? MISSING : html`${score(row.brier.mean)} <span class="quiet wide">
    ${row.brier.high !== null && `±${score(row.brier.high - row.brier.mean)}`}</span>`), 'num',
    (row) => row.brier.mean],
  ['Log', (row) => (unscored(row) ? MISSING : score(row.log.mean)), 'num wide', (row) => row.log.mean],
  ['Alpha', (row) => (unscored(row) ? 'no record yet' : told(row, row.alpha.mean, signed(row.alpha))), 'num',
    (row) => row.alpha.mean],
];

const PARTS = [['record', 'Account', AccountPart], ['scores', 'Scores', ScoresPart],
  ['questions', 'Questions', Questions], ['episodes', 'Episodes', Episodes, 'episode'],
  ['backtests', 'Backtests', Backtests, 'backtest']]; // the last one: the kind of run without which there is none
const TITLES = { thesis: 'Theses, by role, model, lens and horizon', voice: 'Voices, by their last position',
  tool: 'Tools, by what their signals implied',
  lens: 'Lenses, by their record up to each day', role: 'Roles, by their record up to each day',
  rating: 'Verdicts, by their record up to each day' };

export const Record = ({ query, desk }) => html`<${Parts} title="Record" query=${query} desk=${desk}
  parts=${PARTS.filter(([, , , kind]) => !kind || !desk.data || desk.data.kinds.includes(kind))} />`;

function AccountPart({ query: { account, against }, desk }) {
  const accounts = useGet('/accounts');
  const played = desk.data?.kinds.includes('backtest');
  const backtests = useGet(played ? '/runs' : null, { kind: 'backtest', limit: 50, short: true });
  const names = [...new Set([...(accounts.data ?? []).map((one) => one.account), ...(backtests.data ?? [])
    .map((one) => one.run.account), account].filter(Boolean))];
  const name = account ?? names[0];
  const record = useGet(name ? `/accounts/${part(name)}/record` : null, { against });
  const choice = (field, label, shown, values, none = null) => html`<${Choice} class="inline" label=${label}
    values=${values} value=${shown} none=${none} onChange=${(text) => setQuery({ [field]: text })} />`;
  return html`<div class="filters">${choice('account', 'Account', name, names)}${choice('against', 'Compared with',
    against, names.filter((one) => one !== name), 'none')}
      ${record.data && [['Equity', 'days'], ['Trades', 'trades']].map(([label, rows]) => html`<button type="button"
        onClick=${() => saveRows(`${label.toLowerCase()}-${name}.csv`, record.data[rows])}>${label} as CSV</button>`)}
    </div>
    <${Loaded} from=${record} what="the record">${(found) => html`<${WholeRecord} found=${found} />`}<//>`;
}

function WholeRecord({ found }) {
  const { days, months, trades, symbols, lenses, hits, edge, difference, against, scored } = found;
  const scores = useGet('/scores', { account: scored });
  const [chosen, setChosen] = useState('');
  const rows = (scores.data?.rows ?? []).filter((row) => row.kind === 'thesis' || row.kind === 'rating');
  const plotted = rows.find((row) => `${row.kind} ${row.name}` === chosen)
    ?? rows.find((row) => row.name === 'BUY') ?? rows[0];
  const step = (one) =>
    (one ? html`${gain(one.mean, aStep(one.mean))} ${quietOf(`from mark to mark, ${rangeOf(one, aStep)}`)}` : null);
  return html`<p class="lead">${textOf(found.said)}</p>
    <div class="grid"><${Panel} title="Equity" className="whole">
      <${EquityChart} days=${days} other=${against}
        label=${`Equity of ${found.account} on ${days.length} session days, deepest drawdown ${percent(found.deepest)}`}
        />
      ${found.lacking && html`<p class="quiet">No benchmark: ${textOf(found.lacking)}.</p>`}
      <${Facts} rows=${[
        ['Against equal weight', step(edge)],
        [`Against ${plain(against)}`, against ? step(difference) : undefined],
        ['Buys that beat the median', hitsOf(hits)],
      ]} /><//>
    <${TablePanel} title="Months" columns=${MONTHS} rows=${months} rowKey="month" empty="No month yet" />
    <${TablePanel} title="Return by lens, of several in equal parts" columns=${RETURNS} rows=${lenses} rowKey="name"
      empty="No trade yet" />
    <${TablePanel} title="Return by symbol" columns=${RETURNS} rows=${symbols} rowKey="name" empty="No trade yet" />
    <${TablePanel} title="Trades" className="whole" columns=${TRADES} rows=${trades}
      rowKey=${(row) => `${row.entry}${row.exit}`} empty="No share was bought yet" />
    <${TablePanel} title="Hit rate and Brier by rating, role, model and horizon" label="Scores" className="whole"
      columns=${scoreColumns(scored)} rows=${rows} rowKey=${(row) => `${row.kind}${row.name}`}
      empty="No verdict or thesis has its outcome yet" />
    ${plotted && html`<${Panel} title="Calibration" className="whole"
      tools=${html`<${Choice} class="inline" label="Of" values=${rows.map((row) => `${row.kind} ${row.name}`)}
        value=${`${plotted.kind} ${plotted.name}`} none=${null} onChange=${setChosen} />`}>
      <${Calibration} rows=${plotted.calibration} /><//>`}</div>`;
}

const MONTHS = [
  column('Month', numOf), number('Account', gainShare, 'desk'), number('Equal weight', signedPercent),
  number('Held', signedPercent, 'held', 'wide'),
];
const RETURNS = [
  column('Of', textOf, 'name'), number('Trades', count), number('Won', count, 'won', 'wide'), number('Profit', gain),
  number('Of what was staked', gainShare, 'share'),
];
const reasonOf = (why) => (why ? html`<${Text} most=${90}>${why}<//>` : quietOf('none given'));
const TRADES = [
  column('Symbol', symbolOf),
  ['Quantity', (row) => html`${quantity(row.quantity)} ${row.splits !== 1
    && quietOf(`× ${figure(row.splits)} split`)}`, 'num', 'quantity', 'as they were bought'],
  ['Entry', (row) => html`<${Link} to=${`/orders/${row.entry}`} className="nowrap num">${row.bought}<//>`, '',
    'bought'],
  prices('Entry price', 'entry_price'),
  ['Entry reason', (row) => reasonOf(row.entry_reason), 'wide', 'entry_reason'],
  ['Exit', (row) => (row.exit ? html`<${Link} to=${`/orders/${row.exit}`} className="nowrap num">${row.until}<//>`
    : quietOf('held')), '', 'until'],
  ['Exit price', (row) => (row.exit ? priceOf(row.exit_price, row) : quietOf('held')), 'num', 'exit_price'],
  ['Exit reason', (row) => (row.exit ? reasonOf(row.exit_reason) : quietOf('held')), 'wide', 'exit_reason'],
  number('Days held', count, 'days_held', '', 'of the calendar; while they are held, until the last close'),
  number('Profit', gain), number('Return', gainShare, 'share'),
  ['Lens', (row) => textOf(row.lenses.join(', ')), 'wide'],
];

function ScoresPart({ query: { account } }) {
  const scores = useGet('/scores', { account });
  const columns = scoreColumns(account);
  return html`<${Loaded} from=${scores} what="scores">${(board) => html`
    <p class="lead">Account ${accountOf(board.account)}. Its questions: ${Object.entries(board.questions)
      .map(([state, n]) => `${count(n)} ${state}`).join(', ') || 'none yet'}. ${board.elsewhere > 0
      && html`<${Link} to="/scores" query=${{ show: 'questions', state: 'resolved' }}>${count(board.elsewhere)} more
        resolved<//> of the desk are not its own.`}</p>
    ${!board.rows.length ? html`<${Empty} title=${`Nothing to score: ${plain(board.lacking)}`}>A verdict is a
      question too: it resolves after <code>DESK_QUESTION_SESSIONS</code> sessions. <code>desk episode</code> asks the
      voices.<//>` : html`<div class="grid">
      ${Object.entries(TITLES).map(([kind, title]) => [title, board.rows.filter((row) => row.kind === kind)])
        .map(([title, rows]) => rows.length > 0 && html`<${TablePanel} title=${title} className="whole" key=${title}
          columns=${columns} rows=${rows} rowKey="name" />`)}
      ${board.crowd && html`<${Panel} title="All voices together, same questions"><${Table} label="All voices together"
        columns=${ROUND} rows=${board.crowd.rounds} rowKey="name" />
        <p class="quiet">Round 2 gained ${numOf(signed(board.crowd.gain))}; round ${board.crowd.better_round} is
          used.</p><//>`}
      ${board.published && html`<${TablePanel} title="What the episodes published" columns=${ROUND}
        rows=${[board.published]} rowKey="name" />`}
    </div><p class="quiet">Brier: (p - o)², 0 is right, 0.25 is one half each time. Alpha is against the
      baseline: above 0 is skill, and .018 shows from 350 questions on. ± is half of the 95 % interval: so many
      independent questions as are effective would have it. * is told from 0 among all of its kind.</p>`}`}<//>`;
}
const ROUND = [
  column('Round', textOf, 'name'),
  ...scoreColumns().filter(([name]) => ['Questions', 'Brier', 'Alpha'].includes(String(name))),
];

const SOURCES = ['desk', 'verdict', 'person', 'manifold', 'polymarket', 'kalshi'];
const FILTERS = [['state', 'State', ['open', 'resolved', 'void']], ['source', 'Source', SOURCES],
  ['about', 'About', 'symbol']];
function Questions({ query: { state, source, about } }) {
  const asked = { state, source, about };
  return html`<${TablePanel} title="Questions" ...${useList('/questions', asked)} columns=${QUESTIONS}
    empty="No question is like that" tools=${html`<${Filters} query=${asked} of=${FILTERS} />`} />`;
}
const sourceOf = ({ source, url }) => html`${textOf(source)} ${url && html`<${OutLink} url=${url}>venue<//>`}`;
const QUESTIONS = [
  ['Question', (row) => questionOf(row.id, row.text, 120), 'prose'],
  column('State', badgeOf), number('Outcome', outcomeOf), number('Baseline', figure),
  ['Source', sourceOf, 'wide', 'source'], column('About', symbolsOf, 'subjects', 'wide'),
  column('Closes', dayOf, 'closes_at', 'wide'),
];

function RunsOf({ kind, title, columns, empty, hint }) {
  const runs = useGet('/runs', { kind, limit: 50 }, { every: 30_000, as: (rows) => rows.map(joined('run')) });
  return html`<${TablePanel} title=${title} from=${runs} columns=${columns} empty=${empty} hint=${hint} />`;
}

const COMMON = [
  column('Run', runOf, 'id'), column('State', badgeOf), column('Market day', dayOf, 'market_now'),
  column('Began', timeOf, 'created_at', 'wide'),
];
const EPISODES = [...COMMON,
  ['Board', (row) => html`<${Link} to=${`/runs/${row.id}`}>questions, forecasts, signals<//>`]];
function Episodes() {
  return html`<${RunsOf} kind="episode" title="Episodes" columns=${EPISODES} empty="No episode was held yet"
    hint=${html`<code>desk episode</code> holds one; screens with <code>DESK_ROUNDS</code> have a board too.`} />`;
}

const came = (row) => row.summary?.backtest;
const BACKTESTS = [
  column('Backtest', runOf, 'id'), COMMON[1],
  ['Sessions', (row) => (came(row) ? numOf(`${came(row).first} to ${came(row).last}`) : MISSING)],
  ['Desk', (row) => (came(row)?.blocked ? 'blocked' : gainShare(came(row)?.returns?.desk)), 'num',
    (row) => came(row)?.returns?.desk],
  ['Held', (row) => gainShare(came(row)?.returns?.held), 'num'],
  ['Drawdown', (row) => percent(came(row)?.drawdown?.desk), 'num wide'],
  ['Capital', (row) => money(came(row)?.capital, 0), 'num wide'],
];
function Backtests() {
  return html`<${RunsOf} kind="backtest" title="Backtests" columns=${BACKTESTS} empty="No backtest was run yet"
    hint=${html`<code>desk backtest --from DAY --to DAY</code> plays past sessions.`} />`;
}

// One source in the record: a voice, tool, lens, role or kind of verdict, with its calibration.
export function Score({ params, query: { account } }) {
  const scores = useGet('/scores', { kind: params.kind, name: params.name, account });
  return html`<div class="view"><h1>${plain(params.kind)} ${textOf(params.name)}
    <${Link} to="/scores" query=${{ account }}>all scores ${account && html`of ${textOf(account)}`}<//></h1>
    <${Loaded} from=${scores} what="the score" isEmpty=${(found) => !found.rows.length}
      empty="None of its questions has an outcome yet">${({ rows: [row] }) => html`<${WholeScore} row=${row} />`}
    <//></div>`;
}

function WholeScore({ row }) {
  return html`<div class="grid">
    <${Panel} title="Scores"><${Facts} rows=${[
      ['Forecasts', numOf(count(row.forecasts))],
      ['Questions', html`${numOf(count(row.brier.n))} on ${numOf(count(row.brier.dates))} dates`],
      ['Brier', numOf(score(row.brier.mean))],
      ['Log', numOf(score(row.log.mean))],
      ['Alpha', gain(row.alpha.mean, signed(row.alpha))],
      ['Round 2 gained', row.revision ? gain(row.revision.mean, signed(row.revision)) : undefined],
      ['Karma', row.karma === null ? undefined : numOf(figure(row.karma, 1))],
      ['Before any record', row.unrecorded ? numOf(count(row.unrecorded)) : undefined],
    ]} /><//>
    <${Panel} title="Calibration"><${Calibration} rows=${row.calibration} /><//>
    ${[['By round', row.rounds], ["By the models' cutoffs", row.sides], ['By label', row.labels]].map(([name, parts]) =>
      parts.length > 0 && html`<${TablePanel} title=${name} columns=${ROUNDS} rows=${parts} rowKey="name" />`)}
  </div>`;
}

const ROUNDS = [['Part', 'name'], ...scoreColumns().slice(1)];

const SIZE = 220;
const PAD = 30;
const at = (value) => PAD + value * (SIZE - PAD - 8);
const down = (value) => SIZE - PAD - value * (SIZE - PAD - 8);

/** What was forecast against what came true: on the diagonal is calibrated; the bars are the 95 % interval. */
function Calibration({ rows }) {
  if (!rows.length) return html`<${Empty} title="Nothing to compare yet" />`;
  return html`<div class="row"><svg class="calibration" width=${SIZE} height=${SIZE} viewBox=${`0 0 ${SIZE} ${SIZE}`}
    role="img" aria-label="Share that came true by forecast; the table beside it has the figures">
      <rect x=${at(0)} y=${down(1)} width=${at(1) - at(0)} height=${down(0) - down(1)} class="plane" />
      <path class="diagonal" d=${`M${at(0)} ${down(0)} L${at(1)} ${down(1)}`} />
      ${[0, 0.5, 1].map((tick) => html`<text x=${at(tick)} y=${SIZE - 14} text-anchor="middle">${tick}</text>
        <text x=${PAD - 5} y=${down(tick) + 4} text-anchor="end">${tick}</text>`)}
      <text x=${at(0.5)} y=${SIZE - 2} text-anchor="middle">forecast</text>
      ${rows.map((row) => html`${row.least !== null && html`<path class="interval"
        d=${`M${at(row.forecast)} ${down(row.least)} L${at(row.forecast)} ${down(row.most)}`} />`}
        <circle cx=${at(row.forecast)} cy=${down(row.rate)} r=${Math.min(2 + Math.sqrt(row.n), 8)} />`)}</svg>
    <${Table} label="Calibration" columns=${BUCKETS} rows=${rows} rowKey="low" /></div>`;
}
const BUCKETS = [
  ['Forecasts', (row) => numOf(`${figure(row.low, 1)} to ${figure(row.high, 1)}`)],
  number('How many', count, 'n'), number('Mean', figure, 'forecast'), number('Came true', figure, 'rate'),
  ['95 %', (row) => (row.least === null ? 'too few' : `${figure(row.least, 2)} to ${figure(row.most, 2)}`), 'num wide'],
];

// One question: its rule, its times, its outcome with the evidence, and who forecast it.
export const QuestionView = ({ params }) => html`<div class="view">
  <${Loaded} from=${useGet(`/questions/${part(params.question)}`)} what="the question">${(detail) =>
    html`<${WholeQuestion} ...${detail} />`}<//></div>`;

function WholeQuestion({ question, verdicts, forecasts, positions }) {
  return html`<h1>${textOf(question.text)}</h1><div class="grid">
    <${Panel} title="Question"><${Facts} rows=${[
      ['State', badgeOf(question.state)],
      ['Outcome', html`<strong class="num">${outcomeOf(question.outcome)}</strong>`],
      ['Baseline', html`${numOf(chance(question.baseline))} ${quietOf(textOf(question.baseline_source))}`],
      ['About', symbolsOf(question.subjects)],
      ['Opens', timeOf(question.opens_at)],
      ['Closes', timeOf(question.closes_at)],
      ['Source', sourceOf(question)],
      ['Resolved', question.resolved_at ? html`${timeOf(question.resolved_at)} ${textOf(question.resolved_by)}`
        : undefined],
      ['Note', question.note ? textOf(question.note) : undefined],
    ]} /><//>
    <${Panel} title="Rule and evidence"><${Block} label="Rule">${plain(JSON.stringify(question.rule, null, 1))}<//>
      ${question.evidence ? html`<${Block} label="Evidence">${plain(JSON.stringify(question.evidence, null, 1))}<//>`
        : html`<p class="quiet">No evidence yet.</p>`}<//>
    <${TablePanel} title="Forecasts" className="whole" columns=${FORECASTS} rows=${forecasts}
      empty="No voice has forecast it" />
    <${TablePanel} title="Verdicts that it scores" label="Verdicts" columns=${VERDICTS} rows=${verdicts}
      empty="It scores no verdict" />
    ${positions.length > 0 && html`<${TablePanel} title="Play money on it" label="Play money" columns=${POSITIONS}
      rows=${positions} />`}
  </div>`;
}

const FORECASTS = [...FORECAST, column('Board', runOf, 'run_id')];
const VERDICTS = [
  column('Symbol', symbolOf), ['Verdict', (row) => ratingOf(row.rating, row.confidence, row.id), '', 'rating'],
  column('Run', runOf, 'run_id'),
];
const POSITIONS = [column('Side'), number('Shares', figure), number('Cost', money), number('Payout', gain)];
