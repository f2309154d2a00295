"""The beginning of TradingAgents' work: a run of one graph a ticker, and the step of its role in other research."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from typing import Any

from sqlmodel import Session

from chordesk.agents.graphs.tradingagents.project import ANALYSTS, ROLE, require_playable, require_request
from chordesk.models.answers import Instrument
from chordesk.models.errors import SettingError, UsageError
from chordesk.models.states import RunKind, StepKind
from chordesk.models.tables.runs import Candidate, Run
from chordesk.tasks.bootstrap import Desk
from chordesk.tasks.engine.steps import NewStep
from chordesk.tasks.worker.messages import DeskApp
from chordesk.tasks.workflows.runs import new_run, open_run
from chordesk.tools.market.prices import no_current_price
from chordesk.tools.market.protocol import MarketData
from chordesk.tools.market.universe import resolve_universe

DEPTH = 1


def open_tradingagents(
    app: DeskApp,
    tickers: Sequence[str],
    analysts: Sequence[str] = ANALYSTS,
    depth: int = DEPTH,
    day: dt.date | None = None,
) -> Run:
    """Start a run with a graph of TradingAgents for each ticker. day: of the market's data, by default its own. Raises
    UsageError for what cannot be asked, for a ticker that the market does not have on that day and where TradingAgents
    cannot be played; SettingError or MarketError for a market that cannot be had."""
    desk = app.desk
    require_request(analysts, depth)
    require_playable(desk.settings)
    market = market_on(desk, day)
    symbols = resolve_universe(",".join(tickers), market)
    for symbol in symbols:
        if (why := no_current_price(market, symbol)) is not None:
            raise UsageError(f"{symbol} has no price on the {market.name} market: {why}", remedy="leave it out")
    asked = {"analysts": list(analysts), "depth": depth}
    params = {"symbols": symbols, "roles": [ROLE], "trade": False, "inputs": dict.fromkeys(symbols, asked)}

    def write(session: Session, run: Run, finish: str) -> list[NewStep]:
        candidates = [
            Candidate(run_id=run.id, symbol=symbol, rank=rank, instrument=Instrument.EQUITY, origin="manual", score=0.0)
            for rank, symbol in enumerate(symbols, 1)
        ]
        session.add_all(candidates)
        session.flush()
        return [ticker_step(finish, one.symbol, {"candidate_id": one.id, **asked}) for one in candidates]

    return open_run(app, new_run(desk, RunKind.GRAPH, params, market=market), write)


def ticker_step(parent: str, symbol: str, payload: dict[str, Any]) -> NewStep:
    return NewStep(StepKind.GRAPH, parent, symbol, ROLE, {**payload, "graph": symbol, "chapter": 1})


def market_on(desk: Desk, day: dt.date | None) -> MarketData:
    """Raises UsageError for a day that is not a session or a market in real time, SettingError outside of the data."""
    if day is None:
        return desk.market
    if desk.market.clock.day is None:
        raise UsageError(
            f"--date {day}: the {desk.market.name} market is in real time, and what came after that day would be seen",
            remedy="leave --date out, or choose a DESK_MARKET that replays",
        )
    try:
        return desk.market_for(day)
    except SettingError as error:
        raise UsageError(f"--date {day}: {error.args[0]}", remedy="choose a session of the market's data") from None
