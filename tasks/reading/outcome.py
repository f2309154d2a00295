"""What a run did, as one sentence."""

from __future__ import annotations

from typing import Any

from sqlmodel import Session, col, func, select

from chordesk.models.states import RUN_LIVE, OrderState, RunKind, RunState
from chordesk.models.tables.board import Episode, EpisodeQuestion
from chordesk.models.tables.orders import Order
from chordesk.models.tables.runs import BacktestSession, Candidate, Run, Turn, Verdict, research_run
from chordesk.models.text import NEW_YORK

_DID = {
    RunKind.SCREEN: "screened {symbols}",
    RunKind.RESEARCH: "researched {symbols}",
    RunKind.ANALYZE: "analysed {symbols}",
    RunKind.TRADE: "decided on a run's research",
    RunKind.EPISODE: "played an episode",
    RunKind.BACKTEST: "played {days}",
    RunKind.GRAPH: "ran {graphs}",
    RunKind.FLATTEN: "closed the positions",
    RunKind.PROTECT: "protected positions",
}
_ORDERS = {OrderState.APPROVAL_PENDING: "wait for you", OrderState.PARTIALLY_FILLED: "filled in part"}
_ENDS = {RunState.FAILED: "failed", RunState.PARTIAL: "not whole", RunState.STOPPED: "stopped by a person"}


def outcome(session: Session, run: Run) -> str:
    """Return what a run did or does, such as "Screened 524 names at 15:55 on 2010-08-12; 10 candidates: 8 BUY, 2 HOLD;
    3 orders filled, 5 wait for you"."""
    days = _days(session, run) if run.kind == RunKind.BACKTEST else ""
    symbols = _many(len(run.params.get("symbols") or ()), "name")
    graphs = _many(len(run.params.get("inputs") or ()), "graph")
    counts = {"symbols": symbols, "days": days, "graphs": graphs}
    did = _DID.get(run.kind, run.kind).format(**counts)  # type: ignore[call-overload]
    at = "" if days else f"{run.market_now.astimezone(NEW_YORK):%H:%M on %Y-%m-%d}"
    under_way = f" ({run.state})" if run.state in RUN_LIVE else ""
    head = f"{did[:1].upper()}{did[1:]}{f' at {at}' if at else ''}{under_way}"
    parts = [head, _researched(session, run), _ordered(session, run)]
    parts += [of(session, run) for kind, of in _OWN.items() if run.kind == kind]
    if end := _ENDS.get(run.state):  # type: ignore[call-overload]
        parts.append(f"{end}: {run.notes[0]}" if run.notes else end)
    return "; ".join(filter(None, parts))


def _many(count: int, what: str) -> str:
    return f"one {what}" if count == 1 else f"{count or 'no'} {what}s"


def _days(session: Session, run: Run) -> str:
    """Return a backtest's sessions, and what they have come to so far."""
    origin = session.get_one(Run, run.params.get("backtest", run.id))  # that it goes on with
    days = origin.params.get("days") or ()
    played = select(BacktestSession).where(BacktestSession.backtest_id == origin.id).order_by(col(BacktestSession.day))
    equity = [row.equity for row in session.exec(played)]
    if not days:
        return "no session"
    told = f"{'' if len(equity) == len(days) else f'{len(equity)} of '}{len(days)} sessions, {days[0]} to {days[-1]}"
    returns = (run.summary.get("backtest") or {}).get("returns")
    if returns and returns["desk"] is not None:
        held = f", against {returns['held']:+.1%} bought and held" if returns["held"] is not None else ""
        return f"{told}: {returns['desk']:+.1%}{held}"
    return f"{told}: ${equity[-1]:,.2f} so far" if equity and equity[-1] is not None else told


def _forecast(session: Session, run: Run) -> str:
    """Return how many questions an episode had, and to which of them its voices moved furthest from the baseline."""
    count = session.exec(select(func.count()).where(EpisodeQuestion.run_id == run.id)).one()
    told = _many(count, "question")
    episode = session.get(Episode, run.id)
    rows = [row for row in (episode.summary.get("questions") or () if episode else ()) if row.get("aggregate")]
    if not rows:
        return told
    row = max(rows, key=lambda row: abs(row["aggregate"]["probability"] - row["baseline"]))
    return f"{told}: at most {row['aggregate']['probability']:.1%} against {row['baseline']:.1%}, of “{row['text']}”"


def _nodes(session: Session, run: Run) -> str:
    """Return the nodes of a run's graphs that asked a model, in their order."""
    begun = select(Turn.role).where(Turn.run_id == run.id).group_by(Turn.role)
    roles = session.exec(begun.order_by(func.min(Turn.started_at))).all()
    return f"{', '.join(roles)} asked a model" if roles else ""


_OWN = {RunKind.EPISODE: _forecast, RunKind.GRAPH: _nodes}


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
