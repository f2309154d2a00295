"""What Yahoo knows of companies beside their prices, as the desk's rows, cached by symbol and kind."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Literal, TypeVar

from pydantic import ValidationError

from chordesk.models.answers import Wire
from chordesk.models.company import (
    EarningsDate,
    Holder,
    InsiderTrade,
    PriceTargets,
    RatingChange,
    ShortInterest,
    Timing,
)
from chordesk.models.errors import DeskError, MarketError, NotConfigured
from chordesk.models.market import Headline, Listing
from chordesk.models.text import NEW_YORK
from chordesk.tools.market.fetching import AgedCache, Kept
from chordesk.tools.market.protocol import MarketClock
from chordesk.tools.market.yahoo.wire import Section, YahooWire, headlines_of, plain, section_of

# Conversion of what yfinance gives of a company to plain rows, and of those to the desk's. Fields that Yahoo leaves
# out stay out; a row without its date or its subject is left out.

W = TypeVar("W", bound=Wire)
Row = Mapping[str, Any]

_OPEN, _CLOSE = dt.time(9, 30), dt.time(16, 0)


def reports_of(frame: Any) -> list[Section]:
    """Return the rows of the earnings calendar, times as ISO texts; [] where Yahoo lists none."""
    if frame is None:
        return []
    names = {"estimate": "EPS Estimate", "actual": "Reported EPS"}
    return [
        {"at": stamp.isoformat(), **{ours: plain(row.get(theirs)) for ours, theirs in names.items()}}
        for stamp, row in zip(frame.index, frame.to_dict("records"), strict=True)
    ]


def earnings_of(symbol: str, reports: Iterable[Row], info: Row, at: dt.datetime) -> list[EarningsDate]:
    """Return one row a date: those of the calendar, and the next date of `info`, which may be a window."""
    upcoming = _upcoming(symbol, info, at)
    found = {row.date: row for row in upcoming}
    for report in reports:
        moment = dt.datetime.fromisoformat(str(report["at"])).astimezone(NEW_YORK)
        day = moment.date()
        given = {"eps_estimate": report["estimate"], "eps_actual": report["actual"]}
        made = _made(EarningsDate, symbol=symbol, date=day, timing=_timing(moment), known_at=at, **given)
        found |= {row.date: _with_window(row, found.get(day)) for row in made}
    return list(found.values())


def _upcoming(symbol: str, info: Row, at: dt.datetime) -> list[EarningsDate]:
    start, end = (_moment(info.get(name)) for name in ("earningsTimestampStart", "earningsTimestampEnd"))
    if start is None:
        return []
    until = end.date() if end is not None and end.date() > start.date() else None
    estimated = info.get("isEarningsDateEstimate")
    timing = _timing(start) if until is None else None
    confirmed = not estimated if isinstance(estimated, bool) else None
    return _made(
        EarningsDate, symbol=symbol, date=start.date(), until=until, timing=timing, confirmed=confirmed, known_at=at
    )


def _with_window(row: EarningsDate, other: EarningsDate | None) -> EarningsDate:
    return row if other is None else row.model_copy(update={"until": other.until, "confirmed": other.confirmed})


def _timing(moment: dt.datetime) -> Timing | None:
    """Return where in New York's day a report is; None for midnight, which stands for an hour that is not known."""
    time = moment.time()
    if time == dt.time():
        return None
    if time < _OPEN:
        return "beforeOpen"
    return "afterClose" if time >= _CLOSE else "duringSession"


def short_interest_of(symbol: str, info: Row, at: dt.datetime) -> list[ShortInterest]:
    """Return the newest settlement of `info`; [] where Yahoo gives no date or no shares of it."""
    day, prior = (_utc_day(info.get(name)) for name in ("dateShortInterest", "sharesShortPreviousMonthDate"))
    figures = {
        "shares_short": "sharesShort",
        "ratio": "shortRatio",
        "of_float": "shortPercentOfFloat",
        "of_outstanding": "sharesPercentSharesOut",
        "prior_shares_short": "sharesShortPriorMonth",
    }
    given = {ours: plain(info.get(theirs)) for ours, theirs in figures.items()}
    return _made(ShortInterest, symbol=symbol, date=day, prior_date=prior, known_at=at, **given)


