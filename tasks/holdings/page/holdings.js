// All accounts as one portfolio: what the desk holds and what is held at other brokers, which it never trades.

import {
  column, Facts, figure, html, Loaded, money, number, numOf, Panel, percent, plain, quietOf, signedPercent, symbolOf,
  Table, textOf, timeOf, useGet,
} from '../../lib/view.js';

const EVERY_MS = 60_000;
const share = (value) => (value === null ? 'not known' : percent(value));
const worth = (row) => (row.value === null ? quietOf('not known') : money(row.value));

const ACCOUNTS = [
  column('Account', textOf), ['From', (row) => textOf(row.source), '', 'source'],
  ['As of', (row) => (row.as_of === null ? 'now' : html`${plain(row.as_of)}${
    row.stale ? html` <span class="notice warn">${row.age} sessions old</span>` : ''}`), '', 'as_of'],
  number('Holdings', (value) => value), ['Value', worth, 'num', 'value'], number('Weight', share),
];

const HOLDINGS = [
  ['Holding', (row) => (row.symbol === row.name ? symbolOf(row.symbol) : textOf(row.name, 40)), '', 'name'],
  ['Sector', (row) => textOf(row.sector ?? (row.kind === 'cash' ? '' : row.kind), 28), 'wide', 'sector'],
  column('Currency', textOf), ['Value', worth, 'num', 'value'], number('Weight', share),
  ['Accounts', (row) => textOf(row.accounts.join(', '), 60), 'wide', 'accounts'],
  ['Note', (row) => quietOf(textOf(row.missing || row.doubt, 100)), 'wide', 'missing'],
];

const WEIGHTS = [column('Name', textOf), number('Weight', share)];
const PAIRS = [column('First', symbolOf), column('Second', symbolOf), number('Correlation', figure)];
const DAYS = [column('Day', textOf), number('Change', signedPercent)];

export function Holdings() {
  const from = useGet('/holdings', { amounts: true }, { every: EVERY_MS });
  return html`<div class="view"><h1>The whole book</h1>
    <${Loaded} from=${from} what="the accounts">${(found) => html`
      ${found.missing.length > 0 && html`<p class="notice warn">Missing: ${found.missing.map(
        (line) => html`${textOf(line, 160)}. `)}</p>`}
      <div class="grid">
        <${Panel} title="Standing" className="whole"><${Facts} rows=${[
          ['Value', html`<strong class="num big">${found.at_least ? 'at least ' : ''}${money(found.value)}</strong>`],
          ['Prices of', timeOf(found.as_of)],
          ['Largest holding', numOf(share(found.largest))], ['Five largest', numOf(share(found.five))],
          ['As concentrated as', html`${figure(found.alike)} equal holdings`],
          ['As risky as', html`${figure(found.bets)} independent ones`],
          ['Mean correlation', html`${numOf(figure(found.correlation))} ${
            quietOf(`of ${share(found.covered)} of the whole, ${found.sessions} sessions`)}`],
        ]} /><//>
        <${Panel} title="Accounts" className="whole"><${Table} columns=${ACCOUNTS} rows=${found.accounts} /><//>
        <${Panel} title="Holdings" className="whole"><${Table} columns=${HOLDINGS} rows=${found.holdings} /><//>
        <${Panel} title="Sectors"><${Table} columns=${WEIGHTS} rows=${found.sectors} /><//>
        <${Panel} title="Currencies"><${Table} columns=${WEIGHTS} rows=${found.currencies} /><//>
        <${Panel} title="Most alike"><${Table} columns=${PAIRS} rows=${found.pairs} /><//>
        <${Panel} title="Worst days with the holdings of now"><${Table} columns=${DAYS} rows=${found.worst_days} /><//>
      </div>`}<//></div>`;
}
