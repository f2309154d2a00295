"""Legs of an order: option contracts on one symbol that it trades together, as a whole or not at all."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

from pydantic import Field

from chordesk.models.contracts import parse_contract
from chordesk.models.research import Frozen

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
        """Return the contracts for one unit, negative when sold."""
        return self.ratio if self.side == "buy" else -self.ratio

    def __str__(self) -> str:
        return f"{self.side} {self.ratio} {self.contract}"


def parse_leg(text: str) -> OrderLeg | None:
    """Return the leg that a text of LEG_FORM names; None when it names none."""
    found = _TEXT.fullmatch(text.strip())
    contract = parse_contract(found["contract"].upper()) if found else None
    if found is None or contract is None:
        return None
    return OrderLeg.model_validate(
        {"contract": contract.symbol, "side": found["side"].lower(), "ratio": int(found["ratio"] or 1)}
    )


def legs_of(rows: Iterable[Mapping[str, Any]] | None) -> tuple[OrderLeg, ...]:
    """Return the legs of a stored order."""
    return tuple(OrderLeg.model_validate(row) for row in rows or ())


def wrong_legs(symbol: str, legs: Sequence[OrderLeg]) -> str | None:
    """Return why these legs are no order on a symbol; None when they are one."""
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
