// Charts over time: one theme with the page, drawn anew when it changes.

import { createChart } from 'lightweight-charts';
import { html, useEffect, useRef, useState } from './html.js';

const COLOURS = [
  'panel', 'line', 'text', 'quiet', 'accent', 'good', 'warn', 'bad', 'gain', 'loss', 'chart-up', 'chart-down', 'mono',
];

/** The page's colours, and its font for figures, by their names; again when the theme changes. */
export function useColours() {
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
    panes: { separatorColor: shades.line, separatorHoverColor: shades.line, enableResize: false },
  },
  grid: { vertLines: { color: 'transparent' }, horzLines: { color: shades.line, style: 1 } },
  rightPriceScale: { borderColor: shades.line },
  timeScale: { borderColor: shades.line },
});

/** A chart. build: (chart, shades) adds its series; anew when deps or the theme change. label: what it shows, for
 * whoever cannot see it: give the figures as a table too. All of it stays shown when the window changes. */
export function Chart({ build, deps = [], label, height = 260, options = {} }) {
  const box = useRef(null);
  const shades = useColours();
  useEffect(() => {
    /** @type {any} */
    const looks = { autoSize: true, ...themed(shades), ...options };
    const chart = createChart(box.current, looks);
    build(chart, shades);
    const resized = new ResizeObserver(() => requestAnimationFrame(() => box.current && chart.timeScale()
      .fitContent()));
    resized.observe(box.current);
    return () => {
      resized.disconnect();
      chart.remove();
    };
  }, [...deps, shades]);
  return html`<div class="chart" role="img" aria-label=${label} ref=${box} style=${{ height: `${height}px` }}></div>`;
}
