"""What Yahoo knows of companies beside their prices, as the desk's rows, cached by symbol and kind."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
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

# Conversion of what yfinance gives of a company to plain rows under the desk's names, and of those to the desk's rows.
# Fields that Yahoo leaves out stay out; a row without its date or its subject is left out.

W = TypeVar("W", bound=Wire)
Row = Mapping[str, Any]

_OPEN, _CLOSE = dt.time(9, 30), dt.time(16, 0)
_REPORTS = {"eps_estimate": "EPS Estimate", "eps_actual": "Reported EPS"}
_CHANGES = {
    "firm": "Firm", "rating": "ToGrade", "prior_rating": "FromGrade", "action": "Action",
    "target": "currentPriceTarget", "prior_target": "priorPriceTarget",
}  # fmt: skip
_TRADES = {"insider": "Insider", "position": "Position", "text": "Text", "shares": "Shares", "value": "Value"}
_HOLDINGS = {"holder": "Holder", "shares": "Shares", "of_outstanding": "pctHeld", "change": "pctChange"}
_SHORTS = {
    "shares_short": "sharesShort", "ratio": "shortRatio", "of_float": "shortPercentOfFloat",
    "of_outstanding": "sharesPercentSharesOut", "prior_shares_short": "sharesShortPriorMonth",
}  # fmt: skip
_TARGETS = {
    "mean": "targetMeanPrice", "median": "targetMedianPrice", "low": "targetLowPrice", "high": "targetHighPrice",
    "analysts": "numberOfAnalystOpinions", "rating": "recommendationKey", "mean_rating": "recommendationMean",
}  # fmt: skip


def _rows(frame: Any, names: Mapping[str, str], date: str | None = None) -> list[Section]:
    """Return the rows of a frame under our names, with the time `at` as ISO text, out of a column or the index."""
    if frame is None or frame.empty:
        return []
    stamps = frame.index if date is None else frame[date]
    return [
        {"at": stamp.isoformat(), **_named(row, names)}
        for stamp, row in zip(stamps, frame.to_dict("records"), strict=True)
        if stamp == stamp
    ]


def _named(row: Row, names: Mapping[str, str]) -> dict[str, Any]:
    return {ours: plain(row.get(theirs)) for ours, theirs in names.items()}


def _made(kind: type[W], rows: Iterable[Row], **common: Any) -> list[W]:
    """Return rows of the desk; one that Yahoo's figures do not make, such as one without a date, is left out."""
    made = []
    for row in rows:
        with suppress(ValidationError):
            made.append(kind.model_validate({**common, **row}))
    return made


def _dated(rows: Iterable[Row]) -> list[Section]:
    return [{"date": str(row["at"])[:10], **{name: row[name] for name in row if name != "at"}} for row in rows]


def earnings_of(symbol: str, reports: Iterable[Row], info: Row, at: dt.datetime) -> list[EarningsDate]:
    """Return one row a date: those of the calendar, and the next date of `info`, which may be a window."""
    found = {row.date: row for row in _made(EarningsDate, _upcoming(info), symbol=symbol, known_at=at)}
    for report in reports:
        moment = dt.datetime.fromisoformat(str(report["at"])).astimezone(NEW_YORK)
        named = {name: value for name, value in report.items() if name != "at"}
        row = {"date": moment.date(), "timing": _timing(moment), **named}
        if (other := found.get(moment.date())) is not None:
            row |= {"until": other.until, "confirmed": other.confirmed}
        found |= {made.date: made for made in _made(EarningsDate, [row], symbol=symbol, known_at=at)}
    return list(found.values())


def _upcoming(info: Row) -> list[Row]:
    start, end = (_moment(info.get(name), NEW_YORK) for name in ("earningsTimestampStart", "earningsTimestampEnd"))
    if start is None:
        return []
    until = end.date() if end is not None and end.date() > start.date() else None
    estimated = info.get("isEarningsDateEstimate")
    confirmed = not estimated if isinstance(estimated, bool) else None
    timing = _timing(start) if until is None else None
    return [{"date": start.date(), "until": until, "timing": timing, "confirmed": confirmed}]


def _timing(moment: dt.datetime) -> Timing | None:
    """Return where in New York's day a report is; None for midnight, which stands for an hour that is not known."""
    time = moment.time()
    if time == dt.time():
        return None
    if time < _OPEN:
        return "beforeOpen"
    return "afterClose" if time >= _CLOSE else "duringSession"


def _side(text: object) -> Literal["buy", "sell"] | None:
    begins: Callable[[str], bool] = str(text).startswith
    return "sell" if begins("Sale") else "buy" if begins("Purchase") else None


def _moment(value: Any, zone: dt.tzinfo) -> dt.datetime | None:
    seconds = plain(value)
    return dt.datetime.fromtimestamp(seconds, zone) if isinstance(seconds, float) else None


