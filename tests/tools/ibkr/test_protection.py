"""A stop that protects shares is an order at IBKR, and leaves before they are sold."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import pytest

from tests.fakes.tws import ACCOUNT, Tws, serving
from tests.tools.ibkr.desks import made
from tests.tools.orders.desk import action

pytest.importorskip("ib_async")


def test_a_stop_stands_at_ibkr_and_leaves_before_its_shares(
    template_db: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("IBKR_ACCOUNT", ACCOUNT)
    with serving(Tws(fills="all")) as tws:
        desk = made(template_db, tmp_path, tws, protect="stop:8%")
        (bought,) = desk.run(action("AAA"))
        assert bought.state == "filled"
        desk.process(bought.decision_id)
        (stop,) = [row for row in tws.orders if row.kind == "STP"]
        assert (stop.action, stop.quantity, Decimal(stop.aux), stop.tif) == ("SELL", 10, 92, "GTC")
        tws.logout()  # the desk is down, and so is the Gateway: the stop is the venue's
        tws.login()
        orders, left = desk.flatten(desk.context(), "a test", "enough")
        assert ([row.state for row in orders], left, stop.status) == (["filled"], [], "Cancelled")
        assert (desk.positions(), desk.cash()) == ({}, float(tws.cash["USD"]))
        assert tws.positions["AAA"][0] == 0
        desk.broker.close()  # type: ignore[attr-defined]
        desk.store.close()
