// One request to the desk. Every failure is a Problem that a person can read.

import { signal } from '@preact/signals';

/** Whether the last request found nobody: one state of the connection for all of the page. */
export const away = signal(false);

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

/** @typedef {{ signal?: AbortSignal, headers?: object, key?: string, body?: object }} Options */

/** The answer, if it is ok. Raises Problem; an AbortError when the signal says so.
 * @param {string} method
 * @param {string} path
 * @param {Options} [options] */
export async function request(method, path, { body, headers = {}, signal } = {}) {
  let answer;
  try {
    answer = await fetch(path, {
      method, body: body && JSON.stringify(body), signal, credentials: 'omit', redirect: 'error', cache: 'no-store',
      headers: { ...(body ? { 'Content-Type': 'application/json' } : {}), ...headers },
    });
  } catch (error) {
    if (error.name === 'AbortError') throw error;
    away.value = true;
    throw new Problem({
      kind: 'away', title: 'The desk does not answer', detail: 'no connection to its service',
      remedy: 'is `desk up` running? The page goes on by itself when it answers again',
    });
  }
  away.value = false;
  if (answer.ok) return answer;
  let said = { title: answer.statusText || 'Error', detail: `status ${answer.status}` };
  try {
    said = await answer.json();
  } catch { /* a proxy's page: the status says enough */ }
  throw new Problem({ status: answer.status, ...said });
}
