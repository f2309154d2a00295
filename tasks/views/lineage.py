"""The lineage of an order or a verdict: the chain back to the screen hit and, where a run had rounds of voices, to
their forecasts, citations and signals, by SQL along the foreign keys."""

from __future__ import annotations

import json
from typing import Any

from sqlalchemy import JSON, MappingResult, text
from sqlmodel import Session

from chordesk.models.database.artifacts import path_in_home
from chordesk.models.errors import NotFound
from chordesk.models.tables.runs import Run

# The reports of a verdict or, of a run that ends without one, the signals of its graphs.
_OF_SYMBOL = """
    (r.id in (
        select vr.report_id from verdict v join verdict_report vr on vr.verdict_id = v.id
        where v.run_id = :run and v.symbol = :symbol
     ) or (
        r.run_id = :run and r.symbol = :symbol
        and exists (select 1 from step s where s.id = r.step_id and s.kind = 'graph')
        and not exists (select 1 from verdict v where v.run_id = :run and v.symbol = :symbol)
     ))
"""
# The turns of a report: a role's own one, or all of a graph.
_OF_REPORT = """
    (x.id = r.turn_id or (
        x.run_id = r.run_id and x.subject = r.symbol
        and exists (select 1 from step s where s.id = r.step_id and s.kind = 'graph')
        and exists (select 1 from step s where s.id = x.step_id and s.kind = 'graph')
     ))
"""
_REPORTS = text(
    f"""
    select r.id as report, r.run_id as run, r.role, r.status, r.verdict, r.confidence, r.summary, r.reason, r.author,
           r.answer, r.answer_schema, r.grounding,
           t.id as turn, t.thread_id as thread, t.thread_reason, t.codex_turn_id as codex_turn,
           (select sum(x.total_tokens) from turn x where {_OF_REPORT}) as tokens,
           (select count(*) from tool_call c join turn x on x.id = c.turn_id where {_OF_REPORT}) as tools
    from report r
    join turn t on t.id = r.turn_id
    where {_OF_SYMBOL}
    order by t.started_at, r.role
    """
).columns(answer=JSON, grounding=JSON)
_PICTURES = text(
    """
    select r.run_id as run, r.role, a.kind, a.digest
    from verdict v
    join verdict_report vr on vr.verdict_id = v.id
    join report r on r.id = vr.report_id
    join turn t on t.step_id = r.step_id
    join artifact a on a.turn_id = t.id
    where v.run_id = :run and v.symbol = :symbol
    order by a.created_at, a.id
    """
)
_HITS = text(
    """
    select h.lens, h.confidence, h.thesis, t.model as author,
           t.id as turn, t.thread_id as thread, t.thread_reason, t.codex_turn_id as codex_turn
    from candidate c
    join candidate_hit ch on ch.candidate_id = c.id
    join screen_hit h on h.id = ch.hit_id
    join turn t on t.id = h.turn_id
    where c.run_id = :run and c.symbol = :symbol
    order by h.lens, h.id
    """
)
_VERDICT = text(
    """
    select v.id as verdict, v.rating, v.confidence, v.summary, c.id as candidate, c.origin, c.rank
    from candidate c left join verdict v on v.candidate_id = c.id
    where c.run_id = :run and c.symbol = :symbol
    """
)
_ANALYSIS = text(
    """
    select a.id as analysis, a.strategy, a.recommendation, a.contract, a.figures, a.author,
           t.id as turn, t.thread_id as thread, t.thread_reason, t.codex_turn_id as codex_turn
    from analysis a
    left join turn t on t.id = a.turn_id  -- without a text there is none
    where a.run_id = :run and a.symbol = :symbol
    """
).columns(figures=JSON)
_CALLS = text(
    f"""
    select r.run_id as run, r.role, c.id as call, c.tool, c.success
    from report r
    join turn x on {_OF_REPORT}
    join tool_call c on c.turn_id = x.id
    where {_OF_SYMBOL}
    order by x.started_at, c.ordinal, c.id
    """
)
_FORECASTS = text(
    """
    select f.id as forecast, f.voice, f.round, q.id as question, q.text, q.subjects, f.probability, f.baseline,
           f.because, f.author,
           t.id as turn, t.thread_id as thread, t.thread_reason, t.codex_turn_id as codex_turn
    from forecast f
    join question q on q.id = f.question_id
    join turn t on t.id = f.turn_id
    where f.run_id = :run
    order by f.round, f.voice, q.id
    """
).columns(subjects=JSON)
_CITATIONS = text(
    """
    select c.forecast_id as forecast, c.label, c.stance, c.claim, c.counts, c.reason,
           s.id as signal, s.tool, s.state, s.headline, s.source, s.as_of
    from signal_citation c
    left join signal s on s.id = c.signal_id  -- a voice may cite what there is not
    where c.run_id = :run
    order by c.forecast_id, c.ordinal
    """
)
_ORDERS = text(
    """
    select o.id as "order", o.verdict_id as verdict, o.state, o.action, o.side, o.quantity, o.contract, o.legs,
           o.denial_code, o.denial_reason, p.payload_hash, p.price, p.notional,
           d.id as decision, d.status as decision_status, d.author,
           t.id as turn, t.thread_id as thread, t.thread_reason, t.codex_turn_id as codex_turn
    from "order" o
    join decision d on d.id = o.decision_id
    left join turn t on t.id = d.turn_id  -- a person's decision has none
    left join preview p on p.order_id = o.id
    where d.run_id = :decided and o.symbol = :symbol
    order by o.ordinal
    """
)


