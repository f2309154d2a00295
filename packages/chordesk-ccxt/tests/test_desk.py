"""A desk at a venue: its stop is an order there at the pair's own steps, and leaves before its coins."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

import pytest
from far_broker import VENUES
from far_venue import FarVenue
from venue_desks import made, without_mandate

from chordesk.tools.orders.reconciliation import reconcile
from tests.tools.orders.desk import action


@pytest.fixture(params=[*VENUES])
def far(request: pytest.FixtureRequest) -> Iterator[FarVenue]:
    with VENUES[request.param]() as venue:
        yield venue


def test_a_stop_stands_at_the_venue_in_its_steps(
    tmp_path: Path, far: FarVenue, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_mandate(far, monkeypatch)
    far.tick, far.fills, far.fee_in_coin = Decimal("0.5"), "all", far.title == "Binance"
    desk = made(tmp_path / "home", far, protect="stop:8%")
    symbol = f"BTC-{far.money}"
    far.prices[symbol] = Decimal("97.5")
    (bought,) = desk.run(action(symbol, quantity=1.23457))
    assert bought.state == "filled", bought
    desk.process(bought.decision_id)
    (stop,) = [row for row in far.orders.values() if row.kind == "stop"]
    part = Decimal("1.23457") if far.title == "Kraken" else Decimal("1.23136")  # of 1.23136012, in steps of 0.00001
    assert (stop.side, stop.stop, stop.quantity, stop.lasts) == ("sell", Decimal("90.0"), part, "gtc")
    desk.process(bought.decision_id)
    assert len([row for row in far.orders.values() if row.kind == "stop"]) == 1, "it is the one that ought to stand"
    found = reconcile(desk.store, desk.settings, desk.broker, "a test")
    assert (found.agreed, found.differences) == (True, []), found.differences
    orders, _ = desk.flatten(desk.context(), "a test", "enough")
    assert ([row.state for row in orders], stop.state) == (["filled"], "cancelled")
    found = reconcile(desk.store, desk.settings, desk.broker, "a test")
    assert found.agreed, found.differences
    assert desk.cash() == pytest.approx(float(far.balances[far.money]), abs=0.01)
    left = {} if far.title == "Kraken" else {symbol: 1.2e-07}  # less than the pair's step
    assert desk.positions() == left
    desk.store.close()
