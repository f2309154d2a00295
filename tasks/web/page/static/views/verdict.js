// One verdict: the rating, the rule that gave it, the reports it rests on, what was missing, and the orders that rest on it.

import { get } from '../lib/api.js';
import { count, percent } from '../lib/format.js';
import { html } from '../lib/html.js';
import { useKeys } from '../lib/keys.js';
import { part } from '../lib/router.js';
import { useResource } from '../lib/store.js';
import { Badge, Empty, Facts, Link, Loaded, OrderLink, Panel, ProblemBox, RunLink, SymbolLink, Table, Text, Time } from '../lib/ui.js';
import { plain, shortId } from '../lib/text.js';

export const title = ({ verdict }) => `Verdict ${shortId(verdict)}`;

export default function Verdict({ params }) {
  const found = useResource(({ signal }) => get(`/verdicts/${part(params.verdict)}`, {}, { signal }), [params.verdict]);
  useKeys([['r', 'Load again', found.reload]]);
  const data = found.data;
  if (!data && found.problem?.status === 404) {
    return html`<div class="view"><h1>Verdict ${shortId(params.verdict)}</h1><${ProblemBox} problem=${found.problem} again=${found.reload} /></div>`;
  }
  return html`<div class="view report-view">
    <h1>${data ? html`Verdict on <${SymbolLink} symbol=${data.verdict.symbol} /> <${Badge}>${data.verdict.rating}<//> <span class="quiet"><${Text}>${data.verdict.confidence}<//> confidence</span>` : html`Verdict ${shortId(params.verdict)}`}</h1>
    <${Loaded} from=${found} what="the verdict">${(detail) => html`<${Shown} detail=${detail} />`}<//>
  </div>`;
}

function Shown({ detail }) {
  const { verdict, candidate } = detail;
  return html`<div class="stack">
    <${Panel} title="Why"><p class="rule"><${Text}>${detail.rule}<//></p>
      <${Facts} rows=${[
        ['Rating', html`<${Badge}>${verdict.rating}<//>`],
        ['Confidence', html`<${Text}>${verdict.confidence}<//>`],
        ['Beats the median', detail.probability === null ? html`<span class="quiet">not known until <code>desk calibrate</code></span>` : html`<span class="num">${percent(detail.probability, 0)}</span>`],
        ['Candidate', html`<span class="num">${count(candidate.rank)}</span>, <${Text}>${candidate.origin}<//>`],
        ['Market time', html`<${Time} at=${detail.market_at} />`],
        ['Run', html`<${RunLink} id=${verdict.run_id} />`],
        ['Orders that rest on it', detail.orders.length ? detail.orders.map((id) => html`<${OrderLink} id=${id} /> `) : html`<span class="quiet">none</span>`],
      ]} /><//>
    <${Panel} title="Reports that it rests on"><${Table} label="Reports" columns=${REPORTS} rows=${detail.reports} rowKey=${(row) => row.id} empty=${html`<${Empty} title="It rests on no report" />`} /><//>
    <div class="grid">
      <${Panel} title="What was missing">${verdict.missing.length ? html`<ul class="dots">${verdict.missing.map((one) => html`<li><${Text}>${one}<//></li>`)}</ul>` : html`<p class="quiet">Every role reported.</p>`}<//>
      <${Panel} title="Key risks">${verdict.key_risks.length ? html`<ul class="dots">${verdict.key_risks.map((one) => html`<li><${Text}>${one}<//></li>`)}</ul>` : html`<p class="quiet">No report names one.</p>`}<//>
    </div>
    <${Panel} title="Summary"><pre class="words"><${Text}>${verdict.summary}<//></pre><//>
  </div>`;
}

const REPORTS = [
  { id: 'role', label: 'Role', cell: (row) => html`<${Link} to=${`/reports/${row.id}`}>${plain(row.role).replaceAll('_', ' ')}<//>`, sort: (row) => row.role },
  { id: 'verdict', label: 'Answer', cell: (row) => html`<${Badge}>${row.verdict ?? row.status}<//>`, sort: (row) => row.verdict ?? row.status },
  { id: 'confidence', label: 'Confidence', cell: (row) => (row.confidence ? html`<${Text}>${row.confidence}<//>` : html`<span class="quiet">none</span>`), sort: (row) => row.confidence },
  { id: 'sourced', label: 'Sourced', title: 'figures of its text with a source', num: true, cell: (row) => (row.figures === null ? html`<span class="quiet">none</span>` : `${row.supported}/${row.figures}`) },
  { id: 'summary', label: 'Summary', cell: (row) => html`<div class="prose"><${Text} most=${260}>${row.summary || row.reason}<//></div>` },
  { id: 'author', label: 'Author', wide: true, cell: (row) => html`<${Text} most=${40}>${row.author}<//>` },
];
