// Live events over fetch: without a gap and without a repeat, over cuts, restarts and hidden tabs.
//
// Browsers open six connections a host, so a stream is held only by a visible tab, and only by STREAMS tabs at once;
// the others ask again and again for what is new, for a moment each.

import { useEffect, useRef, useState } from 'preact/hooks';
import { Problem } from './request.js';
import { pathWith } from './router.js';
import { ask, ended, session, tokenNow } from './session.js';

const STREAMS = 3;
const BATCH_MS = 100;
const QUIET_MS = 20_000; // the desk sends something every 5 s
const BRIEF_MS = 400;
const ASK_AGAIN_MS = 2_000;
const FIRST_WAIT_MS = 300;
const MOST_WAIT_MS = 5_000;

/** One stream of events. query: of its path. since: the sequence after which it begins. onEvents: gets arrays, in
 * order. onGap: load anew, the stream goes on from now: at its begin without `since`, and where events were missed for
 * good. onState: 'connecting', 'live', 'polling', 'hidden', 'away', 'ended', 'refused', with the problem. */
export class Live {
  constructor(path, { query = {}, since = null, onEvents, onGap = () => {}, onState = () => {} }) {
    /** @type {(problem: any) => void} */
    this.onGap = onGap;
    this.path = path;
    this.query = query;
    this.onEvents = onEvents;
    /** @type {(state: string, problem?: any) => void} */
    this.onState = onState;
    this.cursor = since === null ? null : String(since);
    this.seen = new Map();
    this.waiting = [];
    this.stopped = false;
    this.failures = 0;
    this.wake = () => {};
    this.changed = () => (document.hidden ? this.cut?.abort() : this.wake());
  }

  start() {
    document.addEventListener('visibilitychange', this.changed);
    window.addEventListener('online', this.changed);
    this.unsubscribe = session.subscribe(() => this.wake());
    this.run();
    return this;
  }

  stop() {
    this.stopped = true;
    this.cut?.abort();
    this.wake();
    document.removeEventListener('visibilitychange', this.changed);
    window.removeEventListener('online', this.changed);
    this.unsubscribe?.();
    clearTimeout(this.timer);
  }

  async run() {
    while (!this.stopped) {
      if (document.hidden) {
        this.onState('hidden');
        await this.pause(Infinity);
      } else if (session.value.state !== 'in') {
        await this.pause(Infinity);
      } else if (!(await this.hold())) {
        await this.pause(Math.min(FIRST_WAIT_MS * 2 ** this.failures, MOST_WAIT_MS) * (0.8 + Math.random() * 0.4));
        this.failures += 1;
      }
    }
  }

  /** Hold one of the streams that the tabs share, or look briefly. Returns false when it failed. */
  async hold() {
    if (!navigator.locks) return this.read(false);
    for (let number = 0; number < STREAMS; number += 1) {
      const done = await navigator.locks.request(`desk-stream-${number}`, { ifAvailable: true }, async (lock) =>
        (lock ? { ok: await this.read(false) } : null));
      if (done) return done.ok;
      if (this.stopped) return true;
    }
    const ok = await this.read(true);
    if (ok && !this.stopped) await this.pause(ASK_AGAIN_MS);
    return ok;
  }

  /** Read until the stream ends. Returns false to try again after a pause. */
  async read(brief) {
    if (this.stopped || document.hidden) return true;
    this.cut = new AbortController();
    let quiet = null;
    const rest = (ms) => {
      clearTimeout(quiet);
      quiet = setTimeout(() => this.cut.abort(), ms);
    };
    try {
      if (this.failures === 0 && !brief) this.onState('connecting');
      rest(QUIET_MS);
      const sent = tokenNow();
      const answer = await ask('GET', pathWith(this.path, this.query), { signal: this.cut.signal, headers: {
        Accept: 'text/event-stream', ...(this.cursor === null ? {} : { 'Last-Event-ID': this.cursor }) } });
      if (answer.status === 204) return this.end('ended');
      this.failures = 0;
      this.onState(brief ? 'polling' : 'live');
      const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
      let text = '';
      for (;;) {
        rest(brief ? BRIEF_MS : QUIET_MS);
        const { value, done } = await reader.read();
        if (done) return brief; // the desk ended it: the run is over, as the next request shows, or the desk stops
        text += value;
        const end = text.lastIndexOf('\n\n');
        if (end < 0) continue;
        const refused = this.take(text.slice(0, end));
        text = text.slice(end + 2);
        if (refused) {
          ended(refused, sent);
          return this.refused(refused);
        }
      }
    } catch (error) {
      if (this.stopped || document.hidden) return true;
      if (error.name === 'AbortError') return true;
      return this.refused(error instanceof Problem ? error
        : new Problem({ kind: 'away', title: 'The desk does not answer' }));
    } finally {
      clearTimeout(quiet);
      this.cut.abort();
    }
  }

