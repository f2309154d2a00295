// Lineage as a graph: from the screener's hit to the fill, each node a link to what it stands for.

import { html, useEffect, useRef, useState } from '../../lib/html.js';
import { href } from '../../lib/router.js';
import { money } from '../../lib/format.js';
import { plain, short, shortId } from '../../lib/text.js';
import { quantity, stateName, stateTone } from './terms.js';

const HEIGHT = 38;
const GAP = 10;
const HEAD = 18;
const LEAST = 92; // width of a node at which a line of it can still be read
const MOST = 190;
const LIST = 640; // most width of layers one below the other
const BETWEEN = 14;
const BESIDE = 78; // of the layers' names, where they are one below the other

const STANCES = { CONFIRMED: 'good', REJECT: 'bad', CAUTION: 'warn' };
const ANSWERS = { approved: 'good', denied: 'bad', pending: 'warn', expired: 'warn' };

/** The nodes of a kind in a chain, each with its facts beside its own fields. */
export const partsOf = (chain, kind) => chain.nodes.filter((one) => one.kind === kind).map((one) => ({ ...one, ...one.facts, id: one.id }));

/** The layers of an order's chain, first to last, and the edges between their nodes. A node without `to` stands for
 * what there is not. */
export function layersOf({ order, chain }) {
  const own = `/orders/${order.id}`;
  const thread = (one) => (one.thread_id ? { to: `/threads/${one.thread_id}`, query: { turn: one.codex_turn_id } } : {});
  const part = (name) => ({ to: own, query: { part: name } });
  const made = (kind, title, missing, of) => layer(kind, title, partsOf(chain, kind).map((one) => ({ id: one.id, ...of(one) })), missing);
  const fills = partsOf(chain, 'fill');
  const forecasts = partsOf(chain, 'forecast');
  const some = (found) => found.nodes[0].missing !== true;
  const layers = [
    made('hit', 'Hits', order.protects ? 'none' : 'not from a screen', (one) => ({ lines: [one.lens, one.confidence], ...thread(one) })),
    made('candidate', 'Candidate', 'no research', (one) => ({ lines: [order.symbol, one.rank ? `rank ${one.rank}` : one.origin], to: `/symbols/${order.symbol}` })),
    made('report', 'Reports', 'none', (one) => ({ lines: [one.role, one.verdict ?? one.status], tone: STANCES[one.verdict], to: `/reports/${one.id}` })),
    ...(forecasts.length ? [layer('board', 'Board', [{ id: 'board', lines: [`${forecasts.length} forecasts`, `${new Set(forecasts.map((one) => one.voice)).size} voices`], to: `/board/${order.run_id}` }])] : []),
    made('verdict', 'Verdict', 'none', (one) => ({ lines: [one.rating, one.confidence], to: `/verdicts/${one.id}` })),
    ...[made('analysis', 'Analysis', 'none', (one) => ({ lines: [one.strategy, one.recommendation], to: `/runs/${order.run_id}` }))].filter(some),
    made('decision', 'Decision', 'none', (one) => ({ lines: [one.turn_id ? 'trader' : one.author?.startsWith('code:') ? 'code' : 'a person', one.status], ...part('why'), ...thread(one) })),
    made('order', 'Order', 'none', (one) => ({ lines: [shortId(one.id), stateName(one.state)], tone: stateTone(one.state), ...part('order') })),
    made('preview', 'Preview', 'none', (one) => ({ lines: [money(one.notional), shortId(one.payload_hash)], ...part('preview') })),
    ...[made('approval', 'Answer', 'none', (one) => ({ lines: [one.state, one.decided_by ?? 'waits'], tone: ANSWERS[one.state], ...part('answer') }))].filter(some),
    layer('submission', 'Submission', order.sent_at ? [{ id: 'submission', lines: ['sent', order.broker_order_id ? shortId(order.broker_order_id) : 'no broker id'], ...part('log') }] : [], 'not sent'),
    layer('fill', 'Fill', fills.length ? [{ id: 'fill', lines: [`${quantity(fills.reduce((sum, one) => sum + one.quantity, 0))} filled`, money(fills.at(-1).price)], tone: 'good', ...part('fills') }] : [], 'no fill'),
  ];
  const edges = layers.slice(1).flatMap((one, n) => layers[n].nodes.flatMap((from) => one.nodes.map((to) => [from.id, to.id])));
  return { layers, edges };
}

const layer = (id, title, nodes, missing = 'none') => ({ id, title, nodes: nodes.length ? nodes : [{ id: `no-${id}`, lines: [missing], missing: true }] });

