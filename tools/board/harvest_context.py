"""What a source of signals may look at, how it asks for it symbol by symbol, and the headlines of what it finds."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from string import Formatter
from typing import Any, TypeVar

import sqlalchemy
from sqlmodel import Session, col, select

from chordesk.models.answers import ScreenConfidence
from chordesk.models.board.forecasts import MAX_FINDINGS, Harvest
from chordesk.models.errors import DeskError, NotConfigured
from chordesk.models.questions import BoardQuestion
from chordesk.models.tables.board import Forecast, SignalDirection, SignalFinding
from chordesk.models.tables.runs import Run, ScreenHit
from chordesk.models.text import NEW_YORK
from chordesk.tools.market.clock import account_day, usual_close
from chordesk.tools.market.protocol import MarketClock
from chordesk.tools.market.universe import is_symbol
from chordesk.tools.model_tools.reports import seen_runs
from chordesk.tools.prices.daily_bars import Budget
from chordesk.tools.registry import ToolContext
from chordesk.tools.risk.exposure import underlying_of

V = TypeVar("V")
NO_SYMBOL = "no question has a symbol of the market"
_IN_LINE = 8  # in a line
_LISTED = 40  # in data


@dataclass(frozen=True, slots=True)
class LensHit:
    """A symbol that a lens of a screen put forward. at: market time of the screen."""

    symbol: str
    lens: str
    confidence: ScreenConfidence
    at: dt.datetime


@dataclass(frozen=True, slots=True)
class EarlierVote:
    """A voice's last forecast of one question in an earlier episode. question: its id; at: market time."""

    voice: str
    faction: str
    question: str
    probability: float
    baseline: float
    at: dt.datetime


@dataclass(frozen=True, slots=True)
class HarvestContext:
    """The data that a harvester may read."""

    tool: ToolContext
    questions: tuple[BoardQuestion, ...]
    symbols: tuple[str, ...]  # the questions' symbols
    seconds: float  # limit of one harvester
    hits: tuple[LensHit, ...] = ()  # of the account's latest screen of the market's day
    votes: tuple[EarlierVote, ...] = ()  # of its latest episode before


def symbols_of(questions: Sequence[BoardQuestion]) -> tuple[str, ...]:
    """Return the symbols that questions are about, each once, in the questions' order."""
    return tuple(dict.fromkeys(one for question in questions for one in question.subjects if is_symbol(one)))


def asleep(reason: str) -> Harvest:
    return Harvest(dormant=reason)


def each(context: HarvestContext, ask: Callable[[str], V]) -> tuple[dict[str, V], dict[str, str]]:
    """Return (answers, reasons of failures) by symbol. Raises the source's own failure when no symbol has an answer."""
    budget, found, failed = Budget(context.tool), dict[str, V](), dict[str, DeskError]()
    for symbol in context.symbols:
        try:
            budget.spend()
            found[symbol] = ask(symbol)
        except NotConfigured:
            raise
        except DeskError as error:
            failed[symbol] = error
    away = next((error for error in failed.values() if error.retryable), None)
    if away is not None and not found:
        raise away
    return found, {symbol: str(error) for symbol, error in failed.items()}


def bar_time(clock: MarketClock, day: dt.date) -> dt.datetime:
    """Return when the bar of a day was known, at the latest now: a replay decides five minutes before the close."""
    return min(usual_close(day, clock.exchange), clock.now())


def listed(names: Sequence[str]) -> str:
    more = len(names) - _IN_LINE
    return ", ".join(names[:_IN_LINE]) + (f" and {more} more" if more > 0 else "")


def named(names: Sequence[str]) -> list[str]:
    more = len(names) - _LISTED
    return [*names[:_LISTED], *([f"and {more} more"] if more > 0 else [])]


def compose(template: str, data: Mapping[str, Any]) -> str:
    """Return a template with its fields from `data`, such as "{symbol} rose {change:.1%}". Raises ValueError for a
    template with a digit of its own: every figure of a headline stands in the data."""
    _check(template)
    return Formatter().vformat(template, (), data)


@dataclass(frozen=True, slots=True)
class Finding:
    """A kind of finding: the template of its headline, each figure of which is in its data; the basis of its
    confidence; and its source, with the names of market and account in braces."""

    headline: str
    basis: str
    source: str = "{market} daily bars"

    def of(
        self,
        context: HarvestContext,
        data: dict[str, Any],
        confidence: float | None = None,
        subjects: Sequence[str] = (),
        direction: SignalDirection = "neutral",
        *,
        as_of: dt.datetime | None = None,
        probability: float | None = None,
        **texts: str,
    ) -> SignalFinding:
        """Return one. as_of: the latest bar's time by default; texts: parts of the headline that are not data."""
        tool = context.tool
        return SignalFinding(
            headline=compose(self.headline, {**data, **texts}),
            data=data,
            confidence=None if confidence is None else round(min(max(confidence, 0.0), 1.0), 4),
            basis=self.basis,
            direction=direction,
            subjects=subjects,
            source=self.source.format(market=tool.market.name, account=tool.account, **texts),
            as_of=bar_time(tool.clock, tool.clock.session()) if as_of is None else as_of,
            probability=probability,
        )


def best(findings: Iterable[SignalFinding], key: Callable[[SignalFinding], Any] | None = None) -> Harvest:
    by_confidence = lambda one: (-(one.confidence or 0.0), one.subjects)  # noqa: E731
    return Harvest(findings=tuple(sorted(findings, key=key or by_confidence)[:MAX_FINDINGS]))


@cache
def _check(template: str) -> None:
    for text, _, _, _ in Formatter().parse(template):
        if any(char.isdigit() for char in text):
            raise ValueError(f"the headline {template!r} has a figure that is not in its data")


def harvest_context(
    tool: ToolContext, questions: Sequence[BoardQuestion], factions: Mapping[str, str], seconds: float | None = None
) -> HarvestContext:
    """factions: of the voices, by name; a voice without one is its own. seconds: limit of one harvester."""
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
    opened = dt.datetime.combine(account_day(now), dt.time(), NEW_YORK)
    newest = session.exec(
        select(ScreenHit.run_id)
        .join(Run, col(Run.id) == col(ScreenHit.run_id))
        .where(*seen_runs(tool.account, tool.market.name, now), col(ScreenHit.market_at).between(opened, now))
        .order_by(col(ScreenHit.market_at).desc(), col(Run.created_at).desc())
        .limit(1)
    ).first()
    if newest is None:
        return ()
    rows = session.exec(select(ScreenHit).where(ScreenHit.run_id == newest)).all()
    return tuple(
        LensHit(underlying_of(row.symbol), row.lens, ScreenConfidence(row.confidence), row.market_at) for row in rows
    )


def earlier_votes(session: Session, tool: ToolContext, factions: Mapping[str, str]) -> tuple[EarlierVote, ...]:
    """The last round of the account's newest episode on this market, without this run."""
    seen = (*seen_runs(tool.account, tool.market.name, tool.clock.now()), col(Run.id) != (tool.run_id or ""))
    # Their columns alone: a forecast's citations, which nobody asks for here, are most of it.
    newest = session.exec(
        select(Forecast.run_id, Forecast.round)
        .join(Run, col(Run.id) == col(Forecast.run_id))
        .where(*seen, col(Forecast.account) == tool.account, col(Forecast.market_at) <= tool.clock.now())
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
