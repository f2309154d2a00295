// The fleet: the life of each process, workers and their app-servers, queues, turns in flight, the oldest step, and
// parked models.

import {
  Ago, badgeOf, codeOf, column, count, Empty, Facts, figure, html, joined, Link, Loaded, money, number, numOf, Panel,
  plain, roomOf, runOf, seconds, symbolOf, TablePanel, textOf, useGet,
} from '../lib/view.js';

const EVERY_MS = 5_000;
const OLD_S = 15; // the desk reads its status again after 5 s

export function Fleet() {
  const kept = useGet('/status', {}, { every: EVERY_MS });
  return html`<div class="view"><h1>Fleet</h1><${Loaded} from=${kept} what="the fleet" isEmpty=${(found) =>
    !found.status} empty="The workers are being asked" hint="It takes a second or two.">${(found) =>
      html`<${Whole} ...${found} />`}<//></div>`;
}

function Whole({ status, age }) {
  const { database, redis } = status;
  return html`${age > OLD_S && html`<p class="stale" role="status">${badgeOf('stale', 'warn')}
      ${' '}read ${numOf(seconds(age))} ago</p>`}
    ${Object.entries(status.trouble).map(([part, why]) =>
      html`<p class="notice bad" role="status">${badgeOf(part, 'bad')} ${textOf(why)}</p>`)}
    ${status.short.map((one) => html`<p class="notice bad" role="status">${roomOf(one)} ${textOf(one.where)}${
      one.what === 'soundness' ? '; no step is taken and no order sent: see desk doctor'
        : one.what === 'home' ? '; no step is taken and no order sent until it is back'
        : `: ${figure((100 * one.left) / one.whole, 1)} % left${
          one.out ? '; no step is taken until there is room' : ''}`}</p>`)}
    <div class="grid">
    <${Panel} title="Now" className="whole"><${Facts} rows=${[
      ['Desk', status.running ? badgeOf('up') : badgeOf(status.held ? 'starting or ending' : 'no desk up', 'warn')],
      ['Workers', html`<strong class="num big">${count(status.workers.length)}</strong>`],
      ['Turns in flight', html`<strong class="num big">${count(status.turns_in_flight)}</strong>`],
      ['Steps held', numOf(count(status.workers.reduce((sum, one) => sum + one.steps_held, 0)))],
      ['Running runs', database ? html`<${Link} to="/runs" query=${{ state: 'running', backtests: 'yes' }}>
        ${numOf(count(Object.values(database.runs).reduce((sum, n) => sum + n, 0)))}<//>` : null],
      ['Trading', database ? html`<${Link} to="/account">${badgeOf(database.trading)}<//>` : null],
      ['Schedule', html`<${Link} to="/settings" query=${{ show: 'schedule' }}>${beatOf(status)}<//>`],
      ['Read', html`${numOf(seconds(age))} ago`],
    ]} /><//>
    <${TablePanel} title="Processes" className="whole" columns=${PROCESSES} rows=${status.processes}
      rowKey=${(row) => [row.host, row.name, row.pid].join()} empty="No process of the desk is known here" />
    <${TablePanel} title="Workers" className="whole" columns=${WORKERS} rows=${status.workers} rowKey="node"
      empty="No worker answers" hint=${html`<code>desk up</code> starts them.`} />
    <${TablePanel} title="App-servers" className="whole" columns=${SERVERS}
      rows=${status.workers.flatMap((worker) => worker.app_servers.map((one) => ({ ...one, node: worker.node })))}
      rowKey=${(row) => `${row.node}${row.pid}`} empty="No app-server runs"
      hint="A worker starts one with its first turn." />
    <${Panel} title="Queues">${redis ? html`<${Facts} rows=${[
      ...Object.entries(redis.queued).map(([queue, length]) => [queue, html`${numOf(count(length))} waiting`]),
      ['Held by workers', numOf(count(redis.held))],
      ...Object.entries(redis.places).map(([model, turns]) => [`Turns of ${plain(model)}`, numOf(count(turns))]),
    ]} />` : html`<${Empty} title="Not known: Redis does not answer" />`}<//>
    <${Panel} title="Steps">${database ? html`<${Steps} database=${database} />`
      : html`<${Empty} title="Not known: the database does not answer" />`}<//>
    ${status.quotas.length > 0 && html`<${TablePanel} title="Plans of accounts" className="whole" columns=${QUOTAS}
      rows=${status.quotas} rowKey="account" />`}
    <${TablePanel} title="Parked models" columns=${PARKED} rows=${redis?.parked ?? []} rowKey="model"
      empty=${redis ? 'None is parked' : 'Not known: Redis does not answer'} />
    ${database?.plans.length > 0 && html`<${TablePanel} title="Plans of positions" columns=${PLANS}
      rows=${database.plans} rowKey="symbol" />`}
    ${database?.unprotected.length > 0 && html`<${TablePanel} title="Shares without a stop" columns=${LACKING}
      rows=${database.unprotected} rowKey="symbol" />`}
  </div>`;
}

/** The life of beat, which its own loop tells; without a process of it what Redis has. */
function beatOf({ processes, redis }) {
  const [beat] = processes.filter((one) => one.role === 'beat');
  if (beat) return badgeOf(beat.state === 'runs' ? 'beat runs' : `beat: ${beat.state}`, lifeTone(beat));
  if (!redis) return 'not known';
  return redis.beat.running ? badgeOf('beat runs', 'good') : badgeOf('no beat runs', 'bad');
}

const lifeTone = ({ state }) => (state === 'runs' ? 'good' : state === 'slow' ? 'warn'
  : ['frozen', 'dead', 'unreachable'].includes(state) ? 'bad' : 'plain');
const PROCESSES = [
  ['Process', (row) => codeOf(row.of ? `${row.name} of ${row.of}` : row.name), '', 'name'],
  ['State', (row) => badgeOf(row.state, lifeTone(row)), '', 'state'],
  ['Last beat', (row) => (row.seconds === null ? '' : html`${seconds(row.seconds)} ago`), 'num', 'seconds'],
  ['Process id', (row) => row.pid || '', 'num wide', 'pid'], column('Host', codeOf, 'host', 'wide'),
  column('Why', textOf),
];
const WORKERS = [
  column('Worker', codeOf, 'node'),
  ['Queues', (row) => textOf(row.queues.join(', '))],
  number('Steps held', count),
  ['App-servers', (row) => count(row.app_servers.length), 'num wide'],
  number('MiB', count, 'rss_mb'),
  ['Process', (row) => row.pid, 'num wide'],
  ['Settings', (row) => (Object.keys(row.differs).length
    ? html`${badgeOf('differ', 'warn')} ${textOf(Object.keys(row.differs).join(', '), 60)}`
    : badgeOf('agree', 'good')), 'wide'],
  ['Room', (row) => row.short.map(roomOf), 'wide'], ['Trouble', (row) => textOf(row.trouble, 80), 'wide'],
];
const SERVERS = [
  column('Kind'), column('Worker', codeOf, 'node'), number('In flight', count), number('Turns ended', count, 'turns'),
  number('Age', seconds), number('MiB', count, 'rss_mb'),
  ['Process', (row) => row.pid, 'num wide'],
];
const QUOTAS = [
  column('Account'), column('Left', textOf, 'said'), ['Told', (row) => html`<${Ago} at=${row.quota.at} />`],
  ['Forecast', (row) => textOf(row.forecasts.join('; '))],
];
const PARKED = [column('Model'), number('For', seconds, 'seconds'), column('Why', textOf, 'reason')];
const PLANS = [
  column('Symbol', symbolOf), number('Shares', count, 'quantity'), number('Stop', money), number('Target', money),
  column('Ends'),
  ['Review', (row) => html`${row.due && badgeOf('due', 'warn')} ${textOf(row.review)}`],
];
const LACKING = [column('Symbol', symbolOf), number('Shares', count, 'quantity'), column('Why')];

function Steps({ database }) {
  const { sweep } = database;
  const oldest = database.oldest && joined('step')(database.oldest);
  return html`<${Facts} rows=${[
    ...Object.entries(database.steps).map(([state, number]) => [state, numOf(count(number))]),
    ['Last sweep', sweep.at ? html`<${Ago} at=${sweep.at} />${sweep.sweeping ? ', one runs now' : ''}` : 'none yet'],
  ]} />
  ${oldest ? html`<h3>The oldest step</h3>
    <p>${badgeOf(oldest.state)} ${plain(oldest.kind)} <strong>
    ${textOf([oldest.role, oldest.subject].filter(Boolean).join(' '))}</strong> of run ${runOf(oldest.run_id)},
    attempt ${numOf(`${oldest.attempt} of ${oldest.max_attempts}`)}, for ${numOf(seconds(oldest.seconds))}${oldest.owner
      && html`, held by ${codeOf(oldest.owner)}`}</p>
    ${oldest.error && html`<p class="notice warn">${textOf(oldest.error)}</p>`}`
    : html`<p class="quiet">No step is unfinished.</p>`}`;
}
