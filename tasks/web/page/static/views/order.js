// One order: what it is, why it was made, what was checked, what it rests on, and what became of it.

import {
  Badge, badgeOf, Block, column, compact, count, Empty, Facts, figure, href, html, laidOut, Link, LiveBadge, Loaded,
  MISSING, money, number, numOf, orderOf, Panel, part, plain, REPORT, runOf, shortId, symbolOf, Table, TablePanel,
  Text, textOf, timeOf, upTo, useEffect, useGet, useLive, useState, words,
} from '../lib/view.js';
import { Answering, Changes, Until } from '../lib/decision.js';
import {
  breakable, instrument, OrderState, priceTerms, quantity, stateName, stateTone, TurnLink, unit,
} from '../lib/orders.js';

export function OrderView({ params, query }) {
  const path = `/orders/${part(params.order)}`;
  const order = useGet(path, {}, { every: EVERY_MS });
  const waiting = useGet('/approvals', {}, { every: EVERY_MS, deps: [params.order] });
  const again = () => [order, waiting].forEach((one) => one.reload());
  const run = order.data?.order.run_id;
  const live = useLive(run ? '/events' : null, { query: { run, type: ['order', 'approval'], bodies: false },
    onEvents: () => [order, waiting].forEach((one) => one.soon(500)), onGap: again });
  return html`<div class="view"><${Loaded} from=${order} what="the order">${(detail) =>
    html`<${Whole} detail=${detail} path=${path} part=${query.part} live=${live}
    item=${waiting.data?.find((one) => 'order' in one && one.order.id === detail.order.id)} />`}<//></div>`;
}

