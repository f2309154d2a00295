// One question: its rule, its times, its outcome with the evidence, and who forecast it.

import { get } from '../lib/api.js';
import { html } from '../lib/html.js';
import { figure, money, signedMoney } from '../lib/format.js';
import { useResource } from '../lib/store.js';
import { Badge, Block, Empty, Facts, Figure, Link, Loaded, OutLink, Panel, RunLink, SymbolLink, Table, Text, Time } from '../lib/ui.js';
import { plain, shortId } from '../lib/text.js';

export const title = (params) => `Question ${shortId(params.question)}`;

export default function QuestionView({ params }) {
  const found = useResource(({ signal }) => get(`/questions/${encodeURIComponent(params.question)}`, {}, { signal }), [params.question]);
  return html`<div class="view"><${Loaded} from=${found} what="the question">${(detail) => html`<${Whole} ...${detail} />`}<//></div>`;
}

function Whole({ question, verdicts, forecasts, positions }) {
  return html`<h1><${Text}>${question.text}<//></h1><div class="grid">
    <${Panel} title="Question"><${Facts} rows=${[
      ['State', html`<${Badge} tone=${{ open: 'busy', resolved: 'good', void: 'warn' }[question.state]}>${question.state}<//>`],
      ['Outcome', question.outcome === null ? null : html`<strong class="num">${question.outcome === 1 ? 'yes' : question.outcome === 0 ? 'no' : figure(question.outcome, 2)}</strong>`],
      ['Baseline', html`<span class="num">${figure(question.baseline, 2)}</span> <${Text} className="quiet">${question.baseline_source}<//>`],
      ['About', question.subjects.map((symbol) => html`<${SymbolLink} symbol=${symbol} /> `)],
      ['Opens', html`<${Time} at=${question.opens_at} />`],
      ['Closes', html`<${Time} at=${question.closes_at} />`],
      ['Source', html`<${Text}>${question.source}<//>${question.url && html` <${OutLink} url=${question.url}>venue<//>`}`],
      ['Resolved', question.resolved_at ? html`<${Time} at=${question.resolved_at} /> <${Text}>${question.resolved_by}<//>` : undefined],
      ['Note', question.note ? html`<${Text}>${question.note}<//>` : undefined],
    ]} /><//>
    <${Panel} title="Rule and evidence"><${Block} label="Rule">${plain(JSON.stringify(question.rule, null, 1))}<//>
      ${question.evidence ? html`<${Block} label="Evidence">${plain(JSON.stringify(question.evidence, null, 1))}<//>` : html`<p class="quiet">No evidence yet.</p>`}<//>
    <${Panel} title="Forecasts" className="whole"><${Table} label="Forecasts" columns=${FORECASTS} rows=${forecasts} rowKey=${(row) => row.id} empty=${html`<${Empty} title="No voice has forecast it" />`} /><//>
    <${Panel} title="Verdicts that it scores"><${Table} label="Verdicts" columns=${VERDICTS} rows=${verdicts} rowKey=${(row) => row.id} empty=${html`<${Empty} title="It scores no verdict" />`} /><//>
    ${positions.length > 0 && html`<${Panel} title="Play money on it"><${Table} label="Play money" columns=${POSITIONS} rows=${positions} rowKey=${(row) => row.id} /><//>`}
  </div>`;
}

const FORECASTS = [
  { id: 'voice', label: 'Voice', cell: (row) => html`<${Link} to=${`/scores/voice/${encodeURIComponent(row.voice)}`}><${Text}>${row.voice}<//><//>`, sort: (row) => row.voice },
  { id: 'round', label: 'Round', num: true, cell: (row) => row.round, sort: (row) => row.round },
  { id: 'yes', label: 'Yes', num: true, cell: (row) => figure(row.probability, 2), sort: (row) => row.probability },
  { id: 'baseline', label: 'Baseline', num: true, cell: (row) => figure(row.baseline, 2) },
  { id: 'because', label: 'Because', wide: true, cell: (row) => html`<${Text} most=${160}>${row.because}<//>` },
  { id: 'run', label: 'Board', cell: (row) => html`<${Link} to=${`/board/${row.run_id}`} className="id">${shortId(row.run_id)}<//>` },
];
const VERDICTS = [
  { id: 'symbol', label: 'Symbol', cell: (row) => html`<${SymbolLink} symbol=${row.symbol} />` },
  { id: 'rating', label: 'Verdict', cell: (row) => html`<${Link} to=${`/verdicts/${row.id}`}><${Badge} tone="plain">${row.rating}<//><//> ${plain(row.confidence)}` },
  { id: 'run', label: 'Run', cell: (row) => html`<${RunLink} id=${row.run_id} />` },
];
const POSITIONS = [
  { id: 'side', label: 'Side', cell: (row) => plain(row.side) },
  { id: 'shares', label: 'Shares', num: true, cell: (row) => figure(row.shares, 2) },
  { id: 'cost', label: 'Cost', num: true, cell: (row) => money(row.cost) },
  { id: 'payout', label: 'Payout', num: true, cell: (row) => html`<${Figure} value=${row.payout} sign>${signedMoney(row.payout)}<//>` },
];
