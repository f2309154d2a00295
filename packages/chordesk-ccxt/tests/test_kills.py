"""Killed anywhere within a send, at a commit of the database or a request to the venue, with live orders there: none is
lost, none is there twice, and the cash is what the fills leave."""

from __future__ import annotations

import os
import shutil
import signal
import time
from collections.abc import Iterator
from contextlib import suppress
from decimal import Decimal
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from far_broker import VENUES
from far_venue import FarVenue
from sqlalchemy import event

from chordesk.models.database.store import Store
from chordesk.models.settings import Settings, schema
from chordesk.models.states import OrderState
from chordesk.tools.brokers.protocol import build_broker
from chordesk.tools.decimals import exact
from chordesk.tools.market.factory import build_market
from chordesk.tools.orders.accounts import FencingLease
from chordesk.tools.orders.reconciliation import reconcile
from tests.databases import template
from tests.tools.orders.desk import DEFAULTS, Desk, action

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


def again(desk: Desk) -> Desk:
    """The same desk in another process."""
    store = Store(desk.settings.database)
    broker = build_broker(desk.settings, desk.market, store)
    return Desk(store, desk.settings, desk.market, broker, FencingLease(store, broker.name, f"process {os.getpid()}"))


def made(template: Path, home: Path, far: FarVenue) -> Desk:
    symbols = [f"BTC-{far.money}", f"ETH-{far.money}"]
    for symbol in symbols:
        far.days(symbol, 40)
        far.prices[symbol] = Decimal(100)
    far.rights = ["query-funds", "modify-trades"] if far.title == "Kraken" else far.rights
    venue = far.title.lower()
    of_venue = {"broker": f"ccxt-{venue}", "market": "ccxt", "ccxt_venue": venue, "ccxt_url": far.url}
    home.mkdir()
    shutil.copyfile(template, home / "desk.db")
    own = {"home": home, "starting_cash": 1_000_000.0, "currency": far.money, "exchange": "CRYPTO"}
    settings = Settings.model_validate({**DEFAULTS, **of_venue, **own})
    market, store = build_market(settings), Store(settings.database)
    lease = FencingLease(store, settings.account, "test")
    return Desk(store, settings, market, build_broker(settings, market, store), lease)


@pytest.mark.timeout(3600)  # of all points
def test_a_kill_anywhere_loses_no_order_and_doubles_none(
    tmp_path: Path, far: FarVenue, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(f"{far.title.upper()}_API_KEY", far.key)
    monkeypatch.setenv(f"{far.title.upper()}_API_SECRET", far.secret)
    name = f"ccxt-{far.title.lower()}"
    # Real money is sent under a mandate alone, and what is killed here is not that.
    monkeypatch.setattr(schema, "REAL_MONEY", schema.REAL_MONEY - {name})
    kills = 0
    for point in range(0, 1000, EACH):
        fresh = type(far)()
        with fresh:
            fresh.fills = "all"
            fresh.fee_in_coin = fresh.title == "Binance"
            desk = made(template(), tmp_path / str(point), fresh)
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
