"""Exchanges as rows of a table, and the one function that leads from a symbol to its exchange.

A symbol is written as Yahoo writes it: without a suffix it is of New York, a suffix names another exchange (AZN.L), and
BASE-QUOTE is a pair of a coin and a currency (BTC-USD). Prices are in the exchange's currency, pounds and not pence:
what quotes in hundredths is divided where it comes in.

A fact of an exchange has the page that states it and the day of that page. Without one it is left out: a step or a lot
that is not known is None, and never a guess.
"""

from __future__ import annotations

import datetime as dt
import re
import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from functools import cache, lru_cache
from typing import NamedTuple
from zoneinfo import ZoneInfo

from chordesk.models.errors import MarketError


@dataclass(frozen=True, slots=True)
class PriceSteps:
    """Price steps by the price: `(from, step)` in ascending order, the first from 0.

    up_to: a border belongs to the range below it, as in Tokyo and Mumbai.
    """

    rows: tuple[tuple[Decimal, Decimal], ...]
    up_to: bool = False

    def step(self, price: Decimal) -> Decimal:
        """Return the step at a price; below 0, that at 0."""
        begun = [step for start, step in self.rows if (price > start if self.up_to else price >= start)]
        return begun[-1] if begun else self.rows[0][1]

    def borders(self) -> tuple[Decimal, ...]:
        return tuple(start for start, _ in self.rows[1:])


class Board(NamedTuple):
    """A part of an exchange whose orders are of other sizes: what its symbols begin with, the lot, and the least."""

    prefixes: tuple[str, ...]
    lot: int
    least: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange:
    """One exchange. Everything but the place is what a symbol of it is traded by."""

    code: str  # MIC; of pairs CRYPTO
    place: str
    calendar: str  # of the library exchange_calendars, which refuses days before the first that it has recorded
    recorded_since: str = "1990-01-01"
    zone: str
    currency: str  # of its prices; of pairs the quote is
    suffixes: tuple[str, ...] = ()
    # One table, or several where each listing has one of them; none where the steps are not known.
    steps: tuple[PriceSteps, ...] = ()
    lot: int | None = None  # what a buy is a multiple of; None: each listing has its own, or it is not known
    boards: tuple[Board, ...] = ()  # parts of it with lots of their own
    sells_same_day: bool = True  # whether shares are sold on the day on which they were bought
    shorts: bool = False  # whether the desk sells short there
    times: tuple[str, ...] = ("day", "gtc", "ioc")  # times in force; auctions have been looked at in New York alone
    decides: int = 5  # minutes before the close of a session at which a replay decides
    days_a_year: int = 252
    source: str = ""  # of the steps and the lot: the pages, each with its day


def _steps(*rows: tuple[str, str], up_to: bool = False) -> PriceSteps:
    return PriceSteps(tuple((Decimal(start), Decimal(step)) for start, step in rows), up_to)


def _european() -> tuple[PriceSteps, ...]:
    """Return the tables of (EU) 2017/588, one a liquidity band, the coarsest first: in each row of prices the step is
    one further in 1, 2, 5 than in the row before, and a band later it is one back; 0.0001 is the least."""
    starts = ("0", *(f"{lead}E{power}" for power in range(-1, 5) for lead in (1, 2, 5)))
    sizes = [Decimal(f"{lead}E{power}") for power in range(-4, 3) for lead in (1, 2, 5)]
    # The first row of the first band is 0.0005, the third of the sizes.
    places = [[max(row + 2 - band, 0) for row in range(len(starts))] for band in range(6)]
    return tuple(
        PriceSteps(tuple(zip(map(Decimal, starts), (sizes[at] for at in band), strict=True))) for band in places
    )


EUROPEAN = _european()
_EU = "(EU) 2017/588, annex, as amended to 2026, and the FCA's copy of it"

