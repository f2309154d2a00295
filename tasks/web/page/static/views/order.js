// One order: what it is, why it was made, what was checked, what it rests on, and what became of it.

import { get } from '../lib/api.js';
import { html, useEffect, useState } from '../lib/html.js';
import { useKeys } from '../lib/keys.js';
import { useLive } from '../lib/live.js';
import { compact, figure, money } from '../lib/format.js';
import { useResource } from '../lib/store.js';
import { Badge, Block, Empty, Facts, Link, Loaded, LiveBadge, OrderLink, Panel, RunLink, SymbolLink, Table, Text, Time } from '../lib/ui.js';
import { plain, shortId } from '../lib/text.js';
import { Answering } from './orders/answering.js';
import { Changes, Checks, useChecks } from './orders/checks.js';
import { Lineage, partsOf } from './orders/graph.js';
import { TurnLink } from './orders/links.js';
import { OrderState, instrument, priceTerms, quantity, unit } from './orders/terms.js';

const EVERY_MS = 30_000;

export const title = (params) => `Order ${shortId(params.order)}`;

export default function OrderView({ params, query }) {
  const path = `/orders/${encodeURIComponent(params.order)}`;
  const order = useResource(({ signal }) => get(path, {}, { signal }), [params.order], { every: EVERY_MS });
  const waiting = useResource(({ signal }) => get('/approvals', {}, { signal }), [params.order], { every: EVERY_MS });
  const again = () => [order, waiting].forEach((one) => one.reload());
  const run = order.data?.order.run_id;
  const live = useLive(run ? '/events' : null, { query: { run, type: ['order', 'approval'], bodies: false }, onEvents: () => [order, waiting].forEach((one) => one.soon(500)), onGap: again });
  useKeys([['r', 'Load again', again]]);
  return html`<div class="view"><${Loaded} from=${order} what="the order">${(detail) => html`<${Whole} detail=${detail} path=${path} part=${query.part} live=${live}
    item=${waiting.data?.find((one) => one.order === detail.order.id)} again=${again} />`}<//></div>`;
}