def lineage(session: Session, run: Run, symbol: str) -> dict[str, Any]:
    """Return the chain of one symbol in one run: orders, forecasts with their citations and signals, verdict, analysis,
    reports with their threads, tool calls and pictures, screen hits.

    For a trade run, the research is its source run's. `verdict` is None for an order on a symbol without research.
    Raises NotFound when the run has no such symbol.
    """
    symbol = symbol.strip().upper()
    source = run.params.get("source_run")
    researched = {"run": source or run.id, "symbol": symbol}
    verdict = session.execute(_VERDICT, researched).mappings().one_or_none()
    orders = _plain(session.execute(_ORDERS, {"decided": run.id, "symbol": symbol}).mappings())
    for order in orders:
        order["legs"] = json.loads(order["legs"]) if isinstance(order["legs"], str) else order["legs"]
    if verdict is None and not orders:
        raise NotFound(f"run {run.id} has no candidate {symbol}", remedy=f"`desk runs show {run.id}` lists them")
    return {
        "run": run.id,
        "source_run": source,
        "symbol": symbol,
        "orders": orders,
        "verdict": dict(verdict) if verdict is not None else None,
        "analysis": _analysis(session, researched),
        "reports": _reports(session, researched),
        "forecasts": _forecasts(session, researched),
        "hits": _plain(session.execute(_HITS, researched).mappings()),
    }


def _analysis(session: Session, researched: dict[str, str]) -> dict[str, Any] | None:
    """Return the analysis with the source of its contract's quotes, None where there is none."""
    row = session.execute(_ANALYSIS, researched).mappings().one_or_none()
    if row is None:
        return None
    found = dict(row)
    contract = found.pop("figures").get("contract") or {}
    return {**found, "chain": contract.get("source")}


def _forecasts(session: Session, researched: dict[str, str]) -> list[dict[str, Any]]:
    """Return the voices' forecasts of questions on the symbol, each with its citations and their signals."""
    rows = [dict(row) for row in session.execute(_FORECASTS, {"run": researched["run"]}).mappings()]
    own = [row for row in rows if researched["symbol"] in row.pop("subjects")]
    if not own:
        return []
    cited: dict[str, list[dict[str, Any]]] = {}
    for row in _plain(session.execute(_CITATIONS, {"run": researched["run"]}).mappings()):
        cited.setdefault(row.pop("forecast"), []).append({**row, "counts": bool(row["counts"])})
    return [{**row, "citations": cited.get(row["forecast"], [])} for row in own]


def _reports(session: Session, researched: dict[str, str]) -> list[dict[str, Any]]:
    """Return the reports of the verdict, each with its tool calls, and the files of its pictures, relative to the data
    folder."""
    pictures: dict[tuple[str, str], list[str]] = {}
    for row in session.execute(_PICTURES, researched).mappings():
        path, known = path_in_home(row["digest"], row["kind"]), pictures.setdefault((row["run"], row["role"]), [])
        if path not in known:
            known.append(path)
    calls: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for row in session.execute(_CALLS, researched).mappings():
        call = {"call": row["call"], "tool": row["tool"], "success": bool(row["success"])}
        calls.setdefault((row["run"], row["role"]), []).append(call)
    reports = _plain(session.execute(_REPORTS, researched).mappings())
    keys = [(row["run"], row["role"]) for row in reports]
    return [
        {**row, "pictures": pictures.get(key, []), "calls": calls.get(key, [])}
        for key, row in zip(keys, reports, strict=True)
    ]


def _plain(rows: MappingResult) -> list[dict[str, Any]]:
    return [dict(row) for row in rows]
