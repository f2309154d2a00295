"""Conversion of yfinance's frames and dictionaries to plain values. Fields that Yahoo leaves out stay out."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable, Mapping
from typing import Any

from chordesk.models.contracts import ChainRow, parse_contract
from chordesk.models.market import Headline

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
_DATES = {"lastQuarter": "mostRecentQuarter", "earningsDate": "earningsTimestampStart"}


def bars_of(frame: Any) -> dict[str, list[Any]]:
    """Return rows of a history frame as lists by column; rows with a missing or non-positive price are left out."""
    return _columns(frame, "date", lambda stamp: stamp.date().isoformat())


def intraday_of(frame: Any) -> dict[str, list[Any]]:
    """Return rows of an intraday frame as `bars_of` does, with their starts as ISO text in place of dates."""
    return _columns(frame, "start", lambda stamp: stamp.isoformat())


def _columns(frame: Any, key: str, dated: Callable[[Any], str]) -> dict[str, list[Any]]:
    columns = ("Open", "High", "Low", "Close", "Volume")
    kept: dict[str, list[Any]] = {name: [] for name in (key, *(name.lower() for name in columns))}
    for stamp, *row in frame[list(columns)].itertuples(name=None):
        prices = [float(value) for value in row]
        if not all(math.isfinite(price) and price > 0 for price in prices[:4]):
            continue
        kept[key].append(dated(stamp))
        for name, value in zip(columns, prices, strict=True):
            kept[name.lower()].append(value if math.isfinite(value) else 0.0)
    return kept


def section_of(info: Mapping[str, Any], section: str) -> Section | None:
    """Return one section of an overview out of `Ticker.info`, None when Yahoo gives none of its fields."""
    found: Section = {ours: plain(info.get(theirs)) for ours, theirs in _FIELDS[section].items()}
    if section == "earnings":
        found |= {ours: _day(info.get(theirs)) for ours, theirs in _DATES.items()}
    known = any(value is not None for name, value in found.items() if name != "currency")
    return found if known else None


def dividend_yield(info: Mapping[str, Any], price: float) -> float | None:
    """Return the yearly dividend over the price as a fraction; None where Yahoo gives no dividend, or one above the
    price, which is an error of its."""
    rate = plain(info.get("dividendRate"))
    return rate / price if isinstance(rate, float) and 0 <= rate < price else None


def headlines_of(symbol: str, stream: list[Mapping[str, Any]]) -> list[Headline]:
    """Return the articles that have a title and a time."""
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
    """Return implied volatility nearest to the money, volume and open interest of one expiry's chain."""
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
    """Return a contract of `contracts_of`; None for a name that is no OCC symbol."""
    contract = parse_contract(str(row["contract"]))
    if contract is None:
        return None
    names = ("bid", "ask", "last", "volume", "openInterest")
    bid, ask, last, volume, interest = (value if isinstance(value := row[name], float) else None for name in names)
    return ChainRow(contract, bid, ask, last, volume, interest)


def contract_price(row: Section) -> tuple[float, str | None] | None:
    """Return (price per share, when it was traded): between bid and ask while there are both, with None for now, else
    the last trade."""
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
    if isinstance(value, bool) or value is None:
        return None
    try:
        number = float(value)
    except (TypeError, ValueError):
        return None
    return number if math.isfinite(number) else None


def _day(value: Any) -> str | None:
    seconds = plain(value)
    if not isinstance(seconds, float):
        return None
    return dt.datetime.fromtimestamp(seconds, dt.UTC).date().isoformat()