  refused(problem) {
    if (problem.status === 401) return true;
    if (problem.status === 410 || problem.status === 409) {
      this.cursor = problem.more.last === undefined ? null : String(problem.more.last);
      this.seen.clear();
      this.onGap(problem);
      return false;
    }
    if (problem.status >= 400 && problem.status < 500 && problem.status !== 429) return this.end('refused', problem);
    this.onState('away', problem);
    return false;
  }

  end(state, problem = null) {
    this.flush();
    this.stop();
    this.onState(state, problem);
    return true;
  }

  /** Take whole messages; return the problem that one of them is. */
  take(text) {
    for (const message of text.split('\n\n')) {
      let data = '';
      let id = null;
      let kind = 'message';
      for (const line of message.split('\n')) {
        if (line.startsWith('data:')) data += (data ? '\n' : '') + line.slice(line[5] === ' ' ? 6 : 5);
        else if (line.startsWith('id:')) id = line.slice(3).trim();
        else if (line.startsWith('event:')) kind = line.slice(6).trim();
      }
      if (data) {
        const event = JSON.parse(data);
        if (kind === 'problem') return new Problem(event);
        // The stream begins now: what happened before is in what the view loads, once it loads it again.
        if (kind === 'place' && this.cursor === null) this.onGap(null);
        if (kind === 'message' && this.isNew(event)) this.waiting.push(event);
      }
      if (id !== null) this.cursor = id;
    }
    if (this.waiting.length && !this.timer) this.timer = setTimeout(() => this.flush(), BATCH_MS);
    return null;
  }

  /** A cut in the middle may bring an event twice: each has its number within its run. */
  isNew(event) {
    if (typeof event.sequence !== 'number') return true;
    if (event.sequence <= (this.seen.get(event.run_id) ?? 0)) return false;
    this.seen.delete(event.run_id);
    this.seen.set(event.run_id, event.sequence);
    if (this.seen.size > 1_000) this.seen.delete(this.seen.keys().next().value);
    return true;
  }

  flush() {
    clearTimeout(this.timer);
    this.timer = null;
    const events = this.waiting;
    this.waiting = [];
    if (events.length) this.onEvents(events);
  }

  pause(ms) {
    return new Promise((resolve) => {
      const timer = ms === Infinity ? null : setTimeout(resolve, ms);
      this.wake = () => {
        clearTimeout(timer);
        resolve();
      };
    });
  }
}

/** Follow the desk's events of some types, and load resources anew, within ms, when there is one that `of` finds to
 * concern them. run: of one run alone; null: not known yet. Returns {state, problem}.
 * @param {string[]} type
 * @param {{ soon: (ms: number) => void, reload: () => void }[]} resources
 * @param {{ ms?: number, run?: string | null, of?: (event: any) => boolean }} [options] */
export const useFollowed = (type, resources, { ms = 700, run = undefined, of = (_event) => true } = {}) => useLive(
  run === null ? null : '/events', { query: { type, run, bodies: false },
    onEvents: (events) => events.some(of) && resources.forEach((one) => one.soon(ms)),
    onGap: () => resources.forEach((one) => one.reload()) });

/** Follow a stream while the component is shown. Returns {state, problem}. A path of null follows nothing.
 * @param {string | null} path
 * @param {{ query?: object, since?: any, onEvents: Function, onGap?: Function }} options */
export function useLive(path, { query = {}, since = null, onEvents, onGap }) {
  const [state, setState] = useState({ state: 'connecting', problem: null });
  const latest = useRef({ onEvents, onGap });
  latest.current = { onEvents, onGap };
  useEffect(() => {
    if (!path) return undefined;
    const live = new Live(path, {
      query, since,
      onEvents: (events) => latest.current.onEvents(events),
      onGap: (problem) => latest.current.onGap?.(problem),
      onState: (name, problem = null) => setState({ state: name, problem }),
    }).start();
    return () => live.stop();
  }, [path, JSON.stringify(query), since]);
  return state;
}
