// A turn by its id: where its thread is known, the thread at that turn.

import { get } from '../lib/api.js';
import { html, useEffect } from '../lib/html.js';
import { href } from '../lib/router.js';
import { useResource } from '../lib/store.js';
import { Loaded, Loading, Panel } from '../lib/ui.js';
import { plain, shortId } from '../lib/text.js';
import { Turn } from './threads/turn.js';

export const title = (params) => `Turn ${shortId(params.turn)}`;

export default function TurnView({ params }) {
  const found = useResource(({ signal }) => get(`/turns/${encodeURIComponent(params.turn)}`, {}, { signal }), [params.turn]);
  return html`<div class="view"><${Loaded} from=${found} what="the turn">${(detail) => html`<${Whole} ...${detail} />`}<//></div>`;
}

function Whole({ turn, tool_calls: calls }) {
  const known = turn.thread_id && turn.codex_turn_id;
  useEffect(() => {
    if (known) location.replace(href(`/threads/${turn.thread_id}`, { turn: turn.codex_turn_id }));
  }, []);
  if (known) return html`<${Loading} what="its thread" />`;
  const seconds = (new Date(turn.finished_at) - new Date(turn.started_at)) / 1000;
  const whole = { ...turn, turn_id: turn.id, row_id: turn.id, running: false, seconds, tokens: turn, prompt: null, answer: turn.text, items: [], approvals: [], calls };
  return html`<h1>Turn <code>${shortId(turn.id)}</code> ${plain(turn.role)}</h1><div class="stack"><${Panel} title="Thread"><p class="quiet">It ran on no thread that is known.</p><//><${Turn} turn=${whole} /></div>`;
}
