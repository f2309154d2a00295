// The keyboard: what each key does, in one registry, which `?` shows.

import { signal } from '@preact/signals';
import { useEffect } from 'preact/hooks';

const PAUSE_MS = 1_200;
const TYPING = 'input, textarea, select, [contenteditable]';

/** All keys in force: {keys, what, group, run}. keys: 'g r' is g, then r. */
export const bindings = signal([]);

/** Register keys; returns what takes them back. */
export function bind(found) {
  bindings.value = [...bindings.value, ...found];
  return () => {
    bindings.value = bindings.value.filter((one) => !found.includes(one));
  };
}

/** Keys that hold while the component is shown: [['r', 'Load again', reload]]. group: their heading in the help. */
export function useKeys(keys, group = 'This view', deps = []) {
  useEffect(() => bind(keys.map(([combination, what, run]) => ({ keys: combination, what, run, group }))), deps);
}

let before = '';
let timer = null;

window.addEventListener('keydown', (event) => {
  if (event.altKey || event.isComposing || document.querySelector('dialog[open]')) return;
  if (event.ctrlKey || event.metaKey) {
    const found = event.key.toLowerCase() === 'k' && bindings.value.findLast((one) => one.keys === 'Ctrl-K');
    if (found) {
      event.preventDefault();
      found.run();
    }
    return;
  }
  if (event.target instanceof Element && event.target.closest(TYPING)) return;
  const pressed = before ? `${before} ${event.key}` : event.key;
  // The last one that was registered wins: a view's own key over the page's.
  const hit = bindings.value.findLast((one) => one.keys === pressed)
    ?? bindings.value.findLast((one) => one.keys === event.key);
  clearTimeout(timer);
  before = '';
  if (hit && (hit.keys === pressed || !begins(pressed))) {
    event.preventDefault();
    hit.run(event);
  } else if (begins(pressed)) {
    event.preventDefault();
    before = pressed;
    timer = setTimeout(() => {
      before = '';
    }, PAUSE_MS);
  }
});

const begins = (pressed) => bindings.value.some((one) => one.keys.startsWith(`${pressed} `));

/** Move the focus to the next or the previous row of the view: a row's first link or button. */
export function moveRow(step) {
  const rows = [...document.querySelectorAll('main [data-row]')];
  if (!rows.length) return;
  const now = rows.findIndex((row) => row.contains(document.activeElement));
  const next = rows[Math.min(Math.max(now + step, 0), rows.length - 1)];
  /** @type {HTMLElement} */ (next.querySelector('a, button') ?? next).focus();
  next.scrollIntoView({ block: 'nearest' });
}
