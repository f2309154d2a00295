// The kill switch: halt, flatten and resume. A halt takes one click and a confirmation; what cannot be undone, or lets
// the desk trade, is typed.

import { get, post } from '../../lib/api.js';
import { html, useState } from '../../lib/html.js';
import { useDraft, useResource } from '../../lib/store.js';
import { Badge, Confirm, OrderLink, Text } from '../../lib/ui.js';
import { plain } from '../../lib/text.js';
import { MoneyNotice } from '../orders/answering.js';

const WAYS = {
  halt: { label: 'Halt…', title: 'Halt trading', action: 'Halt now', path: '/halt', body: {} },
  flatten: { label: 'Halt and flatten…', title: 'Halt and close every position', action: 'Halt and flatten', path: '/halt', body: { flatten: true }, word: (account) => `flatten ${account}` },
  resume: { label: 'Resume…', title: 'Resume trading', action: 'Resume', path: '/resume', body: {}, word: (account) => `resume ${account}` },
  reduce: { label: 'Resume, only reduce…', title: 'Resume, but only give exposure back', action: 'Resume, only reduce', path: '/resume', body: { reduce_only: true }, word: (account) => `resume ${account}` },
};

/** state: of the account, TradingState. done: called when the switch was thrown. */
export function Switch({ account, state, done }) {
  const [asked, setAsked] = useState(null);
  const [report, setReport] = useState(null);
  const ways = state === 'halted' ? ['resume', 'reduce', 'flatten'] : state === 'reducing' ? ['halt', 'flatten', 'resume'] : ['halt', 'flatten'];
  const thrown = (way, found) => {
    setReport({ way, found });
    done();
  };
  return html`<div class="row">${ways.map((way) => html`<button type="button" class=${way === 'halt' ? 'danger' : ''} onClick=${() => setAsked(way)}>${WAYS[way].label}</button>`)}</div>
    ${asked && html`<${Ask} way=${asked} account=${account} thrown=${thrown} onClose=${() => setAsked(null)} />`}
    ${report && html`<${Report} ...${report} />`}`;
}

function Ask({ way, account, thrown, onClose }) {
  const { title, word, action, path, body } = WAYS[way];
  const [why, setWhy, forget] = useDraft(`switch:${way}`);
  const standing = useResource(({ signal }) => get('/', {}, { signal }), []);
  const typed = word?.(account);
  const run = async (key) => {
    const found = await post(path, { ...body, ...(body.flatten ? { confirm: typed } : {}), ...(why.trim() ? { why: why.trim() } : {}) }, { key });
    forget();
    thrown(way, found);
  };
  return html`<${Confirm} title=${title} word=${typed} action=${action} run=${run} onClose=${onClose} danger=${path === '/halt'}>
    ${way !== 'halt' && html`<${MoneyNotice} standing=${standing} />`}
    <p>${path === '/halt' ? 'Every account of the desk stops trading at once: orders that were not sent are denied, open ones of this broker are cancelled, stops that protect positions stay.' : html`Account <strong><${Text}>${account}<//></strong> may trade again${way === 'reduce' ? ', but only give exposure back' : ''}. What waited meanwhile is denied.`}
      ${way === 'flatten' && html` <strong>Every position of this broker is closed at market.</strong> This cannot be undone.`}</p>
    <label>Reason, for the record (may be left out)<input type="text" maxlength="500" value=${why} onInput=${(event) => setWhy(event.target.value)} /></label><//>`;
}

function Report({ way, found }) {
  if (WAYS[way].path === '/resume') {
    return html`<div class="notice" role="status"><${Badge} tone=${found.state === 'active' ? 'good' : 'warn'}>${found.state}<//> account <${Text}>${found.account}<//>
      ${found.still_halted.length > 0 && html`; still halted: <${Text}>${found.still_halted.join(', ')}<//>`}</div>`;
  }
  const denied = found.accounts.flatMap((one) => one.denied);
  return html`<div class=${`notice ${found.complete ? '' : 'warn'}`} role="status">
    <p><${Badge} tone=${found.complete ? 'good' : 'warn'}>${found.complete ? 'halted, nothing is left open' : 'halted, something is left to do'}<//> ${found.accounts.map((one) => plain(one.account)).join(', ')}</p>
    ${denied.length > 0 && html`<p>Denied: ${denied.map((id) => html`<${OrderLink} id=${id} /> `)}</p>`}
    ${found.open_orders?.length > 0 && html`<p>Not confirmed as cancelled: ${found.open_orders.map((id) => html`<${OrderLink} id=${id} /> `)}</p>`}
    ${found.protective_orders?.length > 0 && html`<p>Stops that stay: ${found.protective_orders.map((id) => html`<${OrderLink} id=${id} /> `)}</p>`}
    ${found.closing_orders?.length > 0 && html`<p>Closing: ${found.closing_orders.map((one) => html`<${OrderLink} id=${one.id} /> ${plain(one.symbol)} ${plain(one.state)} `)}</p>`}
    ${found.problems.map((one) => html`<p><strong><${Text}>${one.detail}<//></strong>: <${Text}>${one.remedy}<//></p>`)}</div>`;
}
