"""A company's statements as first reported, and the valuation that they and a price come to: nothing filed later."""

from __future__ import annotations

import calendar
import datetime as dt
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from chordesk.models.company import Statement
from chordesk.models.errors import DeskError, MarketError
from chordesk.tools.decimals import rounded
from chordesk.tools.market.clock import clock_day
from chordesk.tools.market.prices import splits_since, traded_bars
from chordesk.tools.market.protocol import MarketData

# What a figure is called in statements, by our name: in small letters and digits alone.
ITEMS: Mapping[str, tuple[str, ...]] = {
    "revenue": ("revenues", "revenue", "totalrevenue", "sales", "netsales"),
    "netIncome": ("netincomeloss", "netincome", "netincomelossattributabletoparent"),
    "eps": ("dilutedearningspershare", "epsdiluted", "dilutedeps", "eps", "basicearningspershare", "epsbasic"),
    "shares": ("dilutedaverageshares", "sharesdiluted", "sharesoutstanding", "shares", "basicaverageshares"),
    "equity": ("equityattributabletoparent", "stockholdersequity", "shareholdersequity", "equity"),
    "operatingCashFlow": ("netcashflowfromoperatingactivities", "operatingcashflow"),
    "assets": ("assets", "totalassets"),
    "liabilities": ("liabilities", "totalliabilities"),
}
_ITEM_OF = {name: (ours, rank) for ours, names in ITEMS.items() for rank, name in enumerate(names)}
_PLAIN = re.compile(r"[^a-z0-9]")
_PAST, _SHOWN_PAST = 8, 3  # filings of a valuation's history: those of its percentiles, and those that are shown
_SOON = dt.timedelta(days=5)  # from a filing to a bar that is of its day
_QUARTER, _YEAR = (80, 100), (350, 380)  # days
# SEC: at most 90 days to a year's report and 45 to a quarter's; of large companies 60 and 40, so that a year's takes 20
# days more. Grace: days late beside a company's own time.
_REPORT_DAYS, _OF_A_YEAR, _GRACE = 90, 20, 7
_FOUR_QUARTERS = (260, 290)  # days from the end of the first to that of the fourth


class Period(NamedTuple):
    """Figures of one period by our names, as first filed. length: days of its flows, None where no start is given;
    restated: names of which a later filing has another value."""

    end: dt.date
    length: int | None
    filed: dt.date
    figures: Mapping[str, float]
    restated: tuple[str, ...]


def periods(rows: Sequence[Statement]) -> list[Period]:
    """Return the periods of rows that are known, the newest first; of several lengths that end on a day the
    shortest. A figure that has two names in a filing is that of the preferred one."""
    grouped: dict[dt.date, dict[int | None, dict[str, list[tuple[dt.date, int, float]]]]] = defaultdict(dict)
    for row in rows:
        named = _ITEM_OF.get(_PLAIN.sub("", row.item.lower()))
        if named is not None:
            ours, rank = named
            length = (row.period - row.start).days + 1 if row.start is not None else None
            grouped[row.period].setdefault(length, {}).setdefault(ours, []).append((row.filed, rank, row.value))
    found = []
    for end in sorted(grouped, reverse=True):
        lengths = grouped[end]
        length = min((one for one in lengths if one is not None), default=None)
        figures = {**lengths.get(None, {}), **(lengths[length] if length is not None else {})}
        first = {name: min(given) for name, given in figures.items()}
        restated = tuple(name for name, given in figures.items() if _is_restated(first[name], given))
        filed = min(one[0] for one in first.values())
        found.append(Period(end, length, filed, {name: first[name][2] for name in ITEMS if name in first}, restated))
    return found


def _is_restated(first: tuple[dt.date, int, float], given: Sequence[tuple[dt.date, int, float]]) -> bool:
    return any(filed > first[0] and rank == first[1] and value != first[2] for filed, rank, value in given)


