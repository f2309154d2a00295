// The rules that bind an order, each with what was measured and its limit; and what changed since the preview.

import { get } from '../../lib/api.js';
import { html, useState } from '../../lib/html.js';
import { MISSING, money, percent, span } from '../../lib/format.js';
import { useResource } from '../../lib/store.js';
import { Badge, Facts, Loaded, Table, Text, Time } from '../../lib/ui.js';
import { plain } from '../../lib/text.js';
import { breakable } from './terms.js';

const ANSWERS = {
  passed: ['good', 'passed'], denied: ['bad', 'denied'], not_bound: ['plain', 'does not bind an exit'],
  passed_then: ['good', 'passed then'], not_recorded: ['plain', 'not recorded'], not_reached: ['plain', 'not reached'], not_checked: ['plain', 'not checked'],
};
const WAITS = ['drafted', 'previewed', 'approval_pending', 'approved'];
const EVERY_MS = 30_000;

/** The checks of an order as a resource, for the parts of its view. */
export const useChecks = (path, state) => useResource(({ signal }) => get(`${path}/checks`, {}, { signal }), [path, state], { every: WAITS.includes(state) ? EVERY_MS : 0 });

export function Checks({ from }) {
  const [all, setAll] = useState(false);
  return html`<${Loaded} from=${from} what="the checks">${(found) => {
    // Denials first.
    const telling = found.checks.filter((one) => one.figure !== null || one.answer === 'denied').sort((one, other) => (other.answer === 'denied') - (one.answer === 'denied'));
    const rows = all ? found.checks : telling;
    return html`<p>${summary(found)} ${found.at ? html`<span class="quiet">as of <${Time} at=${found.at} /></span>` : ''}</p>
      ${found.missing && html`<p class="notice warn"><${Text}>${found.missing}<//></p>`}
      ${rows.length > 0 && html`<${Table} label="Checks" columns=${COLUMNS} rows=${rows} rowKey=${(row) => row.codes.join()} />`}
      ${telling.length < found.checks.length && html`<p><button type="button" aria-expanded=${all} onClick=${() => setAll(!all)}>${all ? 'Fewer' : `All ${found.checks.length} rules`}</button></p>`}`;
  }}<//>`;
}

function summary({ checks, state }) {
  const denied = checks.filter((one) => one.answer === 'denied').length;
  if (denied) return html`<${Badge} tone="bad">${`denied by ${denied} of ${checks.length} rules`}<//>`;
  const [first] = checks;
  if (first?.answer === 'passed_then') return html`<${Badge} tone="good">${`passed ${checks.length} rules`}<//> when it was sent; the figures of then were not recorded.`;
  if (first?.answer === 'not_checked') return html`<${Badge} tone="plain">not checked<//> the desk sends such orders without the rules.`;
  if (!WAITS.includes(state)) return html`<${Badge} tone="good">${`passed all ${checks.length} rules`}<//> when it was last checked,`;
  return html`<${Badge} tone="good">${`passes all ${checks.length} rules`}<//>`;
}

const limitsOf = (row) => (row.limit !== null ? html`<span class="num measured"><${Text}>${row.limit}<//></span>` : Object.entries(row.limits).map(([name, value]) => html`<div><span class="num">${value === null || value === undefined ? MISSING : plain(value)}</span> <code class="quiet small">${breakable(name)}</code></div>`));
const COLUMNS = [
  { id: 'rule', label: 'Rule', cell: (row) => html`<span title=${row.denies.map(plain).join('\n')}>${row.codes.map((code) => plain(code).replaceAll('_', ' ')).join(', ')}</span>` },
  { id: 'answer', label: 'Answer', cell: (row) => html`<${Badge} tone=${ANSWERS[row.answer]?.[0]}>${ANSWERS[row.answer]?.[1] ?? row.answer}<//>` },
  { id: 'figure', label: 'Measured', cell: (row) => html`<span class="num measured"><${Text}>${row.figure ?? MISSING}<//></span>${row.reason && html`<br /><${Text} className="quiet">${row.reason}<//>`}` },
  { id: 'limit', label: 'Limit', wide: true, cell: (row) => limitsOf(row) },
];

/** What is otherwise now than when the order was previewed. */
export function Changes({ from }) {
  const changes = from.data?.changes;
  if (!changes) return null;
  const over = changes.moved !== null && changes.moved > changes.collar;
  return html`<div role="group" aria-label="Changes since the preview"><h3>Since the preview</h3>
    ${changes.denied && html`<p class="notice bad"><${Badge} tone="bad">would be denied now<//> <code>${plain(changes.denied.code)}</code>: <${Text}>${changes.denied.reason}<//>. Measured <span class="num"><${Text}>${changes.denied.measured || MISSING}<//></span>, limit <span class="num"><${Text}>${changes.denied.limit || MISSING}<//></span></p>`}
    <${Facts} rows=${[
      ['Price then', html`<span class="num">${money(changes.price_then)}</span>`],
      ['Price now', changes.price_now === null ? 'none' : html`<span class="num">${money(changes.price_now)}</span>`],
      ['Moved', changes.moved === null ? null : html`<span class="num">${percent(changes.moved)}</span> of <span class="num">${percent(changes.collar)}</span> allowed ${over ? html`<${Badge} tone="bad">too far<//>` : ''}`],
      ['Order and hash', html`<${Badge} tone=${changes.intact ? 'good' : 'bad'}>${changes.intact ? 'as they were checked' : 'altered'}<//>`],
      ['Mandate', changes.mandate_then === changes.mandate_now ? (changes.mandate_now ?? 'none, as then') : html`<${Badge} tone="warn">${`was ${changes.mandate_then ?? 'none'}, is ${changes.mandate_now ?? 'none'}`}<//>`],
      ['Time left', changes.seconds_left === null ? undefined : html`<span class="num">${span(Math.max(changes.seconds_left, 0) * 1000)}</span>`],
    ]} /></div>`;
}
