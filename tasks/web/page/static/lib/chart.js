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

/** Zones of prices behind a series, from the left edge to the right, as a primitive of the library.
 * zones: [{low, high, colour}]. */
export class Zones {
  constructor(zones) {
    this.zones = zones;
  }

  attached({ series }) {
    this.series = series;
  }

  paneViews() {
    const draw = (target) => target.useBitmapCoordinateSpace(({ context, bitmapSize, verticalPixelRatio }) => {
      for (const { low, high, colour } of this.zones) {
        const [top, bottom] = [high, low].map((price) => this.series.priceToCoordinate(price) * verticalPixelRatio);
        context.fillStyle = colour;
        context.fillRect(0, top, bitmapSize.width, Math.max(bottom - top, 1));
      }
    });
    return [{ zOrder: () => 'bottom', renderer: () => ({ draw }) }];
  }
}
