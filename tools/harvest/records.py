"""The desk's own records that harvesters rest on: hits of the latest screen, forecasts of the latest episode."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence

import sqlalchemy
from sqlmodel import Session, col, select

from chordesk.models.board.questions import BoardQuestion
from chordesk.models.research import ScreenConfidence
from chordesk.models.tables.board import Forecast
from chordesk.models.tables.runs import Run, ScreenHit
from chordesk.tools.harvest.context import EarlierVote, HarvestContext, LensHit, symbols_of
from chordesk.tools.market.clock import NEW_YORK, exchange_day
from chordesk.tools.registry import ToolContext
from chordesk.tools.reports import seen_runs
from chordesk.tools.risk import underlying_of


def harvest_context(
    tool: ToolContext, questions: Sequence[BoardQuestion], factions: Mapping[str, str], seconds: float | None = None
) -> HarvestContext:
    """Return what the harvesters of one board may look at. factions: of the voices, by name; one that is not in it has
    a faction of its own. seconds: limit of one harvester, that of a tool call by default."""
    hits: tuple[LensHit, ...] = ()
    votes: tuple[EarlierVote, ...] = ()
    if tool.store is not None:
        with tool.store.read() as session:
            hits, votes = latest_hits(session, tool), earlier_votes(session, tool, factions)
    limit = tool.settings.tool_seconds if seconds is None else seconds
    return HarvestContext(tool, tuple(questions), symbols_of(questions), limit, hits, votes)


def latest_hits(session: Session, tool: ToolContext) -> tuple[LensHit, ...]:
    """Return the hits of the account's newest run of this market and market day that has any."""
    now = tool.clock.now()
    opened = dt.datetime.combine(exchange_day(now), dt.time(), NEW_YORK)
    newest = session.exec(
        select(Run)
        .where(*seen_runs(tool.account, tool.market.name, now), col(Run.market_now) >= opened)
        .where(col(Run.id).in_(select(ScreenHit.run_id)))
        .order_by(col(Run.market_now).desc(), col(Run.created_at).desc())
        .limit(1)
    ).first()
    if newest is None:
        return ()
    rows = session.exec(select(ScreenHit).where(ScreenHit.run_id == newest.id)).all()
    return tuple(
        LensHit(underlying_of(row.symbol), row.lens, ScreenConfidence(row.confidence), newest.market_now)
        for row in rows
    )


def earlier_votes(session: Session, tool: ToolContext, factions: Mapping[str, str]) -> tuple[EarlierVote, ...]:
    """Return the forecasts of the last round of the account's newest episode on this market, this run's own left
    out."""
    seen = (*seen_runs(tool.account, tool.market.name, tool.clock.now()), col(Run.id) != (tool.run_id or ""))
    # Their columns alone: a forecast's citations, which nobody asks for here, are most of it.
    newest = session.exec(
        select(Forecast.run_id, Forecast.round)
        .join(Run, col(Run.id) == col(Forecast.run_id))
        .where(*seen)
        .order_by(col(Forecast.market_at).desc(), col(Run.created_at).desc(), col(Forecast.round).desc())
        .limit(1)
    ).first()
    if newest is None:
        return ()
    run_id, number = newest
    names = (Forecast.voice, Forecast.question_id, Forecast.probability, Forecast.baseline, Forecast.market_at)
    query = sqlalchemy.select(*map(col, names)).where(col(Forecast.run_id) == run_id, col(Forecast.round) == number)
    rows = sorted(session.execute(query).all(), key=lambda row: (row.question_id, row.voice))
    return tuple(EarlierVote(row[0], factions.get(row[0], row[0]), *row[1:]) for row in rows)
