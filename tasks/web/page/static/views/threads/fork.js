// A person's own question to a role: a fork of its thread at a turn, and turns in that fork. The parent stays as it is.

import { post } from '../../lib/api.js';
import { html, useState } from '../../lib/html.js';
import { go } from '../../lib/router.js';
import { count } from '../../lib/format.js';
import { useDraft } from '../../lib/store.js';
import { Block, Panel, ProblemBox, useAction } from '../../lib/ui.js';
import { laidOut } from './turn.js';

/** turns: how many the thread has. at: index of the one that is shown. kept: whether its rollout is there to copy. */
export function Forking({ path, turns, at, kept }) {
  const [before, setBefore] = useState(null);
  const [model, setModel, forgetModel] = useDraft(`fork-model:${path}`);
  const shown = before ?? at + 2;
  const act = useAction(async (key) => {
    const made = await post(`${path}/fork`, { before_turn: shown, ...(model.trim() ? { model: model.trim() } : {}) }, { key });
    forgetModel();
    go(`/threads/${made.thread_id}`);
  });
  const submit = (event) => {
    event.preventDefault();
    act.run();
  };
  return html`<${Panel} title="Fork"><form class="filters" onSubmit=${submit}>
      <label>Copy the turns before number<input type="number" min="2" max=${turns + 1} value=${shown} onInput=${(event) => setBefore(Number(event.target.value))} /></label>
      <label>Model (its own, if empty)<input type="text" maxlength="100" value=${model} onInput=${(event) => setModel(event.target.value)} autocomplete="off" /></label>
      <button type="submit" disabled=${!kept || act.busy}>${act.busy ? 'forking …' : 'Fork'}</button>
      <span class="quiet">${kept ? `${turns + 1} copies all ${turns}. Then ask in the fork: it makes no report, decision or order.` : 'A thread of one conversation is not kept, so there is nothing to copy.'}</span></form>
    <${ProblemBox} problem=${act.problem} /><//>`;
}

export function Asking({ path, thread, again }) {
  const [text, setText, forget] = useDraft(`ask:${thread}`);
  const act = useAction(async (key) => {
    const answer = await post(`${path}/ask`, { text }, { key });
    forget();
    again();
    return answer;
  });
  const submit = (event) => {
    event.preventDefault();
    if (text.trim()) act.run();
  };
  return html`<${Panel} title="Ask in this fork"><form onSubmit=${submit}>
      <label class="full">Question<textarea maxlength="20000" value=${text} onInput=${(event) => setText(event.target.value)}></textarea></label>
      <div class="buttons"><button type="submit" class="primary" disabled=${!text.trim() || act.busy}>${act.busy ? 'the model answers …' : 'Ask'}</button></div></form>
    <${ProblemBox} problem=${act.problem} />
    ${act.answer && html`<div role="status"><h3>Answer${act.answer.tokens !== null && html`, <span class="num">${count(act.answer.tokens)}</span> tokens`}</h3><${Block} label="Answer">${act.answer.refusal ? `It declined: ${laidOut(act.answer.refusal)}` : laidOut(act.answer.text)}<//></div>`}<//>`;
}
