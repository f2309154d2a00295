"""What a run did, as one sentence."""

from __future__ import annotations

from typing import Any

from sqlmodel import Session, col, func, select

from chordesk.models.states import RUN_LIVE, OrderState, RunKind, RunState
from chordesk.models.tables.orders import Order
from chordesk.models.tables.runs import Candidate, Run, Verdict, research_run
from chordesk.models.text import NEW_YORK

_DID = {
    RunKind.SCREEN: "screened {symbols}",
    RunKind.RESEARCH: "researched {symbols}",
    RunKind.ANALYZE: "analysed {symbols}",
    RunKind.TRADE: "decided on a run's research",
    RunKind.EPISODE: "played an episode",
    RunKind.BACKTEST: "played {days}",
    RunKind.GRAPH: "ran a graph on {symbols}",
    RunKind.FLATTEN: "closed the positions",
    RunKind.PROTECT: "protected positions",
}
_ORDERS = {OrderState.APPROVAL_PENDING: "wait for you", OrderState.PARTIALLY_FILLED: "filled in part"}
_ENDS = {RunState.FAILED: "failed", RunState.PARTIAL: "not whole", RunState.STOPPED: "stopped by a person"}


def outcome(session: Session, run: Run) -> str:
    """Return what a run did or does, such as "Screened 524 names at 15:55 on 2010-08-12; 10 candidates: 8 BUY, 2 HOLD;
    3 orders filled, 5 wait for you"."""
    counts = {"symbols": _names(len(run.params.get("symbols") or ())), "days": _days(run.params.get("days") or ())}
    did = _DID.get(run.kind, run.kind).format(**counts)  # type: ignore[call-overload]
    at = f"{run.market_now.astimezone(NEW_YORK):%H:%M on %Y-%m-%d}" if run.kind != RunKind.BACKTEST else ""
    under_way = f" ({run.state})" if run.state in RUN_LIVE else ""
    head = f"{did[:1].upper()}{did[1:]}{f' at {at}' if at else ''}{under_way}"
    parts = [head, _researched(session, run), _ordered(session, run)]
    if end := _ENDS.get(run.state):  # type: ignore[call-overload]
        parts.append(f"{end}: {run.notes[0]}" if run.notes else end)
    return "; ".join(filter(None, parts))


def _names(count: int) -> str:
    return "one name" if count == 1 else f"{count or 'no'} names"


def _days(days: Any) -> str:
    return f"{len(days)} sessions, {days[0]} to {days[-1]}" if days else "no session"


def _researched(session: Session, run: Run) -> str:
    count = session.exec(select(func.count()).where(col(Candidate.run_id) == research_run(run))).one()
    if not count:
        return "no candidate" if run.kind == RunKind.SCREEN and run.state not in RUN_LIVE else ""
    ratings = _tally(session, Verdict.rating, col(Verdict.run_id) == research_run(run))
    said = f"{count} candidates" if count != 1 else "one candidate"
    return f"{said}: {', '.join(f'{n} {rating}' for rating, n in ratings.items())}" if ratings else said


def _ordered(session: Session, run: Run) -> str:
    states = _tally(session, Order.state, col(Order.run_id) == run.id)
    told = [f"{n} {_ORDERS.get(state, state.replace('_', ' '))}" for state, n in states.items()]  # type: ignore[call-overload]
    return f"of {sum(states.values())} orders {', '.join(told)}" if told else ""


def _tally(session: Session, column: Any, where: Any) -> dict[str, int]:
    rows = session.execute(select(column, func.count()).where(where).group_by(column)).all()
    return dict(sorted(rows, key=lambda row: (-row[1], row[0])))
