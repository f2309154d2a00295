// Charts over time: one theme with the page, drawn anew when it changes.

import { createChart } from 'lightweight-charts';
import { html, useEffect, useRef, useState } from './html.js';

const COLOURS = [
  'panel', 'line', 'text', 'quiet', 'accent', 'good', 'warn', 'bad', 'gain', 'loss', 'chart-up', 'chart-down', 'mono',
];

/** The page's colours, and its font for figures, by their names; again when the theme changes. */
function useColours() {
  const [colours, setColours] = useState(read);
  useEffect(() => {
    const again = () => setColours(read());
    const theme = new MutationObserver(again);
    theme.observe(document.documentElement, { attributes: true, attributeFilter: ['data-theme'] });
    const dark = matchMedia('(prefers-color-scheme: dark)');
    dark.addEventListener('change', again);
    return () => {
      theme.disconnect();
      dark.removeEventListener('change', again);
    };
  }, []);
  return colours;
}

function read() {
  const found = getComputedStyle(document.documentElement);
  return Object.fromEntries(COLOURS.map((name) => [name.replace('-', '_'),
    found.getPropertyValue(`--${name}`).trim()]));
}

const themed = (shades) => ({
  layout: {
    background: { type: 'solid', color: 'transparent' }, textColor: shades.quiet, attributionLogo: false, fontSize: 11,
    fontFamily: shades.mono, panes: { separatorColor: shades.line, separatorHoverColor: shades.line },
  },
  grid: { vertLines: { color: 'transparent' }, horzLines: { color: shades.line, style: 1 } },
  crosshair: { vertLine: { color: shades.quiet }, horzLine: { color: shades.quiet } },
  rightPriceScale: { borderColor: shades.line },
  timeScale: { borderColor: shades.line },
});

/** A chart. build: (chart, shades) adds its series, and returns what update: (built, shades) draws on them; it is built
 * anew when deps or the theme change, and updated when `drawn` changes too. label: what it shows, for whoever cannot
 * see it: give the figures as a table too. What is in sight stays so when the window changes. */
export function Chart({ build, update = (..._built) => {}, deps = [], drawn = [], label, height, className = '',
  options = {} }) {
  const box = useRef(null);
  const made = useRef(null);
  const shades = useColours();
  useEffect(() => {
    /** @type {any} */
    const looks = { autoSize: true, ...themed(shades), ...options };
    const chart = createChart(box.current, looks);
    made.current = build(chart, shades);
    const scale = chart.timeScale();
    scale.fitContent();
    let [width, range] = [box.current.clientWidth, scale.getVisibleLogicalRange()];
    scale.subscribeVisibleLogicalRangeChange((now) => {
      if (box.current?.clientWidth === width) range = now;
    });
    let gone = false; // a frame may come after the chart has been built anew
    const resized = new ResizeObserver(() => requestAnimationFrame(() => {
      if (gone || !box.current || box.current.clientWidth === width) return;
      width = box.current.clientWidth;
      if (range) scale.setVisibleLogicalRange(range);
    }));
    resized.observe(box.current);
    return () => {
      gone = true;
      resized.disconnect();
      chart.remove();
    };
  }, [...deps, shades]);
  useEffect(() => update(made.current, shades), [...deps, ...drawn, shades]);
  return html`<div class=${`chart ${className}`} role="img" aria-label=${label} ref=${box}
    style=${height && { height: `${height}px` }}></div>`;
}

/** Values by the times of their bars, as a series takes them: a bar without one has its place all the same. */
export const pointsOf = (times, values) => values.map((value, at) => ((value ?? null) === null ? { time: times[at] }
  : { time: times[at], value }));

const LABEL = 13; // px that a label is high
const EDGE = 6;
const LEADER = 10; // px of the line from a price to its label

/** Prices across a chart: zones and lines behind its series, and right of the last bar their labels, each as near to
 * its price as there is room. */
export class Places {
  places = [];
  /** @type {any} */
  series = null;
  requestUpdate = () => {};
  panel = '';
  font = '';

  attached({ series, requestUpdate }) {
    Object.assign(this, { series, requestUpdate });
  }

  /** places: [{price, zone, text, colour, fill, dash, width}]. */
  show(places, { panel, mono }) {
    Object.assign(this, { places, panel, font: mono });
    this.requestUpdate();
  }

  paneViews() {
    const seen = this.places.map((one) => ({ ...one, y: this.series.priceToCoordinate(one.price) }))
      .filter((one) => one.y !== null);
    const draw = (of) => ({ draw: (target) => target.useMediaCoordinateSpace(({ context, mediaSize }) =>
      of(context, mediaSize.width, seen)) });
    return [{ zOrder: () => 'bottom', renderer: () => draw((...given) => this.lines(...given)) },
      { zOrder: () => 'top', renderer: () => draw((...given) => this.labels(...given)) }];
  }

  lines(context, width, seen) {
    for (const { y, zone, colour, fill, dash, width: thick } of seen) {
      if (zone) {
        const [top, bottom] = [zone[1], zone[0]].map((price) => this.series.priceToCoordinate(price));
        context.fillStyle = fill;
        context.fillRect(0, top, width, Math.max(bottom - top, 1));
      }
      stroke(context, colour, thick, dash, [[0, y], [width, y]]);
    }
  }

  labels(context, width, seen) {
    Object.assign(context, { font: `11px ${this.font}`, textAlign: 'right', textBaseline: 'middle' });
    const texts = seen.map((one) => context.measureText(one.text).width);
    const left = width - Math.max(0, ...texts) - 2 * EDGE;
    const at = apart(seen.map((one) => one.y));
    seen.forEach((one, n) => {
      context.fillStyle = this.panel;
      context.fillRect(left, at[n] - LABEL / 2, width - left, LABEL);
    });
    seen.forEach(({ y, colour, text }, n) => {
      stroke(context, colour, 1, [], [[left - LEADER, y], [left, at[n]]]);
      context.fillStyle = colour;
      context.fillText(text, width - EDGE, at[n]);
    });
  }
}

function stroke(context, colour, thick, dash, points) {
  Object.assign(context, { strokeStyle: colour, lineWidth: thick });
  context.setLineDash(dash);
  context.beginPath();
  points.forEach(([x, y]) => context.lineTo(x, Math.round(y) + 0.5));
  context.stroke();
  context.setLineDash([]);
}

/** Places of labels at least LABEL apart, in the order of their own places, whose distances from these have the least
 * sum of squares: with LABEL taken off for each one above, it is the isotonic regression, which is found by pooling
 * neighbours that are out of order at their mean. */
export function apart(places) {
  const order = places.map((_, n) => n).sort((a, b) => places[a] - places[b]);
  const pools = [];
  order.forEach((n, rank) => {
    let pool = { sum: places[n] - rank * LABEL, members: [n] };
    while (pools.length && pools.at(-1).sum / pools.at(-1).members.length >= pool.sum / pool.members.length) {
      const before = pools.pop();
      pool = { sum: before.sum + pool.sum, members: [...before.members, ...pool.members] };
    }
    pools.push(pool);
  });
  const found = [];
  let rank = 0;
  for (const { sum, members } of pools) for (const n of members) found[n] = sum / members.length + LABEL * rank++;
  return found;
}
