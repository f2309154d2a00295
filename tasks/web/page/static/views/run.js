// One run: from the universe to the fills, its steps on a timeline, its candidates, and what happens while it runs.

import {
  ActionButton, badgeOf, between, chance, Check, Choice, codeOf, column, compact, costOf, count, date, Empty,
  EventRow, Facts, Field, figure, html, idOf, joined, Later, Link, LiveBadge, Loaded, MARKS, moment, number, numOf,
  Panel, part, PAST, pastOf, percent, plain, priceOf, ProblemBox, quantity, quietOf, ratingOf, runOf, runState,
  SaveButton, Segments, setQuery, shortId, signedPercent, span, standingOf, stepsOf, SYMBOL, symbolOf, Table,
  TablePanel, textOf, threadOf, timeOf, tokensOf, toneOf, useBounded, useCallback, useEffect, useFirst, useGet,
  useKeys, useLive, useMemo, useNow, useRef, useState, VirtualList, waitOf, words, zone,
} from '../lib/view.js';
import { Closes } from '../lib/lines.js';
import { stateName } from '../lib/orders.js';
import { Timeline } from './timeline.js';

const FINAL = new Set(['done', 'partial', 'failed', 'stopped']);
const SOON_MS = 1_000;
const WAITS_MS = 1_500; // no event says that nobody takes a step up
const CHANGES = /^(status|turn\.(completed|failed|interrupted|refused)|order|approval|run)\b/;
const WITHOUT_CANDIDATES = ['close', 'flatten', 'protect'];

export const Run = ({ params: { run, other }, query, desk }) =>
  html`<${One} key=${run} run=${run} query=${other ? { with: other, ...query } : query}
    parts=${desk.data?.run_parts ?? []} />`;

