// One source in the record: a voice, tool, lens, role or kind of verdict, with its calibration.

import { get } from '../lib/api.js';
import { html } from '../lib/html.js';
import { count, figure, percent } from '../lib/format.js';
import { useResource } from '../lib/store.js';
import { Empty, Facts, Figure, Link, Loaded, Panel, Table, Text } from '../lib/ui.js';
import { plain } from '../lib/text.js';
import { scoreColumns, signed } from './board/scoring.js';

export const title = (params) => `Score of ${params.name}`;

export default function Score({ params, query: { account } }) {
  const scores = useResource(({ signal }) => get('/scores', { kind: params.kind, name: params.name, account }, { signal }), [params.kind, params.name, account]);
  return html`<div class="view"><h1>${plain(params.kind)} <${Text}>${params.name}<//> <${Link} to="/scores" query=${{ account }}>all scores${account ? html` of <${Text}>${account}<//>` : ''}<//></h1>
    <${Loaded} from=${scores} what="the score" isEmpty=${(found) => !found.rows.length} empty=${html`<${Empty} title="None of its questions has an outcome yet" />`}>${({ rows: [row] }) => html`<${Whole} row=${row} />`}<//></div>`;
}

function Whole({ row }) {
  return html`<div class="grid">
    <${Panel} title="Scores"><${Facts} rows=${[
      ['Forecasts', html`<span class="num">${count(row.forecasts)}</span>`],
      ['Questions', html`<span class="num">${count(row.brier.n)}</span> on <span class="num">${count(row.brier.dates)}</span> dates`],
      ['Brier', html`<span class="num">${figure(row.brier.mean, 4)}</span>`],
      ['Log', html`<span class="num">${figure(row.log.mean, 3)}</span>`],
      ['Alpha', html`<${Figure} value=${row.alpha.mean} sign>${signed(row.alpha)}<//>`],
      ['Round 2 gained', row.revision ? html`<${Figure} value=${row.revision.mean} sign>${signed(row.revision)}<//>` : undefined],
      ['Karma', row.karma ? html`conduct <span class="num">${figure(row.karma.conduct, 1)}</span>, skill <span class="num">${figure(row.karma.skill, 1)}</span>` : undefined],
      ['Before any record', row.unrecorded ? html`<span class="num">${count(row.unrecorded)}</span>` : undefined],
    ]} /><//>
    <${Panel} title="Calibration"><${Calibration} rows=${row.calibration} /><//>
    ${[['By round', row.rounds], ["By the models' cutoffs", row.sides], ['By label', row.labels]].filter(([, parts]) => parts.length).map(([name, parts]) => html`<${Panel} title=${name}><${Table} label=${name} columns=${name === 'By label' ? LABELS : PARTS} rows=${parts} rowKey=${(part) => part.name} /><//>`)}
  </div>`;
}

const PARTS = [{ id: 'name', label: 'Part', cell: (row) => plain(row.name) }, ...scoreColumns().slice(1)];
const LABELS = [...PARTS, { id: 'rate', label: 'Came true', num: true, cell: (row) => percent(row.rate.mean, 1) }];

const SIZE = 220;
const PAD = 30;
const at = (value) => PAD + value * (SIZE - PAD - 8);
const down = (value) => SIZE - PAD - value * (SIZE - PAD - 8);

/** What was forecast against what came true: on the diagonal is calibrated; the bars are the 95 % interval. */
function Calibration({ rows }) {
  if (!rows.length) return html`<${Empty} title="Nothing to compare yet" />`;
  return html`<div class="row"><svg class="calibration" width=${SIZE} height=${SIZE} viewBox=${`0 0 ${SIZE} ${SIZE}`} role="img" aria-label="Share that came true by forecast; the table beside it has the figures">
      <rect x=${at(0)} y=${down(1)} width=${at(1) - at(0)} height=${down(0) - down(1)} class="plane" />
      <path class="diagonal" d=${`M${at(0)} ${down(0)} L${at(1)} ${down(1)}`} />
      ${[0, 0.5, 1].map((tick) => html`<text x=${at(tick)} y=${SIZE - 14} text-anchor="middle">${tick}</text><text x=${PAD - 5} y=${down(tick) + 4} text-anchor="end">${tick}</text>`)}
      <text x=${at(0.5)} y=${SIZE - 2} text-anchor="middle">forecast</text>
      ${rows.map((row) => html`<path class="interval" d=${`M${at(row.forecast)} ${down(row.least)} L${at(row.forecast)} ${down(row.most)}`} /><circle cx=${at(row.forecast)} cy=${down(row.rate)} r=${Math.min(2 + Math.sqrt(row.n), 8)} />`)}
    </svg>
    <${Table} label="Calibration" columns=${BUCKETS} rows=${rows} rowKey=${(row) => row.low} /></div>`;
}
const BUCKETS = [
  { id: 'range', label: 'Forecasts', cell: (row) => html`<span class="num">${figure(row.low, 1)} to ${figure(row.high, 1)}</span>` },
  { id: 'n', label: 'How many', num: true, cell: (row) => count(row.n) },
  { id: 'mean', label: 'Mean', num: true, cell: (row) => figure(row.forecast, 2) },
  { id: 'rate', label: 'Came true', num: true, cell: (row) => figure(row.rate, 2) },
  { id: 'interval', label: '95 %', num: true, wide: true, cell: (row) => `${figure(row.least, 2)} to ${figure(row.most, 2)}` },
];
