// One order: what it is, why it was made, what was checked, what it rests on, and what became of it.

import {
  badgeOf, Block, codeOf, column, compact, count, Empty, Facts, FORECAST, hashOf, href, html, idOf, laidOut,
  LiveBadge, Loaded, MISSING, money, number, numOf, orderOf, Panel, part, pastOf, pastRun, plain, priceOf, prices,
  quantity, quietOf, ratingOf, REPORT, runOf, shortHash, shortId, stateOf, symbolOf, Table, TablePanel, textOf,
  tickerOf, timeOf, upTo, useEffect, useFollowed, useGet, useState, words,
} from '../lib/view.js';
import { Answering, Changes, Until } from '../lib/decision.js';
import {
  actionOf, breakable, Denied, instrument, orderState, priceTerms, stateName, stateTone, titleOf, turnOf, unit,
} from '../lib/orders.js';

export function OrderView({ params, query }) {
  const path = `/orders/${part(params.order)}`;
  const order = useGet(path, {}, { every: EVERY_MS });
  const waiting = useGet('/approvals', {}, { every: EVERY_MS, deps: [params.order] });
  const live = useFollowed(['order', 'approval'], [order, waiting], { run: order.data?.order.run_id ?? null, ms: 500 });
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
  return html`<h1><span>${titleOf(order)}</span> ${symbolOf(order.symbol, order)} ${idOf(order.id)}
    ${orderState(order.state)} ${pastOf(order.account)} <${LiveBadge} live=${live} /></h1>
    <div class="stack">
    <p class="lead">${plain(order.side ?? order.action)} <strong class="num">${quantity(order.quantity)}
      </strong> ${unit(order)} of <strong class="symbol">${instrument(order)}</strong>
      , ${priceTerms(order)}, ${plain(order.time_in_force)}${preview
        && html`, <strong class="num">${money(preview.notional)}</strong>`} on account ${textOf(order.account)}</p>
    ${order.denial_code && html`<${Denied} title="denied" code=${order.denial_code} reason=${order.denial_reason}
      measured=${order.measured} limit=${order.limit_text} />`}
    ${detail.rogue.length > 0 && html`<p class="notice bad" role="status">${badgeOf('rogue calls', 'bad')}
      ${' '}${rogueText(detail.rogue)}. What rests on them waits for a person.</p>`}
    ${item && html`<div class="notice warn answer" role="group" aria-label="Your answer">
      <span>${orderState(order.state)} until ${timeOf(item.approval.expires_at)},
        ${' '}<${Until} item=${item} /></span><${Answering} item=${item} /></div>`}
    <${Panel} title="What it rests on, and what became of it" id="part-lineage"><${Lineage} detail=${detail} /><//>
    <div class="grid dense">
      <${Panel} title="Why it was made" id="part-why"><${Why} chain=${chain} /><//>
      <${Panel} title="Checks" id="part-checks"><${Checks} from=${checks} /><//>
      <${TablePanel} title="Reports" className="whole" id="part-reports" columns=${REPORTS}
        rows=${partsOf(chain, 'report')} empty="It rests on no report" />
      <${TablePanel} title="Screen hits" columns=${HITS} rows=${partsOf(chain, 'hit')}
        empty="No screen put it forward" />
      ${forecasts.length > 0 && html`<${TablePanel} title="Forecasts of the board" label="Forecasts"
        columns=${FORECAST} rows=${forecasts} tools=${runOf(order.run_id, 'the whole board')} />`}
      <${Panel} title="The order" id="part-order"><${Facts} rows=${termsOf(order)} /><//>
      <${Panel} title="Preview" id="part-preview">${preview ? html`<${Preview} order=${order} preview=${preview}
        checks=${checks} />`
        : html`<${Empty} title="There is no preview">A denied order has none, where it failed before.<//>`}<//>
      ${approval && html`<${Panel} title="Answer" id="part-answer"><${Facts} rows=${answerOf(approval)} /><//>`}
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
      ['Decided by', html`${decision.thread_id
        && turnOf(decision.thread_id, decision.codex_turn_id)} ${quietOf(textOf(decision.author))}`],
      ['Decision', textOf(decision.status)],
      ['Verdict', verdict ? ratingOf(verdict.rating, verdict.confidence, verdict.id) : null],
      ['When', decision.at ? timeOf(decision.at) : undefined],
    ]} />
    ${decision.thread_id && html`<p>${turnOf(decision.thread_id, decision.codex_turn_id, "The trader's whole turn")}
      </p>`}
    ${[["The decision's reasoning", decision.reasoning], ["The verdict's summary", verdict?.summary]].map(
      ([name, text]) => text && html`<details><summary>${name}</summary><p class="prose">${textOf(text)}</p>
        </details>`)}
  </div>`;
}

const REPORTS = [
  ...REPORT,
  ['What it saw', (row) => turnOf(row.thread_id, row.codex_turn_id,
    `${row.calls.length} tool ${row.calls.length === 1 ? 'answer' : 'answers'}`)],
  ['Tools', (row) => quietOf(textOf([...new Set(row.calls.map((one) => one.tool))].join(', '), 60)), 'wide'],
  ['Summary', (row) => textOf(row.summary || row.reason, 140), 'wide'],
  number('Tokens', compact, 'tokens', 'wide'),
];

const rogueText = (rows) =>
  plain([...new Set(rows.map((row) => `${row.role} called ${row.tool} (${row.kind})`))].join(', '));

const HITS = [
  column('Lens'), column('Confidence'), column('Thesis', upTo(160)),
  ['Turn', (row) => turnOf(row.thread_id, row.codex_turn_id)],
];

const planRows = (plan, order) => [
  ['Bound', html`at most ${numOf(money(plan.most))} by ${textOf(plan.bound)}${plan.asked
    && html`; ${numOf(money(plan.asked))} was asked for`}`],
  ['Plan', ['entry', 'stop', 'target'].filter((name) => plan[name]).map((name) => `${name} ${
    priceOf(plan[name], order)}`)
    .join(', ')],
  ['Ends', textOf(plan.ends)],
  ['Review', textOf(plan.review)],
];

const termsOf = (order) => [
  ['Id', codeOf(order.id)],
  ['Run', runOf(order.run_id)],
  ['Account', textOf(order.account)],
  ['Action', actionOf(order)],
  ['Quantity', numOf(quantity(order.quantity))],
  ['Type', numOf(priceTerms(order))],
  ['Closes its position for', order.exit_reason ? plain(order.exit_reason) : undefined],
  ...(order.plan ? planRows(order.plan, order) : []),
  ['In force', plain(order.time_in_force)],
  ['Market time', timeOf(order.market_at)],
  ['Made', timeOf(order.created_at)],
  ['Sent', order.sent_at ? timeOf(order.sent_at) : 'not sent'],
  ['At the broker', order.broker_order_id ? codeOf(order.broker_order_id) : undefined],
  ['Protects', order.protects && order.protects !== order.id ? orderOf(order.protects) : undefined],
  ['Message', order.message ? textOf(order.message) : undefined],
];

const Preview = ({ order, preview, checks }) => html`<div class="stack"><${Facts} rows=${[
    ['Price', numOf(priceOf(preview.price, { ...order, currency: preview.currency }))],
    ['Of', timeOf(preview.priced_at)],
    ['Money', numOf(money(preview.notional))],
    ['Made', timeOf(preview.created_at)],
  ]} />
  <p class="hash">${quietOf('SHA-256 of the canonical text')} ${codeOf(preview.payload_hash)}</p>
  <${Changes} from=${checks} order=${order} />
  <details><summary>The canonical text</summary>
    <${Block} label="Canonical text">${laidOut(preview.payload)}<//></details></div>`;

