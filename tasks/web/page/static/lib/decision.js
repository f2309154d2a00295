// A person's answer to what waits. Its dialog belongs to no view: a list that is loaded anew, or a row that leaves it,
// takes nothing away, and the dialog itself says what becomes of its question meanwhile.

import {
  Ago, badgeOf, chance, count, date, Facts, Field, FormDialog, get, hashOf, html, Link, Loaded, money, numOf, orderOf,
  Panel, part, Pending, percent, plain, post, priceOf, quantity, quietOf, ratingOf, reasonOf, reloadAll, runOf,
  shortId, signal, span, stateOf, textOf, threadOf, timeOf, useAction, useDraft, useFirst, useGet, useKeys, useNow,
  useResource, useState, words,
} from './view.js';
import { Closes } from './lines.js';
import { Denied, instrument, MoneyNotice, priceTerms, RequestDetail, stateName, titleOf, unit } from './orders.js';

const LOOK_MS = 2_000;
const CHECK_MS = 5_000;
const CARD_MS = 30_000;
const CARDS = 8; // before a person asks for all
const GOES_ON = { approved: 'it is checked once more and then sent', denied: 'the refusal is on record' };

const asking = signal(null); // {items, answer}: rows of GET /approvals
const said = signal([]); // one line for each answer that was given last

const ask = (items, answer) => {
  asking.value = { items, answer };
};

const Both = ({ items, said: of = '', first = '' }) => html`<span class="row">
  <button type="button" class=${first} onClick=${() => ask(items, 'approve')}>Approve${of}…</button>
  <button type="button" onClick=${() => ask(items, 'deny')}>Deny${of}…</button></span>`;

/** The two buttons for something that waits, of GET /approvals. */
export const Answering = ({ item }) => !fateOf(item, useNow()) && html`<${Both} items=${[item]} first="primary" />`;

/** The dialog of the answer that is being given, and above the view what came of the last one. */
export function Decisions() {
  const now = asking.value;
  return html`${said.value.length > 0 && html`<div class="notice said" role="status">
      ${said.value.map((line) => html`<p>${line}</p>`)}
      <button type="button" class="plain" aria-label="Dismiss" onClick=${() => {
        said.value = [];
      }}>✕</button></div>`}
    ${now && html`<${AnswerDialog} key=${`${now.answer}${now.items.map(idOf).join()}`} ...${now} onClose=${() => {
      asking.value = null;
    }} />`}`;
}

const idOf = (item) => item.approval.id;
const about = (item) => (item.order ? `order ${shortId(item.order.id)}` : `request of ${plain(item.approval.role)}`);

function AnswerDialog({ items, answer, onClose }) {
  const ids = items.map(idOf);
  const [why, setWhy, forgetWhy] = useDraft(`answer:${ids.join()}:${answer}`);
  const [given, setGiven, forgetGiven] = useDraft(`answers:${ids.join()}`, '{}');
  const answers = JSON.parse(given);
  const standing = useGet('/');
  const found = useResource(({ signal: cut }) =>
    Promise.all(ids.map((id) => get(`/approvals/${id}`, {}, { signal: cut }))), [ids.join()], { every: LOOK_MS });
  const now = useNow();
  const current = found.data ?? items;
  const open = current.filter((item) => !fateOf(item, now));
  const [first] = items;
  const single = items.length === 1;
  const questions = (single && answer === 'approve' && first.approval.detail?.questions) || [];
  const act = useAction(async (key) => {
    const told = questions.filter((one) => answers[one.id]?.trim()).map((one) => [one.id, [answers[one.id]]]);
    const body = { answer, ...(why.trim() ? { why: why.trim() } : {}),
      ...(questions.length ? { answers: Object.fromEntries(told) } : {}) };
    let last = null;
    said.value = [];
    for (const item of items.filter((one) => open.some((other) => idOf(other) === idOf(one)))) {
      try {
        say(await answered(item, body, `${key}.${ids.indexOf(idOf(item))}`));
      } catch (problem) {
        last = problem;
        say(html`${badgeOf('not done', 'bad')} ${about(item)}: ${textOf(problem.detail || problem.title)}`);
      }
    }
    reloadAll();
    if (last) throw last;
    forgetWhy();
    forgetGiven();
  });
  const complete = questions.every((one) => one.optional || answers[one.id]?.trim())
    && (answer === 'approve' || why.trim());
  const word = answer === 'approve' ? 'Approve' : 'Deny';
  const what = single ? `the ${about(first)}` : `${items.length} at once`;
  const lost = act.problem?.kind === 'away';
  return html`<${FormDialog} title=${`${word} ${what}`} action=${word} ready=${complete && open.length > 0}
    act=${{ ...act, problem: lost && !open.length ? null : act.problem }}
    danger=${answer === 'approve' && standing.data?.standing?.real_money} onClose=${onClose}>
    ${answer === 'approve' && items.some((item) => item.order) && html`<${MoneyNotice} standing=${standing} />`}
    ${single ? html`<${One} item=${current[0]} answer=${answer} now=${now} />`
      : html`<${Several} items=${current} now=${now} />`}
    ${found.problem && html`<p class="notice warn" role="status">Whether it still waits is not
      known: ${textOf(found.problem.detail || found.problem.title)}.</p>`}
    ${questions.map((one) => html`<${Question} key=${one.id} question=${one} value=${answers[one.id] ?? ''}
      set=${(text) => setGiven(JSON.stringify({ ...answers, [one.id]: text }))} />`)}
    <${Field} of="textarea" label=${`Reason, for the record${answer === 'deny' ? '' : ' (may be left out)'}`}
      maxlength="500" value=${why} required=${answer === 'deny'} onText=${(text) => setWhy(oneLine(text))} /><//>`;
}

