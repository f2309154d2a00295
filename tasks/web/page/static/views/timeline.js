// The timeline: who did what when, in lanes of workers or of roles, with attempts, takeovers and waits.
//
// All bars of one look are one path, so that 500 steps cost as many elements as five; the pointer is compared with
// numbers.

import {
  Badge, badgeOf, compact, date, Facts, go, html, joined, Loaded, moment, numOf, Panel, part, plain, Segments,
  setQuery, short, span, textOf, threadOf, useCallback, useEffect, useLayoutEffect, useMemo, useNow, useRef,
  useResized, useState,
} from '../lib/view.js';

const NAMES = { done: 'done', running: 'running', again: 'to be tried again', lost: 'worker lost', failed: 'failed',
  stopped: 'stopped' };
const TONES = Object.keys(NAMES);
const AXIS = 18;

export function Timeline({ from, query }) {
  const by = query.lanes === 'worker' ? 'worker' : 'role';
  return html`<${Panel} title="Timeline" tools=${html`<${Segments} label="Lanes" value=${by}
    onChange=${(value) => setQuery({ lanes: value === 'role' ? '' : value })}
    options=${[['role', 'Roles'], ['worker', 'Workers']]} />`}>
    <${Loaded} from=${from} what="the timeline" empty="No step yet" isEmpty=${(data) => !data.steps.length}>${(data) =>
      html`<${Lanes} data=${data} at=${from.at} by=${by} query=${query} />`}<//><//>`;
}

function Lanes({ data, at, by, query }) {
  const clock = useNow(data.finished_at ? 0 : 1_000);
  const now = data.finished_at ? null : date(data.now).getTime() - date(data.created_at).getTime()
    + clock - at.getTime();
  const [bars, lanes] = useMemo(() => {
    const found = barsOf(data, by, now);
    return [found, packed(found, by === 'worker' ? data.workers : [])];
  }, [data, by, now]);
  const whole = useMemo(() => {
    const last = bars.reduce((most, bar) => Math.max(most, bar.until), 1);
    return [Math.min(0, ...bars.map((bar) => bar.ready)), last * 1.01];
  }, [bars]);
  const [range, setRange] = useRange(query, whole);
  const [chosen, setChosen] = useState(null);
  const [over, setOver] = useState(null);
  const find = (key) => (key ? bars.find((bar) => keyOf(bar) === key) : null);
  const shown = find(over) ?? find(chosen);
  const zoom = (factor) => setRange(zoomed(range, whole, find(chosen) ? Math.min(Math.max(find(chosen).from, range[0]),
    range[1]) : (range[0] + range[1]) / 2, factor));
  const isWhole = range[0] <= whole[0] && range[1] >= whole[1];
  return html`<div class="row lanes-tools">
      <button type="button" aria-label="Zoom in" onClick=${() => zoom(0.5)}>+</button>
        <button type="button" aria-label="Zoom out" onClick=${() => zoom(2)} disabled=${isWhole}>−</button>
      <button type="button" onClick=${() => setRange(null)} disabled=${isWhole}>Whole run</button>
      <${Legend} bars=${bars} />
      ${data.expected.length > 0 && html`<span class="quiet">still to come: ${data.expected.map(plain).join(', ')}
        </span>`}</div>
    <${Picture} now=${now} bars=${bars} lanes=${lanes} range=${range} whole=${whole} setRange=${setRange}
      chosen=${chosen} setChosen=${setChosen} setOver=${setOver} zoom=${zoom} />
    <${Chosen} bar=${shown} />`;
}

const keyOf = (bar) => `${bar.step.id}/${bar.attempt?.attempt ?? 0}`;

/** The part of the run that is in sight: of the address, so that it can be shared; while a run goes on it grows
 * along. */
