// The prices of a symbol: candles and volume, indicators that a person switches on, and what the desk did on which day.

import { get } from '../../lib/api.js';
import { compact, figure, signedPercent } from '../../lib/format.js';
import { html, useMemo, useRef, useState } from '../../lib/html.js';
import { setQuery } from '../../lib/router.js';
import { useResource } from '../../lib/store.js';
import { Empty, Loaded, Panel, Segments, Table, Time } from '../../lib/ui.js';
import { plain } from '../../lib/text.js';
import { KINDS, eventsByBar, levels } from './marks.js';
import { PriceChart, colourOf } from './chart.js';

const INDICATORS = [['sma20', 'SMA 20'], ['sma50', 'SMA 50'], ['sma200', 'SMA 200'], ['ema12', 'EMA 12'], ['ema26', 'EMA 26'], ['bollinger', 'Bollinger'], ['rsi14', 'RSI 14'], ['macd', 'MACD'], ['atr14', 'ATR 14'], ['adx14', 'ADX 14']];
const SPANS = [['60', '3 m'], ['125', '6 m'], ['250', '1 y'], ['500', '2 y'], ['1000', '4 y']];
const USUAL = 'sma20';

export function Prices({ path, symbol, query, detail }) {
  const sessions = SPANS.some(([value]) => value === query.sessions) ? query.sessions : '250';
  const interval = query.interval === 'week' ? 'week' : 'day';
  const lines = (query.lines ?? USUAL).split(',').filter((name) => INDICATORS.some(([known]) => known === name));
  const hidden = new Set((query.hide ?? '').split(','));
  const bars = useResource(({ signal }) => get(`${path}/bars`, { sessions, interval, indicator: lines, run: query.run, day: query.day }, { signal }), [path, sessions, interval, lines.join(), query.run, query.day]);
  // What was drawn stays while another line is fetched.
  const kept = useRef(null);
  if (bars.data) kept.current = bars.data;
  const shown = bars.data === undefined && !bars.problem && kept.current ? { ...bars, data: kept.current } : bars;
  const turn = (name) => setQuery({ lines: (lines.includes(name) ? lines.filter((one) => one !== name) : [...lines, name]).join(',') || 'none' });
  const turnKind = (kind) => {
    const next = new Set([...hidden].filter(Boolean));
    if (!next.delete(kind)) next.add(kind);
    setQuery({ hide: [...next].join(',') });
  };
  return html`<${Panel} title="Prices" tools=${html`<${Segments} label="Span" value=${sessions} onChange=${(value) => setQuery({ sessions: value })} options=${SPANS} />
      <${Segments} label="Bars" value=${interval} onChange=${(value) => setQuery({ interval: value === 'day' ? '' : value })} options=${[['day', 'Days'], ['week', 'Weeks']]} />`}>
    <div class="row chips" role="group" aria-label="Indicators">${INDICATORS.map(([name, label]) => html`<button type="button" key=${name} aria-pressed=${lines.includes(name)} onClick=${() => turn(name)}>${label}</button>`)}</div>
    <div class="row chips" role="group" aria-label="What the desk did">${KINDS.map(({ kind, name, mark }) => html`<button type="button" key=${kind} aria-pressed=${!hidden.has(kind)} onClick=${() => turnKind(kind)}><span aria-hidden="true">${mark}</span> ${name}</button>`)}</div>
    <${Loaded} from=${shown} what="prices" isEmpty=${(data) => !data.bars.length}
      empty=${html`<${Empty} title="No prices">${(shown.data?.missing ?? []).map((gap) => `${plain(gap.what)}: ${plain(gap.reason)}`).join('; ') || null}<//>`}>
      ${(data) => html`<${Drawn} data=${data} symbol=${symbol} detail=${detail} hidden=${hidden} />`}<//>
  <//>`;
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
  return html`<${PriceChart} data=${data} events=${events} levels=${lines} onOver=${setOver} label=${`${plain(symbol)}: ${data.bars.length} bars from ${data.bars[0].at} to ${data.bars.at(-1).at}, last close ${figure(data.bars.at(-1).close)}`} />
    <p class="bar-facts" aria-live="off"><span class="num">${plain(bar?.at)}</span> <span class="num">O ${figure(bar?.open)}</span> <span class="num">H ${figure(bar?.high)}</span> <span class="num">L ${figure(bar?.low)}</span> <span class="num">C ${figure(bar?.close)}</span>
      <span class=${`num ${change > 0 ? 'gain' : change < 0 ? 'loss' : ''}`}>${signedPercent(change)}</span> <span class="num">vol ${compact(bar?.volume)}</span>
      ${Object.entries(data.indicators).map(([name, values], index) => html`<span class="num"><span class="line-mark" style=${{ background: colourOf(index) }}></span>${plain(name).replaceAll('_', ' ')} ${figure(values[at])}</span>`)}
      ${(events.get(at) ?? []).map((event) => html` <a href=${event.href}>${event.text}</a>`)}</p>
    <p class="quiet small">Prices of ${plain(data.market)} as of <${Time} at=${data.as_of} />, ${data.adjusted === null ? 'not known whether adjusted' : data.adjusted ? 'adjusted' : 'not adjusted for splits and dividends'}${data.incomplete ? ', the last bar goes on' : ''}.
      ${data.missing.map((gap) => ` Missing: ${plain(gap.what)} (${plain(gap.reason)}).`)} Charts by <a href="https://www.tradingview.com/" target="_blank" rel="noreferrer noopener" class="in-text">TradingView</a> Lightweight Charts™.</p>
    <${AsTable} data=${data} />`;
}

/** The bars as a table: for whoever cannot see the picture, and for copying. */
function AsTable({ data }) {
  const [open, setOpen] = useState(false);
  const [all, setAll] = useState(false);
  const rows = useMemo(() => {
    const newest = data.bars.map((bar, index) => ({ ...bar, index })).reverse();
    return all ? newest : newest.slice(0, 30);
  }, [data.bars, all]);
  const names = Object.keys(data.indicators);
  const columns = useMemo(() => [
    { id: 'at', label: 'Bar', cell: (row) => html`<span class="num">${plain(row.at)}</span>` },
    ...['open', 'high', 'low', 'close'].map((name) => ({ id: name, label: name, num: true, cell: (row) => figure(row[name]) })),
    { id: 'volume', label: 'volume', num: true, cell: (row) => figure(row.volume, 0) },
    ...names.map((name) => ({ id: name, label: name.replaceAll('_', ' '), num: true, wide: true, cell: (row) => figure(data.indicators[name][row.index]) })),
  ], [data]);
  return html`<details onToggle=${(event) => setOpen(event.target.open)}><summary>As a table</summary>
    ${open && html`<${Table} label="Bars" columns=${columns} rows=${rows} rowKey=${(row) => row.at} />
      ${!all && data.bars.length > 30 && html`<button type="button" onClick=${() => setAll(true)}>Show all ${data.bars.length}</button>`}`}</details>`;
}