const say = (line) => {
  said.value = [...said.value, line];
};

async function answered(item, body, key) {
  const expect = item.approval.payload_hash;
  const { state, notified } = await post(`/approvals/${idOf(item)}`, expect ? { ...body, expect } : body, { key });
  const late = 'the trade queue was not reached; it sends with its next check, within a minute';
  const after = !item.order ? `the ${item.approval.kind === 'interrupt' ? 'graph' : 'turn'} has its answer`
    : state === 'approved' && !notified ? late : GOES_ON[state];
  const which = item.order ? html`order ${orderOf(item.order.id)}` : about(item);
  return html`${stateOf('approval', state)} ${which}: ${after}`;
}

// The desk keeps reasons as single lines.
const oneLine = (text) => text.replace(/\s*\n\s*/g, ' ');

/** What has become of a question; null while it waits. */
function fateOf({ approval, order }, now) {
  const { state, why, expires_at: until } = approval;
  if (state === 'expired' || (state === 'pending' && date(until) <= now)) {
    return html`${badgeOf('expired')} at ${timeOf(until, 'time')}: nobody had answered by then`;
  }
  if (state !== 'pending') return html`${stateOf('approval', state)} by
    ${' '}${textOf(approval.decided_by)} at ${timeOf(approval.decided_at, 'time')}${why && html`: ${textOf(why)}`}`;
  return order && order.state !== 'approval_pending'
    ? html`${badgeOf(stateName(order.state), 'warn')} the order waits no more` : null;
}

/** What is left of the time to answer, counted down, or what has become of the question. */
export function Until({ item }) {
  const now = useNow();
  return quietOf(fateOf(item, now) ?? html`${numOf(span(date(item.approval.expires_at).getTime() - now))} left`);
}

function One({ item, answer, now }) {
  const fate = fateOf(item, now);
  return html`${fate && html`<p class="notice warn" role="alert">${fate}. What you typed stays here.</p>`}
    ${item.order ? html`<${OrderAsked} item=${item} />` : html`<${RequestAsked} item=${item} />`}
    ${item.order && answer === 'approve' && !fate && html`<${Now} order=${item.order} />`}`;
}

function Now({ order }) {
  const checks = useGet(`/orders/${order.id}/checks`, {}, { every: CHECK_MS });
  return html`<${Effect} effect=${checks.data?.effect} /><${Changes} from=${checks} order=${order} />`;
}

function Several({ items, now }) {
  const orders = items.filter((item) => item.order && !fateOf(item, now));
  const sum = (side) => orders.filter((item) => (item.order.side === 'sell') === (side === 'sell'))
    .reduce((all, item) => all + item.approval.notional, 0);
  return html`<${Facts} rows=${[['Buys together', numOf(money(sum('buy')))],
    ['Sells together', numOf(money(sum('sell')))]]} />
    ${orders.length > 0 && html`<${Book} orders=${orders} />`}
    <ul class="waiting">${items.map((item) => html`<li key=${idOf(item)}>${item.order
      ? html`<${WaitingOrder} item=${item} />` : textOf(item.what)} <${Until} item=${item} /></li>`)}</ul>`;
}

