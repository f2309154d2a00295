// Acts that were proposed: each card as the desk words it, with a yes and a no. Nothing is done by showing it.

import {
  ActionButton, badgeOf, html, Loaded, Panel, plain, post, quietOf, runOf, timeOf, useGet, useState,
} from '../../lib/view.js';

const EVERY_MS = 5_000;
const TONES = { open: 'busy', done: 'good', confirmed: 'busy', failed: 'bad', changed: 'warn' };

/** What waits for a person, and the words that ask for an act as a proposal to be made. */
export function Proposals({ text = '' }) {
  const found = useGet('/proposals', {}, { every: EVERY_MS });
  const [made, setMade] = useState(null);
  const over = made !== null;
  return html`${text && html`<${Panel} title="This asks for something to be done" className="whole">
      <p>Nothing is done by words. It becomes a card, which you or another confirms within ten minutes.</p>
      <${ActionButton} label="Propose it" disabled=${over} run=${async (key) => {
        setMade(await post('/proposals', { text }, { key }));
        found.reload();
      }} /><//>`}
    <${Loaded} from=${found} what="what was proposed">${(rows) => html`
      ${rows.map((row) => html`<${Card} key=${row.id} row=${row} done=${found.reload} />`)}
      ${over && !rows.some((row) => row.id === made.id) && html`<${Fate} id=${made.id} />`}`}<//>`;
}

function Card({ row, done }) {
  const [told, setTold] = useState(null);
  const ended = (answer) => { setTold(answer); done(); };
  return html`<${Panel} title=${plain(row.title)} className="whole">
    ${row.lines.map((line) => html`<p>${plain(line)}</p>`)}
    <p>${plain(row.cost)}</p>
    ${row.outside && html`<p class="notice warn">The model had read text from outside in this turn.</p>`}
    <p class="quiet">Account ${plain(row.account)}; asked by ${plain(row.by)} from ${plain(row.origin)}; until
      ${' '}${timeOf(row.expires_at)}; needs ${row.scope}.</p>
    ${told === null ? html`<div class="row">
      <${ActionButton} label="Confirm" className="primary" path=${`/proposals/${row.id}/confirm`}
        body=${{ expect: row.shown }} done=${ended} />
      <${ActionButton} label="Dismiss" path=${`/proposals/${row.id}/dismiss`} done=${ended} /></div>`
      : quietOf(plain(told.fate))}<//>`;
}

/** What became of a proposal that waits no more. */
function Fate({ id }) {
  const found = useGet(`/proposals/${id}`);
  return html`<${Loaded} from=${found} what="the proposal">${(row) => html`
    <${Panel} title=${plain(row.title)} className="whole"><p>${badgeOf(row.state, TONES[row.state] ?? 'plain')}
      ${' '}${plain(row.fate)}</p>${row.run_id && html`<p>${runOf(row.run_id)}</p>`}<//>`}<//>`;
}
