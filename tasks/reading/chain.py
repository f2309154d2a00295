"""The chain of a symbol in a run: what led from its screen hits, reports and forecasts to orders and fills.

It is read once, as nodes and edges; documents, commands, the HTTP API and the page render the same nodes.
"""

from __future__ import annotations

import datetime as dt
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

from pydantic import Field
from sqlmodel import Session, col, select

from chordesk.models import features
from chordesk.models.answers import Frozen, ReportStatus
from chordesk.models.database.blobs import path_in_home
from chordesk.models.errors import NotFound
from chordesk.models.groups import by_key
from chordesk.models.money import coded
from chordesk.models.states import REUSED, StepKind
from chordesk.models.tables.columns import Row
from chordesk.models.tables.orders import Approval, Fill, Order, Preview
from chordesk.models.tables.runs import (
    Analysis,
    Artifact,
    Candidate,
    CandidateHit,
    Decision,
    Report,
    Run,
    ScreenHit,
    Step,
    ToolCall,
    Turn,
    Verdict,
    VerdictReport,
    lens_title,
    research_run,
)
from chordesk.tasks.reading.run_parts import call
from chordesk.tools import rogue_calls
from chordesk.tools.ledger import currency_of_account
from chordesk.tools.rogue_calls import RogueRow
from chordesk.tools.scoring.verdict_calibration import lenses_of


class ReportCell(Frozen):
    """What a role made of a candidate. state: of its step; the others are null before it has reported. counts: whether
    the verdict rests on it; earlier: it is an earlier run's; reused: how that was found to count again (DESK_REUSE).
    confidence: what counts; figures, supported: those of its texts, and of them those with a source."""

    role: str
    state: str
    report_id: str | None = None
    run_id: str | None = None
    status: str | None = None
    verdict: str | None = None
    confidence: str | None = None
    reason: str | None = None
    turn_id: str | None = None
    thread_id: str | None = None
    tokens: int | None = None
    figures: int | None = None
    supported: int | None = None
    counts: bool = False
    earlier: bool = False
    reused: str | None = None


class TableRow(Frozen):
    """A candidate. lenses: of its hits; cells: by role; rule: which gave the verdict its rating."""

    candidate: Row[Candidate]
    lenses: list[str]
    cells: dict[str, ReportCell]
    verdict: Row[Verdict] | None
    rule: str | None
    orders: list[Row[Order]]


class CandidateTable(Frozen):
    """The candidates by rank. run_id: the run that was researched, for a trade run its source; roles: columns."""

    run_id: str
    roles: list[str]
    rows: list[TableRow]


def candidate_table(session: Session, run: Run) -> CandidateTable:
    source = research_run(run)
    candidates = session.exec(select(Candidate).where(Candidate.run_id == source).order_by(col(Candidate.rank))).all()
    cells = _cells(session, source)
    lenses, verdicts, orders = lenses_of(session, {source}), _verdicts(session, source, cells), _orders(session, run.id)
    rows = [
        TableRow(
            candidate=row,
            lenses=sorted(lenses.get((source, row.symbol), ())),
            cells=cells[row.symbol],
            verdict=verdicts[row.symbol][0] if row.symbol in verdicts else None,
            rule=verdicts[row.symbol][1] if row.symbol in verdicts else None,
            orders=orders[row.symbol],
        )
        for row in candidates
    ]
    return CandidateTable(run_id=source, roles=_columns(cells.values()), rows=rows)


def _columns(cells: Iterable[Mapping[str, ReportCell]]) -> list[str]:
    from chordesk.agents.roles import validators  # they load every tool

    found = {role for row in cells for role in row}
    known = [role for role in validators() if role in found]
    return known + sorted(found - set(known))


