"""yfinance, imported when first needed, throttled: its errors as errors of the desk, its frames as plain values."""

from __future__ import annotations

import datetime as dt
import importlib
import importlib.util
import logging
import math
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar

from chordesk.models.errors import DeskError, MarketError, MarketUnavailable
from chordesk.models.exchanges import CRYPTO, currency_of, exchange_code
from chordesk.models.features import require_source
from chordesk.models.home import make_folder
from chordesk.models.market import ChainRow, Headline, parse_contract
from chordesk.models.money import COINS
from chordesk.tools.decimals import finite
from chordesk.tools.market.fetching import REQUEST_SECONDS, Source
from chordesk.tools.market.home import major_of, require_home, require_traded
from chordesk.tools.market.units import REMEDY, require_one_unit

T = TypeVar("T")

_HISTORY = "2y"
_RATES = "5d"
_REPORTS = 25  # rows of the earnings calendar, which Yahoo gives in pages of so many
_NONE_LISTED = ("No fundamentals data found", "No upgrade/downgrade history found")


class NothingListed(MarketError):
    """Yahoo knows the symbol, and has nothing of this kind of it."""


class YahooWire:
    """The calls we make of yfinance. Raises MarketError (unknown symbol), MarketUnavailable, NotConfigured.

    session: what yfinance sends its requests with; its own by default.
    """

    def __init__(self, home: Path, session: Any | None = None) -> None:
        self._home = home
        self._session = session
        self._source = Source("Yahoo")
        self._library: Any | None = None
        self._lock = threading.Lock()

    def history(self, symbol: str) -> Rows:
        """Return the daily bars by column (`bars_of`), and their `currency`: the major one, to which what Yahoo has in
        pence or cents is brought here; `decimals`: those with which Yahoo writes a price."""

        def request(ticker: Any) -> tuple[Any, Section]:
            frame = ticker.history(period=_HISTORY, actions=True, auto_adjust=False, timeout=REQUEST_SECONDS)
            return frame, _stated(ticker)

        frame, stated = self._request(symbol, request)
        return _in_major(symbol, bars_of(frame), stated)

    def rate(self, currency: str, base: str) -> Section:
        """Return the last rate of a pair, and `day` of its bar or `at`, where Yahoo states the second of it."""
        symbol = f"{currency}-{base}" if currency in COINS else f"{currency}{base}=X"

        def request(ticker: Any) -> tuple[Any, Section]:
            frame = ticker.history(period=_RATES, actions=False, auto_adjust=False, timeout=REQUEST_SECONDS)
            meta = ticker.history_metadata
            return frame, {name: plain(meta.get(name)) for name in ("currency", "regularMarketTime")}

        frame, stated = self._request(symbol, request, pair=True)
        closes = None if frame is None or frame.empty else frame["Close"].dropna()
        if closes is None or closes.empty:
            raise MarketError(f"Yahoo has no rate {symbol}")
        rate, currency_stated = float(closes.iloc[-1]), stated["currency"]
        if currency_stated != base or not rate > 0:
            raise MarketError(f"Yahoo states {symbol} as {rate:g} {currency_stated}, which is no rate in {base}")
        return {"rate": rate, "day": str(closes.index[-1].date()), "at": stated["regularMarketTime"]}

    def info(self, symbol: str) -> dict[str, Any]:
        found = self._request(symbol, lambda ticker: dict(ticker.info))
        names = {"currency": "currency", "zone": "exchangeTimezoneName", "exchange": "exchange", "kind": "quoteType"}
        require_traded(symbol, **{ours: found.get(theirs) for ours, theirs in names.items()})
        return info_in_major(found)

    def news(self, symbol: str, count: int) -> list[dict[str, Any]]:
        return self._request(symbol, lambda ticker: list(ticker.get_news(count=count)))

    def earnings(self, symbol: str) -> Any:
        def request(ticker: Any) -> Any:
            # yfinance keeps this page for as long as the process lives; its age is ours to decide.
            self._yfinance().data.YfData.cache_get.cache_clear()
            return ticker.get_earnings_dates(limit=_REPORTS)

        return self._request(symbol, request)

    def ratings(self, symbol: str) -> Any:
        with suppress(NothingListed):
            return self._request(symbol, lambda ticker: ticker.upgrades_downgrades)
        return None

    def owners(self, symbol: str) -> tuple[Any, Any]:
        """Return (insiders' transactions, institutional holders) as frames, of one request; None where Yahoo has
        none."""
        with suppress(NothingListed):
            return self._request(symbol, lambda ticker: (ticker.insider_transactions, ticker.institutional_holders))
        return None, None

    def intraday(self, symbol: str, minutes: int, days: int) -> Rows:
        """Return the bars of regular hours of so many calendar days, adjusted for splits, as `history` does."""
        start = dt.datetime.now(dt.UTC) - dt.timedelta(days=days)

        def request(ticker: Any) -> Any:
            frame = ticker.history(
                start=start,
                interval=f"{minutes}m",
                actions=False,
                auto_adjust=True,
                prepost=False,
                timeout=REQUEST_SECONDS,
            )
            return frame, _stated(ticker)

        frame, stated = self._request(symbol, request)
        return _in_major(symbol, intraday_of(frame), stated)

    def expiries(self, symbol: str) -> tuple[str, ...]:
        require_home(symbol)
        return self._request(symbol, lambda ticker: tuple(ticker.options))

    def chain(self, symbol: str, expiry: str) -> tuple[Any, Any]:
        require_home(symbol)
        chain = self._request(symbol, lambda ticker: ticker.option_chain(expiry))
        for frame in (chain.calls, chain.puts):
            for currency in frame["currency"].dropna().unique() if "currency" in frame else ():
                require_home(symbol, currency=currency)
        return chain.calls, chain.puts

    def _request(self, symbol: str, request: Callable[[Any], T], *, pair: bool = False) -> T:
        """pair: the symbol is of an exchange rate, which is not traded."""
        if not pair:
            require_traded(symbol)
        library = self._yfinance()
        self._source.wait()
        try:
            return request(library.Ticker(yahoo_symbol(symbol), session=self._session))
        except Exception as error:
            if isinstance(error, library.exceptions.YFRateLimitError) or _status(error) == 429:
                raise self._source.limited() from None
            raise translate(error, symbol, library.exceptions) from None

    def _yfinance(self) -> Any:
        with self._lock:
            if self._library is None:
                self._library = _import_yfinance(self._home)
            return self._library