function One({ run, query, parts }) {
  const path = `/runs/${part(run)}`;
  // All of it is of one moment, so that no count contradicts another.
  const course = useGet(`${path}/course`, {}, { as: (found) => ({
    ...found, table: { ...found.table, rows: found.table.rows.map(joined('candidate')).map((row) =>
      ({ ...row, account: found.run.account })) },
  }) });
  const found = course.data?.run;
  const ended = found && FINAL.has(found.state);
  const waits = useGet(`${path}/waits`, {}, { every: found && !ended ? WAITS_MS : 0, deps: [found?.state] });
  const [speaking, setSpeaking] = useState(false);
  const events = useEvents(path, speaking, (batch) => batch.some((event) => CHANGES.test(event.type))
    && course.soon(SOON_MS));
  useKeys([['c', 'All candidates', showAll]]);
  // A stream that ended brought the last changes; what was loaded before them is old.
  const { state } = events.live;
  useEffect(() => {
    if (state === 'ended' && found && !ended) course.reload();
  }, [state]);

  const gone = [course.problem, events.live.problem].find((problem) => problem?.status === 404
    || problem?.status === 410);
  if (gone && !found) {
    return html`<div class="view"><h1>Run ${shortId(run)}</h1><${ProblemBox} problem=${gone} again=${course.reload} />
      <p><${Link} to="/runs">All runs<//></p></div>`;
  }
  if (!found) return html`<div class="view"><h1>Run ${idOf(run)}</h1><${Loaded} from=${course} what="the run" /></div>`;
  return html`<div class="view run-view"><h1><span>${titleOf(found)}</span> ${idOf(run)}
      ${runState(found.state)} ${found.kind !== 'backtest' && pastOf(found.account)}
      ${!ended && html`<${LiveBadge} live=${events.live} />`}<span class="h1-tools">${!gone
        && html`<${SaveButton} label="Save the report" path=${`${path}/report`}
          name=${`${found.kind}-${shortId(run)}.html`} />`} ${!gone && !ended
        && html`<${Stop} path=${path} state=${found.state} done=${course.reload} />`}</span></h1>
    <p class="lead">${textOf(found.said)}</p>
    <div class="stack">
      ${gone && html`<div class="problem" role="alert"><strong>This run was deleted</strong><p>What is shown is what
        was loaded before; nothing of it can be loaded again. <${Link} to="/runs">All runs<//></p></div>`}
      <${Loaded} from=${gone ? { ...course, problem: null, stale: false } : course} what="the run">${(data) => html`
        <${Head} run=${data.run} waits=${waits.data ?? []} />
        ${!ended && html`<${InFlight} timeline=${data.timeline} at=${course.at} events=${events.list.items} />`}
        <${Kind} course=${data} query=${query} ended=${ended} at=${course.at} parts=${parts} />`}<//>
      <${Spoken} events=${events} on=${speaking} setOn=${setSpeaking} offered=${!ended}
        sent=${found.settings?.event_deltas} />
      <div class="pair"><${Timeline} from=${course} query=${query} /><${Events} events=${events} query=${query} /></div>
      <${Compare} run=${found} path=${path} other=${query.with} />
    </div></div>`;
}

/** What a run is, as a title: "Screen of 2010-08-12". */
const titleOf = ({ kind, standing, schedule }) => `${kind[0].toUpperCase()}${plain(kind).slice(1)} of ${
  standing.day}${schedule ? `, ${plain(schedule)}` : ''}`;

const showAll = () => setQuery({ stage: '', label: '' });
const allButton = (some) => some && html`<button type="button" onClick=${showAll}>Show all candidates</button>`;

/** parts: of features, each with its name in the run. */
function Kind({ course: { run, funnel: { stages }, table }, query, ended, at, parts }) {
  const own = (of) => html`<${Later} of=${of} given=${{ run: run.run_id, detail: run, query, changed: at }} />`;
  const of = (some) => some.map((one) => own([one.module, one.part, one.feature]));
  const whole = parts.filter((one) => one.kinds.includes(run.kind));
  if (whole.length > 0) return of(whole);
  if (WITHOUT_CANDIDATES.includes(run.kind)) return html`<p>
    <${Link} to="/orders" query=${{ run: run.run_id }}>Its orders<//></p>`;
  const shown = STAGES.slice({ screen: 0, trade: 3 }[run.kind] ?? 2);
  return html`<${Panel} title="Funnel" tools=${allButton(query.stage)}>
      <${Funnel} stage=${query.stage} label=${query.label} stages=${stages.filter((one) => shown.includes(one.stage)
        && (one.count || run.kind === 'screen'))} /><//>
    <${Candidates} table=${table} stages=${stages} query=${query} ended=${ended} />
    <${Theses} rows=${table.rows} run=${run} />
    ${run.analyses.length > 0 && html`<${TablePanel} title="Analyses" label="Table of analyses" columns=${ANALYSES}
      rows=${run.analyses.map(joined('analysis'))} />`}
    ${of(parts.filter(({ name }) => (Array.isArray(run[name]) ? run[name].length > 0 : run[name])))}`;
}

/** Turns and tools that go on now, each with its age by the clock. */
function InFlight({ timeline, at, events }) {
  const now = useNow() - at.getTime() + date(timeline.now).getTime();
  const turns = timeline.steps.filter((one) => one.turn).flatMap(({ step, attempts }) => attempts.filter((one) =>
    one.outcome === 'running').map((one) => [`${step.role || step.kind} ${step.subject ?? ''}`, one.started_at]));
  const tools = new Map();
  for (const event of events) {
    if (event.type === 'tool.started') tools.set(event.item_id,
      [`${event.payload.tool} of ${event.payload.role ?? 'a turn'} ${event.payload.subject ?? ''}`, event.occurred_at]);
    else if (event.type === 'tool.completed') tools.delete(event.item_id);
    else if (/^turn\.(completed|failed|interrupted)/.test(event.type)) tools.clear();
  }
  const rows = [...turns, ...(turns.length ? tools.values() : [])];
  if (!rows.length) return null;
  return html`<${Panel} title="In flight"><ul class="in-flight">${rows.map(([name, since]) => html`<li>
    <span class="spin" aria-hidden="true"></span>
    ${plain(name)} <span class="num quiet">${span(Math.max(now - date(since).getTime(), 0))}</span></li>`)}</ul><//>`;
}

const MOST_THESES = 6;

/** What the theses on each candidate come to: the pooled arithmetic, the price with its invalidation, and the plan. */
function Theses({ rows, run }) {
  const [found, more] = useFirst(rows.filter((row) => row.verdict?.pooled), MOST_THESES);
  if (!found.length) return null;
  return html`<${Panel} title="Theses"><div class="grid">
    ${found.map((row) => html`<${Pooled} key=${row.id} row=${row} run=${run} />`)}</div>${more}<//>`;
}