def _cells(session: Session, run_id: str) -> dict[str, dict[str, ReportCell]]:
    found: dict[str, dict[str, ReportCell]] = defaultdict(dict)
    again = {}
    steps = select(Step.subject, Step.role, Step.state, Step.result)
    for symbol, role, state, result in session.exec(
        steps.where(Step.run_id == run_id, Step.kind == StepKind.REPORT)
    ).all():
        found[symbol][role] = ReportCell(role=role, state=state)
        if result.get("status") == REUSED:
            again[result["report_id"]] = result["reason"]
    chapters = select(Step).where(Step.run_id == run_id, Step.kind == StepKind.GRAPH, Step.role != "")
    for step in session.exec(chapters.order_by(col(Step.created_at), col(Step.id))).all():
        found[str(step.payload["graph"])][step.role] = ReportCell(role=step.role, state=step.state)  # its last one's
    own = session.exec(select(Report, Turn).join(Turn).where(Report.run_id == run_id)).all()
    counted = session.exec(
        select(Report, Turn)
        .join(Turn, col(Turn.id) == col(Report.turn_id))
        .join(VerdictReport, col(VerdictReport.report_id) == col(Report.id))
        .join(Verdict, col(Verdict.id) == col(VerdictReport.verdict_id))
        .where(Verdict.run_id == run_id)
    ).all()
    lent = session.exec(select(Report, Turn).join(Turn).where(col(Report.id).in_(again))).all() if again else ()
    for counts, rows in ((False, own), (False, lent), (True, counted)):
        for report, turn in rows:
            state = cell.state if (cell := found[report.symbol].get(report.role)) is not None else "done"
            grounding = report.grounding or {}
            found[report.symbol][report.role] = ReportCell.of(
                report,
                report_id=report.id,
                state=state,
                turn_id=turn.id,
                thread_id=turn.thread_id,
                tokens=turn.total_tokens,
                figures=grounding.get("figures"),
                supported=grounding.get("supported"),
                counts=counts,
                earlier=report.run_id != run_id,
                reused=again.get(report.id),
            )
    return found


def _verdicts(
    session: Session, run_id: str, cells: Mapping[str, Mapping[str, ReportCell]]
) -> dict[str, tuple[Verdict, str]]:
    rows = session.exec(select(Verdict).where(Verdict.run_id == run_id)).all()
    return {row.symbol: (row, rule_of(row, _stances(cells.get(row.symbol, {})))) for row in rows}


def judged(session: Session, run_id: str) -> dict[str, tuple[Verdict, str]]:
    """Return by symbol its verdict, and the rule that gave it the rating."""
    return _verdicts(session, run_id, _cells(session, run_id))


def rule_of(verdict: Verdict, stances: Mapping[str, str]) -> str:
    """Return the rule that gave a verdict its rating. stances: of its completed reports."""
    from chordesk.agents.verdicts.research_verdict import deciding_rule  # it loads the roles

    return deciding_rule(verdict.rating, stances, verdict.summary)


def _stances(cells: Mapping[str, ReportCell]) -> dict[str, str]:
    counted = (one for one in cells.values() if one.counts and one.status == ReportStatus.COMPLETED)
    return {one.role: one.verdict for one in counted if one.verdict is not None}


def _orders(session: Session, run_id: str) -> dict[str, list[Order]]:
    rows = session.exec(select(Order).where(Order.run_id == run_id).order_by(col(Order.ordinal))).all()
    return by_key((row.symbol, row) for row in rows)


StageName = Literal["universe", "hits", "candidates", "verdicts", "orders", "fills"]


class FunnelItem(Frozen):
    """One thing behind a count. id: of its row, null for a symbol of the universe; label: lens of a hit, origin of a
    candidate, rating of a verdict, state of an order, side of a fill."""

    id: str | None
    symbol: str
    label: str | None = None


class FunnelStage(Frozen):
    """A stage. run_id: the run that has its rows; count: of rows; symbols: of different symbols among them; labels:
    rows by label."""

    stage: StageName
    run_id: str
    count: int
    symbols: int
    labels: dict[str, int]
    items: list[FunnelItem]


class Funnel(Frozen):
    """The stages in their order. For a trade run the first four are its source run's."""

    run_id: str
    stages: list[FunnelStage]


