// All that waits for a person, alone on a page.

import { get } from '../lib/api.js';
import { html } from '../lib/html.js';
import { useKeys } from '../lib/keys.js';
import { useLive } from '../lib/live.js';
import { useResource } from '../lib/store.js';
import { Link, LiveBadge } from '../lib/ui.js';
import { Waiting } from './orders/waiting.js';

const FOLLOWED = { type: ['order', 'approval'], bodies: false };

export default function Approvals() {
  const waiting = useResource(({ signal }) => get('/approvals', {}, { signal }), [], { every: 30_000 });
  const live = useLive('/events', { query: FOLLOWED, onEvents: () => waiting.soon(500), onGap: waiting.reload });
  useKeys([['r', 'Load again', waiting.reload]]);
  return html`<div class="view stack"><h1>Approvals <${LiveBadge} live=${live} /> <${Link} to="/orders">all orders<//></h1>
    <${Waiting} from=${waiting} done=${waiting.reload} /></div>`;
}
