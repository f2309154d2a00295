// An order in words: its instrument, its terms and its state.

import {
  Ago, Badge, badgeOf, Block, Facts, figure, FormDialog, html, Link, Loaded, MISSING, money, numOf, orderOf, Panel,
  part, plain, post, runOf, shortId, textOf, ThreadLink, timeOf, useAction, useDraft, useGet, useState,
} from './view.js';

const TONES = {
  approval_pending: 'warn', approved: 'busy', submitting: 'busy', submitted: 'busy', partially_filled: 'busy',
  unknown: 'bad', filled: 'good', denied: 'bad', rejected: 'bad', cancelled: 'warn', expired: 'warn',
};
const NAMES = { approval_pending: 'waits for a person', unknown: 'outcome not known' };

export const STATES = [
  'drafted', 'denied', 'previewed', 'approval_pending', 'approved', 'submitting', 'unknown', 'submitted',
  'partially_filled', 'filled', 'cancelled', 'rejected', 'expired',
];
export const stateName = (state) => NAMES[state] ?? plain(state).replaceAll('_', ' ');
export const stateTone = (state) => TONES[state] ?? 'plain';
export const OrderState = ({ state }) => html`<${Badge} tone=${stateTone(state)}>${stateName(state)}<//>`;

/** What an order trades: its contract, the legs together, or the symbol itself. */
export function instrument(order) {
  if (order.legs?.length) return order.legs.map((leg) => `${leg.side === 'buy' ? '+' : '-'}${leg.ratio ?? 1} ${plain(leg.contract)}`).join(' ');
  return plain(order.contract ?? order.symbol);
}

export const unit = (order) => (order.legs?.length ? 'units' : order.contract ? 'contracts' : 'shares');

/** A quantity as the order has it: whole ones without decimals. */
export const quantity = (value) => (value === null || value === undefined ? MISSING : Number.isInteger(Number(value)) ? figure(value, 0) : figure(value, 4));

/** The price terms: "limit $24.10", "stop $20.00 limit $19.90", "market". */
export function priceTerms(order) {
  const parts = [plain(order.order_type ?? 'market').replaceAll('_', ' ')];
  if (order.stop_price !== null && order.stop_price !== undefined) parts.push(`stop ${money(order.stop_price)}`);
  if (order.trail_percent !== null && order.trail_percent !== undefined) parts.push(`trails by ${figure(order.trail_percent, 2)}\u202f%`);
  if (order.limit_price !== null && order.limit_price !== undefined) parts.push(`at ${money(order.limit_price)}`);
  return parts.join(' ');
}

/** The name of a variable, with places where a narrow column may break it. */
export const breakable = (name) => plain(name).split('_').flatMap((one, n) => (n ? [html`<wbr />`, `_${one}`] : [one]));

// Links to what a model did.
/** A link to a turn of a thread. turn: the runtime's id of it; without one, to the thread. */
export const TurnLink = ({ thread, turn, children }) => (thread
  ? html`<${Link} to=${`/threads/${part(thread)}`} query=${{ turn }} className=${children ? '' : 'id'} title=${thread}>
  ${children ?? shortId(thread)}<//>` : MISSING);

// A person's answer to what waits: approve or deny, with a reason. What was typed stays until the desk has taken it.
/** The two buttons for something that waits, of GET /approvals. done: called with the answer's result. */
export function Answering({ item, done }) {
  const [asking, setAsking] = useState(null);
  return html`<span class="row">
    <button type="button" class="primary" onClick=${() => setAsking('approve')}>Approve…</button>
    <button type="button" onClick=${() => setAsking('deny')}>Deny…</button></span>
    ${asking && html`<${AnswerDialog} item=${item} answer=${asking} done=${done} onClose=${() => setAsking(null)} />`}`;
}

