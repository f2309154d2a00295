"""Cover of written options: the shares and bought options that stand against them, and the cash that the rest may need.

Whatever the pairing, its sum is an upper bound of what the positions can come to, so pairs are taken greedily: of two
contracts that could cover, the one that costs less.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal

from chordesk.models.contracts import SHARES_PER_CONTRACT, OptionContract, parse_contract
from chordesk.tools.decimals import exact

ZERO = Decimal(0)
UNIT = exact(SHARES_PER_CONTRACT)
Quantities = Mapping[str, Decimal]


@dataclass(frozen=True, slots=True)
class Cover:
    """The needs of written options. cash: in account currency, what their assignment may cost at worst. shares: those
    that stand against written calls. naked: written calls without any cover."""

    cash: Decimal = ZERO
    shares: Decimal = ZERO
    naked: Decimal = ZERO

    def needs_more_than(self, other: Cover) -> bool:
        return self.cash > other.cash or self.naked > other.naked


def cover_of(quantities: Quantities) -> Cover:
    """Return the needs of positions in one underlying: signed quantities of its shares and of contracts on it.

    A written put needs its strike in cash, or the distance to the strike of a bought put that lives as long; a written
    call needs 100 shares, or a bought call that lives as long and the distance to its strike.
    """
    found = [(parse_contract(name), quantity) for name, quantity in quantities.items()]
    options = [(contract, quantity) for contract, quantity in found if contract is not None and quantity]
    shares = max(sum((quantity for contract, quantity in found if contract is None), ZERO), ZERO)
    puts, uncovered = _paired(options, "put")
    calls, left = _paired(options, "call", free_only=True)
    bound = min(sum(left.values(), ZERO) * UNIT, shares - shares % UNIT)
    left = _less(left, bound / UNIT)
    dearer, naked = _paired([*_rest(options, calls), *((one, -count) for one, count in left.items())], "call")
    strikes = sum((contract.strike * UNIT * count for contract, count in uncovered.items()), ZERO)
    return Cover(_cost(puts) + strikes + _cost(dearer), bound, sum(naked.values(), ZERO))


Pair = tuple[OptionContract, OptionContract, Decimal]  # written, bought, contracts
Options = Iterable[tuple[OptionContract, Decimal]]


def _distance(written: OptionContract, bought: OptionContract) -> Decimal:
    """Return what a pair may come to at worst, per share."""
    apart = written.strike - bought.strike if written.kind == "put" else bought.strike - written.strike
    return max(apart, ZERO)


def _paired(options: Options, kind: str, free_only: bool = False) -> tuple[list[Pair], dict[OptionContract, Decimal]]:
    """Return pairs of written and bought contracts of a kind, and the written ones that are left over. free_only: pairs
    alone that can come to nothing."""
    rows = [(one, count) for one, count in options if one.kind == kind]
    bought = {one: count for one, count in rows if count > 0}
    written = sorted(((one, -count) for one, count in rows if count < 0), key=lambda row: row[0].expiry, reverse=True)
    pairs: list[Pair] = []
    left: dict[OptionContract, Decimal] = {}
    for one, count in written:
        for other in sorted(bought, key=lambda other: (_distance(one, other), other.expiry)):
            fits = other.expiry >= one.expiry and not (free_only and _distance(one, other))
            taken = min(count, bought[other]) if fits else ZERO
            if taken:
                pairs.append((one, other, taken))
                bought[other] -= taken
                count -= taken
        if count:
            left[one] = left.get(one, ZERO) + count
    return pairs, left


def _cost(pairs: Iterable[Pair]) -> Decimal:
    return sum((_distance(one, other) * UNIT * count for one, other, count in pairs), ZERO)


def _rest(options: Options, pairs: Iterable[Pair]) -> Options:
    """Return the bought contracts that stand in no pair."""
    used: dict[OptionContract, Decimal] = {}
    for _, other, count in pairs:
        used[other] = used.get(other, ZERO) + count
    return [(one, count - used.get(one, ZERO)) for one, count in options if count > 0]


def _less(left: Mapping[OptionContract, Decimal], covered: Decimal) -> dict[OptionContract, Decimal]:
    """Return written calls without so many that shares cover, the lowest strikes first: they are the dearest to
    cover otherwise."""
    found: dict[OptionContract, Decimal] = {}
    for one in sorted(left, key=lambda one: one.strike):
        taken = min(left[one], covered)
        covered -= taken
        if left[one] > taken:
            found[one] = left[one] - taken
    return found
