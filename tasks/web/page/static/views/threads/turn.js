// One turn whole: prompt, tool calls with arguments and answers, requests to people, items, answer and tokens.

import { get } from '../../lib/api.js';
import { html } from '../../lib/html.js';
import { compact, count, money, span } from '../../lib/format.js';
import { useResource } from '../../lib/store.js';
import { Badge, Block, Empty, Facts, Loaded, Panel, RunLink, Table, Text, Time } from '../../lib/ui.js';
import { plain, shortId } from '../../lib/text.js';
import { Picture } from '../board/pictures.js';
import { RequestDetail } from '../orders/answering.js';
import { Subject } from './subject.js';

const LONG = 3_000; // characters above which an answer is shown folded

/** path: of the thread. at: index of the turn. line: it as the thread lists it, whose change loads it again. */
export function WholeTurn({ path, at, line }) {
  const turn = useResource(async ({ signal }) => (await get(`${path}/turns`, { limit: 1, offset: at }, { signal })).turns[0] ?? null, [path, at, line.outcome, line.tokens]);
  return html`<${Loaded} from=${turn} what="the turn" isEmpty=${(found) => found === null} empty=${html`<${Empty} title="This turn is gone" />`}>${(found) => html`<${Turn} turn=${found} />`}<//>`;
}

export function Turn({ turn }) {
  const { tokens } = turn;
  return html`<${Panel} title=${`Turn ${turn.ordinal}`} tools=${html`<${Badge}>${turn.running ? 'running' : turn.outcome}<//>`}><${Facts} rows=${[
      ['Role', html`<${Text}>${turn.role}<//>`],
      ['Subject', turn.subject ? html`<${Subject} subject=${turn.subject} />` : undefined],
      ['Run', turn.run_id ? html`<${RunLink} id=${turn.run_id} />` : 'none'],
      ['Began', html`<${Time} at=${turn.started_at} />`],
      ['Took', html`<span class="num">${span(turn.seconds === null ? null : turn.seconds * 1000)}</span>`],
      ['Tokens', html`<span class="num">${count(turn.total_tokens)}</span>${tokens && html` <span class="quiet small">${compact(tokens.input_tokens)} in, ${compact(tokens.cached_input_tokens)} of them cached, ${compact(tokens.output_tokens)} out, ${compact(tokens.reasoning_tokens)} reasoning</span>`}`],
      ['Cost', turn.cost_usd === null ? undefined : html`<span class="num">${money(turn.cost_usd, 4)}</span>`],
      ['Model', turn.model ? html`<${Text}>${turn.model}<//>` : undefined],
      ['Attempt', turn.attempt ?? undefined],
      ['Turn id', html`<code title=${plain(turn.turn_id)}>${shortId(turn.turn_id)}</code>`],
    ]} /><//>
    <${Panel} title="Prompt">${turn.prompt ? html`<${Long} text=${turn.prompt} label="Prompt" />` : html`<${Empty} title="It was not kept">Prompts are in the copies of kept threads.<//>`}<//>
    <${Panel} title="Tool calls" tools=${html`<span class="quiet num">${turn.calls.length}</span>`}>${turn.calls.length ? turn.calls.map((call) => html`<${Call} key=${call.id} call=${call} />`) : html`<${Empty} title=${turn.running ? 'They are shown when the turn has ended' : 'It called no tool'} />`}<//>
    ${turn.approvals.length > 0 && html`<${Panel} title="Requests to people">${turn.approvals.map((one) => html`<${Request} key=${one.id} request=${one} />`)}<//>`}
    <${Panel} title="Answer">${turn.answer ? html`<${Long} text=${turn.answer} label="Answer" open />` : html`<${Empty} title=${turn.running ? 'Not yet' : 'There is none'} />`}<//>
    <${Pictures} turn=${turn} />
    ${turn.items.length > 0 && html`<${Panel} title="Items"><${Table} label="Items" columns=${ITEMS} rows=${turn.items} rowKey=${(row) => row.item_id} /><//>`}`;
}

/** JSON is shown as such, laid out; any other text as it is. */
export function laidOut(text) {
  const found = plain(text);
  if (!/^\s*[[{]/.test(found)) return found;
  try {
    return plain(JSON.stringify(JSON.parse(text), null, 1));
  } catch {
    return found;
  }
}

function Long({ text, label, open = false }) {
  const shown = html`<${Block} label=${label}>${laidOut(text)}<//>`;
  return open || text.length < LONG ? shown : html`<details><summary>${label}, <span class="num">${count(text.length)}</span> characters</summary>${shown}</details>`;
}

function Call({ call }) {
  const failed = !call.success;
  return html`<details class="call" open=${call.output.length < LONG}><summary><span class="num quiet">${call.ordinal}</span> <code>${plain(call.tool)}</code>
      <${Badge} tone=${failed ? 'bad' : call.has_data ? 'good' : 'warn'}>${failed ? 'failed' : call.has_data ? 'data' : 'no data'}<//> <span class="num quiet">${span(call.seconds * 1000)}</span>
      <${Text} most=${100} className="quiet">${JSON.stringify(call.arguments)}<//></summary>
    <div class="pair"><div><h3>Arguments</h3><${Block} label=${`Arguments of ${plain(call.tool)}`}>${plain(JSON.stringify(call.arguments, null, 1))}<//></div>
      <div><h3>Answer</h3><${Block} label=${`Answer of ${plain(call.tool)}`}>${laidOut(call.output)}<//></div></div></details>`;
}

const Request = ({ request }) => html`<div><p><${Badge} tone=${{ approved: 'good', denied: 'bad', pending: 'warn', expired: 'warn' }[request.state]}>${request.state}<//> ${plain(request.kind).replaceAll('_', ' ')}, asked <${Time} at=${request.asked_at} />${request.decided_by && html`, answered by <${Text}>${request.decided_by}<//>`}${request.why && html`: <${Text}>${request.why}<//>`}</p>
  <${RequestDetail} kind=${request.kind} detail=${request.detail} />
  ${(request.detail.questions ?? []).map((one) => html`<p class="quiet"><${Text}>${one.question}<//></p>`)}</div>`;

const ITEMS = [
  { id: 'type', label: 'Type', cell: (row) => plain(row.type) },
  { id: 'status', label: 'Status', cell: (row) => html`<${Badge}>${row.status}<//>` },
  { id: 'at', label: 'Began', cell: (row) => html`<${Time} at=${row.started_at} parts="time" />` },
  { id: 'took', label: 'Took', num: true, cell: (row) => span(row.ended_at ? new Date(row.ended_at) - new Date(row.started_at) : null) },
  { id: 'id', label: 'Item', wide: true, cell: (row) => html`<code title=${plain(row.item_id)}>${shortId(row.item_id)}</code>` },
];

function Pictures({ turn }) {
  const drawn = turn.calls.some((call) => /chart|picture|image/.test(call.tool));
  const run = useResource(({ signal }) => (drawn && turn.run_id ? get(`/runs/${turn.run_id}`, {}, { signal }) : Promise.resolve(null)), [turn.row_id]);
  const rows = run.data?.artifacts.filter((one) => one.turn_id === turn.row_id) ?? [];
  return rows.length > 0 && html`<${Panel} title="Pictures that it was given"><div class="pictures">${rows.map((row) => html`<${Picture} key=${row.id} row=${row} />`)}</div><//>`;
}
