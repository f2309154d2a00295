"""A desk over IBKR: its stop is an order there, and what ended unseen holds up nothing."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path

import pytest

from chordesk.models.tables.orders import Order
from chordesk.tools.orders.reconciliation import reconcile
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


def test_an_order_that_ended_on_another_day_unseen_holds_up_no_comparison(
    template_db: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("IBKR_ACCOUNT", ACCOUNT)
    with serving(Tws()) as tws:
        desk = made(template_db, tmp_path, tws)
        (order,) = desk.run(action("AAA"))
        assert order.state == "submitted"
        desk.broker.close()  # type: ignore[attr-defined]
        with desk.store.session() as session:
            session.get_one(Order, order.order_id).sent_at -= dt.timedelta(days=2)  # type: ignore[operator]
        tws.fill(order.order_id, Decimal(10), Decimal(100))
        tws.new_day()
        found = reconcile(desk.store, desk.settings, desk.broker, "a test")
        assert not found.agreed, "it bought 10 shares, which no fill that was told explains"
        assert desk.outcomes([order.order_id])[0].state == "expired"
        adopted = reconcile(desk.store, desk.settings, desk.broker, "a test", adopt=True)
        assert (adopted.agreed, desk.positions()) == (True, {"AAA": 10})
        desk.broker.close()  # type: ignore[attr-defined]
        desk.store.close()
