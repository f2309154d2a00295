"""earnings_dates, insider_trades, analyst_ratings and short_interest: rows of a company from a market that may have
them."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from collections.abc import Sequence
from functools import partial
from typing import Annotated, Any, Protocol, TypeVar

from pydantic import AwareDatetime, BaseModel, Field
from typing_extensions import TypedDict

from chordesk.models.company import EarningsDate, InsiderTrade, PriceTargets, RatingChange, ShortInterest
from chordesk.models.errors import MarketError, NotConfigured
from chordesk.models.text import one_line
from chordesk.tools.decimals import rounded
from chordesk.tools.market.clock import day_of
from chordesk.tools.market.earnings import split
from chordesk.tools.market.protocol import EarningsSource, InsiderSource, MarketData, RatingsSource, ShortInterestSource
from chordesk.tools.prices.daily_bars import by_symbol
from chordesk.tools.registry import (
    DISTINCT,
    Answer,
    Arguments,
    Gaps,
    Symbol,
    Symbols,
    ToolContext,
    ToolSpec,
    Without,
    payload,
    tickers,
)

TEXT_CHARS = 80
MAX_SYMBOLS = 30

FewSymbols = Annotated[list[Symbol], tickers(MAX_SYMBOLS), DISTINCT]  # for answers with many rows a symbol


class Known(Protocol):
    """Row with the time from which on it could be known."""

    @property
    def known_at(self) -> AwareDatetime: ...


K = TypeVar("K", bound=Known)
V = TypeVar("V")


def absent(market: MarketData, what: str) -> NotConfigured:
    """Return the error that a market has no such rows, with the remedy."""
    past = ", which has those of now alone" if market.clock.day is not None else ""
    reason = f"the {market.name} market has no {what}; configure DESK_MARKET=yahoo for them{past}"
    return NotConfigured(f"not available: {reason}")


def source_of(market: MarketData, protocol: type, what: str) -> Any:
    """Return the market as a source of such rows. Raises NotConfigured where it is not."""
    if not isinstance(market, protocol):
        raise absent(market, what)
    return market


def known(rows: Sequence[K], now: dt.datetime) -> list[K]:
    return [row for row in rows if row.known_at <= now]


def share(limit: int, most: int, symbols: Sequence[str]) -> int:
    """Return how many rows a symbol may have: `limit`, or less where so many symbols would exceed `most` together."""
    return max(min(limit, most // len(symbols)), 1)


def bounded(rows: Sequence[V], limit: int, what: str, symbol: str, gaps: Gaps) -> list[V]:
    """Return the first rows; a gap states how many there are."""
    if len(rows) > limit:
        gaps.add(f"older {what}", f"{len(rows)} are known, {limit} are shown", symbol)
    return list(rows[:limit])


def plain_text(text: str, most: int = TEXT_CHARS) -> str:
    """Return other people's text as one line of at most `most` characters: without control, format and private
    characters, markup kept as it is."""
    return one_line(text, most, instead="", end="")


def shown(row: BaseModel, *without: str) -> dict[str, Any]:
    found = row.model_dump(mode="json", by_alias=True, exclude_none=True, exclude={"symbol", *without})
    return {name: plain_text(value) if isinstance(value, str) else value for name, value in found.items()}


EARNINGS_NOUN = "earnings dates"
_MOST_EARNINGS = 200


class EarningsArguments(Arguments):
    symbols: Symbols
    limit: int = Field(4, ge=0, le=40, description="at most so many past reports a symbol, newest first")


PAST = ("symbol", "until", "confirmed", "knownAt")


class EarningsRow(TypedDict):
    symbol: str
    next: Annotated[EarningsDate, Without("symbol", daysUntil=int)] | None
    past: list[Annotated[EarningsDate, Without(*PAST, surprise=float | None)]]


class EarningsAnswer(Answer):
    earnings: list[EarningsRow]


def earnings_dates(context: ToolContext, arguments: EarningsArguments) -> dict[str, Any]:
    gaps, now = Gaps(), context.clock.now()
    most = share(arguments.limit, _MOST_EARNINGS, arguments.symbols) if arguments.limit else 0

    found = []
    ask = partial(reports, context)
    for symbol, (following, past) in by_symbol(context, arguments.symbols, EARNINGS_NOUN, gaps, ask):
        if following is None:
            gaps.add("next earnings date", "not known", symbol)
        if not past and arguments.limit:
            gaps.add("past earnings dates", "not known", symbol)
        if following is None and not past:
            continue
        ahead = next_report(following, day_of(now, symbol)) if following is not None else None
        shown_past = bounded(past, most, EARNINGS_NOUN, symbol, gaps) if arguments.limit else []
        found.append({"symbol": symbol, "next": ahead, "past": [past_report(row) for row in shown_past]})
    return payload(context, gaps, available=bool(found), earnings=found)


def reports(context: ToolContext, symbol: str) -> tuple[EarningsDate | None, list[EarningsDate]]:
    """Return (the next report, the past ones newest first). Raises NotConfigured where the market has none."""
    rows = source_of(context.market, EarningsSource, EARNINGS_NOUN).earnings(symbol)
    return split(rows, context.clock.now())


def next_report(row: EarningsDate, today: dt.date) -> dict[str, Any]:
    return {**shown(row), "daysUntil": max((row.date - today).days, 0)}


def past_report(row: EarningsDate) -> dict[str, Any]:
    estimate, actual = row.eps_estimate, row.eps_actual
    surprise = (actual - estimate) / abs(estimate) if actual is not None and estimate else None
    found = shown(row, "until", "confirmed", "known_at")
    return found if surprise is None else {**found, "surprise": rounded(surprise)}


EARNINGS_DATES = ToolSpec(
    name="earnings_dates",
    description=(
        "The next earnings report of up to 150 symbols (`until` while the date is a window, confirmed false for an "
        "estimate) and past ones with estimate, actual and surprise per share. A next date that is not known is in "
        "`missing`: it is not a sign of none."
    ),
    arguments=EarningsArguments,
    function=earnings_dates,
    answer=EarningsAnswer,
)


TRADES_NOUN = "insider trades"
_MOST_TRADES = 60


class InsiderArguments(Arguments):
    symbols: FewSymbols
    days: int = Field(90, ge=1, le=1000, description="window of `net`, by the day of the trade")
    limit: int = Field(10, ge=1, le=100, description="at most so many trades a symbol, newest first")


InsiderNet = TypedDict(
    "InsiderNet",
    {
        "days": int,
        "from": dt.date,
        "bought": int,
        "boughtShares": float | None,
        "boughtValue": float | None,
        "sold": int,
        "soldShares": float | None,
        "soldValue": float | None,
        "netShares": float | None,
        "netValue": float | None,
        "other": int,
        "oldestKnown": dt.date,
    },
)


class InsiderRow(TypedDict):
    symbol: str
    net: InsiderNet
    trades: list[Annotated[InsiderTrade, Without("symbol")]]


class InsidersAnswer(Answer):
    insiders: list[InsiderRow]


def insider_trades(context: ToolContext, arguments: InsiderArguments) -> dict[str, Any]:
    gaps, now = Gaps(), context.clock.now()
    most = share(arguments.limit, _MOST_TRADES, arguments.symbols)

    found = []
    for symbol, trades in by_symbol(context, arguments.symbols, TRADES_NOUN, gaps, partial(trades_of, context)):
        if not trades:
            gaps.add(TRADES_NOUN, "the source has none", symbol)
            continue
        listed = [shown(row) for row in bounded(trades, most, TRADES_NOUN, symbol, gaps)]
        found.append({"symbol": symbol, "net": net(trades, arguments.days, day_of(now, symbol)), "trades": listed})
    return payload(context, gaps, available=bool(found), insiders=found)


def trades_of(context: ToolContext, symbol: str) -> list[InsiderTrade]:
    """Return the trades that were known by now, of today or before, the newest first."""
    now = context.clock.now()
    rows: list[InsiderTrade] = source_of(context.market, InsiderSource, TRADES_NOUN).insider_trades(symbol)
    today = day_of(now, symbol)
    return sorted((row for row in known(rows, now) if row.date <= today), key=lambda row: row.date, reverse=True)


def net(trades: Sequence[InsiderTrade], days: int, today: dt.date) -> dict[str, Any]:
    """Counts, shares and value of the last so many days. A sum is None where a trade lacks the figure."""
    first = today - dt.timedelta(days=days)
    recent = [row for row in trades if row.date > first]
    sides = {side: [row for row in recent if row.side == side] for side in ("buy", "sell")}
    found: dict[str, Any] = {"days": days, "from": (first + dt.timedelta(days=1)).isoformat()}
    for name, side in (("bought", "buy"), ("sold", "sell")):
        found |= {
            name: len(sides[side]),
            f"{name}Shares": _total([row.shares for row in sides[side]]),
            f"{name}Value": _total([row.value for row in sides[side]]),
        }
    for unit in ("Shares", "Value"):
        bought, sold = found[f"bought{unit}"], found[f"sold{unit}"]
        found[f"net{unit}"] = bought - sold if bought is not None and sold is not None else None
    return {**found, "other": sum(row.side is None for row in recent), "oldestKnown": trades[-1].date.isoformat()}


def _total(values: Sequence[float | None]) -> float | None:
    known_values = [value for value in values if value is not None]
    return sum(known_values, 0.0) if len(known_values) == len(values) else None


INSIDER_TRADES = ToolSpec(
    name="insider_trades",
    description=(
        "Trades that insiders of up to 30 symbols reported, newest first: date, insider, position, side (absent for "
        "grants, gifts and exercises), shares, value; and the net of purchases and sales over the last days, null "
        "where a figure is not known. Reports follow a trade by some days."
    ),
    arguments=InsiderArguments,
    function=insider_trades,
    answer=InsidersAnswer,
)


RATINGS_NOUN = "analyst ratings"
_MOST_RATINGS = 60


class RatingsArguments(Arguments):
    symbols: FewSymbols
    days: int = Field(90, ge=1, le=1000, description="changes of so many days back")
    limit: int = Field(10, ge=1, le=100, description="at most so many changes a symbol, newest first")


class RatingsRow(TypedDict):
    symbol: str
    targets: Annotated[PriceTargets, Without("symbol")] | None
    days: int
    actions: dict[str, int]
    changes: list[Annotated[RatingChange, Without("symbol", date=dt.date)]]


class RatingsAnswer(Answer):
    ratings: list[RatingsRow]


def analyst_ratings(context: ToolContext, arguments: RatingsArguments) -> dict[str, Any]:
    gaps, now = Gaps(), context.clock.now()
    most = share(arguments.limit, _MOST_RATINGS, arguments.symbols)
    found = []
    ask = partial(ratings_of, context)
    for symbol, (changes, targets) in by_symbol(context, arguments.symbols, RATINGS_NOUN, gaps, ask):
        latest = max(targets, key=lambda row: row.known_at, default=None)
        if latest is None:
            gaps.add("price targets", "the source has none", symbol)
        if not changes:
            gaps.add("rating changes", "the source has none", symbol)
        if latest is None and not changes:
            continue
        first = day_of(now, symbol) - dt.timedelta(days=arguments.days)
        recent = [row for row in changes if day_of(row.known_at, symbol) > first]
        found.append(
            {
                "symbol": symbol,
                "targets": shown(latest) if latest is not None else None,
                "days": arguments.days,
                "actions": dict(Counter(plain_text(row.action or "unknown", 20) for row in recent)),
                "changes": [
                    {"date": day_of(row.known_at, symbol).isoformat(), **shown(row)}
                    for row in bounded(recent, most, "rating changes", symbol, gaps)
                ],
            }
        )
    return payload(context, gaps, available=bool(found), ratings=found)


def ratings_of(context: ToolContext, symbol: str) -> tuple[list[RatingChange], list[PriceTargets]]:
    """Return (changes newest first, targets) that were known by now."""
    source, now = source_of(context.market, RatingsSource, RATINGS_NOUN), context.clock.now()
    changes = sorted(known(source.rating_changes(symbol), now), key=lambda row: row.known_at, reverse=True)
    return changes, known(source.price_targets(symbol), now)


ANALYST_RATINGS = ToolSpec(
    name="analyst_ratings",
    description=(
        "Analysts' price targets of up to 30 symbols (mean, median, low, high, number of analysts, meanRating 1 buy "
        "to 5 sell) and the changes of rating of the last days: date, firm, action, rating and target with those "
        "before. `actions` counts them all."
    ),
    arguments=RatingsArguments,
    function=analyst_ratings,
    answer=RatingsAnswer,
)


SHORTS_NOUN = "short interest"


class ShortInterestArguments(Arguments):
    symbols: Symbols


class ShortInterestAnswer(Answer):
    shortInterest: list[Annotated[ShortInterest, Without(change=float | None, ageDays=int)]]


def short_interest(context: ToolContext, arguments: ShortInterestArguments) -> dict[str, Any]:
    gaps = Gaps()
    rows = by_symbol(context, arguments.symbols, SHORTS_NOUN, gaps, partial(short_row, context))
    found = [{"symbol": symbol, **row} for symbol, row in rows]
    return payload(context, gaps, available=bool(found), shortInterest=found)


def short_row(context: ToolContext, symbol: str) -> dict[str, Any]:
    """Return the newest settlement that was known by now. Raises MarketError without one."""
    now = context.clock.now()
    rows = known(source_of(context.market, ShortInterestSource, SHORTS_NOUN).short_interest(symbol), now)
    latest: ShortInterest | None = max(rows, key=lambda row: (row.date, row.known_at), default=None)
    if latest is None:
        raise MarketError("the source has none")
    return {**shown(latest), "change": _shorts_change(latest), "ageDays": (day_of(now, symbol) - latest.date).days}


def _shorts_change(row: ShortInterest) -> float | None:
    """Return shares short / those at the settlement before - 1."""
    return rounded(row.shares_short / row.prior_shares_short - 1) if row.prior_shares_short else None


SHORT_INTEREST = ToolSpec(
    name="short_interest",
    description=(
        "Shares sold short of up to 150 symbols at the last known settlement `date`, `ageDays` ago: sharesShort, ratio "
        "(days to cover), ofFloat and ofOutstanding (fractions), change since the settlement before. Published twice a "
        "month with a delay of some ten days."
    ),
    arguments=ShortInterestArguments,
    function=short_interest,
    answer=ShortInterestAnswer,
)
