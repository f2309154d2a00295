// A run's board: questions with each voice's forecast, the arguments, the signals that they cite, and the tally.

import {
  ActionButton, Badge, badgeOf, Block, Choice, codeOf, column, count, Empty, Facts, figure, html, Link, Loaded,
  number, numOf, outcomeOf, Panel, part, plain, quietOf, Segments, setQuery, symbolOf, Table, TablePanel, Text,
  textOf, timeOf, upTo, useFirst, useGet, useState,
} from '../lib/view.js';
import { TurnLink } from '../lib/orders.js';

const MOST_ARGUMENTS = 6;
const SIGNAL_TONES = { live: 'good', offline: 'bad', dormant: 'plain' };

/** The board of an episode, or of a screen with rounds. changed: when the run was last loaded. */
export function BoardPart({ run, query, changed }) {
  const board = useGet(`/runs/${run}/board`, {}, { deps: [changed] });
  return html`<${Loaded} from=${board} what="the board">${(found) =>
    html`<${Whole} board=${found} query=${query} again=${board.reload} />`}<//>`;
}

function Whole({ board, query, again }) {
  const rounds = [...new Set(board.forecasts.map((one) => one.round))].sort();
  const round = Number(query.round) || rounds.at(-1) || 1;
  return html`<div class="grid">
    <${Panel} title="Standing" className="whole"><${Facts} rows=${[
      ['State', badgeOf(board.state)],
      ['Market', html`${textOf(board.market)} ${timeOf(board.market_now)}`],
      ['Questions', numOf(board.questions.length)],
      ['Signals', html`${numOf(board.signals.filter((one) => one.state === 'live').length)} live
        of ${numOf(board.signals.length)}`],
      ['Tally', board.tally ? html`number ${numOf(board.tally.number)}${board.tally.used_round
        && html`, round ${board.tally.used_round} is used`}` : 'not yet'],
    ]} /><//>
    <${Panel} title="Questions and forecasts" className="whole" tools=${rounds.length > 1
      && html`<${Segments} label="Round" options=${rounds.map((one) => [one, `Round ${one}`])} value=${round}
      onChange=${(one) => setQuery({ round: one })} />`}>
      <${Matrix} board=${board} round=${round} /><//>
    <${Panel} title="Arguments" className="whole"><${Arguments} board=${board} round=${round} /><//>
    <${TablePanel} title="Signals" className="whole" columns=${SIGNALS} rows=${board.signals} rowKey="label"
      empty="No signal yet" />
    <${TablePanel} title="Voices" columns=${voiceColumns(board, again)} rows=${board.voices}
      rowKey=${(row) => `${row.voice}${row.round}`} empty="No voice was asked" />
    ${board.positions.length > 0 && html`<${TablePanel} title="Play money" columns=${stakeColumns(board)}
      rows=${board.positions} />`}
    ${board.tally && html`<${Panel} title="Tally" className="whole">
      <${Block} label="Tally">${plain(board.tally.content)}<//><//>`}
  </div>`;
}

function Matrix({ board, round }) {
  const voices = [...new Set(board.forecasts.map((one) => one.voice))].sort();
  const of = new Map(board.forecasts.filter((one) => one.round === round)
    .map((one) => [`${one.question_id}|${one.voice}`, one]));
  const columns = [
    ['Label', (row) => html`<strong>${plain(row.label)}</strong>`, 'unseen'],
    ['Question', (row) => html`<${Link} to=${`/questions/${row.id}`}>${textOf(row.text, 90)}<//>`, 'prose'],
    number('Baseline', figure),
    ...voices.map((voice) => [voice, (row) => {
      const found = of.get(`${row.id}|${voice}`);
      return found ? html`<span title=${plain(found.because)}>${figure(found.probability, 2)}</span>` : '\u2014';
    }, 'num']),
    ['Outcome', (row) => (row.outcome === null ? quietOf(plain(row.state)) : outcomeOf(row.outcome)), 'num'],
  ];
  return html`<${Table} label="Questions and forecasts" columns=${columns} rows=${board.questions} />`;
}

