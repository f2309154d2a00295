"""Sections that documents share: orders, the way from hit to fill, prices, totals, and what is missing."""

from __future__ import annotations

import datetime as dt
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from sqlmodel import Session, col, select

from chordesk.models.errors import DeskError
from chordesk.models.states import RUN_FINAL, STEP_FINAL, StepKind, StepState
from chordesk.models.tables.columns import utcnow
from chordesk.models.tables.orders import Order
from chordesk.models.tables.runs import Turn
from chordesk.tasks.engine.budgets import Cost
from chordesk.tasks.reading.orders import order_view
from chordesk.tasks.reading.run_details import RunDetail, Timeline, TimelineTurn
from chordesk.tasks.reading.run_list import RunRow
from chordesk.tasks.reading.symbols import Gap, candles
from chordesk.tasks.reports.schema import (
    ChartMark,
    FillLine,
    LineageStep,
    LinkKind,
    MissingItem,
    OrderLine,
    PageLinks,
    PriceChart,
    RoleTotal,
    Totals,
)
from chordesk.tools.registry import ToolContext


def order_line(found: Mapping[str, Any], pages: PageLinks) -> OrderLine:
    """Return an order, as `order_view` has it, in one line."""
    row, preview = found["order"], found["preview"] or {}
    return OrderLine(
        **{name: row[name] for name in (
            "id", "run_id", "symbol", "action", "side", "quantity", "contract", "order_type", "limit_price",
            "stop_price", "state", "market_at",
        )},
        denied=_denied(row),
        price=preview.get("price"),
        notional=preview.get("notional"),
        payload_hash=preview.get("payload_hash"),
        approval=_approval(found["approval"]),
        fills=[
            FillLine(**{name: one[name] for name in ("id", "side", "quantity", "price", "commission")},
                     at=one["filled_at"])
            for one in found["fills"]
        ],
        page=pages.order(row["id"]),
    )  # fmt: skip


def views_of(session: Session, orders: Sequence[Order]) -> list[dict[str, Any]]:
    """Return the view of each order."""
    return [order_view(session, order) for order in orders]


def order_steps(found: Mapping[str, Any], pages: PageLinks) -> Iterator[LineageStep]:
    """Yield the steps from the decision to the fills of an order, as `order_view` has it."""
    decision, row, preview, approval = (found[name] for name in ("decision", "order", "preview", "approval"))
    why = f": {decision['why']}" if decision["why"] else ""
    yield LineageStep(
        kind="decision", id=decision["decision"], label=f"{decision['status']} by {decision['author']}{why}",
        at=decision["at"], turn_id=decision["turn"], codex_turn_id=decision["codex_turn"],
        thread_id=decision["thread"], page=pages.turn(decision["turn"]),
    )  # fmt: skip
    denied = f", denied: {text}" if (text := _denied(row)) else ""
    size = f" {row['quantity']:g}" if row["quantity"] is not None else ""
    label = f"{row['action']} {row['side'] or ''}{size} {row['contract'] or row['symbol']}: {row['state']}{denied}"
    if preview is not None:
        yield LineageStep(
            kind="preview", id=preview["id"], at=preview["created_at"], page=pages.order(row["id"]),
            label=f"at {preview['price']:g}, notional {preview['notional']:,.2f}, hash {preview['payload_hash'][:16]}",
        )  # fmt: skip
    yield LineageStep(
        kind="order", id=row["id"], label=label, at=row["created_at"], page=pages.order(row["id"])
    )  # fmt: skip
    if approval is not None:
        yield LineageStep(
            kind="approval", id=approval["id"], label=_approval(approval) or "", at=approval["decided_at"],
            page=pages.order(row["id"]),
        )  # fmt: skip
    for fill in found["fills"]:
        yield LineageStep(
            kind="fill", id=fill["id"], label=f"{fill['side']} {fill['quantity']:g} at {fill['price']:g}",
            at=fill["created_at"], page=pages.order(row["id"]),
        )  # fmt: skip
    for stop in found["protected_by"]:
        label = f"{stop['side']} {stop['order_type']} of {stop['quantity'] or 0:g}: {stop['state']}"
        yield LineageStep(
            kind="protection", id=stop["id"], label=label, at=stop["created_at"], page=pages.order(stop["id"])
        )


def order_marks(lines: Sequence[OrderLine]) -> Iterator[ChartMark]:
    """Yield the marks of orders and their fills on a chart."""
    for one in lines:
        label = f"{one.action} {one.side or ''}: {one.state}".replace("  ", " ")
        # An option's premium is no price of its underlying.
        price = one.price if one.contract is None else None
        yield ChartMark(kind="order", at=one.market_at, label=label, price=price, run_id=one.run_id)
        for fill in one.fills:
            yield ChartMark(
                kind="fill", at=fill.at, label=f"{fill.side} {fill.quantity:g}",
                price=fill.price if one.contract is None else None, run_id=one.run_id,
            )  # fmt: skip


def _denied(row: Mapping[str, Any]) -> str | None:
    return f"{row['denial_code']}: {row['denial_reason']}" if row["denial_code"] else None