HOME = "XNYS"
CRYPTO = "CRYPTO"
_ROWS = (
    Exchange(
        code=HOME, place="New York", calendar="XNYS", zone="America/New_York", currency="USD",
        steps=(_steps(("0", "0.0001"), ("1", "0.01")),), lot=1, shorts=True,
        times=("day", "gtc", "ioc", "opg", "cls"), source="17 CFR 242.612, 2026-11-28",
    ),
    Exchange(
        code="XTSE", place="Toronto", calendar="XTSE", zone="America/Toronto", currency="CAD", suffixes=("TO",),
        # Odd lots are filled beside the book.
        steps=(_steps(("0", "0.005"), ("0.5", "0.01")),), lot=1,
        source="TSX order types guide, 6.1, seen 2026-11-28",
    ),
    Exchange(
        code="XLON", place="London", calendar="XLON", zone="Europe/London", currency="GBP", suffixes=("L",),
        steps=EUROPEAN, source=_EU,
    ),
    Exchange(
        code="XETR", place="Frankfurt", calendar="XETR", zone="Europe/Berlin", currency="EUR", suffixes=("DE",),
        steps=EUROPEAN, lot=1, source=f"{_EU}; Frankfurt, Glossary, Round lot, seen 2026-11-28",
    ),
    Exchange(
        code="XPAR", place="Paris", calendar="XPAR", zone="Europe/Paris", currency="EUR", suffixes=("PA",),
        steps=EUROPEAN, lot=1, source=f"{_EU}; Bearstreet, Euronext, seen 2026-11-28",
    ),
    Exchange(
        code="XAMS", place="Amsterdam", calendar="XAMS", zone="Europe/Amsterdam", currency="EUR", suffixes=("AS",),
        steps=EUROPEAN, lot=1, source=f"{_EU}; Bearstreet, Euronext, seen 2026-11-28",
    ),
    Exchange(
        code="XMIL", place="Milan", calendar="XMIL", zone="Europe/Rome", currency="EUR", suffixes=("MI",),
        steps=EUROPEAN, source=_EU,
    ),
    Exchange(
        code="XMAD", place="Madrid", calendar="XMAD", zone="Europe/Madrid", currency="EUR", suffixes=("MC",),
        steps=EUROPEAN, source=_EU,
    ),
    Exchange(
        code="XSTO", place="Stockholm", calendar="XSTO", zone="Europe/Stockholm", currency="SEK", suffixes=("ST",),
        steps=EUROPEAN, source=_EU,
    ),
    Exchange(
        code="XTKS", place="Tokyo", calendar="XTKS", recorded_since="1997-01-01", zone="Asia/Tokyo", currency="JPY",
        suffixes=("T",),
        # Of issues outside the TOPIX 500. The steps of its members are finer, and each of these is a multiple of them.
        steps=(
            _steps(
                ("0", "1"), ("3000", "5"), ("5000", "10"), ("30000", "50"), ("50000", "100"), ("300000", "500"),
                ("500000", "1000"), up_to=True,
            ),
        ),
        lot=100,
        source="TSE, Trading rules of domestic stocks, 2014-10-31, with JPX FAQ 19577 of 2026-03-02; JPX, "
        "Standardization of trading units, 2018-10-01",
    ),
    Exchange(
        code="XHKG", place="Hong Kong", calendar="XHKG", zone="Asia/Hong_Kong", currency="HKD", suffixes=("HK",),
        # From 0.5 to 10 a step of 0.005 was planned for 2026: 0.01 is a multiple of it. The lot is each issuer's own.
        steps=(
            _steps(
                ("0", "0.001"), ("0.25", "0.005"), ("0.5", "0.01"), ("20", "0.02"), ("50", "0.05"), ("100", "0.1"),
                ("200", "0.2"), ("500", "0.5"),
            ),
        ),
        source="HKEX, Reduction of minimum spreads, in force since 2025-08-04; the other ranges by the minimum bid "
        "sizes of POEMS, seen 2026-11-28",
    ),
    Exchange(
        code="XSHG", place="Shanghai", calendar="XSHG", recorded_since="1990-12-03", zone="Asia/Shanghai",
        currency="CNY", suffixes=("SS",),
        steps=(_steps(("0", "0.01")),), lot=100, sells_same_day=False, boards=(Board(("688", "689"), 1, 200),),
        source="SSE, Stock trading mechanism, 1.1.2, seen 2026-11-28",
    ),
    Exchange(
        # Its sessions are those of Shanghai.
        code="XSHE", place="Shenzhen", calendar="XSHG", recorded_since="1990-12-03", zone="Asia/Shanghai",
        currency="CNY", suffixes=("SZ",),
        steps=(_steps(("0", "0.01")),), lot=100, sells_same_day=False,
        source="PPro8, Shenzhen Stock Exchange, 2019-11-04",
    ),
    Exchange(
        code="XKRX", place="Seoul", calendar="XKRX", zone="Asia/Seoul", currency="KRW", suffixes=("KS", "KQ"),
        steps=(
            _steps(
                ("0", "1"), ("2000", "5"), ("5000", "10"), ("20000", "50"), ("50000", "100"), ("200000", "500"),
                ("500000", "1000"),
            ),
        ),
        source="KRX, Tick size, with the ranges that changed on 2023-01-25",
    ),
    Exchange(
        code="XTAI", place="Taipei", calendar="XTAI", zone="Asia/Taipei", currency="TWD", suffixes=("TW",), lot=1000,
        source="TWSE, Operating rules, article 60, 2022-04-28",
    ),
    Exchange(
        code="XNSE", place="Mumbai", calendar="XBOM", recorded_since="1997-01-01", zone="Asia/Kolkata", currency="INR",
        suffixes=("NS",),
        # By the close of the month before: near a border a step may be the neighbour's.
        steps=(
            _steps(
                ("0", "0.01"), ("250", "0.05"), ("1000", "0.1"), ("5000", "0.5"), ("10000", "1"), ("20000", "5"),
                up_to=True,
            ),
        ),
        lot=1,
        source="NSE, circular on tick sizes, in force since 2025-04-15; Equities India, Lot size, seen 2026-11-28",
    ),
    Exchange(
        code="XSES", place="Singapore", calendar="XSES", zone="Asia/Singapore", currency="SGD", suffixes=("SI",),
        steps=(_steps(("0", "0.001"), ("0.2", "0.005"), ("1", "0.01")),),
        source="SGX, Regulatory notice 8.5.2, 2019-06-03",
    ),
    Exchange(
        code="XASX", place="Sydney", calendar="XASX", zone="Australia/Sydney", currency="AUD", suffixes=("AX",),
        steps=(_steps(("0", "0.001"), ("0.1", "0.005"), ("2", "0.01")),),
        source="ASX, Pricing information, seen 2026-11-28",
    ),
    Exchange(
        code="BVMF", place="São Paulo", calendar="BVMF", zone="America/Sao_Paulo", currency="BRL", suffixes=("SA",),
        lot=100, source="B3's round lots as the brokers state them, seen 2026-11-28",
    ),
    Exchange(
        code=CRYPTO, place="crypto", calendar="24/7", zone="UTC", currency="USD", days_a_year=365,
    ),
)  # fmt: skip
EXCHANGES: Mapping[str, Exchange] = {row.code: row for row in _ROWS}

