// A person's answer to what waits: approve or deny, with a reason. What was typed stays until the desk has taken it.

import { get, post } from '../../lib/api.js';
import { html, useState } from '../../lib/html.js';
import { money } from '../../lib/format.js';
import { useDraft, useResource } from '../../lib/store.js';
import { Badge, Block, Dialog, Facts, ProblemBox, Text, Time, useAction } from '../../lib/ui.js';
import { plain, shortId } from '../../lib/text.js';
import { instrument, priceTerms, quantity, unit } from './terms.js';

/** The two buttons for something that waits, of GET /approvals. done: called with the answer's result. */
export function Answering({ item, done }) {
  const [asking, setAsking] = useState(null);
  return html`<span class="row">
    <button type="button" class="primary" onClick=${() => setAsking('approve')}>Approve…</button>
    <button type="button" onClick=${() => setAsking('deny')}>Deny…</button></span>
    ${asking && html`<${AnswerDialog} item=${item} answer=${asking} done=${done} onClose=${() => setAsking(null)} />`}`;
}

function AnswerDialog({ item, answer, done, onClose }) {
  const [why, setWhy, forgetWhy] = useDraft(`answer:${item.approval}:${answer}`);
  const [given, setGiven, forgetGiven] = useDraft(`answers:${item.approval}`, '{}');
  const answers = JSON.parse(given);
  const standing = useResource(({ signal }) => get('/', {}, { signal }), []);
  const questions = (answer === 'approve' && item.detail?.questions) || [];
  const act = useAction(async (key) => {
    const more = questions.length ? { answers: Object.fromEntries(questions.map((one) => [one.id, [answers[one.id] ?? '']])) } : {};
    const result = await post(`/approvals/${item.approval}`, { answer, ...(why.trim() ? { why: why.trim() } : {}), ...more }, { key });
    forgetWhy();
    forgetGiven();
    done(result);
  });
  const complete = questions.every((one) => answers[one.id]?.trim()) && (answer === 'approve' || why.trim());
  const submit = async (event) => {
    event.preventDefault();
    if (complete && (await act.run())) onClose();
  };
  const title = `${answer === 'approve' ? 'Approve' : 'Deny'} ${item.kind === 'order' ? `the order ${shortId(item.order)}` : `the request of ${plain(item.role)}`}`;
  return html`<${Dialog} title=${title} onClose=${onClose}><form onSubmit=${submit}>
    ${item.kind === 'order' ? html`<${OrderAsked} item=${item} standing=${standing} approve=${answer === 'approve'} />` : html`<${RequestAsked} item=${item} />`}
    ${questions.map((one) => html`<${Question} key=${one.id} question=${one} value=${answers[one.id] ?? ''} set=${(text) => setGiven(JSON.stringify({ ...answers, [one.id]: text }))} />`)}
    <label>${answer === 'deny' ? 'Reason, for the record' : 'Reason, for the record (may be left out)'}
      <textarea maxlength="500" value=${why} required=${answer === 'deny'} onInput=${(event) => setWhy(oneLine(event.target.value))} /></label>
    <${ProblemBox} problem=${act.problem} />
    <div class="buttons"><button type="button" onClick=${onClose}>Cancel</button>
      <button type="submit" class=${answer === 'approve' && standing.data?.standing?.real_money ? 'danger' : 'primary'} disabled=${!complete || act.busy}>${act.busy ? '…' : answer === 'approve' ? 'Approve' : 'Deny'}</button></div>
  </form><//>`;
}

// The desk keeps reasons as single lines.
const oneLine = (text) => text.replace(/\s*\n\s*/g, ' ');

function OrderAsked({ item, standing, approve }) {
  return html`${approve && html`<${MoneyNotice} standing=${standing} />`}
    <${Facts} rows=${[
      ['Account', html`<strong><${Text}>${item.account}<//></strong>`],
      ['Side', html`<strong>${plain(item.side ?? item.action)}</strong>`],
      ['Quantity', html`<strong class="num">${quantity(item.quantity)} ${unit(item)}</strong>`],
      ['Of', html`<strong class="symbol">${instrument(item)}</strong>`],
      ['Price', html`<span class="num">${priceTerms(item)}, ${plain(item.time_in_force)}</span>`],
      ['Money', html`<strong class="num">${money(item.notional)}</strong>`],
      ['Preview', html`<code title=${plain(item.payload_hash)}>${shortId(item.payload_hash)}</code>`],
      ['Answer by', html`<${Time} at=${item.expires_at} />`],
    ]} />`;
}

/** Whether this moves real money, in text and not by colour alone. */
export function MoneyNotice({ standing }) {
  const found = standing.data?.standing;
  if (!found) return html`<p class="notice warn" role="status">${standing.problem ? 'Whether this moves real money is not known: the desk did not answer.' : 'Asking whether this moves real money …'}</p>`;
  if (found.real_money) return html`<p class="notice bad" role="alert"><strong>REAL MONEY.</strong> This goes to the broker <${Text}>${found.broker}<//> and moves real money.</p>`;
  if (found.live) return html`<p class="notice"><${Badge} tone="warn">live, play money<//> It goes to the broker <${Text}>${found.broker}<//>.</p>`;
  return html`<p class="notice"><${Badge} tone="plain">preview<//> Live trading is off: nothing is sent to a broker.</p>`;
}

function RequestAsked({ item }) {
  const { detail } = item;
  return html`<p><strong><${Text}>${item.role}<//></strong> asks in the middle of a turn, which waits for the answer.</p>
    <${RequestDetail} kind=${item.kind} detail=${detail} />
    <p class="quiet">Answer by <${Time} at=${item.expires_at} /></p>`;
}

/** What a model asks for, whole: it is the model's own words. */
export function RequestDetail({ kind, detail }) {
  if (kind === 'command') return html`<${Block} label="Command">${plain(detail.command)}<//><p class="quiet">in <code><${Text}>${detail.cwd}<//></code>${detail.reason && html`: <${Text}>${detail.reason}<//>`}</p>`;
  if (kind === 'file_change') return html`${detail.changes?.map((one) => html`<p><${Badge}>${one.change}<//> <code><${Text}>${one.path}<//></code></p><${Block} label=${`Change of ${plain(one.path)}`}>${plain(one.diff)}<//>`)}`;
  if (kind === 'user_input') return null;
  return html`<${Block} label="What it asks">${plain(JSON.stringify(detail, null, 2))}<//>`;
}

function Question({ question, value, set }) {
  const listed = question.options?.length > 0;
  return html`<fieldset><legend><${Text}>${question.question}<//></legend>
    ${listed && question.options.map((option) => html`<label class="check"><input type="radio" name=${question.id} checked=${value === option} onChange=${() => set(option)} /><${Text}>${option}<//></label>`)}
    ${(!listed || question.other) && html`<label>${listed ? 'Another answer' : 'Answer'}<input type=${question.secret ? 'password' : 'text'} autocomplete="off" maxlength="2000" value=${listed && question.options.includes(value) ? '' : value} onInput=${(event) => set(event.target.value)} /></label>`}
  </fieldset>`;
}
