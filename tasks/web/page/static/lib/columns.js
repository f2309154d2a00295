// Columns of tables: a label, how the value of a field is shown, and the field, which the column sorts by.

import { figure, html, plain, signedMoney, signedPercent, span, words } from './view.js';
import { badgeOf, Figure, Link, quietOf, Text, textOf } from './ui.js';

const fieldOf = (label) => label.toLowerCase().replaceAll(/[ -]/g, '_');

/** A column of Table. show: makes the cell of the field's value; field: by default the one that the label names; looks
 * and title: of Table.
 * @param {string} label
 * @param {(value: any) => any} [show] */
export const column = (label, show = textOf, field = fieldOf(label), looks = '', title = undefined) =>
  [label, (row) => show(row[field]), looks, field, title];

/** A column of figures, aligned with each other. */
export const number = (label, show, field = undefined, looks = '', title = undefined) =>
  column(label, show, field, `num ${looks}`, title);

// What cells show, beside the figures of format.js and the parts of ui.js.
export const gain = (value, text = signedMoney(value)) => html`<${Figure} value=${value} sign>${text}<//>`;
export const gainShare = (value) => gain(value, signedPercent(value));
export const codeOf = (value) => html`<code>${textOf(value)}</code>`;
export const seconds = (value) => span(value * 1000);
/** Text of at most so many characters. */
export const upTo = (most, className = '') => (value) =>
  html`<${Text} most=${most} className=${className}>${value}<//>`;
export const prose = (most) => (value) => html`<div class="prose">${textOf(value, most)}</div>`;
/** What a question came to, from 0 to 1. */
export const outcomeOf = (value) => ({ 0: 'no', 1: 'yes' }[value] ?? figure(value));

/** The columns of reports, wherever they are listed. */
export const REPORT = [
  ['Role', (row) => html`<${Link} to=${`/reports/${row.id}`}>${words(row.role)}<//>`, '', 'role'],
  ['Answer', (row) => html`${badgeOf(row.verdict ?? row.status)} ${quietOf(plain(row.confidence))}`, '',
    (row) => row.verdict ?? row.status],
];
export const SOURCED = ['Sourced', (row) => (row.grounding === null ? quietOf('none')
  : `${row.grounding.supported}/${row.grounding.figures}`), 'num', null, 'figures of its text with a source'];
