// A thread: its turns, and one of them whole, with what the model was asked, what tools answered and what it said.

import { get } from '../lib/api.js';
import { html } from '../lib/html.js';
import { useKeys } from '../lib/keys.js';
import { useLive } from '../lib/live.js';
import { href, setQuery } from '../lib/router.js';
import { compact, span } from '../lib/format.js';
import { useResource } from '../lib/store.js';
import { Badge, Empty, Facts, Loaded, LiveBadge, Panel, RunLink, Text, ThreadLink, Time } from '../lib/ui.js';
import { plain, shortId } from '../lib/text.js';
import { Asking, Forking } from './threads/fork.js';
import { Subject } from './threads/subject.js';
import { WholeTurn } from './threads/turn.js';

const EVERY_MS = 30_000;
const FOLLOWED = { type: ['turn', 'thread'], bodies: false };

export const title = (params) => `Thread ${shortId(params.thread)}`;

export default function Thread({ params, query }) {
  const path = `/threads/${encodeURIComponent(params.thread)}`;
  const thread = useResource(({ signal }) => get(path, {}, { signal }), [params.thread], { every: EVERY_MS });
  const live = useLive('/events', { query: FOLLOWED, onEvents: (events) => events.some((one) => one.thread_id === thread.data?.thread.thread_id) && thread.soon(400), onGap: thread.reload });
  return html`<div class="view"><${Loaded} from=${thread} what="the thread">${(found) => html`<${Whole} path=${path} found=${found} chosen=${query.turn} live=${live} again=${thread.reload} />`}<//></div>`;
}

function Whole({ path, found, chosen, live, again }) {
  const { thread, turns, forks, missing } = found;
  const at = Math.max(chosen ? turns.findIndex((one) => one.turn_id === chosen) : turns.length - 1, 0);
  const choose = (index) => turns[index] && setQuery({ turn: turns[index].turn_id });
  useKeys([['r', 'Load again', again], ['n', 'Next turn', () => choose(at + 1)], ['b', 'Turn before', () => choose(at - 1)]], 'This thread', [at, turns.length]);
  const turn = turns[at];
  return html`<h1><span>Thread <code>${shortId(thread.thread_id)}</code></span> <${Text}>${thread.role}<//> <${Subject} subject=${thread.subject} />${' '}
      <${Badge} tone=${thread.busy ? 'busy' : thread.current ? 'good' : 'plain'}>${thread.busy ? 'in use' : thread.current ? 'current' : 'past'}<//> <${LiveBadge} live=${live} /></h1>
    ${chosen && turns.length > 0 && turns[at].turn_id !== chosen && html`<p class="notice warn" role="status">Turn <code>${shortId(chosen)}</code> is not among the turns of this thread: it was deleted with its run, or never ended.</p>`}
    ${missing && html`<p class="quiet">Prompts are not shown: <${Text}>${missing}<//></p>`}
    <div class="thread">
      <${Panel} title="Turns" className="turns"><${Turns} rows=${turns} at=${at} />
        <${Facts} rows=${[
          ['Model', html`<${Text}>${thread.model}<//>`],
          ['Begun', html`<${Time} at=${thread.created_at} /> ${plain(thread.reason).replaceAll('_', ' ')}`],
          ['Fork of', thread.parent_id ? html`<${ThreadLink} id=${thread.parent_id} />` : undefined],
          ['Forks', forks.length ? forks.map((id) => html`<${ThreadLink} id=${id} /> `) : undefined],
          ['Worker', thread.owner ? html`<code><${Text}>${thread.owner}<//></code>` : undefined],
        ]} /><//>
      <div class="stack">${turn ? html`<${WholeTurn} key=${turn.turn_id} path=${path} at=${at} line=${turn} />` : html`<${Panel} title="Turn"><${Empty} title="It has no turn" /><//>`}
        <${Forking} path=${path} turns=${turns.length} at=${at} kept=${!missing} />
        ${thread.parent_id && html`<${Asking} path=${path} thread=${thread.thread_id} again=${again} />`}</div>
    </div>`;
}

function Turns({ rows, at }) {
  if (!rows.length) return html`<${Empty} title="No turn yet" />`;
  return html`<ol class="turnlist">${rows.map((row, index) => html`<li key=${row.turn_id} data-row class=${index === at ? 'on' : ''}>
    <a href=${href(location.hash.slice(1).split('?')[0], { turn: row.turn_id })} aria-current=${index === at ? 'true' : undefined} onClick=${(event) => { event.preventDefault(); setQuery({ turn: row.turn_id }); }}>
      <span class="row"><strong class="num">${row.ordinal}</strong> <${Badge}>${row.outcome}<//> <span class="quiet num">${span(row.seconds === null ? null : row.seconds * 1000)}, ${compact(row.tokens)} tokens</span></span>
      <span class="line"><${Text} most=${90}>${row.answer ?? row.prompt ?? ''}<//></span></a>
    <span class="quiet">${row.run_id ? html`run <${RunLink} id=${row.run_id} />` : 'outside any run'}${row.started_at && html`, <${Time} at=${row.started_at} />`}</span></li>`)}</ol>`;
}
