// One run: from the universe to the fills, its steps on a timeline, its candidates, and what happens while it runs.

import { get } from '../lib/api.js';
import { compact, count, between, money, span } from '../lib/format.js';
import { html, useEffect, useMemo, useState } from '../lib/html.js';
import { useKeys } from '../lib/keys.js';
import { part, setQuery } from '../lib/router.js';
import { useResource } from '../lib/store.js';
import { ActionButton, Badge, Facts, Link, Loaded, LiveBadge, Panel, ProblemBox, RunLink, SaveButton, Text, Time } from '../lib/ui.js';
import { plain, shortId } from '../lib/text.js';
import { Analyses } from './run/analyses.js';
import { Candidates } from './run/candidates.js';
import { Compare } from './run/compare.js';
import { Events, Spoken, useEvents } from './run/events.js';
import { Funnel } from './run/funnel.js';
import { Timeline } from './run/timeline.js';

const FINAL = new Set(['done', 'partial', 'failed', 'stopped']);
const SOON_MS = 2_000;
// Which events make which part of the view out of date.
const CHANGES = {
  steps: /^(status|turn\.(completed|failed|interrupted|refused)|run)\b/,
  results: /^(status\.ended|order|approval|run)\b/,
};
// Kinds of runs that have a view of their own as well.
const MORE = { episode: ['/board/', 'its board'], backtest: ['/backtests/', 'its backtest'] };

export const title = ({ run }) => `Run ${shortId(run)}`;

export default function Run({ params, query }) {
  return html`<${One} key=${params.run} run=${params.run} query=${params.other ? { with: params.other, ...query } : query} />`;
}

