// Whether the audit log is whole.

import { get } from '../../lib/api.js';
import { html } from '../../lib/html.js';
import { count } from '../../lib/format.js';
import { useResource } from '../../lib/store.js';
import { Badge, Empty, Loaded, Panel, Table, Text, Time } from '../../lib/ui.js';
import { plain, shortId } from '../../lib/text.js';

export function Audit() {
  const audit = useResource(({ signal }) => get('/audit', {}, { signal }), [], { every: 120_000 });
  return html`<${Panel} title="Audit log" tools=${audit.data && html`<${Badge} tone=${audit.data.verified ? 'good' : 'bad'}>${audit.data.verified ? 'whole' : 'broken'}<//>`}>
    <${Loaded} from=${audit} what="the audit log" isEmpty=${(found) => !found.chains.length} empty=${html`<${Empty} title="Nothing is on record yet" />`}>${({ chains }) => html`<${Table} label="Chains of the audit log" columns=${COLUMNS} rows=${chains} rowKey=${(row) => row.chain} />
      ${chains.flatMap((one) => one.problems).map((problem) => html`<p class="notice bad"><${Text}>${problem}<//></p>`)}`}<//><//>`;
}

const COLUMNS = [
  { id: 'chain', label: 'Chain', cell: (row) => html`<code title=${plain(row.place)}>${shortId(row.chain)}</code>` },
  { id: 'state', label: 'State', cell: (row) => html`<${Badge} tone=${row.verified ? 'good' : 'bad'}>${row.verified ? 'whole' : row.file_found ? `${row.all_problems} problems` : 'its file is missing'}<//>` },
  { id: 'lines', label: 'Lines', num: true, cell: (row) => count(row.entries) },
  { id: 'head', label: 'Last hash', wide: true, cell: (row) => (row.head ? html`<code title=${plain(row.head)}>${shortId(row.head)}</code>` : '\u2014') },
  { id: 'at', label: 'Last line', wide: true, cell: (row) => html`<${Time} at=${row.at} />` },
  { id: 'place', label: 'Place', wide: true, cell: (row) => html`<${Text} most=${60} className="quiet">${row.place}<//>` },
];
