"""The complete view of an order, with its lineage back to the screen hit, as a chain and as a graph."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from sqlalchemy import JSON, MappingResult, text
from sqlmodel import Session, col, select

from chordesk.models.answers import Frozen
from chordesk.models.database.artifacts import path_in_home
from chordesk.models.errors import NotFound
from chordesk.models.tables.orders import Approval, Fill, Order, Preview
from chordesk.models.tables.runs import Decision, Run, Turn
from chordesk.tasks.reading.run_list import on_day

# The lineage of an order or a verdict: the chain back to the screen hit and, where a run had rounds of voices, to
# their forecasts, citations and signals, by SQL along the foreign keys.

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


def by_code(author: str | None) -> bool:
    """Return whether a decision's author is code, and neither a model nor a person."""
    return author is not None and author.startswith("code:")


def list_orders(
    session: Session,
    run_id: str | None,
    symbol: str | None,
    state: str | None,
    limit: int,
    *,
    offset: int = 0,
    account: str | None = None,
    day: dt.date | None = None,
) -> Sequence[tuple[Order, Preview | None]]:
    """Return orders with their previews, the newest first; None as a filter matches everything. day: of the exchange,
    in market time."""
    filters = ((Order.run_id, run_id), (Order.symbol, symbol), (Order.state, state), (Order.account, account))
    query = select(Order, Preview).join(Preview, col(Preview.order_id) == col(Order.id), isouter=True)
    query = query.where(*(col(column) == wanted for column, wanted in filters if wanted is not None))
    if day is not None:
        query = query.where(on_day(Order.market_at, day))
    ordered = query.order_by(col(Order.created_at).desc(), col(Order.ordinal).desc())
    found = session.exec(ordered.offset(offset).limit(limit)).all()
    return [(order, preview) for order, preview in found]


def order_view(session: Session, order: Order) -> dict[str, Any]:
    """Return rows as plain data: order, preview, approval, the orders that protect its position, fills, decision,
    verdict, analysis, reports, forecasts of voices with their citations, hits.

    Each of decision, reports, forecasts and hits has `at`: the end of its turn, in real time.
    """
    preview = session.exec(select(Preview).where(col(Preview.order_id) == order.id)).first()
    approval = session.exec(select(Approval).where(col(Approval.order_id) == order.id)).first()
    fills = session.exec(
        select(Fill).where(col(Fill.order_id) == order.id).order_by(col(Fill.filled_at), col(Fill.id))
    ).all()
    rests_on = lineage(session, session.get_one(Run, order.run_id), order.symbol)
    found = {
        "order": order.model_dump(),
        "preview": preview.model_dump() if preview else None,
        "approval": approval.model_dump() if approval else None,
        "protected_by": [row.model_dump() for row in _protection(session, order)],
        "fills": [fill.model_dump() for fill in fills],
        "decision": _decision(session, order),
        **{name: rests_on[name] for name in ("verdict", "analysis", "reports", "forecasts", "hits")},
    }
    _date(session, [found["decision"], *found["reports"], *found["forecasts"], *found["hits"]])
    return found


def _protection(session: Session, order: Order) -> Sequence[Order]:
    rows = select(Order).where(col(Order.protects) == order.id, col(Order.id) != order.id)
    return session.exec(rows.order_by(col(Order.created_at), col(Order.id))).all()


def _decision(session: Session, order: Order) -> dict[str, Any]:
    decision = session.get_one(Decision, order.decision_id)
    action = decision.actions[order.ordinal] if order.ordinal < len(decision.actions) else {}
    why = action.get("reasoning") if isinstance(action, dict) else None
    turn = session.get(Turn, decision.turn_id) if decision.turn_id is not None else None  # a person decided
    return {
        "decision": decision.id,
        "status": decision.status,
        "author": decision.author,
        "reasoning": decision.reasoning,
        "why": why,
        "turn": turn.id if turn else None,
        "thread": turn.thread_id if turn else None,
        "codex_turn": turn.codex_turn_id if turn else None,
    }


def _date(session: Session, rows: list[dict[str, Any]]) -> None:
    ids = {row["turn"] for row in rows}
    found = session.exec(select(Turn.id, Turn.finished_at).where(col(Turn.id).in_(ids))).all()
    times: dict[str, dt.datetime] = dict(list(found))
    for row in rows:
        row["at"] = times.get(row["turn"])


NodeKind = Literal[
    "thread", "turn", "hit", "report", "signal", "forecast", "verdict", "analysis", "decision", "order", "preview",
    "approval", "fill", "protection",
]  # fmt: skip


class GraphNode(Frozen):
    """One thing that the order rests on, or that came of it. id: unique in the graph; ref: its own id, or that of the
    turn that made it; label: text of whatever origin, for people; at: real time where it is known."""

    id: str
    kind: NodeKind
    ref: str | None
    label: str
    at: dt.datetime | None = None
    facts: dict[str, Any] = {}


class GraphEdge(Frozen):
    """source led to target."""

    source: str
    target: str


class OrderGraph(Frozen):
    """The nodes in the order in which they came about, by kind; every edge has both of its nodes."""

    order: str
    run_id: str
    symbol: str
    nodes: list[GraphNode]
    edges: list[GraphEdge]


