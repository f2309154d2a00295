"""Killed anywhere within a send, at a commit of the database or a request to the venue, with live orders there: none is
lost, none is there twice, and the cash is what the fills leave."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from far_broker import VENUES
from far_venue import FarVenue
from sqlalchemy import event
from venue_desks import again, made, without_mandate

from chordesk.models.states import OrderState
from chordesk.tools.decimals import exact
from chordesk.tools.orders.reconciliation import reconcile
from tests.tools.orders.desk import Desk, action

EACH = int(os.environ.get("DESK_TEST_KILL_EACH", "9"))  # of so many points, one is tried: 1 tries them all


@pytest.fixture(params=[*VENUES])
def far(request: pytest.FixtureRequest) -> Iterator[FarVenue]:
    with VENUES[request.param]() as venue:
        yield venue


def killed_at(desk: Desk, decision: str, point: int) -> bool:
    """Process a decision in a process that is killed at its so manieth point; return False when it came to its end."""
    child = os.fork()
    if child == 0:
        with suppress(BaseException):
            _die_at(again(desk), decision, point)
        os._exit(1)
    last = time.monotonic() + 30
    while (found := os.waitpid(child, os.WNOHANG)) == (0, 0):
        time.sleep(0.01)
        if time.monotonic() > last:  # a lock that was held when it was made: it is killed where it waits
            os.kill(child, signal.SIGKILL)
    status = found[1]
    assert os.WIFSIGNALED(status) or os.WEXITSTATUS(status) == 0, status
    return os.WIFSIGNALED(status)


def _die_at(desk: Desk, decision: str, point: int) -> None:
    from requests import Session

    left = [point]

    def step(*_: Any) -> None:
        left[0] -= 1
        if left[0] < 0:
            os.kill(os.getpid(), signal.SIGKILL)

    asked = Session.request

    def request(self: Any, *given: Any, **named: Any) -> Any:
        step()
        answer = asked(self, *given, **named)
        step()
        return answer

    event.listen(desk.store.writer, "commit", step)
    with patch.object(Session, "request", request):
        desk.process(decision)
    os._exit(0)


@pytest.mark.timeout(3600)  # of all points
def test_a_kill_anywhere_loses_no_order_and_doubles_none(
    tmp_path: Path, far: FarVenue, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_mandate(far, monkeypatch)
    kills = 0
    for point in range(0, 1000, EACH):
        fresh = type(far)()
        with fresh:
            fresh.fills = "all"
            fresh.fee_in_coin = fresh.title == "Binance"
            desk = made(tmp_path / str(point), fresh)
            limit = action(f"ETH-{fresh.money}", orderType="limit", limitPrice=99.0)
            decision = desk.decide(action(f"BTC-{fresh.money}"), limit)
            if not killed_at(desk, decision, point):
                break
            kills += 1
            after = again(desk)
            after.process(decision)
            require_whole(after, fresh)
            for each in (desk, after):
                each.store.close()
    assert kills * EACH > 20


def require_whole(desk: Desk, far: FarVenue) -> None:
    assert len(set(far.sends)) == len(far.sends), "an order is sent once"
    rows = {row.id.replace("-", ""): row for row in desk.orders()}
    there = {row.client_id.removesuffix("-day").replace("-", ""): row for row in far.orders.values()}
    assert there.keys() <= rows.keys()
    for id_, row in rows.items():
        if id_ not in there:
            assert row.state == OrderState.UNKNOWN, f"{row.denial_reason} {row.message}"
            continue
        wanted = OrderState.FILLED if there[id_].state == "filled" else OrderState.SUBMITTED
        assert (row.state, row.broker_order_id) == (wanted, there[id_].number)
    assert sorted((fill.quantity, fill.price) for fill in desk.fills()) == sorted(
        (float(one.quantity), float(one.price)) for row in far.orders.values() for one in row.trades
    )
    found = reconcile(desk.store, desk.settings, desk.broker, "a test")
    assert (found.agreed, found.differences) == (True, []), found.differences
    assert exact(desk.cash()) == far.balances[far.money]
    held = {coin: float(amount) for coin, amount in far.balances.items() if coin != far.money and amount}
    assert {symbol.partition("-")[0]: quantity for symbol, quantity in desk.positions().items()} == held
