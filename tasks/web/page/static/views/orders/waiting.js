// What waits for a person: orders as they were previewed, and what models ask for in the middle of a turn.

import { html, useState } from '../../lib/html.js';
import { money } from '../../lib/format.js';
import { Ago, Badge, Empty, Loaded, OrderLink, Panel, RunLink, Text, ThreadLink, Time } from '../../lib/ui.js';
import { plain, shortId } from '../../lib/text.js';
import { Answering, RequestDetail } from './answering.js';
import { instrument, priceTerms, quantity, unit } from './terms.js';

/** from: a resource of GET /approvals. done: called after an answer. */
export function Waiting({ from, done }) {
  const [result, setResult] = useState(null);
  const answered = (found) => {
    setResult(found);
    done();
  };
  return html`<${Panel} title="Waits for a person">
    ${result && html`<p role="status" class="notice"><${Badge} tone=${result.state === 'approved' ? 'good' : 'warn'}>${result.state}<//> ${after(result)}</p>`}
    <${Loaded} from=${from} what="what waits" empty=${html`<${Empty} title="Nothing waits for you" />`}>${(rows) => html`<${Rows} rows=${rows} done=${answered} />`}<//><//>`;
}

const after = (result) => {
  const about = result.order ? html`order <${OrderLink} id=${result.order} />` : html`request <code>${shortId(result.approval)}</code>`;
  if (!result.order || result.state !== 'approved') return about;
  return html`${about}: ${result.notified ? 'it is checked once more and then sent' : 'the trade queue was not reached; it sends with its next check, within a minute'}`;
};

function Rows({ rows, done }) {
  return html`<ul class="waiting">${rows.map((item) => html`<li key=${item.approval} data-row>
    ${item.kind === 'order' ? html`<${WaitingOrder} item=${item} />` : html`<${WaitingRequest} item=${item} />`}
    <span class="quiet">asked <${Ago} at=${item.asked_at} />, answer by <${Time} at=${item.expires_at} parts="time" /></span>
    <${Answering} item=${item} done=${done} /></li>`)}</ul>`;
}

const WaitingOrder = ({ item }) => html`<span class="what"><${OrderLink} id=${item.order} /> <strong>${plain(item.side ?? item.action)} <span class="num">${quantity(item.quantity)}</span> <span class="symbol">${instrument(item)}</span></strong>
  <span>${unit(item)}, ${priceTerms(item)}</span> <strong class="num">${money(item.notional)}</strong> <span class="quiet">account <${Text}>${item.account}<//></span></span>`;

const WaitingRequest = ({ item }) => html`<span class="what"><${Badge} tone="warn">${item.kind}<//> <strong><${Text}>${item.role}<//></strong> of run <${RunLink} id=${item.run_id} />, thread <${ThreadLink} id=${item.thread_id} />:
  ${item.kind === 'command' || item.kind === 'file_change' ? html`<${RequestDetail} kind=${item.kind} detail=${item.detail} />` : html`<${Text}>${item.what}<//>`}</span>`;