function Pooled({ row, run }) {
  const { pooled } = row.verdict;
  const plan = row.orders.find((one) => one.plan)?.plan;
  const { probability, horizon, low, high, move, invalidation_price: wrong, invalidation_source: source } = pooled;
  return html`<article><h3>${symbolOf(row.symbol, run)} ${verdictCell(row)}</h3>
    <p>${probability === null ? 'No thesis states a probability.'
      : html`${chance(probability)} that it beats the median over ${horizon} sessions
        ${' '}${quietOf(`(95 %: ${chance(low)} to ${chance(high)})`)}${move !== null
        && `, move ${signedPercent(move)}`}${wrong > 0
        && html`; wrong at ${priceOf(wrong, row)} ${quietOf(textOf(source))}`}`}</p>
    <${Closes} symbol=${row.symbol} run=${run.run_id} stop=${plan?.stop ?? wrong} target=${plan?.target} />
    ${plan && html`<p class="quiet">Plan: entry ${priceOf(plan.entry, row)}, stop ${
      priceOf(plan.stop, row)}${plan.target && `, target ${priceOf(plan.target, row)}`}, ends ${plain(plan.ends)}</p>`}
    <${Table} label=${`Theses on ${row.symbol}`} columns=${THESES} rows=${pooled.rows} rowKey="role" /></article>`;
}

const THESES = [
  column('Role', words),
  ['Probability', (row) => (row.probability === null ? 'none' : chance(row.probability)), 'num'],
  ['Weight', (row) => percent(row.weight), 'num'],
];

function Stop({ path, state, done }) {
  return html`<${ActionButton} label="Stop the run" className="danger" path=${`${path}/stop`} done=${done}
    disabled=${state === 'stopping'} confirm=${{ title: 'Stop this run',
      children: html`<p>Its turns are interrupted now, and none of its orders is submitted any more. What is done
        already stays. It cannot be started again where it was.</p>` }} />`;
}

function Head({ run, waits }) {
  const { progress } = run;
  useNow(run.finished_at ? 0 : 1_000);
  const [ended, steps] = stepsOf(progress.steps);
  return html`<section class="panel head" aria-label="The run"><div class="body">
    <${Facts} rows=${[
      ['Began', timeOf(run.created_at)],
      ['Took', html`${numOf(span(between(run.created_at, run.finished_at)))}${run.finished_at ? '' : ' so far'}`],
      ['Steps', numOf(`${count(ended)} of ${count(steps)}`)],
      ['Turns', html`${numOf(count(progress.turns))} ${progress.turns_in_flight > 0
        && quietOf(`+ ${count(progress.turns_in_flight)} in flight${slow(progress.phases)}`)}`],
      ['Tokens', tokensOf(progress.tokens)],
      ['Reused', reusedOf(run.summary.reused)],
      ['Money', costOf(run)],
      ['Market', html`${textOf(run.market)} ${timeOf(run.market_now)}`],
      ['Model', textOf(run.model, 60)],
      ['Orders', PAST.test(run.account) ? html`in the past, on ${textOf(run.account)}` : run.kind === 'episode' ? 'none'
        : html`${standingOf(run.standing)} ${textOf(run.account)}`],
      ['Waits for', waits.length ? waits.map((one) => html`<p>${waitOf(one)}</p>`) : undefined],
      ['Verdicts of', run.source_run ? runOf(run.source_run) : undefined],
    ]} />
    ${run.notes.length > 0 && html`<ul class="notes">
      ${run.notes.map((note) => html`<li>${badgeOf('note', 'warn')} ${textOf(note)}</li>`)}</ul>`}
  </div></section>`;
}

/** What was not asked again, since the tools still answer as they did. */
function reusedOf(found) {
  if (!found) return undefined;
  const of = [[found.reports, 'report'], [found.shards, 'shard']].filter(([number]) => number > 0)
    .map(([number, name]) => `${count(number)} ${name}${number === 1 ? '' : 's'}`);
  return html`${numOf(of.join(', '))} ${quietOf(`${count(found.tokens)} tokens not spent`)}`;
}

