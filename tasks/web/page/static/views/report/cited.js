// A text of a report with its figures as links to their sources, and the rest of its answer as a tree.

import { html } from '../../lib/html.js';
import { href, place } from '../../lib/router.js';
import { Text } from '../../lib/ui.js';
import { plain } from '../../lib/text.js';
import { pieces } from './figures.js';

/** text: of the report; name: how its figures name it. choose: gets the figure that was pressed. */
export function Cited({ text, name, figures, chosen, choose }) {
  return html`<bdi>${pieces(text, name, figures).map((piece) => {
    if (typeof piece === 'string') return plain(piece);
    const { figure } = piece;
    const source = figure.source ? sourceOf(figure) : 'no source was found for it';
    return html`<a key=${figure.number} href=${href(place.value.path, { figure: figure.number })} class=${`figure ${figure.source ? '' : 'unsourced'}`} aria-current=${chosen === figure ? 'true' : undefined} title=${source}
      onClick=${(event) => plainClick(event) && choose(figure)}>${plain(piece.text)}${figure.source ? '' : '?'}</a>`;
  })}</bdi>`;
}

/** Whether a click is meant for this tab; the browser then does not follow the link. */
function plainClick(event) {
  if (event.ctrlKey || event.metaKey || event.shiftKey || event.button) return false;
  event.preventDefault();
  return true;
}

/** Where a figure comes from, as a line of text. */
export function sourceOf({ source, tool, call, path, operation, other_call: other, other_path: otherPath }) {
  const place = (number, way) => (number === null ? `the question ${way ?? ''}` : `call ${number} ${way ?? ''}`);
  if (source === 'question') return `of the question ${plain(path)}`;
  if (source === 'derived') return `derived: ${plain(operation)} of ${place(call, plain(path))} and ${place(other, plain(otherPath))}`;
  return `${plain(tool)}, call ${call}: ${plain(path)}`;
}

/** The fields of an answer that have no place of their own, in depth. */
export function Tree({ value }) {
  const entries = Object.entries(value ?? {});
  if (!entries.length) return null;
  return html`<dl class="tree">${entries.map(([name, one]) => html`<div><dt>${plain(name).replaceAll('_', ' ')}</dt><dd><${Leaf} value=${one} /></dd></div>`)}</dl>`;
}

function Leaf({ value }) {
  if (value === null || value === undefined || value === '') return html`<span class="quiet">none</span>`;
  if (Array.isArray(value)) {
    if (!value.length) return html`<span class="quiet">none</span>`;
    return html`<ul class="dots">${value.map((one) => html`<li><${Leaf} value=${one} /></li>`)}</ul>`;
  }
  if (typeof value === 'object') return html`<${Tree} value=${value} />`;
  return html`<${Text} className=${typeof value === 'number' ? 'num' : ''}>${typeof value === 'boolean' ? (value ? 'yes' : 'no') : value}<//>`;
}
