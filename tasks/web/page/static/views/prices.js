// The prices of a symbol: candles and volume, indicators that a person switches on, and what the desk did on which day.

import {
  CandlestickSeries, createChart, createSeriesMarkers, HistogramSeries, LineSeries, LineStyle,
} from 'lightweight-charts';
import {
  compact, count, figure, html, Loaded, moment, number, numOf, Panel, plain, SaveButton, Segments, setQuery,
  signedPercent, Table, timeOf, useEffect, useFirst, useGet, useMemo, useRef, useState, words,
} from '../lib/view.js';
import { useColours } from '../lib/chart.js';

const INDICATORS = [['sma20', 'SMA 20'], ['sma50', 'SMA 50'], ['sma200', 'SMA 200'], ['ema12', 'EMA 12'],
  ['ema26', 'EMA 26'], ['bollinger', 'Bollinger'], ['rsi14', 'RSI 14'], ['macd', 'MACD'], ['atr14', 'ATR 14'],
  ['adx14', 'ADX 14']];
const SPANS = [['60', '3 m'], ['125', '6 m'], ['250', '1 y'], ['500', '2 y'], ['1000', '4 y']];
const USUAL = 'sma20';

export function Prices({ path, symbol, query, detail }) {
  const sessions = SPANS.some(([value]) => value === query.sessions) ? query.sessions : '250';
  const interval = query.interval === 'week' ? 'week' : 'day';
  const lines = (query.lines ?? USUAL).split(',').filter((name) => INDICATORS.some(([known]) => known === name));
  const hidden = new Set((query.hide ?? '').split(','));
  const bars = useGet(`${path}/bars`, { sessions, interval, indicator: lines, run: query.run, day: query.day },
    { deps: [lines.join()] });
  // What was drawn stays while another line is fetched.
  const kept = useRef(null);
  if (bars.data) kept.current = bars.data;
  const shown = bars.data === undefined && !bars.problem && kept.current ? { ...bars, data: kept.current } : bars;
  const picture = new URLSearchParams({ sessions: String(Math.min(sessions, 500)), interval });
  for (const name of ['run', 'day']) if (query[name]) picture.set(name, query[name]);
  const turn = (name) =>
    setQuery({ lines: (lines.includes(name) ? lines.filter((one) => one !== name) : [...lines, name]).join(',')
    || 'none' });
  const turnKind = (kind) => {
    const next = new Set([...hidden].filter(Boolean));
    if (!next.delete(kind)) next.add(kind);
    setQuery({ hide: [...next].join(',') });
  };
  return html`<${Panel} title="Prices" tools=${html`<${Segments} label="Span" value=${sessions} onChange=${(value) =>
    setQuery({ sessions: value })} options=${SPANS} />
      <${Segments} label="Bars" value=${interval} onChange=${(value) =>
        setQuery({ interval: value === 'day' ? '' : value })} options=${[['day', 'Days'], ['week', 'Weeks']]} />
      <${SaveButton} label="Save picture" path=${`${path}/picture?${picture}`} name=${`${symbol}.png`} />`}>
    <div class="row chips" role="group" aria-label="Indicators">
      ${INDICATORS.map(([name, label]) => html`<button type="button" key=${name} aria-pressed=${lines.includes(name)}
      onClick=${() => turn(name)}>${label}</button>`)}</div>
    <div class="row chips" role="group" aria-label="What the desk did">
      ${KINDS.map(({ kind, name, mark }) => html`<button type="button" key=${kind} aria-pressed=${!hidden.has(kind)}
      onClick=${() => turnKind(kind)}><span aria-hidden="true">${mark}</span> ${name}</button>`)}</div>
    <${Loaded} from=${shown} what="prices" isEmpty=${(data) => !data.bars.length}
      empty="No prices" hint=${(shown.data?.missing ?? [])
        .map((gap) => `${plain(gap.what)}: ${plain(gap.reason)}`).join('; ') || null}>
      ${(data) => html`<${Drawn} data=${data} symbol=${symbol} detail=${detail} hidden=${hidden} />`}<//><//>`;
}

