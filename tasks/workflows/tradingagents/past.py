"""What TradingAgents knows of its earlier signals on the desk: its memory is the desk's reports, and outcomes are the
run's market's. Nothing of later than the run's day is seen."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlmodel import Session, col, select

from chordesk.agents.tradingagents.asking import ROLE
from chordesk.models.errors import DeskError
from chordesk.models.research import GraphReflection, ReportStatus
from chordesk.models.tables.runs import Report, Run
from chordesk.tools.market.clock import exchange_day
from chordesk.tools.market.protocol import MarketData
from chordesk.tools.questions.medians import closes_of, span_of
from chordesk.tools.questions.universes import members, named_universe

SESSIONS = 5  # after which an outcome is looked at, as TradingAgents does
SAME, OTHERS = 5, 3  # signals on the ticker, lessons of others: as TradingAgents repeats them
MOST_REFLECTIONS = 3  # of one run: each is a call of the model
_LOOKED_AT = 200
_BARS = 400


@dataclass(frozen=True, slots=True)
class EarlierSignal:
    """A signal of an earlier run on the same account and market."""

    report_id: str
    symbol: str
    day: dt.date
    rating: str
    decision: str


@dataclass(frozen=True, slots=True)
class SignalHistory:
    """Signals, the newest first, and what was made of their outcomes, by report."""

    signals: Sequence[EarlierSignal]
    reflections: Mapping[str, GraphReflection]

    def open(self, symbol: str) -> list[EarlierSignal]:
        """Return the signals on a symbol without a reflection on their outcome, the oldest first."""
        return [one for one in reversed(self.signals) if one.symbol == symbol and one.report_id not in self.reflections]

    def with_reflections(self, found: Mapping[str, GraphReflection]) -> SignalHistory:
        """Return the past with these reflections too."""
        return SignalHistory(self.signals, {**self.reflections, **found})

    def text(self, symbol: str) -> str:
        """Return the past as TradingAgents repeats it: the last signals on a symbol with their outcomes, and lessons of
        others. Empty without an outcome."""
        known = [one for one in self.signals if one.report_id in self.reflections]
        same = [self._whole(one) for one in known if one.symbol == symbol][:SAME]
        others = [self._lesson(one) for one in known if one.symbol != symbol][:OTHERS]
        parts = [f"Past analyses of {symbol} (most recent first):", *same] if same else []
        return "\n\n".join([*parts, *(["Recent cross-ticker lessons:", *others] if others else [])])

    def _whole(self, one: EarlierSignal) -> str:
        return f"{self._tag(one)}\n\nDECISION:\n{one.decision}\n\nREFLECTION:\n{self.reflections[one.report_id].text}"

    def _lesson(self, one: EarlierSignal) -> str:
        return f"{self._tag(one)}\n{self.reflections[one.report_id].text}"

    def _tag(self, one: EarlierSignal) -> str:
        found = self.reflections[one.report_id]
        return f"[{one.day} | {one.symbol} | {one.rating} | {found.raw:+.1%} | {found.alpha:+.1%} | {found.sessions}d]"


def past_of(session: Session, account: str, market: str, now: dt.datetime) -> SignalHistory:
    """Return the past of an account on a market, up to a time of that market."""
    query = (
        select(Report)
        .join(Run, col(Run.id) == col(Report.run_id))
        .where(
            Report.role == ROLE,
            Report.status == ReportStatus.COMPLETED,
            Run.account == account,
            Run.market == market,
            Report.market_at <= now,
        )
        .order_by(col(Report.market_at).desc(), col(Report.id).desc())
        .limit(_LOOKED_AT)
    )
    signals, reflections = list[EarlierSignal](), dict[str, GraphReflection]()
    for row in session.exec(query):
        answer: Mapping[str, Any] = row.answer or {}
        day = exchange_day(row.market_at)
        signals.append(EarlierSignal(row.id, row.symbol, day, str(answer.get("rating")), str(answer.get("decision"))))
        for given in answer.get("reflections") or ():
            found = GraphReflection.model_validate(given)
            reflections.setdefault(found.report_id, found)
    return SignalHistory(signals, reflections)


@dataclass(frozen=True, slots=True)
class SignalOutcome:
    """The return of a symbol over the sessions after its signal, and that above the benchmark; fractions."""

    raw: float
    alpha: float
    sessions: int
    benchmark: str


def outcome_of(market: MarketData, symbol: str, day: dt.date, sessions: int = SESSIONS) -> SignalOutcome | None:
    """Return the outcome of a signal as it is known now; None while it is not, or without a benchmark: the median of
    the market's universe, over the same sessions."""
    days = [one for one in market.sessions(_BARS) if one >= day]
    if len(days) <= sessions:
        return None
    first, last = days[0], days[sessions]
    try:
        universe = named_universe(market)
        span = span_of(market, members(universe, market), first, last) if universe is not None else None
        own = closes_of(market, symbol, first, last)
    except DeskError:
        return None
    if span is None or not span.is_enough or span.median is None or isinstance(own, str) or own.change is None:
        return None
    return SignalOutcome(own.change, own.change - span.median, sessions, f"the median of {universe}")
