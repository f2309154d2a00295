"""The record of an account: what lenses made."""

from __future__ import annotations

import datetime as dt

import pytest

from chordesk.tasks.reading.track_record import TradeRow, by_lens


def trade(lenses: list[str], profit: float) -> TradeRow:
    day = dt.date(2010, 3, 1)
    return TradeRow(
        symbol="IBM", lenses=lenses, bought=day, until=day, days_held=0, sold=True, entry="e", exit="x", quantity=6.0,
        entry_price=100.0, exit_price=100 + profit / 6, splits=1.0, staked=600.0, profit=profit, share=profit / 600,
        entry_reason=None, exit_reason=None,
    )  # fmt: skip


def test_lenses_sum_to_the_trades() -> None:
    trades = [trade(["technical"], 60.0), trade(["catalyst", "technical"], -30.0), trade([], 12.0)]
    trades.append(trade(["catalyst", "options", "technical"], 90.0))
    found = {one.name: one for one in by_lens(trades)}
    assert {name: (one.trades, one.won, one.profit) for name, one in found.items()} == {
        "technical": (3, 2, pytest.approx(75)),
        "catalyst": (2, 1, pytest.approx(15)),
        "options": (1, 1, pytest.approx(30)),
        "none": (1, 1, pytest.approx(12)),
    }
    assert sum(one.profit for one in found.values()) == pytest.approx(sum(one.profit for one in trades))
    assert sum(one.staked for one in found.values()) == pytest.approx(2_400)
    assert found["technical"].share == pytest.approx(75 / 1_100)