function Drawn({ data, symbol, detail, hidden }) {
  const [over, setOver] = useState(null);
  const key = [...hidden].sort().join();
  const events = useMemo(() => (detail ? eventsByBar(data.bars, detail, hidden) : new Map()), [data.bars, detail, key]);
  const lines = useMemo(() => (detail ? levels(detail, hidden) : []), [detail, key]);
  const at = over ?? data.bars.length - 1;
  const bar = data.bars[at];
  const before = data.bars[at - 1];
  const change = before?.close && bar?.close ? bar.close / before.close - 1 : null;
  return html`<${PriceChart} data=${data} events=${events} levels=${lines} onOver=${setOver}
    label=${`${plain(symbol)}: ${data.bars.length} bars from ${data.bars[0].at} to ${data.bars.at(-1)
    .at}, last close ${figure(data.bars.at(-1).close)}`} />
    <p class="bar-facts" aria-live="off">${numOf(plain(bar?.at))} <span class="num">O ${figure(bar?.open)}</span> <span
      class="num">H ${figure(bar?.high)}</span> <span class="num">L ${figure(bar?.low)}</span> <span
      class="num">C ${figure(bar?.close)}</span>
      <span class=${`num ${change > 0 ? 'gain' : change < 0 ? 'loss' : ''}`}>${signedPercent(change)}</span> <span
        class="num">vol ${compact(bar?.volume)}</span>
      ${Object.entries(data.indicators).map(([name, values], index) => html`<span class="num">
        <span class="line-mark" style=${{ background: colourOf(index) }}></span>
        ${words(name)} ${figure(values[at])}</span>`)}
      ${(events.get(at) ?? []).map((event) => html` <a href=${event.href}>${event.text}</a>`)}</p>
    <p class="quiet small">Prices of ${plain(data.market)} as of ${timeOf(data.as_of)}, ${data.adjusted === null
      ? 'not known whether adjusted' : data.adjusted ? 'adjusted'
      : 'not adjusted for splits and dividends'}${data.incomplete ? ', the last bar goes on' : ''}.
      ${data.missing.map((gap) => ` Missing: ${plain(gap.what)} (${plain(gap.reason)}).`)} ${detail?.plan_notes.length
        ? `Plan: ${detail.plan_notes.map(plain).join(', ')}.` : ''} Charts by <a
        href="https://www.tradingview.com/" target="_blank" rel="noreferrer noopener"
        class="in-text">TradingView</a> Lightweight Charts™.</p>
    <${AsTable} data=${data} />`;
}

/** The bars as a table: for whoever cannot see the picture, and for copying. */
function AsTable({ data }) {
  const [open, setOpen] = useState(false);
  const newest = useMemo(() => data.bars.map((bar, index) => ({ ...bar, index })).reverse(), [data.bars]);
  const [rows, more] = useFirst(newest, 30);
  const names = Object.keys(data.indicators);
  const columns = useMemo(() => [
    ['Bar', (row) => numOf(plain(row.at))],
    ...['open', 'high', 'low', 'close'].map((name) => [name, (row) => figure(row[name]), 'num']),
    number('volume', count),
    ...names.map((name) => [name.replaceAll('_', ' '), (row) => figure(data.indicators[name][row.index]), 'num wide']),
  ], [data]);
  return html`<details onToggle=${(event) => setOpen(event.target.open)}><summary>As a table</summary>
    ${open && html`<${Table} label="Bars" columns=${columns} rows=${rows} rowKey="at" />${more}`}</details>`;
}

// The chart itself, drawn by lightweight-charts on a canvas, in the colours of the page's theme.
const PRICES = 0;
// Indicators with a scale of their own are drawn below the prices.
const OWN = /^(rsi|macd|atr|adx)/;
const LINES = ['#7b61c4', '#c47b1f', '#1f8fa8', '#b5477f', '#6b8e23', '#8a6d3b'];

