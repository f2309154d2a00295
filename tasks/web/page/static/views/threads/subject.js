// The subject of a thread: a path of the desk's own, whose last part may be a symbol.

import { html } from '../../lib/html.js';
import { SymbolLink, Text } from '../../lib/ui.js';

const SYMBOL = /^[A-Z][A-Z0-9.-]{0,9}$/;

export function Subject({ subject }) {
  const place = subject.lastIndexOf('/') + 1;
  const last = subject.slice(place);
  const before = subject.slice(0, place);
  return html`<span title=${subject}>${SYMBOL.test(last) ? html`<${SymbolLink} symbol=${last} />` : html`<${Text}>${last}<//>`}${before && html` <${Text} className="quiet small wide" most=${60}>${before.replace(/\/$/, '')}<//>`}</span>`;
}
