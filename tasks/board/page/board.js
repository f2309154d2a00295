// A run's board: questions with each voice's forecast, the arguments, the signals that they cite, and the tally.

import {
  ActionButton, badgeOf, Block, chance, Choice, codeOf, column, count, Empty, Facts, figure, html, Loaded, MISSING,
  number, numOf, outcomeOf, Panel, part, plain, questionOf, quietOf, Segments, setQuery, symbolOf, Table, TablePanel,
  textOf, timeOf, upTo, useFirst, useGet, useState, voiceOf,
} from '../../lib/view.js';
import { turnOf } from '../../lib/orders.js';

const MOST_ARGUMENTS = 6;
const SIGNAL_TONES = { live: 'good', offline: 'bad', dormant: 'plain' };

export function BoardPart({ run, query, changed }) {
  const board = useGet(`/runs/${run}/board`, {}, { deps: [changed] });
  return html`<${Loaded} from=${board} what="the board">${(found) =>
    html`<${Whole} board=${found} query=${query} again=${board.reload} />`}<//>`;
}

function Whole({ board, query, again }) {
  const named = (field) => [...new Set(board.forecasts.map((one) => one[field]))].sort();
  const rounds = named('round');
  const round = Number(query.round) || rounds.at(-1) || 1;
  const shown = { board, forecasts: board.forecasts.filter((one) => one.round === round), voices: named('voice') };
  return html`<div class="grid">
    <${Panel} title="Standing" className="whole"><${Facts} rows=${[
      ['State', badgeOf(board.state)],
      ['Market', html`${textOf(board.market)} ${timeOf(board.market_now)}`],
      ['Questions', numOf(board.questions.length)],
      ['Signals', numOf(`${board.signals.filter((one) => one.state === 'live').length} live of ${
        board.signals.length}`)],
      ['Tally', board.tally ? html`number ${numOf(board.tally.number)}${board.tally.used_round
        && html`, round ${board.tally.used_round} is used`}` : 'not yet'],
    ]} /><//>
    <${Panel} title="Questions and forecasts" className="whole" tools=${rounds.length > 1
      && html`<${Segments} label="Round" options=${rounds.map((one) => [one, `Round ${one}`])} value=${round}
      onChange=${(one) => setQuery({ round: one })} />`}><${Matrix} ...${shown} /><//>
    <${Panel} title="Arguments" className="whole"><${Arguments} ...${shown} /><//>
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

function Matrix({ board, forecasts, voices }) {
  const of = new Map(forecasts.map((one) => [`${one.question_id}|${one.voice}`, one]));
  const columns = [
    ['Label', (row) => html`<strong>${plain(row.label)}</strong>`, 'unseen'],
    ['Question', (row) => questionOf(row.id, row.text, 90), 'prose'], number('Baseline', figure),
    ...voices.map((voice) => [voice, (row) => {
      const found = of.get(`${row.id}|${voice}`);
      return found ? html`<span title=${plain(found.because)}>${chance(found.probability)}</span>` : MISSING;
    }, 'num']),
    ['Outcome', (row) => (row.outcome === null ? quietOf(plain(row.state)) : outcomeOf(row.outcome)), 'num'],
  ];
  return html`<${Table} label="Questions and forecasts" columns=${columns} rows=${board.questions} />`;
}

function Arguments({ board, forecasts, voices }) {
  const [voice, setVoice] = useState('');
  const [rows, more] = useFirst(forecasts.filter((one) => !voice || one.voice === voice), MOST_ARGUMENTS);
  if (!board.forecasts.length) return html`<${Empty} title="No voice has forecast yet" />`;
  const turns = new Map(board.voices.map((one) => [`${one.voice}${one.round}`, one]));
  const turn = (one) => turns.get(`${one.voice}${one.round}`) ?? {};
  return html`<div class="filters"><${Choice} label="Voice" values=${voices} value=${voice} onChange=${setVoice} />
    </div><ul class="arguments">${rows.map((one) => html`<li key=${one.id} data-row>
      <p><strong>${textOf(one.voice)}</strong> on <strong>${plain(labelOf(board, one.question_id))}:</strong> <strong
      class="num">${chance(one.probability)}</strong> ${quietOf(`stake ${figure(one.stake)}`)}
      ${' '}${turnOf(turn(one).thread, turn(one).turn, 'its turn')}</p>
      <p class="prose">${textOf(one.because)}${one.change
        && html` <span class="quiet">Wrong if: ${textOf(one.change)}</span>`}</p>
      ${one.citations.length > 0 && html`<ul class="lines">${citationsOf(board, one).map((cited) => html`<li>
        ${codeOf(cited.label)} ${plain(cited.stance)}: ${textOf(cited.claim)} ${cited.counts !== undefined
          && badgeOf(cited.counts ? 'counts' : 'does not count', cited.counts ? 'good' : 'warn')}
        ${' '}${quietOf(textOf(cited.reason))}</li>`)}</ul>`}</li>`)}</ul>${more}`;
}

const labelOf = (board, id) => board.questions.find((one) => one.id === id)?.label ?? id;

/** The citations of a forecast as code decided on them; before that as the voice wrote them. */
function citationsOf(board, forecast) {
  const judged = board.citations.filter((one) => one.forecast_id === forecast.id);
  return judged.length ? judged : forecast.citations.map((one) => ({ ...one, label: one.signal }));
}

function impliedBy({ probability, confidence, direction }) {
  if (probability !== null) return chance(probability);
  return confidence === null || direction === 'neutral' ? '' : `${direction} ${figure(confidence)}`;
}

const SIGNALS = [
  column('Signal', codeOf, 'label'),
  column('State', (state) => badgeOf(state, SIGNAL_TONES[state])),
  column('What it found', upTo(140), 'headline', 'prose'),
  ['Implies', impliedBy, '', 'confidence'],
  ['About', (row) => row.subjects.map((one) => (/^Q\d+$/.test(one) ? html`${plain(one)} ` : html`${symbolOf(one)} `)),
    'wide'],
  column('Source', upTo(40), 'source', 'wide'), column('As of', timeOf, 'as_of', 'wide'),
];

const voiceColumns = (board, again) => [
  column('Voice', voiceOf), number('Round', count),
  ['State', (row) => html`${badgeOf(row.status ?? row.state)} ${quietOf(textOf(row.reason, 60))}`],
  number('Forecasts', count), ['Turn', (row) => turnOf(row.thread, row.turn)],
  ['Stop', (row) => row.running && html`<${ActionButton} label="Stop" done=${again}
    path=${`/runs/${board.run_id}/voices/${part(row.voice)}/stop`}
    confirm=${{ title: `Stop ${plain(row.voice)}` }} />`, 'unseen'],
];
const stakeColumns = (board) => [
  ['Question', (row) => plain(labelOf(board, row.question_id))],
  column('Side'), number('Shares', figure), number('Cost', figure), number('Payout', figure),
];
