// One report: its answer, each figure beside the tool answer that it comes from, what was missing, and who gave it.

import {
  badgeOf, between, chance, codeOf, column, count, Dots, Empty, Facts, href, html, inPlace, joined, Link, Loaded,
  money, numOf, orderOf, Panel, part, pastOf, percent, Picture, place, plain, prose, quietOf, REPORT, runOf, seconds,
  setQuery, shortId, SOURCED, span, symbolOf, TablePanel, Text, textOf, threadOf, timeOf, tokensOf, upTo, useEffect,
  useGet, useKeys, useMemo, useRef, words,
} from '../lib/view.js';

export function Report({ params, query }) {
  const found = useGet(`/reports/${part(params.report)}`, {}, { as: joined('report') });
  const { data } = found;
  return html`<div class="view report-view"><h1>${data ? html`${words(data.role)} on ${symbolOf(data.symbol, data)}
    ${' '}${badgeOf(data.verdict ?? data.status)}
    ${pastOf(data.account)}` : html`Report ${shortId(params.report)}`}</h1>
    <${Loaded} from=${found} what="the report">${(row) =>
      html`<${Shown} key=${row.id} report=${row} query=${query} />`}<//></div>`;
}

function Shown({ report, query }) {
  const figures = useMemo(() => figuresOf(report), [report]);
  const missing = useMemo(() => missingOf(report), [report]);
  const chosen = figures[Number(query.figure) - 1] ?? null;
  const choose = (figure) => setQuery({ figure: figure === chosen ? '' : figure.number, call: '' });
  const step = (by) => {
    const at = chosen ? chosen.number - 1 + by : by > 0 ? 0 : -1;
    if (figures.length) setQuery({ figure: ((at + figures.length) % figures.length) + 1, call: '' });
  };
  useKeys([['n', 'Next figure', () => step(1)], ['p', 'Previous figure', () => step(-1)]], 'This view',
    [figures, chosen]);
  const cited = (text, name) => html`<${Cited} text=${text} name=${name} figures=${figures} chosen=${chosen}
    choose=${choose} />`;
  const { grounding: sourced } = report;
  return html`<div class="report-grid">
    <div class="stack">
      <${Panel} title="Answer">
        <${Facts} rows=${[
          ['Verdict', report.verdict ? badgeOf(report.verdict) : quietOf('none')],
          ['Confidence', html`${textOf(report.confidence ?? 'none')} ${report.claimed
            && report.claimed !== report.confidence && quietOf(html`(it claimed ${textOf(report.claimed)})`)}`],
          ['Status', badgeOf(report.status)],
          ['Figures with a source', sourced === null ? quietOf('not looked for')
            : numOf(`${count(sourced.supported)} of ${count(sourced.figures)}${sourced.figures
              ? ` (${percent(sourced.supported / sourced.figures)})` : ''}`)],
        ]} />
        ${report.reason && html`<p class="reason">${badgeOf('why', 'warn')} ${textOf(report.reason)}</p>`}
        <p class="summary">${cited(report.summary, 'summary')}</p>
        ${report.key_risks.length > 0 && html`<h3>Key risks</h3>
          <${Dots} of=${report.key_risks.map((risk, index) => cited(risk, `key_risks/${index}`))} />`}
        <${Tree} value=${otherFields(report)} />
        ${!report.answer && html`<${Empty} title="There is no structured answer">${report.status === 'completed'
          ? 'it was written before answers were kept' : null}<//>`}<//>
      <${Panel} title="What was missing"><${Dots} none="No tool reported a gap." of=${missing.map((gap) =>
        html`${textOf([gap.symbol, gap.what].filter(Boolean).join(' '))}: ${quietOf(textOf(gap.reason))} ${gap.tool
          && codeOf(gap.tool)}`)} /><//>
      <${Panel} title="Where it is from"><${Origin} report=${report} /><//>
      ${report.pictures.length > 0 && html`<${Panel} title="Pictures that it was given"><div class="stack">
        ${report.pictures.map((one) => html`<${Picture} key=${one.digest} digest=${one.digest}
          caption="The chart that a tool gave the turn" />`)}</div><//>`}
    </div>
    <${Panel} title="Sources" className="sources" tools=${quietOf(figures.some((figure) => figure.source)
      ? 'n and p go through the figures' : '')}>
      <${Calls} report=${report} figures=${figures} chosen=${chosen} query=${query} /><//>
  </div>`;
}

const Origin = ({ report, turn = report.turn }) => html`<${Facts} rows=${[
  ['Role', textOf(report.role)],
  ['Author', textOf(report.author)],
  ['Thread', html`${threadOf(turn.thread_id)} ${quietOf(textOf(turn.thread_reason))}`],
  ['Turn', html`<${Link} to=${`/turns/${part(turn.id)}`} className="id">${shortId(turn.id)}<//>`],
  ['Attempt', numOf(count(turn.attempt))],
  ['Tokens', tokensOf(turn.total_tokens)],
  ['Money', turn.cost_usd === null ? quietOf('in its run') : numOf(money(turn.cost_usd, 4))],
  ['Took', numOf(span(between(turn.started_at, turn.finished_at)))],
  ['Market time', timeOf(report.market_at)],
  ['Written', timeOf(report.created_at)],
  ['Run', runOf(report.run_id)],
  ['Verdicts that count it', report.verdicts.length
    ? report.verdicts.map((one) => html`<${Link} to=${`/verdicts/${one.id}`}>${badgeOf(one.rating)}<//> `)
    : quietOf('none')],
]} />`;

// The tool calls that a report rests on: arguments and answers, with the value in sight that a figure comes from.
function Calls({ report, figures, chosen, query }) {
  const { calls } = report;
  const asked = query.call === undefined ? null : Number(query.call);
  const open = asked ?? chosen?.call ?? chosen?.other_call ?? calls[0]?.ordinal ?? null;
  return html`${!chosen ? html`<p class="quiet">Choose a figure of the answer to see what it comes from.</p>`
    : html`<p class="chosen-figure" role="status"><b class="num">${textOf(chosen.figure)}</b> ${!chosen.source
      ? html`${badgeOf('no source', 'warn')} ${quietOf("neither a tool's answer nor the question has it")}`
      : html`${quietOf('is')} ${numOf(textOf(chosen.value))} ${(chosen.other_value ?? null) !== null
        && html`${quietOf('with')} ${numOf(textOf(chosen.other_value))}`} ${quietOf(sourceOf(chosen))}`}</p>`}
    ${!calls.length && html`<${Empty} title="It called no tool" />`}
    <ul class="calls">${calls.map((call) => html`<${Call} key=${call.id} call=${call} open=${call.ordinal === open}
      chosen=${chosen} figures=${figures.filter((figure) => figure.call === call.ordinal
        || figure.other_call === call.ordinal)} />`)}</ul>`;
}

function Call({ call, open, chosen, figures }) {
  const body = `call-${call.ordinal}`;
  return html`<li class="call">
    <button type="button" class="plain head" aria-expanded=${open} aria-controls=${body} onClick=${() =>
      setQuery({ call: open ? -1 : call.ordinal })}>
      <span aria-hidden="true">${open ? '▾' : '▸'}</span> ${numOf(call.ordinal)} <b><code>${plain(call.tool)}</code></b>
      ${!call.success ? badgeOf('failed') : !call.has_data && badgeOf('no data', 'warn')}
      <span class="quiet">${figures.length > 0 && `${figures.length} ${figures.length === 1 ? 'figure' : 'figures'}`}
        ${' '}${seconds(call.seconds)}</span></button>
    <div id=${body}>${open && html`
      <p class="arguments">${quietOf('asked')} ${codeOf(JSON.stringify(call.arguments))}</p>
      <${Answer} call=${call} figures=${figures} chosen=${chosen} />`}</div></li>`;
}

function Answer({ call, figures, chosen }) {
  const box = useRef(null);
  const value = useMemo(() => answerOf(call), [call]);
  const paths = (figure) => [figure.call === call.ordinal && figure.path,
    figure.other_call === call.ordinal && figure.other_path].filter((one) => typeof one === 'string');
  const pointers = useMemo(() => new Set(figures.flatMap(paths)), [figures, call]);
  const now = chosen && paths(chosen)[0];
  useEffect(() => {
    const mark = box.current?.querySelector('mark.now');
    if (mark) box.current.scrollTop = mark.offsetTop - box.current.offsetTop - box.current.clientHeight / 2;
  }, [now, value]);
  return html`<pre class="block answered" ref=${box} tabindex="0" role="region"
    aria-label=${`Answer of call ${call.ordinal}`}>${value === undefined ? plain(call.output)
      : jsonOf(value, pointers, now)}</pre>
    ${value === undefined && html`<p class="quiet">The answer is kept up to a bound, and this one was longer.</p>`}`;
}

/** JSON in lines, with marks around the values that figures come from. */
function jsonOf(value, wanted, now, pointer = '', indent = '\n') {
  const entries = value !== null && typeof value === 'object' ? Object.entries(value) : null;
  const [open, close] = Array.isArray(value) ? '[]' : '{}';
  const inner = `${indent}  `;
  const shown = entries ? [open, ...entries.flatMap(([key, one], at) => [`${at ? ',' : ''}${inner}`,
    open === '{' && `${plain(JSON.stringify(key))}: `,
    jsonOf(one, wanted, now, `${pointer}/${key.replaceAll('~', '~0').replaceAll('/', '~1')}`, inner)]),
  entries.length > 0 && indent, close] : plain(JSON.stringify(value));
  return wanted.has(pointer) ? html`<mark class=${pointer === now ? 'now' : ''}>${shown}</mark>` : shown;
}

/** text: of the report; name: how its figures name it. choose: gets the figure that was pressed. */
function Cited({ text, name, figures, chosen, choose }) {
  return html`<bdi>${pieces(text, name, figures).map((piece) => {
    if (typeof piece === 'string') return plain(piece);
    const { figure } = piece;
    return html`<a key=${figure.number} href=${href(place.value.path, { figure: figure.number })}
      class=${`figure ${figure.source ? '' : 'unsourced'}`} aria-current=${chosen === figure ? 'true' : undefined}
      title=${figure.source ? sourceOf(figure) : 'no source was found for it'}
      onClick=${inPlace(() => choose(figure))}>${plain(piece.text)}${figure.source ? '' : '?'}</a>`;
  })}</bdi>`;
}

/** Where a figure comes from, as a line of text. */
function sourceOf({ source, tool, call, path, operation, other_call: other, other_path: otherPath }) {
  const at = (number, way) => plain(`${number === null ? 'the question' : `call ${number}`} ${way ?? ''}`);
  if (source === 'question') return `of the question ${plain(path)}`;
  if (source === 'derived') return `derived: ${plain(operation)} of ${at(call, path)} and ${at(other, otherPath)}`;
  return `${plain(tool)}, call ${call}: ${plain(path)}`;
}

/** The fields of an answer that have no place of their own, in depth. */
function Tree({ value }) {
  const entries = Object.entries(value ?? {});
  if (!entries.length) return null;
  return html`<dl class="tree">
    ${entries.map(([name, one]) => html`<div><dt>${words(name)}</dt><dd>${leafOf(one)}</dd></div>`)}</dl>`;
}

function leafOf(value) {
  if (value === null || value === undefined || value === '' || value.length === 0) return quietOf('none');
  if (Array.isArray(value)) return html`<${Dots} of=${value.map(leafOf)} />`;
  if (typeof value === 'object') return html`<${Tree} value=${value} />`;
  return html`<${Text} className=${typeof value === 'number' ? 'num' : ''}>
    ${typeof value === 'boolean' ? (value ? 'yes' : 'no') : value}<//>`;
}

