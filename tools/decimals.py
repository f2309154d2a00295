"""Exact arithmetic on money: a float stands for the decimal it prints as, so limits hold at their exact boundary."""

from __future__ import annotations

import math
from decimal import Context, Decimal
from typing import Any

from chordesk.models.money import DOLLAR, coded


def exact(value: float) -> Decimal:
    """Return the decimal a float prints as: 0.1 is 0.1 and not 0.1000000000000000055."""
    return Decimal(repr(float(value)))


# Digits enough for the largest float to four places: in the usual 28, rounding a price of 1e24 is an error.
_WIDE = Context(prec=320)


def stepped(value: Decimal, step: Decimal, rounding: str) -> Decimal:
    """Return a value of any size as a multiple of any step, such as 0.05 or 100. A step is 1, 2 or 5 times a power of
    ten, so that the division is exact."""
    units = _WIDE.divide(value, step).to_integral_value(rounding, _WIDE)
    return _WIDE.multiply(units, step).quantize(step, context=_WIDE)  # with the step's places, as it is shown


def plain(value: float | Decimal) -> str:
    """Return the shortest plain decimal text: no exponent, no trailing zeros, no minus zero."""
    number = (value if isinstance(value, Decimal) else exact(value)).normalize()
    return format(number if number else Decimal(0), "f")


def money(value: float | Decimal, currency: str | None = DOLLAR, *, always: bool = False) -> str:
    """Return an amount for people: thousands separated; two places, or as many as an exact figure needs; with the code
    of any other currency than the dollar, as `coded` has it."""
    number = value if isinstance(value, Decimal) else exact(value)
    places = max(2, min(6, -int(number.normalize().as_tuple().exponent)))
    return coded(f"{number:,.{places}f}", currency, always=always)


def finite(value: Any) -> float | None:
    if isinstance(value, bool) or value is None:
        return None
    try:
        number = float(value)
    except (TypeError, ValueError):
        return None
    return number if math.isfinite(number) else None


def rounded(value: float | None, digits: int = 4) -> float | None:
    return None if value is None or value != value else round(value, digits)
