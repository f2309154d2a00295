"""The symbols of an episode that names none: candidates and holdings, or the names that have moved most."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from sqlmodel import Session, col, select

from chordesk.models.states import RUN_FINAL, RunKind
from chordesk.models.tables.orders import Position
from chordesk.models.tables.runs import Candidate, Run
from chordesk.tools.history import histories
from chordesk.tools.market.quotes import share_of
from chordesk.tools.market.universe import resolve_universe
from chordesk.tools.registry import Gaps, ToolContext
from chordesk.tools.risk import underlying_of

MOVED_SESSIONS = 21


class ChosenSymbols(NamedTuple):
    """Symbols, and where they are from."""

    symbols: list[str]
    source: str


def choose_symbols(session: Session, context: ToolContext, most: int) -> ChosenSymbols:
    """Return at most so many symbols: the candidates of the account's latest screen on this market and the holdings;
    without any, the symbols of the universe that moved most over the last sessions."""
    held = _held(session, context)
    run, candidates = _screened(session, context)
    names = [f"candidates of screen {run}"] if candidates else []
    names += ["holdings"] if held else []
    if names:
        return ChosenSymbols(list(dict.fromkeys([*candidates, *held]))[:most], " and ".join(names))
    moved = _moved(context)[:most]
    universe = context.settings.universe
    return ChosenSymbols(moved, f"largest moves of {universe} over {MOVED_SESSIONS} sessions, either way")


def _held(session: Session, context: ToolContext) -> list[str]:
    rows = session.exec(select(Position.symbol).where(Position.account == context.account)).all()
    return sorted({share_of(context.market, underlying_of(symbol)) for symbol in rows})


def _screened(session: Session, context: ToolContext) -> tuple[str, Sequence[str]]:
    """Return the latest screen with candidates, and these by rank. One of a later market day is unknown now."""
    run = session.exec(
        select(Run.id)
        .where(
            Run.kind == RunKind.SCREEN,
            Run.account == context.account,
            Run.market == context.market.name,
            col(Run.market_now) <= context.clock.now(),
            col(Run.state).in_(RUN_FINAL),
            col(Run.id).in_(select(Candidate.run_id)),
        )
        .order_by(col(Run.market_now).desc(), col(Run.created_at).desc())
        .limit(1)
    ).first()
    if run is None:
        return "", ()
    named = select(Candidate.symbol).where(Candidate.run_id == run, Candidate.origin == "screen")
    return run, session.exec(named.order_by(col(Candidate.rank))).all()


def _moved(context: ToolContext) -> list[str]:
    """Return the symbols of the universe by the size of their move, the largest first; one without enough bars is left
    out."""
    symbols = resolve_universe(context.settings.universe, context.market)
    moves = {
        one.symbol: abs(float(one.bars.close[-1] / one.bars.close[-1 - MOVED_SESSIONS] - 1))
        for one in histories(context, symbols, Gaps(), MOVED_SESSIONS + 1)
        if len(one.bars.close) > MOVED_SESSIONS
    }
    return sorted(moves, key=lambda symbol: (-moves[symbol], symbol))
