// Columns of tables: a label, how the value of a field is shown, and the field, which the column sorts by.

import {
  chance, compact, count, figure, MISSING, PAST, plain, priceOf, shortHash, signedMoney, signedPercent, span, words,
} from './format.js';
import { html } from './html.js';
import { part } from './router.js';
import { badgeOf, Link, pastOf, quietOf, symbolOf, Text, textOf } from './ui.js';

const fieldOf = (label) => label.toLowerCase().replaceAll(/[ -]/g, '_');

/** A column of Table. show: makes the cell of the field's value; field: by default the one that the label names; looks
 * and title: of Table.
 * @param {string} label
 * @param {(value: any) => any} [show] */
export const column = (label, show = textOf, field = fieldOf(label), looks = '', title = undefined) =>
  [label, (row) => show(row[field]), looks, field, title];

export const number = (label, show, field = undefined, looks = '', title = undefined) =>
  column(label, show, field, `num ${looks}`, title);

/** A column of prices of listings, each in its own currency. */
export const prices = (label, field = fieldOf(label), looks = '', digits = null) =>
  [label, (row) => priceOf(row[field], row, digits), `num ${looks}`, field];

// What cells show, beside the figures of format.js and the parts of ui.js.
/** A gain or a loss in its colour; the text has its sign. */
export const gain = (value, text = signedMoney(value)) =>
  html`<span class=${`num ${value > 0 ? 'gain' : value < 0 ? 'loss' : ''}`}>${text}</span>`;
export const gainShare = (value) => gain(value, signedPercent(value));
/** A difference, with a star where it is told from 0 among all that were looked at. */
export const told = (row, value, text) => gain(value, `${text}${row.told ? '*' : ''}`);
export const aStep = (value) => signedPercent(value, 3);
export const tickerOf = (symbol) => html`<span class="symbol">${plain(symbol)}</span>`;
/** of: the run that they are of; a link from a backtest's keeps it. */
export const symbolsOf = (symbols, of = undefined) => symbols.map((symbol) => html`${symbolOf(symbol, of)} `);
export const voiceOf = (voice) => html`<${Link} to=${`/scores/voice/${part(voice)}`}>${textOf(voice)}<//>`;
export const questionOf = (id, text, most) => html`<${Link} to=${`/questions/${id}`}>${textOf(text, most)}<//>`;
/** An account, marked where it is a backtest's. */
export const accountOf = (account) => html`${textOf(account)}${PAST.test(account) ? html` ${pastOf(account)}` : ''}`;
export const codeOf = (value) => html`<code>${textOf(value)}</code>`;
/** The beginning of a hash or of an id that leads nowhere, and all of it in the tooltip. */
export const hashOf = (hash) => (hash ? html`<code title=${plain(hash)}>${shortHash(hash)}</code>` : MISSING);
export const tokensOf = (value) => html`<span class="num" title=${count(value)}>${compact(value)}</span>`;
export const seconds = (value) => span(value === null ? null : value * 1000);
export const upTo = (most, className = '') => (value) =>
  html`<${Text} most=${most} className=${className}>${value}<//>`;
export const prose = (most) => (value) => html`<div class="prose">${textOf(value, most)}</div>`;
/** What a question came to, from 0 to 1. */
export const outcomeOf = (value) => ({ 0: 'no', 1: 'yes' }[value] ?? figure(value));

/** The 95 % interval of an estimate, or why there is none. */
export const rangeOf = ({ low, high, lack }, show) => (low === null ? lack : `${show(low)} to ${show(high)}`);
/** That of a share, which is none below 0 or above 1. */
export const shareRange = (found) => rangeOf(found, (value) => chance(Math.min(Math.max(value, 0), 1)));
export const hitsOf = (hits) => (hits
  ? html`${chance(hits.mean)} ${quietOf(`of ${count(hits.n)}, ${shareRange(hits)}`)}`
  : 'none has its outcome yet');

/** A rating with its confidence. id: of the verdict, which it then leads to. */
export function ratingOf(rating, confidence, id = null) {
  if (!rating) return quietOf('none');
  const shown = badgeOf(rating);
  return html`${id ? html`<${Link} to=${`/verdicts/${id}`}>${shown}<//>` : shown} ${quietOf(textOf(confidence))}`;
}

export const KIND = ['Kind', (run) => html`${run.kind} ${run.schedule && quietOf(textOf(run.schedule))} ${
  run.kind !== 'backtest' && pastOf(run.account)}`, '', 'kind'];
export const stepsOf = (steps) => Object.values(steps).reduce(([a, b], [c, d]) => [a + c, b + d], [0, 0]);
export const SYMBOL = ['Symbol', (row) => symbolOf(row.symbol, row), '', 'symbol'];
/** The columns of reports, wherever they are listed. */
export const REPORT = [
  ['Role', (row) => html`<${Link} to=${`/reports/${row.id}`}>${words(row.role)}<//>`, '', 'role'],
  ['Answer', (row) => ratingOf(row.verdict ?? row.status, row.confidence), '', (row) => row.verdict ?? row.status],
];
export const FORECAST = [
  column('Voice', voiceOf), number('Round', count), number('Yes', figure, 'probability'), number('Baseline', figure),
  column('Because', upTo(160), 'because', 'wide'),
];
export const SOURCED = ['Sourced', (row) => (row.grounding === null ? quietOf('none')
  : `${row.grounding.supported}/${row.grounding.figures}`), 'num', null, 'figures of its text with a source'];
