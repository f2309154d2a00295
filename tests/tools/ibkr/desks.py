"""A desk whose broker is IBKR's paper account at the stand-in, in this process or in another."""

from __future__ import annotations

import datetime as dt
import os
from pathlib import Path
from typing import Any

from chordesk.models.database.store import Store
from chordesk.tools.brokers.protocol import build_broker
from chordesk.tools.orders.accounts import FencingLease
from tests.fakes.tws import Tws
from tests.tools.orders.desk import Desk, make_desk
from tests.tools.orders.tape import Tape, TapeClock

CASH = 1_000_000.0


class Now(TapeClock):
    """Real time, within a session whatever the hour."""

    def now(self) -> dt.datetime:
        return dt.datetime.now(dt.UTC)

    def is_open(self, exchange: str | None = None) -> bool:
        return True


def made(template: Path, home: Path, tws: Tws, **settings: Any) -> Desk:
    market = Tape({"AAA": 100.0, "BBB": 50.0}, clock=Now())
    ours = {"broker": "ibkr-paper", "ibkr_port": tws.port, "starting_cash": CASH}
    return make_desk(template, home, market, **ours, **settings)


def again(desk: Desk) -> Desk:
    """The same desk in another process."""
    store = Store(desk.settings.database)
    broker = build_broker(desk.settings, desk.market, store)
    return Desk(store, desk.settings, desk.market, broker, FencingLease(store, broker.name, f"process {os.getpid()}"))