function Whole({ detail, path, part, live, item, again }) {
  const { order, preview, approval, fills, chain } = detail;
  const forecasts = partsOf(chain, 'forecast');
  const [result, setResult] = useState(null);
  const checks = useChecks(path, order.state);
  useEffect(() => {
    if (part) document.getElementById(`part-${part}`)?.scrollIntoView({ block: 'start' });
  }, [part]);
  const done = (found) => {
    setResult(found);
    again();
  };
  return html`<h1><span>Order <code>${shortId(order.id)}</code></span> <${SymbolLink} symbol=${order.symbol} /> <${OrderState} state=${order.state} /> <${LiveBadge} live=${live} /></h1>
    <div class="stack">
    <p class="lead">${plain(order.side ?? order.action)} <strong class="num">${quantity(order.quantity)}</strong> ${unit(order)} of <strong class="symbol">${instrument(order)}</strong>, ${priceTerms(order)}, ${plain(order.time_in_force)}${preview && html`, <strong class="num">${money(preview.notional)}</strong>`} on account <${Text}>${order.account}<//></p>
    ${order.denial_code && html`<p class="notice bad" role="status"><${Badge} tone="bad">denied<//> <code>${plain(order.denial_code)}</code>: <${Text}>${order.denial_reason}<//>. Measured <strong class="num"><${Text}>${order.measured || 'nothing'}<//></strong>, limit <strong class="num"><${Text}>${order.limit_text || 'none'}<//></strong></p>`}
    ${result && html`<p role="status" class="notice"><${Badge} tone=${result.state === 'approved' ? 'good' : 'warn'}>${result.state}<//> ${result.state !== 'approved' ? 'the answer is on record' : result.notified ? 'it is checked once more and then sent' : 'the trade queue was not reached; it sends with its next check, within a minute'}</p>`}
    ${item && html`<div class="notice warn answer" role="group" aria-label="Your answer"><span><${Badge} tone="warn">waits for a person<//> until <${Time} at=${item.expires_at} /></span> <${Answering} item=${item} done=${done} /></div>`}
    <${Panel} title="What it rests on, and what became of it" id="part-lineage"><${Lineage} detail=${detail} /><//>
    <div class="grid dense">
      <${Panel} title="Why it was made" id="part-why"><${Why} chain=${chain} /><//>
      <${Panel} title="Checks" id="part-checks"><${Checks} from=${checks} /><//>
      <${Panel} title="Reports" className="whole" id="part-reports"><${Reports} rows=${partsOf(chain, 'report')} /><//>
      <${Panel} title="Screen hits"><${Hits} rows=${partsOf(chain, 'hit')} /><//>
      ${forecasts.length > 0 && html`<${Panel} title="Forecasts of the board" tools=${html`<${Link} to=${`/board/${order.run_id}`}>the whole board<//>`}><${Forecasts} rows=${forecasts} /><//>`}
      <${Panel} title="The order" id="part-order"><${Terms} order=${order} /><//>
      <${Panel} title="Preview" id="part-preview">${preview ? html`<${Preview} preview=${preview} checks=${checks} />` : html`<${Empty} title="There is no preview">A denied order has none, where it failed before.<//>`}<//>
      ${approval && html`<${Panel} title="Answer" id="part-answer"><${Answer} approval=${approval} /><//>`}
      <${Panel} title="Fills" id="part-fills"><${Table} label="Fills" columns=${FILLS} rows=${fills} rowKey=${(row) => row.id} empty=${html`<${Empty} title="Nothing is filled" />`} /><//>
      ${detail.protected_by.length > 0 && html`<${Panel} title="Protected by"><${Table} label="Protective orders" columns=${PROTECTION} rows=${detail.protected_by} rowKey=${(row) => row.id} /><//>`}
      <${Panel} title="Audit log" className="whole" id="part-log"><${AuditLog} path=${path} state=${order.state} /><//>
    </div></div>`;
}

function Why({ chain }) {
  const [[decision], [verdict], [order]] = ['decision', 'verdict', 'order'].map((kind) => partsOf(chain, kind));
  return html`<div class="stack">
    ${order.why && html`<p><${Text}>${order.why}<//></p>`}
    <${Facts} rows=${[
      ['Decided by', decision.thread_id ? html`<${TurnLink} thread=${decision.thread_id} turn=${decision.codex_turn_id} /> <${Text} className="quiet">${decision.author}<//>` : html`<${Text}>${decision.author}<//>`],
      ['Decision', html`<${Text}>${decision.status}<//>`],
      ['Verdict', verdict ? html`<${Link} to=${`/verdicts/${verdict.id}`}><${Badge} tone="plain">${verdict.rating}<//> ${plain(verdict.confidence)}<//>` : null],
      ['When', decision.at ? html`<${Time} at=${decision.at} />` : undefined],
    ]} />
    ${decision.thread_id && html`<p><${TurnLink} thread=${decision.thread_id} turn=${decision.codex_turn_id}>The trader's whole turn<//></p>`}
    ${decision.reasoning && html`<details><summary>The decision's reasoning</summary><p class="prose"><${Text}>${decision.reasoning}<//></p></details>`}
    ${verdict?.summary && html`<details><summary>The verdict's summary</summary><p class="prose"><${Text}>${verdict.summary}<//></p></details>`}
  </div>`;
}

const REPORTS = [
  { id: 'role', label: 'Role', cell: (row) => html`<${Link} to=${`/reports/${row.id}`}><${Text}>${row.role}<//><//>`, sort: (row) => row.role },
  { id: 'verdict', label: 'Verdict', cell: (row) => html`<${Badge}>${row.verdict ?? row.status}<//>`, sort: (row) => row.verdict },
  { id: 'confidence', label: 'Confidence', cell: (row) => row.confidence ?? '\u2014' },
  { id: 'saw', label: 'What it saw', cell: (row) => html`<${TurnLink} thread=${row.thread_id} turn=${row.codex_turn_id}>${row.calls.length} tool ${row.calls.length === 1 ? 'answer' : 'answers'}<//>` },
  { id: 'tools', label: 'Tools', wide: true, cell: (row) => html`<${Text} most=${60} className="quiet">${[...new Set(row.calls.map((one) => one.tool))].join(', ')}<//>` },
  { id: 'summary', label: 'Summary', wide: true, cell: (row) => html`<${Text} most=${140}>${row.summary || row.reason}<//>` },
  { id: 'tokens', label: 'Tokens', num: true, wide: true, cell: (row) => compact(row.tokens), sort: (row) => row.tokens },
];
const Reports = ({ rows }) => html`<${Table} label="Reports" columns=${REPORTS} rows=${rows} rowKey=${(row) => row.id} empty=${html`<${Empty} title="It rests on no report" />`} />`;

const HITS = [
  { id: 'lens', label: 'Lens', cell: (row) => html`<${Text}>${row.lens}<//>` },
  { id: 'confidence', label: 'Confidence', cell: (row) => plain(row.confidence) },
  { id: 'thesis', label: 'Thesis', cell: (row) => html`<${Text} most=${160}>${row.thesis}<//>` },
  { id: 'turn', label: 'Turn', cell: (row) => html`<${TurnLink} thread=${row.thread_id} turn=${row.codex_turn_id} />` },
];
const Hits = ({ rows }) => html`<${Table} label="Screen hits" columns=${HITS} rows=${rows} rowKey=${(row) => row.id} empty=${html`<${Empty} title="No screen put it forward" />`} />`;

const FORECASTS = [
  { id: 'voice', label: 'Voice', cell: (row) => html`<${Text}>${row.voice}<//>` },
  { id: 'round', label: 'Round', num: true, cell: (row) => row.round },
  { id: 'yes', label: 'Yes', num: true, cell: (row) => figure(row.probability, 2) },
  { id: 'market', label: 'Baseline', num: true, cell: (row) => figure(row.baseline, 2) },
  { id: 'because', label: 'Because', wide: true, cell: (row) => html`<${Text} most=${140}>${row.because}<//>` },
];
const Forecasts = ({ rows }) => html`<${Table} label="Forecasts" columns=${FORECASTS} rows=${rows} rowKey=${(row) => row.id} />`;

const Terms = ({ order }) => html`<${Facts} rows=${[
  ['Id', html`<code>${plain(order.id)}</code>`],
  ['Run', html`<${RunLink} id=${order.run_id} />`],
  ['Account', html`<${Text}>${order.account}<//>`],
  ['Action', `${plain(order.action)}${order.side ? `, ${plain(order.side)}` : ''}`],
  ['Quantity', html`<span class="num">${quantity(order.quantity)}</span>`],
  ['Type', html`<span class="num">${priceTerms(order)}</span>`],
  ['In force', plain(order.time_in_force)],
  ['Market time', html`<${Time} at=${order.market_at} />`],
  ['Made', html`<${Time} at=${order.created_at} />`],
  ['Sent', order.sent_at ? html`<${Time} at=${order.sent_at} />` : 'not sent'],
  ['At the broker', order.broker_order_id ? html`<code><${Text}>${order.broker_order_id}<//></code>` : undefined],
  ['Protects', order.protects && order.protects !== order.id ? html`<${OrderLink} id=${order.protects} />` : undefined],
  ['Message', order.message ? html`<${Text}>${order.message}<//>` : undefined],
]} />`;

function Preview({ preview, checks }) {
  return html`<div class="stack"><${Facts} rows=${[
      ['Price', html`<span class="num">${money(preview.price)}</span>`],
      ['Of', html`<${Time} at=${preview.priced_at} />`],
      ['Money', html`<span class="num">${money(preview.notional)}</span>`],
      ['Made', html`<${Time} at=${preview.created_at} />`],
    ]} />
    <p class="hash"><span class="quiet">SHA-256 of the canonical text</span> <code>${plain(preview.payload_hash)}</code></p>
    <${Changes} from=${checks} />
    <details><summary>The canonical text</summary><${Block} label="Canonical text">${readable(preview.payload)}<//></details></div>`;
}

