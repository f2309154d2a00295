// The timeline: who did what when, in lanes of workers or of roles, with attempts, takeovers and waits.

import {
  badgeOf, between, compact, Facts, go, html, joined, Loaded, numOf, Panel, part, plain, quietOf, seconds, Segments,
  setQuery, span, textOf, threadOf, timeOf, useEffect, useMemo, useNow, useRef, useState,
} from '../lib/view.js';

const NAMES = { done: 'done', running: 'running', again: 'to be tried again', lost: 'worker lost', failed: 'failed',
  stopped: 'stopped' };
const TONES = Object.keys(NAMES);
const MOST_ZOOM = 256;

export function Timeline({ from, query }) {
  const by = query.lanes === 'worker' ? 'worker' : 'role';
  return html`<${Panel} title="Timeline" tools=${html`<${Segments} label="Lanes" value=${by}
    onChange=${(value) => setQuery({ lanes: value === 'role' ? '' : value })}
    options=${[['role', 'Roles'], ['worker', 'Workers']]} />`}>
    <${Loaded} from=${from} what="the timeline" empty="No step yet" isEmpty=${(data) => !data.timeline.steps.length}>
      ${(data) => html`<${Lanes} data=${data.timeline} at=${from.at} by=${by} />`}<//><//>`;
}