function AnswerDialog({ item, answer, done, onClose }) {
  const [why, setWhy, forgetWhy] = useDraft(`answer:${item.approval.id}:${answer}`);
  const [given, setGiven, forgetGiven] = useDraft(`answers:${item.approval.id}`, '{}');
  const answers = JSON.parse(given);
  const standing = useGet('/');
  const questions = (answer === 'approve' && item.approval.detail?.questions) || [];
  const act = useAction(async (key) => {
    const more = questions.length ? { answers: Object.fromEntries(questions.map((one) => [one.id, [answers[one.id] ?? '']])) } : {};
    const result = await post(`/approvals/${item.approval.id}`, { answer, ...(why.trim() ? { why: why.trim() } : {}), ...more }, { key });
    forgetWhy();
    forgetGiven();
    done(result);
  });
  const complete = questions.every((one) => answers[one.id]?.trim()) && (answer === 'approve' || why.trim());
  const title = `${answer === 'approve' ? 'Approve' : 'Deny'} ${item.kind === 'order' ? `the order ${shortId(item.order.id)}` : `the request of ${plain(item.approval.role)}`}`;
  const danger = answer === 'approve' && standing.data?.standing?.real_money;
  return html`<${FormDialog} title=${title} act=${act} action=${answer === 'approve' ? 'Approve' : 'Deny'} ready=${complete} danger=${danger} onClose=${onClose}>
    ${item.kind === 'order' ? html`<${OrderAsked} item=${item} standing=${standing} approve=${answer === 'approve'} />` : html`<${RequestAsked} item=${item} />`}
    ${questions.map((one) => html`<${Question} key=${one.id} question=${one} value=${answers[one.id] ?? ''} set=${(text) => setGiven(JSON.stringify({ ...answers, [one.id]: text }))} />`)}
    <label>${answer === 'deny' ? 'Reason, for the record' : 'Reason, for the record (may be left out)'}
      <textarea maxlength="500" value=${why} required=${answer === 'deny'} onInput=${(event) => setWhy(oneLine(event.target.value))} /></label><//>`;
}

// The desk keeps reasons as single lines.
const oneLine = (text) => text.replace(/\s*\n\s*/g, ' ');

function OrderAsked({ item: { order, approval }, standing, approve }) {
  return html`${approve && html`<${MoneyNotice} standing=${standing} />`}
    <${Facts} rows=${[
      ['Account', html`<strong>${textOf(order.account)}</strong>`],
      ['Side', html`<strong>${plain(order.side ?? order.action)}</strong>`],
      ['Quantity', html`<strong class="num">${quantity(order.quantity)} ${unit(order)}</strong>`],
      ['Of', html`<strong class="symbol">${instrument(order)}</strong>`],
      ['Price', html`<span class="num">${priceTerms(order)}, ${plain(order.time_in_force)}</span>`],
      ['Money', html`<strong class="num">${money(approval.notional)}</strong>`],
      ['Preview', html`<code title=${plain(approval.payload_hash)}>${shortId(approval.payload_hash)}</code>`],
      ['Answer by', timeOf(approval.expires_at)],
    ]} />`;
}

/** Whether this moves real money, in text and not by colour alone. */
export function MoneyNotice({ standing }) {
  const found = standing.data?.standing;
  if (!found) return html`<p class="notice warn" role="status">
    ${standing.problem ? 'Whether this moves real money is not known: the desk did not answer.'
    : 'Asking whether this moves real money …'}</p>`;
  if (found.real_money) return html`<p class="notice bad" role="alert"><strong>REAL MONEY.</strong> This goes to the broker ${textOf(found.broker)} and moves real money.</p>`;
  if (found.live) return html`<p class="notice"><${Badge} tone="warn">live, play money<//> It goes to the broker ${textOf(found.broker)}.</p>`;
  return html`<p class="notice"><${Badge} tone="plain">preview<//> Live trading is off: nothing is sent to a broker.</p>`;
}

function RequestAsked({ item: { approval } }) {
  return html`<p><strong>${textOf(approval.role)}</strong> asks in the middle of a turn, which waits for the answer.</p>
    <${RequestDetail} kind=${approval.kind} detail=${approval.detail} />
    <p class="quiet">Answer by ${timeOf(approval.expires_at)}</p>`;
}

