// Threads of the roles: the current ones, the last used first, then those of the past.

import {
  Ago, badgeOf, between, Block, codeOf, column, compact, count, date, Empty, Facts, Field, Filters, Form, get, go,
  hashOf, href, html, idOf, inPlace, joined, laidOut, LiveBadge, Loaded, Loading, money, number, numOf, Panel, part,
  pastOf, Picture, place, plain, post, ProblemBox, quietOf, runOf, seconds, setQuery, shortId, span, symbolOf,
  TablePanel, Text, textOf, threadOf, timeOf, upTo, useAction, useDraft, useEffect, useFollowed, useGet, useKeys,
  useList, useResource, useState, words,
} from '../lib/view.js';
import { RequestDetail } from '../lib/orders.js';

const FILTERS = [['role', 'Role'], ['subject', 'Subject', 'symbol']];

export function Threads({ query }) {
  const threads = useList('/threads', { role: query.role },
    { every: 20_000, as: (rows) => rows.map(joined('thread')) });
  return html`<div class="view"><h1>Threads</h1><${TablePanel} title="Kept threads" ...${threads} columns=${COLUMNS}
    tools=${html`<${Filters} query=${query} of=${FILTERS} />`} rowKey="thread_id" empty="No thread is kept"
    hint="A role's thread is kept from its first turn on; other conversations are reached from their run."
    fits=${(row) => !query.subject || row.subject.toUpperCase().includes(query.subject)} /></div>`;
}

const standingBadge = ({ busy, current }) =>
  (busy ? badgeOf('in use', 'busy') : current ? badgeOf('current', 'good') : badgeOf('past', 'plain'));
const COLUMNS = [
  column('Role'),
  ['Subject', (row) => subjectOf(row.subject), '', (row) => row.subject.split('/').at(-1)],
  ['State', standingBadge, '', (row) => [row.busy, row.current].join()],
  number('Turns', count), column('Begun as', words, 'reason', 'wide'),
  ['Fork of', (row) => (row.parent_id ? threadOf(row.parent_id) : ''), 'wide'],
  column('Model', upTo(30), 'model', 'wide'), column('Worker', upTo(28, 'quiet'), 'owner', 'wide'),
  ['Used', (row) => html`<${Ago} at=${row.updated_at ?? row.created_at} />`, '',
    (row) => date(row.updated_at ?? row.created_at)],
  column('Thread', threadOf, 'thread_id'),
];

// A thread: its turns, and one of them whole, with what the model was asked, what tools answered and what it said.
export function Thread({ params, query }) {
  const path = `/threads/${part(params.thread)}`;
  const thread = useGet(path, {}, { every: 30_000, as: joined('thread') });
  const live = useFollowed(['turn', 'thread'], [thread], { ms: 400,
    of: (event) => event.thread_id === thread.data?.thread_id });
  return html`<div class="view"><${Loaded} from=${thread} what="the thread">${(found) => html`<${Whole} path=${path}
    found=${found} chosen=${query.turn} live=${live} again=${thread.reload} />`}<//></div>`;
}

