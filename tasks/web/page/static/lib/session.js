// The login: a one-time code for a token, which goes in a header, never in a URL or a cookie. It stays in this tab's
// sessionStorage, and a new tab of this page asks the open ones for it; a device keeps its own in localStorage.

import { signal } from '@preact/signals';
import { request } from './request.js';
import { replace } from './router.js';

const KEPT = 'desk-session';
const CODE = /^#?([A-Za-z0-9_-]{43})(\/.*)?$/;
const ASK_MS = 250;

/** state: 'unknown', 'in' or 'out'. logins: how many there were, so that whoever failed without one tries again. */
export const session = signal({ state: 'unknown', by: '', until: null, device: null, problem: null, logins: 0 });

let token = null;
const tabs = 'BroadcastChannel' in window ? new BroadcastChannel(KEPT) : null;
if (tabs) {
  tabs.onmessage = ({ data }) => {
    if (data?.ask && token) tabs.postMessage({ token });
    if (data?.ended && data.ended === token) drop();
  };
}

/** Send a request with the session's token; the answer, if it is ok. Raises Problem.
 * @param {string} method
 * @param {string} path
 * @param {import('./request.js').Options} [options] */
export async function ask(method, path, { headers = {}, ...options } = {}) {
  const sent = token;
  try {
    return await request(method, path, { ...options,
      headers: { ...(sent ? { Authorization: `Bearer ${sent}` } : {}), ...headers } });
  } catch (problem) {
    ended(problem, sent);
    // Logged in again meanwhile: the refusal was of the token before.
    if (problem.status === 401 && token && token !== sent) return ask(method, path, { headers, ...options });
    throw problem;
  }
}

/** Forget the session if the desk refused its token. A late refusal of an earlier token is none of this session. */
export function ended(problem, sent) {
  if (problem.status === 401 && sent === token) drop(problem);
}

/** The token that a request sends now, for `ended`. */
export const tokenNow = () => token;

/** The code in a fragment or in a whole link, and the view that it opens; null when there is none. */
export function codeIn(text) {
  const found = CODE.exec(text.includes('#') ? text.slice(text.indexOf('#')).trim() : text.trim());
  return found ? { code: found[1], path: found[2] || '/' } : null;
}

/** Log in with the address bar's code, the token that this tab has, or that of another tab. */
export async function begin() {
  const found = codeIn(location.hash);
  if (found) {
    // Before anything else: no history entry and no copied address holds the code.
    replace(`#${found.path}`);
    await login(found.code);
    return;
  }
  const kept = sessionStorage.getItem(KEPT) || localStorage.getItem(KEPT) || (await asked());
  if (kept && (await take(kept))) return;
  drop();
}

/** Exchange a code for a session. Returns the problem, or null. */
export async function login(code) {
  try {
    const made = await (await request('POST', '/session', { body: { code } })).json();
    enter(made.token, made);
    return null;
  } catch (problem) {
    const kept = sessionStorage.getItem(KEPT) || localStorage.getItem(KEPT);
    // A used link in a tab that is logged in: reloading it is no reason to log it out.
    if (kept && (await take(kept))) return null;
    session.value = { ...session.value, state: 'out', problem };
    return problem;
  }
}

/** End this session, or every one of the desk. */
export async function logout(all = false) {
  const over = token;
  try {
    await ask('POST', '/session/end', { body: { all } });
  } catch (problem) {
    if (problem.status !== 401) throw problem;
  }
  tabs?.postMessage({ ended: over });
  drop();
}

function drop(problem = null) {
  token = null;
  sessionStorage.removeItem(KEPT);
  localStorage.removeItem(KEPT);
  session.value = { ...session.value, state: 'out', problem };
}

async function take(kept) {
  token = kept;
  try {
    enter(kept, await (await ask('GET', '/session')).json());
  } catch (problem) {
    if (problem.status === 401) return false;
    // The desk does not answer now: the token may be good, and each view shows what is wrong.
    enter(kept, { by: session.value.by, until: null, device: localStorage.getItem(KEPT) === kept });
  }
  return true;
}

function enter(found, { by, until, device }) {
  token = found;
  (device ? localStorage : sessionStorage).setItem(KEPT, found);
  session.value = { state: 'in', by, until, device, problem: null, logins: session.value.logins + 1 };
}

function asked() {
  if (!tabs) return null;
  return new Promise((resolve) => {
    const heard = ({ data }) => {
      if (!data?.token) return;
      tabs.removeEventListener('message', heard);
      resolve(data.token);
    };
    tabs.addEventListener('message', heard);
    tabs.postMessage({ ask: true });
    setTimeout(() => {
      tabs.removeEventListener('message', heard);
      resolve(null);
    }, ASK_MS);
  });
}