def changes_of(frame: Any) -> list[Section]:
    """Return the rows of the rating history, times as ISO texts in UTC; [] where Yahoo has none."""
    if frame is None:
        return []
    names = ("Firm", "ToGrade", "FromGrade", "Action", "currentPriceTarget", "priorPriceTarget")
    return [
        {"at": stamp.replace(tzinfo=dt.UTC).isoformat(), **{name: plain(row.get(name)) for name in names}}
        for stamp, row in zip(frame.index, frame.to_dict("records"), strict=True)
    ]


def rating_changes_of(symbol: str, rows: Iterable[Row]) -> list[RatingChange]:
    """Return the changes, each known from its own time on; a target of 0 is none."""
    return [
        made
        for row in rows
        for made in _made(
            RatingChange,
            symbol=symbol,
            firm=row["Firm"],
            action=row["Action"],
            rating=row["ToGrade"],
            prior_rating=row["FromGrade"],
            target=row["currentPriceTarget"] or None,
            prior_target=row["priorPriceTarget"] or None,
            known_at=dt.datetime.fromisoformat(str(row["at"])),
        )
    ]


def price_targets_of(symbol: str, info: Row, at: dt.datetime) -> list[PriceTargets]:
    """Return the targets of `info`; [] where Yahoo gives no target and no rating."""
    figures = {
        "mean": "targetMeanPrice",
        "median": "targetMedianPrice",
        "low": "targetLowPrice",
        "high": "targetHighPrice",
        "analysts": "numberOfAnalystOpinions",
        "rating": "recommendationKey",
        "mean_rating": "recommendationMean",
    }
    given = {ours: plain(info.get(theirs)) for ours, theirs in figures.items()}
    known = any(value is not None for name, value in given.items() if name != "analysts")
    return _made(PriceTargets, symbol=symbol, known_at=at, **given) if known else []


def trades_of(frame: Any) -> list[Section]:
    """Return the rows of the insiders' transactions, dates as ISO texts."""
    return _rows(frame, "Start Date", ("Insider", "Position", "Text", "Shares", "Value"))


def insider_trades_of(symbol: str, rows: Iterable[Row], at: dt.datetime) -> list[InsiderTrade]:
    return [
        made
        for row in rows
        for made in _made(
            InsiderTrade,
            symbol=symbol,
            date=row["date"],
            insider=row["Insider"],
            position=row["Position"],
            side=_side(row["Text"]),
            shares=row["Shares"],
            value=row["Value"],
            text=row["Text"],
            known_at=at,
        )
    ]


def _side(text: object) -> Literal["buy", "sell"] | None:
    """Return the side of a trade in the market, which Yahoo's text begins with."""
    begins: Callable[[str], bool] = str(text).startswith
    return "sell" if begins("Sale") else "buy" if begins("Purchase") else None


def holdings_of(frame: Any) -> list[Section]:
    """Return the rows of the institutional holders, dates as ISO texts."""
    return _rows(frame, "Date Reported", ("Holder", "Shares", "pctHeld", "pctChange"))


def holders_of(symbol: str, rows: Iterable[Row], at: dt.datetime) -> list[Holder]:
    return [
        made
        for row in rows
        for made in _made(
            Holder,
            symbol=symbol,
            date=row["date"],
            holder=row["Holder"],
            shares=row["Shares"],
            of_outstanding=row["pctHeld"],
            change=row["pctChange"],
            known_at=at,
        )
    ]


def _rows(frame: Any, date: str, names: Iterable[str]) -> list[Section]:
    if frame is None or frame.empty:
        return []
    wanted = tuple(names)
    records = [row for row in frame.to_dict("records") if row[date] == row[date]]
    return [
        {"date": row[date].date().isoformat(), **{name: plain(row.get(name)) for name in wanted}} for row in records
    ]


def _made(kind: type[W], **fields: Any) -> list[W]:
    """Return the row in a list; [] when Yahoo's figures make no such row, such as one without a date."""
    try:
        return [kind.model_validate(fields)]
    except ValidationError:
        return []


def _moment(value: Any) -> dt.datetime | None:
    seconds = plain(value)
    return dt.datetime.fromtimestamp(seconds, NEW_YORK) if isinstance(seconds, float) else None


def _utc_day(value: Any) -> dt.date | None:
    """Return the date that Yahoo writes as the midnight of UTC."""
    seconds = plain(value)
    return dt.datetime.fromtimestamp(seconds, dt.UTC).date() if isinstance(seconds, float) else None


NEWS_AGE = dt.timedelta(minutes=10)
RESEARCH_AGE = dt.timedelta(hours=6)
INFO_AGE = dt.timedelta(hours=12)
_NEWS_COUNT = 25