const answerOf = (approval) => [
  ['State', stateOf('approval', approval.state)],
  ['By', approval.decided_by ? textOf(approval.decided_by) : null],
  ['When', approval.decided_at ? timeOf(approval.decided_at) : null],
  ['Why', approval.why ? textOf(approval.why) : null],
  ['Asked', timeOf(approval.asked_at)],
  ['Bound to', hashOf(approval.payload_hash)],
];

const FILLS = [
  column('At', timeOf, 'filled_at'), column('Side'), column('What', tickerOf, 'symbol'),
  number('Quantity', quantity), prices('Price'), number('Commission', money, 'commission', 'wide'),
];
const PROTECTION = [
  column('Order', orderOf, 'id'), number('Quantity', quantity), ['Price', priceTerms, 'num'],
  column('State', orderState),
];

const AuditLog = ({ path, state }) => html`<${Loaded} what="the audit log" isEmpty=${({ log }) => !log?.length}
  from=${useGet(path, { log: true }, { deps: [state] })} empty="The audit log has no line on it"
  hint="A preview leaves one; so does each later step.">${({ log }) => html`<${Table} label="Audit log" columns=${LOG}
    rows=${log} rowKey=${(row) => `${row.at}${row.n}`} />`}<//>`;
const LOG = [
  number('Line', count, 'n'), column('At', timeOf), column('What', words, 'kind'),
  ['Facts', (row) => quietOf(textOf(Object.entries(row.facts).filter(([name]) => !['order', 'payload'].includes(name))
    .map(([name, value]) => `${name} ${typeof value === 'object' ? JSON.stringify(value) : value}`).join(', '), 200))],
];