function Whole({ detail, path, part, live, item }) {
  const { order, preview, approval, fills, chain } = detail;
  const forecasts = partsOf(chain, 'forecast');
  const checks = useChecks(path, order.state);
  useEffect(() => {
    if (part) document.getElementById(`part-${part}`)?.scrollIntoView({ block: 'start' });
  }, [part]);
  return html`<h1><span>Order <code>${shortId(order.id)}</code></span> ${symbolOf(order.symbol)} <${OrderState}
    state=${order.state} /> <${LiveBadge} live=${live} /></h1>
    <div class="stack">
    <p class="lead">${plain(order.side ?? order.action)} <strong class="num">
      ${quantity(order.quantity)}</strong> ${unit(order)} of <strong class="symbol">
      ${instrument(order)}</strong>, ${priceTerms(order)}, ${plain(order.time_in_force)}${preview
      && html`, <strong class="num">${money(preview.notional)}</strong>`} on account ${textOf(order.account)}</p>
    ${order.denial_code && html`<p class="notice bad" role="status">
      <${Badge} tone="bad">denied<//> <code>
      ${plain(order.denial_code)}</code>: ${textOf(order.denial_reason)}. Measured <strong class="num">
      ${textOf(order.measured || 'nothing')}</strong>, limit <strong class="num">
      ${textOf(order.limit_text || 'none')}</strong></p>`}
    ${detail.rogue.length > 0 && html`<p class="notice bad" role="status">
      <${Badge} tone="bad">rogue calls<//> ${rogueText(detail.rogue)}. What rests on them waits for a person.</p>`}
    ${item && html`<div class="notice warn answer" role="group" aria-label="Your answer">
      <span><${Badge} tone="warn">waits for a person<//> until ${timeOf(item.approval.expires_at)}, <${Until}
        item=${item} /></span>
      <${Answering} item=${item} /></div>`}
    <${Panel} title="What it rests on, and what became of it" id="part-lineage"><${Lineage} detail=${detail} /><//>
    <div class="grid dense">
      <${Panel} title="Why it was made" id="part-why"><${Why} chain=${chain} /><//>
      <${Panel} title="Checks" id="part-checks"><${Checks} from=${checks} /><//>
      <${TablePanel} title="Reports" className="whole" id="part-reports" columns=${REPORTS}
        rows=${partsOf(chain, 'report')} empty="It rests on no report" />
      <${TablePanel} title="Screen hits" columns=${HITS} rows=${partsOf(chain, 'hit')}
        empty="No screen put it forward" />
      ${forecasts.length > 0 && html`<${TablePanel} title="Forecasts of the board" label="Forecasts"
        columns=${FORECASTS} rows=${forecasts}
        tools=${html`<${Link} to=${`/runs/${order.run_id}`}>the whole board<//>`} />`}
      <${Panel} title="The order" id="part-order"><${Terms} order=${order} /><//>
      <${Panel} title="Preview" id="part-preview">
        ${preview ? html`<${Preview} preview=${preview} checks=${checks} />`
        : html`<${Empty} title="There is no preview">A denied order has none, where it failed before.<//>`}<//>
      ${approval && html`<${Panel} title="Answer" id="part-answer"><${Answer} approval=${approval} /><//>`}
      <${TablePanel} title="Fills" id="part-fills" columns=${FILLS} rows=${fills} empty="Nothing is filled" />
      ${detail.protected_by.length > 0 && html`<${TablePanel} title="Protected by" label="Protective orders"
        columns=${PROTECTION} rows=${detail.protected_by} />`}
      <${Panel} title="Audit log" className="whole" id="part-log"><${AuditLog} path=${path} state=${order.state} /><//>
    </div></div>`;
}

function Why({ chain }) {
  const [[decision], [verdict], [order]] = ['decision', 'verdict', 'order'].map((kind) => partsOf(chain, kind));
  return html`<div class="stack">
    ${order.why && html`<p>${textOf(order.why)}</p>`}
    <${Facts} rows=${[
      ['Decided by', decision.thread_id
        ? html`<${TurnLink} thread=${decision.thread_id} turn=${decision.codex_turn_id} /> <${Text} className="quiet">
        ${decision.author}<//>` : textOf(decision.author)],
      ['Decision', textOf(decision.status)],
      ['Verdict', verdict ? html`<${Link} to=${`/verdicts/${verdict.id}`}><${Badge} tone="plain">${verdict.rating}
        <//> ${plain(verdict.confidence)}<//>` : null],
      ['When', decision.at ? timeOf(decision.at) : undefined],
    ]} />
    ${decision.thread_id
      && html`<p><${TurnLink} thread=${decision.thread_id} turn=${decision.codex_turn_id}>The trader's whole turn<//>
      </p>`}
    ${decision.reasoning && html`<details><summary>The decision's reasoning</summary>
      <p class="prose">${textOf(decision.reasoning)}</p></details>`}
    ${verdict?.summary && html`<details><summary>The verdict's summary</summary>
      <p class="prose">${textOf(verdict.summary)}</p></details>`}
  </div>`;
}

const REPORTS = [
  ...REPORT,
  ['What it saw', (row) => html`<${TurnLink} thread=${row.thread_id} turn=${row.codex_turn_id}>
    ${row.calls.length} tool ${row.calls.length === 1 ? 'answer' : 'answers'}<//>`],
  ['Tools', (row) => html`<${Text} most=${60} className="quiet">${[...new Set(row.calls.map((one) => one.tool))].join(
    ', ')}<//>`, 'wide'],
  ['Summary', (row) => textOf(row.summary || row.reason, 140), 'wide'],
  number('Tokens', compact, 'tokens', 'wide'),
];

/** Which tools models called that their turns do not have. */
const rogueText = (rows) => [...new Set(rows.map((row) => `${row.role} called ${row.tool} (${row.kind})`))].map(
  (line) => plain(line)).join(', ');

const HITS = [
  column('Lens'), column('Confidence'), column('Thesis', upTo(160)),
  ['Turn', (row) => html`<${TurnLink} thread=${row.thread_id} turn=${row.codex_turn_id} />`],
];

const FORECASTS = [
  column('Voice'), number('Round', count), number('Yes', figure, 'probability'), number('Baseline', figure),
  column('Because', upTo(140), 'because', 'wide'),
];

const planRows = (plan) => [
  ['Bound', html`at most <span class="num">${money(plan.most)}</span> by ${textOf(plan.bound)}${plan.asked
    && html`; <span class="num">${money(plan.asked)}</span> was asked for`}`],
  ['Plan', html`entry <span class="num">${money(plan.entry)}</span>, stop <span class="num">${money(plan.stop)}</span>
    ${plan.target && html`, target <span class="num">${money(plan.target)}</span>`}`],
  ['Ends', textOf(plan.ends)],
  ['Review', textOf(plan.review)],
];

const Terms = ({ order }) => html`<${Facts} rows=${[
  ['Id', html`<code>${plain(order.id)}</code>`],
  ['Run', runOf(order.run_id)],
  ['Account', textOf(order.account)],
  ['Action', `${plain(order.action)}${order.side ? `, ${plain(order.side)}` : ''}`],
  ['Quantity', numOf(quantity(order.quantity))],
  ['Type', numOf(priceTerms(order))],
  ...(order.exit_reason ? [['Closes its position for', plain(order.exit_reason)]] : []),
  ...(order.plan ? planRows(order.plan) : []),
  ['In force', plain(order.time_in_force)],
  ['Market time', timeOf(order.market_at)],
  ['Made', timeOf(order.created_at)],
  ['Sent', order.sent_at ? timeOf(order.sent_at) : 'not sent'],
  ['At the broker', order.broker_order_id ? html`<code>${textOf(order.broker_order_id)}</code>` : undefined],
  ['Protects', order.protects && order.protects !== order.id ? orderOf(order.protects) : undefined],
  ['Message', order.message ? textOf(order.message) : undefined],
]} />`;

function Preview({ preview, checks }) {
  return html`<div class="stack"><${Facts} rows=${[
      ['Price', numOf(money(preview.price))],
      ['Of', timeOf(preview.priced_at)],
      ['Money', numOf(money(preview.notional))],
      ['Made', timeOf(preview.created_at)],
    ]} />
    <p class="hash"><span class="quiet">SHA-256 of the canonical text</span> <code>${plain(preview.payload_hash)}</code>
      </p>
    <${Changes} from=${checks} />
    <details><summary>The canonical text</summary><${Block} label="Canonical text">${laidOut(preview.payload)}<//>
      </details></div>`;
}

const Answer = ({ approval }) => html`<${Facts} rows=${[
  ['State', badgeOf(approval.state)],
  ['By', approval.decided_by ? textOf(approval.decided_by) : null],
  ['When', approval.decided_at ? timeOf(approval.decided_at) : null],
  ['Why', approval.why ? textOf(approval.why) : null],
  ['Asked', timeOf(approval.asked_at)],
  ['Bound to', html`<code title=${plain(approval.payload_hash)}>${shortId(approval.payload_hash)}</code>`],
]} />`;

const FILLS = [
  column('At', timeOf, 'filled_at'), column('Side'),
  ['What', (row) => html`<span class="symbol">${plain(row.symbol)}</span>`],
  number('Quantity', quantity), number('Price', money), number('Commission', money, 'commission', 'wide'),
];
const PROTECTION = [
  column('Order', orderOf, 'id'), number('Quantity', quantity),
  ['Price', (row) => priceTerms(row), 'num'],
  ['State', (row) => html`<${OrderState} state=${row.state} />`],
];

function AuditLog({ path, state }) {
  const log = useGet(path, { log: true }, { deps: [state] });
  return html`<${Loaded} from=${log} what="the audit log" isEmpty=${(found) => !found.log?.length}
    empty="The audit log has no line on it" hint="A preview leaves one; so does each later step.">
    ${({ log: lines }) => html`<${Table} label="Audit log" columns=${LOG} rows=${lines}
    rowKey=${(row) => `${row.at}${row.n}`} />`}<//>`;
}
const LOG = [
  number('Line', count, 'n'), column('At', timeOf), column('What', words, 'kind'),
  ['Facts', (row) => html`<${Text} most=${200} className="quiet">
    ${Object.entries(row.facts).filter(([name]) => !['order', 'payload'].includes(name))
    .map(([name, value]) => `${name} ${typeof value === 'object' ? JSON.stringify(value) : value}`).join(', ')}<//>`],
];

// The rules that bind an order, each with what was measured and its limit; and what changed since the preview.
const ANSWERS = {
  passed: ['good', 'passed'], denied: ['bad', 'denied'], not_bound: ['plain', 'does not bind an exit'],
  passed_then: ['good', 'passed then'], not_recorded: ['plain', 'not recorded'], not_reached: ['plain', 'not reached'],
    not_checked: ['plain', 'not checked'],
};
const WAITS = ['drafted', 'previewed', 'approval_pending', 'approved'];
const EVERY_MS = 30_000;

/** The checks of an order as a resource, for the parts of its view. */
const useChecks = (path, state) => useGet(`${path}/checks`, {}, { every: WAITS.includes(state) ? EVERY_MS : 0,
  deps: [state] });

function Checks({ from }) {
  const [all, setAll] = useState(false);
  return html`<${Loaded} from=${from} what="the checks">${(found) => {
    // Denials first.
    const telling = found.checks.filter((one) => one.figure !== null || one.answer === 'denied')
      .sort((one, other) => Number(other.answer === 'denied') - Number(one.answer === 'denied'));
    const rows = all ? found.checks : telling;
    return html`<p>${summary(found)} ${found.at ? html`<span class="quiet">as of ${timeOf(found.at)}</span>` : ''}</p>
      ${found.missing && html`<p class="notice warn">${textOf(found.missing)}</p>`}
      ${rows.length > 0 && html`<${Table} label="Checks" columns=${COLUMNS} rows=${rows} rowKey=${(row) =>
        row.codes.join()} />`}
      ${telling.length < found.checks.length
        && html`<p><button type="button" aria-expanded=${all} onClick=${() => setAll(!all)}>${all ? 'Fewer'
        : `All ${found.checks.length} rules`}</button></p>`}`;
  }}<//>`;
}

function summary({ checks, state }) {
  const denied = checks.filter((one) => one.answer === 'denied').length;
  if (denied) return html`<${Badge} tone="bad">${`denied by ${denied} of ${checks.length} rules`}<//>`;
  const [first] = checks;
  if (first?.answer === 'passed_then') return html`<${Badge} tone="good">${`passed ${checks.length} rules`}<//> when it
    was sent; the figures of then were not recorded.`;
  if (first?.answer === 'not_checked') return html`<${Badge} tone="plain">not checked<//> the desk sends such orders
    without the rules.`;
  if (!WAITS.includes(state)) return html`<${Badge} tone="good">${`passed all ${checks.length} rules`}<//> when it was
    last checked,`;
  return html`<${Badge} tone="good">${`passes all ${checks.length} rules`}<//>`;
}

const limitsOf = (row) => (row.limit !== null ? html`<span class="num measured">${textOf(row.limit)}</span>`
  : Object.entries(row.limits)
  .map(([name, value]) => html`<div>${numOf(value === null || value === undefined ? MISSING : plain(value))} <code
  class="quiet small">${breakable(name)}</code></div>`));
const COLUMNS = [
  ['Rule', (row) => html`<span title=${row.denies.map(plain).join('\n')}>${row.codes.map(words).join(', ')}</span>`],
  ['Answer', (row) => html`<${Badge} tone=${ANSWERS[row.answer]?.[0]}>${ANSWERS[row.answer]?.[1] ?? row.answer}<//>`],
  ['Measured', (row) => html`<span class="num measured">${textOf(row.figure ?? MISSING)}</span>
    ${row.reason && html`<br /><${Text} className="quiet">${row.reason}<//>`}`],
  ['Limit', (row) => limitsOf(row), 'wide'],
];

// Lineage: from the screener's hit to the fill, each node a link to what it stands for.
const STANCES = { CONFIRMED: 'good', REJECT: 'bad', CAUTION: 'warn' };
const ANSWER_TONES = { approved: 'good', denied: 'bad', pending: 'warn', expired: 'warn' };

/** The nodes of a kind in a chain, each with its facts beside its own fields. */
const partsOf = (chain, kind) => chain.nodes.filter((one) => one.kind === kind)
  .map((one) => ({ ...one, ...one.facts, id: one.id }));

/** The layers of an order's chain, first to last: [{title, nodes}]. A node without `to` stands for what there is
 * not. */
function layersOf({ order, chain }) {
  const own = order.id ? `/orders/${order.id}` : `/symbols/${order.symbol}`; // before there is an order
  const later = order.id ? 'none' : 'not yet';
  const thread = (one) => (one.thread_id ? { to: `/threads/${one.thread_id}`, query: { turn: one.codex_turn_id } }
    : {});
  const part = (name) => ({ to: own, query: { part: name } });
  const made = (kind, title, missing, of) => layer(title, partsOf(chain, kind).map(of), missing);
  const fills = partsOf(chain, 'fill');
  const forecasts = partsOf(chain, 'forecast');
  const some = (found) => !found.nodes[0].missing;
  return [
    made('hit', 'Hits', order.protects ? 'none' : 'not from a screen',
      (one) => ({ lines: [one.lens, one.confidence], ...thread(one) })),
    made('candidate', 'Candidate', 'no research',
      (one) => ({ lines: [order.symbol, one.rank ? `rank ${one.rank}` : one.origin], to: `/symbols/${order.symbol}` })),
    made('report', 'Reports', later,
      (one) => ({ lines: [one.role, one.verdict ?? one.status], tone: STANCES[one.verdict],
      to: `/reports/${one.id}` })),
    ...[layer('Board', forecasts.length ? [{ lines: [`${forecasts.length} forecasts`,
      `${new Set(forecasts.map((one) => one.voice)).size} voices`], to: `/runs/${order.run_id}` }] : [])].filter(some),
    made('verdict', 'Verdict', later, (one) => ({ lines: [one.rating, one.confidence], to: `/verdicts/${one.id}` })),
    ...[made('analysis', 'Analysis', 'none',
      (one) => ({ lines: [one.strategy, one.recommendation], to: `/runs/${order.run_id}` }))].filter(some),
    made('decision', 'Decision', later,
      (one) => ({ lines: [one.turn_id ? 'trader' : one.author?.startsWith('code:') ? 'code' : 'a person', one.status],
      ...part('why'), ...thread(one) })),
    made('order', 'Order', 'not yet',
      (one) => ({ lines: [shortId(one.id), stateName(one.state)], tone: stateTone(one.state), ...part('order') })),
    made('preview', 'Preview', later,
      (one) => ({ lines: [money(one.notional), shortId(one.payload_hash)], ...part('preview') })),
    ...[made('approval', 'Answer', 'none',
      (one) => ({ lines: [one.state, one.decided_by ?? 'waits'], tone: ANSWER_TONES[one.state],
      ...part('answer') }))].filter(some),
    layer('Submission', order.sent_at ? [{ lines: ['sent', order.broker_order_id ? shortId(order.broker_order_id)
      : 'no broker id'], ...part('log') }] : [], 'not sent'),
    layer('Fill', fills.length ? [{ lines: [`${quantity(fills.reduce((sum, one) => sum + one.quantity, 0))} filled`,
      money(fills.at(-1).price)], tone: 'good', ...part('fills') }] : [], 'no fill'),
  ];
}

const layer = (title, nodes, missing = 'none') =>
  ({ title, nodes: nodes.length ? nodes : [{ lines: [missing], missing: true }] });

/** The chain of GET /orders/{order}, from the screener's hit to the fill. */
export const Lineage = ({ detail }) => html`<div class="lineage-box"><ol class="lineage"
  aria-label="What the order rests on, and what became of it">${layersOf(detail).map(({ title, nodes }) => html`
    <li><h3>${title}</h3>${nodes.map((node) => html`<${Node} node=${node} title=${title} />`)}</li>`)}</ol></div>`;

function Node({ node: { lines, to, query, tone = '', missing }, title }) {
  const said = lines.filter((line) => (line ?? '') !== '').map(plain);
  const shown = said.map((line) => html`<span>${line}</span>`);
  return to ? html`<a class=${`node ${tone}`} href=${href(to, query)} title=${said.join(', ')}
    aria-label=${`${title}: ${said.join(', ')}`}>${shown}</a>`
    : html`<div class=${`node ${missing ? 'missing' : tone}`}>${shown}</div>`;
}
