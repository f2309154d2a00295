// The tool calls that a report rests on: arguments and answers, with the value in sight that a figure comes from.

import { span } from '../../lib/format.js';
import { html, useEffect, useMemo, useRef } from '../../lib/html.js';
import { setQuery } from '../../lib/router.js';
import { Badge, Empty, Text } from '../../lib/ui.js';
import { plain } from '../../lib/text.js';
import { sourceOf } from './cited.js';
import { answerOf, pretty } from './figures.js';

export function Calls({ report, figures, chosen, query }) {
  const { calls } = report;
  const asked = query.call === undefined ? null : Number(query.call);
  const open = asked ?? chosen?.call ?? chosen?.other_call ?? calls[0]?.ordinal ?? null;
  return html`${chosen && html`<p class="chosen-figure" role="status"><b class="num"><${Text}>${chosen.figure}<//></b> ${chosen.source
      ? html`<span class="quiet">is</span> <span class="num"><${Text}>${chosen.value}<//></span>${chosen.other_value === null || chosen.other_value === undefined ? '' : html` <span class="quiet">with</span> <span class="num"><${Text}>${chosen.other_value}<//></span>`} <span class="quiet">${sourceOf(chosen)}</span>`
      : html`<${Badge} tone="warn">no source<//> <span class="quiet">neither a tool's answer nor the question has it</span>`}</p>`}
    ${!chosen && html`<p class="quiet">Choose a figure of the answer to see what it comes from.</p>`}
    ${!calls.length && html`<${Empty} title="It called no tool" />`}
    <ul class="calls">${calls.map((call) => html`<${Call} key=${call.id} call=${call} open=${call.ordinal === open} chosen=${chosen}
      figures=${figures.filter((figure) => figure.call === call.ordinal || figure.other_call === call.ordinal)} />`)}</ul>`;
}

function Call({ call, open, chosen, figures }) {
  const body = `call-${call.ordinal}`;
  return html`<li class="call">
    <button type="button" class="plain head" aria-expanded=${open} aria-controls=${body} onClick=${() => setQuery({ call: open ? -1 : call.ordinal })}>
      <span aria-hidden="true">${open ? '▾' : '▸'}</span> <span class="num">${call.ordinal}</span> <b><code>${plain(call.tool)}</code></b>
      ${!call.success ? html`<${Badge} tone="bad">failed<//>` : !call.has_data ? html`<${Badge} tone="warn">no data<//>` : ''}
      <span class="quiet">${figures.length ? `${figures.length} ${figures.length === 1 ? 'figure' : 'figures'}` : ''} ${span(call.seconds * 1000)}</span></button>
    <div id=${body}>${open && html`<p class="arguments"><span class="quiet">asked</span> <code><${Text}>${JSON.stringify(call.arguments)}<//></code></p><${Answer} call=${call} figures=${figures} chosen=${chosen} />`}</div>
  </li>`;
}

function Answer({ call, figures, chosen }) {
  const box = useRef(null);
  const value = useMemo(() => answerOf(call), [call]);
  const pointers = useMemo(() => new Set(figures.flatMap((figure) => [figure.call === call.ordinal && figure.path, figure.other_call === call.ordinal && figure.other_path]).filter((one) => typeof one === 'string')), [figures, call]);
  const { text, spots } = useMemo(() => (value === undefined ? { text: call.output, spots: new Map() } : pretty(value, pointers)), [value, pointers]);
  const now = chosen && (chosen.call === call.ordinal ? chosen.path : chosen.other_call === call.ordinal ? chosen.other_path : null);
  useEffect(() => {
    const mark = box.current?.querySelector('mark.now');
    if (mark) box.current.scrollTop = mark.offsetTop - box.current.offsetTop - box.current.clientHeight / 2;
  }, [now, text]);
  return html`<pre class="block answered" ref=${box} tabindex="0" role="region" aria-label=${`Answer of call ${call.ordinal}`}>${cut(text, spots).map((piece) => (piece.pointer === undefined
    ? plain(piece.text)
    : html`<mark class=${piece.pointer === now ? 'now' : ''}>${plain(piece.text)}</mark>`))}</pre>
    ${value === undefined && html`<p class="quiet">The answer is kept up to a bound, and this one was longer.</p>`}`;
}

/** A text in pieces, those of spots apart; of spots within each other the outer one counts. */
function cut(text, spots) {
  const found = [];
  let at = 0;
  for (const [pointer, [start, end]] of [...spots].sort(([, a], [, b]) => a[0] - b[0])) {
    if (start < at) continue;
    found.push({ text: text.slice(at, start) }, { text: text.slice(start, end), pointer });
    at = end;
  }
  return [...found, { text: text.slice(at) }];
}