/** The figures in the order of the texts, numbered from 1. One without a source has source null. */
function figuresOf({ cited, unsupported }) {
  const place = (one) => (one.text === 'summary' ? '' : one.text);
  return [...cited, ...unsupported.map((one) => ({ ...one, source: null }))]
    .sort((a, b) => place(a).localeCompare(place(b), 'en', { numeric: true }) || a.start - b.start)
    .map((one, index) => ({ ...one, name: one.text, number: index + 1 }));
}

/** A text cut at its figures: strings and figures in turn. Offsets count characters, not UTF-16 units. */
function pieces(text, name, figures) {
  const letters = Array.from(text ?? '');
  const found = [];
  let at = 0;
  for (const figure of figures.filter((one) => one.name === name).sort((a, b) => a.start - b.start)) {
    if (figure.start < at || figure.end > letters.length) continue;
    if (figure.start > at) found.push(letters.slice(at, figure.start).join(''));
    found.push({ figure, text: letters.slice(figure.start, figure.end).join('') });
    at = figure.end;
  }
  if (at < letters.length) found.push(letters.slice(at).join(''));
  return found;
}

/** What the tools of a report did not have: {tool, what, reason, symbol}, each once. */
function missingOf({ calls, reason, status }) {
  const found = status === 'completed' || !reason ? [] : [{ what: status.replaceAll('_', ' '), reason }];
  for (const call of calls) {
    const { tool } = call;
    const gaps = answerOf(call)?.missing;
    for (const gap of Array.isArray(gaps) ? gaps : []) {
      found.push({ tool, what: gap?.what ?? 'data', reason: gap?.reason ?? 'no reason given', symbol: gap?.symbol });
    }
    if (!call.success) found.push({ tool, what: 'the call failed', reason: call.output.slice(0, 300) });
  }
  return [...new Map(found.map((gap) => [JSON.stringify([gap.symbol, gap.what, gap.reason]), gap])).values()];
}