def standing(known: Sequence[Period], today: dt.date) -> dict[str, str]:
    """Return the newest period with its age, and under `absent` the later reports that should be there by today.

    A report is due as many days after its period's end as that of a year before was, and a week. Where that one is not
    known it may be the report of a fiscal year: the longest that a quarter's took, 20 days and a week; without a
    quarter, 90 days, the most that the SEC allows. Periods end a quarter apart, or a year where a company's are all
    years. Only rows that were filed by today may be among `known`.
    """
    newest = known[0]
    noun = _noun(newest.length)
    found = {"newest": f"{noun} to {newest.end}, {(today - newest.end).days} days old"}
    yearly = all(one.length is not None and _YEAR[0] <= one.length <= _YEAR[1] for one in known)
    late, end = list[dt.date](), newest.end
    while len(late) < _MOST_LATE:
        end = _later(end, 12 if yearly else 3)
        if today <= end + dt.timedelta(days=_days_to_report(known, end)):
            break
        late.append(end)
    if late:
        what = "year" if yearly else "quarter"
        ends = " and ".join(str(one) if _is_month_end(one) else f"about {one}" for one in late)
        plural = len(late) > 1
        found["absent"] = (
            f"the report{'s' * plural} of the {what}{'s' * plural} to {ends} {'are' if plural else 'is'} not there"
        )
    return found


_MOST_LATE = 4


def _days_to_report(known: Sequence[Period], end: dt.date) -> int:
    took = [(one.filed - one.end).days for one in known if _YEAR[0] <= (end - one.end).days <= _YEAR[1]][:1]
    if not took:
        quarters = [one for one in known if _noun(one.length) == "quarter"]
        took = [max((one.filed - one.end).days for one in quarters) + _OF_A_YEAR] if quarters else [_REPORT_DAYS]
    return min(took[0] + _GRACE, _REPORT_DAYS)


def _noun(length: int | None) -> str:
    if length is None or not (_QUARTER[0] <= length <= _QUARTER[1] or _YEAR[0] <= length <= _YEAR[1]):
        return "period"
    return "quarter" if length <= _QUARTER[1] else "year"


def _is_month_end(day: dt.date) -> bool:
    return day.day == calendar.monthrange(day.year, day.month)[1]


