"""What the desk trades, and what of it is US dollars in New York. One question decides it for every place at which a
price or a name comes in, so that a price in pence is never booked as dollars."""

from __future__ import annotations

import re
from collections.abc import Mapping

from chordesk.models.errors import MarketError
from chordesk.models.exchanges import CRYPTO, EXCHANGES, HOME, MONEY, PLACES, exchange_of, suffix_of

HOME_REMEDY = (
    "this is of US dollars in New York alone: name the US listing, if there is one, such as AZN for AZN.L; a "
    "class of US shares is written with a hyphen, such as LEN-B"
)
TRADED_REMEDY = (
    "leave it out; a share is written with the suffix of its exchange, such as AZN.L, 7203.T or SAP.DE, a pair as "
    "BTC-USD, and a class of US shares with a hyphen, such as LEN-B"
)
HOME_CURRENCY, HOME_ZONE = "USD", "America/New_York"

# Codes of exchanges of other places, as files and Yahoo write them beside a symbol. A code that is not here decides
# nothing: the American ones are many, and go by other names at each source.
_EXCHANGES: Mapping[str, str] = {
    code: place
    for place, codes in {
        "London": "LSE XLON LON IOB", "Frankfurt": "XETRA XETR XFRA FRA GER ETR", "Paris": "XPAR PAR EPA",
        "Amsterdam": "XAMS AMS", "Brussels": "XBRU BRU", "Lisbon": "XLIS LIS", "Milan": "XMIL MIL",
        "Madrid": "XMAD BME", "Zurich": "XSWX SWX EBS", "Stockholm": "XSTO STO", "Copenhagen": "XCSE CPH",
        "Helsinki": "XHEL HEL", "Oslo": "XOSL OSL", "Toronto": "XTSE TSX TOR TSXV XTSX CNSX", "Tokyo": "XTKS JPX TYO",
        "Hong Kong": "XHKG HKEX HKG HKSE", "Shanghai": "XSHG SHH SSE", "Shenzhen": "XSHE SHZ SZSE",
        "Seoul": "XKRX KRX KOE KSC", "Taipei": "XTAI TAI TWSE", "Mumbai": "XNSE XBOM NSE BSE NSI",
        "Sydney": "XASX ASX", "Singapore": "XSES SES SGX", "São Paulo": "BVMF SAO B3", "Johannesburg": "XJSE JSE JNB",
        "Toronto or Tokyo": "TSE", "currencies": "CCY CCC FX FOREX", "crypto": "CRYPTO",
    }.items()
    for code in codes.split()
}  # fmt: skip
_KINDS = {
    "CURRENCY": "an exchange rate",
    "CRYPTOCURRENCY": "a cryptocurrency",
    "CRYPTO": "a cryptocurrency",
    "FUTURE": "a future",
    "INDEX": "an index, which nobody trades",
    "MUTUALFUND": "a fund without a price on an exchange",
}
_PAIR = re.compile(rf"[A-Z0-9]{{1,10}}[-/_]({MONEY})(?:[:.-].*)?")
_JOINED = re.compile(rf"[A-Z0-9]{{2,10}}?({MONEY})")
_SHORTEST_JOINED = 6  # characters: a US symbol without a class has five letters at most
_PERPETUAL = re.compile(r"[A-Z0-9]{1,10}[-_/]?(?:PERP|SWAP)")
_MONEY = frozenset(MONEY.split("|")) | {row.currency for row in EXCHANGES.values()}
MINOR_UNITS = {"USD": ("USX", "USc"), "GBP": ("GBp", "GBX"), "ZAR": ("ZAc", "ZAX"), "ILS": ("ILA", "ILX")}
# Bloomberg's marks of exchanges of other places, after a space: AZN LN, 7203 JT Equity.
_BLOOMBERG: Mapping[str, str] = {
    mark: place
    for place, marks in {
        "London": "LN", "Frankfurt": "GR GY", "Paris": "FP", "Amsterdam": "NA", "Brussels": "BB", "Milan": "IM",
        "Madrid": "SM", "Zurich": "SW SE VX", "Stockholm": "SS", "Copenhagen": "DC", "Helsinki": "FH", "Oslo": "NO",
        "Toronto": "CN CT", "Tokyo": "JP JT", "Hong Kong": "HK", "Shanghai": "CH CG", "Shenzhen": "CS",
        "Seoul": "KS KP", "Taipei": "TT", "Mumbai": "IN IB IS", "Sydney": "AU AT", "Singapore": "SP",
        "São Paulo": "BZ BS", "Johannesburg": "SJ",
    }.items()
    for mark in marks.split()
}  # fmt: skip
_MARKED = re.compile(r"[A-Z0-9./-]+ ([A-Z]{2})(?: EQUITY)?")
# Words of exchanges' names beside the cities: London Stock Exchange, Euronext Paris, National Stock Exchange of India.
_WORDS: Mapping[str, str] = {
    **{place.upper(): place for place in (*PLACES.values(), *_BLOOMBERG.values())},
    "EURONEXT": "Europe", "DEUTSCHE": "Frankfurt", "XETRA": "Frankfurt", "SWISS": "Zurich", "BOMBAY": "Mumbai",
    "INDIA": "Mumbai", "KOREA": "Seoul", "JAPAN": "Tokyo", "TAIWAN": "Taipei", "AUSTRALIAN": "Sydney",
    "BINANCE": "crypto", "COINBASE": "crypto", "KRAKEN": "crypto", "BITSTAMP": "crypto",
}  # fmt: skip


