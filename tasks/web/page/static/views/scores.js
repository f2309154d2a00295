// The record: what time made of forecasts and verdicts, the questions, the episodes, the backtests, and the charts.

import { get, getResponse } from '../lib/api.js';
import { html } from '../lib/html.js';
import { useKeys } from '../lib/keys.js';
import { setQuery } from '../lib/router.js';
import { date, figure, money, percent, signedPercent } from '../lib/format.js';
import { useResource } from '../lib/store.js';
import { Badge, Empty, Figure, FilterField, Link, Loaded, OutLink, Panel, RunLink, Segments, SymbolLink, Table, Text, Time } from '../lib/ui.js';
import { plain, shortId } from '../lib/text.js';
import { Pictures } from './board/pictures.js';
import { scoreColumns, signed } from './board/scoring.js';

const SHOWN = [['scores', 'Scores'], ['questions', 'Questions'], ['episodes', 'Episodes'], ['backtests', 'Backtests'], ['charts', 'Charts']];
const VIEWS = { scores: ScoresPart, questions: Questions, episodes: Episodes, backtests: Backtests, charts: Charts };
const TITLES = { voice: 'Voices, by their last position', tool: 'Tools, by what their signals implied', lens: 'Lenses, by their record up to each day', role: 'Roles, by their record up to each day', rating: 'Verdicts, by their record up to each day' };

export default function Record({ query }) {
  const shown = VIEWS[query.show] ? query.show : 'scores';
  const Part = VIEWS[shown];
  return html`<div class="view stack"><h1>Record <${Segments} label="What is shown" options=${SHOWN} value=${shown} onChange=${(show) => setQuery({ show })} /></h1>
    <${Part} key=${shown} query=${query} /></div>`;
}

function ScoresPart({ query: { account } }) {
  const scores = useResource(({ signal }) => get('/scores', { account }, { signal }), [account]);
  const columns = scoreColumns(account);
  useKeys([['r', 'Load again', scores.reload]]);
  return html`<${Loaded} from=${scores} what="scores">${(board) => html`
    <p class="lead">Account <${Text}>${board.account}<//>. Questions: ${Object.entries(board.questions).map(([state, number]) => html`<${Link} to="/scores" query=${{ show: 'questions', state }}><span class="num">${number}</span> ${state}<//> `)}${!Object.keys(board.questions).length && 'none yet'}</p>
    ${!board.rows.length ? html`<${Empty} title="No forecast of a resolved question to score yet">A verdict is a question too: it resolves after <code>DESK_QUESTION_SESSIONS</code> sessions. <code>desk episode</code> asks the voices.<//>` : html`<div class="grid">
      ${Object.entries(TITLES).map(([kind, title]) => [kind, title, board.rows.filter((row) => row.kind === kind)]).filter(([, , rows]) => rows.length).map(([kind, title, rows]) => html`<${Panel} title=${title} key=${kind}><${Table} label=${title} columns=${columns} rows=${rows} rowKey=${(row) => row.name} /><//>`)}
      ${board.crowd && html`<${Panel} title="All voices together, same questions"><${Table} label="All voices together" columns=${PARTS} rows=${board.crowd.rounds} rowKey=${(row) => row.name} />
        <p class="quiet">Round 2 gained <span class="num">${signed(board.crowd.gain)}</span>; round ${board.crowd.better_round} is used.</p><//>`}
    </div><p class="quiet">Brier: (p - o)², 0 is right, 0.25 is one half each time. Alpha is against the baseline: above 0 is skill, and .018 shows from 350 questions on. ± is the standard error by date.</p>`}`}<//>`;
}
const PARTS = [
  { id: 'name', label: 'Round', cell: (row) => plain(row.name) },
  ...scoreColumns().filter((one) => ['n', 'brier', 'alpha'].includes(one.id)),
];