/** Places of the nodes: side by side where there is room, else one layer below the other. */
export function arranged(layers, width) {
  const places = new Map();
  const heads = [];
  const wide = Math.floor((width - BETWEEN * (layers.length - 1)) / layers.length);
  if (wide >= LEAST) {
    const node = Math.min(wide, MOST);
    const tallest = Math.max(...layers.map((one) => one.nodes.length));
    const height = HEAD + tallest * (HEIGHT + GAP);
    layers.forEach((one, column) => {
      const x = column * (node + BETWEEN);
      const top = HEAD + ((tallest - one.nodes.length) * (HEIGHT + GAP)) / 2;
      heads.push({ title: one.title, x, y: 11 });
      one.nodes.forEach((found, row) => places.set(found.id, { x, y: top + row * (HEIGHT + GAP), node }));
    });
    return { places, heads, height, width: layers.length * (node + BETWEEN) - BETWEEN, down: false };
  }
  const room = Math.min(width, LIST) - BESIDE;
  const across = Math.max(1, Math.floor((room + GAP) / (LEAST + 32 + GAP)));
  let y = 0;
  for (const one of layers) {
    const row = Math.min(across, one.nodes.length);
    const node = Math.floor((room - GAP * (row - 1)) / row);
    heads.push({ title: one.title, x: 0, y: y + 23 });
    one.nodes.forEach((found, n) => places.set(found.id, { x: BESIDE + (n % row) * (node + GAP), y: y + Math.floor(n / row) * (HEIGHT + GAP), node }));
    y += Math.ceil(one.nodes.length / row) * (HEIGHT + GAP) + 2;
  }
  return { places, heads, height: y, width: room + BESIDE, down: true };
}

export function Lineage({ detail }) {
  const box = useRef(null);
  const [width, setWidth] = useState(0);
  useEffect(() => {
    const seen = new ResizeObserver(([entry]) => setWidth(Math.floor(entry.contentRect.width)));
    seen.observe(box.current);
    return () => seen.disconnect();
  }, []);
  return html`<div class="lineage" ref=${box}>${width > 0 && html`<${Drawing} detail=${detail} width=${width} />`}</div>`;
}

function Drawing({ detail, width }) {
  const { layers, edges } = layersOf(detail);
  const { places, heads, height, width: drawn, down } = arranged(layers, width);
  return html`<svg width=${drawn} height=${height} viewBox=${`0 0 ${drawn} ${height}`} role="group" aria-label="What the order rests on, and what became of it">
    ${edges.map(([from, to]) => html`<path class="edge" d=${curve(places.get(from), places.get(to), down)} />`)}
    ${heads.map((one) => html`<text class="head" x=${one.x} y=${one.y}>${one.title}</text>`)}
    ${layers.flatMap((one) => one.nodes.map((found) => html`<${Node} key=${found.id} node=${found} layer=${one} at=${places.get(found.id)} />`))}
  </svg>`;
}

function Node({ node, layer: within, at }) {
  const letters = Math.floor((at.node - 11) / 6.7);
  const lines = node.lines.filter((line) => line !== null && line !== undefined && line !== '').map(plain);
  const box = html`<title>${`${within.title}: ${lines.join(', ')}`}</title>
    <rect x=${at.x + 0.5} y=${at.y + 0.5} width=${at.node - 1} height=${HEIGHT - 1} rx="4" class=${`node ${node.missing ? 'missing' : ''} ${node.tone ?? ''}`} />
    ${lines.map((line, n) => html`<text x=${at.x + 7} y=${at.y + (lines.length === 1 ? 23 : 16 + n * 14)} class=${n ? 'second' : 'first'}>${short(line, letters)}</text>`)}`;
  return node.to ? html`<a href=${href(node.to, node.query)} aria-label=${`${within.title}: ${lines.join(', ')}`}>${box}</a>` : html`<g>${box}</g>`;
}

function curve(from, to, down) {
  if (down) {
    const [x1, y1, x2, y2] = [from.x + from.node / 2, from.y + HEIGHT, to.x + to.node / 2, to.y];
    return `M${x1} ${y1} C${x1} ${y1 + 14} ${x2} ${y2 - 14} ${x2} ${y2}`;
  }
  const [x1, y1, x2, y2] = [from.x + from.node, from.y + HEIGHT / 2, to.x, to.y + HEIGHT / 2];
  return `M${x1} ${y1} C${x1 + 10} ${y1} ${x2 - 10} ${y2} ${x2} ${y2}`;
}
