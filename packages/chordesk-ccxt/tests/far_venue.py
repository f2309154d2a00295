"""The far side of a venue on loopback: its book of orders, its balances, its candles, and what can go wrong with an
answer. `far_kraken.py` and `far_binance.py` are the wires of two of them."""

from __future__ import annotations

import asyncio
import datetime as dt
import json
import threading
import time
import uuid
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any
from urllib.parse import parse_qsl

from aiohttp import web

DAY = dt.timedelta(days=1)
Row = dict[str, Any]


@dataclass
class Trade:
    id: str
    quantity: Decimal
    price: Decimal
    fee: Decimal
    fee_coin: str
    at: dt.datetime


@dataclass
class FarRow:
    """An order as the venue took it. kind: market, limit, stop or stop_limit; ends: when one of a day ends."""

    number: str
    client_id: str
    symbol: str
    side: str
    quantity: Decimal
    kind: str
    lasts: str  # gtc, ioc or day
    limit: Decimal | None = None
    stop: Decimal | None = None
    state: str = "open"
    trades: list[Trade] = field(default_factory=list)
    opened: dt.datetime = field(default_factory=lambda: dt.datetime.now(dt.UTC))

    @property
    def filled(self) -> Decimal:
        return sum((trade.quantity for trade in self.trades), Decimal(0))

    @property
    def paid(self) -> Decimal:
        return sum((trade.quantity * trade.price for trade in self.trades), Decimal(0))


@dataclass
class Fault:
    """What becomes of an answer: cut, half, trickle, busy (429), server (503), garbled, empty. times: how often."""

    kind: str
    times: int = 1
    wait: str = ""