const OrderAsked = ({ item: { order, approval } }) => html`<${Facts} rows=${[
  ['Account', html`<strong>${textOf(order.account)}</strong>`],
  ['Side', html`<strong>${plain(order.side ?? order.action)}</strong>`],
  ['Quantity', html`<strong class="num">${quantity(order.quantity)} ${unit(order)}</strong>`],
  ['Of', html`<strong class="symbol">${instrument(order)}</strong>`],
  ['Price', html`<span class="num">${priceTerms(order)}, ${plain(order.time_in_force)}</span>`],
  ['Money', html`<strong class="num">${money(approval.notional)}</strong>`],
  ['Preview', hashOf(approval.payload_hash)],
  ['Answer by', html`${timeOf(approval.expires_at)}, <${Until} item=${{ order, approval }} />`],
]} />`;

const RequestAsked = ({ item: { approval } }) => html`<p><strong>${textOf(approval.role)}</strong> asks
    ${' '}${approval.kind === 'interrupt' ? '' : 'in the middle of a turn '}and waits for the answer.</p>
  <${RequestDetail} kind=${approval.kind} detail=${approval.detail} />
  <p class="quiet">Answer by ${timeOf(approval.expires_at)}, <${Until} item=${{ approval }} /></p>`;

function Question({ question, value, set }) {
  const listed = question.options?.length > 0;
  return html`<fieldset><legend>${textOf(question.question)}</legend>
    ${listed && question.options.map((option) => html`<label class="check">
      <input type="radio" name=${question.id} checked=${value === option} onChange=${() => set(option)} />
      ${textOf(option)}</label>`)}
    ${(!listed || question.other) && html`<${Field} label=${listed ? 'Another answer' : 'Answer'} autocomplete="off"
      type=${question.secret ? 'password' : 'text'} maxlength="2000" onText=${set}
      value=${listed && question.options.includes(value) ? '' : value} />`}</fieldset>`;
}

/** What waits for a person: orders as they were previewed, and what models ask for in the middle of a turn; one by one,
 * or several orders at once. from: a resource of GET /approvals; most: of them that are shown. */
export function Waiting({ from, most = Infinity }) {
  const [chosen, setChosen] = useState(new Set());
  const all = from.data ?? [];
  const [rows, more] = useFirst(all.slice(0, most), CARDS);
  const picked = rows.filter((item) => chosen.has(idOf(item)));
  const key = (answer) => () => {
    const list = [...document.querySelectorAll('.waiting > [data-row]')];
    const focused = rows[Math.max(list.findIndex((row) => row.contains(document.activeElement)), 0)];
    if (focused) ask([focused], answer);
  };
  useKeys([['a', 'Approve the row', key('approve')], ['d', 'Deny the row', key('deny')]], 'What waits', [from.data]);
  const turn = (item) => setChosen((before) => before.symmetricDifference(new Set([idOf(item)])));
  const tools = picked.length > 1 && html`<${Both} items=${picked} said=${` ${picked.length}`} />`;
  return html`<${Panel} title="Waits for a person" tools=${tools}>
    <${Loaded} from=${from} what="what waits" empty="Nothing waits for you">${() => html`<ul class="waiting">
      ${rows.map((item) => html`<li key=${idOf(item)} data-row>
        ${item.order && rows.length > 1 && html`<input type="checkbox" aria-label=${`Choose the ${about(item)}`}
          checked=${chosen.has(idOf(item))} onChange=${() => turn(item)} />`}
        ${item.order ? html`<${WaitingOrder} item=${item} /><${OrderCard} item=${item} />`
          : html`<${WaitingRequest} item=${item} />`}
        <span class="quiet">asked <${Ago} at=${item.approval.asked_at} />, <${Until} item=${item} /></span>
        <${Answering} item=${item} /></li>`)}</ul>
      ${more}${all.length > most && html`<p><a href="#/approvals">All ${all.length} that wait</a></p>`}`}<//><//>`;
}

/** An order that waits, as a card: the reason, what it rests on and what speaks against it, its risk, the price of the
 * last weeks, and what it would do to the account. */
function OrderCard({ item: { order, why } }) {
  const checks = useGet(`/orders/${order.id}/checks`, {}, { every: CARD_MS });
  const { effect, changes, case: found } = checks.data ?? {};
  return html`${why && html`<p class="why">${reasonOf(why)}</p>`}
    ${checks.loading && !checks.data && html`<${Pending} />`}
    <${Facts} rows=${riskOf(order, checks.data)} />
    ${found && html`<${Grounds} of=${found} />`}
    <${Closes} symbol=${order.symbol} run=${order.run_id} stop=${order.plan?.stop} target=${order.plan?.target} />
    <${Effect} effect=${effect} />
    ${changes?.denied && html`<p class="notice bad">would be denied now: ${textOf(changes.denied.reason)}</p>`}`;
}

