// Addresses: the view and its filters are in the fragment, `#/runs?kind=screen`, so the server sees only `/`. A login
// code is a fragment too; it never begins with a slash.

import { computed, signal } from '@preact/signals';

const here = signal(read());
window.addEventListener('hashchange', () => {
  here.value = read();
});

/** The place: path, and query as a table of texts. */
export const place = computed(() => here.value);

function read() {
  const text = location.hash.startsWith('#/') ? location.hash.slice(1) : '/';
  const [path, query = ''] = text.split(/\?(.*)/s);
  return { path: path.replace(/(.)\/+$/, '$1'), query: Object.fromEntries(new URLSearchParams(query)) };
}

/** A path with a query; empty values are left out. */
export function pathWith(path, query = {}) {
  const given = Object.entries(query).filter(([, value]) => value !== null && value !== undefined && value !== '');
  const text = new URLSearchParams(given.flatMap(([name, value]) =>
    (Array.isArray(value) ? value.map((one) => [name, one]) : [[name, value]])));
  return text.size ? `${path}?${text}` : path;
}

/** The address of a view: `href('/runs', {kind: 'screen'})`. Parts of a path go through `part`. */
export const href = (path, query = {}) => `#${pathWith(path, query)}`;

export const part = (value) => encodeURIComponent(String(value));

/** Replace the address by a view's, in this entry of the history. */
export function replace(address) {
  history.replaceState(null, '', address);
  here.value = read();
}

export function go(path, query = {}) {
  location.hash = pathWith(path, query);
}

/** Change some of the view's filters in place: the address stays shareable, and Back leaves the view. */
export function setQuery(changes) {
  const { path, query } = here.value;
  replace(href(path, { ...query, ...changes }));
}

/** The view of a path and its parameters, of views with patterns such as `/runs/:run`; null for none. */
export function match(views, path) {
  for (const view of views) {
    const params = matched(view.path, path);
    if (params) return { view, params };
  }
  return null;
}

function matched(pattern, path) {
  const names = pattern.split('/');
  const given = path.split('/');
  if (names.length !== given.length
    || names.some((name, n) => (name.startsWith(':') ? !given[n] : name !== given[n]))) return null;
  try {
    return Object.fromEntries(names.flatMap((name, n) =>
      (name.startsWith(':') ? [[name.slice(1), decodeURIComponent(given[n])]] : [])));
  } catch {
    return null;
  }
}
