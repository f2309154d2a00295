// The prices of a symbol: candles, volume, levels, zones, lines, indicators, and what the desk did when.

import { CandlestickSeries, createSeriesMarkers, HistogramSeries, LineSeries, LineStyle } from 'lightweight-charts';
import {
  compact, count, figure, gainShare, go, html, Loaded, moment, number, numOf, Panel, pathWith, plain, quantity,
  priceDigits, SaveButton, Segments, setQuery, Table, timeOf, useFirst, useGet, useMemo, useRef, useState, words,
} from '../lib/view.js';
import { Chart, Places, pointsOf } from '../lib/chart.js';

const INDICATORS = [['levels', 'Levels'], ['trendlines', 'Trendlines'], ['sma20', 'SMA 20'], ['sma50', 'SMA 50'],
  ['sma200', 'SMA 200'], ['ema12', 'EMA 12'], ['ema26', 'EMA 26'], ['bollinger', 'Bollinger'], ['rsi14', 'RSI 14'],
  ['relative', 'Against the benchmark'], ['macd', 'MACD'], ['atr14', 'ATR 14'], ['adx14', 'ADX 14']];
const SPANS = [['20', '1 m'], ['60', '3 m'], ['125', '6 m'], ['250', '1 y'], ['500', '2 y'], ['1000', '4 y']];
const BARS = [['day', 'Days'], ['week', 'Weeks'], ['hour', 'Hours'], ['15min', '15 min']];
const MOST = { hour: '60', '15min': '20' }; // sessions of intraday bars
const USUAL = 'levels,sma50,rsi14,relative';
const ADJUSTED = { true: 'adjusted', false: 'not adjusted for splits and dividends',
  null: 'not known whether adjusted' };

export function Prices({ path, symbol, query, detail, desk }) {
  const [pointing, setPointing] = useState(null); // the view that gets the price which is clicked next
  const interval = BARS.some(([value]) => value === query.interval) ? query.interval : 'day';
  const offered = SPANS.filter(([value]) => Number(value) <= Number(MOST[interval] ?? 1000));
  const sessions = offered.some(([value]) => value === query.sessions) ? query.sessions : MOST[interval] ?? '250';
  const lines = (query.lines ?? USUAL).split(',').filter((name) => INDICATORS.some(([known]) => known === name));
  const hidden = (query.hide ?? '').split(',').filter(Boolean);
  const bars = useGet(`${path}/bars`, { sessions, interval, indicator: lines, run: query.run, day: query.day });
  // What was drawn stays while another line is fetched.
  const kept = useRef(null);
  if (bars.data) kept.current = bars.data;
  const shown = bars.data === undefined && !bars.problem && kept.current ? { ...bars, data: kept.current } : bars;
  const picture = { sessions: Math.min(Number(sessions), 500), interval, run: query.run, day: query.day };
  const turned = (all, name) => (all.includes(name) ? all.filter((one) => one !== name) : [...all, name]).join(',');
  const chips = (label, rows, turn) => html`<div class="row chips" role="group" aria-label=${label}>
    ${rows.map(([name, text, on]) => html`<button type="button" key=${name} aria-pressed=${on}
      onClick=${() => turn(name)}>${text}</button>`)}</div>`;
  const segments = (label, name, value, options, usual) => html`<${Segments} label=${label} value=${value}
    options=${options} onChange=${(next) => setQuery({ [name]: next === usual ? '' : next })} />`;
  return html`<${Panel} title="Prices" tools=${html`${segments('Span', 'sessions', sessions, offered)}
      ${segments('Bars', 'interval', interval, shown.data?.intraday ? BARS : BARS.slice(0, 2), 'day')}
      ${segments('Scale', 'scale', query.scale ?? '', [['', 'Linear'], ['log', 'Log']])}
      ${(desk.data?.views ?? []).filter((view) => view.point).map((view) => html`<button type="button"
        key=${view.path} aria-pressed=${pointing === view.path}
        onClick=${() => setPointing(pointing === view.path ? null : view.path)}>${plain(view.point)}…</button>`)}
      <${SaveButton} label="Save picture" path=${pathWith(`${path}/picture`, picture)} name=${`${symbol}.png`} />`}>
    ${chips('Indicators', INDICATORS.map(([name, label]) => [name, label, lines.includes(name)]),
      (name) => setQuery({ lines: turned(lines, name) || 'none' }))}
    ${chips('What the desk did', KINDS.map(([kind, mark, name = kind]) => [kind,
      html`<span aria-hidden="true">${mark}</span> ${name}`, !hidden.includes(kind)]),
      (name) => setQuery({ hide: turned(hidden, name) }))}
    <${Loaded} from=${shown} what="prices" isEmpty=${(data) => !data.bars.length} empty="No prices"
      hint=${shown.data?.missing.map((gap) => `${plain(gap.what)}: ${plain(gap.reason)}`).join('; ')}>
      ${(data) => html`<${Drawn} data=${data} symbol=${symbol} detail=${detail} hidden=${hidden}
        log=${query.scale === 'log'} pointing=${pointing} />`}<//><//>`;
}

