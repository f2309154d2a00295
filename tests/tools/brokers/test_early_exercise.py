"""Puts of the paper account are exercised before their expiry where waiting is worth no more."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from chordesk.tools.market.clock import ReplayClock
from chordesk.tools.market.replay.market import Columns, ReplayData, ReplayMarket
from chordesk.tools.orders.reconciliation import reconcile
from tests.tools.market.files.folders import sessions
from tests.tools.orders.desk import Desk, make_desk

DAYS = sessions("2020-01-02", 40)
DEEP, NEAR, CALL = "A200717P00100000", "A200717P00071000", "A200717C00040000"


def desk_of(template: Path, home: Path, sway: float = 0.018) -> Desk:
    """A desk whose share stands at 70 after returns of +-1.8 % a day, a volatility of some 29 % a year."""
    close = 70 * np.exp(sway * np.where(np.arange(len(DAYS)) % 2, 0.0, 1.0)) / np.exp(sway)
    close[-1] = 70.0
    days = np.array([day.toordinal() for day in DAYS], dtype=np.int32)
    columns = Columns(np.array(["A"]), np.array([0, len(close)]), days, close, close, close, close, close * 1e6)
    market = ReplayMarket(ReplayData(columns, {}), ReplayClock(DAYS[-1]))
    return make_desk(template, home, market, replay_date=DAYS[-1], risk_free_rate=0.05, starting_cash=100_000.0)


def test_a_deep_put_is_exercised_and_what_may_still_move_waits(template_db: Path, tmp_path: Path) -> None:
    desk = desk_of(template_db, tmp_path)
    for symbol in (DEEP, NEAR, CALL):
        desk.hold(symbol, 1.0, 1.0)
    for _ in range(2):
        assert reconcile(desk.store, desk.settings, desk.broker, "a test").agreed
    assert (desk.positions(), desk.cash()) == ({NEAR: 1, CALL: 1}, 100_000 + 30 * 100)


@pytest.mark.parametrize(
    ("symbol", "sway", "held"), [(DEEP, 0.018, {"A": 100}), (NEAR, 0.018, None), (DEEP, 0.08, None)]
)
def test_a_written_put_is_assigned_when_its_owner_would_exercise(
    template_db: Path, tmp_path: Path, symbol: str, sway: float, held: dict[str, float] | None
) -> None:
    desk = desk_of(template_db, tmp_path, sway)
    desk.hold(symbol, -1.0, 1.0)
    assert reconcile(desk.store, desk.settings, desk.broker, "a test").agreed
    assert desk.positions() == (held or {symbol: -1})
    assert desk.cash() == 100_000 - (10_000 if held else 0)
