"""IB Gateway's stand-in, as the contract of brokers drives it."""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from decimal import Decimal
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, cast
from unittest.mock import patch

from chordesk.models.database.store import Store
from chordesk.models.settings import Settings
from chordesk.models.settings.schema import BROKERS
from chordesk.testing.broker import ClockAlone, Far, FarOrder, Fault
from chordesk.tools.brokers.protocol import Broker
from chordesk.tools.ibkr import broker as module
from chordesk.tools.ibkr import gateway
from tests.fakes.tws import ACCOUNT, Tws, serving
from tests.patience import PATIENCE

TYPES = {
    "MKT": "market", "LMT": "limit", "STP": "stop", "STP LMT": "stop_limit", "TRAIL": "trailing_stop",
    "MOC": "market", "LOC": "limit",
}  # fmt: skip


def built(
    tws: Tws, store: Store, home: Path, account: str | None = ACCOUNT, name: str = "ibkr-paper", **settings: Any
) -> module.IbkrBroker:
    values = {"broker": name, "home": home, "ibkr_port": tws.port, **settings}
    given = Settings.model_validate(values)
    environ = {} if account is None else {"IBKR_ACCOUNT": account}
    return module.build(given, cast("Any", ClockAlone()), store, environ)


class IbkrFar(Far, AbstractContextManager["IbkrFar"]):
    name = "ibkr-paper"
    entry = BROKERS["ibkr-paper"]
    keys: Mapping[str, str] = {"IBKR_ACCOUNT": ACCOUNT}
    symbols: tuple[str, str] = ("AAPL", "BRK.B")

    def __init__(self, store: Store, home: Path) -> None:
        self._store = store
        self._stack = ExitStack()
        self._home = home
        self.tws = self._stack.enter_context(serving())
        self.sends: Sequence[str] = self.tws.sends
        self._built: list[Any] = []
        self._stack.enter_context(patch.object(module, "REQUEST_SECONDS", PATIENCE))
        for name in ("FEE_SECONDS", "CANCEL_SECONDS"):  # what comes later is in the lists
            self._stack.enter_context(patch.object(gateway, name, 0.2))

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for broker in self._built:
            broker.close()
        self._stack.close()

    def connect(
        self,
        keys: Mapping[str, str] | None = None,
        seconds: float | None = None,
        name: str = "ibkr-paper",
        home: str = "home",
    ) -> Broker:
        if seconds is not None:
            self.limit(seconds)
        given = self.keys if keys is None else keys
        made = built(self.tws, self._store, self._home / home, given.get("IBKR_ACCOUNT"), name)
        self._built.append(made)
        return made

    def home(self) -> Path:
        made = self._home / "home"
        made.mkdir(parents=True, exist_ok=True)
        return made

    def limit(self, seconds: float) -> None:
        """The limit of each question from now on."""
        self._stack.enter_context(patch.object(module, "REQUEST_SECONDS", seconds))
        for broker in self._built:
            broker._gateway._seconds = seconds

    def patience(self, seconds: float) -> None:
        """How long another process's connection is waited for."""
        self._stack.enter_context(patch.object(module, "TURN_SECONDS", seconds))

    def all_gone(self) -> None:
        """Wait until the Gateway has noticed that nobody is connected."""
        last = time.monotonic() + PATIENCE
        while self.tws.connected():
            assert time.monotonic() < last
            time.sleep(0.02)

    def again(self, seconds: float) -> None:
        self._stack.enter_context(patch.object(module, "AGAIN_SECONDS", seconds))

    def order(self, order_id: str) -> FarOrder | None:
        rows = [row for row in self.tws.orders if row.ref == order_id]
        if not rows:
            return None
        (row,) = rows
        kind = TYPES[row.kind]
        time = "cls" if row.kind in ("MOC", "LOC") else row.tif.lower()
        limit, stop, trail = (float(text) if text else None for text in (row.limit, row.aux, row.trail_percent))
        symbol = row.share.symbol.replace(" ", ".")
        return FarOrder(
            symbol, {"BUY": "buy", "SELL": "sell"}[row.action], float(row.quantity), kind, time, limit, stop, trail
        )

    def next_send(self, fault: Fault) -> None:
        self.tws.faults.append(fault)

    def arrive(self) -> None:
        self.tws.arrive()

    def fill(self, order_id: str, quantity: float, price: float) -> dt.datetime:
        return self.tws.fill(order_id, Decimal(str(quantity)), Decimal(str(price)))

    def end(self, order_id: str, how: Literal["cancelled", "expired"]) -> None:
        self.tws.end(order_id, how)

    def hold(self, symbol: str, quantity: float, cost: float) -> None:
        self.tws.positions[symbol.replace(".", " ")] = (Decimal(str(quantity)), Decimal(str(cost)))

    def late_fills(self, late: bool) -> None:
        if late:
            self.tws.late_fees = True
        else:
            self.tws.report_fees()

    def cancels_wait(self) -> None:
        self.tws.cancels = "pending"

    def strange_order(self) -> str:
        return f"IBKR {self.tws.by_hand().perm_id}"

    def astray(self, order_id: str) -> None:
        other = self.tws.order(order_id)
        for row in self.tws.orders:
            row.share, row.quantity = other.share, other.quantity

    def missing_figure(self) -> None:
        self.tws.missing = "CashBalance"

    def currency(self, code: str) -> None:
        self.tws.base, self.tws.cash = code, {code: Decimal(1_000_000)}

    def away(self) -> None:
        self.tws.away = True
        self.limit(0.5)
