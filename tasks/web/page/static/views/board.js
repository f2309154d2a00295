// A run's board: questions with each voice's forecast, the arguments, the signals that they cite, and the tally.

import { get } from '../lib/api.js';
import { html, useState } from '../lib/html.js';
import { useKeys } from '../lib/keys.js';
import { useLive } from '../lib/live.js';
import { setQuery } from '../lib/router.js';
import { figure } from '../lib/format.js';
import { useResource } from '../lib/store.js';
import { ActionButton, Badge, Block, Empty, Facts, Link, Loaded, LiveBadge, Panel, RunLink, Segments, SymbolLink, Table, Text, Time } from '../lib/ui.js';
import { plain, shortId } from '../lib/text.js';
import { TurnLink } from './orders/links.js';

const SIGNAL_TONES = { live: 'good', offline: 'bad', dormant: 'plain' };

export const title = (params) => `Board of run ${shortId(params.run)}`;

export default function Board({ params, query }) {
  const board = useResource(({ signal }) => get(`/runs/${encodeURIComponent(params.run)}/board`, {}, { signal }), [params.run], { every: 60_000 });
  const live = useLive(board.data ? '/events' : null, { query: { run: board.data?.run_id, type: ['status', 'artifact'], bodies: false }, onEvents: () => board.soon(1_000), onGap: board.reload });
  useKeys([['r', 'Load again', board.reload]]);
  return html`<div class="view"><h1>Board of run <${RunLink} id=${params.run} /> <${LiveBadge} live=${live} /></h1>
    <${Loaded} from=${board} what="the board">${(found) => html`<${Whole} board=${found} query=${query} again=${board.reload} />`}<//></div>`;
}

function Whole({ board, query, again }) {
  const rounds = [...new Set(board.forecasts.map((one) => one.round))].sort();
  const round = Number(query.round) || rounds.at(-1) || 1;
  return html`<div class="grid">
    <${Panel} title="Standing" className="whole"><${Facts} rows=${[
      ['State', html`<${Badge}>${board.state}<//>`],
      ['Market', html`<${Text}>${board.market}<//> <${Time} at=${board.market_now} />`],
      ['Questions', html`<span class="num">${board.questions.length}</span>`],
      ['Signals', html`<span class="num">${board.signals.filter((one) => one.state === 'live').length}</span> live of <span class="num">${board.signals.length}</span>`],
      ['Tally', board.tally ? html`number <span class="num">${board.tally.number}</span>${board.tally.used_round && html`, round ${board.tally.used_round} is used`}` : 'not yet'],
    ]} /><//>
    <${Panel} title="Questions and forecasts" className="whole" tools=${rounds.length > 1 && html`<${Segments} label="Round" options=${rounds.map((one) => [one, `Round ${one}`])} value=${round} onChange=${(one) => setQuery({ round: one })} />`}>
      <${Matrix} board=${board} round=${round} /><//>
    <${Panel} title="Arguments" className="whole"><${Arguments} board=${board} round=${round} /><//>
    <${Panel} title="Signals" className="whole"><${Table} label="Signals" columns=${SIGNALS} rows=${board.signals} rowKey=${(row) => row.label} empty=${html`<${Empty} title="No signal yet" />`} /><//>
    <${Panel} title="Voices"><${Table} label="Voices" columns=${voiceColumns(board, again)} rows=${board.voices} rowKey=${(row) => `${row.voice}${row.round}`} empty=${html`<${Empty} title="No voice was asked" />`} /><//>
    ${board.positions.length > 0 && html`<${Panel} title="Play money"><${Table} label="Play money" columns=${stakeColumns(board)} rows=${board.positions} rowKey=${(row) => row.id} /><//>`}
    ${board.tally && html`<${Panel} title="Tally" className="whole"><${Block} label="Tally">${plain(board.tally.content)}<//><//>`}
  </div>`;
}

function Matrix({ board, round }) {
  const voices = [...new Set(board.forecasts.map((one) => one.voice))].sort();
  const of = new Map(board.forecasts.filter((one) => one.round === round).map((one) => [`${one.question_id}|${one.voice}`, one]));
  const columns = [
    { id: 'label', label: 'Label', unseen: true, cell: (row) => html`<strong>${plain(row.label)}</strong>` },
    { id: 'text', label: 'Question', prose: true, cell: (row) => html`<${Link} to=${`/questions/${row.id}`}><${Text} most=${90}>${row.text}<//><//>` },
    { id: 'baseline', label: 'Baseline', num: true, cell: (row) => figure(row.baseline, 2) },
    ...voices.map((voice) => ({ id: voice, label: voice, num: true, cell: (row) => {
      const found = of.get(`${row.id}|${voice}`);
      return found ? html`<span title=${plain(found.because)}>${figure(found.probability, 2)}</span>` : '\u2014';
    } })),
    { id: 'outcome', label: 'Outcome', num: true, cell: (row) => (row.outcome === null ? html`<span class="quiet">${plain(row.state)}</span>` : row.outcome === 1 ? 'yes' : row.outcome === 0 ? 'no' : figure(row.outcome, 2)) },
  ];
  return html`<${Table} label="Questions and forecasts" columns=${columns} rows=${board.questions} rowKey=${(row) => row.id} />`;
}

