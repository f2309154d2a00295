// Pictures that tools gave to turns: fetched with the token, shown from memory, and let go when they are not seen.

import { get, pictureUrl } from '../../lib/api.js';
import { html, useEffect, useState } from '../../lib/html.js';
import { useResource } from '../../lib/store.js';
import { Empty, Loaded, Loading, ProblemBox, Text } from '../../lib/ui.js';
import { plain } from '../../lib/text.js';

/** One picture. row: of a run's artifacts. */
export function Picture({ row }) {
  const [url, setUrl] = useState(null);
  const [problem, setProblem] = useState(null);
  useEffect(() => {
    const cut = new AbortController();
    let made = null;
    pictureUrl(row.digest, { signal: cut.signal }).then((found) => {
      made = found;
      if (cut.signal.aborted) URL.revokeObjectURL(found);
      else setUrl(found);
    }, (error) => cut.signal.aborted || setProblem(error));
    return () => {
      cut.abort();
      if (made) URL.revokeObjectURL(made);
    };
  }, [row.digest]);
  const caption = `${plain(row.tool)} for ${plain(row.role)}${row.subject ? `, ${plain(row.subject)}` : ''}`;
  if (problem) return html`<${ProblemBox} problem=${problem} what=${caption} />`;
  return html`<figure class="picture">${url ? html`<a href=${url} target="_blank" rel="noopener"><img src=${url} alt=${caption} loading="lazy" /></a>` : html`<${Loading} what=${caption} />`}
    <figcaption class="quiet"><${Text}>${caption}<//></figcaption></figure>`;
}

/** The pictures of a run. */
export function Pictures({ run }) {
  const found = useResource(({ signal }) => get(`/runs/${run}`, {}, { signal }), [run]);
  return html`<${Loaded} from=${found} what="pictures" isEmpty=${(one) => !one.artifacts.length} empty=${html`<${Empty} title="It has no picture" />`}>${(one) => html`<div class="pictures">${distinct(one.artifacts).map((row) => html`<${Picture} key=${row.id} row=${row} />`)}</div>`}<//>`;
}

const distinct = (rows) => [...new Map(rows.map((row) => [`${row.digest}${row.role}`, row])).values()];