function readable(payload) {
  try {
    return plain(JSON.stringify(JSON.parse(payload), null, 1));
  } catch {
    return plain(payload);
  }
}

const Answer = ({ approval }) => html`<${Facts} rows=${[
  ['State', html`<${Badge} tone=${{ approved: 'good', denied: 'bad', expired: 'warn', pending: 'warn' }[approval.state]}>${approval.state}<//>`],
  ['By', approval.decided_by ? html`<${Text}>${approval.decided_by}<//>` : null],
  ['When', approval.decided_at ? html`<${Time} at=${approval.decided_at} />` : null],
  ['Why', approval.why ? html`<${Text}>${approval.why}<//>` : null],
  ['Asked', html`<${Time} at=${approval.asked_at} />`],
  ['Bound to', html`<code title=${plain(approval.payload_hash)}>${shortId(approval.payload_hash)}</code>`],
]} />`;

const FILLS = [
  { id: 'at', label: 'At', cell: (row) => html`<${Time} at=${row.filled_at} />` },
  { id: 'side', label: 'Side', cell: (row) => plain(row.side) },
  { id: 'symbol', label: 'What', cell: (row) => html`<span class="symbol">${plain(row.symbol)}</span>` },
  { id: 'quantity', label: 'Quantity', num: true, cell: (row) => quantity(row.quantity) },
  { id: 'price', label: 'Price', num: true, cell: (row) => money(row.price) },
  { id: 'commission', label: 'Commission', num: true, wide: true, cell: (row) => money(row.commission) },
];
const PROTECTION = [
  { id: 'order', label: 'Order', cell: (row) => html`<${OrderLink} id=${row.id} />` },
  { id: 'quantity', label: 'Quantity', num: true, cell: (row) => quantity(row.quantity) },
  { id: 'terms', label: 'Price', num: true, cell: (row) => priceTerms(row) },
  { id: 'state', label: 'State', cell: (row) => html`<${OrderState} state=${row.state} />` },
];

function AuditLog({ path, state }) {
  const log = useResource(({ signal }) => get(path, { log: true }, { signal }), [path, state]);
  return html`<${Loaded} from=${log} what="the audit log" isEmpty=${(found) => !found.log?.length} empty=${html`<${Empty} title="The audit log has no line on it">A preview leaves one; so does each later step.<//>`}>${({ log: lines }) => html`<${Table} label="Audit log" columns=${LOG} rows=${lines} rowKey=${(row) => `${row.at}${row.n}`} />`}<//>`;
}
const LOG = [
  { id: 'n', label: 'Line', num: true, cell: (row) => row.n },
  { id: 'at', label: 'At', cell: (row) => html`<${Time} at=${row.at} />` },
  { id: 'kind', label: 'What', cell: (row) => plain(row.kind).replaceAll('_', ' ') },
  { id: 'facts', label: 'Facts', cell: (row) => html`<${Text} most=${200} className="quiet">${Object.entries(row.facts).filter(([name]) => !['order', 'payload'].includes(name)).map(([name, value]) => `${name} ${typeof value === 'object' ? JSON.stringify(value) : value}`).join(', ')}<//>` },
];
