"""Duties: every row has its page and its day, and an order pays them once, however it fills."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chordesk.models.duties import DUTIES, duties_due, duty_share
from chordesk.models.exchanges import EXCHANGES, PLACES

ZERO = Decimal(0)
WORTH = st.integers(1, 10**9).map(lambda cents: Decimal(cents) / 100)


def test_every_row_has_a_source_and_a_day_and_an_exchange_of_the_table() -> None:
    for row in DUTIES:
        assert row.source
        assert dt.date(2023, 1, 1) < row.stated <= dt.date(2026, 11, 29)
        assert set(row.exchanges) <= EXCHANGES.keys()
        assert set(row.suffixes) <= PLACES.keys()
        assert row.due(Decimal(1_000_000)) > 0


@pytest.mark.parametrize(
    ("symbol", "kind", "side", "worth", "due"),
    [
        ("AAPL", "share", "buy", "100000", {}),
        ("AZN.L", "share", "buy", "10000", {"stamp duty": "50"}),
        ("AZN.L", "share", "buy", "10000.01", {"stamp duty": "50.00005", "PTM levy": "1.50"}),
        ("AZN.L", "share", "sell", "20000", {"PTM levy": "1.50"}),
        ("ISF.L", "etf", "buy", "20000", {}),
        ("MC.PA", "share", "buy", "10000", {"transaction tax": "40"}),
        ("MC.PA", "share", "sell", "10000", {}),
        ("ENI.MI", "share", "buy", "10000", {"transaction tax": "20"}),
        ("ITX.MC", "share", "buy", "10000", {"transaction tax": "20"}),
        ("600519.SS", "share", "buy", "10000", {"handling fee": ".341", "management fee": ".2", "transfer fee": ".1"}),
        ("005930.KS", "share", "sell", "1000000", {"transaction tax": "500", "agriculture tax": "1500"}),
        ("247540.KQ", "share", "sell", "1000000", {"transaction tax": "2000"}),
        ("2330.TW", "share", "sell", "1000000", {"transaction tax": "3000"}),
        ("RELIANCE.NS", "share", "buy", "100000", {"STT": "100", "stamp duty": "15", "SEBI fee": ".1"}),
    ],
)
def test_an_order_pays_what_its_exchange_asks(symbol: str, kind: str, side: str, worth: str, due: dict) -> None:
    found = duties_due(symbol, kind, side, ZERO, Decimal(worth))
    assert dict(found) == {name: Decimal(amount) for name, amount in due.items()}


@given(st.sampled_from(["AZN.L", "0700.HK", "600519.SS", "SAP.DE"]), st.sampled_from(["buy", "sell"]), st.lists(WORTH))
def test_the_parts_of_an_order_pay_what_it_would_in_one(symbol: str, side: str, parts: list[Decimal]) -> None:
    paid, moved = ZERO, ZERO
    for part in parts:
        paid += sum((amount for _, amount in duties_due(symbol, "share", side, moved, moved + part)), ZERO)
        moved += part
    assert paid == sum((amount for _, amount in duties_due(symbol, "share", side, ZERO, moved)), ZERO)
    assert paid >= moved * duty_share(symbol, "share", side)
