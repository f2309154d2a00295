"""The lineage of an order as a graph: from threads, turns, hits and reports to the order, and on to its fills."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from sqlmodel import Session

from chordesk.models.answers import Frozen
from chordesk.models.tables.orders import Order
from chordesk.tasks.views.order_view import order_view

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
    basis = [*_hits(graph, found), *_reports(graph, found)]
    verdict = found["verdict"]
    if verdict is not None and verdict["verdict"] is not None:
        facts = {name: verdict[name] for name in ("confidence", "origin", "rank")}
        basis = [graph.add("verdict", verdict["verdict"], str(verdict["rating"]), basis, facts=facts)]
    basis += _analysis(graph, found)
    basis += _forecasts(graph, found)
    decision = found["decision"]
    causes = [*basis, *graph.turn(decision, "trader")]
    facts = {"author": decision["author"], "why": decision["why"]}
    decided = graph.add("decision", decision["decision"], decision["status"], causes, at=decision["at"], facts=facts)
    _outcome(graph, found, decided)
    return OrderGraph(
        order=order.id, run_id=order.run_id, symbol=order.symbol, nodes=list(graph.nodes.values()),
        edges=list(graph.edges.values()),
    )  # fmt: skip


def _hits(graph: _Graph, found: Mapping[str, Any]) -> Iterator[str]:
    for row in found["hits"]:
        facts = {name: row[name] for name in ("lens", "confidence", "thesis", "author")}
        causes = graph.turn(row, f"screener_{row['lens']}")
        key = f"{row['lens']}:{row['turn']}"
        yield graph.add("hit", row["turn"], row["lens"], causes, key=key, at=row["at"], facts=facts)


def _reports(graph: _Graph, found: Mapping[str, Any]) -> Iterator[str]:
    for row in found["reports"]:
        facts = {name: row[name] for name in ("status", "verdict", "confidence", "summary", "run", "tokens", "tools")}
        causes, key = graph.turn(row, row["role"]), f"{row['run']}:{row['role']}"
        yield graph.add("report", row["turn"], row["role"], causes, key=key, at=row["at"], facts=facts)


def _analysis(graph: _Graph, found: Mapping[str, Any]) -> Iterator[str]:
    row = found["analysis"]
    if row is not None:
        facts = {name: row[name] for name in ("strategy", "contract", "author")}
        causes = graph.turn(row, "analyst")
        yield graph.add("analysis", row["analysis"], str(row["recommendation"]), causes, facts=facts)


def _forecasts(graph: _Graph, found: Mapping[str, Any]) -> Iterator[str]:
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