const similarOf = ({ similar }) => (similar === null ? quietOf('none scored yet') : chance(similar));

/** The odds of an order, its prices and what it risks. */
function riskOf(order, checks) {
  const { effect, changes, case: found } = checks ?? {};
  const { plan } = order;
  const opens = ['open', 'add'].includes(order.action);
  const odds = found ? (found.probability === null ? 'no thesis states one' : html`<strong>${
    chance(found.probability)}</strong> ${quietOf(`95 %: ${chance(found.low)} to ${chance(found.high)}`)}`) : undefined;
  const loss = effect?.at_risk === null || effect === undefined || effect === null ? null
    : html`<strong class="num">${money(effect.at_risk, 0)}</strong> ${quietOf(`${percent(effect.at_risk_share)
      } of equity`)}`;
  return [
    ['Beats the benchmark', odds],
    ['Similar cases', found ? similarOf(found) : undefined],
    ['Over', found?.horizon ? `${count(found.horizon)} sessions${plan?.ends ? `, to ${plain(plan.ends)}` : ''}`
      : plan?.ends ? `to ${plain(plan.ends)}` : undefined],
    ['Price now', changes ? numOf(priceOf(changes.price_now, order)) : undefined],
    ['Stop', opens ? (plan?.stop ? html`${numOf(priceOf(plan.stop, order))} ${quietOf(`${
      percent(effect?.stop_distance)} away`)}` : badgeOf('none', 'warn')) : undefined],
    ['Target', plan?.target ? numOf(priceOf(plan.target, order)) : undefined],
    ['At risk', opens && checks ? loss ?? 'not known without a stop' : undefined],
    ['Verdict', found ? html`${ratingOf(found.rating, found.confidence, found.verdict)}` : undefined],
  ];
}

const Grounds = ({ of: { in_favour: pro, against, missing } }) => html`<div class="grounds">
  <${Side} title="For it" rows=${pro} none="no report" /><${Side} title="Against it" rows=${against} none="no report" />
  ${missing.length > 0 && html`<section><h3>Missing</h3><ul class="dots">${missing.map((one) =>
    html`<li>${textOf(one.replace(/\bno_data\b/, 'no data'), 160)}</li>`)}</ul></section>`}</div>`;

const Side = ({ title, rows, none }) => html`<section><h3>${title}</h3>${rows.length ? html`<ul class="dots">${
  rows.map((one) => html`<li><${Link} to=${`/reports/${part(one.report)}`}>${words(one.role)}<//>
    ${' '}${one.probability === null ? plain(one.verdict) : chance(one.probability)}:
    ${' '}${reasonOf(one.says, 200)}</li>`)}</ul>`
  : quietOf(none)}</section>`;

/** The account before, after this order, and after the others that wait or work too. */
function Effect({ effect }) {
  if (!effect) return null;
  const { symbol, sector, others } = effect;
  const rows = [
    [symbol, percent(effect.share_before), percent(effect.share_after), percent(effect.share_all)],
    ...(sector ? [[sector, percent(effect.sector_before), percent(effect.sector_after), percent(effect.sector_all)]]
      : []),
    ['Cash', money(effect.cash_before, 0), money(effect.cash_after, 0), money(effect.cash_all, 0)],
  ];
  return html`<table class="effect" aria-label="Effect on the account"><thead><tr><td></td>
    <th scope="col" class="right">now</th><th scope="col" class="right">after it</th>${others > 0
      && html`<th scope="col" class="right">after all ${count(others + 1)}</th>`}</tr></thead>
    <tbody>${rows.map(([name, before, after, all]) => html`<tr><th scope="row">${plain(name)}</th>
      <td class="right">${before}</td><td class="right"><strong>${after}</strong></td>${others > 0
        && html`<td class="right">${all}</td>`}</tr>`)}</tbody></table>`;
}

/** The account after several orders together. Each adds the same beside the others, as all are of the same equity and
 * prices: exposures of one symbol or sector are summed, and so is cash. effects: of the orders, with a price. */
