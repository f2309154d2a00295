// One report: the structured answer, each figure beside the tool answer that it comes from, what was missing, and who
// gave it on which thread.

import { get, pictureUrl } from '../lib/api.js';
import { between, compact, count, money, percent, span } from '../lib/format.js';
import { html, useEffect, useMemo, useState } from '../lib/html.js';
import { useKeys } from '../lib/keys.js';
import { part, setQuery } from '../lib/router.js';
import { useResource } from '../lib/store.js';
import { Badge, Empty, Facts, Link, Loaded, Panel, ProblemBox, RunLink, SymbolLink, Text, ThreadLink, Time } from '../lib/ui.js';
import { plain, shortId } from '../lib/text.js';
import { figuresOf, missingOf, otherFields } from './report/figures.js';
import { Cited, Tree } from './report/cited.js';
import { Calls } from './report/calls.js';

export const title = ({ report }) => `Report ${shortId(report)}`;

export default function Report({ params, query }) {
  const found = useResource(({ signal }) => get(`/reports/${part(params.report)}`, {}, { signal }), [params.report]);
  useKeys([['r', 'Load again', found.reload]]);
  const data = found.data;
  if (!data && found.problem?.status === 404) {
    return html`<div class="view"><h1>Report ${shortId(params.report)}</h1><${ProblemBox} problem=${found.problem} again=${found.reload} /></div>`;
  }
  return html`<div class="view report-view">
    <h1>${data ? html`${plain(data.role).replaceAll('_', ' ')} on <${SymbolLink} symbol=${data.symbol} /> <${Badge}>${data.verdict ?? data.status}<//>` : html`Report ${shortId(params.report)}`}</h1>
    <${Loaded} from=${found} what="the report">${(row) => html`<${Shown} key=${row.id} report=${row} query=${query} />`}<//>
  </div>`;
}

function Shown({ report, query }) {
  const figures = useMemo(() => figuresOf(report), [report]);
  const missing = useMemo(() => missingOf(report), [report]);
  const chosen = figures[Number(query.figure) - 1] ?? null;
  const choose = (figure) => setQuery({ figure: figure === chosen ? '' : figure.number, call: '' });
  const step = (by) => figures.length && setQuery({ figure: ((chosen ? chosen.number - 1 + by : by > 0 ? 0 : -1) + figures.length) % figures.length + 1, call: '' });
  useKeys([['n', 'Next figure', () => step(1)], ['p', 'Previous figure', () => step(-1)]], 'This view', [figures, chosen]);
  const sourced = figures.filter((figure) => figure.source);
  return html`<div class="report-grid">
    <div class="stack">
      <${Panel} title="Answer">
        <${Facts} rows=${[
          ['Verdict', report.verdict ? html`<${Badge}>${report.verdict}<//>` : html`<span class="quiet">none</span>`],
          ['Confidence', html`<${Text}>${report.confidence ?? 'none'}<//>${report.claimed && report.claimed !== report.confidence ? html` <span class="quiet">(it claimed <${Text}>${report.claimed}<//>)</span>` : ''}`],
          ['Status', html`<${Badge}>${report.status}<//>`],
          ['Figures with a source', report.figures === null ? html`<span class="quiet">not looked for</span>` : html`<span class="num">${count(report.supported)} of ${count(report.figures)}${report.figures ? ` (${percent(report.supported / report.figures, 0)})` : ''}</span>`],
        ]} />
        ${report.reason && html`<p class="reason"><${Badge} tone="warn">why<//> <${Text}>${report.reason}<//></p>`}
        <p class="summary"><${Cited} text=${report.summary} name="summary" figures=${figures} chosen=${chosen} choose=${choose} /></p>
        ${report.key_risks.length > 0 && html`<h3>Key risks</h3><ul class="dots">${report.key_risks.map((risk, index) => html`<li><${Cited} text=${risk} name=${`key_risks/${index}`} figures=${figures} chosen=${chosen} choose=${choose} /></li>`)}</ul>`}
        <${Tree} value=${otherFields(report)} />
        ${!report.answer && html`<${Empty} title="There is no structured answer">${report.status === 'completed' ? 'it was written before answers were kept' : null}<//>`}
      <//>
      <${Panel} title="What was missing">${missing.length
        ? html`<ul class="dots">${missing.map((gap) => html`<li><${Text}>${[gap.symbol, gap.what].filter(Boolean).join(' ')}<//>: <${Text} className="quiet">${gap.reason}<//> ${gap.tool && html`<code>${plain(gap.tool)}</code>`}</li>`)}</ul>`
        : html`<p class="quiet">No tool reported a gap.</p>`}<//>
      <${Panel} title="Where it is from"><${Origin} report=${report} /><//>
      ${report.pictures.length > 0 && html`<${Panel} title="Pictures that it was given"><${Pictures} pictures=${report.pictures} /><//>`}
    </div>
    <${Panel} title="Sources" className="sources" tools=${html`<span class="quiet">${sourced.length ? 'n and p go through the figures' : ''}</span>`}>
      <${Calls} report=${report} figures=${figures} chosen=${chosen} query=${query} />
    <//>
  </div>`;
}

function Origin({ report }) {
  const { turn } = report;
  return html`<${Facts} rows=${[
    ['Role', html`<${Text}>${report.role}<//>`],
    ['Author', html`<${Text}>${report.author}<//>`],
    ['Thread', html`<${ThreadLink} id=${turn.thread_id} /> <span class="quiet"><${Text}>${turn.thread_reason}<//></span>`],
    ['Turn', turn.thread_id ? html`<${Link} to=${`/threads/${part(turn.thread_id)}`} query=${{ turn: turn.id }} className="id">${shortId(turn.id)}<//>` : html`<span class="id">${shortId(turn.id)}</span>`],
    ['Attempt', html`<span class="num">${count(turn.attempt)}</span>`],
    ['Tokens', html`<span class="num" title=${count(turn.total_tokens)}>${compact(turn.total_tokens)}</span>`],
    ['Money', turn.cost_usd === null ? html`<span class="quiet">in its run</span>` : html`<span class="num">${money(turn.cost_usd, 4)}</span>`],
    ['Took', html`<span class="num">${span(between(turn.started_at, turn.finished_at))}</span>`],
    ['Market time', html`<${Time} at=${report.market_at} />`],
    ['Written', html`<${Time} at=${report.created_at} />`],
    ['Run', html`<${RunLink} id=${report.run_id} />`],
    ['Verdicts that count it', report.verdicts.length ? report.verdicts.map((one) => html`<${Link} to=${`/verdicts/${one.id}`}><${Badge}>${one.rating}<//><//> `) : html`<span class="quiet">none</span>`],
  ]} />`;
}

function Pictures({ pictures }) {
  return html`<div class="stack">${pictures.map((one) => html`<${Picture} key=${one.digest} picture=${one} />`)}</div>`;
}

function Picture({ picture }) {
  const [url, setUrl] = useState(null);
  const [problem, setProblem] = useState(null);
  useEffect(() => {
    const cut = new AbortController();
    let made = null;
    pictureUrl(picture.digest, { signal: cut.signal }).then((found) => {
      made = found;
      if (cut.signal.aborted) URL.revokeObjectURL(found);
      else setUrl(found);
    }, (error) => !cut.signal.aborted && setProblem(error));
    return () => {
      cut.abort();
      if (made) URL.revokeObjectURL(made);
    };
  }, [picture.digest]);
  if (problem) return html`<${ProblemBox} problem=${problem} what="the picture" />`;
  return url ? html`<img class="picture" src=${url} alt="The chart that a tool gave the turn" />` : html`<p class="quiet">loading the picture</p>`;
}
