"""Listed option contracts, named by their OCC symbols: root, expiry as YYMMDD, C or P, strike in thousandths."""

from __future__ import annotations

import datetime as dt
import re
from decimal import Decimal
from typing import Literal

from models.research import Frozen

SHARES_PER_CONTRACT = 100.0
_OCC = re.compile(r"(?P<root>[A-Z]{1,6}) *(?P<day>\d{6})(?P<kind>[CP])(?P<strike>\d{8})")


class OptionContract(Frozen):
    """One listed contract. strike in the underlying's currency per share; it ends after the close of `expiry`."""

    symbol: str
    underlying: str
    expiry: dt.date
    kind: Literal["call", "put"]
    strike: Decimal


def parse_contract(symbol: str) -> OptionContract | None:
    """Return the contract that an OCC symbol names, such as AAPL261218P00180000; None when it names none."""
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


def multiplier_of(symbol: str) -> float:
    """Return the shares that one unit of a symbol stands for: 100 for an option contract, 1 for a share."""
    return SHARES_PER_CONTRACT if parse_contract(symbol) else 1.0