class YahooCompanies:
    """The part of Yahoo's market that is no price. What Yahoo has of now alone is refused under a clock that stands on
    a past day; without a publication time of its own, a row was known when it was fetched."""

    name = "yahoo"

    def __init__(self, home: Path, clock: MarketClock, wire: YahooWire) -> None:
        self.clock = clock
        self._wire = wire
        self._cache = AgedCache(home / "cache" / "yahoo")

    def listing(self, symbol: str) -> Listing:
        info = self._info(symbol).value
        name = info.get("longName") or info.get("shortName")
        return Listing(symbol=symbol, name=name, sector=info.get("sector"), industry=info.get("industry"))

    def headlines(self, symbol: str, limit: int) -> list[Headline]:
        stream = self._cache.get(f"news-{symbol}", NEWS_AGE, lambda: self._wire.news(symbol, _NEWS_COUNT)).value
        now = self.clock.now()
        published = [row for row in headlines_of(symbol, stream) if row.published_at <= now]
        return sorted(published, key=lambda row: row.published_at, reverse=True)[:limit]

    def section(self, symbol: str, section: str) -> Section:
        """Return the section with `knownAt`, when it was fetched."""
        kept = self._info(symbol)
        found = section_of(kept.value, section)
        if found is None:
            raise MarketError(f"Yahoo has no {section} of {symbol}")
        return {**found, "knownAt": self._at(kept).isoformat()}

    def earnings(self, symbol: str) -> list[EarningsDate]:
        """Return the dates of the earnings calendar and of the company's own page: what one of them has, where the
        other fails. Raises the calendar's error when both do."""
        self._require_now("earnings dates")
        failed: list[DeskError] = []
        reports: Kept | None = None
        info: Kept | None = None
        try:
            reports = self._kept("earnings", symbol, lambda: reports_of(self._wire.earnings(symbol)))
        except DeskError as error:
            failed.append(error)
        try:
            info = self._info(symbol)
        except DeskError as error:
            failed.append(error)
        if reports is None and info is None:
            raise failed[0]
        at = min(self._at(kept) for kept in (reports, info) if kept is not None)
        return earnings_of(symbol, reports.value if reports else [], info.value if info else {}, at)

    def short_interest(self, symbol: str) -> list[ShortInterest]:
        self._require_now("short interest")
        info = self._info(symbol)
        return short_interest_of(symbol, info.value, self._at(info))

    def rating_changes(self, symbol: str) -> list[RatingChange]:
        self._require_now("analyst ratings")
        kept = self._kept("ratings", symbol, lambda: changes_of(self._wire.ratings(symbol)))
        return rating_changes_of(symbol, kept.value)

    def price_targets(self, symbol: str) -> list[PriceTargets]:
        self._require_now("analyst ratings")
        info = self._info(symbol)
        return price_targets_of(symbol, info.value, self._at(info))

    def insider_trades(self, symbol: str) -> list[InsiderTrade]:
        self._require_now("insider trades")
        kept = self._owners(symbol)
        return insider_trades_of(symbol, kept.value["trades"], self._at(kept))

    def holders(self, symbol: str) -> list[Holder]:
        self._require_now("institutional holders")
        kept = self._owners(symbol)
        return holders_of(symbol, kept.value["holders"], self._at(kept))

    def _require_now(self, what: str) -> None:
        if self.clock.day is not None:
            raise NotConfigured(f"not available in a replay: Yahoo has the {what} of now alone, none of a past day")

    def _at(self, kept: Kept) -> dt.datetime:
        return min(kept.at, self.clock.now())

    def _kept(self, kind: str, symbol: str, fetch: Callable[[], Any]) -> Kept:
        return self._cache.get(f"{kind}-{symbol}", RESEARCH_AGE, fetch)

    def _info(self, symbol: str) -> Kept:
        return self._cache.get(f"info-{symbol}", INFO_AGE, lambda: self._wire.info(symbol))

    def _owners(self, symbol: str) -> Kept:
        """Return insiders' trades and institutions' holdings, which Yahoo gives in one answer."""
        return self._kept("owners", symbol, lambda: self._fetch_owners(symbol))

    def _fetch_owners(self, symbol: str) -> dict[str, list[Section]]:
        trades, holders = self._wire.owners(symbol)
        return {"trades": trades_of(trades), "holders": holdings_of(holders)}