def _import_yfinance(home: Path) -> Any:
    require_source("yahoo")
    library = importlib.import_module("yfinance")
    # Its errors are raised as ours; its own log lines would stand between a command's.
    logging.getLogger("yfinance").setLevel(logging.CRITICAL)
    folder = home / "cache" / "yfinance"
    make_folder(folder)
    library.set_tz_cache_location(str(folder))
    # By default it logs an error and gives an empty frame, which would read as "no data".
    library.config.debug.hide_exceptions = False
    return library


def _stated(ticker: Any) -> Section:
    """Return what the newest chart says of its listing, as `foreign` asks for it."""
    meta = ticker.history_metadata
    names = {
        "currency": "currency",
        "zone": "exchangeTimezoneName",
        "exchange": "exchangeName",
        "kind": "instrumentType",
        "last": "regularMarketPrice",
        "decimals": "priceHint",
    }
    return {ours: plain(meta.get(theirs)) for ours, theirs in names.items()}


Rows = dict[str, Any]


def _in_major(symbol: str, rows: Rows, stated: Section) -> Rows:
    """Return rows of a chart in the major unit of their currency, which is told with them. Raises MarketError for what
    no exchange of the table trades, for a chart that does not say its currency, and for one that mixes units."""
    last, decimals = stated.pop("last"), stated.pop("decimals")
    require_traded(symbol, **stated)
    currency = stated["currency"]
    found = major_of(currency) if isinstance(currency, str) else None
    if found is None:
        remedy = "leave it out, or wait until Yahoo states it: prices without a currency are not traded on"
        raise MarketError(f"Yahoo states no currency of {symbol}", remedy=remedy)
    major, parts = found
    if exchange_code(symbol) == CRYPTO and major != currency_of(symbol):
        reason = f"{symbol} is priced in {currency_of(symbol)} by its symbol, and in {major} at Yahoo"
        raise MarketError(reason, remedy=REMEDY)
    require_one_unit(symbol, rows, major, last)
    if parts != 1:
        for name in _MONEY_COLUMNS & rows.keys():
            rows[name] = [value / parts for value in rows[name]]
    return {**rows, "currency": major, "decimals": decimals}


_MONEY_COLUMNS = {"open", "high", "low", "close", "adjusted", "dividend"}
_TARGET_FIELDS = ("targetMeanPrice", "targetMedianPrice", "targetHighPrice", "targetLowPrice")
# Yahoo states these of a share that is quoted in pence now in pence and now in pounds.
_UNIT_UNKNOWN = ("trailingEps", "forwardEps", "dividendRate")


