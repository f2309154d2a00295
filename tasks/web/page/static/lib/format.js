// Figures, money and times as text. What is missing is shown as missing, never as zero.

import { signal } from '@preact/signals';
import { FIGURES, ID_LETTERS, SHAPES, STATES } from './looks.js';

export const MISSING = '\u2014';
/** A maker of things whose making is slow, which keeps what it made for the same arguments. */
function kept(make) {
  const known = new Map();
  return (...given) => {
    const key = JSON.stringify(given);
    if (!known.has(key)) known.set(key, make(...given));
    return known.get(key);
  };
}

/** digits: a number of them, [least, most], or null for those that a currency has. */
const format = kept((digits, options) => {
  const [least, most] = Array.isArray(digits) ? digits : [digits, digits];
  return new Intl.NumberFormat('en-US', { ...options, ...(digits === null ? {}
    : { minimumFractionDigits: least, maximumFractionDigits: most }) });
});
const brief = kept(() => new Intl.NumberFormat('en-US', { notation: 'compact', maximumFractionDigits: 1 }));

const isFigure = (value) => value !== null && value !== undefined && value !== '' && Number.isFinite(Number(value));

/** A figure with a fixed number of decimals, so that a column aligns at the point. */
/** @param {any} value @param {number | number[]} [digits] */
export const figure = (value, digits = 2) => shown(value, digits, {});

/** A figure of a kind of the table, with its digits, its unit and its sign. */
const ofKind = ({ digits, perCent, signed }) => (value, own = digits) =>
  (perCent ? share : shown)(value, own, signed ? signs : unsigned);

/** What the desk says of its exchange, of its account's currency, and of the currencies of other listings. */
export const home = signal({ place: 'New York', zone: 'America/New_York', currency: 'USD', currencies: {}, coins: [] });

const A_PAIR = /^[A-Z0-9]{1,10}-([A-Z]{3,4})$/;
const quoteOf = (symbol) => [A_PAIR.exec(symbol)?.[1]].find((one) => home.value.coins.includes(one));
/** The currency of a listing's prices, by the form of its symbol. */
export const currencyOf = (symbol) => quoteOf(symbol) ?? home.value.currencies[/\.([A-Z]{1,3})$/.exec(symbol)?.[1]]
  ?? 'USD';
const IN_PAIRS = [2, 8];

const signs = { signDisplay: 'exceptZero' };
const unsigned = { signDisplay: 'negative' }; // what rounds to zero has no minus
const shown = (value, digits, options, factor = 1) => (isFigure(value) ? format(digits, options)
  .format(Number(value) * factor) : MISSING);
const share = (value, digits, options) => (isFigure(value) ? `${shown(value, digits, options, 100)}\u202f%` : MISSING);

export const count = ofKind(FIGURES.count);
/** Shares, contracts or coins: with as many decimals as they have. */
export const quantity = ofKind(FIGURES.shares);
export const ratio = ofKind(FIGURES.ratio);
/** Brier, log. */
export const score = ofKind(FIGURES.score);
/** A part of a whole: 0.371 is 37.1 %. */
export const percent = ofKind(FIGURES.percent);
/** A change of something, as per cent with its sign. */
export const signedPercent = ofKind(FIGURES.change);
/** A probability, a hit rate or one end of their interval. */
export const chance = ofKind(FIGURES.probability);

/** Money in a currency, by default the account's: $1,234.50, -$3.00, ¥3,795; a change of it has its sign. A coin that
 * is no currency of a state stands behind its figure. digits: null for those of the currency; yen have none. */
export const money = (value, digits = null, currency = home.value.currency, options = {}) => {
  if (/^[A-Z]{3}$/.test(currency)) return shown(value, digits, { style: 'currency', currency, ...options });
  return isFigure(value) ? `${shown(value, digits ?? IN_PAIRS, options)} ${plain(currency)}` : MISSING;
};
export const signedMoney = (value, digits = null, currency = home.value.currency) => money(value, digits, currency,
  signs);
const WHOLE = ['JPY', 'KRW']; // without cents, though some steps of prices are tenths of them
/** The decimals of a listing's prices, as [least, most]: a step may be finer than its currency's cents. */
export const priceDigits = (symbol, currency = currencyOf(symbol)) => {
  if (quoteOf(symbol)) return IN_PAIRS;
  return currency === 'USD' ? [2, 2] : WHOLE.includes(currency) ? [0, 2] : [2, 4];
};
/** A price of a listing in its own currency. of: a row with its symbol, and its currency where the desk states it. */
export const priceOf = (value, of, digits = null) => {
  const currency = of.currency ?? currencyOf(of.symbol);
  return money(value, digits ?? (currency === 'USD' && !quoteOf(of.symbol) ? null : priceDigits(of.symbol, currency)),
    currency);
};

/** A number of bytes, tokens or the like, short: 1.2k, 3.4M. */
export const compact = (value) => (isFigure(value) ? brief().format(Number(value)) : MISSING);

/** Name, seconds of one, and from how many on it is the first.
 * @type {[string, number, number][]} */
const UNITS = [['d', 86_400, 172_800], ['h', 3_600, 3_600], ['min', 60, 60], ['s', 1, 0]];

