// The funnel: what became of the universe, stage by stage. A count is a filter of the table below.

import { count, percent } from '../../lib/format.js';
import { html } from '../../lib/html.js';
import { setQuery } from '../../lib/router.js';
import { plain } from '../../lib/text.js';

export const STAGES = ['universe', 'hits', 'candidates', 'verdicts', 'orders', 'fills'];

export function Funnel({ stages, stage, label }) {
  const most = Math.max(1, ...stages.map((one) => one.symbols));
  return html`<ol class="funnel">${stages.map((one, index) => {
    const before = stages[index - 1]?.symbols;
    const share = index && before ? percent(one.symbols / before, 0) : '';
    const chosen = stage === one.stage;
    return html`<li class=${chosen ? 'chosen' : ''}>
      <button type="button" class="stage" aria-pressed=${chosen && !label} onClick=${() => setQuery({ stage: chosen && !label ? '' : one.stage, label: '' })}
        title=${`${count(one.count)} ${one.stage} of ${count(one.symbols)} symbols`}>
        <span class="count num">${count(one.count)}</span> <span>${one.stage}</span> ${share && html`<span class="quiet num" title="of the symbols of the stage before">${share}</span>`}
        <svg class="share" viewBox="0 0 100 4" preserveAspectRatio="none" aria-hidden="true"><rect width=${Math.max((one.symbols / most) * 100, one.symbols ? 1 : 0)} height="4" /></svg>
      </button>
      <div class="labels">${Object.entries(one.labels).map(([name, number]) => html`<button type="button" class="plain" aria-pressed=${chosen && label === name}
        onClick=${() => setQuery(chosen && label === name ? { stage: '', label: '' } : { stage: one.stage, label: name })}>${plain(name).replaceAll('_', ' ')} <b class="num">${count(number)}</b></button>`)}</div>
    </li>`;
  })}</ol>`;
}

/** The symbols behind a stage, or behind one of its labels, in their order; null when no stage is chosen. */
export function chosenSymbols(stages, stage, label) {
  const found = stages?.find((one) => one.stage === stage);
  if (!found) return null;
  return [...new Set(found.items.filter((item) => !label || item.label === label).map((item) => item.symbol))];
}

/** What the universe and the hits hold by symbol: {symbol, lenses}. */
export function screened(stages, symbols) {
  const lenses = new Map();
  for (const hit of stages.find((one) => one.stage === 'hits')?.items ?? []) {
    lenses.set(hit.symbol, [...(lenses.get(hit.symbol) ?? []), hit.label]);
  }
  return symbols.map((symbol) => ({ symbol, lenses: lenses.get(symbol) ?? [] }));
}
