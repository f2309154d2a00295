"""Desks whose market and account are at a venue of the stand-ins, in this process or in another."""

from __future__ import annotations

import os
import shutil
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from far_venue import FarVenue

from chordesk.models.database.store import Store
from chordesk.models.settings import Settings, schema
from chordesk.tools.brokers.protocol import build_broker
from chordesk.tools.market.factory import build_market
from chordesk.tools.orders.accounts import FencingLease
from tests.databases import template
from tests.tools.orders.desk import DEFAULTS, Desk


def without_mandate(far: FarVenue, patch: pytest.MonkeyPatch) -> None:
    """Give the process the keys. Real money is sent under a mandate alone, and what is tested here is not that."""
    patch.setenv(f"{far.title.upper()}_API_KEY", far.key)
    patch.setenv(f"{far.title.upper()}_API_SECRET", far.secret)
    patch.setattr(schema, "REAL_MONEY", schema.REAL_MONEY - {f"ccxt-{far.title.lower()}"})


def again(desk: Desk) -> Desk:
    """The same desk in another process."""
    store = Store(desk.settings.database)
    broker = build_broker(desk.settings, desk.market, store)
    return Desk(store, desk.settings, desk.market, broker, FencingLease(store, broker.name, f"process {os.getpid()}"))


def made(home: Path, far: FarVenue, **more: Any) -> Desk:
    """Return a desk at a venue, by the market and with the account of its stand-in."""
    symbols = [f"BTC-{far.money}", f"ETH-{far.money}"]
    for symbol in symbols:
        far.days(symbol, 40)
        far.prices[symbol] = Decimal(100)
    far.rights = ["query-funds", "modify-trades"] if far.title == "Kraken" else far.rights
    venue = far.title.lower()
    of_venue = {"broker": f"ccxt-{venue}", "market": "ccxt", "ccxt_venue": venue, "ccxt_url": far.url}
    home.mkdir()
    shutil.copyfile(template(), home / "desk.db")
    own = {"home": home, "starting_cash": 1_000_000.0, "currency": far.money, "exchange": "CRYPTO", **more}
    settings = Settings.model_validate({**DEFAULTS, **of_venue, **own})
    market, store = build_market(settings), Store(settings.database)
    lease = FencingLease(store, settings.account, "test")
    return Desk(store, settings, market, build_broker(settings, market, store), lease)