def _approval(row: Mapping[str, Any] | None) -> str | None:
    if row is None:
        return None
    by = f" by {row['decided_by']}" if row["decided_by"] else ""
    why = f": {row['why']}" if row["why"] else ""
    return f"{row['state']}{by}{why}"


def lineage_steps(
    session: Session, pages: PageLinks, found: Mapping[str, Any], orders: Sequence[Mapping[str, Any]]
) -> Iterator[LineageStep]:
    """Yield the steps in the order in which they rest on each other. found: as `lineage` has it; orders: as
    `order_view` has them."""
    rows = [*found["hits"], *found["reports"], *found["forecasts"], *([found["analysis"]] if found["analysis"] else [])]
    ended = _ended(session, {row["turn"] for row in rows if row["turn"] is not None})
    for row in found["hits"]:
        yield _of_turn("hit", None, f"{row['lens']} ({row['confidence']}): {row['thesis']}", row, ended, pages)
    verdict = found["verdict"]
    if verdict is not None:
        label = f"{verdict['origin']}, rank {verdict['rank']}"
        yield LineageStep(kind="candidate", id=verdict["candidate"], label=label, at=None, page=pages.run(found["run"]))
    for row in found["reports"]:
        label = f"{row['role']}: {row['verdict'] or row['status']} ({row['confidence'] or 'no confidence'})"
        yield _of_turn("report", row["report"], label, row, ended, pages, pages.report(row["report"]))
    if verdict is not None and verdict["verdict"] is not None:
        yield LineageStep(
            kind="verdict", id=verdict["verdict"], label=f"{verdict['rating']} ({verdict['confidence']})", at=None,
            page=pages.verdict(verdict["verdict"]),
        )  # fmt: skip
    if (row := found["analysis"]) is not None:
        label = f"{row['strategy']}: {row['recommendation']} {row['contract'] or ''}".rstrip()
        yield _of_turn("analysis", row["analysis"], label, row, ended, pages)
    for row in found["forecasts"]:
        label = f"{row['voice']}, round {row['round']}: {row['probability']:.0%} on {row['text']}"
        yield _of_turn("forecast", row["forecast"], label, row, ended, pages)
    for order in orders:
        yield from order_steps(order, pages)


def _ended(session: Session, ids: set[str]) -> dict[str, dt.datetime]:
    rows = session.exec(select(Turn.id, Turn.finished_at).where(col(Turn.id).in_(ids))).all()
    return dict(list(rows))


def _of_turn(
    kind: LinkKind,
    id_: str | None,
    label: str,
    row: Mapping[str, Any],
    ended: Mapping[str, dt.datetime],
    pages: PageLinks,
    page: str | None = None,
) -> LineageStep:
    return LineageStep(
        kind=kind,
        id=id_,
        label=label,
        at=ended.get(row["turn"]),
        turn_id=row["turn"],
        codex_turn_id=row["codex_turn"],
        thread_id=row["thread"],
        thread_reason=row.get("thread_reason"),
        page=page or pages.turn(row["turn"]),
    )


SESSIONS = 245  # a year of the exchange, about


def price_chart(context: ToolContext | str, market: str, symbol: str, marks: Sequence[ChartMark]) -> PriceChart:
    """Return the last year's sessions of a symbol. context: or the reason why the market cannot be had; market: its
    name. Without bars, `missing` has the reason."""
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


def totals(runs: Sequence[RunRow], timelines: Iterable[Timeline]) -> Totals:
    """Return the sums over runs. timelines: theirs, for the roles; of a backtest's days there is none here."""
    return Totals(
        runs=len(runs),
        turns=sum(row.turns for row in runs),
        tokens=sum(row.tokens for row in runs),
        cost=_cost([row.cost for row in runs]),
        seconds=sum(((row.finished_at or utcnow()) - row.created_at).total_seconds() for row in runs),
        roles=_roles(timelines),
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


def _roles(timelines: Iterable[Timeline]) -> list[RoleTotal]:
    turns: dict[str, list[TimelineTurn]] = defaultdict(list)
    for one in timelines:
        for step in one.steps:
            for attempt in step.attempts:
                turns[step.role or step.kind] += [turn for turn in attempt.turns if turn.outcome != _SKIPPED]
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


def missing_of_run(detail: RunDetail, steps: Timeline) -> Iterator[MissingItem]:
    """Yield what the run as a whole lacks; its symbols have their own."""
    if detail.state not in RUN_FINAL:
        left = sum(step.state not in STEP_FINAL for step in steps.steps)
        yield MissingItem(what="end", reason=f"the run goes on: {left} steps have not ended")
    yield from (MissingItem(what="run", reason=note) for note in detail.notes)
    for step in steps.steps:
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


def _turns(steps: Timeline) -> Iterator[MissingItem]:
    counts = Counter(
        (step.role, turn.outcome)
        for step in steps.steps
        for attempt in step.attempts
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
        for check in analysis.checks:
            if check.state == "unknown":
                yield MissingItem(what=f"check {check.id}", reason=check.text, symbol=analysis.symbol)
