// Small charts: lines in one picture, without axes, for cards and tiles; the words beside them have the figures.

import { html, part, Pending, plain, priceOf, useGet } from './view.js';

const WIDE = 200;
const HIGH = 60;

/** lines: [[class, values]], equally many, null where there is none; levels: [[class, value]], drawn across. */
export function Lines({ lines, levels = [], label, className = '' }) {
  const given = (values) => values.filter((one) => one !== null && one !== undefined);
  const known = given([...lines.flatMap(([, values]) => values), ...levels.map(([, value]) => value)]);
  if (!lines.some(([, values]) => given(values).length > 1)) return null;
  const [low, high] = [Math.min(...known), Math.max(...known)];
  const y = (value) => HIGH - 2 - ((value - low) / (high - low || 1)) * (HIGH - 4);
  const path = (values) => values.reduce((text, value, at) => (value === null || value === undefined ? text
    : `${text}${text && values[at - 1] !== null ? 'L' : 'M'}${((at / Math.max(values.length - 1, 1)) * WIDE)
      .toFixed(1)} ${y(value).toFixed(1)}`), '');
  return html`<svg class=${`lines-chart ${className}`} viewBox=${`0 0 ${WIDE} ${HIGH}`} preserveAspectRatio="none"
    role="img" aria-label=${plain(label)}>
    ${levels.map(([name, value]) => html`<path class=${`level ${name}`} d=${`M0 ${y(value)}H${WIDE}`} />`)}
    ${lines.map(([name, values]) => html`<path class=${name} d=${path(values)} />`)}</svg>`;
}

/** The closes of a symbol over the last weeks, as its run saw them, with its stop and its target. */
export function Closes({ symbol, run, stop, target }) {
  const bars = useGet(`/symbols/${part(symbol)}/bars`, { sessions: 60, run });
  const closes = bars.data?.bars.map((one) => one.close) ?? [];
  const levels = [['stop', stop], ['target', target]].filter(([, value]) => value);
  const said = [`${symbol}, the last ${closes.length} sessions`,
    ...levels.map(([name, value]) => `${name} ${priceOf(value, { symbol })}`)].join(', ');
  if (bars.loading && !bars.data) return html`<figure class="mini"><${Pending} /></figure>`;
  return closes.length > 1 && html`<figure class="mini">
    <${Lines} lines=${[['accent-line', closes]]} levels=${levels} label=${said} />
    <figcaption class="quiet small">${said}</figcaption></figure>`;
}