function Drawn({ data, symbol, detail, hidden, log, pointing }) {
  const [over, setOver] = useState(null);
  const key = [...hidden].sort().join();
  const events = useMemo(() => (detail ? eventsByBar(data.bars, detail, hidden) : new Map()), [data.bars, detail, key]);
  const held = useMemo(() => (detail ? heldLevels(detail, hidden) : []), [detail, key]);
  const at = over ?? data.bars.length - 1;
  const bar = data.bars[at];
  const before = data.bars[at - 1];
  const change = before?.close && bar?.close ? bar.close / before.close - 1 : null;
  const [first, last] = [data.bars[0], data.bars.at(-1)];
  const digits = priceDigits(symbol);
  const label = [`${symbol}: ${data.bars.length} bars from ${first.at} to ${last.at}`,
    `last close ${figure(last.close, digits)}`,
    ...data.levels.map((one) => `${one.id} ${figure(one.price, digits)}`)].join(', ');
  const price = (name) => numOf(`${name[0].toUpperCase()} ${figure(bar?.[name], digits)}`);
  const onPrice = pointing === null ? null : (price) => go(pointing, { symbol, price: price.toFixed(digits[1]),
    side: price >= last.close ? 'above' : 'below' });
  return html`${pointing !== null && html`<p class="notice" role="status">Click at the price on the chart, or${' '}
      <button type="button" onClick=${() => onPrice(last.close)}>type it</button>.</p>`}
    <${PriceChart} data=${data} events=${events} held=${held} log=${log} digits=${digits} onOver=${setOver}
      onPrice=${onPrice} label=${plain(label)} />
    <p class="bar-facts" aria-live="off">${numOf(plain(bar?.at))}
      ${['open', 'high', 'low', 'close'].map(price)}
      ${gainShare(change)} ${numOf(`vol ${compact(bar?.volume)}`)}
      ${Object.entries(data.indicators).map(([name, values], index) => html`<span class="num">
        <span class="line-mark" style=${{ background: colourOf(index) }}></span>
        ${words(name)} ${figure(values[at])}</span>`)}
      ${(events.get(at) ?? []).map((event) => html` <a href=${event.href}>${event.text}</a>`)}</p>
    <p class="quiet small">Prices of ${plain(data.market)} as of ${timeOf(data.as_of)}, ${ADJUSTED[data.adjusted]}
      ${data.incomplete && ', the last bar goes on'}.
      ${data.missing.map((gap) => ` Missing: ${plain(gap.what)} (${plain(gap.reason)}).`)}
      ${detail?.plan_notes.length > 0 && ` Plan: ${detail.plan_notes.map(plain).join(', ')}.`}
      ${' '}Charts by <a href="https://www.tradingview.com/" target="_blank" rel="noreferrer noopener"
        class="in-text">TradingView</a> Lightweight Charts™.</p>
    <${AsTable} data=${data} digits=${digits} />`;
}

/** The bars as a table: for whoever cannot see the picture, and for copying. */
function AsTable({ data, digits }) {
  const [open, setOpen] = useState(false);
  const newest = useMemo(() => data.bars.map((bar, index) => ({ ...bar, index })).reverse(), [data.bars]);
  const [rows, more] = useFirst(newest, 30);
  const columns = useMemo(() => [
    ['Bar', (row) => numOf(plain(row.at))],
    ...['open', 'high', 'low', 'close'].map((name) => number(name, (value) => figure(value, digits))),
    number('volume', count),
    ...Object.entries(data.indicators).map(([name, values]) => [words(name), (row) => figure(values[row.index]),
      'num wide']),
  ], [data]);
  return html`<details onToggle=${(event) => setOpen(event.target.open)}><summary>As a table</summary>
    ${open && html`<${Table} label="Bars" columns=${columns} rows=${rows} rowKey="at" />${more}`}</details>`;
}

// Indicators with a scale of their own are drawn below the prices, some with the values that they are read by.
const OWN = /^(rsi|relative|macd|atr|adx)/;
const READ_BY = { rsi: [30, 70], relative: [100], macd: [0] };
const LINES = ['#7b61c4', '#c47b1f', '#1f8fa8', '#b5477f', '#6b8e23', '#8a6d3b'];
const QUIET = { lastValueVisible: false, priceLineVisible: false, crosshairMarkerVisible: false };
const LABELS = 150; // px for the labels of prices, right of the bars, of windows that are wide enough
const AROUND = 110; // px of a window that are not of the chart
const LOG = 1; // the library's mode of a price scale

