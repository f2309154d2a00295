"""The toy exchange: the far side of the toy package's broker, on loopback."""

from __future__ import annotations

import datetime as dt
import json
import threading
from collections.abc import Mapping
from contextlib import AbstractContextManager, ExitStack
from decimal import Decimal
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Literal
from unittest.mock import patch

from chordesk_toy import FEATURE, broker

from chordesk.plugins import Broker
from chordesk.testing.broker import Far, FarOrder, Fault, built

Row = dict[str, Any]
TERMS = ("symbol", "side", "quantity", "order_type", "time_in_force", "limit_price", "stop_price")


class Handler(BaseHTTPRequestHandler):
    exchange: Exchange
    disable_nagle_algorithm = True

    def log_message(self, *args: Any) -> None:
        """Quiet."""

    def do_POST(self) -> None:
        wanted = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self._authorized():
            self._answer(*self.exchange.post(wanted))

    def do_GET(self) -> None:
        if self._authorized():
            found = self.exchange.account() if self.path == "/account" else self.exchange.found(self._order())
            self._answer(*found)

    def do_DELETE(self) -> None:
        if self._authorized():
            self._answer(*self.exchange.delete(self._order()))

    def _order(self) -> str:
        return self.path.rpartition("/")[2]

    def _authorized(self) -> bool:
        right = self.headers["X-Key"] == self.exchange.keys["TOY_BROKER_KEY"]
        if not right:
            self._answer(401, {"reason": "another key"})
        return right and not self.exchange.gone

    def _answer(self, status: int, row: Row | None) -> None:
        if row is None or self.exchange.gone:
            return  # no answer: the connection is cut
        body = json.dumps(row).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


class Exchange(Far, AbstractContextManager["Exchange"]):
    name = "toy"
    entry = FEATURE.brokers["toy"]
    keys: Mapping[str, str] = {"TOY_BROKER_KEY": "a-key-of-the-toy-exchange"}
    sends: list[str]

    def __init__(self) -> None:
        self.sends = []
        self.faults: list[Fault] = []
        self.rows: dict[str, Row] = {}
        self.waiting: list[Row] = []
        self.positions: dict[str, tuple[Decimal, float]] = {}
        self.cash, self.unit, self.missing = Decimal(100_000), "USD", False
        self.blocked = self.gone = self.lags = self.slow = False
        self.shown = ""  # the order that each question is answered with
        self._patches = ExitStack()
        self._lock, self._released = threading.RLock(), threading.Event()
        handler = type("Bound", (Handler,), {"exchange": self})
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True)

    def __enter__(self) -> Exchange:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._released.set()
        self._patches.close()
        self._server.shutdown()
        self._server.server_close()

    # What the broker asks

    def post(self, wanted: Row) -> tuple[int, Row | None]:
        with self._lock:
            self.sends.append(wanted["id"])
            fault = self.faults.pop(0) if self.faults else ""
            if fault == "late":
                self.waiting.append(wanted)
        if fault in ("hang", "late"):
            self._released.wait(60)
            return 503, None
        if fault == "lost-before":
            return 503, None
        if fault == "refused":
            return 422, {"reason": "the account has not enough money"}
        if wanted["id"] in self.rows:
            return 409, {"reason": "the id was used"}
        row = self.take(wanted)
        return 200, None if fault == "lost-after" else row

    def take(self, wanted: Row) -> Row:
        with self._lock:
            row = {**wanted, "number": f"T{len(self.rows) + 1}", "state": "open", "filled": 0.0, "all": []}
            self.rows[wanted["id"]] = row
            return self._seen(row)

    def found(self, order_id: str) -> tuple[int, Row | None]:
        row = self.rows.get(self.shown or order_id)
        return (200, self._seen(row)) if row else (404, {"reason": "no such order"})

    def delete(self, order_id: str) -> tuple[int, Row | None]:
        row = self.rows.get(order_id)
        if row is not None and row["state"] == "open" and not self.slow:
            row["state"] = "cancelled"
        return self.found(order_id)

    def account(self) -> tuple[int, Row | None]:
        rows = [self._seen(row) for row in self.rows.values()]
        held = [
            {"symbol": symbol, "quantity": str(quantity), "cost": cost}
            for symbol, (quantity, cost) in self.positions.items()
        ]
        cash = None if self.missing else str(self.cash)
        orders = [row for row in rows if row["state"] == "open"]
        facts = {"currency": self.unit, "cash": cash, "blocked": self.blocked, "positions": held}
        return 200, {**facts, "orders": orders, "today": rows}

    def _seen(self, row: Row) -> Row:
        return {**row, "fills": [] if self.lags else row["all"]}

    # What a test does

    def connect(self, keys: Mapping[str, str] | None = None, seconds: float | None = None) -> Broker:
        if seconds is not None:
            self._patches.enter_context(patch.object(broker, "SECONDS", seconds))
        place = f"127.0.0.1:{self._server.server_port}"
        return built(self.name, {**(self.keys if keys is None else keys), "TOY_BROKER_PLACE": place})

    def order(self, order_id: str) -> FarOrder | None:
        row = self.rows.get(order_id)
        return FarOrder(**{name: row[name] for name in TERMS}) if row else None

    def next_send(self, fault: Fault) -> None:
        self.faults.append(fault)

    def arrive(self) -> None:
        for wanted in self.waiting:
            self.take(wanted)

    def fill(self, order_id: str, quantity: float, price: float) -> dt.datetime:
        with self._lock:
            row, at, fee = self.rows[order_id], dt.datetime.now(dt.UTC), Decimal("0.25")
            number = f"{row['number']}/{len(row['all']) + 1}"
            fill = {"number": number, "quantity": quantity, "price": price, "fee": str(fee), "at": at.isoformat()}
            row["all"].append(fill)
            row["filled"] += quantity
            row["state"] = "done" if row["filled"] == row["quantity"] else row["state"]
            signed = Decimal(str(quantity)) * (1 if row["side"] == "buy" else -1)
            held, cost = self.positions.get(row["symbol"], (Decimal(0), price))
            self.positions[row["symbol"]] = (held + signed, cost)
            self.cash -= signed * Decimal(str(price)) + fee
            return at

    def end(self, order_id: str, how: Literal["cancelled", "expired"]) -> None:
        self.rows[order_id]["state"] = how

    def hold(self, symbol: str, quantity: float, cost: float) -> None:
        self.positions[symbol] = (Decimal(str(quantity)), cost)

    def late_fills(self, late: bool) -> None:
        self.lags = late

    def cancels_wait(self) -> None:
        self.slow = True

    def strange_order(self) -> str:
        terms = dict.fromkeys(TERMS) | {"symbol": "AAPL", "side": "buy", "quantity": 1.0}
        return str(self.take({"id": "by-hand", **terms})["id"])

    def astray(self, order_id: str) -> None:
        self.shown = order_id

    def missing_figure(self) -> None:
        self.missing = True

    def block(self) -> None:
        self.blocked = True

    def currency(self, code: str) -> None:
        self.unit = code

    def away(self) -> None:
        self.gone = True