# Places by the suffixes of Yahoo, of those without a row too. Any other single letter is a class of US shares.
PLACES: Mapping[str, str] = {
    suffix: place
    for place, suffixes in {
        "London": "L IL XC AQ",
        "Frankfurt": "F DE",
        "Berlin": "BE", "Bremen": "BM", "Düsseldorf": "DU", "Hamburg": "HM", "Hanover": "HA", "Munich": "MU",
        "Stuttgart": "SG", "Europe": "XD NX",
        "Paris": "PA", "Amsterdam": "AS", "Brussels": "BR", "Lisbon": "LS", "Dublin": "IR", "Milan": "MI TI",
        "Madrid": "MC", "Zurich": "SW VX", "Vienna": "VI", "Athens": "AT", "Stockholm": "ST", "Copenhagen": "CO",
        "Helsinki": "HE", "Oslo": "OL", "Reykjavik": "IC", "Tallinn": "TL", "Riga": "RG", "Vilnius": "VS",
        "Warsaw": "WA", "Budapest": "BD", "Bucharest": "RO", "Istanbul": "IS", "Moscow": "ME", "Tel Aviv": "TA",
        "Riyadh": "SR SAU", "Doha": "QA", "Kuwait": "KW", "Dubai": "AE", "Cairo": "CA", "Johannesburg": "JO",
        "Toronto": "TO NE CN V", "Mexico City": "MX", "São Paulo": "SA", "Buenos Aires": "BA", "Santiago": "SN",
        "Bogotá": "CL", "Caracas": "CR", "Lima": "LM",
        "Tokyo": "T", "Hong Kong": "HK", "Shanghai": "SS SH", "Shenzhen": "SZ", "Seoul": "KS KQ",
        "Taipei": "TW TWO", "Mumbai": "NS BO", "Singapore": "SI", "Bangkok": "BK", "Jakarta": "JK",
        "Kuala Lumpur": "KL", "Manila": "PS", "Ho Chi Minh City": "VN", "Sydney": "AX XA", "Wellington": "NZ",
    }.items()
    for suffix in suffixes.split()
}  # fmt: skip
# Units, warrants, rights, preferred shares, bankrupt and over-the-counter names, and what says what is so anyway.
_AMERICAN = frozenset(["UN", "WS", "WSA", "WSB", "WT", "RT", "WI", "PR", "OB", "PK", "US"])
_UNKNOWN = re.compile(r"[A-Z0-9&-]+\.([A-Z]{2,4})")
_BY_SUFFIX: Mapping[str, Exchange] = {suffix: row for row in _ROWS for suffix in row.suffixes}

FIAT = "USD|EUR|GBP|JPY|CHF|CAD|AUD|NZD|CNY|HKD|SGD|KRW|INR|BRL|MXN|ZAR|SEK|NOK|DKK|TRY"
MONEY = f"{FIAT}|BTC|ETH|USDT|USDC|BUSD|DAI"
_PAIR = re.compile(rf"(?P<base>[A-Z0-9]{{1,10}})-(?P<quote>{MONEY})")
_IS_FIAT = re.compile(FIAT)


