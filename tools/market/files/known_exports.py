"""Exports that are recognised by their headings, and which of their columns mean something else than elsewhere."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

_BETWEEN = re.compile(r"[\W_]+")
_NUMBERED = re.compile(r"^\s*\d+[a-z]?\.\s+(?=\D)")  # Alpha Vantage's "1. open"
_MONEY = r"US\$|[$€£¥₹]|USD|EUR|GBP|GBX|GBp|CHF|JPY|CAD|AUD|HKD|INR"
_UNIT = re.compile(rf"\s*[(\[]\s*(?:in\s+)?({_MONEY})\s*[)\]]\s*$|\s(?:in\s+)?({_MONEY})\s*$")


_LONGEST = 200  # characters of a heading that are compared


@lru_cache(maxsize=4096)
def plain(column: str) -> str:
    """Return a column's name as it is compared: small letters without accents, and digits, alone, without a number
    before it or the currency behind it."""
    column = _UNIT.sub("", _NUMBERED.sub("", column[:_LONGEST]))
    if not column.isascii():
        column = "".join(one for one in unicodedata.normalize("NFKD", column) if not unicodedata.combining(one))
        column = column.replace("\u0131", "i")  # Turkish
    return _BETWEEN.sub("", column.casefold())


def unit_of(column: str) -> str | None:
    """Return the currency that a heading states, as in Close (EUR)."""
    found = _UNIT.search(column[:_LONGEST])
    return (found[1] or found[2]) if found is not None else None


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
PRICES = re.compile(r"(?:adj(?:usted)?[ ._]?)?(?:open|high|low|close)|adjusted|volume", re.IGNORECASE)
_BESIDE = re.compile(r"dividends|stock splits|capital gains|repaired\??", re.IGNORECASE)
DAYS = frozenset({"date", "day", "datetime", "timestamp", "time", "tradedate", "index", "unnamed0", "", "datum"})


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
    """A table with a column of each price of each ticker. rows: of the header. adjusted: closes without adjusted ones
    are themselves adjusted, as yfinance writes them unless told otherwise. note: a guess at what the columns are."""

    prices: list[str]
    tickers: list[str]
    rows: int
    adjusted: bool = False
    note: str = ""

    def header(self, names: Sequence[str]) -> list[str]:
        """Return the header of the same table with a row of each ticker. names: of the prices."""
        alone = self.adjusted and not any(plain(price) in ("adjclose", "adjusted") for price in names)
        shown = ["Adj Close" if plain(price) == "adjusted" else price for price in names]
        return ["Date", *(f"Adj {price}" if alone and plain(price) != "volume" else price for price in shown), "Ticker"]

    def places(self, names: Sequence[str]) -> dict[str, list[int]]:
        """Return the columns of each ticker's prices, 0 for one that it lacks."""
        found = {pair: at for at, pair in reversed(list(enumerate(zip(self.prices, self.tickers, strict=True), 1)))}
        return {ticker: [found.get((price, ticker), 0) for price in names] for ticker in dict.fromkeys(self.tickers)}


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
    return Wide(heads[at][1:], heads[1 - at][1:], 3 if dated else 2, adjusted=True)


_TICKER = r"[A-Za-z0-9^][A-Za-z0-9.\-]{0,9}"
_PAIRS = (
    re.compile(rf"\(\s*'(?P<price>{PRICES.pattern})',\s*'(?P<ticker>{_TICKER})'\s*\)", re.IGNORECASE),
    re.compile(rf"\(\s*'(?P<ticker>{_TICKER})',\s*'(?P<price>{PRICES.pattern})'\s*\)", re.IGNORECASE),
    re.compile(rf"(?P<price>{PRICES.pattern})\s*[_.:|/\- ]\s*(?P<ticker>{_TICKER})", re.IGNORECASE),
    re.compile(rf"(?P<ticker>{_TICKER})\s*[_.:|/\- ]\s*(?P<price>{PRICES.pattern})", re.IGNORECASE),
)
_NO_TICKERS = frozenset(
    {"adj", "adjusted", "prev", "previous", "avg", "average", "last", "total", "mid", "bid", "ask", "day", "year"}
    | {"week", "min", "max", "net", "trade", "traded"}
)


def flat_header(header: Sequence[str]) -> Wide | None:
    """Return the header of a table whose headings have a price and a ticker each, in one way: AAPL_Close, Close AAPL,
    AAPL.Close as R's quantmod writes it, or ('Close', 'AAPL') as pandas does."""
    if len(header) < 2 or plain(header[0]) not in DAYS or any(len(cell) > _LONGEST for cell in header):
        return None
    for at, pattern in enumerate(_PAIRS):
        found = [pattern.fullmatch(cell.strip()) for cell in header[1:]]
        pairs = [(one["price"], one["ticker"]) for one in found if one is not None]
        if len(pairs) < len(found) or any(ticker.lower() in _NO_TICKERS for _, ticker in pairs):
            continue
        if any(plain(price) in ("close", "adjclose", "adjusted") for price, _ in pairs):
            return Wide([price for price, _ in pairs], [ticker.upper() for _, ticker in pairs], 1, adjusted=at < 2)
    return None


_A_NAME = re.compile(r"[A-Z]{1,5}(?:[.\-/][A-Z])?")
_A_FIGURE = re.compile(r"[$\s]*[\d.,'\s]*")


def matrix_header(header: Sequence[str], below: Sequence[str], known: Collection[str], stem: str) -> Wide | None:
    """Return the header of a table of closes with a ticker as each heading; None unless all headings but the date are
    symbols, two at least or the one that the file is named after, and numbers stand below them."""
    names = [cell.strip() for cell in header[1:]]
    if len(header) < 2 or not plain(header[0]) or plain(header[0]) not in DAYS or len(set(names)) < len(names):
        return None
    if not all(_A_NAME.fullmatch(one) and (len(one) == 1 or plain(one) not in known) for one in names):
        return None
    if (len(names) < 2 and names[0] != stem.upper()) or len(below) != len(header):
        return None
    if not all(_A_FIGURE.fullmatch(cell) for cell in below[1:]) or not any(cell.strip() for cell in below[1:]):
        return None
    note = f"{', '.join(names[:3])}{' ...' if len(names) > 3 else ''} are headings, read as closes of these names"
    return Wide(["Close"] * len(names), names, 1, note=note)