@dataclass(slots=True)
class _Graph:
    nodes: dict[str, GraphNode] = field(default_factory=dict)
    edges: dict[tuple[str, str], GraphEdge] = field(default_factory=dict)

    def add(self, kind: NodeKind, ref: object, label: str, causes: list[str] | None = None, **more: Any) -> str:
        """Add a node once, and the edges from its causes; return its id."""
        id_ = f"{kind}:{more.pop('key', ref)}"
        made = GraphNode(id=id_, kind=kind, ref=None if ref is None else str(ref), label=label, **more)
        self.nodes.setdefault(id_, made)
        for cause in causes or ():
            self.edges.setdefault((cause, id_), GraphEdge(source=cause, target=id_))
        return id_

    def turn(self, row: Mapping[str, Any], role: str) -> list[str]:
        """Add the turn of a row, and its thread; return the turn's id, none where no turn made the row."""
        if row.get("turn") is None:
            return []
        thread = row.get("thread")
        causes = [self.add("thread", thread, role, facts={"reason": row.get("thread_reason")})] if thread else []
        return [self.add("turn", row["turn"], role, causes, at=row.get("at"))]


def order_graph(session: Session, order: Order) -> OrderGraph:
    """Return the lineage of an order as nodes and edges."""
    found, graph = order_view(session, order), _Graph()
    basis = [*_hit_nodes(graph, found), *_report_nodes(graph, found)]
    verdict = found["verdict"]
    if verdict is not None and verdict["verdict"] is not None:
        facts = {name: verdict[name] for name in ("confidence", "origin", "rank")}
        basis = [graph.add("verdict", verdict["verdict"], str(verdict["rating"]), basis, facts=facts)]
    basis += _analysis_nodes(graph, found)
    basis += _forecast_nodes(graph, found)
    decision = found["decision"]
    causes = [*basis, *graph.turn(decision, "trader")]
    facts = {"author": decision["author"], "why": decision["why"]}
    decided = graph.add("decision", decision["decision"], decision["status"], causes, at=decision["at"], facts=facts)
    _outcome(graph, found, decided)
    return OrderGraph(
        order=order.id, run_id=order.run_id, symbol=order.symbol, nodes=list(graph.nodes.values()),
        edges=list(graph.edges.values()),
    )  # fmt: skip


def _hit_nodes(graph: _Graph, found: Mapping[str, Any]) -> Iterator[str]:
    for row in found["hits"]:
        facts = {name: row[name] for name in ("lens", "confidence", "thesis", "author")}
        causes = graph.turn(row, f"screener_{row['lens']}")
        key = f"{row['lens']}:{row['turn']}"
        yield graph.add("hit", row["turn"], row["lens"], causes, key=key, at=row["at"], facts=facts)


def _report_nodes(graph: _Graph, found: Mapping[str, Any]) -> Iterator[str]:
    for row in found["reports"]:
        facts = {name: row[name] for name in ("status", "verdict", "confidence", "summary", "run", "tokens", "tools")}
        causes, key = graph.turn(row, row["role"]), f"{row['run']}:{row['role']}"
        yield graph.add("report", row["turn"], row["role"], causes, key=key, at=row["at"], facts=facts)


def _analysis_nodes(graph: _Graph, found: Mapping[str, Any]) -> Iterator[str]:
    row = found["analysis"]
    if row is not None:
        facts = {name: row[name] for name in ("strategy", "contract", "author")}
        causes = graph.turn(row, "analyst")
        yield graph.add("analysis", row["analysis"], str(row["recommendation"]), causes, facts=facts)


def _forecast_nodes(graph: _Graph, found: Mapping[str, Any]) -> Iterator[str]:
    for row in found["forecasts"]:
        causes = graph.turn(row, row["voice"])
        for cited in row["citations"]:
            if cited["signal"] is not None:
                facts = {name: cited[name] for name in ("tool", "state", "source", "as_of")}
                causes.append(graph.add("signal", cited["signal"], str(cited["headline"]), facts=facts))
        facts = {name: row[name] for name in ("round", "text", "probability", "baseline", "because")}
        yield graph.add("forecast", row["forecast"], row["voice"], causes, at=row["at"], facts=facts)


def _outcome(graph: _Graph, found: Mapping[str, Any], decided: str) -> None:
    """Add the order and all that came of it."""
    row, preview, approval = found["order"], found["preview"], found["approval"]
    names = ("state", "action", "side", "quantity", "contract", "denial_code", "denial_reason")
    label = " ".join(str(row[name]) for name in ("action", "symbol"))
    order = graph.add("order", row["id"], label, [decided], at=row["created_at"], facts={n: row[n] for n in names})
    last = order
    if preview is not None:
        facts = {name: preview[name] for name in ("price", "notional", "payload_hash")}
        last = graph.add("preview", preview["id"], "preview", [order], at=preview["created_at"], facts=facts)
    if approval is not None:
        facts = {"by": approval["decided_by"], "why": approval["why"]}
        at = approval["decided_at"] or approval["asked_at"]
        last = graph.add("approval", approval["id"], approval["state"], [last], at=at, facts=facts)
    for fill in found["fills"]:
        facts = {name: fill[name] for name in ("side", "quantity", "price", "commission", "filled_at")}
        graph.add("fill", fill["id"], fill["symbol"], [last], at=fill["created_at"], facts=facts)
    for stop in found["protected_by"]:
        facts = {name: stop[name] for name in ("side", "quantity", "stop_price", "limit_price")}
        graph.add("protection", stop["id"], stop["state"], [order], at=stop["created_at"], facts=facts)
