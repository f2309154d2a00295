"""Legs: the form of their text, and the packages that are no order."""

from __future__ import annotations

import pytest

from chordesk.models.market import parse_leg, wrong_legs

CALL, HIGHER, PUT = "AAPL261218C00180000", "AAPL261218C00190000", "AAPL261218P00180000"


@pytest.mark.parametrize(
    ("text", "signed"), [(f"buy {CALL}", 1), (f"SELL 2 {CALL}", -2), (f" sell 1 {CALL} ", -1), (f"buy 10 {CALL}", 10)]
)
def test_a_leg_is_read_from_its_text(text: str, signed: int) -> None:
    leg = parse_leg(text)
    assert leg is not None
    assert (leg.contract, leg.signed) == (CALL, signed)
    assert parse_leg(str(leg)) == leg


@pytest.mark.parametrize("text", ["", "hold 1 " + CALL, f"buy 0 {CALL}", "buy AAPL", f"buy -1 {CALL}"])
def test_a_text_of_another_form_is_no_leg(text: str) -> None:
    assert parse_leg(text) is None


@pytest.mark.parametrize(
    ("texts", "part"),
    [
        ([f"buy {CALL}"], "1 legs"),
        ([f"buy {CALL}", f"sell {CALL}"], "the same contract"),
        ([f"buy {CALL}", "sell MSFT261218C00180000"], "no contract on AAPL"),
        ([f"buy 2 {CALL}", f"sell 2 {HIGHER}"], "common divisor 2"),
    ],
)
def test_a_package_that_is_no_order_has_its_reason(texts: list[str], part: str) -> None:
    legs = [leg for leg in map(parse_leg, texts) if leg is not None]
    assert len(legs) == len(texts)
    assert part in (wrong_legs("AAPL", legs) or "")


def test_a_spread_is_an_order() -> None:
    legs = [leg for leg in map(parse_leg, [f"buy {PUT}", f"sell 2 {CALL}"]) if leg is not None]
    assert wrong_legs("AAPL", legs) is None