function Arguments({ board, round }) {
  const [voice, setVoice] = useState('');
  const voices = [...new Set(board.forecasts.map((one) => one.voice))].sort();
  const [rows, more] = useFirst(board.forecasts
    .filter((one) => one.round === round && (!voice || one.voice === voice)), MOST_ARGUMENTS);
  if (!board.forecasts.length) return html`<${Empty} title="No voice has forecast yet" />`;
  return html`<div class="filters"><${Choice} label="Voice" values=${voices} value=${voice} onChange=${setVoice} />
    </div>
    <ul class="arguments">
      ${rows.map((one) => html`<li key=${one.id} data-row>
      <p><strong>${textOf(one.voice)}</strong> on <strong>${plain(labelOf(board, one.question_id))}:</strong> <strong
      class="num">${figure(one.probability, 2)}</strong> <span class="quiet">stake ${numOf(figure(one.stake, 2))}</span>
      <${TurnLink} thread=${board.voices.find((row) => row.voice === one.voice && row.round === one.round)?.thread}
        turn=${board.voices.find((row) => row.voice === one.voice && row.round === one.round)?.turn}>its turn<//></p>
      <p class="prose">${textOf(one.because)}${one.change
        && html` <span class="quiet">Wrong if: ${textOf(one.change)}</span>`}</p>
      ${one.citations.length > 0 && html`<ul class="lines">${citationsOf(board, one)
        .map((cited) => html`<li><code>${textOf(cited.label)}</code> ${plain(cited.stance)}: ${textOf(cited.claim)}
        ${cited.counts !== undefined
          && html` <${Badge} tone=${cited.counts ? 'good' : 'warn'} title=${plain(cited.reason)}>
          ${cited.counts ? 'counts' : 'does not count'}<//>`}${cited.reason
          && html` <${Text} className="quiet">${cited.reason}<//>`}</li>`)}</ul>`}</li>`)}</ul>${more}`;
}

const labelOf = (board, id) => board.questions.find((one) => one.id === id)?.label ?? id;

/** The citations of a forecast as code decided on them; before that as the voice wrote them. */
function citationsOf(board, forecast) {
  const judged = board.citations.filter((one) => one.forecast_id === forecast.id);
  return judged.length ? judged : forecast.citations.map((one) => ({ ...one, label: one.signal }));
}

function impliedBy(row) {
  if (row.probability !== null) return figure(row.probability, 2);
  return row.confidence === null || row.direction === 'neutral' ? '' : `${row.direction} ${figure(row.confidence, 2)}`;
}

const SIGNALS = [
  column('Signal', codeOf, 'label'),
  ['State', (row) => html`<${Badge} tone=${SIGNAL_TONES[row.state]}>${row.state}<//>`, '', 'state'],
  column('What it found', upTo(140), 'headline', 'prose'),
  ['Implies', impliedBy, '', 'confidence'],
  ['About', (row) => row.subjects.map((one) => (/^Q\d+$/.test(one) ? html`${plain(one)} ` : html`${symbolOf(one)} `)),
    'wide'],
  column('Source', upTo(40), 'source', 'wide'), column('As of', timeOf, 'as_of', 'wide'),
];

const voiceColumns = (board, again) => [
  ['Voice', (row) => html`<${Link} to=${`/scores/voice/${part(row.voice)}`}>${textOf(row.voice)}<//>`],
  number('Round', count),
  ['State', (row) => html`${badgeOf(row.status ?? row.state)}${row.reason
    && html` <${Text} most=${60} className="quiet">${row.reason}<//>`}`],
  number('Forecasts', count),
  ['Turn', (row) => html`<${TurnLink} thread=${row.thread} turn=${row.turn} />`],
  ['Stop', (row) => row.running
    && html`<${ActionButton} label="Stop" path=${`/runs/${board.run_id}/voices/${part(row.voice)}/stop`}
    confirm=${{ title: `Stop ${plain(row.voice)}` }} done=${again} />`, 'unseen'],
];
const stakeColumns = (board) => [
  ['Question', (row) => plain(labelOf(board, row.question_id))],
  column('Side'), number('Shares', figure), number('Cost', figure), number('Payout', figure),
];
