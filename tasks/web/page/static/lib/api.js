// What the page asks of the desk and sends to it, and what it saves as a file.

import { pathWith } from './router.js';
import { ask, session } from './session.js';

export { ask };

/** The answer to GET as JSON. query: values by name; those that are empty are left out. Raises Problem.
 * @template {string} Path
 * @param {Path} path
 * @param {object} [query]
 * @param {import('./request.js').Options} [options]
 * @returns {Promise<import('answers').Answer<Path>>} */
export async function get(path, query = {}, { signal } = {}) {
  return (await ask('GET', pathWith(path, query), { signal })).json();
}

/** A key for one decision of a person: the same for each try at it, so that it is carried out once. */
export const newKey = () => crypto.randomUUID?.() ?? Array.from(crypto.getRandomValues(new Uint8Array(16)),
  (n) => n.toString(16).padStart(2, '0')).join('');

/** The answer to a write as JSON, in the person's name. key: of newKey(), kept over tries. Raises Problem.
 * @param {string} path
 * @param {object} [body]
 * @param {import('./request.js').Options} [options] */
export async function post(path, body = {}, { key = newKey() } = {}) {
  const answer = await ask('POST', path, { body: { by: session.value.by || 'desk', ...body },
    headers: { 'Idempotency-Key': key } });
  return answer.status === 204 ? null : answer.json();
}

/** A picture of the desk as a URL for <img>, since an address alone carries no token; to be revoked.
 * @param {string} digest
 * @param {import('./request.js').Options} [options] */
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
    return `"${(typeof value !== 'number' && /^[=+\-@\t\r\n]/.test(text) ? `'${text}` : text).replaceAll('"', '""')}"`;
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
