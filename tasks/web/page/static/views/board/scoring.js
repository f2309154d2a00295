// Scores as columns: mean, number and dates, with the error by date.

import { html } from '../../lib/html.js';
import { MISSING, count, figure } from '../../lib/format.js';
import { Figure, Link, Text } from '../../lib/ui.js';

/** A mean with its sign and its error by date. */
export function signed(mean) {
  if (!mean) return MISSING;
  const text = `${mean.mean > 0 ? '+' : ''}${figure(mean.mean, 4)}`;
  return mean.error === null ? text : `${text} ±${figure(mean.error, 4)}`;
}

/** A row without any record yet has a baseline's score, which is none of its own. */
const unscored = (row) => row.unrecorded !== undefined && row.unrecorded === row.forecasts;

/** The columns of scores. account: of the record, where it is not the desk's own. */
export const scoreColumns = (account) => [
  { id: 'name', label: 'Name', cell: (row) => html`<${Link} to=${`/scores/${row.kind}/${encodeURIComponent(row.name)}`} query=${{ account }}><${Text}>${row.name}<//><//>`, sort: (row) => row.name },
  { id: 'n', label: 'Questions', num: true, cell: (row) => count(row.brier.n), sort: (row) => row.brier.n },
  { id: 'dates', label: 'Dates', num: true, wide: true, cell: (row) => count(row.brier.dates), sort: (row) => row.brier.dates },
  { id: 'brier', label: 'Brier', num: true, cell: (row) => (unscored(row) ? MISSING : figure(row.brier.mean, 4)), sort: (row) => row.brier.mean },
  { id: 'log', label: 'Log', num: true, wide: true, cell: (row) => (unscored(row) ? MISSING : figure(row.log.mean, 3)), sort: (row) => row.log.mean },
  { id: 'alpha', label: 'Alpha', num: true, cell: (row) => (unscored(row) ? 'no record yet' : html`<${Figure} value=${row.alpha.mean} sign>${signed(row.alpha)}<//>`), sort: (row) => row.alpha.mean },
];
