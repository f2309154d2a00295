"""The two venues as the contract of brokers drives them."""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Mapping
from contextlib import ExitStack
from decimal import Decimal
from typing import Any, Literal, cast
from unittest.mock import patch

import pytest
from chordesk_ccxt import FEATURE, broker
from far_binance import FarBinance
from far_kraken import FarKraken
from far_venue import FarRow, FarVenue

from chordesk.plugins import Broker, Settings
from chordesk.testing.broker import ClockAlone, Far, FarOrder, Fault
from chordesk.tools.brokers.protocol import build_broker


class VenueFar(Far):
    """A far side at one venue. Its ids of orders are as its wire has them."""

    price = 100.0

    def __init__(self, venue: FarVenue) -> None:
        self.venue = venue
        self.name = f"ccxt-{venue.title.lower()}"
        self.entry = FEATURE.brokers[self.name]
        self.symbols = (f"BTC-{venue.money}", f"ETH-{venue.money}")
        venue.prices = {symbol: Decimal(100) for symbol in self.symbols}
        if venue.title == "Kraken":
            venue.rights = ["query-funds", "modify-trades", "close-trades"]
        self.keys = dict(zip(self.entry.credentials, (venue.key, venue.secret), strict=True))
        self._patches = ExitStack()

    def close(self) -> None:
        self._patches.close()

    @property
    def sends(self) -> list[str]:  # type: ignore[override]
        return [_desk_id(one) for one in self.venue.sends]

    def connect(self, keys: Mapping[str, str] | None = None, seconds: float | None = None) -> Broker:
        if seconds is not None:
            self._patches.enter_context(patch.object(broker, "REQUEST_SECONDS", seconds))
        settings = Settings.model_validate({"broker": self.name, "ccxt_url": self.venue.url})
        environ = dict(self.keys if keys is None else keys)
        return build_broker(settings, cast("Any", ClockAlone()), cast("Any", None), environ)

    def order(self, order_id: str) -> FarOrder | None:
        row = self._row(order_id)
        if row is None:
            return None
        lasts = "day" if row.client_id.endswith("-day") else row.lasts
        limit, stop = (None if one is None else float(one) for one in (row.limit, row.stop))
        return FarOrder(row.symbol, row.side, float(row.quantity), row.kind, lasts, limit, stop)

    def _row(self, order_id: str) -> FarRow | None:
        return next((row for row in self.venue.orders.values() if _desk_id(row.client_id) == order_id), None)

    def next_send(self, fault: Fault) -> None:
        self.venue.send_faults.append(fault)

    def arrive(self) -> None:
        for values in self.venue.waiting:
            self.venue.place(values)

    def fill(self, order_id: str, quantity: float, price: float) -> dt.datetime:
        row = self._row(order_id)
        assert row is not None
        return self.venue.fill_row(row, Decimal(str(quantity)), Decimal(str(price)))

    def end(self, order_id: str, how: Literal["cancelled", "expired"]) -> None:
        row = self._row(order_id)
        assert row is not None
        row.state = how
        if how == "expired":
            row.opened -= dt.timedelta(days=1)

    def hold(self, symbol: str, quantity: float, cost: float) -> None:
        if quantity < 0:
            pytest.skip("a venue of coins has no short position")
        self.venue.balances[symbol.partition("-")[0]] = Decimal(str(quantity))

    def late_fills(self, late: bool) -> None:
        self.venue.lags = late

    def cancels_wait(self) -> None:
        self.venue.slow = True

    def strange_order(self) -> str:
        number = self.venue.number()
        self.venue.take(FarRow(number, "by-hand", self.symbols[0], "buy", Decimal(1), "limit", "gtc", Decimal(90)))
        return "by-hand"

    def astray(self, order_id: str) -> None:
        row = self._row(order_id)
        assert row is not None
        self.venue.shown = row.client_id

    def missing_figure(self) -> None:
        self.venue.missing = True

    def block(self) -> None:
        self.venue.rights = ["withdraw-funds"] if self.venue.title == "Kraken" else ["enableWithdrawals"]

    def currency(self, code: str) -> None:
        self.venue.balances[code] = Decimal(500)

    def away(self) -> None:
        self.venue.gone = True


def _desk_id(client_id: str) -> str:
    return str(uuid.UUID(client_id.removesuffix("-day"))) if client_id.endswith("-day") else client_id


VENUES: Mapping[str, type[FarVenue]] = {"kraken": FarKraken, "binance": FarBinance}
