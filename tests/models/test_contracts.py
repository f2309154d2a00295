"""OCC symbols."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import pytest

from chordesk.models.market import multiplier_of, parse_contract


@pytest.mark.parametrize(
    ("symbol", "underlying", "expiry", "kind", "strike"),
    [
        ("AAPL261218P00180000", "AAPL", dt.date(2026, 12, 18), "put", Decimal(180)),
        ("F270115C00012500", "F", dt.date(2027, 1, 15), "call", Decimal("12.5")),
        ("MSFT  260320C00400000", "MSFT", dt.date(2026, 3, 20), "call", Decimal(400)),
    ],
)
def test_an_occ_symbol_is_read(symbol: str, underlying: str, expiry: dt.date, kind: str, strike: Decimal) -> None:
    found = parse_contract(symbol)
    assert found is not None
    assert (found.underlying, found.expiry, found.kind, found.strike) == (underlying, expiry, kind, strike)
    assert found.symbol == symbol.replace(" ", "")
    assert multiplier_of(symbol) == 100


@pytest.mark.parametrize(
    "text",
    [
        "",
        "AAPL",
        "BRK.B",
        "AAPL261318P00180000",  # no such month
        "AAPL260230P00180000",  # no such day
        "AAPL261218X00180000",
        "AAPL261218P0018000",
        "AAPL261218P000000000",
        "AAPL261218P00000000",  # no strike
        "aapl261218P00180000",
        "AAPL261218P00180000 ",
    ],
)
def test_anything_else_is_a_share(text: str) -> None:
    assert parse_contract(text) is None
    assert multiplier_of(text) == 1