function useRange(query, whole) {
  const asked = /^(\d+)-(\d+)$/.exec(query.at ?? '');
  const range = asked && Number(asked[2]) > Number(asked[1]) ? within([Number(asked[1]), Number(asked[2])],
    whole) : whole;
  const waiting = useRef(null);
  const [moving, setMoving] = useState(null);
  useEffect(() => () => clearTimeout(waiting.current), []);
  const set = (next) => {
    setMoving(next);
    clearTimeout(waiting.current);
    waiting.current = setTimeout(() => {
      setQuery({ at: next && (next[0] > whole[0] || next[1] < whole[1])
        ? `${Math.max(Math.round(next[0]), 0)}-${Math.round(next[1])}` : '' });
      setMoving(null);
    }, next ? 200 : 0);
  };
  return [moving ?? range, set];
}

function Picture({ now, bars, lanes, range, whole, setRange, chosen, setChosen, setOver, zoom }) {
  const box = useRef(null);
  const [size, setSize] = useState({ width: 0, top: 0, tall: 360 });
  const measure = useCallback(() => {
    if (!box.current) return;
    const { clientWidth, clientHeight, scrollTop } = box.current;
    setSize((now) => (now.width === clientWidth && now.tall === clientHeight && now.top === scrollTop ? now
      : { width: clientWidth, tall: clientHeight, top: scrollTop }));
  }, []);
  useLayoutEffect(measure, []);
  useResized(box, measure);
  const { width } = size;
  const { paths, labels } = useMemo(
    () => drawing(bars, { range, width, rowHeight: lanes.rowHeight,
      seen: [size.top - 100, size.top + size.tall + 100] }),
    [bars, lanes, range[0], range[1], size],
  );
  const toX = (ms) => ((ms - range[0]) / Math.max(range[1] - range[0], 1)) * width;
  const toMs = (px) => range[0] + (px / Math.max(width, 1)) * (range[1] - range[0]);
  const drag = useRef(null);

  const place = (event) => {
    const frame = box.current.getBoundingClientRect();
    return [event.clientX - frame.left, event.clientY - frame.top + box.current.scrollTop - AXIS];
  };
  const at = (event) => {
    const [px, y] = place(event);
    return barAt(bars, toMs(px), y, lanes.rowHeight, 4 * ((range[1] - range[0]) / Math.max(width, 1)));
  };
  const down = (event) => {
    drag.current = { x: event.clientX, range, moved: false };
  };
  const moved = (event) => {
    if (!drag.current || !(event.buttons & 1)) {
      drag.current = null;
      const bar = at(event);
      setOver(bar ? keyOf(bar) : null);
      return;
    }
    const off = event.clientX - drag.current.x;
    if (!drag.current.moved && Math.abs(off) < 4) return;
    drag.current.moved = true;
    box.current.setPointerCapture(event.pointerId);
    const ms = (off / Math.max(width, 1)) * (drag.current.range[1] - drag.current.range[0]);
    setRange(within(drag.current.range.map((one) => one - ms), whole));
  };
  const up = (event) => {
    const was = drag.current;
    drag.current = null;
    if (was?.moved) return;
    const bar = at(event);
    setChosen(bar ? keyOf(bar) : null);
  };
  const wheel = (event) => {
    if (!event.ctrlKey && !event.metaKey) return;
    event.preventDefault();
    setRange(zoomed(range, whole, toMs(place(event)[0]), event.deltaY > 0 ? 1.25 : 0.8));
  };
  const choose = (bar) => {
    if (!bar) return;
    setChosen(keyOf(bar));
    setOver(null);
    if (bar.top < box.current.scrollTop) box.current.scrollTop = bar.top;
    else if (bar.top > box.current.scrollTop + size.tall - AXIS - 40) box.current.scrollTop = bar.top - size.tall / 2;
    if (bar.until < range[0] || bar.from > range[1]) setRange(
      within([bar.from, bar.from + range[1] - range[0]], whole));
  };
  const press = (event) => {
    const now = bars.findIndex((bar) => keyOf(bar) === chosen);
    const near = (step) => bars[Math.min(Math.max(now + step, 0), bars.length - 1)];
    const acts = {
      ArrowRight: () => choose(near(1)), ArrowLeft: () => choose(near(-1)), Home: () => choose(bars[0]),
        End: () => choose(bars.at(-1)),
      ArrowDown: () => choose(bars.find((bar) => bar.top > (bars[now]?.top ?? -1) && bar.until >= (bars[now]?.from
        ?? 0)) ?? bars[now]),
      ArrowUp: () => choose(bars.findLast((bar) => bar.top < (bars[now]?.top ?? Infinity)
        && bar.from <= (bars[now]?.until ?? Infinity)) ?? bars[now]),
      '+': () => zoom(0.5), '=': () => zoom(0.5), '-': () => zoom(2), 0: () => setRange(null),
      Enter: () => {
        const turn = bars[now]?.attempt?.turns.findLast((one) => one.thread_id);
        if (turn) go(`/threads/${part(turn.thread_id)}`, { turn: turn.turn_id });
      },
    };
    if (!acts[event.key] || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    event.stopPropagation();
    acts[event.key]();
  };
  const marked = bars.find((bar) => keyOf(bar) === chosen);
  return html`<div class="lanes" ref=${box} tabindex="0" role="group"
    aria-label="Timeline of steps. Arrows: from step to step; plus, minus: zoom; 0: the whole run; Enter: the thread"
      onScroll=${measure} onPointerDown=${down} onPointerMove=${moved} onPointerUp=${up} onPointerLeave=${() =>
        setOver(null)} onWheel=${wheel} onKeyDown=${press}>
    ${width > 0 && html`<svg width=${width} height=${lanes.height + AXIS} aria-hidden="true">
      <defs><pattern id="hatch-lost" width="5" height="5" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">
        <rect class="hatch-ground" width="5" height="5" />
        <rect class="hatch-line lost" width="2.4" height="5" /></pattern>
        <pattern id="hatch-again" width="5" height="5" patternUnits="userSpaceOnUse" patternTransform="rotate(-45)">
          <rect class="hatch-ground" width="5" height="5" />
          <rect class="hatch-line again" width="2.4" height="5" /></pattern></defs>
      <g transform=${`translate(0 ${AXIS})`}>
        <path class="grid-lines" d=${ticks(range, Math.max(width / 90, 2))
          .map((ms) => `M${Math.round(toX(ms)) + 0.5} 0V${lanes.height}`).join('')} />
        ${lanes.lanes.map((lane) => html`<text key=${lane.name} class="lane-name" x="4" y=${lane.top + 12}>
          ${short(lane.name, 60)}</text>`)}
        <path class="waits" d=${paths.waits} />
        ${TONES.map((tone) => paths[tone] && html`<path key=${tone} class=${`bar ${tone}`} d=${paths[tone]} />`)}
        <path class="turns" d=${paths.turns} /><path class="taken" d=${paths.taken} />
        ${labels.map(({ bar, x, y, room }) =>
          html`<text class="bar-name" x=${x} y=${y}>${short(nameOf(bar), room)}</text>`)}
        ${now !== null && html`<path class="now-line" d=${`M${toX(now)} 0V${lanes.height}`} />`}
        ${marked && html`<rect class="marked" x=${toX(marked.from) - 1} y=${marked.top - 1}
          width=${Math.max(toX(marked.until) - toX(marked.from), 2) + 2} height=${lanes.rowHeight} />`}</g>
      <g class="axis" transform=${`translate(0 ${size.top})`}><rect width=${width} height=${AXIS} />
        ${ticks(range, Math.max(width / 90, 2))
          .map((ms) => html`<text key=${ms} x=${toX(ms) + 3} y="12">${ms < 0 ? '' : ms === 0 ? 'begin' : span(ms)
          .replace('.0 s', ' s')}</text>`)}</g></svg>`}
  </div>`;
}

const nameOf = ({ step }) => [step.subject, step.role || step.kind].filter(Boolean).join(' ');

/** What the looks mean: those that there are. */
function Legend({ bars }) {
  const present = TONES.filter((tone) => bars.some((bar) => bar.attempt && bar.tone === tone));
  const swatch = (name, d, pick = name) =>
    html`<span class="swatch"><svg width="18" height="10" aria-hidden="true"><path class=${pick} d=${d} /></svg>
    ${name}</span>`;
  return html`<span class="legend">${present.map((tone) => swatch(NAMES[tone], 'M1 1h16v8h-16z', `bar ${tone}`))}
    ${bars.some((bar) => bar.turns.length) && swatch('turn', 'M1 4h16v2h-16z', 'turns')}
    ${bars.some((bar) => bar.from - bar.ready > 0) && swatch('waited', 'M1 5H17', 'waits')}
    ${bars.some((bar) => bar.attempt?.taken_over) && swatch('taken over', 'M5 1l6 4l-6 4z', 'taken')}</span>`;
}

function Chosen({ bar }) {
  if (!bar) return html`<p class="quiet chosen-bar">Point at a bar, or go through them with the arrow keys, to see its
    attempt. Drag moves, Ctrl and the wheel zoom.</p>`;
  const { step, attempt } = bar;
  return html`<div class="chosen-bar" aria-live="polite"><${Facts} rows=${[
    ['Step', textOf([step.title, step.kind].filter(Boolean)[0])],
    ['Subject', step.subject ? textOf(step.subject, 60) : undefined],
    ['Role', step.role ? textOf(step.role) : undefined],
    ['Attempt', attempt ? html`<span class="num">${attempt.attempt} of ${step.max_attempts}</span>
      ${attempt.taken_over ? html` <${Badge} tone="warn">taken over<//>` : ''}` : 'not begun'],
    ['Ended as', attempt ? html`<${Badge} tone=${{ lost: 'bad', again: 'warn' }[attempt.outcome]}>${attempt.outcome}
      <//>` : badgeOf(step.state)],
    ['Began', html`<span class="num" title=${`${span(bar.from)} after the run began`}>${attempt
      ? moment(attempt.started_at, 'time') : ''}</span>`],
    ['Waited', numOf(span(attempt ? attempt.waited === null ? null : attempt.waited * 1000 : bar.until - bar.ready))],
    ['Took', attempt ? html`${numOf(span(bar.until - bar.from))}${bar.open ? ' so far' : ''}` : undefined],
    ['Worker', attempt ? textOf(attempt.worker) : undefined],
    ['Turns', attempt?.turns.length
      ? attempt.turns.map((turn) =>
      html`${threadOf(turn.thread_id, html`${plain(turn.outcome)}, ${compact(turn.tokens)} tokens`)} `)
      : undefined],
    ['Why', attempt?.reason || step.error ? textOf(attempt?.reason || step.error) : undefined],
  ]} /></div>`;
}

// The timeline as numbers: bars in lanes, lanes in rows, and which of them fall into what is in sight. No drawing.
const HEAD = 16; // px above each lane, for its name
const GAP = 6;
const LEAST_BAR = 1.5; // px, so that the shortest attempt is seen

/** The bars of a timeline, by begin: {from, until, ready, lane, tone, step, attempt}; times in ms since the run began.
 * by: 'worker' or 'role'. now: ms since the run began, where open bars end; null of a run that has ended. */
function barsOf(timeline, by, now) {
  const zero = date(timeline.created_at).getTime();
  const at = (time) => date(time).getTime() - zero;
  const end = now ?? at(timeline.finished_at);
  const bars = [];
  for (const step of timeline.steps.map(joined('step'))) {
    for (const attempt of step.attempts) {
      const from = at(attempt.started_at);
      bars.push({
        from, until: attempt.ended_at ? Math.max(at(attempt.ended_at), from) : Math.max(end, from),
        ready: from - (attempt.waited ?? 0) * 1000,
        lane: by === 'role' ? step.role || step.kind : attempt.worker || 'no worker',
        tone: toneOf(attempt.outcome), open: !attempt.ended_at, step, attempt,
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

const toneOf = (outcome) => (TONES.includes(outcome) ? outcome : 'again');

/** The lanes with their rows: {lanes: [{name, top, rows}], height, rowHeight}. Bars of a lane that overlap lie in rows
 * below each other; each bar gets its `row` (of its lane) and `top`. */
function packed(bars, names = []) {
  const lanes = new Map(names.map((name) => [name, []]));
  for (const bar of bars) {
    const ends = lanes.get(bar.lane) ?? [];
    lanes.set(bar.lane, ends);
    let row = ends.findIndex((until) => until <= bar.from);
    if (row < 0) row = ends.length;
    ends[row] = Math.max(bar.until, bar.from + 1);
    bar.row = row;
  }
  const rows = [...lanes.values()].reduce((sum, ends) => sum + ends.length, 0);
  const rowHeight = rows <= 30 ? 16 : rows <= 90 ? 10 : 6;
  let top = 0;
  const placed = [...lanes].filter(([, ends]) => ends.length).map(([name, ends]) => {
    const lane = { name, top, rows: ends.length };
    top += HEAD + ends.length * rowHeight + GAP;
    return lane;
  });
  const tops = new Map(placed.map((lane) => [lane.name, lane.top]));
  for (const bar of bars) bar.top = tops.get(bar.lane) + HEAD + bar.row * rowHeight;
  return { lanes: placed, height: Math.max(top, 40), rowHeight };
}

/** What is drawn: one path a tone, one each for turns, waits and takeovers; and the bars with room for a label.
 * range: [from, until] in ms; width in px; seen: [top, bottom] in px. */
function drawing(bars, { range: [from, until], width, rowHeight, seen: [top, bottom], most = 60 }) {
  const scale = width / Math.max(until - from, 1);
  const x = (ms) => Math.round(Math.min(Math.max((ms - from) * scale, -2), width + 2) * 10) / 10;
  const height = rowHeight - 2;
  const paths = { turns: [], waits: [], taken: [] };
  const labels = [];
  for (const bar of bars) {
    if (bar.until < from || bar.ready > until || bar.top > bottom || bar.top + rowHeight < top) continue;
    const left = x(bar.from);
    const wide = Math.max(x(bar.until) - left, LEAST_BAR);
    const wait = x(bar.ready);
    if (left - wait >= 1) paths.waits.push(`M${wait} ${bar.top + height / 2}H${left}`);
    if (!bar.attempt) continue;
    (paths[bar.tone] ??= []).push(`M${left} ${bar.top}h${wide}v${height}h${-wide}z`);
    for (const [begin, end] of bar.turns) paths.turns.push(`M${x(begin)} ${bar.top
      + height - 2}h${Math.max(x(end) - x(begin), 1)}v2h${-Math.max(x(end) - x(begin), 1)}z`);
    if (bar.attempt.taken_over) paths.taken.push(`M${left - 5} ${bar.top}l5 ${height / 2}l-5 ${height / 2}z`);
    if (rowHeight >= 16 && wide > 46 && labels.length < most) labels.push({ bar, x: Math.max(left, 0) + 3, y: bar.top
      + height - 3, room: Math.floor((Math.min(left + wide, width) - Math.max(left, 0) - 6) / 6.2) });
  }
  return { paths: Object.fromEntries(Object.entries(paths).map(([name, parts]) => [name, parts.join('')])), labels };
}

/** The bar at a point, with some room beside the narrow ones; null for none. */
function barAt(bars, ms, y, rowHeight, slackMs) {
  let best = null;
  for (const bar of bars) {
    if (y < bar.top || y >= bar.top + rowHeight) continue;
    const off = ms < bar.from ? bar.from - ms : ms > bar.until ? ms - bar.until : 0;
    if (off <= slackMs && (!best || off < best.off)) best = { bar, off };
    else if (!best && ms >= bar.ready && ms <= bar.from) best = { bar, off: slackMs };
  }
  return best?.bar ?? null;
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

/** The range after zooming around a moment; never beyond the whole, never below 5 ms.
 * @param {number[]} range
 * @param {number[]} whole */
function zoomed([from, until], [begin, end], at, factor) {
  const long = Math.min(Math.max((until - from) * factor, 5), end - begin);
  const share = (at - from) / Math.max(until - from, 1);
  return within([at - share * long, at - share * long + long], [begin, end]);
}

/** The range, moved into the whole. */
function within([from, until], [begin, end]) {
  const long = Math.min(until - from, end - begin);
  const left = Math.min(Math.max(from, begin), end - long);
  return [left, left + long];
}