const PHASES = { waiting: 'waiting for a first token', reasoning: 'reasoning', writing: 'writing',
  tools: 'waiting for a tool' };

/** What those of a run's turns do that take long. */
function slow(phases) {
  const parts = Object.entries(phases ?? {}).map(([phase, turns]) => `${count(turns)} ${PHASES[phase] ?? phase}`);
  return parts.length ? `: ${parts.join(', ')}` : '';
}

// The funnel: what became of the universe, stage by stage. A count is a filter of the table below.
const STAGES = ['universe', 'hits', 'candidates', 'verdicts', 'orders', 'fills'];

function Funnel({ stages, stage, label }) {
  const most = Math.max(1, ...stages.map((one) => one.symbols));
  return html`<ol class="funnel">${stages.map((one, index) => {
    const before = stages[index - 1]?.symbols;
    const share = index && before ? percent(one.symbols / before) : '';
    const chosen = (name) => stage === one.stage && (label ?? '') === name;
    const choose = (name) => () => (chosen(name) ? showAll() : setQuery({ stage: one.stage, label: name }));
    return html`<li class=${stage === one.stage ? 'chosen' : ''}>
      <button type="button" class="stage" aria-pressed=${chosen('')} onClick=${choose('')}
        title=${`${count(one.count)} ${one.stage} of ${count(one.symbols)} symbols`}>
        <span class="count num">${count(one.count)}</span> <span>${one.stage}</span> ${share
          && html`<span class="quiet num" title="of the symbols of the stage before">${share}</span>`}
        <svg class="share" viewBox="0 0 100 4" preserveAspectRatio="none" aria-hidden="true">
          <rect width=${Math.max((one.symbols / most) * 100, one.symbols ? 1 : 0)} height="4" /></svg></button>
      <div class="labels">${Object.entries(one.labels).map(([name, number]) => html`<button type="button" class="plain"
        aria-pressed=${chosen(name)} onClick=${choose(name)}>${one.stage === 'orders' ? stateName(name)
          : words(name)} <b class="num">${count(number)}</b>
        </button>`)}</div></li>`;
  })}</ol>`;
}

/** The symbols behind a stage, or behind one of its labels, in their order; null when no stage is chosen. */
function chosenSymbols(stages, stage, label) {
  const items = stages.find((one) => one.stage === stage)?.items;
  return items && [...new Set(items.filter((one) => !label || one.label === label).map((one) => one.symbol))];
}

/** What the universe and the hits hold by symbol: {symbol, lenses}. */
function screened(stages, symbols) {
  const hits = Object.groupBy(stages.find((one) => one.stage === 'hits')?.items ?? [], (one) => one.symbol);
  return symbols.map((symbol) => ({ symbol, lenses: (hits[symbol] ?? []).map((one) => one.label) }));
}

// The candidates of a run: one cell a role, the verdict and its rule, and the orders; filtered by the funnel.
const MOST = 60; // rows, before a person asks for all

function Candidates({ table, stages, query: { stage, label }, ended }) {
  const symbols = useMemo(() => chosenSymbols(stages, stage, label), [stages, stage, label]);
  const early = stage === 'universe' || stage === 'hits';
  const title = ['Candidates', symbols && `${stage}${label ? `: ${plain(label)}` : ''}`].filter(Boolean).join(', ');
  return html`<${Panel} title=${title} tools=${allButton(symbols)}>${early && symbols
    ? html`<${Screened} rows=${screened(stages, symbols)} candidates=${table.rows} stage=${stage} />`
    : html`<${Rows} table=${table} symbols=${symbols} stage=${stage} ended=${ended} />`}<//>`;
}

function Rows({ table: { roles, rows }, symbols, stage, ended }) {
  const columns = useMemo(() => columnsOf(roles), [roles.join()]);
  const found = useMemo(() => (symbols ? rows.filter((row) => symbols.includes(row.symbol)) : rows), [rows, symbols]);
  const [shown, more] = useFirst(found, MOST);
  return html`<${Table} label="Table of candidates" columns=${columns} rows=${shown} empty=${rows.length
    ? `No candidate among the ${stage}` : ended ? 'This run has no candidates' : 'No candidate yet'}
    hint=${!rows.length && !ended && 'they come when the screeners are through'} />${more}`;
}

