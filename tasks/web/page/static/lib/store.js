// What a view has loaded: its data, its age, and what went wrong; and lists that do not grow for ever.

import { useCallback, useEffect, useRef, useState } from 'preact/hooks';
import { get } from './api.js';
import { pathWith } from './router.js';
import { session } from './session.js';

const SLOW_MS = 20_000; // after which a load is given up for a new one

const shown = new Set();
export const reloadAll = () => shown.forEach((reload) => reload());

/** Load something, show it, and keep what was shown when a later load fails.
 *
 * load: gets {signal}. deps: what it depends on; when they change, the old data are dropped; again: for what else it is
 * loaded anew. every: ms between loads while the tab is seen. Returns {data, problem, loading, stale, at, reload,
 * soon}; stale: the data are of an earlier load, and the last one failed; soon(ms): reload within that time, however
 * often it is asked for.
 * @template Data
 * @param {(options: { signal: AbortSignal }) => Promise<Data>} load */
export function useResource(load, deps = [], { every = 0, again = [] } = {}) {
  const [found, setFound] = useState({ data: /** @type {Data} */ (undefined), problem: null, loading: true, at: null });
  const latest = useRef(load);
  latest.current = load;
  const state = useRef({ cut: null, since: 0, timer: null, due: false, begun: false });
  const logins = session.value.logins;

  const reload = useCallback(async () => {
    state.current.cut?.abort();
    Object.assign(state.current, { due: false, since: Date.now() });
    const cut = (state.current.cut = new AbortController());
    setFound((before) => ({ ...before, loading: true }));
    try {
      const data = await latest.current({ signal: cut.signal });
      if (!cut.signal.aborted) setFound({ data, problem: null, loading: false, at: new Date() });
    } catch (problem) {
      if (cut.signal.aborted || problem.name === 'AbortError') return;
      setFound((before) => ({ ...before, problem, loading: false }));
    }
    if (state.current.cut !== cut) return;
    state.current.cut = null;
    if (state.current.due) refresh();
  }, []);

  // What is asked for while a load is under way comes after it: where answers take longer than the pauses between
  // events, loads that cut each other off would show nothing at all.
  const refresh = useCallback(() => {
    if (document.hidden || session.value.state !== 'in') return;
    if (state.current.cut && Date.now() - state.current.since < SLOW_MS) state.current.due = true;
    else reload();
  }, []);

  const soon = useCallback((ms = 500) => {
    if (state.current.timer) return;
    state.current.timer = setTimeout(() => {
      state.current.timer = null;
      refresh();
    }, ms);
  }, []);

  useEffect(() => {
    shown.add(reload);
    return () => shown.delete(reload);
  }, []);
  useEffect(() => {
    setFound({ data: undefined, problem: null, loading: true, at: null });
  }, deps);
  useEffect(() => {
    if (session.value.state === 'in') reload();
    return () => state.current.cut?.abort();
  }, [...deps, logins]);
  useEffect(() => {
    if (state.current.begun) refresh();
    state.current.begun = true;
  }, again);
  useEffect(() => {
    const timer = every ? setInterval(refresh, every) : null;
    document.addEventListener('visibilitychange', refresh);
    return () => {
      clearInterval(timer);
      clearTimeout(state.current.timer);
      state.current.timer = null;
      document.removeEventListener('visibilitychange', refresh);
    };
  }, [every]);

  return { ...found, stale: Boolean(found.problem && found.data !== undefined), reload, soon };
}

/** What GET answers, as useResource has it; it is loaded anew for another path or query. deps: for what else it is
 * loaded again, the old answer shown until then. as: what the view makes of an answer. path null: not known yet.
 * @template {string} Path
 * @template [Made=import('answers').Answer<Path>]
 * @param {Path} path
 * @param {object} [query]
 * @param {{ deps?: any[], every?: number, as?: (data: import('answers').Answer<Path>) => Made }} [options]
 * @returns {ReturnType<typeof useResource<Made>>} */
export const useGet = (path, query = {}, { deps = [], every, as } = {}) => useResource(
  ({ signal }) => /** @type {Promise<Made>} */ (path === null ? new Promise(() => {})
    : get(path, query, { signal }).then(as)),
  [path && pathWith(path, query)], { every, again: deps },
);

const MOST = 1_000; // rows of an answer

/** A list of GET, whose beginning is shown until a person asks for more: {from, most, more}, for TablePanel. */
export function useList(path, query, options = {}) {
  const [most, setMost] = useState(200);
  const from = useGet(path, { ...query, limit: most }, options);
  return { from, most, more: most < MOST ? () => setMost(Math.min(most * 2, MOST)) : null };
}

/** One object of a stored row, which an answer has under this name, and of what was read beside it. */
export const joined = (name) => ({ [name]: row, ...more }) => ({ ...row, ...more });

/** The newest `most` items as state: [{items, dropped}, add, clear]; dropped counts those that left the beginning.
 * @returns {[{ items: any[], dropped: number }, (items: any[]) => void, () => void]} */
export function useBounded(most) {
  const [list, setList] = useState({ items: [], dropped: 0 });
  const add = useCallback((items) => setList((before) => {
    const all = before.items.concat(items);
    const over = Math.max(all.length - most, 0);
    return { items: all.slice(over), dropped: before.dropped + over };
  }), [most]);
  return [list, add, useCallback(() => setList({ items: [], dropped: 0 }), [])];
}

function useKept(place, key, initial) {
  const [value, setValue] = useState(() => place.getItem(key) ?? initial);
  const set = (next) => {
    place.setItem(key, next);
    setValue(next);
  };
  return [value, set, () => {
    place.removeItem(key);
    setValue(initial);
  }];
}

/** Text that a person typed: it outlives a reload, a lost login and a failed request. [text, set, forget]. */
export const useDraft = (name, initial = '') => useKept(sessionStorage, `desk-draft:${name}`, initial);

/** A preference of this browser, such as the theme. */
export const usePreference = (name, initial) => useKept(localStorage, `desk-${name}`, initial);