function Arguments({ board, round }) {
  const [voice, setVoice] = useState('');
  const voices = [...new Set(board.forecasts.map((one) => one.voice))].sort();
  const rows = board.forecasts.filter((one) => one.round === round && (!voice || one.voice === voice));
  if (!board.forecasts.length) return html`<${Empty} title="No voice has forecast yet" />`;
  return html`<div class="filters"><label>Voice<select value=${voice} onChange=${(event) => setVoice(event.target.value)}><option value="">all</option>${voices.map((one) => html`<option value=${one}>${one}</option>`)}</select></label></div>
    <ul class="arguments">${rows.map((one) => html`<li key=${one.id} data-row><p><strong><${Text}>${one.voice}<//></strong> on <strong>${plain(labelOf(board, one.question_id))}:</strong> <strong class="num">${figure(one.probability, 2)}</strong> <span class="quiet">stake <span class="num">${figure(one.stake, 2)}</span></span>
      <${TurnLink} thread=${board.voices.find((row) => row.voice === one.voice && row.round === one.round)?.thread} turn=${board.voices.find((row) => row.voice === one.voice && row.round === one.round)?.turn}>its turn<//></p>
      <p class="prose"><${Text}>${one.because}<//></p>
      ${one.citations.length > 0 && html`<ul class="lines">${citationsOf(board, one).map((cited) => html`<li><code><${Text}>${cited.label}<//></code> ${plain(cited.stance)}: <${Text}>${cited.claim}<//>
        ${cited.counts !== undefined && html` <${Badge} tone=${cited.counts ? 'good' : 'warn'} title=${plain(cited.reason)}>${cited.counts ? 'counts' : 'does not count'}<//>`}${cited.reason && html` <${Text} className="quiet">${cited.reason}<//>`}</li>`)}</ul>`}</li>`)}</ul>`;
}

const labelOf = (board, id) => board.questions.find((one) => one.id === id)?.label ?? id;

/** The citations of a forecast as code decided on them; before that as the voice wrote them. */
function citationsOf(board, forecast) {
  const judged = board.citations.filter((one) => one.forecast_id === forecast.id);
  return judged.length ? judged : forecast.citations.map((one) => ({ ...one, label: one.signal }));
}

const SIGNALS = [
  { id: 'label', label: 'Signal', cell: (row) => html`<code><${Text}>${row.label}<//></code>`, sort: (row) => row.label },
  { id: 'state', label: 'State', cell: (row) => html`<${Badge} tone=${SIGNAL_TONES[row.state]}>${row.state}<//>`, sort: (row) => row.state },
  { id: 'headline', label: 'What it found', prose: true, cell: (row) => html`<${Text} most=${140}>${row.headline}<//>` },
  { id: 'implied', label: 'Implies', num: true, cell: (row) => figure(row.implied, 2), sort: (row) => row.implied },
  { id: 'about', label: 'About', wide: true, cell: (row) => row.subjects.map((one) => (/^Q\d+$/.test(one) ? html`${plain(one)} ` : html`<${SymbolLink} symbol=${one} /> `)) },
  { id: 'source', label: 'Source', wide: true, cell: (row) => html`<${Text} most=${40}>${row.source}<//>` },
  { id: 'as_of', label: 'As of', wide: true, cell: (row) => html`<${Time} at=${row.as_of} />` },
];

const voiceColumns = (board, again) => [
  { id: 'voice', label: 'Voice', cell: (row) => html`<${Link} to=${`/scores/voice/${encodeURIComponent(row.voice)}`}><${Text}>${row.voice}<//><//>` },
  { id: 'round', label: 'Round', num: true, cell: (row) => row.round },
  { id: 'state', label: 'State', cell: (row) => html`<${Badge}>${row.status ?? row.state}<//>${row.reason && html` <${Text} most=${60} className="quiet">${row.reason}<//>`}` },
  { id: 'n', label: 'Forecasts', num: true, cell: (row) => row.forecasts },
  { id: 'turn', label: 'Turn', cell: (row) => html`<${TurnLink} thread=${row.thread} turn=${row.turn} />` },
  { id: 'stop', label: 'Stop', unseen: true, cell: (row) => row.running && html`<${ActionButton} label="Stop" path=${`/runs/${board.run_id}/voices/${encodeURIComponent(row.voice)}/stop`} confirm=${{ title: `Stop ${plain(row.voice)}` }} done=${again} />` },
];
const stakeColumns = (board) => [
  { id: 'question', label: 'Question', cell: (row) => plain(labelOf(board, row.question_id)) },
  { id: 'side', label: 'Side', cell: (row) => plain(row.side) },
  { id: 'shares', label: 'Shares', num: true, cell: (row) => figure(row.shares, 2) },
  { id: 'cost', label: 'Cost', num: true, cell: (row) => figure(row.cost, 2) },
  { id: 'payout', label: 'Payout', num: true, cell: (row) => figure(row.payout, 2) },
];