const ORDER = { buy: 0, caution: 1, hold: 2, pass: 3, reject: 4, sell: 5 };

function columnsOf(roles) {
  return [
    SYMBOL,
    ['Verdict', verdictCell, '', ({ verdict }) => (verdict ? ORDER[verdict.rating.toLowerCase()] ?? 9 : null)],
    ['Because', (row) => row.verdict && quietOf(textOf(row.rule)), 'wide prose'],
    ['Orders', (row) => row.orders.map(orderCell)],
    ...roles.map((role) => [words(role), (row) => roleCell(row.cells[role], row.verdict), '',
      ({ cells }) => cells[role]?.verdict ?? cells[role]?.status]),
    ['Screened by', lensesOf, 'wide', lensesOf], number('Score', figure, 'score', 'wide'), number('#', count, 'rank'),
  ];
}
const lensesOf = (row) => row.lenses.map(plain).join(', ') || plain(row.origin);

/** A role's answer as a link to its report: few elements, since there are many cells. What does not count for the
 * verdict is struck through once there is one. */
function roleCell(cell, verdict) {
  if (!cell) return html`<span class="quiet" title="this role was not asked about it">·</span>`;
  if (!cell.report_id) return badgeOf(cell.state);
  const tone = toneOf(cell.verdict);
  const idle = verdict && !cell.counts;
  const notes = [cell.confidence && `confidence ${cell.confidence}`, cell.reason,
    cell.figures && `${cell.supported} of ${cell.figures} figures with a source`,
    cell.reused ?? (cell.earlier && 'of an earlier run'),
    idle && 'does not count for the verdict'];
  return html`<a class=${`cell badge ${tone} ${idle ? 'idle' : ''}`} href=${`#/reports/${cell.report_id}`}
    title=${notes.filter(Boolean).map(plain).join('\n')}>${MARKS[tone]} ${words(cell.verdict ?? cell.status)}${
      cell.earlier && ' ↩'}${cell.supported < cell.figures && ' ?'}</a>`;
}

function verdictCell({ verdict, rule }) {
  if (!verdict) return quietOf('not yet');
  const tone = toneOf(verdict.rating);
  return html`<a class=${`cell badge ${tone}`} href=${`#/verdicts/${verdict.id}`} title=${plain(rule)}>
    ${MARKS[tone]} ${plain(verdict.rating)} ${quietOf(plain(verdict.confidence))}</a>`;
}

function orderCell(order) {
  const why = order.denial_reason ?? order.denial_code;
  return html`<${Link} to=${`/orders/${order.id}`} className="cell" title=${plain(why) || shortId(order.id)}>
    ${plain(order.action)} ${order.quantity !== null && quantity(order.quantity)} ${stateName(order.state)}<//> `;
}

function Screened({ rows, candidates, stage }) {
  const [text, setText] = useState('');
  const ranks = new Map(candidates.map((row) => [row.symbol, row]));
  const found = rows.filter((row) => row.symbol.includes(text.toUpperCase()));
  const [some, more] = useFirst(found, MOST);
  const shown = some.map((row) => ({ ...row, ...ranks.get(row.symbol) }));
  return html`<div class="filters"><${Field} label="Symbol" type="search" value=${text} onText=${setText}
      spellcheck="false" />${quietOf(`${count(found.length)} of ${count(rows.length)} symbols`)}</div>
    <${Table} label=${`Symbols of the ${stage}`} columns=${SCREENED} rows=${shown} rowKey="symbol"
      empty="No symbol is like that" />${more}`;
}
const SCREENED = [
  SYMBOL,
  ['Hit by', (row) => (row.lenses.length ? row.lenses.map(plain).join(', ') : quietOf('no hit')), '',
    (row) => row.lenses.join()],
  column('Candidate', (rank) => rank ?? '', 'rank', 'num'), ['Verdict', (row) => row.verdict && verdictCell(row)],
];