const colourOf = (index) => LINES[index % LINES.length];
const faint = (colour, share = '55') => (/^#[0-9a-f]{6}$/i.test(colour) ? `${colour}${share}` : colour);

/** digits: of prices; events: by bar; held: prices that hold; onOver: gets the bar under the pointer, or null; onPrice:
 * gets the price that is clicked, null while nobody asks for one. */
function PriceChart({ data, events, held, log, digits, onOver, onPrice, label }) {
  const asked = useRef(null);
  asked.current = onPrice;
  const intraday = data.bars[0].at.length > 10;
  const times = useMemo(() => data.bars.map((bar) => (intraday ? Date.parse(`${bar.at}Z`) / 1000 : bar.at)), [data]);
  const build = (chart, colours) => {
    const [up, down] = [colours.chart_up, colours.chart_down];
    const candles = chart.addSeries(CandlestickSeries, { upColor: 'transparent', downColor: down, borderUpColor: up,
      borderDownColor: down, wickUpColor: up, wickDownColor: down });
    if (digits[0] < digits[1]) {
      const formatter = (value) => figure(value, digits);
      candles.applyOptions({ priceFormat: { type: 'custom', minMove: 10 ** -digits[1], formatter } });
    }
    const volume = chart.addSeries(HistogramSeries, { priceScaleId: 'volume', priceFormat: { type: 'volume' },
      lastValueVisible: false, priceLineVisible: false });
    chart.priceScale('volume').applyOptions({ scaleMargins: { top: 1 - 1 / 6, bottom: 0 } });
    candles.priceScale().applyOptions({ scaleMargins: { top: 0.08, bottom: 0.2 }, mode: log ? LOG : 0 });
    candles.setData(data.bars.map(({ open, high, low, close }, at) => ({ time: times[at],
      ...([open, high, low, close].includes(null) ? {} : { open, high, low, close }) })));
    volume.setData(pointsOf(times, data.bars.map((bar) => bar.volume)).map((point, at) => ({ ...point,
      color: faint(data.bars[at].close >= data.bars[at].open ? up : down) })));
    addLines(chart, data, times, colours);
    addTrends(chart, data, times, colours);
    const places = new Map(times.map((time, index) => [time, index]));
    chart.subscribeCrosshairMove(({ time }) => onOver(time === undefined ? null : places.get(time) ?? null));
    chart.subscribeClick(({ point, paneIndex = 0 }) => {
      const price = point && paneIndex === 0 ? candles.coordinateToPrice(point.y) : null;
      if (asked.current && price !== null && price > 0) asked.current(price);
    });
    const across = new Places();
    candles.attachPrimitive(across);
    return { marks: createSeriesMarkers(candles, []), across };
  };
  const update = (built, colours) => {
    built.marks.setMarkers(marksOf(events, colours).map(({ at, ...mark }) => ({ time: times[at], ...mark })));
    built.across.show([...levelsOf(data.levels, colours, digits), ...held.map(({ price, title, tone }) => ({ price,
      text: `${title} ${figure(price, digits)}`, colour: colours[tone], dash: [5, 3], width: 1 }))], colours);
  };
  const panes = new Set(Object.keys(data.indicators).filter((name) => OWN.test(name)).map((name) => OWN.exec(name)[1]));
  return html`<${Chart} build=${build} update=${update} deps=${[data, log]} drawn=${[events, held]} label=${label}
    className=${`price-chart panes-${Math.min(panes.size, 4)}`}
    options=${{ timeScale: { rightOffset: roomOf(data.bars.length),
      timeVisible: intraday } }} />`;
}

/** Bars that are left free for the labels: as many as that part of the chart's width has. */
function roomOf(bars) {
  const width = Math.max(window.innerWidth - AROUND, 200);
  const labels = Math.min(LABELS, 0.3 * width);
  return Math.ceil((bars * labels) / (width - labels));
}

/** The indicators as lines: over the prices, or each family in a pane of its own. */
function addLines(chart, data, times, colours) {
  const panes = new Map();
  Object.entries(data.indicators).forEach(([name, values], place) => {
    const own = OWN.exec(name)?.[1];
    const histogram = name.endsWith('histogram');
    const colour = colourOf(place);
    const first = own && !panes.has(own);
    if (first) panes.set(own, panes.size + 1);
    const line = chart.addSeries(histogram ? HistogramSeries : LineSeries, {
      ...QUIET, color: histogram ? faint(colour) : colour, lineWidth: 1,
      lineStyle: name.includes('_') && !name.startsWith('macd') ? LineStyle.Dotted : LineStyle.Solid,
    }, own ? panes.get(own) : 0);
    line.setData(pointsOf(times, values));
    for (const price of (first && READ_BY[own]) || []) line.createPriceLine({ price, color: colours.quiet,
      lineStyle: LineStyle.Dotted, lineWidth: 1, axisLabelVisible: true, title: price === 100 ? 'benchmark' : '' });
  });
  for (const index of panes.values()) chart.panes()[index]?.setStretchFactor(0.28);
}

const ofKind = (kind, colours) => (kind === 'support' ? colours.chart_up : colours.chart_down);

/** The levels of the study within their zones: the more swings touched one, the thicker it is. */
const levelsOf = (levels, colours, digits) => levels.map(({ id, kind, price, low, high, touches }) => ({
  price, zone: [low, high], text: `${id} ${figure(price, digits)}`, colour: ofKind(kind, colours), dash: [],
  width: Math.min(Math.max(touches, 1), 3), fill: faint(ofKind(kind, colours), touches >= 3 ? '44' : '22') }));

/** The study's trendlines, from their first swing on. */
function addTrends(chart, { lines }, times, colours) {
  for (const one of lines) {
    chart.addSeries(LineSeries, { ...QUIET, color: ofKind(one.kind, colours), lineWidth: 2, title: one.id,
      lineStyle: one.broken ? LineStyle.Dotted : LineStyle.Solid }).setData([
      { time: times[one.start], value: one.start_price }, { time: times[one.end], value: one.end_price }]);
  }
}

// What the desk did with a symbol, on the bar of its market day, and the levels that it holds to.
const KINDS = [['hits', '○'], ['verdicts', '■'], ['orders', '□'], ['fills', '▲▼'],
  ['levels', '┄', 'cost, stops and plan']];

// Of a person's own lens, with the version of its text.
const lensOf = (row) => (row.lens_version ? `${row.lens}@${row.lens_version}` : row.lens);
const TEXTS = {
  hits: (row) => ({ text: `hit: ${lensOf(row)}`, href: `#/runs/${row.run_id}?stage=hits` }),
  verdicts: (row) => ({ text: row.rating, href: `#/verdicts/${row.id}` }),
  orders: (row) => ({ text: `${row.action} ${row.side ?? ''} ${row.quantity === null ? ''
    : quantity(row.quantity)} ${row.state}`, href: `#/orders/${row.id}`, side: row.side }),
  fills: (row) => ({ text: `${row.side} ${quantity(row.quantity)} at ${figure(row.price)}`,
    href: `#/orders/${row.order_id}`, side: row.side, price: row.price }),
};

/** What happened by the index of its bar. What has none, such as a fill after the last one, counts to the bar before
 * it, and its text has the day. */
function eventsByBar(bars, detail, hidden) {
  const found = new Map();
  const starts = bars.map((bar) => bar.at.replace('T', ' '));
  for (const kind of Object.keys(TEXTS).filter((one) => !hidden.includes(one))) {
    for (const row of detail[kind] ?? []) {
      const when = moment(row.market_at ?? row.filled_at, 'both', 'exchange');
      const at = starts.findLastIndex((start) => start <= when);
      if (at < 0) continue;
      const { text, ...more } = TEXTS[kind](row);
      const day = when.slice(0, 10);
      found.set(at, [...(found.get(at) ?? []), { kind, at, ...more,
        text: words(starts[at].startsWith(day) ? text : `${text} (${day})`) }]);
    }
  }
  return found;
}

/** Marks for the chart, one of each kind on a bar; what they are of is said below the chart. */
function marksOf(events, colours) {
  const marks = [];
  for (const [at, list] of [...events].sort(([a], [b]) => a - b)) {
    for (const [kind] of KINDS) {
      const same = list.filter((event) => event.kind === kind);
      if (!same.length) continue;
      const names = [...new Set(same.map((event) => event.text))];
      const sells = same[0].side === 'sell';
      marks.push({
        at,
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
function heldLevels(detail, hidden) {
  if (hidden.includes('levels')) return [];
  const planned = detail.plan.map(({ id, price }) => ({ price, title: `plan: ${id}`, tone: 'warn' }));
  return detail.positions.filter((one) => one.symbol === detail.symbol).flatMap((one) => [
    { price: one.average_cost, title: 'cost', tone: 'accent' },
    ...one.protected_by.flatMap((stop) => [
      ...(stop.stop_price === null ? [] : [{ price: stop.stop_price, title: 'stop', tone: 'chart_down' }]),
      ...(stop.limit_price === null ? [] : [{ price: stop.limit_price, title: 'limit', tone: 'chart_up' }]),
    ]),
  ]).concat(planned);
}
