// The page: logs in, finds the view of the address, and frames it.

import { render } from 'preact';
import {
  badgeOf, bind, bindings, Confirm, Dialog, Empty, Field, Form, go, home, href, html, inPlace, Later, Loading, match,
  moment, moveRow, place, plain, ProblemBox, quietOf, reloadAll, replace, roomOf, Segments, setZone, Shielded,
  shortId, standingOf, stateOf, useAction, useEffect, useGet, useMemo, useNow, usePreference, useRef, useState, zone,
} from './lib/view.js';
import { Decisions } from './lib/decision.js';
import { Ask, Halts } from './lib/halt.js';
import { canNotify, useNotifications } from './lib/notify.js';
import { Palette } from './lib/palette.js';
import { away } from './lib/request.js';
import { begin, codeIn, login, logout, session } from './lib/session.js';

const STATUS_MS = 15_000;
const ID = 36; // characters of an id

// The views: one line each. path: with :parameters; name: in the menu, if `menu`; key: after g, goes there. A view is
// the component `part` of its module, by default the one of its name; it gets {params, query, desk}. Those of
// features are of the same form; where a path or key is there twice, the first counts.
const VIEWS = [
  { path: '/', name: 'Desk', menu: true, key: 'd', module: 'desk' },
  { path: '/runs', name: 'Runs', menu: true, key: 'r', module: 'runs' },
  { path: '/runs/:run', name: 'Run', module: 'run' },
  { path: '/runs/:run/compare/:other', name: 'Run', module: 'run' },
  { path: '/symbols', name: 'Symbols', menu: true, key: 'y', module: 'symbols' },
  { path: '/symbols/:symbol', name: 'Symbol', module: 'symbols' },
  { path: '/reports/:report', name: 'Report', module: 'report' },
  { path: '/verdicts/:verdict', name: 'Verdict', module: 'report' },
  { path: '/orders', name: 'Orders', menu: true, key: 'o', module: 'orders' },
  { path: '/orders/:order', name: 'Order', module: 'order', part: 'OrderView' },
  { path: '/approvals', name: 'Approvals', key: 'p', module: 'orders', part: 'Orders' },
  { path: '/account', name: 'Account', menu: true, key: 'a', module: 'account' },
  { path: '/accounts/:account', name: 'Account', module: 'account' },
  { path: '/threads', name: 'Threads', menu: true, key: 't', module: 'threads' },
  { path: '/threads/:thread', name: 'Thread', module: 'threads' },
  { path: '/turns/:turn', name: 'Turn', module: 'threads', part: 'TurnView' },
];
// In the menu after those of features, which the desk names.
const LAST = [
  { path: '/fleet', name: 'Fleet', menu: true, key: 'f', module: 'fleet' },
  { path: '/settings', name: 'Settings', menu: true, key: 's', module: 'settings', part: 'SettingsView' },
];