def info_in_major(info: dict[str, Any]) -> dict[str, Any]:
    """Return a company's page in the major unit of its currency, without the figures whose unit is not known."""
    currency = info.get("currency")
    major, parts = (major_of(currency) if isinstance(currency, str) else None) or (None, 1)
    if parts == 1:
        return info
    targets = {name: value / parts for name in _TARGET_FIELDS if isinstance(value := plain(info.get(name)), float)}
    return {**info, "currency": major, **targets, **dict.fromkeys(_UNIT_UNKNOWN)}


def yahoo_symbol(symbol: str) -> str:
    """Return Yahoo's form of a symbol, with a hyphen before the share class: BRK.B is BRK-B; a longer suffix is an
    exchange's."""
    stem, dot, suffix = symbol.rpartition(".")
    return f"{stem}-{suffix}" if dot and suffix in {"A", "B", "C"} else symbol


def translate(error: Exception, symbol: str, exceptions: Any) -> DeskError:
    if any(text in _message(error) for text in _NONE_LISTED):
        return NothingListed(f"Yahoo has nothing of this kind of {symbol}")
    if isinstance(error, exceptions.YFTickerMissingError) or _status(error) == 404:
        return MarketError(f"unknown symbol {symbol}: Yahoo has nothing under that name")
    if isinstance(error, OSError):
        return MarketUnavailable(f"Yahoo does not answer for {symbol}: {type(error).__name__}")
    return MarketUnavailable(f"Yahoo's answer for {symbol} could not be read: {type(error).__name__}")


def _status(error: Exception) -> int | None:
    status = getattr(getattr(error, "response", None), "status_code", None)
    return status if isinstance(status, int) else None


def _message(error: Exception) -> str:
    return f"{error} {getattr(getattr(error, 'response', None), 'text', '')}"


Section = dict[str, float | str | None]

# Our name -> Yahoo's field of `Ticker.info`. Fractions stay fractions; money is in the listing's currency.
_FIELDS: Mapping[str, Mapping[str, str]] = {
    "fundamentals": {
        "marketCap": "marketCap",
        "trailingPE": "trailingPE",
        "forwardPE": "forwardPE",
        "priceToBook": "priceToBook",
        "profitMargin": "profitMargins",
        "returnOnEquity": "returnOnEquity",
        "revenueGrowth": "revenueGrowth",
        "earningsGrowth": "earningsGrowth",
        "debtToEquityPercent": "debtToEquity",
        "currentRatio": "currentRatio",
        "freeCashflow": "freeCashflow",
        "beta": "beta",
        "currency": "currency",
    },
    "earnings": {
        "trailingEps": "trailingEps",
        "forwardEps": "forwardEps",
        "quarterlyEarningsGrowth": "earningsQuarterlyGrowth",
    },
    "ratings": {
        "recommendation": "recommendationKey",
        "recommendationMean": "recommendationMean",
        "analysts": "numberOfAnalystOpinions",
        "targetMean": "targetMeanPrice",
        "targetHigh": "targetHighPrice",
        "targetLow": "targetLowPrice",
    },
}
# Seconds since the epoch, given as ISO dates.
_DATES = {
    "lastQuarter": "mostRecentQuarter", "earningsDate": "earningsTimestampStart", "exDividend": "exDividendDate",
}  # fmt: skip


def bars_of(frame: Any) -> dict[str, list[Any]]:
    """Return rows of a history frame as lists by column; rows with a missing or non-positive price are left out."""
    more = {"Adj Close": "adjusted", "Dividends": "dividend", "Stock Splits": "split"}
    return _columns(frame, "date", lambda stamp: stamp.date().isoformat(), more)


def intraday_of(frame: Any) -> dict[str, list[Any]]:
    return _columns(frame, "start", lambda stamp: stamp.isoformat())


def _columns(
    frame: Any, key: str, dated: Callable[[Any], str], more: Mapping[str, str] = MappingProxyType({})
) -> dict[str, list[Any]]:
    columns = {name: name.lower() for name in ("Open", "High", "Low", "Close", "Volume")} | dict(more)
    kept: dict[str, list[Any]] = {name: [] for name in (key, *columns.values())}
    rows = () if frame is None or frame.empty else frame[list(columns)].itertuples(name=None)
    for stamp, *row in rows:
        prices = [float(value) for value in row]
        if not all(math.isfinite(price) and price > 0 for price in (*prices[:4], *prices[5:6])):
            continue
        kept[key].append(dated(stamp))
        for name, value in zip(columns.values(), prices, strict=True):
            kept[name].append(value if math.isfinite(value) else 0.0)
    return kept