const STATES = ['open', 'resolved', 'void'];
const SOURCES = ['desk', 'verdict', 'person', 'manifold', 'polymarket', 'kalshi'];
function Questions({ query }) {
  const questions = useResource(({ signal }) => get('/questions', { state: query.state, source: query.source, about: query.about, limit: 200 }, { signal }), [query.state, query.source, query.about]);
  useKeys([['r', 'Load again', questions.reload]]);
  const choice = (name, label, values) => html`<label class="inline">${label}<select value=${query[name] ?? ''} onChange=${(event) => setQuery({ [name]: event.target.value })}><option value="">all</option>${values.map((value) => html`<option value=${value}>${value}</option>`)}</select></label>`;
  return html`<${Panel} title="Questions" tools=${html`${choice('state', 'State', STATES)}${choice('source', 'Source', SOURCES)}<${FilterField} label="About" size="7" maxlength="16" value=${query.about} onChange=${(text) => setQuery({ about: text.toUpperCase() })} />`}>
    <${Loaded} from=${questions} what="questions" empty=${html`<${Empty} title="No question is like that" />`}>${(rows) => html`<${Table} label="Questions" columns=${QUESTIONS} rows=${rows} rowKey=${(row) => row.id} />${rows.length === 200 && html`<p class="quiet">The first 200.</p>`}`}<//><//>`;
}
export const QUESTIONS = [
  { id: 'text', label: 'Question', prose: true, cell: (row) => html`<${Link} to=${`/questions/${row.id}`}><${Text} most=${120}>${row.text}<//><//>` },
  { id: 'state', label: 'State', cell: (row) => html`<${Badge} tone=${{ open: 'busy', resolved: 'good', void: 'warn' }[row.state]}>${row.state}<//>`, sort: (row) => row.state },
  { id: 'outcome', label: 'Outcome', num: true, cell: (row) => (row.outcome === null ? '\u2014' : row.outcome === 1 ? 'yes' : row.outcome === 0 ? 'no' : figure(row.outcome, 2)), sort: (row) => row.outcome },
  { id: 'baseline', label: 'Baseline', num: true, cell: (row) => figure(row.baseline, 2), sort: (row) => row.baseline },
  { id: 'source', label: 'Source', wide: true, cell: (row) => html`<${Text}>${row.source}<//>${row.url && html` <${OutLink} url=${row.url}>venue<//>`}`, sort: (row) => row.source },
  { id: 'about', label: 'About', wide: true, cell: (row) => row.subjects.map((symbol) => html`<${SymbolLink} symbol=${symbol} /> `) },
  { id: 'closes', label: 'Closes', wide: true, cell: (row) => html`<${Time} at=${row.closes_at} parts="day" />`, sort: (row) => date(row.closes_at) },
];

const runsOf = async (kind, signal) => (await getResponse('/runs', { kind, limit: 50 }, { signal })).json();
const COMMON = [
  { id: 'run', label: 'Run', cell: (row) => html`<${RunLink} id=${row.id} />` },
  { id: 'state', label: 'State', cell: (row) => html`<${Badge}>${row.state}<//>` },
  { id: 'day', label: 'Market day', cell: (row) => html`<${Time} at=${row.market_now} parts="day" />`, sort: (row) => date(row.market_now) },
  { id: 'began', label: 'Began', wide: true, cell: (row) => html`<${Time} at=${row.created_at} />`, sort: (row) => date(row.created_at) },
];
const EPISODES = [...COMMON, { id: 'board', label: 'Board', cell: (row) => html`<${Link} to=${`/board/${row.id}`}>questions, forecasts, signals<//>` }];
function Episodes() {
  const runs = useResource(({ signal }) => runsOf('episode', signal), [], { every: 30_000 });
  return html`<${Panel} title="Episodes"><${Loaded} from=${runs} what="episodes" empty=${html`<${Empty} title="No episode was held yet"><code>desk episode</code> holds one; screens with <code>DESK_ROUNDS</code> have a board too.<//>`}>${(rows) => html`<${Table} label="Episodes" columns=${EPISODES} rows=${rows} rowKey=${(row) => row.id} />`}<//><//>`;
}

const result = (row, name) => row.summary?.backtest?.returns?.[name];
const BACKTESTS = [
  { id: 'run', label: 'Backtest', cell: (row) => html`<${Link} to=${`/backtests/${row.id}`} className="id" title="its curve and hit rates">${shortId(row.id)}<//>` },
  COMMON[1],
  { id: 'days', label: 'Sessions', cell: (row) => (row.summary?.backtest ? html`<span class="num">${row.summary.backtest.first} to ${row.summary.backtest.last}</span>` : '\u2014') },
  { id: 'desk', label: 'Desk', num: true, cell: (row) => html`<${Figure} value=${result(row, 'desk')} sign>${signedPercent(result(row, 'desk'))}<//>`, sort: (row) => result(row, 'desk') },
  { id: 'held', label: 'Held', num: true, cell: (row) => html`<${Figure} value=${result(row, 'held')} sign>${signedPercent(result(row, 'held'))}<//>` },
  { id: 'fall', label: 'Drawdown', num: true, wide: true, cell: (row) => percent(row.summary?.backtest?.drawdown?.desk) },
  { id: 'capital', label: 'Capital', num: true, wide: true, cell: (row) => money(row.summary?.backtest?.capital, 0) },
];
function Backtests() {
  const runs = useResource(({ signal }) => runsOf('backtest', signal), [], { every: 30_000 });
  return html`<${Panel} title="Backtests"><${Loaded} from=${runs} what="backtests" empty=${html`<${Empty} title="No backtest was run yet"><code>desk backtest --from DAY --to DAY</code> plays past sessions.<//>`}>${(rows) => html`<${Table} label="Backtests" columns=${BACKTESTS} rows=${rows} rowKey=${(row) => row.id} />`}<//><//>`;
}

function Charts() {
  const runs = useResource(({ signal }) => runsOf('analyze', signal), []);
  return html`<${Loaded} from=${runs} what="analyses" empty=${html`<${Empty} title="No analysis was made yet"><code>desk analyze SYMBOL</code> makes one, with its chart.<//>`}>${(rows) => html`<div class="stack">${rows.slice(0, 6).map((row) => html`<${Panel} key=${row.id} title=${`Analysis of ${plain((row.params?.symbols ?? row.symbols ?? []).join(', '))}`} tools=${html`<${RunLink} id=${row.id} />`}><${Pictures} run=${row.id} /><//>`)}</div>`}<//>`;
}
