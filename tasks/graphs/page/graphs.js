// The graphs of a run: where each is, its nodes that asked a model, and what it came to.

import { badgeOf, column, count, html, number, plain, quietOf, TablePanel, textOf, threadOf } from '../../lib/view.js';

export const GraphsPart = ({ detail }) => html`<${TablePanel} title="Graphs"
  columns=${graphColumns(detail.conversations)} rows=${detail.graphs} rowKey="graph" empty="No graph has begun yet" />`;

/** conversations: of the run; each is that of a node. */
const graphColumns = (conversations) => [
  column('Graph'),
  ['State', (row) => html`${badgeOf(row.state)} ${textOf(row.reason, 80)}`],
  ['Nodes that asked a model', (row) => conversations.filter((one) => one.subject === row.graph)
    .map((one, n) => html`${n > 0 && ' → '}${threadOf(one.thread_id, plain(one.role))}`)],
  number('Chapters', count), number('Turns', count),
  ['Output', ({ output }) => (output === null ? quietOf('not yet') : html`<details>
    <summary>${textOf(typeof output === 'object' ? Object.keys(output).join(', ') : output, 80)}</summary>
    <pre class="block">${plain(JSON.stringify(output, null, 1))}</pre></details>`)],
];
