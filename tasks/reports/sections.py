"""Sections that documents share: orders, the way from hit to fill, prices, totals, and what is missing."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence

from sqlmodel import Session

from chordesk.models.errors import DeskError
from chordesk.models.states import RUN_FINAL, STEP_FINAL, StepKind, StepState
from chordesk.models.tables.columns import utcnow
from chordesk.models.tables.orders import Order
from chordesk.tasks.engine.budgets import Cost
from chordesk.tasks.reading.chain import Chain, Node
from chordesk.tasks.reading.orders import OrderParts, order_parts
from chordesk.tasks.reading.run_details import RunDetail, TimelineStep, TimelineTurn
from chordesk.tasks.reading.run_list import RunRow
from chordesk.tasks.reading.symbols import Gap, candles
from chordesk.tasks.reports.schema import (
    ChartMark,
    LineageStep,
    MissingItem,
    OrderLine,
    PageLinks,
    PriceChart,
    RoleTotal,
    Totals,
)
from chordesk.tools.registry import ToolContext


def order_line(found: OrderParts, pages: PageLinks) -> OrderLine:
    return OrderLine(**dict(found), page=pages.order(found.order.id))


def views_of(session: Session, orders: Sequence[Order]) -> list[OrderParts]:
    return [order_parts(session, order) for order in orders]


def lineage_steps(found: Chain, pages: PageLinks) -> list[LineageStep]:
    return [LineageStep(**dict(node), page=_page(found, node, pages)) for node in found.nodes if node.kind != "signal"]


def _page(found: Chain, node: Node, pages: PageLinks) -> str | None:
    match node.kind:
        case "candidate":
            return pages.run(found.run_id)
        case "report":
            return pages.report(node.id)
        case "verdict":
            return pages.verdict(node.id)
        case "order" | "protection":
            return pages.order(node.id)
        case "preview" | "approval" | "fill":
            return pages.order(node.facts["order_id"])
        case _:
            return pages.turn(node.turn_id)


def order_marks(lines: Sequence[OrderLine]) -> Iterator[ChartMark]:
    for line in lines:
        one, preview = line.order, line.preview
        label = f"{one.action} {one.side or ''}: {one.state}".replace("  ", " ")
        # An option's premium is not a price of its underlying.
        price = preview.price if preview is not None and one.contract is None else None
        yield ChartMark(kind="order", at=one.market_at, label=label, price=price, run_id=one.run_id)
        for fill in line.fills:
            yield ChartMark(
                kind="fill", at=fill.filled_at, label=f"{fill.side} {fill.quantity:g}",
                price=fill.price if one.contract is None else None, run_id=one.run_id,
            )  # fmt: skip


SESSIONS = 245  # a year of the exchange, about


def price_chart(context: ToolContext | str, market: str, symbol: str, marks: Sequence[ChartMark]) -> PriceChart:
    if isinstance(context, str):
        return _none(symbol, market, marks, context)
    try:
        found = candles(context, symbol, SESSIONS, "day", ())
    except DeskError as error:
        return _none(symbol, market, marks, str(error.args[0]))
    return PriceChart(
        symbol=symbol,
        market=found.market,
        as_of=found.as_of,
        sessions=len(found.bars),
        first=found.bars[0].at if found.bars else None,
        last=found.bars[-1].at if found.bars else None,
        last_close=found.bars[-1].close if found.bars else None,
        adjusted=found.adjusted,
        marks=list(marks),
        missing=found.missing,
        bars=found.bars,
    )


def _none(symbol: str, market: str, marks: Sequence[ChartMark], why: str) -> PriceChart:
    return PriceChart(
        symbol=symbol, market=market, as_of=None, sessions=0, first=None, last=None, last_close=None, adjusted=None,
        marks=list(marks), missing=[Gap(what="prices", reason=why)],
    )  # fmt: skip


_SKIPPED = "skipped"


def totals(runs: Sequence[RunRow], steps: Iterable[TimelineStep]) -> Totals:
    return Totals(
        runs=len(runs),
        turns=sum(row.turns for row in runs),
        tokens=sum(row.tokens for row in runs),
        cost=_cost([row.cost for row in runs]),
        seconds=sum(((row.run.finished_at or utcnow()) - row.run.created_at).total_seconds() for row in runs),
        roles=_roles(steps),
    )


def _cost(costs: Sequence[Cost]) -> Cost:
    known = [one.usd for one in costs if one.usd is not None]
    return Cost(
        usd=round(sum(known), 6) if known else None,
        unpriced=sorted({name for one in costs for name in one.unpriced}),
        uncounted=sum(one.uncounted for one in costs),
        rules=any(one.rules for one in costs),
        local=any(one.local for one in costs),
    )


def _roles(steps: Iterable[TimelineStep]) -> list[RoleTotal]:
    turns: dict[str, list[TimelineTurn]] = defaultdict(list)
    for row in steps:
        for attempt in row.attempts:
            turns[row.step.role or row.step.kind] += [turn for turn in attempt.turns if turn.outcome != _SKIPPED]
    return [_role(role, found) for role, found in sorted(turns.items()) if found]


def _role(role: str, turns: Sequence[TimelineTurn]) -> RoleTotal:
    counted = [turn.tokens for turn in turns if turn.tokens is not None]
    outcomes: dict[str, int] = {}
    for turn in turns:
        outcomes[turn.outcome] = outcomes.get(turn.outcome, 0) + 1
    return RoleTotal(
        role=role,
        turns=len(turns),
        outcomes=outcomes,
        tokens=sum(counted) if counted else None,
        seconds=round(sum((turn.finished_at - turn.started_at).total_seconds() for turn in turns), 3),
    )


_FINE = frozenset({"completed", "skipped"})
_DETAILED = frozenset({StepKind.REPORT, StepKind.GRAPH})  # a symbol's own list has them


def missing_of_run(detail: RunDetail) -> Iterator[MissingItem]:
    steps = detail.steps
    if detail.state not in RUN_FINAL:
        left = sum(row.step.state not in STEP_FINAL for row in steps)
        yield MissingItem(what="end", reason=f"the run goes on: {left} steps have not ended")
    yield from (MissingItem(what="run", reason=note) for note in detail.notes)
    for step in (row.step for row in steps):
        if step.state in (StepState.FAILED, StepState.STOPPED) and step.kind not in _DETAILED:
            name = " ".join(part for part in (step.kind, step.role) if part)
            reason = f"{step.state}: {step.error or 'no reason was kept'}"
            yield MissingItem(what=f"step {name}", reason=reason, symbol=step.subject or None, role=step.role or None)
    yield from _turns(steps)
    yield from missing_money(detail.cost)
    yield from _of_kind(detail)


def missing_money(cost: Cost) -> Iterator[MissingItem]:
    """Yield why the estimate of money leaves something out."""
    if cost.unpriced:
        yield MissingItem(what="money", reason=f"no price is known for {', '.join(cost.unpriced)}")
    if cost.uncounted:
        yield MissingItem(what="money", reason=f"{cost.uncounted} turns came without a count of tokens")


def _turns(steps: Sequence[TimelineStep]) -> Iterator[MissingItem]:
    counts = Counter(
        (row.step.role, turn.outcome)
        for row in steps
        for attempt in row.attempts
        for turn in attempt.turns
        if turn.outcome not in _FINE
    )
    for (role, outcome), count in sorted(counts.items()):
        yield MissingItem(what="turns", reason=f"{count} {outcome}", role=role or None)


def _of_kind(detail: RunDetail) -> Iterator[MissingItem]:
    if detail.backtest is not None:
        for row in detail.backtest.rows:
            if row.reason:
                yield MissingItem(what="session", reason=f"{row.day}: {row.reason}")
            if row.unpriced:
                yield MissingItem(what="prices", reason=f"{row.day}: none for {', '.join(row.unpriced)}")
            if row.stale:
                yield MissingItem(what="prices", reason=f"{row.day}: old ones for {', '.join(row.stale)}")
        if detail.backtest.result is None:
            yield MissingItem(what="result", reason="the backtest has not come to its end")
    for graph in detail.graphs:
        if graph.reason:
            yield MissingItem(what="graph", reason=f"{graph.graph}: {graph.reason}")
    for voice in detail.voices:
        if voice.reason:
            yield MissingItem(what="voice", reason=f"round {voice.round}: {voice.reason}", role=voice.voice)
        for line in voice.left_out:
            yield MissingItem(what="forecast", reason=f"left out: {line}", role=voice.voice)
    for analysis in detail.analyses:
        for check in analysis.analysis.checks:
            if check["state"] == "unknown":
                yield MissingItem(what=f"check {check['id']}", reason=check["text"], symbol=analysis.analysis.symbol)
