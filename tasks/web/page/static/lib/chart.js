// Charts over time: one theme with the page, drawn anew when it changes.

import { createChart } from 'lightweight-charts';
import { html, useEffect, useRef } from './html.js';

/** The page's colours by their names, as they are now. */
export function colours() {
  const found = getComputedStyle(document.documentElement);
  const of = (name) => found.getPropertyValue(`--${name}`).trim();
  return Object.fromEntries(['panel', 'line', 'text', 'quiet', 'accent', 'good', 'warn', 'bad', 'gain', 'loss', 'chart-up', 'chart-down'].map((name) => [name.replace('-', '_'), of(name)]));
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
  useEffect(() => {
    let chart = null;
    const draw = () => {
      chart?.remove();
      const shades = colours();
      chart = createChart(box.current, { autoSize: true, ...themed(shades), ...options });
      build(chart, shades);
    };
    draw();
    const resized = new ResizeObserver(() => requestAnimationFrame(() => chart?.timeScale().fitContent()));
    resized.observe(box.current);
    const dark = matchMedia('(prefers-color-scheme: dark)');
    const theme = new MutationObserver(draw);
    theme.observe(document.documentElement, { attributes: true, attributeFilter: ['data-theme'] });
    dark.addEventListener('change', draw);
    return () => {
      resized.disconnect();
      theme.disconnect();
      dark.removeEventListener('change', draw);
      chart.remove();
      chart = null;
    };
  }, deps);
  return html`<div class="chart" role="img" aria-label=${label} ref=${box} style=${{ height: `${height}px` }}></div>`;
}
