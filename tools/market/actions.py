"""What a company's actions on its shares do to prices, costs and option contracts of before."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Iterable, Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Protocol

from chordesk.models.market import OptionContract, contract_of
from chordesk.tools.decimals import exact
from chordesk.tools.market.protocol import Action

# Cash above this share of the price is special: contracts follow it, as they do not an ordinary dividend (OCC).
SPECIAL = 1.05
_CENT = Decimal("0.01")


def growth_since(actions: Iterable[Action], day: dt.date) -> float:
    """By how much a price of that day is divided to compare with one of now, splits and cash included."""
    return math.prod(action.growth for action in actions if action.day > day)


def cash_growth(action: Action) -> float:
    """By how much the price falls for what was paid in cash or in shares of another company."""
    return action.growth / action.split


_SPLIT_PARTS = 20


def is_split(ratio: float) -> bool:
    """Whether a source's split is one: sources list a spin-off as a split of a ratio that no company declares."""
    return abs(float(Fraction(ratio).limit_denominator(_SPLIT_PARTS)) / ratio - 1) < 1e-4


def contract_after(contract: OptionContract, action: Action) -> OptionContract | None:
    """Return the contract of 100 shares that follows an action: a split of one share into a whole number divides the
    strike, special cash is taken off it in whole cents, an ordinary dividend leaves it. None where no such contract
    does: it then delivers something else than 100 shares."""
    ratio, strike = exact(action.split), contract.strike
    if action.spun:
        return None
    if cash_growth(action) > SPECIAL:
        strike = (strike - exact(action.dividend)).quantize(_CENT)
    elif ratio == 1:
        return contract
    strike /= ratio
    if ratio < 1 or ratio != int(ratio) or strike <= 0 or strike != round(strike, 3):
        return None
    return contract_of(contract.underlying, contract.expiry, contract.kind, strike)


def contract_now(contract: OptionContract, actions: Iterable[Action], day: dt.date) -> OptionContract | None:
    """Return what a contract of that day is now, None where it delivers something else than 100 shares."""
    found: OptionContract | None = contract
    for action in actions:
        if action.day > day and found is not None:
            found = contract_after(found, action)
    return found


class Moved(Protocol):
    """A fill of a position. quantity: negative when sold."""

    @property
    def day(self) -> dt.date: ...
    @property
    def signed(self) -> Decimal: ...
    @property
    def price(self) -> float: ...


def cost_less_cash(moves: Sequence[Moved], actions: Sequence[Action]) -> tuple[Decimal, Decimal]:
    """Return (shares, their average cost less the cash that was paid on them since) after fills, in shares of now.

    A stop a percentage below the cost would otherwise be reached by a dividend alone. The cash counts as a share of
    the price, as in adjusted prices: the distance from price to stop is the same before and after it.
    """
    held, cost = Decimal(0), Decimal(0)
    rows = [*((action.day, 0, action, None) for action in actions), *((move.day, 1, None, move) for move in moves)]
    for _, _, action, move in sorted(rows, key=lambda row: row[:2]):
        if action is not None:
            held, cost = held * exact(action.split), cost / exact(action.growth)
        elif move is not None:
            after, price = held + move.signed, exact(move.price)
            if not after:
                cost = Decimal(0)
            elif held * move.signed >= 0:
                cost = (held * cost + move.signed * price) / after
            elif held * after < 0:
                cost = price
            held = after
    return held, cost
