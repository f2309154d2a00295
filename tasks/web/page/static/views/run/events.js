// What happened in a run, as it happens, and what its models are saying.

import { compact, figure, moment, moments, span, zone } from '../../lib/format.js';
import { html, useCallback, useMemo, useRef, useState } from '../../lib/html.js';
import { useLive } from '../../lib/live.js';
import { setQuery } from '../../lib/router.js';
import { useBounded } from '../../lib/store.js';
import { Badge, Empty, LiveBadge, OrderLink, Panel, Segments, ThreadLink, VirtualList } from '../../lib/ui.js';
import { plain, short } from '../../lib/text.js';

const MOST = 10_000;
const MOST_TURNS = 12; // whose words are kept
const TAIL = 600; // characters of each
const DOMAINS = [['', 'All'], ['status', 'Steps'], ['turn', 'Turns'], ['tool', 'Tools'], ['order', 'Orders'], ['approval', 'Approvals']];

/** The events of a run from its first: {list, live, texts, missed}. onFound: gets each batch. */
export function useEvents(path, speaking, onFound) {
  const [list, add, clear] = useBounded(MOST);
  const [missed, setMissed] = useState(null);
  const last = useRef(0);
  const texts = useRef(new Map());
  // Another question needs another stream: it goes on where this one is.
  const since = useMemo(() => last.current, [path, speaking]);
  const live = useLive(`${path}/events`, {
    query: { bodies: false, ...(speaking ? { deltas: true } : {}) },
    since,
    onEvents: (events) => {
      const stored = events.filter((event) => event.sequence !== null && event.sequence > last.current);
      if (stored.length) last.current = stored.at(-1).sequence;
      for (const event of events) keepText(texts.current, event);
      add(stored);
      onFound(stored);
    },
    onGap: (problem) => {
      clear();
      setMissed(problem);
    },
  });
  return { list, live, texts: texts.current, missed };
}

/** Keep the end of what each turn says; a message that is complete leaves. */
export function keepText(texts, event) {
  if (event.type === 'item.delta') {
    const key = event.turn_id ?? event.thread_id;
    const before = texts.get(key);
    const text = `${before?.item === event.item_id ? before.text : ''}${event.payload.text ?? ''}`.slice(-TAIL);
    texts.delete(key);
    texts.set(key, { text, item: event.item_id, thread: event.thread_id, turn: event.turn_id, role: event.payload.role ?? before?.role });
    if (texts.size > MOST_TURNS) texts.delete(texts.keys().next().value);
  } else if (event.type.startsWith('turn.') && !['turn.started', 'turn.usage', 'turn.progress'].includes(event.type)) {
    texts.delete(event.turn_id);
  }
}

export function Spoken({ events, on, setOn, offered, sent }) {
  if (!offered && !on) return null;
  const rows = [...events.texts.values()].reverse();
  return html`<${Panel} title="What models are saying" tools=${html`<label class="check"><input type="checkbox" checked=${on} onChange=${(event) => setOn(event.target.checked)} />show it while it is written</label>`}>
    ${!on ? html`<p class="quiet">Off: answers are in the threads when they are complete.</p>`
      : sent === false ? html`<${Empty} title="This desk does not send it">start the desk with <code>DESK_EVENT_DELTAS=true</code><//>`
        : rows.length ? html`<ul class="spoken">${rows.map((row) => html`<li key=${row.turn}><${ThreadLink} id=${row.thread} /> <bdi class="words">${plain(row.text)}</bdi></li>`)}</ul>`
          : html`<p class="quiet" role="status">No model says anything right now.</p>`}
  <//>`;
}

export function Events({ events, query }) {
  const domain = query.events ?? '';
  const { list, missed } = events;
  const items = useMemo(() => (domain ? list.items.filter((event) => event.domain === domain) : list.items), [list.items, domain]);
  const ny = zone.value;
  const row = useCallback((event) => rowOf(event), [ny]);
  return html`<${Panel} title="Events" tools=${html`<${Segments} label="Events of" value=${domain} onChange=${(value) => setQuery({ events: value })} options=${DOMAINS} /><${LiveBadge} live=${events.live} />`}>
    ${missed && html`<p class="stale"><${Badge} tone="warn">not all<//> earlier events are no longer kept: ${plain(missed.detail)}</p>`}
    ${list.dropped > 0 && html`<p class="quiet">The newest ${MOST.toLocaleString('en-US')} are shown.</p>`}
    ${items.length
      ? html`<${VirtualList} className="events" label="List of events" items=${items} row=${row} stick dropped=${domain ? 0 : list.dropped} height=${22} />`
      : html`<${Empty} title=${list.items.length ? 'No event is like that' : 'No events'} />`}
  <//>`;
}

const TONES = { done: 'good', completed: 'good', filled: 'good', failed: 'bad', error: 'bad', refused: 'bad', rejected: 'bad', denied: 'bad', unknown: 'bad', lost: 'bad', again: 'warn', interrupted: 'warn', stopped: 'warn', stopping: 'warn' };
const MARKS = { good: '●', warn: '▲', bad: '■', plain: '○' };

function rowOf(event) {
  const { payload } = event;
  const ended = String(payload.state ?? payload.outcome ?? event.type.split('.')[1]);
  const tone = payload.success === false ? 'bad' : TONES[ended] ?? 'plain';
  return html`<time class="num quiet" title=${moments(event.occurred_at)}>${moment(event.occurred_at, 'time')}</time>
    <span class=${`type badge ${tone}`}>${MARKS[tone]} ${plain(event.type)}</span>
    <bdi class="about">${about(event)}</bdi>
    ${payload.order ? html`<${OrderLink} id=${payload.order} />` : event.thread_id ? html`<${ThreadLink} id=${event.thread_id}>thread<//>` : ''}`;
}

/** What an event is about, as one line of text. */
export function about({ type, payload }) {
  const subject = [payload.role, payload.kind, payload.subject, payload.symbol].filter(Boolean).join(' ');
  const more = {
    'tool.started': () => `${payload.tool} ${payload.arguments ?? ''}`,
    'tool.completed': () => `${payload.tool} ${payload.success ? '' : 'failed '}${payload.answer ?? ''}`,
    'turn.usage': () => `${compact(payload.total_tokens)} tokens`,
    'turn.progress': () => `${subject} ${payload.phase} for ${span(payload.seconds * 1000)}, ${compact(payload.tokens)} tokens, call ${payload.calls}`,
    'turn.completed': () => `${subject} ${span(payload.ms)}`,
    'item.completed': () => `${payload.type ?? ''} ${payload.text ?? ''}`,
    'item.started': () => payload.type ?? '',
    'order.fill': () => `${payload.side} ${figure(payload.quantity, 0)} ${payload.symbol} at ${figure(payload.price, 4)}`,
    'order.state': () => `${payload.symbol} ${payload.was ? `${payload.was} → ` : ''}${payload.state} ${payload.why ?? ''}`,
    'status.started': () => `${subject}${payload.attempt > 1 ? `, attempt ${payload.attempt}` : ''} on ${payload.owner}`,
    'status.again': () => `${subject}, attempt ${payload.attempt} ${payload.outcome}: ${payload.why ?? ''}`,
    'status.ended': () => `${subject} ${payload.state} ${payload.why ?? ''}`,
    'run.completed': () => `${payload.state} ${(payload.notes ?? []).join('; ')}`,
    'thread.started': () => `${subject} ${payload.model ?? ''}`,
  }[type];
  return short(more ? more() : [subject, payload.what, payload.why, payload.state].filter(Boolean).join(' '), 200);
}
