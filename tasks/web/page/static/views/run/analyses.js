// The analyses of a run: strategy, recommendation and contract of each symbol.

import { html } from '../../lib/html.js';
import { Badge, Panel, SymbolLink, Table, Text } from '../../lib/ui.js';

const COLUMNS = [
  { id: 'symbol', label: 'Symbol', cell: (row) => html`<${SymbolLink} symbol=${row.symbol} />`, sort: (row) => row.symbol },
  { id: 'strategy', label: 'Strategy', cell: (row) => html`<${Text}>${row.strategy}<//>`, sort: (row) => row.strategy },
  { id: 'says', label: 'Recommendation', cell: (row) => html`<${Text}>${row.recommendation}<//>`, sort: (row) => row.recommendation },
  { id: 'rating', label: 'Verdict', cell: (row) => html`<${Badge}>${row.rating}<//> <span class="quiet"><${Text}>${row.confidence}<//></span>`, sort: (row) => row.rating },
  { id: 'contract', label: 'Contract', cell: (row) => (row.contract ? html`<code><${Text}>${row.contract}<//></code>` : html`<span class="quiet">none</span>`) },
  { id: 'checks', label: 'Checks', wide: true, cell: (row) => html`<ul class="checks">${(row.checks ?? []).filter((check) => check.state !== 'ok').map((check) => html`<li><${Badge} tone=${check.state === 'fail' ? 'bad' : 'warn'}>${check.state}<//> <${Text} most=${110}>${check.text}<//></li>`)}</ul>` },
];

export const Analyses = ({ rows }) => html`<${Panel} title="Analyses"><${Table} label="Table of analyses" columns=${COLUMNS} rows=${rows} rowKey=${(row) => row.id} /><//>`;