/** What a model asks for, whole: it is the model's own words. */
export function RequestDetail({ kind, detail }) {
  if (kind === 'command') return html`<${Block} label="Command">${plain(detail.command)}<//>
    <p class="quiet">in <code>${textOf(detail.cwd)}</code>${detail.reason && html`: ${textOf(detail.reason)}`}</p>`;
  if (kind === 'file_change') return html`${detail.changes?.map((one) => html`<p>
    ${badgeOf(one.change)} <code>${textOf(one.path)}</code></p>
    <${Block} label=${`Change of ${plain(one.path)}`}>${plain(one.diff)}<//>`)}`;
  if (kind === 'user_input') return null;
  return html`<${Block} label="What it asks">${plain(JSON.stringify(detail, null, 2))}<//>`;
}

function Question({ question, value, set }) {
  const listed = question.options?.length > 0;
  return html`<fieldset><legend>${textOf(question.question)}</legend>
    ${listed && question.options.map((option) => html`<label class="check">
      <input type="radio" name=${question.id} checked=${value === option} onChange=${() => set(option)} />
      ${textOf(option)}</label>`)}
    ${(!listed || question.other)
      && html`<label>${listed ? 'Another answer' : 'Answer'}
      <input type=${question.secret ? 'password' : 'text'} autocomplete="off" maxlength="2000" value=${listed
      && question.options.includes(value) ? '' : value} onInput=${(event) => set(event.target.value)} /></label>`}
  </fieldset>`;
}

// What waits for a person: orders as they were previewed, and what models ask for in the middle of a turn.
/** from: a resource of GET /approvals. done: called after an answer. */
export function Waiting({ from, done }) {
  const [result, setResult] = useState(null);
  const answered = (found) => {
    setResult(found);
    done();
  };
  return html`<${Panel} title="Waits for a person">
    ${result && html`<p role="status" class="notice"><${Badge} tone=${result.state === 'approved' ? 'good' : 'warn'}>${result.state}<//> ${after(result)}</p>`}
    <${Loaded} from=${from} what="what waits" empty="Nothing waits for you">${(rows) => html`<${Rows} rows=${rows} done=${answered} />`}<//><//>`;
}

const after = (result) => {
  const about = result.order ? html`order ${orderOf(result.order)}` : html`request <code>${shortId(result.approval)}</code>`;
  if (!result.order || result.state !== 'approved') return about;
  return html`${about}: ${result.notified ? 'it is checked once more and then sent' : 'the trade queue was not reached; it sends with its next check, within a minute'}`;
};

function Rows({ rows, done }) {
  return html`<ul class="waiting">${rows.map((item) => html`<li key=${item.approval.id} data-row>
    ${item.kind === 'order' ? html`<${WaitingOrder} item=${item} />` : html`<${WaitingRequest} item=${item} />`}
    <span class="quiet">asked <${Ago} at=${item.approval.asked_at} />, answer by ${timeOf(item.approval.expires_at, 'time')}</span>
    <${Answering} item=${item} done=${done} /></li>`)}</ul>`;
}

const WaitingOrder = ({ item: { order, approval } }) => html`<span class="what">
  ${orderOf(order.id)} <strong>${plain(order.side ?? order.action)} ${numOf(quantity(order.quantity))} <span
  class="symbol">${instrument(order)}</span></strong>
  <span>${unit(order)}, ${priceTerms(order)}</span> <strong class="num">${money(approval.notional)}</strong> <span class="quiet">account ${textOf(order.account)}</span></span>`;

const WaitingRequest = ({ item: { approval, what } }) => html`<span class="what">
  <${Badge} tone="warn">${approval.kind}<//> <strong>
  ${textOf(approval.role)}</strong> of run ${runOf(approval.run_id)}, thread <${ThreadLink} id=${approval.thread_id} />:
  ${approval.kind === 'command' || approval.kind === 'file_change' ? html`<${RequestDetail} kind=${approval.kind} detail=${approval.detail} />` : textOf(what)}</span>`;