/** The answer of a call as a value; undefined when it is no whole JSON, since stored answers are cut at a bound. */
function answerOf(call) {
  try {
    return JSON.parse(call.output);
  } catch {
    return undefined;
  }
}

const PLACED = ['verdict', 'confidence', 'summary', 'key_risks'];
/** The fields of the answer that have no place of their own. */
const otherFields = ({ answer }) =>
  Object.fromEntries(Object.entries(answer ?? {}).filter(([name]) => !PLACED.includes(name)));

// One verdict: its rule, the reports that it rests on, what was missing, and the orders that rest on it.
export function Verdict({ params }) {
  const found = useGet(`/verdicts/${part(params.verdict)}`);
  const { symbol, rating, confidence } = found.data?.verdict ?? {};
  return html`<div class="view report-view"><h1>${symbol ? html`Verdict on ${symbolOf(symbol, found.data?.verdict && {
      ...found.data.verdict, account: found.data.account })} ${badgeOf(rating)}
      ${' '}${quietOf(html`${textOf(confidence)} confidence`)}
      ${pastOf(found.data?.account)}` : html`Verdict ${shortId(params.verdict)}`}</h1>
    <${Loaded} from=${found} what="the verdict">${(detail) => html`<${VerdictShown} detail=${detail} />`}<//></div>`;
}

