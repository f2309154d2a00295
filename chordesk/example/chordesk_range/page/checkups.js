// The check-ups, read anew every 15 s.

import { column, html, runOf, symbolOf, TablePanel, textOf, useGet, words } from '../../lib/view.js';

const COLUMNS = [
  column('Symbol', symbolOf), column('State', words), column('Note', (note) => textOf(note, 200)), column('Run', runOf),
];

export const Checkups = () => html`<div class="view stack"><h1>Check-ups</h1>
  <${TablePanel} title="Check-ups" columns=${COLUMNS} from=${useGet('/checkups', {}, { every: 15_000 })}
    empty="There is none yet: desk checkup SYMBOL" /></div>`;
