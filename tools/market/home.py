"""What the desk trades: shares and funds in US dollars on the exchanges of New York. One question decides it for every
place at which a price or a name comes in, so that a price in pence is never booked as dollars."""

from __future__ import annotations

import re
from collections.abc import Mapping

from chordesk.models.errors import MarketError

HOME_REMEDY = (
    "the desk trades US dollars in New York alone: name the US listing, if there is one, such as AZN for AZN.L; a "
    "class of US shares is written with a hyphen, such as LEN-B"
)
HOME_CURRENCY, HOME_ZONE = "USD", "America/New_York"

# Suffixes of symbols as Yahoo writes them, each with the city. A suffix that is not here decides nothing: .A, .B and .C
# are classes of US shares, .U, .W, .WS, .PR, .Q and .OB are American too, .US says what is so anyway.
_SUFFIXES: Mapping[str, str] = {
    suffix: place
    for place, suffixes in {
        "London": "L IL XC",
        "Frankfurt": "F DE",
        "Berlin": "BE", "Düsseldorf": "DU", "Hamburg": "HM", "Hanover": "HA", "Munich": "MU", "Stuttgart": "SG",
        "Paris": "PA", "Amsterdam": "AS", "Brussels": "BR", "Lisbon": "LS", "Dublin": "IR", "Milan": "MI TI",
        "Madrid": "MC", "Zurich": "SW VX", "Vienna": "VI", "Athens": "AT", "Stockholm": "ST", "Copenhagen": "CO",
        "Helsinki": "HE", "Oslo": "OL", "Reykjavik": "IC", "Tallinn": "TL", "Riga": "RG", "Vilnius": "VS",
        "Warsaw": "WA", "Budapest": "BD", "Istanbul": "IS", "Moscow": "ME", "Tel Aviv": "TA", "Riyadh": "SR SAU",
        "Doha": "QA", "Cairo": "CA", "Johannesburg": "JO", "Toronto": "TO NE CN V", "Mexico City": "MX",
        "São Paulo": "SA", "Buenos Aires": "BA", "Santiago": "SN", "Bogotá": "CL", "Caracas": "CR", "Lima": "LM",
        "Tokyo": "T", "Hong Kong": "HK", "Shanghai": "SS SH", "Shenzhen": "SZ", "Seoul": "KS KQ",
        "Taipei": "TW TWO", "Mumbai": "NS BO", "Singapore": "SI", "Bangkok": "BK", "Jakarta": "JK",
        "Kuala Lumpur": "KL", "Manila": "PS", "Ho Chi Minh City": "VN", "Sydney": "AX XA", "Wellington": "NZ",
    }.items()
    for suffix in suffixes.split()
}  # fmt: skip
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
        "currencies": "CCY CCC FX FOREX", "crypto": "CRYPTO",
    }.items()
    for code in codes.split()
}  # fmt: skip
_MONEY = re.compile(
    "USD|EUR|GBP|JPY|CHF|CAD|AUD|NZD|CNY|HKD|SGD|KRW|INR|BRL|MXN|ZAR|SEK|NOK|DKK|TRY|BTC|ETH|USDT|USDC|BUSD|DAI"
)
_KINDS = {
    "CURRENCY": "an exchange rate",
    "CRYPTOCURRENCY": "a cryptocurrency",
    "CRYPTO": "a cryptocurrency",
    "FUTURE": "a future",
    "INDEX": "an index, which nobody trades",
    "MUTUALFUND": "a fund without a price on an exchange",
}
_PAIR = re.compile(r"[A-Z0-9]{1,10}[-/]([A-Z]{3,4})")
_PENCE = {"GBP": ("GBp", "GBX"), "ZAR": ("ZAc", "ZAX"), "ILS": ("ILA", "ILX")}


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
    if (pair := _PAIR.fullmatch(symbol)) is not None and _MONEY.fullmatch(pair[1]):
        return f"a pair of currencies (priced in {pair[1]})"
    stem, dot, suffix = symbol.rpartition(".")
    # A preferred share is written BAC.PR.L: its last letter is a series.
    if dot and suffix in _SUFFIXES and not stem.endswith(".PR"):
        return f"listed in {_SUFFIXES[suffix]} (.{suffix})"
    return None


def _stated(currency: object, zone: object, exchange: object, kind: object) -> list[str]:
    money, place, code, sort = (one.strip() if isinstance(one, str) else "" for one in (currency, zone, exchange, kind))
    found = []
    if sort.upper() in _KINDS:
        found.append(_KINDS[sort.upper()])
    if money and money not in ("USD", "usd", "US$", "$"):
        whole = next((one for one, parts in _PENCE.items() if money in parts), None)
        found.append(f"priced in {money[:12]}" + (f", a hundredth of {whole}" if whole else ""))
    if place and place not in (HOME_ZONE, "US/Eastern", "EST", "EDT", "EST5EDT"):
        found.append(f"traded by the clock of {place[:40]}")
    if code.upper() in _EXCHANGES:
        found.append(f"on the exchange {code[:20]} ({_EXCHANGES[code.upper()]})")
    return found