def foreign(
    symbol: str,
    *,
    currency: object = None,
    zone: object = None,
    exchange: object = None,
    kind: object = None,
) -> str | None:
    """Return what a name is, where it is not US dollars in New York; None where it is, or where nothing is said against
    it: what a source leaves out decides nothing.

    currency, zone, exchange, kind: as the source states them (GBp, Europe/London, LSE, CRYPTOCURRENCY); empty texts and
    what is no text are unstated. The symbol itself is judged by its form alone.
    """
    found = _by_form(symbol.strip().upper())
    stated = _stated(currency, zone, exchange, kind)
    if not stated and found is None:
        return None
    return f"{symbol.strip()[:40]} is {', '.join(dict.fromkeys([*([found] if found else []), *stated]))}"


def untraded(
    symbol: str,
    *,
    currency: object = None,
    zone: object = None,
    exchange: object = None,
    kind: object = None,
) -> str | None:
    """Return what a name is, where no exchange of the table trades it as the source states it; None where one does.

    The arguments are those of `foreign`. The form of the symbol names its exchange; a source that puts it at another
    place is not believed. A listing may be in another currency than its exchange, such as dollars in London.
    """
    written = symbol.strip().upper()
    try:
        row = exchange_of(written)
    except MarketError as error:
        return str(error.args[0])
    if row.code == HOME:
        return foreign(symbol, currency=currency, zone=zone, exchange=exchange, kind=kind)
    money, place, code, sort = (one.strip() if isinstance(one, str) else "" for one in (currency, zone, exchange, kind))
    found = []
    if sort.upper() in _KINDS and not (row.code == CRYPTO and sort.upper() in ("CRYPTOCURRENCY", "CRYPTO")):
        found.append(_KINDS[sort.upper()])
    if money and major_of(money) is None:
        found.append(f"priced in {money[:12]}, which is no currency that the desk knows")
    if place and place != row.zone:
        found.append(f"traded by the clock of {place[:40]}, and {row.code} by that of {row.zone}")
    places = ("crypto", "currencies") if row.code == CRYPTO else (row.place,)
    if (city := place_of_exchange(code)) not in (None, *places):
        found.append(f"on the exchange {code[:40]} ({city})")
    return f"{symbol.strip()[:40]} is {', '.join(found)}" if found else None


