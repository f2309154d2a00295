// Requests to the desk: with the session's token, and every failure as a Problem that a person can read.

import { pathWith } from './router.js';
import { authorization, drop, session } from './session.js';

/** The reason why a request failed. kind: for code; title: what is wrong, where the desk has no sentence for it in
 * detail; remedy: what a person can do. status 0: no answer. */
export class Problem extends Error {
  constructor({ status = 0, kind = 'unknown', title = '', detail = '', remedy = '', ...more }) {
    super(detail || title);
    this.status = status;
    this.kind = kind;
    this.title = more.type === 'about:blank' && detail ? detail : title; // the status in words says less
    this.detail = detail;
    this.remedy = remedy;
    /** @type {any} */
    this.more = more;
  }
}

/** @typedef {{ signal?: AbortSignal, headers?: object, key?: string, body?: string }} Options */

/** The answer to GET as JSON. query: values by name; those that are empty are left out. Raises Problem.
 * @template {string} Path
 * @param {Path} path
 * @param {object} [query]
 * @param {Options} [options]
 * @returns {Promise<import('answers').Answer<Path>>} */
export async function get(path, query = {}, { signal } = {}) {
  return (await ask('GET', pathWith(path, query), { signal })).json();
}

/** The answer with its headers, for what is no JSON or where headers matter. Raises Problem.
 * @param {string} path
 * @param {object} [query]
 * @param {Options} [options] */
export async function getResponse(path, query = {}, { signal, headers } = {}) {
  return ask('GET', pathWith(path, query), { signal, headers });
}

/** A key for one decision of a person: the same for each try at it, so that it is carried out once. */
export const newKey = () => crypto.randomUUID?.() ?? Array.from(crypto.getRandomValues(new Uint8Array(16)),
  (n) => n.toString(16).padStart(2, '0')).join('');

/** The answer to a write as JSON. The person's name is added as `by`. key: of newKey(), kept over tries. Raises
 * Problem.
 * @param {string} path
 * @param {object} [body]
 * @param {Options} [options] */
export async function post(path, body = {}, { key = newKey(), signal } = {}) {
  const text = JSON.stringify({ by: session.value.by || 'desk', ...body });
  const headers = { 'Content-Type': 'application/json', 'Idempotency-Key': key };
  const answer = await ask('POST', path, { body: text, headers, signal });
  return answer.status === 204 ? null : answer.json();
}

/** A picture of the desk as a URL for <img>, since an address alone carries no token. Revoke it when it is not shown
 * any more.
 * @param {string} digest
 * @param {Options} [options] */
export async function pictureUrl(digest, { signal } = {}) {
  const answer = await ask('GET', `/artifacts/${encodeURIComponent(digest)}`, { signal });
  return URL.createObjectURL(await answer.blob());
}

/** Save what a path answers as a file: an address alone carries no token. */
export const saveFile = async (path, name) => saveBlob(await (await ask('GET', path)).blob(), name);

/** Save rows as a CSV file, with the names of the first one's fields as its head. Text that a spreadsheet would take
 * for a formula gets an apostrophe. */
export function saveRows(name, rows) {
  const cell = (value) => {
    const text = Array.isArray(value) ? value.join(' ') : String(value ?? '');
    return `"${(typeof value === 'string' && /^[=+\-@\t\r]/.test(text) ? `'${text}` : text).replaceAll('"', '""')}"`;
  };
  const fields = Object.keys(rows[0] ?? {});
  const lines = [fields, ...rows.map((row) => fields.map((field) => row[field]))].map((line) => line.map(cell)
    .join(','));
  saveBlob(new Blob([`${lines.join('\r\n')}\r\n`], { type: 'text/csv' }), name);
}

function saveBlob(blob, name) {
  const url = URL.createObjectURL(blob);
  Object.assign(document.createElement('a'), { href: url, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(url), 60_000);
}

/** @param {string} method
 * @param {string} path
 * @param {Options} [options] */
async function ask(method, path, { body, headers = {}, signal } = {}) {
  let answer;
  try {
    answer = await fetch(path, {
      method, body, signal, headers: { ...authorization(), ...headers }, credentials: 'omit', redirect: 'error',
      cache: 'no-store',
    });
  } catch (error) {
    if (error.name === 'AbortError') throw error;
    throw new Problem({
      kind: 'away', title: 'The desk does not answer', detail: 'no connection to its service',
      remedy: 'is `desk up` running? The page goes on by itself when it answers again',
    });
  }
  if (answer.ok) return answer;
  const problem = await problemOf(answer);
  if (problem.status === 401) drop(problem);
  throw problem;
}

/** The problem that an answer carries. */
export async function problemOf(answer) {
  try {
    return new Problem({ status: answer.status, ...(await answer.json()) });
  } catch {
    return new Problem({ status: answer.status, title: answer.statusText || 'Error',
      detail: `status ${answer.status}` });
  }
}