// The rules that bind an order, each with what was measured and its limit; and what changed since the preview.
const ANSWERS = {
  passed: ['passed', 'good'], denied: ['denied', 'bad'], passed_then: ['passed then', 'good'],
  not_bound: ['does not bind an exit', 'plain'],
};
const WAITS = ['drafted', 'previewed', 'approval_pending', 'approved'];
const EVERY_MS = 30_000;

const useChecks = (path, state) => useGet(`${path}/checks`, {}, { every: WAITS.includes(state) ? EVERY_MS : 0,
  deps: [state] });

function Checks({ from }) {
  const [all, setAll] = useState(false);
  return html`<${Loaded} from=${from} what="the checks">${(found) => {
    const telling = found.checks.filter((one) => one.figure !== null || one.answer === 'denied')
      .sort((one, other) => Number(other.answer === 'denied') - Number(one.answer === 'denied'));
    const rows = all ? found.checks : telling;
    return html`<p>${summary(found)} ${found.at ? html`<span class="quiet">as of ${timeOf(found.at)}</span>` : ''}</p>
      ${found.missing && html`<p class="notice warn">${textOf(found.missing)}</p>`}
      ${rows.length > 0
        && html`<${Table} label="Checks" columns=${COLUMNS} rows=${rows} rowKey=${(row) => row.codes.join()} />`}
      ${telling.length < found.checks.length && html`<p><button type="button" aria-expanded=${all}
        onClick=${() => setAll(!all)}>${all ? 'Fewer' : `All ${found.checks.length} rules`}</button></p>`}`;
  }}<//>`;
}

function summary({ checks, state }) {
  const [rules, answer] = [`${checks.length} rules`, checks[0]?.answer];
  const denied = checks.filter((one) => one.answer === 'denied').length;
  if (denied) return badgeOf(`denied by ${denied} of ${rules}`, 'bad');
  if (answer === 'passed_then') return html`${badgeOf(`passed ${rules}`, 'good')} when it was sent; the figures of then
    were not recorded.`;
  if (answer === 'not_checked') return html`${badgeOf('not checked')} the desk sends such orders without the rules.`;
  return WAITS.includes(state) ? badgeOf(`passes all ${rules}`, 'good')
    : html`${badgeOf(`passed all ${rules}`, 'good')} when it was last checked,`;
}

const limitsOf = (row) => (row.limit !== null ? html`<span class="num measured">${textOf(row.limit)}</span>`
  : Object.entries(row.limits).map(([name, value]) => html`<div>${numOf(plain(value ?? MISSING))}
    ${' '}<code class="quiet small">${breakable(name)}</code></div>`));
const COLUMNS = [
  ['Rule', (row) => html`<span title=${row.denies.map(plain).join('\n')}>${row.codes.map(words).join(', ')}</span>`],
  ['Answer', ({ answer }) => badgeOf(...(ANSWERS[answer] ?? [answer]))],
  ['Measured', (row) => html`<span class="num measured">${textOf(row.figure ?? MISSING)}</span>
    ${row.reason && html`<br />${quietOf(textOf(row.reason))}`}`],
  ['Limit', limitsOf, 'wide'],
];

