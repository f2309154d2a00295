// The chart itself, drawn by lightweight-charts on a canvas, in the colours of the page's theme.

import { CandlestickSeries, HistogramSeries, LineSeries, LineStyle, createChart, createSeriesMarkers } from 'lightweight-charts';
import { html, useEffect, useRef, useState } from '../../lib/html.js';
import { marksOf } from './marks.js';

const PRICES = 0;
// Indicators with a scale of their own are drawn below the prices.
const OWN = /^(rsi|macd|atr|adx)/;
const LINES = ['#7b61c4', '#c47b1f', '#1f8fa8', '#b5477f', '#6b8e23', '#8a6d3b'];

/** The colour of an indicator, by its place among those that are drawn. */
export const colourOf = (index) => LINES[index % LINES.length];

/** Colours of the theme that is in force, and again when it changes. */
export function useColours() {
  const [colours, setColours] = useState(read);
  useEffect(() => {
    const again = () => setColours(read());
    const seen = new MutationObserver(again);
    seen.observe(document.documentElement, { attributes: true, attributeFilter: ['data-theme'] });
    const media = matchMedia('(prefers-color-scheme: dark)');
    media.addEventListener('change', again);
    return () => {
      seen.disconnect();
      media.removeEventListener('change', again);
    };
  }, []);
  return colours;
}

function read() {
  const style = getComputedStyle(document.documentElement);
  const of = (name) => style.getPropertyValue(name).trim();
  return { up: of('--chart-up'), down: of('--chart-down'), line: of('--line'), text: of('--quiet'), quiet: of('--quiet'), panel: of('--panel'), accent: of('--accent'), warn: of('--warn'), font: of('--mono') };
}

/** data: bars with indicators; events: by bar; levels: prices that hold; onOver: gets the bar under the pointer, or null. */
export function PriceChart({ data, events, levels, onOver, label }) {
  const box = useRef(null);
  const drawn = useRef(null);
  const colours = useColours();
  const latest = useRef(onOver);
  latest.current = onOver;

  useEffect(() => {
    const chart = createChart(box.current, {
      autoSize: true,
      layout: { attributionLogo: false, background: { color: colours.panel }, textColor: colours.text, fontFamily: colours.font, fontSize: 11, panes: { separatorColor: colours.line } },
      grid: { vertLines: { color: colours.line }, horzLines: { color: colours.line } },
      rightPriceScale: { borderColor: colours.line }, timeScale: { borderColor: colours.line, rightOffset: 8 },
      crosshair: { vertLine: { color: colours.quiet }, horzLine: { color: colours.quiet } },
    });
    const candles = chart.addSeries(CandlestickSeries, { upColor: 'transparent', downColor: colours.down, borderUpColor: colours.up, borderDownColor: colours.down, wickUpColor: colours.up, wickDownColor: colours.down });
    const volume = chart.addSeries(HistogramSeries, { priceScaleId: 'volume', priceFormat: { type: 'volume' }, lastValueVisible: false, priceLineVisible: false });
    chart.priceScale('volume').applyOptions({ scaleMargins: { top: 0.82, bottom: 0 } });
    candles.priceScale().applyOptions({ scaleMargins: { top: 0.08, bottom: 0.2 } });
    const times = data.bars.map((bar) => bar.at.slice(0, 10));
    const whole = (bar) => [bar.open, bar.high, bar.low, bar.close].every((value) => value !== null);
    candles.setData(data.bars.map((bar, index) => (whole(bar) ? { time: times[index], open: bar.open, high: bar.high, low: bar.low, close: bar.close } : { time: times[index] })));
    volume.setData(data.bars.map((bar, index) => (bar.volume === null ? { time: times[index] } : { time: times[index], value: bar.volume, color: faint(bar.close >= bar.open ? colours.up : colours.down) })));
    addLines(chart, data, times);
    const marks = createSeriesMarkers(candles, []);
    const places = new Map(times.map((time, index) => [time, index]));
    chart.subscribeCrosshairMove(({ time }) => latest.current(time === undefined ? null : places.get(time) ?? null));
    chart.timeScale().fitContent();
    const release = keepRange(chart, box.current);
    drawn.current = { chart, candles, marks, times };
    return () => {
      release();
      drawn.current = null;
      chart.remove();
    };
  }, [data, colours]);

  useEffect(() => {
    const { marks, times } = drawn.current;
    marks.setMarkers(marksOf(events, colours).map(({ at, ...mark }) => ({ time: times[at], ...mark })));
  }, [data, colours, events]);

  useEffect(() => {
    const { candles } = drawn.current;
    const lines = levels.map((level) => candles.createPriceLine({ price: level.price, title: level.title, color: colours[level.tone], lineStyle: LineStyle.Dashed, lineWidth: 1, axisLabelVisible: true }));
    return () => drawn.current && lines.forEach((line) => drawn.current.candles === candles && candles.removePriceLine(line));
  }, [data, colours, levels]);

  const panes = new Set(Object.keys(data.indicators).filter((name) => OWN.test(name)).map((name) => OWN.exec(name)[1])).size;
  return html`<div class=${`price-chart panes-${Math.min(panes, 4)}`} ref=${box} role="img" aria-label=${label}></div>`;
}

/** Keep the bars that are shown when the box gets wider or narrower; return what ends that. */
function keepRange(chart, box) {
  const scale = chart.timeScale();
  let [width, shown, ended] = [box.clientWidth, scale.getVisibleLogicalRange(), false];
  scale.subscribeVisibleLogicalRangeChange((range) => {
    if (box.clientWidth === width) shown = range;
  });
  const restore = () => {
    if (ended || box.clientWidth === width) return;
    width = box.clientWidth;
    if (shown) scale.setVisibleLogicalRange(shown);
  };
  const resized = new ResizeObserver(() => requestAnimationFrame(restore));
  resized.observe(box);
  return () => {
    ended = true;
    resized.disconnect();
  };
}

/** The indicators as lines: over the prices, or each family in a pane of its own. */
function addLines(chart, data, times) {
  let next = 0;
  const panes = new Map();
  for (const [name, values] of Object.entries(data.indicators)) {
    const own = OWN.exec(name)?.[1];
    if (own && !panes.has(own)) panes.set(own, panes.size + 1);
    const histogram = name.endsWith('histogram');
    const colour = colourOf(next);
    next += 1;
    const line = chart.addSeries(histogram ? HistogramSeries : LineSeries, {
      color: histogram ? faint(colour) : colour, lineWidth: 1, lastValueVisible: false, priceLineVisible: false, crosshairMarkerVisible: false,
      lineStyle: name.includes('_') && !name.startsWith('macd') ? LineStyle.Dotted : LineStyle.Solid,
    }, own ? panes.get(own) : PRICES);
    line.setData(values.map((value, index) => (value === null ? { time: times[index] } : { time: times[index], value })));
  }
  for (const index of panes.values()) chart.panes()[index]?.setStretchFactor(0.28);
}

const faint = (colour) => (/^#[0-9a-f]{6}$/i.test(colour) ? `${colour}55` : colour);