def _utc(text: str) -> dt.datetime:
    return dt.datetime.fromisoformat(text).replace(tzinfo=dt.UTC)


def _utc_day(value: Any) -> dt.date | None:
    """Return the date that Yahoo writes as the midnight of UTC."""
    moment = _moment(value, dt.UTC)
    return moment and moment.date()


NEWS_AGE = dt.timedelta(minutes=10)
RESEARCH_AGE = dt.timedelta(hours=6)
INFO_AGE = dt.timedelta(hours=12)
_NEWS_COUNT = 25


class YahooCompanies:
    """What Yahoo has beside prices. What it has of now alone is refused under a clock that stands on
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
        kept = self._info(symbol)
        found = section_of(kept.value, section)
        if found is None:
            raise MarketError(f"Yahoo has no {section} of {symbol}")
        return {**found, "knownAt": self._at(kept).isoformat()}

    def earnings(self, symbol: str) -> list[EarningsDate]:
        """Dates of the calendar and of the company's page: what one of them has where the other fails. Raises if both
        fail."""
        self._require_now("earnings dates")
        asks: Sequence[Callable[[str], Kept]] = (self._reports, self._info)
        found: list[Kept | None] = []
        failed: list[DeskError] = []
        for ask in asks:
            try:
                found.append(ask(symbol))
            except DeskError as error:
                found.append(None)
                failed.append(error)
        reports, info = found
        if reports is None and info is None:
            raise failed[0]
        at = min(self._at(kept) for kept in found if kept is not None)
        return earnings_of(symbol, reports.value if reports else [], info.value if info else {}, at)

    def short_interest(self, symbol: str) -> list[ShortInterest]:
        self._require_now("short interest")
        info = self._info(symbol)
        days = {"date": "dateShortInterest", "prior_date": "sharesShortPreviousMonthDate"}
        dated = {ours: _utc_day(info.value.get(theirs)) for ours, theirs in days.items()}
        row = dated | _named(info.value, _SHORTS)
        return _made(ShortInterest, [row], symbol=symbol, known_at=self._at(info))

    def rating_changes(self, symbol: str) -> list[RatingChange]:
        """Return the changes, each known from its own time on; a target of 0 is left out."""
        self._require_now("analyst ratings")
        kept = self._kept("grades", symbol, lambda symbol: _rows(self._wire.ratings(symbol), _CHANGES))
        return [
            made
            for at, row in ((row["at"], {name: row[name] or None for name in _CHANGES}) for row in kept.value)
            for made in _made(RatingChange, [row], symbol=symbol, known_at=_utc(at))
        ]

    def price_targets(self, symbol: str) -> list[PriceTargets]:
        self._require_now("analyst ratings")
        info = self._info(symbol)
        given = _named(info.value, _TARGETS)
        known = any(value is not None for name, value in given.items() if name != "analysts")
        return _made(PriceTargets, [given] if known else [], symbol=symbol, known_at=self._at(info))

    def insider_trades(self, symbol: str) -> list[InsiderTrade]:
        kept = self._owners("insider trades", symbol)
        rows = [{**row, "side": _side(row["text"])} for row in _dated(kept.value["trades"])]
        return _made(InsiderTrade, rows, symbol=symbol, known_at=self._at(kept))

    def holders(self, symbol: str) -> list[Holder]:
        kept = self._owners("institutional holders", symbol)
        return _made(Holder, _dated(kept.value["holders"]), symbol=symbol, known_at=self._at(kept))

    def _require_now(self, what: str) -> None:
        if self.clock.day is not None:
            raise NotConfigured(f"not available in a replay: Yahoo has the {what} of now alone, none of a past day")

    def _at(self, kept: Kept) -> dt.datetime:
        return min(kept.at, self.clock.now())

    def _kept(self, kind: str, symbol: str, fetch: Callable[[str], Any]) -> Kept:
        return self._cache.get(f"{kind}-{symbol}", RESEARCH_AGE, lambda: fetch(symbol))

    def _info(self, symbol: str) -> Kept:
        return self._cache.get(f"info-{symbol}", INFO_AGE, lambda: self._wire.info(symbol))

    def _owners(self, what: str, symbol: str) -> Kept:
        self._require_now(what)
        return self._kept("owned", symbol, self._fetch_owners)

    def _reports(self, symbol: str) -> Kept:
        return self._kept("reports", symbol, lambda symbol: _rows(self._wire.earnings(symbol), _REPORTS))

    def _fetch_owners(self, symbol: str) -> dict[str, list[Section]]:
        trades, holders = self._wire.owners(symbol)
        return {"trades": _rows(trades, _TRADES, "Start Date"), "holders": _rows(holders, _HOLDINGS, "Date Reported")}