def place_of_exchange(exchange: str) -> str | None:
    """Return the place of an exchange by its code or its name; None of New York's and of what is not known."""
    return _EXCHANGES.get(exchange.upper()) or _named(exchange)


def require_traded(symbol: str, **stated: object) -> None:
    """Raise MarketError naming a symbol that no exchange of the table trades, as `untraded` tells."""
    if (found := untraded(symbol, **stated)) is not None:
        raise MarketError(found, remedy=TRADED_REMEDY)


def major_of(currency: str) -> tuple[str, int] | None:
    """Return the currency of a price, and how many of the stated unit are one of it: GBp is ("GBP", 100). None where
    it is not known: then a price is worth nothing that could be booked."""
    for whole, parts in MINOR_UNITS.items():
        if currency in parts:
            return whole, 100
    written = {"US$": "USD", "$": "USD", "€": "EUR", "£": "GBP"}.get(currency, currency.upper())
    return (written, 1) if written in _MONEY else None


def require_home(symbol: str, **stated: object) -> None:
    """Raise MarketError naming a symbol that is not US dollars in New York, as `foreign` tells."""
    if (found := foreign(symbol, **stated)) is not None:
        raise MarketError(found, remedy=HOME_REMEDY)


def _by_form(symbol: str) -> str | None:
    if symbol.startswith("^"):
        return _KINDS["INDEX"]
    if symbol.endswith("=X"):
        return _KINDS["CURRENCY"]
    if symbol.endswith("=F"):
        return _KINDS["FUTURE"]
    pair = _PAIR.fullmatch(symbol) or (_JOINED.fullmatch(symbol) if len(symbol) >= _SHORTEST_JOINED else None)
    if pair is not None:
        return f"a pair of currencies (priced in {pair[1]})"
    if _PERPETUAL.fullmatch(symbol) and len(symbol) >= _SHORTEST_JOINED:
        return "a perpetual future"
    return _listed_abroad(symbol)


def _listed_abroad(symbol: str) -> str | None:
    stem, _, suffix = symbol.rpartition(".")
    place = PLACES[suffix] if suffix_of(symbol) else _EXCHANGES.get(suffix) if stem and len(suffix) > 1 else None
    if place is not None:
        return f"listed in {place} (.{suffix})"
    before, mark, rest = (symbol.replace("_", ":", 1)).partition(":")
    if mark and rest and before in _EXCHANGES:
        return f"on the exchange {before} ({_EXCHANGES[before]})"
    marked = _MARKED.fullmatch(symbol)
    if marked is not None and marked[1] in _BLOOMBERG:
        return f"listed in {_BLOOMBERG[marked[1]]} ({marked[1]})"
    return None


def _stated(currency: object, zone: object, exchange: object, kind: object) -> list[str]:
    money, place, code, sort = (one.strip() if isinstance(one, str) else "" for one in (currency, zone, exchange, kind))
    found = []
    if sort.upper() in _KINDS:
        found.append(_KINDS[sort.upper()])
    if money and money not in ("USD", "usd", "US$", "$"):
        whole = next((one for one, parts in MINOR_UNITS.items() if money in parts), None)
        found.append(f"priced in {money[:12]}" + (f", a hundredth of {whole}" if whole else ""))
    if place and place not in (HOME_ZONE, "US/Eastern", "EST", "EDT", "EST5EDT"):
        found.append(f"traded by the clock of {place[:40]}")
    if (city := place_of_exchange(code)) is not None:
        found.append(f"on the exchange {code[:40]} ({city})")
    return found


def _named(exchange: str) -> str | None:
    """Return the place of an exchange that is written out, such as Toronto Stock Exchange."""
    written = " ".join(["", *re.findall(r"\w+", exchange.upper()), ""])
    if " NYSE " in written:
        return None  # NYSE Euronext was its name for six years
    return next((place for words, place in _WORDS.items() if f" {words} " in written), None)