def funnel(session: Session, run: Run) -> Funnel:
    source_id = research_run(run)
    source = run if source_id == run.id else session.get_one(Run, source_id)
    universe = [FunnelItem(id=None, symbol=symbol) for symbol in source.params.get("symbols") or ()]
    fills = session.exec(
        select(Fill.id, Fill.symbol, Fill.side)
        .join(Order, col(Order.id) == col(Fill.order_id))
        .where(Order.run_id == run.id)
        .order_by(col(Fill.filled_at), col(Fill.id))
    ).all()
    return Funnel(
        run_id=run.id,
        stages=[
            _stage("universe", source_id, universe),
            _stage("hits", source_id, _rows(session, ScreenHit, lens_title(), source_id, ScreenHit.id)),
            _stage("candidates", source_id, _rows(session, Candidate, Candidate.origin, source_id, Candidate.rank)),
            _stage("verdicts", source_id, _rows(session, Verdict, Verdict.rating, source_id, Verdict.symbol)),
            _stage("orders", run.id, _rows(session, Order, Order.state, run.id, Order.ordinal)),
            _stage("fills", run.id, [FunnelItem(id=id_, symbol=symbol, label=side) for id_, symbol, side in fills]),
        ],
    )


def _rows(session: Session, table: Any, label: Any, run_id: str, order: Any) -> list[FunnelItem]:
    rows = session.exec(
        select(table.id, table.symbol, label).where(table.run_id == run_id).order_by(col(order), table.id)
    ).all()
    return [FunnelItem(id=id_, symbol=symbol, label=value) for id_, symbol, value in rows]


def _stage(stage: StageName, run_id: str, items: list[FunnelItem]) -> FunnelStage:
    return FunnelStage(
        stage=stage,
        run_id=run_id,
        count=len(items),
        symbols=len({one.symbol for one in items}),
        labels=dict(sorted(Counter(one.label for one in items if one.label is not None).items())),
        items=items,
    )


NodeKind = Literal[
    "hit", "candidate", "report", "signal", "forecast", "verdict", "analysis", "decision", "order", "preview",
    "approval", "fill", "protection",
]  # fmt: skip


class Node(Frozen):
    """One thing on the way from a hit to a fill."""

    id: str = Field(description="of its row")
    kind: NodeKind
    label: str = Field(description="text of whatever origin, for people")
    at: dt.datetime | None = Field(default=None, description="real time at which it came about, where that is kept")
    turn_id: str | None = Field(default=None, description="the desk's record of the turn that made it")
    codex_turn_id: str | None = Field(default=None, description="the runtime's own id of that turn")
    thread_id: str | None = None
    thread_reason: str | None = None
    facts: dict[str, Any] = {}


class Edge(Frozen):
    """source led to target; both are ids of nodes."""

    source: str
    target: str


class Chain(Frozen):
    """The nodes in the order in which they rest on each other. source_run: of a trade, the run that was researched."""

    run_id: str
    source_run: str | None
    symbol: str
    nodes: list[Node]
    edges: list[Edge]

    def nodes_of(self, *kinds: NodeKind) -> list[Node]:
        return [node for node in self.nodes if node.kind in kinds]

    def first(self, kind: NodeKind) -> Node | None:
        return next(iter(self.nodes_of(kind)), None)


def by_code(author: str | None) -> bool:
    """Return whether a decision's author is code, and neither a model nor a person."""
    return author is not None and author.startswith("code:")


