// The kill switch: halt, flatten and resume, and the banner above every view while anything is halted.

import {
  accountOf, Ago, badgeOf, Confirm, count, Field, html, Link, moment, orderOf, plain, post, reloadAll, symbolOf, textOf,
  timeOf, useDraft, useGet, useState,
} from './view.js';
import { MoneyNotice } from './orders.js';

// A halt takes one click and a confirmation; what cannot be undone, or lets
// the desk trade, is typed.
const WAYS = {
  halt: { label: 'Halt…', title: 'Halt trading', action: 'Halt now', path: '/halt', body: {} },
  flatten: { label: 'Halt and flatten…', title: 'Halt and close the desk\'s positions', action: 'Halt and flatten',
    path: '/halt', body: { flatten: true }, word: 'flatten' },
  resume: { label: 'Resume…', title: 'Resume trading', action: 'Resume', path: '/resume', body: {}, word: 'resume' },
  reduce: { label: 'Resume, only reduce…', title: 'Resume, but only give exposure back',
    action: 'Resume, only reduce', path: '/resume', body: { reduce_only: true }, word: 'resume' },
};

/** state: of the account, TradingState. done: called when the switch was thrown. */
export function Switch({ account, state, done }) {
  const [asked, setAsked] = useState(null);
  const [report, setReport] = useState(null);
  const ways = { halted: ['resume', 'reduce', 'flatten'], reducing: ['halt', 'flatten', 'resume'] }[state]
    ?? ['halt', 'flatten'];
  const thrown = (way, found) => {
    setReport({ way, found });
    reloadAll(); // the banner above the view too
    done();
  };
  return html`<div class="row">${ways.map((way) => html`<button type="button" class=${way === 'halt' ? 'danger' : ''}
      onClick=${() => setAsked(way)}>${WAYS[way].label}</button>`)}</div>
    ${asked && html`<${Ask} way=${asked} account=${account} thrown=${thrown} onClose=${() => setAsked(null)} />`}
    ${report && html`<${Report} ...${report} />`}`;
}

/** The dialog of one way. thrown: called with the way and the answer. */
export function Ask({ way, account, thrown, onClose }) {
  const { title, word, action, path, body } = WAYS[way];
  const [why, setWhy, forget] = useDraft(`switch:${way}`);
  const standing = useGet('/');
  const typed = word && `${word} ${account}`;
  const run = async (key) => {
    const found = await post(path, { ...body, ...(body.flatten ? { confirm: typed } : {}),
      ...(path === '/resume' ? { account } : {}), ...(why.trim() ? { why: why.trim() } : {}) }, { key });
    forget();
    thrown(way, found);
  };
  return html`<${Confirm} title=${title} word=${typed} action=${action} run=${run} onClose=${onClose}
    danger=${path === '/halt'}>
    ${way !== 'halt' && html`<${MoneyNotice} standing=${standing} />`}
    <p>${path === '/halt'
      ? html`Every account of the desk stops trading at once: orders that were not sent are denied, open ones of this
        broker are cancelled, stops that protect positions stay.`
      : html`Account <strong>${textOf(account)}</strong> may trade again${way === 'reduce'
        ? ', but only give exposure back' : ''}. What waited meanwhile is denied.`}
      ${way === 'flatten' && html` <strong>Every position that the desk holds at this broker is closed at
        market.</strong> What else the broker holds stays. This cannot be undone.`}</p>
    <${Field} label="Reason, for the record (may be left out)" maxlength="500" value=${why} onText=${setWhy} /><//>`;
}

function Report({ way, found }) {
  if (WAYS[way].path === '/resume') {
    return html`<div class="notice" role="status">${badgeOf(found.state, found.state === 'active' ? 'good' : 'warn')}
      ${' '}account ${textOf(found.account)}
      ${found.still_halted.length > 0 && `; still halted: ${plain(found.still_halted.join(', '))}`}</div>`;
  }
  const listed = (name, ids) => ids?.length > 0 && html`<p>${name}: ${ids.map((id) => html`${orderOf(id)} `)}</p>`;
  return html`<div class=${`notice ${found.complete ? '' : 'warn'}`} role="status">
    <p>${found.complete ? badgeOf('halted, nothing is left open', 'good')
      : badgeOf('halted, something is left to do', 'warn')}
      ${' '}${found.accounts.map((one) => plain(one.account)).join(', ')}</p>
    ${listed('Denied', found.accounts.flatMap((one) => one.denied))}
    ${listed('Not confirmed as cancelled', found.open_orders)}${listed('Stops that stay', found.protective_orders)}
    ${found.closing_orders?.length > 0 && html`<p>Closing: ${found.closing_orders.map((one) =>
      html`${orderOf(one.id)} ${plain(one.symbol)} ${plain(one.state)} `)}</p>`}
    ${found.left_at_broker.length > 0 && html`<p>Not the desk's, and left at the broker: ${found.left_at_broker.map(
      (one) => html`${plain(one.symbol)} ${plain(one.quantity)} `)}</p>`}
    ${found.problems.map((one) => html`<p><strong>${textOf(one.detail)}</strong>: ${textOf(one.remedy)}</p>`)}</div>`;
}

/** What keeps accounts from trading: who halted them, when and why, what it denied since, and the way on. halts: of
 * GET /desk, null where that is not known. */
export function Halts({ halts }) {
  const [asked, setAsked] = useState(null);
  if (!halts?.length) return null;
  const halted = halts.some((one) => one.state === 'halted');
  return html`<section class=${`notice halts ${halted ? 'bad' : 'warn'}`} aria-label="Trading is stopped">
      ${halts.map((one) => html`<${Halted} key=${one.account} halt=${one} ask=${() => setAsked(one.account)} />`)}
    </section>
    ${asked && html`<${Ask} way="resume" account=${asked} thrown=${reloadAll} onClose=${() => setAsked(null)} />`}`;
}

function Halted({ halt, ask }) {
  const { account, own, state, why, by, since, denied, newest, played, resume } = halt;
  return html`<div class="row">
    <p><strong>${state === 'halted' ? 'HALTED' : 'Only reducing'}: account ${accountOf(account)}</strong>
      ${since ? html` since ${timeOf(since)} (<${Ago} at=${since} />)` : ', since when is not known'}
      ${by ? html` by ${textOf(by)}` : ' by the HALT file'}: ${textOf(why || 'no reason given', 200)}.
      ${' '}${newest ? html`<${Link} to="/orders" query=${{ state: 'denied', account }}>${count(denied)} ${
        denied === 1 ? 'order' : 'orders'} denied<//> since, the newest ${orderOf(newest.id, plain(newest.action))}
        ${' '}${symbolOf(newest.symbol)} at ${moment(newest.at, 'time')}` : 'No order denied since'}${
        played > 0 && `, ${count(played)} of backtests`}.</p>
    ${own ? html`<button type="button" onClick=${ask}>Resume…</button>`
      : html`<span>resume it with <code>${plain(resume)}</code></span>`}</div>`;
}
