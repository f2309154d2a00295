// Threads of the roles: the current ones, the last used first, then those of the past.

import { get } from '../lib/api.js';
import { html } from '../lib/html.js';
import { useKeys } from '../lib/keys.js';
import { setQuery } from '../lib/router.js';
import { count, date } from '../lib/format.js';
import { useResource } from '../lib/store.js';
import { Ago, Badge, Empty, FilterField, Loaded, Panel, Table, Text, ThreadLink } from '../lib/ui.js';
import { plain } from '../lib/text.js';
import { Subject } from './threads/subject.js';

const MOST = 200;

export default function Threads({ query }) {
  const threads = useResource(({ signal }) => get('/threads', { role: query.role, limit: MOST }, { signal }), [query.role], { every: 20_000 });
  useKeys([['r', 'Load again', threads.reload]]);
  const shown = (rows) => rows.filter((row) => !query.subject || row.subject.toUpperCase().includes(query.subject));
  return html`<div class="view"><h1>Threads</h1>
    <${Panel} title="Kept threads" tools=${html`<${FilterField} label="Role" size="12" maxlength="64" value=${query.role} onChange=${(text) => setQuery({ role: text })} />
      <${FilterField} label="Subject" size="8" maxlength="64" value=${query.subject} onChange=${(text) => setQuery({ subject: text.toUpperCase() })} />`}>
    <${Loaded} from=${threads} what="threads" isEmpty=${(rows) => !shown(rows).length} empty=${html`<${Empty} title="No thread is kept">A role's thread is kept from its first turn on; conversations that are not kept are reached from their run.<//>`}>${(rows) => html`
      <${Table} label="Kept threads" columns=${COLUMNS} rows=${shown(rows)} rowKey=${(row) => row.thread_id} />
      ${rows.length === MOST && html`<p class="quiet">The first ${MOST}.</p>`}`}<//><//></div>`;
}

const COLUMNS = [
  { id: 'thread', label: 'Thread', cell: (row) => html`<${ThreadLink} id=${row.thread_id} />` },
  { id: 'role', label: 'Role', cell: (row) => html`<${Text}>${row.role}<//>`, sort: (row) => row.role },
  { id: 'subject', label: 'Subject', cell: (row) => html`<${Subject} subject=${row.subject} />`, sort: (row) => row.subject.split('/').at(-1) },
  { id: 'state', label: 'State', cell: (row) => html`<${Badge} tone=${row.busy ? 'busy' : row.current ? 'good' : 'plain'}>${row.busy ? 'in use' : row.current ? 'current' : 'past'}<//>`, sort: (row) => [row.busy, row.current].join() },
  { id: 'turns', label: 'Turns', num: true, cell: (row) => count(row.turns), sort: (row) => row.turns },
  { id: 'reason', label: 'Begun as', wide: true, cell: (row) => plain(row.reason).replaceAll('_', ' ') },
  { id: 'parent', label: 'Fork of', wide: true, cell: (row) => (row.parent_id ? html`<${ThreadLink} id=${row.parent_id} />` : '') },
  { id: 'model', label: 'Model', wide: true, cell: (row) => html`<${Text} most=${30}>${row.model}<//>` },
  { id: 'owner', label: 'Worker', wide: true, cell: (row) => html`<${Text} most=${28} className="quiet">${row.owner}<//>` },
  { id: 'used', label: 'Used', cell: (row) => html`<${Ago} at=${row.updated_at ?? row.created_at} />`, sort: (row) => date(row.updated_at ?? row.created_at) },
];
