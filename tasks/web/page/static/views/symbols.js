// The symbols that runs have researched, the last one first, and any other by its name.

import { get } from '../lib/api.js';
import { count } from '../lib/format.js';
import { html, useState } from '../lib/html.js';
import { useKeys } from '../lib/keys.js';
import { go, part, setQuery } from '../lib/router.js';
import { useResource } from '../lib/store.js';
import { Badge, Empty, Loaded, Panel, RunLink, SymbolLink, Table, Text, Time } from '../lib/ui.js';

const MOST = 200;
const FRESH_MS = 30_000;

export default function Symbols({ query }) {
  const [typed, setTyped] = useState(query.q ?? '');
  const found = useResource(({ signal }) => get('/symbols', { q: query.q, limit: MOST }, { signal }), [query.q], { every: FRESH_MS });
  useKeys([['r', 'Load again', found.reload]]);
  const open = (event) => {
    event.preventDefault();
    const symbol = typed.trim().toUpperCase();
    if (symbol) go(`/symbols/${part(symbol)}`);
  };
  return html`<div class="view symbol-view"><h1>Symbols</h1>
    <form class="filters" onSubmit=${open}><label>Symbol<input type="search" value=${typed} autocomplete="off" spellcheck="false" onInput=${(event) => {
      setTyped(event.target.value);
      setQuery({ q: event.target.value.trim() });
    }} /></label><button type="submit" disabled=${!typed.trim()}>Open</button></form>
    <${Panel} title="Researched">
      <${Loaded} from=${found} what="symbols" empty=${html`<${Empty} title=${query.q ? 'No researched symbol is like that' : 'No symbol was researched yet'}>${query.q ? 'Open shows it all the same: prices, and whether it is held' : null}<//>`}>${(rows) => html`<${Table} label="Symbols" columns=${COLUMNS} rows=${rows} rowKey=${(row) => row.symbol} />
        ${rows.length === MOST && html`<p class="quiet">The last ${count(MOST)} are shown: filter by name to see others.</p>`}`}<//>
    <//></div>`;
}

const COLUMNS = [
  { id: 'symbol', label: 'Symbol', cell: (row) => html`<${SymbolLink} symbol=${row.symbol} />`, sort: (row) => row.symbol },
  { id: 'rating', label: 'Last verdict', cell: (row) => (row.rating ? html`<${Badge}>${row.rating}<//> <span class="quiet"><${Text}>${row.confidence}<//></span>` : html`<span class="quiet">none</span>`), sort: (row) => row.rating },
  { id: 'runs', label: 'Runs', num: true, cell: (row) => count(row.runs), sort: (row) => row.runs },
  { id: 'run', label: 'Last run', cell: (row) => html`<${RunLink} id=${row.last_run} />` },
  { id: 'at', label: 'At', cell: (row) => html`<${Time} at=${row.last_at} />`, sort: (row) => row.last_at },
];
