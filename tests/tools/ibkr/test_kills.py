"""Killed anywhere within a send, at a database commit or a message to the Gateway, with live orders there: none is
lost, none is there twice, and the cash is what the fills leave."""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from sqlalchemy import event

from chordesk.models.states import OrderState
from chordesk.tools.orders.reconciliation import reconcile
from tests.fakes.tws import ACCOUNT, Tws, serving
from tests.patience import PATIENCE
from tests.tools.ibkr.desks import CASH, again, made
from tests.tools.orders.desk import Desk, action

pytest.importorskip("ib_async")

ORDERS = (action("AAA"), action("BBB", orderType="limit", limitPrice=49.0))  # one is filled at once, one goes on
EACH = int(os.environ.get("DESK_TEST_KILL_EACH", "5"))  # of so many points, one is tried: 1 tries them all


def killed_at(desk: Desk, decision: str, point: int) -> bool:
    """Process a decision in a process that is killed at its so manieth point; return False when it came to its end."""
    child = os.fork()
    if child == 0:
        with suppress(BaseException):
            _die_at(again(desk), decision, point)
        os._exit(1)
    last = time.monotonic() + PATIENCE / 8
    while (found := os.waitpid(child, os.WNOHANG)) == (0, 0):
        time.sleep(0.01)
        if time.monotonic() > last:  # a lock that was held when it was made: it is killed where it waits
            os.kill(child, signal.SIGKILL)
    status = found[1]
    assert os.WIFSIGNALED(status) or os.WEXITSTATUS(status) == 0, status
    return os.WIFSIGNALED(status)


def _die_at(desk: Desk, decision: str, point: int) -> None:
    from ib_async.connection import Connection

    left = [point]

    def step(*_: Any) -> None:
        left[0] -= 1
        if left[0] < 0:
            os.kill(os.getpid(), signal.SIGKILL)

    written = Connection.sendMsg

    def sent(self: Any, message: bytes) -> None:
        step()
        written(self, message)
        step()

    event.listen(desk.store.writer, "commit", step)
    with patch.object(Connection, "sendMsg", sent):
        desk.process(decision)
    os._exit(0)


@pytest.mark.long
@pytest.mark.process
def test_a_kill_anywhere_loses_no_order_and_doubles_none(
    template_db: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("IBKR_ACCOUNT", ACCOUNT)
    kills = 0
    for point in range(0, 1000, EACH):
        with serving(Tws(fills="all")) as tws:
            desk = made(template_db, tmp_path / str(point), tws)
            decision = desk.decide(*ORDERS)
            if not killed_at(desk, decision, point):
                break
            kills += 1
            after = again(desk)
            after.process(decision)
            require_whole(after, tws)
            after.broker.close()  # type: ignore[attr-defined]
            for each in (desk, after):
                each.store.close()
    assert kills * EACH > 70


def require_whole(desk: Desk, tws: Tws) -> None:
    assert len(set(tws.sends)) == len(tws.sends), "an order is sent once"
    rows = {row.id: row for row in desk.orders()}
    there = {row.ref: row for row in tws.orders}
    assert there.keys() <= rows.keys()
    for id_, row in rows.items():
        if id_ not in there:
            assert row.state == OrderState.UNKNOWN, "it was about to be sent, and nobody knows that it was not"
            continue
        wanted = OrderState.FILLED if there[id_].status == "Filled" else OrderState.SUBMITTED
        assert (row.state, row.broker_order_id) == (wanted, str(there[id_].perm_id))
    fills = [(fill.quantity, fill.price, fill.commission) for fill in desk.fills()]
    assert sorted(fills) == sorted(
        (float(one.quantity), float(one.price), float(one.commission or 0)) for row in tws.orders for one in row.fills
    )
    assert desk.cash() == pytest.approx(CASH - sum(quantity * price + fee for quantity, price, fee in fills), abs=1e-6)
    assert desk.cash() == float(tws.cash["USD"])
    found = reconcile(desk.store, desk.settings, desk.broker, "a test")
    assert (found.agreed, found.differences) == (True, []), found.differences
