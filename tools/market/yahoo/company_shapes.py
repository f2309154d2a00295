"""Conversion of what yfinance gives of a company to plain rows, and of those to the desk's. Fields that Yahoo leaves
out stay out; a row without its date or its subject is left out."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal, TypeVar

from pydantic import ValidationError

from chordesk.models.company import (
    EarningsDate,
    Holder,
    InsiderTrade,
    PriceTargets,
    RatingChange,
    ShortInterest,
    Timing,
)
from chordesk.models.research import Wire
from chordesk.tools.market.clock import NEW_YORK
from chordesk.tools.market.yahoo.shapes import Section, plain

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