function App() {
  const { path, query } = place.value;
  const desk = useGet('/desk', {}, { every: STATUS_MS });
  const [known, keep] = usePreference('views', '[]'); // as the menu was before: it is as wide at once
  const more = desk.data ? JSON.stringify(desk.data.views) : known;
  useEffect(() => {
    if (desk.data && more !== known) keep(more);
  }, [more]);
  const told = JSON.stringify(desk.data?.home ?? null);
  useEffect(() => {
    if (told !== 'null') home.value = JSON.parse(told);
  }, [told]);
  const views = useMemo(() => [...VIEWS, ...JSON.parse(more), ...LAST], [more]);
  const found = match(views, path);
  const [help, setHelp] = useState(false);
  const [halting, setHalting] = useState(false);
  const [finding, setFinding] = useState(false);
  useEffect(() => bind([
    ...views.filter((view) => view.key)
      .map((view) => ({ keys: `g ${view.key}`, what: view.name, group: 'Go to', run: () => go(view.path) })),
    { keys: 'Ctrl-K', what: 'Find symbols, runs, orders, commands', group: 'Everywhere', run: () => setFinding(true) },
    { keys: '?', what: 'The keys', group: 'Everywhere', run: () => setHelp(true) },
    { keys: 'r', what: 'Load again', group: 'Everywhere', run: reloadAll },
    { keys: 'j', what: 'Next row', group: 'Everywhere', run: () => moveRow(1) },
    { keys: 'k', what: 'Previous row', group: 'Everywhere', run: () => moveRow(-1) },
    { keys: '/', what: 'To the first filter', group: 'Everywhere',
      run: () => /** @type {HTMLElement} */ (document.querySelector('main input, main select'))?.focus() },
    { keys: 'z', what: 'Time of the exchange, or local', group: 'Everywhere', run: turnZone },
  ]), [views]);
  useEffect(() => {
    if (!away.value && desk.problem) desk.reload(); // it answers again
  }, [away.value]);
  const { state } = session.value;
  const seen = session.value.logins > 0;
  const begunWith = useRef(null);
  begunWith.current ??= desk.data?.page;
  const old = desk.data && desk.data.page !== begunWith.current;
  return html`
    ${seen && html`<${Frame} path=${path} desk=${desk} views=${views} onHelp=${() => setHelp(true)}>
      ${old && html`<p class="notice warn" role="status">This page is of before the desk was upgraded.${' '}
        <button type="button" onClick=${() => location.reload()}>Load it again</button> What you typed is kept.</p>`}
      <${Shielded} name=${path}>${found
        ? html`<${View} key=${found.view.path} view=${found.view} params=${found.params} query=${query} desk=${desk} />`
        : desk.data || desk.problem ? html`<div class="view"><h1>No such view</h1>
        <${Empty} title="Nothing is at this address"><a href=${href('/')}>To the desk</a><//></div>`
        : html`<${Loading} what="the desk's views" />`}<//><//>`}
    ${state === 'out' && html`<${Login} over=${seen} />`}
    ${finding && html`<${Palette} onClose=${() => setFinding(false)} views=${desk.data?.views} commands=${[
      ['Halt trading…', () => setHalting(true)]]} />`}
    ${halting && html`<${Ask} way="halt" account=${desk.data?.standing.account} thrown=${reloadAll}
      onClose=${() => setHalting(false)} />`}
    ${help && html`<${Help} onClose=${() => setHelp(false)} />`}`;
}

function View({ view, params, query, desk }) {
  const title = [view.name, ...Object.values(params).map((value) => (value.length === ID ? shortId(value)
    : plain(value)))].join(' ');
  useEffect(() => {
    document.title = `${title} - Chordesk`;
  }, [title]);
  const of = [view.module, view.part ?? view.name, view.feature];
  return html`<${Later} of=${of} what=${title} given=${{ params, query, desk }} />`;
}

function Frame({ path, desk, views, children, onHelp }) {
  const [theme, setTheme] = usePreference('theme', 'auto');
  const [notifies, turnNotices] = useNotifications(desk);
  const [leaving, setLeaving] = useState(null);
  const [open, setOpen] = useState(false);
  useEffect(() => setOpen(false), [path]);
  useEffect(() => {
    if (theme === 'auto') delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = theme;
  }, [theme]);
  const standing = desk.data?.standing;
  const danger = standing?.real_money;
  const all = leaving === 'all';
  return html`
    <a class="skip" href="#content" onClick=${inPlace(() => document.querySelector('main').focus())}>To the content</a>
    <header class=${`top ${danger ? 'real' : ''}`}>
      <nav aria-label="Views" class=${open ? 'open' : ''}><a class="brand" href=${href('/')}>Chordesk</a>
        <button type="button" class="menu-button" aria-expanded=${open} onClick=${() => setOpen(!open)}>Menu</button>
        ${views.filter((view) => view.menu).map((view) => html`<a href=${href(view.path)} title=${`g ${view.key}`}
          aria-current=${isIn(view.path, path) ? 'page' : undefined}>${view.name}</a>`)}
        ${!desk.data && !desk.problem && html`<span class="quiet unknown"
          title="loading: features add views">…</span>`}</nav>
      <div class="standing">${standing && html`<${Standing} standing=${standing} desk=${desk.data} />`}
        ${desk.problem && (desk.problem.status || away.value) && badgeOf(desk.problem.status
          ? 'not loaded' : 'no connection', 'bad', plain(desk.problem.detail))}</div>
      <div class="own">
        <${Clock} />
        <button type="button" onClick=${onHelp} aria-label="The keys">?</button>
        <details class="menu"><summary>${plain(session.value.by) || 'session'}</summary><div>
          <${Segments} label="Theme" value=${theme} onChange=${setTheme} options=${[['auto', 'Auto'],
            ['light', 'Light'], ['dark', 'Dark']]} />
          ${canNotify() && html`<button type="button" aria-pressed=${notifies} onClick=${turnNotices}>Notify me
            </button>`}
          <button type="button" onClick=${() => setLeaving('one')}>${session.value.device ? 'Forget this device'
            : 'Log out'}</button>
          <button type="button" onClick=${() => setLeaving('all')}>End all sessions</button></div></details>
      </div>
    </header>
    <main id="content" tabindex="-1"><${Halts} halts=${desk.data?.database.halts} /><${Decisions} />${children}</main>
    ${leaving && html`<${Confirm} title=${all ? 'End all sessions' : 'Log out'} action=${all ? 'End all' : 'Log out'}
      danger=${false} run=${() => logout(all)} onClose=${() => setLeaving(null)}>
      <p>${all ? 'Every browser that is logged in to this desk is logged out, this one too.'
        : 'The tabs of this session are logged out.'} Runs go on. <code>desk page</code> makes a new link.</p><//>`}`;
}

const isIn = (view, path) => (view === '/' ? path === '/' : path === view || path.startsWith(`${view}/`));

function Standing({ standing, desk: { running, waiting, database, short } }) {
  const { account, market, day, model } = standing;
  return html`${standingOf(standing)}
    ${database.trading !== 'active' && stateOf('trading', database.trading, plain(database.why))}
    ${short.map((one) => html`<a href=${href('/fleet')}>${roomOf(one)}</a>`)}
    ${waiting.length > 0 && html`<a href=${href('/approvals')}>${badgeOf(`${waiting.length} waiting`, 'warn')}</a>`}
    ${quietOf([account, `${market} ${day}`, model].map(plain).join(' · '))}
    ${!running && badgeOf('no desk up', 'warn', 'start it: desk up')}`;
}

function Clock() {
  const now = new Date(useNow());
  const there = zone.value !== 'local';
  return html`<button type="button" class="clock plain num" title="z: time of the exchange, or local"
    onClick=${turnZone}>
    <span class=${there ? '' : 'quiet'}>${moment(now, 'time', 'exchange')} ${home.value.place === 'New York' ? 'NY'
      : plain(home.value.place)}</span>
    ${' '}<span class=${there ? 'quiet' : ''}>${moment(now, 'minute', 'local')} local</span></button>`;
}
const turnZone = () => setZone(zone.value === 'local' ? 'exchange' : 'local');

/** over: above what was shown when the session ended, an open dialog too. */
function Login({ over }) {
  const [typed, setTyped] = useState('');
  const box = useRef(null);
  useEffect(() => {
    if (over) box.current.showModal();
  }, []);
  const { problem } = session.value;
  const act = useAction(async () => {
    const found = codeIn(typed);
    if (!found) throw { title: 'This is no login link', detail: 'it ends with # and 43 characters',
      remedy: 'run `desk page` in a terminal of the desk and copy its link' };
    const failed = await login(found.code);
    if (failed) throw failed;
    if (found.path !== '/') go(found.path);
  });
  return html`<${over ? 'dialog' : 'div'} ref=${box} class=${over ? 'login over' : 'login'}
    onCancel=${(event) => event.preventDefault()} onClose=${() => box.current?.showModal()}>
    <${Form} class="panel" run=${act.run} aria-label="Log in">
    <h1>Chordesk</h1>
    <p>${over ? 'The session has ended. What you typed is kept.'
      : 'You are not logged in.'} In a terminal of the desk run</p>
    <pre>desk page</pre>
    <p>and open the link that it prints, or paste it here. It works once, for a minute.</p>
    <${Field} label="Link or code" value=${typed} onText=${setTyped} autocomplete="off" spellcheck="false" />
    <${ProblemBox} problem=${act.problem ?? (problem?.kind === 'no_token' ? null : problem)} />
    <div class="buttons"><button type="submit" class="primary" disabled=${!typed || act.busy}>Log in</button></div>
  <//><//>`;
}

function Help({ onClose }) {
  const groups = Object.groupBy(bindings.value, (one) => one.group);
  return html`<${Dialog} title="The keys" onClose=${onClose}><div class="keys">
    ${Object.entries(groups).map(([group, keys]) => html`<section><h3>${group}</h3><dl>${keys.map((one) => html`<div>
      <dt>${one.keys.split(' ').map((key) => html`<kbd>${key}</kbd> `)}</dt><dd>${one.what}</dd></div>`)}</dl>
      </section>`)}</div><//>`;
}

await begin();
render(html`<${App} />`, Object.assign(document.getElementById('app'), { textContent: '' }));
window.addEventListener('hashchange', ({ oldURL }) => {
  const found = codeIn(location.hash);
  if (!found) return;
  // A link without a view, opened where a session has ended, goes on with the view that it was on.
  const before = new URL(oldURL).hash;
  replace(found.path === '/' && before.startsWith('#/') && session.value.state === 'out' ? before : `#${found.path}`);
  login(found.code);
});