export function together(effects) {
  const [first] = effects;
  if (!first) return null;
  const shares = new Map();
  const add = (name, before, after) => {
    const found = shares.get(name) ?? { name, before, change: 0 };
    found.change += after - before;
    shares.set(name, found);
  };
  for (const one of effects) {
    add(one.symbol, one.share_before, one.share_after);
    if (one.sector) add(one.sector, one.sector_before, one.sector_after);
  }
  return {
    shares: [...shares.values()].map(({ name, before, change }) => ({ name, before, after: before + change })),
    cash: { before: first.cash_before, after: first.cash_before + effects.reduce((sum, one) =>
      sum + one.cash_after - one.cash_before, 0) },
    risk: effects.reduce((sum, one) => sum + (one.at_risk ?? 0), 0),
    unknown: effects.filter((one) => one.at_risk === null && one.share_after > one.share_before).length,
  };
}

function Book({ orders }) {
  const ids = orders.map((item) => item.order.id);
  const found = useResource(({ signal: cut }) => Promise.all(ids.map((id) => get(`/orders/${id}/checks`, {},
    { signal: cut }))), [ids.join()], { every: CHECK_MS });
  return html`<${Loaded} from=${found} what="what they would do to the account">${(checks) =>
    html`<${Together} effects=${checks.map((one) => one.effect).filter(Boolean)} of=${ids.length} />`}<//>`;
}

function Together({ effects, of }) {
  const book = together(effects);
  const without = effects.length < of && html`<p class="quiet">Without ${count(of - effects.length)} whose effect
    is not known now.</p>`;
  return html`${book && html`<table class="effect" aria-label="The account after all of them"><thead><tr><td></td>
    <th scope="col" class="right">now</th><th scope="col" class="right">after these ${count(effects.length)}</th></tr>
    </thead><tbody>${book.shares.map(({ name, before, after }) => html`<tr><th scope="row">${plain(name)}</th>
      <td class="right">${percent(before)}</td><td class="right"><strong>${percent(after)}</strong></td></tr>`)}
    <tr><th scope="row">Cash</th><td class="right">${money(book.cash.before, 0)}</td>
      <td class=${`right ${book.cash.after < 0 ? 'loss' : ''}`}><strong>${money(book.cash.after, 0)}</strong></td></tr>
    <tr><th scope="row">At risk to their stops</th><td class="right"></td><td class="right">
      <strong>${money(book.risk, 0)}</strong>${book.unknown > 0 && ` + ${count(book.unknown)} without a stop`}</td></tr>
    </tbody></table>`}${without}`;
}

const WaitingOrder = ({ item: { order, approval } }) => html`<span class="what">
  <strong>${titleOf(order)}</strong> <strong class="num">${money(approval.notional)}</strong>
  ${quietOf(html`account ${textOf(order.account)}, order ${orderOf(order.id)}`)}</span>`;

const WaitingRequest = ({ item: { approval, what } }) => html`<span class="what">
  ${badgeOf(approval.kind, 'warn')} <strong>${textOf(approval.role)}</strong>
  of run ${runOf(approval.run_id)}, thread ${threadOf(approval.thread_id)}:
  ${approval.kind === 'command' || approval.kind === 'file_change'
    ? html`<${RequestDetail} kind=${approval.kind} detail=${approval.detail} />` : textOf(what)}</span>`;

export function Changes({ from, order }) {
  const changes = from.data?.changes;
  if (!changes) return null;
  const { mandate_then: then, mandate_now: now } = changes;
  return html`<div role="group" aria-label="Changes since the preview"><h3>Since the preview</h3>
    ${changes.denied && html`<${Denied} title="would be denied now" ...${changes.denied} />`}
    <${Facts} rows=${[
      ['Price then', numOf(priceOf(changes.price_then, order))],
      ['Price now', changes.price_now === null ? 'none' : numOf(priceOf(changes.price_now, order))],
      ['Moved', changes.moved === null ? null : html`${numOf(`${percent(changes.moved, 2)} of ${
        percent(changes.collar, 2)}`)} allowed ${changes.moved > changes.collar && badgeOf('too far', 'bad')}`],
      ['Order and hash', changes.intact ? badgeOf('as they were checked', 'good') : badgeOf('altered', 'bad')],
      ['Mandate', then === now ? (now ?? 'none, as then')
        : badgeOf(`was ${then ?? 'none'}, is ${now ?? 'none'}`, 'warn')],
      ['Time left', changes.seconds_left === null ? undefined : numOf(span(Math.max(changes.seconds_left, 0) * 1000))],
    ]} /></div>`;
}