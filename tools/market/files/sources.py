"""Exports that are recognised by their headings, and which of their columns mean something else than elsewhere."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

OPEN, HIGH, LOW, CLOSE = "open", "high", "low", "close"
_OHLC = frozenset({OPEN, HIGH, LOW, CLOSE})
_ADJUSTED = {name: f"adj{name}" for name in _OHLC}


class Source(NamedTuple):
    """A kind of export. headings: in plain small letters and digits, all of them there, and none of `without`. means:
    what headings are called here. shown: as the source writes its first line."""

    name: str
    shown: str
    headings: frozenset[str]
    without: frozenset[str] = frozenset()
    means: Mapping[str, str] = {}
    note: str = ""


def _source(name: str, shown: str, headings: str, without: str = "", note: str = "", **means: str) -> Source:
    return Source(name, shown, frozenset(headings.split()), frozenset(without.split()), means, note)


# The first that fits counts: those with more headings stand above those with fewer.
SOURCES = (
    _source(
        "Investing.com",
        "Date, Price, Open, High, Low, Vol., Change %",
        "date price open high low",
        "close",
        price=CLOSE,
    ),
    _source(
        "Investing.com (German)",
        "Datum, Zuletzt, Eröffn., Hoch, Tief, Vol., +/- %",
        "datum zuletzt eroffn hoch tief",
        datum="date",
        zuletzt=CLOSE,
        eroffn=OPEN,
        hoch=HIGH,
        tief=LOW,
    ),
    _source(
        "EODHD",
        "Date, Open, High, Low, Close, Adjusted_close, Volume",
        "date open high low close adjustedclose",
        "timestamp",
    ),
    _source(
        "Alpha Vantage",
        "timestamp, open, high, low, close, [adjusted_close,] volume, [dividend_amount, split_coefficient]",
        "timestamp open high low close volume",
        "date",
    ),
    _source(
        "Tiingo",
        "date, close, high, low, open, volume, adjClose, adjHigh, adjLow, adjOpen, adjVolume, divCash, splitFactor",
        "date close adjclose adjhigh adjlow divcash splitfactor",
    ),
    _source(
        "Polygon",
        "ticker, volume, open, close, high, low, window_start, transactions",
        "ticker open close high low windowstart",
        windowstart="date",
    ),
    _source(
        "yfinance, auto_adjust=False",
        "Date, Open, High, Low, Close, Adj Close, Volume, Dividends, Stock Splits",
        "date open high low close adjclose dividends stocksplits",
    ),
    _source(
        "yfinance",
        "Date, Open, High, Low, Close, Volume, Dividends, Stock Splits; or three rows: Price, Ticker, Date",
        "date open high low close dividends stocksplits",
        "adjclose",
        "all prices are adjusted",
        **_ADJUSTED,
    ),
    _source(
        "Yahoo",
        "Date, Open, High, Low, Close*, Adj Close**, Volume",
        "date open high low close adjclose volume",
        "symbol",
    ),
    _source("Nasdaq.com", "Date, Close/Last, Volume, Open, High, Low", "date closelast volume open high low"),
    _source(
        "Stooq",
        "<TICKER>, <PER>, <DATE>, <TIME>, <OPEN>, <HIGH>, <LOW>, <CLOSE>, <VOL>, <OPENINT>",
        "ticker per date time open high low close vol",
    ),
    _source("IBKR", "date, open, high, low, close, volume, average, barCount", "date open high low close barcount"),
    _source("TradingView", "time, open, high, low, close, Volume", "time open high low close", "date symbol"),
    _source(
        "Barchart",
        "Time, Open, High, Low, Last, Change, %Chg, Volume",
        "time open high low last",
        "close bid",
        last=CLOSE,
    ),
    _source(
        "Barchart, of late",
        "Time, Open, High, Low, Latest, Change, %Change, Volume",
        "time open high low latest",
        "close last bid",
        latest=CLOSE,
    ),
    _source("Excel", "sep=; on the first line, or tabs in UTF-16", ""),
)
# What Yahoo's page writes as headings today, with the explanation of each.
_EXPLAINED = {
    "closeclosepriceadjustedforsplits": CLOSE,
    "adjcloseadjustedclosepriceadjustedforsplitsanddividendandorcapitalgaindistributions": "adjclose",
}
PRICES = re.compile(r"(?:adj ?)?(?:open|high|low|close)|volume", re.IGNORECASE)
_BESIDE = re.compile(r"dividends|stock splits|capital gains|repaired\??", re.IGNORECASE)


def source_of(headings: Sequence[str]) -> Source | None:
    """Return the kind of export whose headings these are, in plain form."""
    there = {_EXPLAINED.get(one, one) for one in headings}
    return next((one for one in SOURCES if one.headings and one.headings <= there and not one.without & there), None)


def meant(headings: Sequence[str]) -> list[str]:
    """Return plain headings by what they mean here."""
    found = source_of(headings)
    known = found.means if found is not None else {}
    return [known.get(one, one) for one in (_EXPLAINED.get(one, one) for one in headings)]


class Wide(NamedTuple):
    """yfinance's table of several header rows: a column of each price of each ticker."""

    prices: list[str]
    tickers: list[str]
    rows: int  # of the header


def wide_header(first: Sequence[Sequence[str]]) -> Wide | None:
    """Return the header of a table as `yfinance.download` writes it: rows Price and Ticker in either order, then one
    that names the date alone. None where the rows are another table's."""
    if len(first) < 2 or len(first[0]) < 2 or len(first[0]) != len(first[1]):
        return None
    heads = [[cell.strip() for cell in row] for row in first]
    named = [heads[0][0].lower(), heads[1][0].lower()]
    if not set(named) <= {"price", "ticker", "symbol", "attributes", "symbols", ""}:
        return None
    priced = [all(PRICES.fullmatch(cell) or _BESIDE.fullmatch(cell) for cell in row[1:]) for row in heads[:2]]
    if priced[0] == priced[1]:
        return None
    at = 0 if priced[0] else 1
    dated = len(heads) > 2 and heads[2][0].lower() in ("date", "datetime", "") and not any(heads[2][1:])
    return Wide(heads[at][1:], heads[1 - at][1:], 3 if dated else 2)
