// An event of the desk in one line: what happened, and to what.

import { html } from './html.js';
import { Badge, OrderLink, RunLink, Text, ThreadLink, Time } from './ui.js';

const WHAT = {
  'run.started': 'run began', 'run.stopping': 'run is being stopped', 'run.completed': 'run ended',
  'turn.started': 'turn began', 'turn.completed': 'turn ended', 'turn.interrupted': 'turn interrupted', 'turn.failed': 'turn failed', 'turn.refused': 'model declined', 'turn.error': 'provider failed',
  'tool.started': 'tool called', 'tool.completed': 'tool answered',
  'status.started': 'step began', 'status.again': 'step tried again', 'status.ended': 'step ended',
  'order.state': 'order', 'order.fill': 'fill', 'order.trading': 'trading',
  'approval.asked': 'asks a person', 'approval.decided': 'decided', 'approval.expired': 'not decided in time',
};

const TONE = { failed: 'bad', refused: 'bad', error: 'bad', again: 'warn', interrupted: 'warn', stopping: 'warn', asked: 'warn', expired: 'warn' };

/** The kind of an event as a badge. */
export function EventKind({ event }) {
  const name = event.type.split('.')[1];
  return html`<${Badge} tone=${TONE[name] ?? (name === 'completed' || name === 'ended' || name === 'fill' ? 'good' : 'plain')}>${WHAT[event.type] ?? event.type}<//>`;
}

/** What an event is about: role, subject, tool, state, as far as it has them. */
export function EventText({ event }) {
  const { role, subject, tool, kind, state, symbol, why, reason, order } = event.payload;
  const about = [role, subject || symbol, tool, !role && !tool ? kind : null, state, why || reason].filter((one) => one && typeof one === 'string');
  return html`<${Text} most=${160}>${about.join(' · ')}<//>${typeof order === 'string' && html` <${OrderLink} id=${order} />`}`;
}

/** A row of a list of events. */
export const EventRow = ({ event, run = true }) => html`<${Time} at=${event.occurred_at} parts="time" />
  ${run && (event.run_id === 'desk' ? html`<span class="id">desk</span>` : html`<${RunLink} id=${event.run_id} />`)}
  <${EventKind} event=${event} /> <${EventText} event=${event} />
  ${event.thread_id && html`<${ThreadLink} id=${event.thread_id}>thread<//>`}`;