/** A span of time in its two largest units, as the terminal has it: 340 ms, 4.2 s, 3 min 20 s, 2 h 5 min, 9 d. ms: null
 * for one that is not known. */
export function span(ms) {
  if (!isFigure(ms)) return MISSING;
  const seconds = Number(ms) / 1000;
  if (seconds < 1) return `${Math.round(seconds * 1000)} ms`;
  if (seconds < 10) return `${seconds.toFixed(1)} s`;
  const whole = Math.round(seconds);
  const place = UNITS.findIndex(([, , least]) => whole >= least);
  const [[name, size], [small, part]] = [UNITS[place], UNITS[Math.min(place + 1, UNITS.length - 1)]];
  const parts = Math.round(seconds / part);
  const [first, second] = [Math.floor(parts / (size / part)), parts % (size / part)];
  return second ? `${first} ${name} ${second} ${small}` : `${first} ${name}`;
}

/** Milliseconds between two times of the desk; the end may be missing: until now. */
export function between(from, until = null) {
  const begin = date(from);
  if (!begin) return null;
  return (date(until) ?? new Date()).getTime() - begin.getTime();
}

/** A time of the desk as a Date; null for none. Times without a zone are UTC. */
export function date(value) {
  if (value === null || value === undefined || value === '') return null;
  if (value instanceof Date) return value;
  const text = String(value);
  const found = new Date(/T.*(Z|[+-]\d\d:?\d\d)$/.test(text) || !text.includes('T') ? text : `${text}Z`);
  return Number.isNaN(found.getTime()) ? null : found;
}

/** Whose clock times are shown in: 'exchange' or 'local'; the other one is in the tooltip. */
export const zone = signal(localStorage.getItem('desk-zone') === 'local' ? 'local' : 'exchange');
export function setZone(name) {
  localStorage.setItem('desk-zone', name);
  zone.value = name;
}

const DAY = { year: 'numeric', month: '2-digit', day: '2-digit' };
const MINUTE = { hour: '2-digit', minute: '2-digit' };
const PARTS = { time: { ...MINUTE, second: '2-digit' }, minute: MINUTE, day: DAY,
  both: { ...DAY, ...MINUTE, second: '2-digit' } };
const clock = kept((timeZone, parts) => new Intl.DateTimeFormat('sv-SE', { ...PARTS[parts], hourCycle: 'h23',
  ...(timeZone ? { timeZone } : {}) }));

/** A time as text. parts: 'time', 'minute', 'day', 'both'. name: 'exchange', 'local'; that of the page by default. */
export function moment(value, parts = 'both', name = zone.value) {
  const at = date(value);
  return at ? clock(name === 'local' ? null : home.value.zone, parts).format(at) : MISSING;
}

/** The tooltip of a time: of the exchange, local and UTC. */
export function moments(value) {
  const at = date(value);
  if (!at) return 'missing';
  const local = Intl.DateTimeFormat().resolvedOptions().timeZone;
  return [`${moment(at, 'both', 'exchange')} ${plain(home.value.place)}`, `${moment(at, 'both', 'local')} ${local}`,
    at.toISOString()].join('\n');
}

/** How long ago: just now, 5.0 s ago, 3 m 10 s ago. */
export function ago(value) {
  const ms = between(value);
  return ms === null ? MISSING : ms < 1000 ? 'just now' : `${span(ms - (ms % 1000))} ago`;
}

// Text from the desk: a model, a headline or a tool wrote it, so all of it is hostile until shown as text.

// Characters that turn the direction of what follows, or are not seen at all.
const UNSEEN =
  /[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f\u061c\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff]/g;

/** The text with characters that hide or reorder others made visible. */
export function plain(value) {
  if (value === null || value === undefined) return '';
  return String(value).replace(UNSEEN, '\u25af');
}

/** A name of the desk, such as `key_risks`, as words. */
export const words = (value) => plain(value).replaceAll('_', ' ');

/** A URL that may be a link to elsewhere: http or https alone; else null. */
export function safeUrl(value) {
  try {
    const url = new URL(String(value));
    return url.protocol === 'https:' || url.protocol === 'http:' ? url.href : null;
  } catch {
    return null;
  }
}

/** The first characters of a text, with an ellipsis where some are left out. */
export function short(value, most = 80) {
  const text = plain(value);
  return text.length > most ? `${text.slice(0, most - 1)}\u2026` : text;
}

/** The last letters of an id, which are random: commands and addresses take them in place of the id. */
export const shortId = (id) => plain(id).slice(-ID_LETTERS);
/** The beginning of a hash. */
export const shortHash = (hash) => plain(hash).slice(0, ID_LETTERS);

export const MARKS = SHAPES;
/** How a state of a thing looks: [words, tone]. of: `run`, `order`, `approval`, `trading`, or `any` other. */
export function lookOf(of, state) {
  const own = words(state);
  const [said, tone] = STATES[of][state] ?? STATES.any[own.toLowerCase()] ?? ['', 'plain'];
  return [said || own, tone];
}

/** JSON is shown as such, laid out; any other text as it is. */
export function laidOut(text) {
  const found = plain(text);
  if (!/^\s*[[{]/.test(found)) return found;
  try {
    return plain(JSON.stringify(JSON.parse(text), null, 1));
  } catch {
    return found;
  }
}

/** Accounts of backtests. */
export const PAST = /^backtest-/;