def _later(end: dt.date, months: int) -> dt.date:
    """Return the end of the period so many months later: of a month's end a month's end, of a fiscal year of weeks the
    same weekday after 13 weeks a quarter, which a year of 53 weeks makes a week too early."""
    if not _is_month_end(end):
        return end + dt.timedelta(weeks=13 * months // 3)
    month = end.month - 1 + months
    year, month = end.year + month // 12, month % 12 + 1
    return dt.date(year, month, calendar.monthrange(year, month)[1])


def fundamentals_part(market: MarketData, symbol: str, rows: Sequence[Statement]) -> dict[str, Any]:
    """Return growth on the year, profit margin and price to earnings over the last year, None where unknown or, for
    the last, without a profit or a price. Raises MarketError without a figure that has a name of ours."""
    known = _known(symbol, rows)
    (earned, _), (sales, _) = year_of(known, "netIncome"), year_of(known, "revenue")
    margin = rounded(earned / sales) if earned is not None and sales is not None and sales > 0 else None
    try:
        price = float(traded_bars(market, symbol, 1).close[-1])
    except DeskError:
        ratio = None
    else:
        ratio, _ = _price_to_earnings(market, symbol, known, price)
    figures = {**_growths(known), "profitMargin": margin, "trailingPE": ratio}
    return {**figures, **standing(known, clock_day(market.clock)), "knownAt": _known_at(rows)}


def statements_part(symbol: str, rows: Sequence[Statement], today: dt.date) -> dict[str, Any]:
    """Return the newest period and the same of the year before, or the one before where that is not there, and growth
    on the year. Raises MarketError without a figure that has a name of ours."""
    known = _known(symbol, rows)
    shown = [
        {"period": one.end.isoformat(), "days": one.length, "filed": one.filed.isoformat(), **_shown(one.figures)}
        | ({"restatedLater": list(one.restated)} if one.restated else {})
        for one in (known[0], _year_before(known) or next(iter(known[1:]), None))
        if one is not None
    ]
    return {**_growths(known), **standing(known, today), "periods": shown, "knownAt": _known_at(rows)}


def _known(symbol: str, rows: Sequence[Statement]) -> list[Period]:
    if not (known := periods(rows)):
        raise MarketError(f"the statements of {symbol} have none of {', '.join(ITEMS)}" if rows else _none(symbol))
    return known


def _known_at(rows: Sequence[Statement]) -> str:
    return max(row.known_at for row in rows).isoformat()


def _growths(known: Sequence[Period]) -> dict[str, float | None]:
    return {f"{name}Growth": _growth(known, name) for name in ("revenue", "eps", "netIncome")}


def _shown(found: Mapping[str, float]) -> dict[str, float]:
    """Return figures whose whole amounts are written without a fraction."""
    return {name: int(value) if value.is_integer() else value for name, value in found.items()}


def _none(symbol: str) -> str:
    return f"the source has no statements of {symbol} up to now"


def _growth(known: Sequence[Period], name: str) -> float | None:
    """Return value / that of the period a year before - 1; None where one is missing or the base is not positive."""
    newest, before = known[0], _year_before(known)
    if before is None or name not in newest.figures or before.figures.get(name, 0) <= 0:
        return None
    return rounded(newest.figures[name] / before.figures[name] - 1)


def _year_before(known: Sequence[Period]) -> Period | None:
    newest = known[0]
    year = (one for one in known if one.length == newest.length or _same(one.length, newest.length))
    return next((one for one in year if _YEAR[0] <= (newest.end - one.end).days <= _YEAR[1]), None)


def _same(first: int | None, second: int | None) -> bool:
    return first is not None and second is not None and abs(first - second) <= _QUARTER[1] - _QUARTER[0]


def year_of(known: Sequence[Period], name: str) -> tuple[float | None, str]:
    """Return (a flow over the last year, "") from a year's period, four quarters in a row, or a year's period and the
    quarters since; or (None, why not). known: the newest first."""
    having = [one for one in known if name in one.figures]
    if not having:
        return None, f"no period has {name}"
    newest = having[0]
    if newest.length is not None and _YEAR[0] <= newest.length <= _YEAR[1]:
        return newest.figures[name], ""
    quarters = [one for one in having if one.length is None or _QUARTER[0] <= one.length <= _QUARTER[1]][:4]
    if len(quarters) == 4 and _FOUR_QUARTERS[0] <= (quarters[0].end - quarters[3].end).days <= _FOUR_QUARTERS[1]:
        return sum(one.figures[name] for one in quarters), ""
    if (rolled := _rolled(having, name)) is not None:
        return rolled, ""
    ends = ", ".join(one.end.isoformat() for one in quarters)
    return None, f"{name} of a year needs four quarters in a row, and there are those that end on {ends}"


def _rolled(having: Sequence[Period], name: str) -> float | None:
    """Return the last fiscal year with the quarters since in place of those of the year before: an annual report has
    no fourth quarter. None where one of them is missing."""
    year = next((one for one in having if one.length is not None and _YEAR[0] <= one.length <= _YEAR[1]), None)
    if year is None:
        return None
    quarters = [one for one in having if one.length is not None and _QUARTER[0] <= one.length <= _QUARTER[1]]
    since = [one for one in quarters if one.end > year.end]
    before = [
        next((old for old in quarters if _YEAR[0] <= (one.end - old.end).days <= _YEAR[1]), None) for one in since
    ]
    in_a_row = since and _QUARTER[0] <= (since[0].end - year.end).days / len(since) <= _QUARTER[1]
    if not in_a_row or None in before:
        return None
    return (
        year.figures[name] + sum(one.figures[name] for one in since) - sum(one.figures[name] for one in before if one)
    )


def valuation_part(market: MarketData, symbol: str, rows: Sequence[Statement]) -> dict[str, Any]:
    """Return price to earnings, to book and to sales now, and of the newest filings on their own days: prices as traded
    and shares of today. Raises MarketError where no ratio can be made."""
    known = periods(rows)
    if not known:
        raise MarketError(_none(symbol))
    bars = traded_bars(market, symbol, 252 * 3)
    closes = dict(zip(bars.dates, bars.close.tolist(), strict=True))
    now, lacks = _ratios(market, symbol, known, float(bars.close[-1]))
    if not now:
        raise MarketError(f"no valuation of {symbol}: {'; '.join(lacks)}")
    past = list[tuple[dt.date, dict[str, float]]]()
    for at in sorted({one.filed for one in known}, reverse=True)[:_PAST]:
        day = next((one for one in bars.dates if at <= one <= at + _SOON), None)
        if day is None:
            continue
        ratios, _ = _ratios(market, symbol, [one for one in known if one.filed <= at], closes[day])
        if ratios:
            past.append((day, ratios))
    percentiles = {
        f"{name}Percentile": rounded(sum(one <= value for one in before) / len(before), 2)
        for name, value in now.items()
        if len(before := [ratios[name] for _, ratios in past if name in ratios]) > 1
    }
    history = [{"day": day.isoformat(), **ratios} for day, ratios in past[:_SHOWN_PAST]]
    aged = standing(known, clock_day(market.clock))
    found = {**now, **percentiles, **aged, "history": history, "knownAt": _known_at(rows)}
    return {**found, "lacks": lacks} if lacks else found


def ratios_now(market: MarketData, symbol: str, rows: Sequence[Statement], today: dt.date) -> dict[str, float]:
    """Return the ratios at the price of the latest session; none of a name that has no bar of it or whose newest
    period is older than a year and the longest time to its report."""
    known = periods(rows)
    if not known or (today - known[0].end).days > _YEAR[1] + _REPORT_DAYS:
        return {}
    bars = traded_bars(market, symbol, 1)
    if not len(bars) or bars.dates[-1] != market.clock.session():
        return {}
    return _ratios(market, symbol, known, float(bars.close[-1]))[0]


def _ratios(
    market: MarketData, symbol: str, known: Sequence[Period], price: float
) -> tuple[dict[str, float], list[str]]:
    """Return (ratios by name, why others are missing)."""
    factor = splits_since(market, symbol, known[0].filed)
    earnings, no_earnings = _price_to_earnings(market, symbol, known, price)
    sales, no_sales = year_of(known, "revenue")
    shares = next((one.figures["shares"] for one in known if "shares" in one.figures), None)
    equity = next((one.figures["equity"] for one in known if "equity" in one.figures), None)
    found, lacks = dict[str, float](), list[str]()
    if earnings is None:
        lacks.append(f"priceToEarnings: {no_earnings}")
    else:
        found["priceToEarnings"] = earnings
    if shares is None or shares <= 0:
        lacks.append("priceToBook, priceToSales: no period has shares")
        return found, lacks
    worth = price * factor * shares
    if equity is None or equity <= 0:
        lacks.append("priceToBook: no period has a positive equity")
    else:
        found["priceToBook"] = round(worth / equity, 2)
    if sales is None or sales <= 0:
        lacks.append(f"priceToSales: {no_sales or 'no sales'}")
    else:
        found["priceToSales"] = round(worth / sales, 2)
    return found, lacks


def _price_to_earnings(
    market: MarketData, symbol: str, known: Sequence[Period], price: float
) -> tuple[float | None, str]:
    earned, why = year_of(known, "eps")
    if earned is None or earned <= 0:
        return None, why or "no profit over the last year"
    return round(price * splits_since(market, symbol, known[0].filed) / earned, 2), ""