function Lanes({ data, at, by }) {
  const clock = useNow(data.finished_at ? 0 : 1_000);
  const now = data.finished_at ? null : between(data.created_at, data.now) + clock - at.getTime();
  const bars = useMemo(() => barsOf(data, by, now), [data, by, now]);
  const lanes = useMemo(() => packed(bars, by === 'worker' ? data.workers : []), [bars]);
  const [zoom, setZoom] = useState(1);
  const [[chosen, over], setPointed] = useState([null, null]);
  const box = useRef(null);
  const begin = bars.reduce((least, bar) => Math.min(least, bar.ready), 0);
  const whole = bars.reduce((most, bar) => Math.max(most, bar.until), 1) * 1.01 - begin;
  const share = (ms) => `${(100 * ms) / whole}%`;
  const left = (ms) => share(ms - begin);
  const find = (key) => (key ? bars.find((bar) => keyOf(bar) === key) : null);
  const zoomed = (factor) => setZoom((was) => Math.min(Math.max(was * factor, 1), MOST_ZOOM));
  const reveal = () => box.current.querySelector('.marked')?.scrollIntoView({ block: 'nearest', inline: 'nearest' });
  useEffect(reveal, [chosen, zoom]);
  const keyAt = (event) => event.target.closest('[data-bar]')?.dataset.bar ?? null;
  const press = (event) => {
    const place = bars.findIndex((bar) => keyOf(bar) === chosen);
    const [bar, near] = [bars[place], (step) => bars[Math.min(Math.max(place + step, 0), bars.length - 1)]];
    const choose = (next) => next && setPointed([keyOf(next), null]);
    const below = (one) => one.top > (bar?.top ?? -1) && one.until >= (bar?.from ?? 0);
    const above = (one) => one.top < (bar?.top ?? Infinity) && one.from <= (bar?.until ?? Infinity);
    const acts = {
      ArrowRight: () => choose(near(1)), ArrowLeft: () => choose(near(-1)), ArrowDown: () => choose(bars.find(below)),
      ArrowUp: () => choose(bars.findLast(above)), Home: () => choose(bars[0]), End: () => choose(bars.at(-1)),
      '+': () => zoomed(2), '-': () => zoomed(0.5), 0: () => setZoom(1),
      Enter: () => {
        const turn = bar?.attempt?.turns.findLast((one) => one.thread_id);
        if (turn) go(`/threads/${part(turn.thread_id)}`, { turn: turn.turn_id });
      },
    };
    if (!acts[event.key] || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    event.stopPropagation();
    acts[event.key]();
  };
  return html`<div class="row lanes-tools">
      <button type="button" aria-label="Zoom in" onClick=${() => zoomed(2)} disabled=${zoom === MOST_ZOOM}>+</button>
      <button type="button" aria-label="Zoom out" onClick=${() => zoomed(0.5)} disabled=${zoom === 1}>−</button>
      <button type="button" onClick=${() => setZoom(1)} disabled=${zoom === 1}>Whole run</button>
      <${Legend} bars=${bars} />
      ${data.expected.length > 0 && quietOf(`still to come: ${data.expected.map(plain).join(', ')}`)}</div>
    <div class="lanes" ref=${box} tabindex="0" role="group" onKeyDown=${press}
      onPointerOver=${(event) => setPointed([chosen, keyAt(event)])} onPointerLeave=${() => setPointed([chosen, null])}
      onClick=${(event) => setPointed([keyAt(event), null])} aria-label="Timeline of steps. Arrows: from step to step;
        plus, minus: zoom; 0: the whole run; Enter: the thread"><div class="field" style=${{ width: `${zoom * 100}%` }}>
      <div class="axis" aria-hidden="true">${ticks([begin, begin + whole], 8 * zoom).map((ms) => html`<span key=${ms}
        style=${{ left: left(ms) }}>${ms < 0 ? '' : ms === 0 ? 'begin' : span(ms).replace('.0 s', ' s')}</span>`)}</div>
      ${lanes.map((lane) => html`<div key=${lane.name} class="lane" style=${{ height: `${lane.height}px` }}>
        <strong>${plain(lane.name)}</strong>${lane.bars.map((bar) => html`<${Bar} key=${keyOf(bar)} bar=${bar}
          left=${left} share=${share} marked=${keyOf(bar) === chosen} />`)}</div>`)}
      ${now !== null && html`<div class="now-line" style=${{ left: left(now) }}></div>`}</div></div>
    <${Chosen} bar=${find(over) ?? find(chosen)} />`;
}

const keyOf = (bar) => `${bar.step.id}/${bar.attempt?.attempt ?? 0}`;

function Bar({ bar, left, share, marked }) {
  const { from, until, ready, row, tall, tone, attempt, step, turns } = bar;
  const [top, height] = [`${LANE_HEAD + row * tall}px`, `${tall - 2}px`];
  const within = (ms) => `${(100 * ms) / Math.max(until - from, 1)}%`;
  const looks = ['bar', tone, marked && 'marked', attempt?.taken_over && 'taken'].filter(Boolean).join(' ');
  return html`${from > ready
      && html`<i class="waits" style=${{ left: left(ready), width: share(from - ready), top, height }}></i>`}
    ${attempt && html`<div data-bar=${keyOf(bar)} class=${looks}
      style=${{ left: left(from), width: share(until - from), top, height }}>
      ${tall >= TALLEST && plain([step.subject, step.role || step.kind].filter(Boolean).join(' '))}
      ${turns.map(([begun, ended]) =>
        html`<i class="turn" style=${{ left: within(begun - from), width: within(ended - begun) }}></i>`)}</div>`}`;
}

/** What the looks mean: those that there are. */
function Legend({ bars }) {
  const looks = [...TONES.map((tone) => [NAMES[tone], `bar ${tone}`, (bar) => bar.attempt && bar.tone === tone]),
    ['turn', 'turn', (bar) => bar.turns.length], ['waited', 'waits', (bar) => bar.from > bar.ready],
    ['taken over', 'bar taken', (bar) => bar.attempt?.taken_over]];
  return html`<span class="legend">${looks.filter(([, , of]) => bars.some(of)).map(([name, look]) =>
    html`<span class="swatch"><i class=${look}></i>${name}</span>`)}</span>`;
}

function Chosen({ bar }) {
  if (!bar) return html`<p class="quiet chosen-bar">Point at a bar, or go through them with the arrow keys, to see its
    attempt.</p>`;
  const { step, attempt } = bar;
  const why = attempt?.reason || step.error;
  return html`<div class="chosen-bar" aria-live="polite"><${Facts} rows=${[
    ['Step', textOf(step.title || step.kind)],
    ['Subject', step.subject ? textOf(step.subject, 60) : undefined],
    ['Role', step.role ? textOf(step.role) : undefined],
    ['Attempt', attempt ? html`${numOf(`${attempt.attempt} of ${step.max_attempts}`)} ${attempt.taken_over
      && badgeOf('taken over', 'warn')}` : 'not begun'],
    ['Ended as', attempt ? badgeOf(attempt.outcome, { lost: 'bad', again: 'warn' }[attempt.outcome])
      : badgeOf(step.state)],
    ...(attempt ? [['Began', timeOf(attempt.started_at, 'time')], ['Waited', numOf(seconds(attempt.waited))],
      ['Took', html`${numOf(span(bar.until - bar.from))}${bar.open && ' so far'}`], ['Worker', textOf(attempt.worker)],
      ['Turns', attempt.turns.length ? attempt.turns.map((turn) => html`${threadOf(turn.thread_id,
        `${plain(turn.outcome)}, ${compact(turn.tokens)} tokens`)} `) : undefined],
    ] : [['Waited', numOf(span(bar.until - bar.ready))]]),
    ['Why', why ? textOf(why) : undefined],
  ]} /></div>`;
}

/** The bars of a timeline, by begin: {from, until, ready, lane, tone, step, attempt}; times in ms since the run began.
 * by: 'worker' or 'role'. now: ms since the run began, where open bars end; null of a run that has ended. */
function barsOf(timeline, by, now) {
  const at = (time) => between(timeline.created_at, time);
  const end = now ?? at(timeline.finished_at);
  /** @type {any[]} */
  const bars = [];
  for (const step of timeline.steps.map(joined('step'))) {
    for (const attempt of step.attempts) {
      const from = at(attempt.started_at);
      bars.push({
        from, until: attempt.ended_at ? Math.max(at(attempt.ended_at), from) : Math.max(end, from),
        ready: from - (attempt.waited ?? 0) * 1000,
        lane: by === 'role' ? step.role || step.kind : attempt.worker || 'no worker',
        tone: TONES.includes(attempt.outcome) ? attempt.outcome : 'again', open: !attempt.ended_at, step, attempt,
        turns: attempt.turns.map((turn) => [at(turn.started_at), at(turn.finished_at)]),
      });
    }
    // A step that nobody has begun is a wait that still lasts.
    if (step.state === 'ready') bars.push({ from: end, until: end, ready: Math.min(at(step.due_at), end),
      lane: by === 'role' ? step.role || step.kind : 'waits for a worker', tone: 'waiting', open: true, step,
      attempt: null, turns: [] });
  }
  return bars.sort((a, b) => a.from - b.from);
}

const LANE_HEAD = 16; // px above each lane, for its name
const TALLEST = 16; // px of a row, in which a name can be read

/** The lanes: [{name, height, bars}]. Bars of a lane that overlap lie in rows below each other: each gets its `row`,
 * its height `tall`, and its `top` among all. names: of lanes that come first. */
function packed(bars, names) {
  const lanes = new Map(names.map((name) => [name, { name, ends: [], bars: [] }]));
  for (const bar of bars) {
    if (!lanes.has(bar.lane)) lanes.set(bar.lane, { name: bar.lane, ends: [], bars: [] });
    const lane = lanes.get(bar.lane);
    const free = lane.ends.findIndex((until) => until <= bar.from);
    bar.row = free < 0 ? lane.ends.length : free;
    lane.ends[bar.row] = Math.max(bar.until, bar.from + 1);
    lane.bars.push(bar);
  }
  const shown = [...lanes.values()].filter((lane) => lane.bars.length);
  const rows = shown.reduce((sum, lane) => sum + lane.ends.length, 0);
  const tall = rows <= 30 ? TALLEST : rows <= 90 ? 10 : 6;
  let top = 0;
  return shown.map(({ name, ends, bars: own }) => {
    for (const bar of own) Object.assign(bar, { tall, top: top + bar.row });
    top += ends.length;
    return { name, bars: own, height: LANE_HEAD + ends.length * tall + 6 };
  });
}

const STEPS = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1e3, 2e3, 5e3, 1e4, 15e3, 3e4, 6e4, 12e4, 3e5, 6e5, 9e5, 18e5, 36e5,
  72e5, 216e5, 432e5, 864e5];

/** Round moments for the axis of a range, at most `most`. */
function ticks([from, until], most) {
  const step = STEPS.find((one) => (until - from) / one <= most) ?? 864e5 * Math.ceil((until - from) / 864e5 / most);
  const found = [];
  for (let at = Math.ceil(from / step) * step; at <= until; at += step) found.push(at);
  return found;
}