function VerdictShown({ detail }) {
  const { verdict, candidate } = detail;
  return html`<div class="stack">
    <${Panel} title="Why"><p class="rule">${textOf(detail.rule)}</p>
      <${Facts} rows=${[
        ['Rating', badgeOf(verdict.rating)],
        ['Confidence', textOf(verdict.confidence)],
        ['Beats the median', detail.probability !== null ? numOf(chance(detail.probability))
          : quietOf(html`not known until <code>desk calibrate</code>`)],
        ['Candidate', html`${numOf(count(candidate.rank))}, ${textOf(candidate.origin)}`],
        ['Market time', timeOf(detail.market_at)],
        ['Run', runOf(verdict.run_id)],
        ['Orders that rest on it', detail.orders.length ? detail.orders.map((id) => html`${orderOf(id)} `)
          : quietOf('none')],
      ]} /><//>
    <${TablePanel} title="Reports that it rests on" label="Reports" columns=${REPORTS} rows=${detail.reports}
      empty="It rests on no report" />
    ${verdict.pooled && html`<${TablePanel} title="Theses that it is pooled from" label="Theses" columns=${THESES}
      rows=${thesesOf(detail)} empty="It rests on no thesis" />`}
    <div class="grid">
      ${[['What was missing', verdict.missing, 'Every role reported.'],
        ['Key risks', verdict.key_risks, 'No report names one.']].map(([title, rows, none]) => html`
        <${Panel} title=${title}><${Dots} of=${rows.map((one) => textOf(one))} none=${none} /><//>`)}
    </div>
    <${Panel} title="Summary"><pre class="words">${textOf(verdict.summary)}</pre><//>
  </div>`;
}

/** The arithmetic of a verdict: a row a thesis, and the sum with its 95 % interval. */
function thesesOf({ verdict: { pooled }, reports }) {
  const stated = new Map(reports.map((row) => [row.role, row.thesis]));
  const sum = { role: 'pooled', probability: pooled.probability, range: [pooled.low, pooled.high], earned: null,
    weight: pooled.theses ? 1 : null, thesis: { ...pooled, invalidation: { level: pooled.invalidation_source } } };
  return [...pooled.rows.map((row) => ({ ...row, thesis: stated.get(row.role) ?? {} })), sum];
}

const known = (value, shown) => (value === null || value === undefined ? quietOf('none') : shown(value));
const decimals = (value) => value.toFixed(2);
const within = (low, high) => ` (${chance(low)} to ${chance(high)})`;
const THESES = [
  column('Role'),
  ['Probability', (row) => known(row.probability,
    (value) => `${chance(value)}${row.range ? within(...row.range) : ''}`), 'num', null,
    'that the share beats its benchmark; pooled with its 95 % interval'],
  ['Weight', (row) => known(row.weight, decimals), 'num', null, 'its share of the pooled log odds'],
  ['By record', (row) => known(row.earned, decimals), 'num', null,
    'what the record of its role makes of 1, from 30 resolved theses on'],
  ['Sessions', (row) => known(row.thesis.horizon, count), 'num'],
  ['Move', ({ thesis: { move, move_low: low, move_high: high } }) => known(move, (value) =>
    `${chance(value)}${Number.isFinite(low) && Number.isFinite(high) ? within(low, high) : ''}`), 'num', null,
    'expected over its sessions, with its 10 % and 90 %'],
  ['Wrong at', (row) => (row.thesis.invalidation?.event
    ? textOf(`${row.thesis.invalidation.day}: ${row.thesis.invalidation.event}`)
    : known(row.thesis.invalidation_price,
      (value) => html`${value} ${quietOf(textOf(row.thesis.invalidation?.level))}`))],
  ['For', (row) => pointsOf(row.thesis.points_for), 'wide prose'],
  ['Against', (row) => pointsOf(row.thesis.points_against), 'wide prose'],
];

const pointsOf = (points) => html`<${Dots} of=${(points ?? []).map((one) => textOf(one.text))} />`;

const REPORTS = [
  ...REPORT, SOURCED,
  ['Summary', (row) => prose(260)(row.summary || row.reason)],
  column('Author', upTo(40), 'author', 'wide'),
];
