"""Where a symbol is listed: the desk trades US dollars in New York alone, and refuses every other listing by name."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from chordesk.models.errors import MarketError

CURRENCY, ZONE = "USD", "America/New_York"
REMEDY = "the desk trades US dollars in New York alone: leave it out, or take its listing there"
# Yahoo's suffixes of exchanges (help page SLN2310). A, B and C are classes of shares.
_PLACES: Mapping[str, str] = {
    "AE": "Dubai", "AQ": "Aquis", "AS": "Amsterdam", "AT": "Athens", "AX": "Sydney", "BA": "Buenos Aires",
    "BC": "Bogota", "BD": "Budapest", "BE": "Berlin", "BK": "Bangkok", "BM": "Bremen", "BO": "Bombay",
    "BR": "Brussels", "CA": "Cairo", "CN": "the Canadian Securities Exchange", "CO": "Copenhagen", "CR": "Caracas",
    "DE": "Xetra", "DU": "Dusseldorf", "F": "Frankfurt", "HA": "Hanover", "HE": "Helsinki", "HK": "Hong Kong",
    "HM": "Hamburg", "IC": "Iceland", "IL": "London", "IR": "Dublin", "IS": "Istanbul", "JK": "Jakarta",
    "JO": "Johannesburg", "KL": "Kuala Lumpur", "KQ": "KOSDAQ", "KS": "Seoul", "KW": "Kuwait", "L": "London",
    "LS": "Lisbon", "MC": "Madrid", "ME": "Moscow", "MI": "Milan", "MU": "Munich", "MX": "Mexico",
    "NE": "Cboe Canada", "NS": "the National Stock Exchange of India", "NZ": "Wellington", "OL": "Oslo",
    "PA": "Paris", "PR": "Prague", "PS": "Manila", "QA": "Doha", "RG": "Riga", "RO": "Bucharest", "SA": "Sao Paulo",
    "SG": "Stuttgart", "SI": "Singapore", "SN": "Santiago", "SR": "Riyadh", "SS": "Shanghai", "ST": "Stockholm",
    "SW": "Zurich", "SZ": "Shenzhen", "T": "Tokyo", "TA": "Tel Aviv", "TI": "EuroTLX", "TL": "Tallinn", "TO": "Toronto",
    "TW": "Taipei", "TWO": "Taipei", "V": "the TSX Venture Exchange", "VI": "Vienna", "VN": "Vietnam", "VS": "Vilnius",
    "WA": "Warsaw", "XA": "Cboe Australia", "XC": "Cboe UK", "XD": "Cboe Europe",
}  # fmt: skip
# A currency after the hyphen: 3 letters, where a class of shares has one or two.
_PAIR = re.compile(r"[A-Z0-9]{2,10}[-/](?:USDT?|USDC|EUR|GBP|JPY|BTC|ETH|CAD|AUD|CHF|KRW|INR|BRL)")
_KINDS = {
    "CRYPTOCURRENCY": "a cryptocurrency", "CURRENCY": "an exchange rate", "FUTURE": "a future", "INDEX": "an index",
}  # fmt: skip


def foreign(symbol: str) -> str | None:
    """Return what a symbol's own form says against a listing in New York; None where it says nothing."""
    name = symbol.strip().upper()
    stem, dot, suffix = name.rpartition(".")
    if dot and stem and suffix in _PLACES:
        return f"listed at {_PLACES[suffix]} (.{suffix})"
    if _PAIR.fullmatch(name):
        return "a pair of currencies"
    if name.endswith("=X"):
        return "an exchange rate"
    if name.endswith("=F"):
        return "a future"
    return "an index" if name.startswith("^") else None


def elsewhere(
    symbol: str, *, currency: str | None = None, zone: str | None = None, kind: str | None = None
) -> str | None:
    """Return why a symbol is no listing in US dollars in New York, by its form and what its source states; None where
    it is one. What a source does not state counts as New York's.

    currency: as ISO 4217 or Yahoo write it, such as GBp for pence. zone: of its exchange, as IANA writes it. kind: as
    Yahoo writes it, such as EQUITY, ETF or CRYPTOCURRENCY.
    """
    reasons = [found] if (found := foreign(symbol)) is not None else []
    if kind and kind.upper() in _KINDS:
        reasons.append(_KINDS[kind.upper()])
    if currency and currency != CURRENCY:
        reasons.append(f"in {currency}")
    if zone and zone != ZONE:
        reasons.append(f"in the time zone {zone}")
    return f"{symbol} is {', '.join(dict.fromkeys(reasons))}" if reasons else None


def require_new_york(symbol: str, meta: Mapping[str, Any] | None = None) -> None:
    """Raise MarketError for a listing that is not in US dollars in New York. meta: as Yahoo's chart states it."""
    known = meta or {}
    names = {"currency": "currency", "zone": "exchangeTimezoneName", "kind": "instrumentType"}
    stated = {ours: text for ours, theirs in names.items() if isinstance(text := known.get(theirs), str)}
    if (why := elsewhere(symbol, **stated)) is not None:
        raise MarketError(f"{why}: {REMEDY}")
