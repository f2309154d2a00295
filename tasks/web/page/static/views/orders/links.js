// Links to what a model did.

import { html } from '../../lib/html.js';
import { MISSING } from '../../lib/format.js';
import { Link } from '../../lib/ui.js';
import { shortId } from '../../lib/text.js';

/** A link to a turn of a thread. turn: the runtime's id of it; without one, to the thread. */
export const TurnLink = ({ thread, turn, children }) => (thread ? html`<${Link} to=${`/threads/${encodeURIComponent(thread)}`} query=${{ turn }} className=${children ? '' : 'id'} title=${thread}>${children ?? shortId(thread)}<//>` : MISSING);
