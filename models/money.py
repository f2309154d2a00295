"""Money: codes of currencies, the rate between two of them, and what an account counts in."""

from __future__ import annotations

import datetime as dt
import re
from typing import NamedTuple

from chordesk.models.errors import UsageError

DOLLAR = "USD"
# ISO 4217, and the coins that prices are stated in. A stablecoin is a currency with a rate of its own, never a dollar.
_CODES = """
    AED AFN ALL AMD AOA ARS AUD AWG AZN BAM BBD BDT BGN BHD BIF BMD BND BOB BRL BSD BTN BWP BYN BZD CAD CDF CHF CLP
    CNY COP CRC CUP CVE CZK DJF DKK DOP DZD EGP ERN ETB EUR FJD FKP GBP GEL GHS GIP GMD GNF GTQ GYD HKD HNL HRK HTG
    HUF IDR ILS INR IQD IRR ISK JMD JOD JPY KES KGS KHR KMF KPW KRW KWD KYD KZT LAK LBP LKR LRD LSL LYD MAD MDL MGA
    MKD MMK MNT MOP MRU MUR MVR MWK MXN MYR MZN NAD NGN NIO NOK NPR NZD OMR PAB PEN PGK PHP PKR PLN PYG QAR RON RSD
    RUB RWF SAR SBD SCR SDG SEK SGD SHP SLE SOS SRD SSP STN SVC SYP SZL THB TJS TMT TND TOP TRY TTD TWD TZS UAH UGX
    USD UYU UZS VES VND VUV WST XAF XCD XOF XPF YER ZAR ZMW ZWG BEF DEM ESP FRF GRD IEP ITL NLG ATS PTE FIM CYP EEK
    LTL LVL MTL ROL SIT SKK TRL
"""
ISO = frozenset(_CODES.split())
STABLECOINS = frozenset({"USDT", "USDC", "BUSD", "DAI"})  # pegged to the dollar
COINS = STABLECOINS | {"BTC", "ETH"}
CURRENCIES = ISO | COINS
_PARTS = {"GBX": "GBP", "GBP": "", "ZAC": "ZAR", "ILA": "ILS", "USX": "USD"}
_SPLIT = re.compile(r"[/_ :-]+")
DAYS_KNOWN = 5.0  # the ECB states no rate from Maundy Thursday to the Tuesday after Easter


# How texts state money, as parts of patterns: signs and codes before a number, codes and words after it. A word that
# means something else as often, such as won, is not among them.
_STATED = "USD|EUR|GBP|JPY|CHF|CAD|AUD|NZD|CNY|HKD|SGD|KRW|TWD|INR|BRL|MXN|ZAR|SEK|NOK|DKK"
SIGNS = r"(?:US|C|A|HK|NZ|S|NT|R)?\$|[€£¥₹₩]"
CODES = f"(?:{_STATED})"
MONEY_WORDS = r"(?:dollars|euros?|pounds(?! of\b)|yen|rupees|yuan|renminbi|reais|kronor|kroner|francs)"


class FxRate(NamedTuple):
    """What one unit of a currency was worth in another. at: from when on it was known; source: of both where it was
    crossed over a third currency."""

    currency: str
    base: str
    rate: float
    at: dt.datetime
    source: str

    @property
    def pair(self) -> str:
        return pair_name(self.currency, self.base)


class Money(NamedTuple):
    """What an account counts in, and how old a rate may be that turns another currency into it."""

    base: str = DOLLAR
    max_age: dt.timedelta = dt.timedelta(days=DAYS_KNOWN)


def coded(text: str, currency: str | None = DOLLAR, *, always: bool = False) -> str:
    """Return the text of an amount with the code of its currency; dollars go without one. always: not beside an amount
    in another currency."""
    return text if currency is None or (currency == DOLLAR and not always) else f"{currency} {text}"


class Duty(NamedTuple):
    """A tax or a fee of a fill beside the commission. amount: in the account's currency."""

    name: str
    amount: float


def currency_code(text: str) -> str:
    """Return the code that a text names. Raises UsageError for one that is not known, and for pence and cents: prices
    and rates are of whole pounds and rand."""
    code = text.strip().upper()
    if text.strip() == "GBp" or (code in _PARTS and code not in CURRENCIES):
        whole = _PARTS[code] or code
        raise UsageError(f"{text.strip()[:12]} is a hundredth of {whole}", remedy=f"give it in {whole}")
    if code not in CURRENCIES:
        remedy = "give a code of ISO 4217 such as USD or GBP, or of a coin such as USDT"
        raise UsageError(f"{text.strip()[:12]!r} is no currency", remedy=remedy)
    return code


def pair_name(currency: str, base: str) -> str:
    """Return a pair as files and answers name it: GBPUSD, and USDT/USD where a code has not three letters."""
    mark = "" if len(currency) == len(base) == 3 else "/"
    return f"{currency}{mark}{base}"


def parse_pair(text: str) -> tuple[str, str]:
    """Return the two currencies of GBPUSD, GBP/USD, GBP-USD or GBPUSD=X: the rate says how much of the second one unit
    of the first is. Raises UsageError."""
    given = re.sub("=X$", "", text.strip(), flags=re.IGNORECASE)
    parts = [part for part in _SPLIT.split(given) if part]
    if len(parts) == 1:
        cuts = [(given[:at], given[at:]) for at in range(3, len(given) - 2)]
        known = (cut for cut in cuts if (CURRENCIES | _PARTS.keys()).issuperset(map(str.upper, cut)))
        parts = next(([*cut] for cut in known), parts)
    if len(parts) != 2:
        remedy = "name two currencies such as GBPUSD or USDT/USD"
        raise UsageError(f"{text.strip()[:20]!r} is no pair of currencies", remedy=remedy)
    first, second = map(currency_code, parts)
    if first == second:
        raise UsageError(f"{text.strip()[:20]!r} is one currency twice", remedy="name two, such as GBPUSD")
    return first, second