def exchange_named(name: str) -> str | None:
    """Return the code of an exchange by its code or its place, in any case and without accents."""
    wanted = _bare(name)
    return next((row.code for row in _ROWS if wanted in (_bare(row.code), _bare(row.place))), None)


def _bare(name: str) -> str:
    letters = unicodedata.normalize("NFKD", name.strip().casefold())
    return "".join(one for one in letters if not unicodedata.combining(one))


def shown_exchange(code: str) -> str:
    """Return an exchange as texts name it."""
    return "the New York Stock Exchange" if code == HOME else f"{code} ({EXCHANGES[code].place})"


def clock_of(code: str) -> str:
    """Return what the times of an exchange are, as texts say it."""
    row = EXCHANGES[code]
    return "UTC" if row.zone == "UTC" else f"{row.place} time"


def pair_of(symbol: str) -> tuple[str, str] | None:
    """Return base and quote of a pair such as BTC-USD; None of any other symbol."""
    found = _PAIR.fullmatch(symbol)
    return (found["base"], found["quote"]) if found else None


def suffix_of(symbol: str) -> str:
    """Return the suffix that names the place of a listing, without its dot; empty where there is none."""
    stem, dot, suffix = symbol.rpartition(".")
    # A preferred share is written BAC.PR.L: its last letter is a series.
    return suffix if dot and stem and suffix in PLACES and not stem.endswith(".PR") else ""


def exchange_of(symbol: str) -> Exchange:
    """Return the exchange of a symbol by its form alone. Raises MarketError where its suffix names a place that has no
    row or nothing that is known, and of a rate between two currencies."""
    pair, suffix = pair_of(symbol), suffix_of(symbol)
    if pair is not None:
        if _IS_FIAT.fullmatch(pair[0]):
            raise MarketError(f"{symbol} is an exchange rate", remedy="currencies are not traded: leave it out")
        return EXCHANGES[CRYPTO]
    remedy = f"leave it out; known are the suffixes {', '.join(f'.{one}' for one in _BY_SUFFIX)}"
    if not suffix:
        unknown = _UNKNOWN.fullmatch(symbol)
        if unknown and unknown[1] not in _AMERICAN:
            raise MarketError(f"{symbol} has a suffix that the desk does not know (.{unknown[1]})", remedy=remedy)
        return EXCHANGES[HOME]
    if suffix not in _BY_SUFFIX:
        raise MarketError(
            f"{symbol} is listed in {PLACES[suffix]} (.{suffix}), which the desk does not know", remedy=remedy
        )
    return _BY_SUFFIX[suffix]


@cache
def zone_of(exchange: str) -> ZoneInfo:
    return ZoneInfo(EXCHANGES[exchange].zone)


def at_exchange(moment: dt.datetime, exchange: str = HOME) -> str:
    """Return a time where an exchange is, with its zone: 2010-08-12 16:00 EDT."""
    return f"{moment.astimezone(zone_of(exchange)):%Y-%m-%d %H:%M %Z}"


@lru_cache(maxsize=8192)
def exchange_code(symbol: str) -> str:
    """Return the code of a symbol's exchange; New York's where it has no row, of which nothing is opened."""
    try:
        return exchange_of(symbol).code
    except MarketError:
        return HOME


def of_place(exchange: str) -> str:
    """Return which exchange it is, for a sentence after its name: nothing of New York's."""
    return "" if exchange == HOME else f" of {EXCHANGES[exchange].place}"


def at_listing(moment: dt.datetime, symbol: str) -> str:
    """Return a time where a symbol or an option contract is listed, as `at_exchange` does."""
    return at_exchange(moment, exchange_code(symbol))


def days_a_year(symbol: str) -> int:
    """Return how many sessions of a symbol's exchange a year has: by them a figure of days is one of a year."""
    return EXCHANGES[exchange_code(symbol)].days_a_year


def currency_of(symbol: str) -> str:
    """Return the currency of a symbol's prices as its form tells; a source may state another."""
    pair = pair_of(symbol)
    return pair[1] if pair else exchange_of(symbol).currency


def is_multiple(price: Decimal, step: Decimal) -> bool:
    return price % step == 0


def fitting_steps(exchange: Exchange, prices: Iterable[Decimal]) -> PriceSteps | None:
    """Return the table by which a listing is traded. Where each listing has one of several, it is the coarsest of which
    all its prices are multiples, and None where they fit none; prices: a month of opens, highs, lows and closes.

    A coarse step need not be a multiple of a finer one (0.05 is none of 0.02), so that a table is never guessed: with
    few prices a coarser table than the listing's own may fit, whose prices the exchange would still refuse.
    """
    if len(exchange.steps) < 2:
        return exchange.steps[0] if exchange.steps else None
    known = set(prices)
    fitting = (table for table in exchange.steps if all(is_multiple(price, table.step(price)) for price in known))
    return next(fitting, None) if known else None