// Lineage: from the screener's hit to the fill, each node a link to what it stands for.
const STANCES = { CONFIRMED: 'good', REJECT: 'bad', CAUTION: 'warn' };
const ANSWER_TONES = { approved: 'good', denied: 'bad', pending: 'warn', expired: 'warn' };

/** The nodes of a kind in a chain, each with its facts beside its own fields. */
const partsOf = (chain, kind) => chain.nodes.filter((one) => one.kind === kind)
  .map((one) => ({ ...one, ...one.facts, id: one.id }));

/** The layers of an order's chain, first to last: [{title, nodes}]. */
function layersOf({ order, chain }) {
  const symbol = { to: `/symbols/${encodeURIComponent(order.symbol)}`, query: { run: pastRun(order) } };
  const own = order.id ? { to: `/orders/${order.id}` } : symbol; // before there is an order
  const later = order.id ? 'none' : 'not yet';
  const thread = (one) => (one.thread_id ? { to: `/threads/${one.thread_id}`, query: { turn: one.codex_turn_id } }
    : {});
  const part = (name) => ({ ...own, query: { ...own.query, part: name } });
  const made = (kind, title, missing, of) => layer(title, partsOf(chain, kind).map(of), missing);
  const fills = partsOf(chain, 'fill');
  const forecasts = partsOf(chain, 'forecast');
  return [
    made('hit', 'Hits', order.protects ? 'none' : 'not from a screen',
      (one) => ({ lines: [one.lens, one.confidence], ...thread(one) })),
    made('candidate', 'Candidate', 'no research',
      (one) => ({ lines: [order.symbol, one.rank ? `rank ${one.rank}` : one.origin], ...symbol })),
    made('report', 'Reports', later, (one) => ({ lines: [one.role, one.verdict ?? one.status],
      tone: STANCES[one.verdict], to: `/reports/${one.id}` })),
    layer('Board', forecasts.length ? [{ lines: [`${forecasts.length} forecasts`,
      `${new Set(forecasts.map((one) => one.voice)).size} voices`], to: `/runs/${order.run_id}` }] : []),
    made('verdict', 'Verdict', later, (one) => ({ lines: [one.rating, one.confidence], to: `/verdicts/${one.id}` })),
    made('analysis', 'Analysis', null,
      (one) => ({ lines: [one.strategy, one.recommendation], to: `/runs/${order.run_id}` })),
    made('decision', 'Decision', later,
      (one) => ({ lines: [one.turn_id ? 'trader' : one.author?.startsWith('code:') ? 'code' : 'a person', one.status],
        ...part('why'), ...thread(one) })),
    made('order', 'Order', 'not yet',
      (one) => ({ lines: [shortId(one.id), stateName(one.state)], tone: stateTone(one.state), ...part('order') })),
    made('preview', 'Preview', later,
      (one) => ({ lines: [money(one.notional), shortHash(one.payload_hash)], ...part('preview') })),
    made('approval', 'Answer', null, (one) => ({ tone: ANSWER_TONES[one.state], ...part('answer'),
      lines: [one.state, one.decided_by ?? (one.state === 'pending' ? 'waits' : 'nobody')] })),
    layer('Submission', order.sent_at ? [{ lines: ['sent', order.broker_order_id ? shortId(order.broker_order_id)
      : 'no broker id'], ...part('log') }] : [], 'not sent'),
    layer('Fill', fills.length ? [{ lines: [`${quantity(fills.reduce((sum, one) => sum + one.quantity, 0))} filled`,
      priceOf(fills.at(-1).price, fills.at(-1))], tone: 'good', ...part('fills') }] : [], 'no fill'),
  ].filter(Boolean);
}

/** missing: what its place says without nodes; null: it then has none. */
const layer = (title, nodes, missing = null) => (nodes.length || missing !== null)
  && { title, nodes: nodes.length ? nodes : [{ lines: [missing], missing: true }] };

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