/** The colour of an indicator, by its place among those that are drawn. */
const colourOf = (index) => LINES[index % LINES.length];

/** data: bars with indicators; events: by bar; levels: prices that hold; onOver: gets the bar under the pointer, or
 * null. */
function PriceChart({ data, events, levels, onOver, label }) {
  const box = useRef(null);
  const drawn = useRef(null);
  const colours = useColours();
  const latest = useRef(onOver);
  latest.current = onOver;

  useEffect(() => {
    const chart = createChart(box.current, {
      autoSize: true,
      layout: { attributionLogo: false, background: { color: colours.panel }, textColor: colours.quiet,
        fontFamily: colours.mono, fontSize: 11, panes: { separatorColor: colours.line } },
      grid: { vertLines: { color: colours.line }, horzLines: { color: colours.line } },
      rightPriceScale: { borderColor: colours.line }, timeScale: { borderColor: colours.line, rightOffset: 8 },
      crosshair: { vertLine: { color: colours.quiet }, horzLine: { color: colours.quiet } },
    });
    const candles = chart.addSeries(CandlestickSeries,
      { upColor: 'transparent', downColor: colours.chart_down, borderUpColor: colours.chart_up,
      borderDownColor: colours.chart_down, wickUpColor: colours.chart_up, wickDownColor: colours.chart_down });
    const volume = chart.addSeries(HistogramSeries, { priceScaleId: 'volume', priceFormat: { type: 'volume' },
      lastValueVisible: false, priceLineVisible: false });
    chart.priceScale('volume').applyOptions({ scaleMargins: { top: 0.82, bottom: 0 } });
    candles.priceScale().applyOptions({ scaleMargins: { top: 0.08, bottom: 0.2 } });
    const times = data.bars.map((bar) => bar.at.slice(0, 10));
    const whole = (bar) => [bar.open, bar.high, bar.low, bar.close].every((value) => value !== null);
    candles.setData(data.bars.map((bar, index) => (whole(bar) ? { time: times[index], open: bar.open, high: bar.high,
      low: bar.low, close: bar.close } : { time: times[index] })));
    volume.setData(data.bars.map((bar, index) => (bar.volume === null ? { time: times[index] }
      : { time: times[index], value: bar.volume,
      color: faint(bar.close >= bar.open ? colours.chart_up : colours.chart_down) })));
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
    const lines = levels.map((level) => candles.createPriceLine({ price: level.price, title: level.title,
      color: colours[level.tone], lineStyle: LineStyle.Dashed, lineWidth: 1, axisLabelVisible: true }));
    return () => drawn.current && lines.forEach((line) => drawn.current.candles === candles
      && candles.removePriceLine(line));
  }, [data, colours, levels]);

  const panes = new Set(Object.keys(data.indicators).filter((name) => OWN.test(name)).map((name) => OWN.exec(name)[1]))
    .size;
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
      color: histogram ? faint(colour) : colour, lineWidth: 1, lastValueVisible: false, priceLineVisible: false,
        crosshairMarkerVisible: false,
      lineStyle: name.includes('_') && !name.startsWith('macd') ? LineStyle.Dotted : LineStyle.Solid,
    }, own ? panes.get(own) : PRICES);
    line.setData(values.map((value, index) => (value === null ? { time: times[index] }
      : { time: times[index], value })));
  }
  for (const index of panes.values()) chart.panes()[index]?.setStretchFactor(0.28);
}