const ANALYSES = [
  SYMBOL, column('Strategy'), column('Recommendation'),
  ['Verdict', (row) => ratingOf(row.rating, row.confidence), '', 'rating'],
  ['Contract', (row) => (row.contract ? codeOf(row.contract) : quietOf('none'))],
  ['Checks', (row) => html`<ul class="checks">${(row.checks ?? []).filter((one) => one.state !== 'ok').map((one) =>
    html`<li>${badgeOf(one.state, one.state === 'fail' ? 'bad' : 'warn')} ${textOf(one.text, 110)}</li>`)}</ul>`,
  'wide'],
];

// What happened in a run, as it happens, and what its models are saying.
const MOST_EVENTS = 10_000;
const MOST_TURNS = 12; // whose words are kept
const TAIL = 600; // characters of each
const DOMAINS = [['', 'All'], ['status', 'Steps'], ['turn', 'Turns'], ['tool', 'Tools'], ['order', 'Orders'],
  ['approval', 'Approvals']];

/** The events of a run from its first: {list, live, texts, missed}. onFound: gets each batch. */
function useEvents(path, speaking, onFound) {
  const [list, add, clear] = useBounded(MOST_EVENTS);
  const [missed, setMissed] = useState(null);
  const last = useRef(0);
  const texts = useRef(new Map());
  // Another question needs another stream: it goes on where this one is.
  const since = useMemo(() => last.current, [path, speaking]);
  const live = useLive(`${path}/events`, { since, query: { bodies: false, ...(speaking ? { deltas: true } : {}) },
    onEvents: (events) => {
      const stored = events.filter((event) => event.sequence !== null && event.sequence > last.current);
      if (stored.length) last.current = stored.at(-1).sequence;
      for (const event of events) keepText(texts.current, event);
      add(stored);
      onFound(stored);
    },
    onGap: (problem) => {
      clear();
      setMissed(problem);
    } });
  return { list, live, texts: texts.current, missed };
}

/** Keep the end of what each turn says; a message that is complete leaves. */
function keepText(texts, event) {
  if (event.type === 'item.delta') {
    const key = event.turn_id ?? event.thread_id;
    const before = texts.get(key);
    const text = `${before?.item === event.item_id ? before.text : ''}${event.payload.text ?? ''}`.slice(-TAIL);
    texts.delete(key);
    texts.set(key, { text, item: event.item_id, thread: event.thread_id, turn: event.turn_id });
    if (texts.size > MOST_TURNS) texts.delete(texts.keys().next().value);
  } else if (event.type.startsWith('turn.') && !['turn.started', 'turn.usage', 'turn.progress'].includes(event.type)) {
    texts.delete(event.turn_id);
  }
}

function Spoken({ events, on, setOn, offered, sent }) {
  if (!offered && !on) return null;
  const rows = [...events.texts.values()].reverse();
  return html`<${Panel} title="What models are saying"
    tools=${html`<${Check} label="show it while it is written" checked=${on} onChange=${setOn} />`}>
    ${!on ? html`<p class="quiet">Off: answers are in the threads when they are complete.</p>`
      : sent === false ? html`<${Empty} title="This desk does not send it">
        start the desk with <code>DESK_EVENT_DELTAS=true</code><//>`
        : rows.length ? html`<ul class="spoken">${rows.map((row) => html`<li key=${row.turn}>
          ${threadOf(row.thread)} <bdi class="words">${plain(row.text)}</bdi></li>`)}</ul>`
          : html`<p class="quiet" role="status">No model says anything right now.</p>`}<//>`;
}

function Events({ events, query }) {
  const domain = query.events ?? '';
  const { list, missed } = events;
  const items = useMemo(() => (domain ? list.items.filter((event) => event.domain === domain) : list.items),
    [list.items, domain]);
  const shownBy = zone.value;
  const row = useCallback((event) => html`<${EventRow} event=${event} />`, [shownBy]);
  return html`<${Panel} title="Events"
    tools=${html`<${Segments} label="Events of" value=${domain} onChange=${(value) => setQuery({ events: value })}
    options=${DOMAINS} /><${LiveBadge} live=${events.live} />`}>
    ${missed && html`<p class="stale">${badgeOf('not all', 'warn')} earlier events are no longer
      kept: ${textOf(missed.detail)}</p>`}
    ${list.dropped > 0 && html`<p class="quiet">The newest ${count(MOST_EVENTS)} are shown.</p>`}
    ${items.length ? html`<${VirtualList} className="events" label="List of events" items=${items} row=${row} stick
      dropped=${domain ? 0 : list.dropped} height=${22} />`
      : html`<${Empty} title=${list.items.length ? 'No event is like that' : 'No events'} />`}<//>`;
}