class FarVenue:
    """One account at one venue. prices: the last ones by symbol; candles: days as (day, open, high, low, close,
    volume).

    sends: client ids of the requests to place an order, as they came in. send_faults: what happens to the next of
    them: lost-before, lost-after, hang, late, refused, or server-after (taken, answered by HTTP 503). fills: what
    happens to an order that is taken: none, all or part.
    """

    title = ""
    money = "USD"
    page = 1000  # candles of one answer

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.key, self.secret = "key-of-the-far-venue", "c2VjcmV0LW9mLXRoZS1mYXItdmVudWU="
        self.prices: dict[str, Decimal] = {}
        self.candles: dict[str, list[tuple[dt.date, float, float, float, float, float]]] = {}
        self.delisted: set[str] = set()
        self.balances: dict[str, Decimal] = {self.money: Decimal(1_000_000)}
        self.orders: dict[str, FarRow] = {}
        self.sends: list[str] = []
        self.send_faults: list[str] = []
        self.waiting: list[Row] = []
        self.faults: dict[str, list[Fault]] = {}  # by the end of a path
        self.asked: list[tuple[str, Row]] = []
        self.rights: list[str] | None = []
        self.offset = dt.timedelta(0)  # of its clock
        self.gone = self.lags = self.slow = self.missing = self.blocked = False
        self.closed_lags = False
        self.fee_in_coin = False
        self.shown = ""
        self.fills = "none"
        self.fee = Decimal("0.0026")
        self.tick = Decimal("0.01")
        self.last_nonce = 0
        self._numbers = 0
        self.released = threading.Event()
        self._loop = asyncio.new_event_loop()
        self._runner: web.AppRunner | None = None
        self._port = 0
        self._thread = threading.Thread(target=self._serve, daemon=True)

    # What a test does

    def __enter__(self) -> Any:
        ready = threading.Event()
        self._ready = ready
        self._thread.start()
        assert ready.wait(30), "the stand-in does not start"
        return self

    def __exit__(self, *_: Any) -> None:
        self.released.set()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    def fault(self, path: str, kind: str, times: int = 1, wait: str = "") -> None:
        self.faults.setdefault(path, []).append(Fault(kind, times, wait))

    def days(self, symbol: str, count: int, last: dt.date | None = None, price: float = 100.0) -> None:
        """Give a pair so many days of candles, one of today that goes on included."""
        end = last or self.now().date()
        made = []
        for at in range(count):
            close = price * (1 + 0.001 * (at % 37) - 0.0007 * (at % 11))
            made.append((end - (count - 1 - at) * DAY, close, close * 1.01, close * 0.99, close, 10.0 + at % 5))
        self.candles[symbol] = made
        self.prices.setdefault(symbol, Decimal(str(round(made[-1][4], 2))))

    def now(self) -> dt.datetime:
        return dt.datetime.now(dt.UTC) + self.offset

    def take(self, row: FarRow) -> FarRow:
        with self.lock:
            self.orders[row.number] = row
            if self.fills != "none":
                part = row.quantity if self.fills == "all" else row.quantity / 2
                if row.kind == "market" or (row.kind == "limit" and self.meets(row)):
                    self.fill_row(row, part, self.prices[row.symbol])
            if row.lasts == "ioc" and row.state == "open":
                row.state = "cancelled"
            return row

    def meets(self, row: FarRow) -> bool:
        assert row.limit is not None
        price = self.prices[row.symbol]
        return row.limit >= price if row.side == "buy" else row.limit <= price

    def fill_row(self, row: FarRow, quantity: Decimal, price: Decimal) -> dt.datetime:
        with self.lock:
            coin, money = row.symbol.split("-")
            in_coin = self.fee_in_coin and row.side == "buy"
            worth = quantity * price
            fee = round((quantity if in_coin else worth) * self.fee, 8)
            self._numbers += 1
            at = self.now().replace(microsecond=self.now().microsecond // 1000 * 1000)
            row.trades.append(Trade(self.trade_id(self._numbers), quantity, price, fee, coin if in_coin else money, at))
            signed = quantity if row.side == "buy" else -quantity
            self._move(coin, signed - (fee if in_coin else 0))
            self._move(money, -signed * price - (0 if in_coin else fee))
            if row.filled == row.quantity:
                row.state = "filled"
            return at

    def _move(self, coin: str, amount: Decimal) -> None:
        self.balances[coin] = self.balances.get(coin, Decimal(0)) + amount

    def trade_id(self, number: int) -> str:
        return f"T{number}"

    def number(self) -> str:
        self._numbers += 1
        return f"O{self._numbers}-{uuid.uuid4().hex[:6].upper()}"

    def by_client(self, client_id: str) -> FarRow | None:
        found = [row for row in self.orders.values() if row.client_id == client_id]
        return found[-1] if found else None

    # The server

    def _serve(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_until_complete(self._start())
        self._ready.set()
        self._loop.run_forever()
        if self._runner is not None:
            self._loop.run_until_complete(self._runner.cleanup())
        self._loop.close()

    async def _start(self) -> None:
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", self._handle)
        self._runner = web.AppRunner(app, shutdown_timeout=0.1, access_log=None)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        self._port = self._runner.addresses[0][1]

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        body = await request.text()
        values: Row = dict(request.query) | dict(parse_qsl(body))
        path = request.path
        if self.gone:
            return self._cut(request)
        with self.lock:
            self.asked.append((path, values))
            fault = self._fault_of(path)
        if fault is not None and fault.kind == "cut":
            return self._cut(request)
        if fault is not None and fault.kind == "busy":
            return web.json_response(self.busy(), status=429, headers={"Retry-After": fault.wait} if fault.wait else {})
        if fault is not None and fault.kind == "server":
            return web.Response(text="<html>upstream unavailable</html>", status=503)
        if fault is not None and fault.kind in ("empty", "garbled"):
            return web.Response(text="" if fault.kind == "empty" else "<!doctype html>", content_type="text/html")
        status, answer = await self._routed(request, path, values, body)
        if answer is None:
            return self._cut(request)
        text = json.dumps(answer).encode()
        if fault is not None:
            return await self._spoiled(request, fault, text)
        return web.Response(body=text, status=status, content_type="application/json")

    def _fault_of(self, path: str) -> Fault | None:
        for end, faults in self.faults.items():
            if path.endswith(end) and faults:
                faults[0].times -= 1
                return faults.pop(0) if faults[0].times <= 0 else faults[0]
        return None

    async def _spoiled(self, request: web.Request, fault: Fault, text: bytes) -> web.StreamResponse:
        answer = web.StreamResponse(headers={"Content-Type": "application/json", "Content-Length": str(len(text))})
        await answer.prepare(request)
        if fault.kind == "half":
            await answer.write(text[: len(text) // 2])
            self._cut(request)
            return answer
        for at in range(len(text)):  # a trickle: each byte comes within any socket's limit
            await answer.write(text[at : at + 1])
            await asyncio.sleep(0.2)
        return answer

    def _cut(self, request: web.Request) -> web.StreamResponse:
        if request.transport is not None:
            request.transport.abort()
        return web.Response()

    async def _routed(self, request: web.Request, path: str, values: Row, body: str) -> tuple[int, Any]:
        if not self.places_order(request.method, path):
            return self.answer(request, path, values, body)
        if (refusal := self.unauthorized(request, path, values, body)) is not None:
            return refusal
        with self.lock:
            self.sends.append(self.client_id(values))
            fault = self.send_faults.pop(0) if self.send_faults else ""
            if fault == "late":
                self.waiting.append(values)
        if fault in ("hang", "late"):
            await asyncio.get_running_loop().run_in_executor(None, self.released.wait, 60)
            return 503, None
        if fault == "lost-before":
            return 503, None
        if fault == "refused":
            return self.no_money()
        status, answer = self.place(values)
        if fault == "lost-after":
            return 503, None
        if fault == "server-after":
            return 503, {"error": "upstream timed out"}
        return status, answer

    # What a wire has

    def busy(self) -> Row:
        raise NotImplementedError

    def places_order(self, method: str, path: str) -> bool:
        raise NotImplementedError

    def unauthorized(self, request: web.Request, path: str, values: Row, body: str) -> tuple[int, Row] | None:
        raise NotImplementedError

    def client_id(self, values: Row) -> str:
        raise NotImplementedError

    def no_money(self) -> tuple[int, Row]:
        raise NotImplementedError

    def place(self, values: Row) -> tuple[int, Row]:
        raise NotImplementedError

    def answer(self, request: web.Request, path: str, values: Row, body: str) -> tuple[int, Any]:
        raise NotImplementedError


def milliseconds(at: dt.datetime) -> int:
    return round(at.timestamp() * 1000)


def at_midnight(day: dt.date) -> dt.datetime:
    return dt.datetime.combine(day, dt.time(), dt.UTC)


def wait_for_ever(far: FarVenue) -> None:
    """Serve as a process of its own: for trials by hand."""
    with far:
        print(far.url, flush=True)
        while True:
            time.sleep(3600)