function Whole({ path, found: thread, chosen, live, again }) {
  const { lines: turns, forks, missing } = thread;
  const at = Math.max(chosen ? turns.findIndex((one) => one.turn_id === chosen) : turns.length - 1, 0);
  const choose = (index) => turns[index] && setQuery({ turn: turns[index].turn_id });
  useKeys([['n', 'Next turn', () => choose(at + 1)], ['b', 'Turn before', () => choose(at - 1)]], 'This thread',
    [at, turns.length]);
  const turn = turns[at];
  return html`<h1><span>Thread</span> ${idOf(thread.thread_id)} ${textOf(thread.role)}
    ${' '}${subjectOf(thread.subject)} ${standingBadge(thread)} <${LiveBadge} live=${live} /></h1>
    ${chosen && turns.length > 0 && turns[at].turn_id !== chosen && html`<p class="notice warn" role="status">
      Turn <code>${shortId(chosen)}</code> is not among the turns of this thread: it was deleted with its run, or
      never ended.</p>`}
    ${missing && html`<p class="quiet">Prompts are not shown: ${textOf(missing)}</p>`}
    <div class="thread">
      <${Panel} title="Turns" className="turns"><${Turns} rows=${turns} at=${at} />
        <${Facts} rows=${[
          ['Model', textOf(thread.model)],
          ['Begun', html`${timeOf(thread.created_at)} ${words(thread.reason)}`],
          ['Fork of', thread.parent_id ? threadOf(thread.parent_id) : undefined],
          ['Forks', forks.length ? forks.map((id) => html`${threadOf(id)} `) : undefined],
          ['Worker', thread.owner || thread.worker ? codeOf(thread.owner ?? thread.worker) : undefined],
        ]} /><//>
      <div class="stack">${turn ? html`<${WholeTurn} key=${turn.turn_id} path=${path} at=${at} line=${turn} />`
        : html`<${Panel} title="Turn"><${Empty} title="It has no turn" /><//>`}
        <${Forking} path=${path} turns=${turns.length} at=${at} kept=${!missing} />
        ${thread.parent_id && html`<${Asking} path=${path} thread=${thread.thread_id} again=${again} />`}</div>
    </div>`;
}

function Turns({ rows, at }) {
  if (!rows.length) return html`<${Empty} title="No turn yet" />`;
  return html`<ol class="turnlist">${rows.map((row, index) => html`
    <li key=${row.turn_id} data-row class=${index === at ? 'on' : ''}>
    <a href=${href(place.value.path, { turn: row.turn_id })} aria-current=${index === at ? 'true' : undefined}
      onClick=${inPlace(() => setQuery({ turn: row.turn_id }))}>
      <span class="line"><strong class="num">${row.ordinal}</strong> ${textOf(row.answer ?? row.prompt, 90)}</span>
      <span class="row">${badgeOf(row.outcome)} <span class="quiet num">
        ${seconds(row.seconds)}, ${compact(row.tokens)} tokens</span></span></a>
    <span class="quiet">${row.run_id ? html`run ${runOf(row.run_id)}` : 'outside any run'}${row.started_at
      && html`, ${timeOf(row.started_at)}`}</span></li>`)}</ol>`;
}

// A turn by its id: where its thread is known, the thread at that turn.
export const TurnView = ({ params }) => html`<div class="view">
  <${Loaded} from=${useGet(`/turns/${part(params.turn)}`)} what="the turn">${(detail) =>
    html`<${TurnOrThread} ...${detail} />`}<//></div>`;

function TurnOrThread({ turn, tool_calls: calls }) {
  const known = turn.thread_id && turn.codex_turn_id;
  useEffect(() => {
    if (known) location.replace(href(`/threads/${turn.thread_id}`, { turn: turn.codex_turn_id }));
  }, []);
  if (known) return html`<${Loading} what="its thread" />`;
  const whole = { ...turn, turn_id: turn.id, row: turn, running: false, tokens: turn.total_tokens, prompt: null,
    seconds: between(turn.started_at, turn.finished_at) / 1000, answer: turn.text, items: [], approvals: [], calls };
  return html`<h1>Turn of ${plain(turn.role)} ${idOf(turn.id)}</h1>
    <div class="stack"><${Panel} title="Thread"><p class="quiet">It ran on no thread that is known.</p><//>
    <${Turn} turn=${whole} /></div>`;
}

const LONG = 3_000; // characters above which an answer is shown folded

/** path: of the thread. at: index of the turn. line: it as the thread lists it, whose change loads it again. */
function WholeTurn({ path, at, line }) {
  const turn = useResource(async ({ signal }) => (await get(`${path}/turns`, { limit: 1, offset: at }, { signal }))
    .turns[0] ?? null, [path, at, line.outcome, line.tokens]);
  return html`<${Loaded} from=${turn} what="the turn" isEmpty=${(found) => found === null} empty="This turn is gone">
    ${(found) => html`<${Turn} turn=${found} />`}<//>`;
}

function Turn({ turn }) {
  const row = turn.row ?? {};
  return html`<${Panel} title=${`Turn ${turn.ordinal}`} tools=${badgeOf(turn.running ? 'running' : turn.outcome)}>
    <${Facts} rows=${[
      ['Role', textOf(turn.role)],
      ['Subject', row.subject ? subjectOf(row.subject) : undefined],
      ['Run', turn.run_id ? runOf(turn.run_id) : 'none'],
      ['Began', timeOf(turn.started_at)],
      ['Took', numOf(seconds(turn.seconds))],
      ['Tokens', html`${numOf(count(turn.tokens))} ${turn.row && html`<span class="quiet small">
        ${[[row.input_tokens, 'in'], [row.cached_input_tokens, 'of them cached'], [row.output_tokens, 'out'],
          [row.reasoning_tokens, 'reasoning']].map(([tokens, what]) => `${compact(tokens)} ${what}`).join(', ')}
        </span>`}`],
      ['Cost', (row.cost_usd ?? null) === null ? undefined : numOf(money(row.cost_usd, 4))],
      ['Model', row.model ? textOf(row.model) : undefined],
      ['Attempt', row.attempt],
      ['Turn id', hashOf(turn.turn_id)],
    ]} /><//>
    <${Panel} title="Prompt">${turn.prompt ? html`<${Long} text=${turn.prompt} label="Prompt" />`
      : html`<${Empty} title="It was not kept">Prompts are in the copies of kept threads.<//>`}<//>
    <${Panel} title="Tool calls" tools=${quietOf(numOf(turn.calls.length))}>
      ${turn.calls.length ? turn.calls.map((call) => html`<${Call} key=${call.id} call=${call} />`)
        : html`<${Empty} title=${turn.running ? 'They are shown when the turn has ended' : 'It called no tool'} />`}<//>
    ${turn.approvals.length > 0 && html`<${Panel} title="Requests to people">
      ${turn.approvals.map((one) => html`<${Request} key=${one.id} request=${one} />`)}<//>`}
    <${Panel} title="Answer">${turn.answer ? html`<${Long} text=${turn.answer} label="Answer" open />`
      : html`<${Empty} title=${turn.running ? 'Not yet' : 'There is none'} />`}<//>
    <${Pictures} turn=${turn} />
    ${turn.items.length > 0 && html`<${TablePanel} title="Items" columns=${ITEMS} rows=${turn.items}
      rowKey="item_id" />`}`;
}

function Long({ text, label, open = false }) {
  const shown = html`<${Block} label=${label}>${laidOut(text)}<//>`;
  return open || text.length < LONG ? shown
    : html`<details><summary>${label}, ${numOf(count(text.length))} characters</summary>${shown}</details>`;
}

function Call({ call }) {
  const tool = plain(call.tool);
  return html`<details class="call" open=${call.output.length < LONG}>
    <summary><span class="num quiet">${call.ordinal}</span> <code>${tool}</code>
      ${!call.success ? badgeOf('failed') : call.has_data ? badgeOf('data', 'good') : badgeOf('no data', 'warn')}
      ${' '}<span class="num quiet">${seconds(call.seconds)}</span>
      <${Text} most=${100} className="quiet">${JSON.stringify(call.arguments)}<//></summary>
    <div class="pair"><div><h3>Arguments</h3><${Block} label=${`Arguments of ${tool}`}>
      ${plain(JSON.stringify(call.arguments, null, 1))}<//></div>
      <div><h3>Answer</h3><${Block} label=${`Answer of ${tool}`}>${laidOut(call.output)}<//></div></div></details>`;
}

const Request = ({ request }) => html`<div>
  <p>${badgeOf(request.state)} ${words(request.kind)}, asked ${timeOf(request.asked_at)}${request.decided_by
    && html`, answered by ${textOf(request.decided_by)}`}${request.why && html`: ${textOf(request.why)}`}</p>
  <${RequestDetail} kind=${request.kind} detail=${request.detail} />
  ${(request.detail.questions ?? []).map((one) => html`<p class="quiet">${textOf(one.question)}</p>`)}</div>`;

const ITEMS = [
  column('Type'), column('Status', badgeOf),
  ['Began', (row) => timeOf(row.started_at, 'time')],
  ['Took', (row) => span(row.ended_at ? between(row.started_at, row.ended_at) : null), 'num'],
  column('Item', hashOf, 'item_id', 'wide'),
];

function Pictures({ turn }) {
  const drawn = turn.calls.some((call) => /chart|picture|image/.test(call.tool));
  const run = useResource(({ signal }) => (drawn && turn.run_id ? get(`/runs/${turn.run_id}`, {}, { signal })
    : Promise.resolve(null)), [turn.row?.id]);
  const rows = run.data?.artifacts.filter((one) => one.turn_id === turn.row?.id) ?? [];
  const each = [...new Map(rows.map((row) => [row.digest, row])).values()];
  return each.length > 0 && html`<${Panel} title="Pictures that it was given"><div class="pictures">
    ${each.map(({ id, digest, tool, role, subject }) => html`<${Picture} key=${id} digest=${digest}
      caption=${[`${tool} for ${role}`, subject].filter(Boolean).map(plain).join(', ')} />`)}</div><//>`;
}

/** A person's own question to a role: a fork of its thread, which stays as it is. turns: how many the thread has. at:
 * index of the one that is shown. kept: whether its rollout is there to copy. */
function Forking({ path, turns, at, kept }) {
  const [before, setBefore] = useState(null);
  const [model, setModel, forgetModel] = useDraft(`fork-model:${path}`);
  const shown = before ?? at + 2;
  const act = useAction(async (key) => {
    const made = await post(`${path}/fork`, { before_turn: shown, ...(model.trim() ? { model: model.trim() } : {}) },
      { key });
    forgetModel();
    go(`/threads/${made.thread_id}`);
  });
  return html`<${Panel} title="Fork"><${Form} className="filters" run=${act.run}>
      <${Field} label="Copy the turns before number" type="number" min="2" max=${turns + 1} value=${shown}
        onText=${(text) => setBefore(Number(text))} />
      <${Field} label="Model (its own, if empty)" maxlength="100" value=${model} onText=${setModel}
        autocomplete="off" />
      <button type="submit" disabled=${!kept || act.busy}>${act.busy ? 'forking …' : 'Fork'}</button>
      ${quietOf(kept ? `${turns + 1} copies all ${turns}. Then ask in the fork: it makes no report, decision or order.`
        : 'A thread of one conversation is not kept, so there is nothing to copy.')}<//>
    <${ProblemBox} problem=${act.problem} /><//>`;
}

function Asking({ path, thread, again }) {
  const [text, setText, forget] = useDraft(`ask:${thread}`);
  const act = useAction(async (key) => {
    const answer = await post(`${path}/ask`, { text }, { key });
    forget();
    again();
    return answer;
  });
  return html`<${Panel} title="Ask in this fork"><${Form} run=${() => text.trim() && act.run()}>
      <${Field} of="textarea" label="Question" className="full" maxlength="20000" value=${text} onText=${setText} />
      <div class="buttons"><button type="submit" class="primary" disabled=${!text.trim() || act.busy}>
        ${act.busy ? 'the model answers …' : 'Ask'}</button></div><//>
    <${ProblemBox} problem=${act.problem} />
    ${act.answer && html`<div role="status">
      <h3>Answer${act.answer.tokens !== null && `, ${count(act.answer.tokens)} tokens`}</h3><${Block} label="Answer">
      ${act.answer.refusal ? `It declined: ${laidOut(act.answer.refusal)}` : laidOut(act.answer.text)}<//></div>`}<//>`;
}

// The subject of a thread: a path of the desk's own, whose last part may be a symbol.
const SYMBOL = /^(?:[A-Z]|\d+\.)[A-Z0-9.&-]{0,19}$/;

function subjectOf(subject) {
  const [, before, last] = /^(?:(.*)\/)?(.*)$/s.exec(subject);
  return html`<span title=${subject}>${SYMBOL.test(last) ? symbolOf(last) : textOf(last)} ${pastOf(before)} ${before
    && html`<${Text} className="quiet small wide" most=${60}>${before}<//>`}</span>`;
}
