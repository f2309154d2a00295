"""Listed option contracts, named by their OCC symbols: root, expiry as YYMMDD, C or P, strike in thousandths; and the
chains of them that a market gives. Prices are per share, volatilities fractions a year."""

from __future__ import annotations

import datetime as dt
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Any, Literal, NamedTuple

from pydantic import Field

from chordesk.models.answers import Frozen

SHARES_PER_CONTRACT = 100.0
MODELLED = "modelled"  # the source of every figure that rests on a model in place of a market
_OCC = re.compile(r"(?P<root>[A-Z]{1,6}) *(?P<day>\d{6})(?P<kind>[CP])(?P<strike>\d{8})")


class OptionContract(Frozen):
    """One listed contract. strike in the underlying's currency per share; it ends after the close of `expiry`."""

    symbol: str
    underlying: str
    expiry: dt.date
    kind: Literal["call", "put"]
    strike: Decimal


class Greeks(NamedTuple):
    """delta and gamma for one currency unit of the share, theta for a calendar day, vega and rho for one point of
    volatility and of the rate (0.01)."""

    delta: float
    gamma: float
    theta: float
    vega: float
    rho: float


class ChainRow(NamedTuple):
    """One contract as its source states it; None where it says nothing. A bid of zero is a bid of zero.

    iv, greeks: the source's own, not those worked out from its quotes.
    """

    contract: OptionContract
    bid: float | None = None
    ask: float | None = None
    last: float | None = None
    volume: float | None = None
    open_interest: float | None = None
    iv: float | None = None
    greeks: Greeks | None = None


class OptionChain(NamedTuple):
    """The contracts on one symbol that a source lists."""

    symbol: str
    at: dt.datetime
    source: str
    spot: float  # the share's price with the quotes
    rows: tuple[ChainRow, ...]
    unread: tuple[str, ...] = ()  # names that are no OCC symbols on it, such as adjusted contracts
    dividend_yield: float | None = None  # a year, as a fraction
    interest_day: dt.date | None = None  # the earliest day of its open interest, where stated
    lacks: tuple[tuple[str, str], ...] = ()  # (missing part, reason)


def parse_contract(symbol: str) -> OptionContract | None:
    found = _OCC.fullmatch(symbol)
    if found is None:
        return None
    try:
        expiry = dt.datetime.strptime(found["day"], "%y%m%d").date()
    except ValueError:
        return None
    strike = Decimal(found["strike"]) / 1000
    if not strike:
        return None
    kind: Literal["call", "put"] = "call" if found["kind"] == "C" else "put"
    plain = f"{found['root']}{found['day']}{found['kind']}{found['strike']}"
    return OptionContract(symbol=plain, underlying=found["root"], expiry=expiry, kind=kind, strike=strike)


def contract_of(root: str, expiry: dt.date, kind: Literal["call", "put"], strike: Decimal) -> OptionContract:
    """Return the contract with these terms; root: one to six letters, strike in whole thousandths."""
    thousandths = int(strike * 1000)
    symbol = f"{root}{expiry:%y%m%d}{kind[0].upper()}{thousandths:08d}"
    return OptionContract(symbol=symbol, underlying=root, expiry=expiry, kind=kind, strike=strike)


def root_of(symbol: str) -> str:
    return symbol.replace(".", "").replace("-", "")


def multiplier_of(symbol: str) -> float:
    return SHARES_PER_CONTRACT if parse_contract(symbol) else 1.0


LEGS_AT_LEAST, LEGS_AT_MOST = 2, 4
LEG_FORM = "buy or sell, how many for one unit, OCC symbol, such as: sell 1 AAPL261218P00180000"
_TEXT = re.compile(
    r"(?P<side>buy|sell) +(?:(?P<ratio>[1-9]\d?) +)?(?P<contract>[A-Z]{1,6} *\d{6}[CP]\d{8})", re.IGNORECASE
)


class OrderLeg(Frozen):
    """One leg. ratio: contracts of it for one unit of the order."""

    contract: str
    side: Literal["buy", "sell"]
    ratio: int = Field(1, ge=1)

    @property
    def signed(self) -> int:
        return self.ratio if self.side == "buy" else -self.ratio

    def __str__(self) -> str:
        return f"{self.side} {self.ratio} {self.contract}"


def parse_leg(text: str) -> OrderLeg | None:
    found = _TEXT.fullmatch(text.strip())
    contract = parse_contract(found["contract"].upper()) if found else None
    if found is None or contract is None:
        return None
    return OrderLeg.model_validate(
        {"contract": contract.symbol, "side": found["side"].lower(), "ratio": int(found["ratio"] or 1)}
    )


def legs_of(rows: Iterable[Mapping[str, Any]] | None) -> tuple[OrderLeg, ...]:
    return tuple(OrderLeg.model_validate(row) for row in rows or ())


def wrong_legs(symbol: str, legs: Sequence[OrderLeg]) -> str | None:
    if not LEGS_AT_LEAST <= len(legs) <= LEGS_AT_MOST:
        return f"{len(legs)} legs, and an order has {LEGS_AT_LEAST} to {LEGS_AT_MOST}"
    names = [leg.contract for leg in legs]
    if len(set(names)) < len(names):
        return "two legs trade the same contract"
    strange = [name for name in names if (found := parse_contract(name)) is None or found.underlying != symbol]
    if strange:
        return f"{strange[0]} is no contract on {symbol}"
    common = math.gcd(*(leg.ratio for leg in legs))
    return None if common == 1 else f"the ratios have the common divisor {common}: order more units instead"