// Two runs of one kind beside each other: what was judged otherwise, what was spent, and which settings differ.
const OFFERED = 50;

const Compare = ({ run, path, other }) => html`<${Panel} title="Compare with another run" id="compare"
  tools=${html`<${Others} run=${run} other=${other} />`}>
  ${other ? html`<${Compared} path=${path} other=${other} key=${other} />`
    : html`<p class="quiet">Choose another ${plain(run.kind)}: the address then keeps it.</p>`}<//>`;

function Others({ run, other }) {
  const runs = useGet('/runs', { kind: run.kind, limit: OFFERED, short: true });
  const offered = (runs.data ?? []).map((one) => one.run).filter((one) => one.id !== run.run_id);
  const known = !other || offered.some((one) => one.id === other);
  return html`<${Choice} label="Other run" none="none" value=${other} onChange=${(id) => setQuery({ with: id })}
    values=${[...(known ? [] : [[other, shortId(other)]]), ...offered.map((one) =>
      [one.id, `${shortId(one.id)}, ${moment(one.created_at)}, ${plain(one.state)}`])]} />`;
}

const Compared = ({ path, other }) => html`<${Loaded} from=${useGet(`${path}/compare/${part(other)}`)}
  what="the comparison">${(data) => html`<div class="stack">
    <${Table} label="Both runs" columns=${BOTH} rows=${totals(data)} rowKey="name" />
    <div class="grid">
      <section><h3>Candidates</h3><${Table} label="Candidates of both" columns=${CANDIDATES} rows=${data.candidates}
        rowKey="symbol" rowClass=${(row) => (row.changed ? 'changed' : '')} empty="Neither has candidates" /></section>
      <section><h3>Roles</h3><${Table} label="Turns and tokens by role" columns=${ROLES} rows=${data.roles}
        rowKey="role" empty="No turns" /></section>
      <section><h3>Settings that differ</h3><${Table} label="Settings that differ" columns=${VALUES}
        rows=${[...data.settings, ...data.params]} rowKey="name" empty="None differs" /></section>
    </div></div>`}<//>`;

const BOTH = [
  ['What', (row) => row.name, 'unseen'],
  ['This run', (row) => row.ours, 'num'],
  ['The other', (row) => row.theirs, 'num'],
];
const TOTALS = /** @type {[string, (one: any) => any][]} */ ([
  ['Run', (one) => runOf(one.id)], ['Began', (one) => moment(one.created_at)], ['State', (one) => runState(one.state)],
  ['Candidates', (one) => count(one.candidates)], ['Orders', (one) => count(one.orders)],
  ['Turns', (one) => count(one.turns)], ['Tokens', (one) => count(one.tokens)], ['Money', costOf],
  ['Candidates of one alone', (one) => count(one.alone.length)],
]);
const totals = ({ ours, theirs, only_ours: mine, only_theirs: others }) => TOTALS.map(([name, shown]) => ({ name,
  ours: shown({ ...joined('run')(ours), alone: mine }), theirs: shown({ ...joined('run')(theirs), alone: others }) }));
const CANDIDATES = [
  SYMBOL,
  ['This run', (row) => ratingOf(row.ours, row.ours_confidence)],
  ['The other', (row) => ratingOf(row.theirs, row.theirs_confidence)],
  ['Differs', (row) => row.changed && badgeOf('differs', 'warn'), 'unseen', (row) => !row.changed],
];
const ROLES = [
  column('Role'),
  ['Turns', (row) => `${count(row.ours_turns)} / ${count(row.theirs_turns)}`, 'num'],
  ['Tokens', (row) => `${compact(row.ours_tokens)} / ${compact(row.theirs_tokens)}`, 'num'],
];
const shown = (value) => html`<code>${textOf(typeof value === 'string' ? value : JSON.stringify(value), 60)}</code>`;
const VALUES = [column('Name'), ['This run', (row) => shown(row.ours)], ['The other', (row) => shown(row.theirs)]];