def chain(session: Session, run: Run, symbol: str, order_id: str | None = None) -> Chain:
    """Return the chain of a symbol in a run; for a trade the research is its source run's. order_id: of that order
    alone. Raises NotFound when the run has no such symbol."""
    symbol, made = symbol.strip().upper(), Builder(session)
    candidate, verdict = made.research(research_run(run), symbol)
    basis = made.hits(candidate) if candidate is not None else []
    reports = made.reports(research_run(run), symbol, verdict, basis)
    basis = reports or basis
    if verdict is not None:
        facts = verdict.model_dump(include={"rating", "confidence", "summary", "key_risks", "missing", "pooled"})
        label = f"{verdict.rating} ({verdict.confidence})"
        basis = [made.add("verdict", verdict.id, label, basis, verdict.created_at, facts)]
    basis = [*basis, *made.analyses(research_run(run), symbol, basis), *of_features(made, research_run(run), symbol)]
    made.orders(run.id, symbol, order_id, basis)
    if candidate is None and not any(node.kind == "order" for node in made.nodes.values()):
        raise NotFound(f"run {run.id} has no candidate {symbol}", remedy=f"`desk runs show {run.id}` lists them")
    edges = [Edge(source=source, target=target) for source, target in made.edges]
    source = run.params.get("source_run")
    return Chain(run_id=run.id, source_run=source, symbol=symbol, nodes=list(made.nodes.values()), edges=edges)


def of_features(made: Builder, run_id: str, symbol: str) -> list[str]:
    """Return the ids of nodes that features add, on which a decision rests."""
    found: list[str] = []
    for feature, functions in features.parts("lineage"):
        for function in functions:
            found += call(feature, "lineage", function, made, run_id, symbol) or ()
    return found