def section_of(info: Mapping[str, Any], section: str) -> Section | None:
    found: Section = {ours: plain(info.get(theirs)) for ours, theirs in _FIELDS[section].items()}
    known = any(value is not None for name, value in found.items() if name != "currency")
    if known and section == "fundamentals" and (quarter := _day(info.get("mostRecentQuarter"))) is not None:
        found["lastQuarter"] = quarter
    if section == "earnings":
        found |= (dated := {ours: _day(info.get(theirs)) for ours, theirs in _DATES.items()})
        known = known or any(day is not None for day in dated.values())
    return found if known else None


def dividend_yield(info: Mapping[str, Any], price: float) -> float | None:
    """Return the yearly dividend over the price as a fraction; None where Yahoo gives no dividend, or one above the
    price, which is an error of its."""
    rate = plain(info.get("dividendRate"))
    return rate / price if isinstance(rate, float) and 0 <= rate < price else None


def headlines_of(symbol: str, stream: list[Mapping[str, Any]]) -> list[Headline]:
    found = []
    for article in stream:
        content = article.get("content") or {}
        title, published = content.get("title"), content.get("pubDate")
        if not title or not published:
            continue
        provider, link = content.get("provider") or {}, content.get("canonicalUrl") or {}
        found.append(
            Headline(
                symbol=symbol,
                headline=str(title),
                source=str(provider.get("displayName") or "unknown"),
                published_at=dt.datetime.fromisoformat(str(published)),
                url=link.get("url"),
            )
        )
    return found


def options_of(calls: Any, puts: Any, price: float, expiry: str) -> Section:
    return {
        "expiry": expiry,
        "atTheMoneyCallIV": _nearest_iv(calls, price),
        "atTheMoneyPutIV": _nearest_iv(puts, price),
        "callVolume": _total(calls, "volume"),
        "putVolume": _total(puts, "volume"),
        "callOpenInterest": _total(calls, "openInterest"),
        "putOpenInterest": _total(puts, "openInterest"),
    }


def contracts_of(calls: Any, puts: Any) -> list[Section]:
    """Return the quotes of each contract of a chain with the time of its last trade, as Yahoo lists them."""
    return [
        {
            "contract": str(row["contractSymbol"]),
            "bid": plain(row["bid"]),
            "ask": plain(row["ask"]),
            "last": plain(row["lastPrice"]),
            "traded": row["lastTradeDate"].isoformat() if row["lastTradeDate"] == row["lastTradeDate"] else None,
            "volume": plain(row.get("volume")),
            "openInterest": plain(row.get("openInterest")),
        }
        for chain in (calls, puts)
        for row in chain.to_dict("records")
    ]


def chain_row(row: Section) -> ChainRow | None:
    contract = parse_contract(str(row["contract"]))
    if contract is None:
        return None
    names = ("bid", "ask", "last", "volume", "openInterest")
    bid, ask, last, volume, interest = (value if isinstance(value := row[name], float) else None for name in names)
    return ChainRow(contract, bid, ask, last, volume, interest)


def contract_price(row: Section) -> tuple[float, str | None] | None:
    """Return (price per share, when traded): the middle of bid and ask, with None for now, else the last trade."""
    bid, ask, last, traded = (row[name] for name in ("bid", "ask", "last", "traded"))
    if isinstance(bid, float) and isinstance(ask, float) and 0 < bid <= ask:
        return round((bid + ask) / 2, 4), None
    if isinstance(last, float) and last > 0 and isinstance(traded, str):
        return last, traded
    return None


def _nearest_iv(chain: Any, price: float) -> float | None:
    if not len(chain):
        return None
    value = plain(chain.loc[(chain["strike"] - price).abs().idxmin(), "impliedVolatility"])
    return round(value, 4) if isinstance(value, float) and value > 0 else None


def _total(chain: Any, column: str) -> float | None:
    known = chain[column].dropna()
    return float(known.sum()) if len(known) else None


def plain(value: Any) -> float | str | None:
    """Return a finite number as float, a text as it is, anything else (Yahoo writes 'Infinity' too) as unknown."""
    if isinstance(value, str):
        return value if value not in ("", "Infinity", "NaN", "none") else None
    return finite(value)


def _day(value: Any) -> str | None:
    seconds = plain(value)
    if not isinstance(seconds, float):
        return None
    return dt.datetime.fromtimestamp(seconds, dt.UTC).date().isoformat()