const faint = (colour) => (/^#[0-9a-f]{6}$/i.test(colour) ? `${colour}55` : colour);

// What the desk did with a symbol, on the bar of its market day: hits, verdicts, orders and fills; and levels it holds
// to.
const KINDS = [
  { kind: 'hits', name: 'hits', mark: '○' },
  { kind: 'verdicts', name: 'verdicts', mark: '■' },
  { kind: 'orders', name: 'orders', mark: '□' },
  { kind: 'fills', name: 'fills', mark: '▲▼' },
  { kind: 'levels', name: 'cost, stops and plan', mark: '┄' },
];

const TEXTS = {
  hits: (row) => ({ text: `hit: ${row.lens}`, href: `#/runs/${row.run_id}?stage=hits` }),
  verdicts: (row) => ({ text: row.rating, href: `#/verdicts/${row.id}` }),
  orders: (row) => ({ text: `${row.action} ${row.side ?? ''} ${row.quantity === null ? ''
    : figure(row.quantity, 0)} ${row.state}`, href: `#/orders/${row.id}`, side: row.side }),
  fills: (row) => ({ text: `${row.side} ${figure(row.quantity, 0)} at ${figure(row.price)}`,
    href: `#/orders/${row.order_id}`, side: row.side, price: row.price }),
};

/** What happened by the index of its bar. A day without a bar, such as that of a fill after the last one, counts to the
 * bar before it, and its text has the day. */
function eventsByBar(bars, detail, hidden) {
  const found = new Map();
  const days = bars.map((bar) => bar.at.slice(0, 10));
  for (const kind of Object.keys(TEXTS)) {
    if (hidden.has(kind)) continue;
    for (const row of detail[kind] ?? []) {
      const on = moment(row.market_at ?? row.filled_at, 'day', 'ny');
      const at = lastUpTo(days, on);
      if (at < 0) continue;
      const { text, href, ...more } = TEXTS[kind](row);
      const shown = words(days[at] === on || bars.at(-1).at.length < 10 ? text : `${text} (${on})`);
      if (!found.has(at)) found.set(at, []);
      found.get(at).push({ kind, text: shown, href, at, ...more });
    }
  }
  return found;
}

function lastUpTo(days, day) {
  let [low, high] = [0, days.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (days[middle] <= day) low = middle + 1;
    else high = middle;
  }
  return low - 1;
}

/** Marks for the chart, few on a bar: of each kind one, which counts the others. */
function marksOf(events, colours) {
  const marks = [];
  for (const [at, list] of [...events].sort(([a], [b]) => a - b)) {
    for (const { kind } of KINDS) {
      const same = list.filter((event) => event.kind === kind);
      if (!same.length) continue;
      const names = [...new Set(same.map((event) => event.text))];
      const text = kind === 'hits' ? (same.length > 1 ? `${same.length} hits` : 'hit') : kind === 'orders' ? ''
        : names.length > 1 ? `${names[0]} +${names.length - 1}` : names[0];
      const sells = same[0].side === 'sell';
      marks.push({
        at, text,
        ...({
          hits: { position: 'belowBar', shape: 'circle', color: colours.quiet },
          verdicts: { position: 'aboveBar', shape: 'square', color: /^(BUY|STRONG BUY)/.test(names[0])
            ? colours.chart_up : /^(PASS|SELL|STRONG SELL)/.test(names[0]) ? colours.chart_down : colours.warn },
          orders: { position: 'belowBar', shape: 'square', color: colours.accent },
          fills: { position: sells ? 'aboveBar' : 'belowBar', shape: sells ? 'arrowDown' : 'arrowUp',
            color: colours.accent },
        })[kind],
      });
    }
  }
  return marks;
}

/** Prices that hold now: the average cost of a position, the stops and limits that protect it, and its plan. */
function levels(detail, hidden) {
  if (hidden.has('levels')) return [];
  const planned = detail.plan.map(({ id, price }) => ({ price, title: `plan: ${id}`, tone: 'warn' }));
  return detail.positions.filter((one) => one.symbol === detail.symbol).flatMap((one) => [
    { price: one.average_cost, title: 'cost', tone: 'accent' },
    ...one.protected_by.flatMap((stop) => [
      ...(stop.stop_price === null ? [] : [{ price: stop.stop_price, title: 'stop', tone: 'chart_down' }]),
      ...(stop.limit_price === null ? [] : [{ price: stop.limit_price, title: 'limit', tone: 'chart_up' }]),
    ]),
  ]).concat(planned);
}