function One({ run, query }) {
  const path = `/runs/${part(run)}`;
  const load = (way) => ({ signal }) => get(`${path}${way}`, {}, { signal });
  const detail = useResource(load(''), [path]);
  const funnel = useResource(load('/funnel'), [path]);
  const timeline = useResource(load('/timeline'), [path]);
  const table = useResource(load('/table'), [path]);
  const all = [detail, funnel, timeline, table];
  const [speaking, setSpeaking] = useState(false);
  const events = useEvents(path, speaking, (found) => {
    if (found.some((event) => CHANGES.steps.test(event.type))) [detail, timeline].forEach((one) => one.soon(SOON_MS));
    if (found.some((event) => CHANGES.results.test(event.type))) [funnel, table].forEach((one) => one.soon(SOON_MS));
  });
  const again = () => all.forEach((one) => one.reload());
  useKeys([['r', 'Load again', again], ['c', 'All candidates', () => setQuery({ stage: '', label: '' })]]);
  // A stream that ended brought the last changes; what was loaded before them is old.
  const { state } = events.live;
  useEffect(() => {
    if (state === 'ended' && detail.data && !FINAL.has(detail.data.state)) again();
  }, [state]);

  const gone = [detail.problem, events.live.problem].find((problem) => problem?.status === 404 || problem?.status === 410);
  if (gone && !detail.data) {
    return html`<div class="view"><h1>Run ${shortId(run)}</h1><${ProblemBox} problem=${gone} again=${detail.reload} />
      <p><${Link} to="/runs">All runs<//></p></div>`;
  }
  const found = detail.data;
  return html`<div class="view run-view">
    <h1>Run <span class="id">${shortId(run)}</span> ${found && html`<span class="quiet">${plain(found.kind)}</span> <${Badge}>${found.state}<//>`}
      ${found && !FINAL.has(found.state) && html`<${LiveBadge} live=${events.live} />`}
      <span class="h1-tools">${found && !gone && html`<${SaveButton} label="Save the report" path=${`${path}/report`} name=${`${found.kind}-${shortId(run)}.html`} />`} ${found && !gone && !FINAL.has(found.state) && html`<${Stop} path=${path} state=${found.state} done=${again} />`}</span></h1>
    <div class="stack">
      ${gone && html`<div class="problem" role="alert"><strong>This run was deleted</strong><p>What is shown is what was loaded before; nothing of it can be loaded again. <${Link} to="/runs">All runs<//></p></div>`}
      <${Loaded} from=${gone ? { ...detail, problem: null, stale: false } : detail} what="the run">${(data) => html`<${Head} run=${data} />`}<//>
      <${Panel} title="Funnel" tools=${query.stage && html`<button type="button" onClick=${() => setQuery({ stage: '', label: '' })}>Show all candidates</button>`}>
        <${Loaded} from=${funnel} what="the funnel">${(data) => html`<${Funnel} stages=${data.stages} stage=${query.stage} label=${query.label} />`}<//>
      <//>
      <${Candidates} table=${table} funnel=${funnel} query=${query} ended=${found && FINAL.has(found.state)} />
      ${found && found.analyses?.length > 0 && html`<${Analyses} rows=${found.analyses} />`}
      <${Spoken} events=${events} on=${speaking} setOn=${setSpeaking} offered=${found && !FINAL.has(found.state)} sent=${found?.settings?.event_deltas} />
      <div class="pair">
        <${Timeline} from=${timeline} query=${query} />
        <${Events} events=${events} query=${query} />
      </div>
      <${Compare} run=${found} path=${path} other=${query.with} />
    </div>
  </div>`;
}

function Stop({ path, state, done }) {
  return html`<${ActionButton} label="Stop the run" className="danger" path=${`${path}/stop`} done=${done} disabled=${state === 'stopping'}
    confirm=${{ title: 'Stop this run', children: html`<p>Its turns are interrupted now, and none of its orders is submitted any more. What is done already stays. It cannot be started again where it was.</p>` }} />`;
}

function Head({ run }) {
  const progress = run.progress ?? {};
  const [steps, ended] = useMemo(() => {
    const counts = Object.values(progress.steps ?? {});
    return [counts.reduce((sum, [, all]) => sum + all, 0), counts.reduce((sum, [done]) => sum + done, 0)];
  }, [progress.steps]);
  const standing = run.standing;
  return html`<section class="panel head" aria-label="The run"><div class="body">
    <${Facts} rows=${[
      ['Began', html`<${Time} at=${run.created_at} />`],
      ['Took', html`<span class="num">${span(between(run.created_at, run.finished_at))}</span>${run.finished_at ? '' : ' so far'}`],
      ['Steps', html`<span class="num">${count(ended)} of ${count(steps)}</span>`],
      ['Turns', html`<span class="num">${count(progress.turns)}</span>${progress.turns_in_flight ? html` <span class="quiet">+ ${count(progress.turns_in_flight)} in flight${slow(progress.phases)}</span>` : ''}`],
      ['Tokens', html`<span class="num" title=${count(progress.tokens)}>${compact(progress.tokens)}</span>`],
      ['Money', html`<${Cost} cost=${run.cost} />`],
      ['Market', html`<${Text}>${run.market}<//> <${Time} at=${run.market_now} parts="both" />`],
      ['Model', html`<${Text} most=${60}>${run.model}<//>`],
      ['Orders', standing ? html`<${Badge} tone=${standing.real_money ? 'bad' : standing.live ? 'warn' : 'plain'}>${standing.real_money ? 'live, real money' : standing.live ? 'live, play money' : 'preview'}<//> <${Text}>${run.account}<//>` : html`<${Text}>${run.account}<//>`],
      ['More', MORE[run.kind] ? html`<${Link} to=${`${MORE[run.kind][0]}${run.run_id}`}>${MORE[run.kind][1]}<//>` : undefined],
      ['Verdicts of', run.source_run ? html`<${RunLink} id=${run.source_run} />` : undefined],
    ]} />
    ${run.notes?.length > 0 && html`<ul class="notes">${run.notes.map((note) => html`<li><${Badge} tone="warn">note<//> <${Text}>${note}<//></li>`)}</ul>`}
  </div></section>`;
}

const PHASES = { waiting: 'waiting for a first token', reasoning: 'reasoning', writing: 'writing', tools: 'waiting for a tool' };

/** What those of a run's turns do that take long. */
function slow(phases) {
  const parts = Object.entries(phases ?? {}).map(([phase, turns]) => `${count(turns)} ${PHASES[phase] ?? phase}`);
  return parts.length ? `: ${parts.join(', ')}` : '';
}

/** What the turns cost: known, partly known, or why not. */
function Cost({ cost }) {
  if (!cost) return html`<span class="quiet">not known</span>`;
  if (cost.rules) return html`<span class="quiet" title="the rulebook is no model, and costs nothing">rules, no model</span>`;
  if (cost.local && !cost.usd && !cost.unpriced?.length) return html`<span class="quiet">local, no price</span>`;
  const left = [cost.unpriced?.length && `no price for ${cost.unpriced.map(plain).join(', ')}`, cost.uncounted && `${count(cost.uncounted)} turns without a count of tokens`].filter(Boolean).join('; ');
  return html`<span class="num" title=${left || undefined}>${money(cost.usd)}</span>${left && html` <${Badge} tone="warn" title=${left}>incomplete<//>`}`;
}