class Builder:
    """The nodes by id, each added once."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self._rogue: dict[str, list[RogueRow]] = {}
        self.nodes: dict[str, Node] = {}
        self.edges: dict[tuple[str, str], None] = {}

    def add(
        self, kind: NodeKind, id_: str, label: str, causes: Iterable[str], at: dt.datetime | None,
        facts: dict[str, Any], turn: Turn | None = None,
    ) -> str:  # fmt: skip
        if turn is not None:
            if found := self._rogue_of(turn):
                facts = {**facts, "rogue": [one.model_dump(include={"tool", "kind", "acts"}) for one in found]}
            made_by = {"turn_id": turn.id, **turn.model_dump(include={"codex_turn_id", "thread_id", "thread_reason"})}
            node = Node(id=id_, kind=kind, label=label, at=turn.finished_at, facts=facts, **made_by)
        else:
            node = Node(id=id_, kind=kind, label=label, at=at, facts=facts)
        self.nodes.setdefault(id_, node)
        self.edges.update(dict.fromkeys((cause, id_) for cause in causes))
        return id_

    def _rogue_of(self, turn: Turn) -> list[RogueRow]:
        if turn.run_id not in self._rogue:
            self._rogue[turn.run_id] = rogue_calls.of_run(self.session, turn.run_id)
        return [one for one in self._rogue[turn.run_id] if one.step_id == turn.step_id]

    def research(self, run_id: str, symbol: str) -> tuple[Candidate | None, Verdict | None]:
        wanted = select(Candidate).where(Candidate.run_id == run_id, Candidate.symbol == symbol)
        candidate = self.session.exec(wanted).one_or_none()
        if candidate is None:
            return None, None
        return candidate, self.session.exec(select(Verdict).where(Verdict.candidate_id == candidate.id)).one_or_none()

    def hits(self, candidate: Candidate) -> list[str]:
        rows = self.session.exec(
            select(ScreenHit, Turn)
            .join(CandidateHit, col(CandidateHit.hit_id) == col(ScreenHit.id))
            .join(Turn, col(Turn.id) == col(ScreenHit.turn_id))
            .where(CandidateHit.candidate_id == candidate.id)
            .order_by(col(ScreenHit.lens), col(ScreenHit.id))
        ).all()
        causes = []
        for hit, turn in rows:
            facts = {**hit.model_dump(include={"confidence", "thesis"}), "lens": hit.title, "author": turn.model}
            label = f"{hit.title} ({hit.confidence}): {hit.thesis}"
            causes.append(self.add("hit", hit.id, label, (), None, facts, turn))
        facts = candidate.model_dump(include={"origin", "rank", "instrument"})
        return [self.add("candidate", candidate.id, f"{candidate.origin}, rank {candidate.rank}", causes, None, facts)]

    def reports(self, run_id: str, symbol: str, verdict: Verdict | None, causes: Sequence[str]) -> list[str]:
        wanted = select(Report, Turn, Step).join(Turn, col(Turn.id) == col(Report.turn_id))
        wanted = wanted.join(Step, col(Step.id) == col(Report.step_id))
        if verdict is not None:
            wanted = wanted.join(VerdictReport, col(VerdictReport.report_id) == col(Report.id)).where(
                VerdictReport.verdict_id == verdict.id
            )
        else:
            wanted = wanted.where(Report.run_id == run_id, Report.symbol == symbol, Step.kind == StepKind.GRAPH)
        steps = select(Step.result).where(Step.run_id == run_id, Step.subject == symbol, Step.kind == StepKind.REPORT)
        again = {
            row["report_id"]: row["reason"] for row in self.session.exec(steps).all() if row.get("status") == REUSED
        }
        return [
            self._report(report, turn, step, causes, again.get(report.id))
            for report, turn, step in self.session.exec(wanted.order_by(col(Turn.started_at), col(Report.role))).all()
        ]

    def _report(self, report: Report, turn: Turn, step: Step, causes: Sequence[str], reused: str | None = None) -> str:
        """reused: how it came to count again, where it is of an earlier run."""
        turns: Sequence[Turn] = [turn]
        if step.kind == StepKind.GRAPH:  # all turns of the graph made it
            of_graph = select(Turn).join(Step).where(Turn.run_id == report.run_id, Turn.subject == report.symbol)
            turns = self.session.exec(of_graph.where(Step.kind == StepKind.GRAPH)).all()
        calls = self.session.exec(
            select(ToolCall.id, ToolCall.tool, ToolCall.success)
            .join(Turn)
            .where(col(ToolCall.turn_id).in_([one.id for one in turns]))
            .order_by(col(Turn.started_at), col(ToolCall.ordinal), col(ToolCall.id))
        ).all()
        pictures = self.session.exec(
            select(Artifact.digest, Artifact.kind)
            .join(Turn, col(Turn.id) == col(Artifact.turn_id))
            .where(Turn.step_id == report.step_id)
            .order_by(col(Artifact.created_at), col(Artifact.id))
        ).all()
        tokens = [one.total_tokens for one in turns if one.total_tokens is not None]
        facts = {
            **report.model_dump(exclude={"id", "step_id", "candidate_id", "turn_id", "symbol", "key_risks"}),
            "tokens": sum(tokens) if tokens else None,
            "calls": [{"id": id_, "tool": tool, "success": success} for id_, tool, success in calls],
            "pictures": list(dict.fromkeys(path_in_home(digest, kind) for digest, kind in pictures)),
            **({"reused": reused} if reused is not None else {}),
        }
        return self.add("report", report.id, f"{report.role}: {stance_of(report)}", causes, None, facts, turn)

    def analyses(self, run_id: str, symbol: str, causes: Sequence[str]) -> list[str]:
        row = self.session.exec(
            select(Analysis).where(Analysis.run_id == run_id, Analysis.symbol == symbol)
        ).one_or_none()
        if row is None:
            return []
        quotes = (row.figures.get("contract") or {}).get("source")
        names = {"strategy", "recommendation", "contract", "headline", "author", "reasons"}
        label = f"{row.strategy}: {row.recommendation} {row.contract or ''}".rstrip()
        turn = self.session.get(Turn, row.turn_id) if row.turn_id is not None else None  # without a text there is none
        facts = {**row.model_dump(include=names), "quotes": quotes}
        return [self.add("analysis", row.id, label, causes, row.created_at, facts, turn)]

    def orders(self, run_id: str, symbol: str, order_id: str | None, basis: Sequence[str]) -> None:
        wanted = (
            select(Order, Decision, Preview, Approval)
            .join(Decision, col(Decision.id) == col(Order.decision_id))
            .join(Preview, col(Preview.order_id) == col(Order.id), isouter=True)
            .join(Approval, col(Approval.order_id) == col(Order.id), isouter=True)
            .where(Decision.run_id == run_id, Order.symbol == symbol)
            .order_by(col(Order.ordinal))
        )
        if order_id is not None:
            wanted = wanted.where(Order.id == order_id)
        rows = self.session.exec(wanted).all()
        made = [(row[0], self._order(row[0], row[1], row[2], row[3], basis)) for row in rows]
        for order, last in made:  # after all orders: one that protects may be among them
            self._fills(order, last)

    def _order(
        self, order: Order, decision: Decision, preview: Preview | None, approval: Approval | None, basis: Sequence[str]
    ) -> str:
        why = decision.reason_of(order.ordinal)
        turn = self.session.get(Turn, decision.turn_id) if decision.turn_id is not None else None  # a person decided
        facts = decision.model_dump(include={"status", "author", "reasoning"})
        label = f"{decision.status} by {decision.author}{f': {why}' if why else ''}"
        decided = self.add("decision", decision.id, label, basis, decision.created_at, facts, turn)
        names = {
            "verdict_id",
            "state",
            "action",
            "side",
            "quantity",
            "contract",
            "legs",
            "denial_code",
            "denial_reason",
        }
        facts = {**order.model_dump(include=names), "why": why}
        last = self.add("order", order.id, order_label(order), [decided], order.created_at, facts)
        if preview is not None:
            facts = preview.model_dump(include={"order_id", "price", "notional", "payload_hash"})
            own = currency_of_account(self.session, order.account)
            notional, price = coded(f"{preview.notional:,.2f}", own), f"{preview.price:,.2f}"
            label = f"{notional} at {coded(price, preview.currency or own)}, sha256 {preview.payload_hash}"
            last = self.add("preview", preview.id, label, [last], preview.created_at, facts)
        if approval is not None:
            facts = approval.model_dump(include={"order_id", "state", "decided_by", "why", "asked_at", "expires_at"})
            at = approval.decided_at or approval.asked_at
            last = self.add("approval", approval.id, approval_label(approval), [last], at, facts)
        return last

    def _fills(self, order: Order, last: str) -> None:
        for fill in self.session.exec(
            select(Fill).where(Fill.order_id == order.id).order_by(col(Fill.filled_at), col(Fill.id))
        ).all():
            facts = fill.model_dump(
                include={"order_id", "symbol", "side", "quantity", "price", "commission", "filled_at"}
            )
            if fill.currency is not None:
                facts |= fill.model_dump(include={"currency", "rate", "rate_at", "rate_source"})
            if fill.duties:
                facts["duties"] = fill.duties
            label = f"{fill.side} {fill.quantity:g} at {fill.price:g}"
            self.add("fill", fill.id, label, [last], fill.created_at, facts)
        names = {"state", "side", "quantity", "order_type", "stop_price", "limit_price"}
        for stop in protecting(self.session, order):
            label = f"{stop.side} {stop.order_type} of {stop.quantity or 0:g}: {stop.state}"
            facts = {"order_id": order.id, **stop.model_dump(include=names)}
            self.add("protection", stop.id, label, [order.id], stop.created_at, facts)


def stance_of(report: Report) -> str:
    if report.verdict:
        return f"{report.verdict} ({report.confidence})"
    status, reason = report.status.replace("_", " "), report.reason or ""
    return reason if reason.startswith(status) else f"{status}: {reason}" if reason else status


def protecting(session: Session, order: Order) -> Sequence[Order]:
    rows = select(Order).where(col(Order.protects) == order.id, col(Order.id) != order.id)
    return session.exec(rows.order_by(col(Order.created_at), col(Order.id))).all()


def denial(order: Order) -> str | None:
    return f"{order.denial_code}: {order.denial_reason}" if order.denial_code else None


def order_label(order: Order) -> str:
    size = f" {order.quantity:g}" if order.quantity is not None else ""
    why = f", denied: {text}" if (text := denial(order)) else ""
    return f"{order.action} {order.side or ''}{size} {order.contract or order.symbol}: {order.state}{why}"


def approval_label(row: Approval) -> str:
    by = f" by {row.decided_by}" if row.decided_by else ""
    return f"{row.state}{by}{f': {row.why}' if row.why else ''}"
