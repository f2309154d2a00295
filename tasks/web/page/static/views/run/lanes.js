// The timeline as numbers: bars in lanes, lanes in rows, and which of them fall into what is in sight. No drawing.

import { date } from '../../lib/format.js';

const HEAD = 16; // px above each lane, for its name
const GAP = 6;
const LEAST_BAR = 1.5; // px, so that the shortest attempt is seen

/** The bars of a timeline, by begin: {from, until, ready, lane, tone, step, attempt}; times in ms since the run began. by:
 * 'worker' or 'role'. */
export function barsOf(timeline, by) {
  const zero = date(timeline.created_at).getTime();
  const at = (time) => date(time).getTime() - zero;
  const end = at(timeline.finished_at ?? timeline.now);
  const bars = [];
  for (const step of timeline.steps) {
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
    if (step.state === 'ready') bars.push({ from: end, until: end, ready: Math.min(at(step.due_at), end), lane: by === 'role' ? step.role || step.kind : 'waits for a worker', tone: 'waiting', open: true, step, attempt: null, turns: [] });
  }
  return bars.sort((a, b) => a.from - b.from);
}

const toneOf = (outcome) => ({ done: 'done', running: 'running', failed: 'failed', lost: 'lost', stopped: 'stopped' })[outcome] ?? 'again';

/** The lanes with their rows: {lanes: [{name, top, rows}], height, rowHeight}. Bars of a lane that overlap lie in rows
 * below each other; each bar gets its `row` (of its lane) and `top`. */
export function packed(bars, names = []) {
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
export function drawing(bars, { range: [from, until], width, rowHeight, seen: [top, bottom], most = 60 }) {
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
    for (const [begin, end] of bar.turns) paths.turns.push(`M${x(begin)} ${bar.top + height - 2}h${Math.max(x(end) - x(begin), 1)}v2h${-Math.max(x(end) - x(begin), 1)}z`);
    if (bar.attempt.taken_over) paths.taken.push(`M${left - 5} ${bar.top}l5 ${height / 2}l-5 ${height / 2}z`);
    if (rowHeight >= 16 && wide > 46 && labels.length < most) labels.push({ bar, x: Math.max(left, 0) + 3, y: bar.top + height - 3, room: Math.floor((Math.min(left + wide, width) - Math.max(left, 0) - 6) / 6.2) });
  }
  return { paths: Object.fromEntries(Object.entries(paths).map(([name, parts]) => [name, parts.join('')])), labels };
}

/** The bar at a point, with some room beside the narrow ones; null for none. */
export function barAt(bars, ms, y, rowHeight, slackMs) {
  let best = null;
  for (const bar of bars) {
    if (y < bar.top || y >= bar.top + rowHeight) continue;
    const off = ms < bar.from ? bar.from - ms : ms > bar.until ? ms - bar.until : 0;
    if (off <= slackMs && (!best || off < best.off)) best = { bar, off };
    else if (!best && ms >= bar.ready && ms <= bar.from) best = { bar, off: slackMs };
  }
  return best?.bar ?? null;
}

const STEPS = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1e3, 2e3, 5e3, 1e4, 15e3, 3e4, 6e4, 12e4, 3e5, 6e5, 9e5, 18e5, 36e5, 72e5, 216e5, 432e5, 864e5];

/** Round moments for the axis of a range, at most `most`. */
export function ticks([from, until], most) {
  const step = STEPS.find((one) => (until - from) / one <= most) ?? 864e5 * Math.ceil((until - from) / 864e5 / most);
  const found = [];
  for (let at = Math.ceil(from / step) * step; at <= until; at += step) found.push(at);
  return found;
}

/** The range after zooming around a moment; never beyond the whole, never below 5 ms. */
export function zoomed([from, until], [begin, end], at, factor) {
  const long = Math.min(Math.max((until - from) * factor, 5), end - begin);
  const share = (at - from) / Math.max(until - from, 1);
  return within([at - share * long, at - share * long + long], [begin, end]);
}

/** The range, moved into the whole. */
export function within([from, until], [begin, end]) {
  const long = Math.min(until - from, end - begin);
  const left = Math.min(Math.max(from, begin), end - long);
  return [left, left + long];
}
