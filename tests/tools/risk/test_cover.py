"""Cover of written options: shares, bought options, and the cash for the rest."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chordesk.models.market import parse_contract
from chordesk.tools.risk.exposure import Cover, cover_of

PUT90, PUT85, PUT95 = (f"AAA100918P000{strike}000" for strike in (90, 85, 95))
CALL90, CALL85, CALL95 = (f"AAA100918C000{strike}000" for strike in (90, 85, 95))
EARLIER = "AAA100821C00085000"


@pytest.mark.parametrize(
    ("book", "cash", "shares", "naked"),
    [
        ({"AAA": 500}, 0, 0, 0),
        ({PUT90: -2}, 18_000, 0, 0),
        ({PUT90: -2, PUT85: 1}, 9_500, 0, 0),
        ({PUT90: -1, PUT95: 1}, 0, 0, 0),
        ({"AAA": 100, CALL90: -1}, 0, 100, 0),
        ({"AAA": 99, CALL90: -1}, 0, 0, 1),
        ({"AAA": 250, CALL90: -3}, 0, 200, 1),
        ({CALL90: -1, CALL95: 1}, 500, 0, 0),
        ({CALL90: -1, CALL85: 1}, 0, 0, 0),
        ({CALL90: -1, EARLIER: 1}, 0, 0, 1),
        ({"AAA": 100, CALL90: -1, CALL85: 1}, 0, 0, 0),
        ({"AAA": 100, CALL90: -1, PUT85: 1}, 0, 100, 0),
        ({"AAA": 100, CALL90: -1, CALL95: -1, PUT90: -1}, 9_000, 100, 1),
        ({"AAA": -100, CALL90: -1}, 0, 0, 1),
    ],
)
def test_needs(book: dict[str, float], cash: float, shares: float, naked: float) -> None:
    found = cover_of({name: Decimal(quantity) for name, quantity in book.items()})
    assert found == Cover(Decimal(cash), Decimal(shares), Decimal(naked))


NAMES = st.sampled_from([PUT90, PUT85, PUT95, CALL90, CALL85, CALL95])


@given(book=st.dictionaries(NAMES, st.integers(-4, 4)), lots=st.integers(0, 4), close=st.integers(1, 200))
def test_no_close_costs_more_than_what_is_put_aside(book: dict[str, int], lots: int, close: int) -> None:
    """At any close of the common expiry the options cost at most the cash held back, and the bound shares go."""
    found = cover_of({"AAA": Decimal(100 * lots), **{name: Decimal(count) for name, count in book.items()}})
    assert found.shares <= 100 * lots
    if found.naked:
        return
    gain = Decimal(0)
    for name, count in book.items():
        contract = parse_contract(name)
        assert contract is not None
        worth = close - contract.strike if contract.kind == "call" else contract.strike - close
        gain += 100 * count * max(worth, Decimal(0))
    lowest = min((one.strike for one in map(parse_contract, book) if one and one.kind == "call"), default=Decimal(0))
    risen = found.shares * max(close - lowest, Decimal(0))
    assert gain + risen + found.cash >= 0
