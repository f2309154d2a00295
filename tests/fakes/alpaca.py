"""The far side of Alpaca's trading API: its HTTP and its stream of trade updates, on loopback.

A test holds it as `Alpaca`, sets the handling of the next orders (`faults`), and fills orders by hand. As a
process of its own (`python -m tests.fakes.alpaca`) it prints its URL and takes the same by POST to /control.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import json
import socket
import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any
from unittest.mock import patch

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route, WebSocketRoute
from starlette.websockets import WebSocket, WebSocketDisconnect

from chordesk.tools.brokers.alpaca import ADDRESSES
from tests.fakes.alpaca_options import FarOptions
from tests.fakes.alpaca_rows import Row, activity, moment, new_order, new_package, now, position, unfit
from tests.fakes.serving import PromptServer
from tests.patience import PATIENCE

KEY, SECRET = "PKTEST", "a-secret-of-the-test"
OPEN = ("new", "accepted", "partially_filled", "pending_new", "pending_cancel")
LATE_SECONDS = 2.0


def error(status: int, code: int, message: str) -> Response:
    return JSONResponse({"code": code, "message": message}, status)


def refusal(wanted: Row) -> Response | None:
    """The answer to an order of a type, price or time in force that the API does not take."""
    why = unfit(wanted)
    return error(422, 42210000, why) if why else None


REFUSALS: dict[str, Callable[[], Response]] = {
    "429": lambda: error(429, 42910000, "rate limit exceeded"),
    "403": lambda: error(403, 40310000, "insufficient buying power"),
    "422": lambda: error(422, 42210000, "qty must be > 0"),
    "401": lambda: error(401, 40110000, "request is not authorized"),
    "500": lambda: error(500, 50010000, "internal server error occurred"),
    "504": lambda: Response("upstream request timeout", 504),
}


@dataclass
class Alpaca:
    """One account. sends: client ids of every POST of an order that came in, taken or not.

    faults: what happens to the next requests that send an order, one each: a status (not taken), `hang` (not taken,
    never answered), `late` (taken and answered two seconds later), or with `-after`: taken first; empty for nothing.
    fills: what happens to an order that is taken: `none`, `all` or `part` (half of it), at `price`.
    """

    cash: Decimal = Decimal(100_000)
    price: Decimal = Decimal(100)
    fills: str = "none"
    faults: list[str] = field(default_factory=list)
    sends: list[str] = field(default_factory=list)
    bodies: list[Row] = field(default_factory=list)  # what each of them asked for
    orders: dict[str, Row] = field(default_factory=dict)
    positions: dict[str, tuple[Decimal, Decimal]] = field(default_factory=dict)
    activities: list[Row] = field(default_factory=list)
    hidden: bool = False  # the list of fills lags behind
    closed: str = ""  # a refusal that the list of activities answers with
    lookups: list[str] = field(default_factory=list)  # refusals of the next lookups by client id
    status: str = "ACTIVE"
    blocked: bool = False
    astray: str = ""  # id of the order that every lookup by client id is answered with
    stuck: bool = False  # the list of activities takes no notice of its page token
    missing: str = ""  # name of a figure of the account and of its activities that is null
    currency: str = "USD"
    away: bool = False  # every request is answered with an error of the server
    unique: bool = True  # the real one takes a client id once; one that does not shows a second order
    cancels: str = "done"  # or pending: a cancellation is taken and does not come
    reserves: bool = False  # open sales hold their shares, as the real one has it; one that does not shows double sales
    asked: list[str] = field(default_factory=list)
    options: FarOptions = field(default_factory=FarOptions)  # the data API beside the trading API
    url: str = ""

    def __post_init__(self) -> None:
        self._lock = threading.RLock()
        self._listeners: list[tuple[asyncio.AbstractEventLoop, asyncio.Queue[Row | None]]] = []
        self._released = threading.Event()
        self.connected = threading.Event()  # somebody listens to the stream

    # What the account does

    def take(self, wanted: Row) -> Row:
        """Take an order as the API would, or raise KeyError for a client id that is there already."""
        with self._lock:
            if self.unique and any(row["client_order_id"] == wanted["client_order_id"] for row in self.orders.values()):
                raise KeyError(wanted["client_order_id"])
            row = new_package(wanted) if wanted.get("order_class") == "mleg" else new_order(wanted)
            self.orders[row["id"]] = row
            self._publish("new", row)
            if self.fills != "none" and "stop" not in row["type"]:
                share = Decimal(1) if self.fills == "all" else Decimal("0.5")
                self.fill(row["client_order_id"], Decimal(row["qty"]) * share, self.price)
            return row

    def fill(self, client_id: str, quantity: Decimal | int, price: Decimal | int) -> None:
        with self._lock:
            row = self.order(client_id)
            done = Decimal(row["filled_qty"])
            total = done + quantity
            worth = done * Decimal(row["filled_avg_price"] or 0) + Decimal(quantity) * price
            row.update(
                filled_qty=str(total),
                filled_avg_price=str(worth / total),
                status="filled" if total == Decimal(row["qty"]) else "partially_filled",
                updated_at=now(),
            )
            self._move(row["symbol"], Decimal(quantity) * (1 if row["side"] == "buy" else -1), Decimal(price))
            event = "fill" if row["status"] == "filled" else "partial_fill"
            self.activities.append(activity(row, event, Decimal(quantity), Decimal(price)))
            self._publish(event, row, price=str(price), qty=str(quantity), execution_id=str(uuid.uuid4()))

    def fill_legs(self, client_id: str, prices: Row) -> None:
        """Fill all legs of an order of class mleg, at a price each by symbol."""
        with self._lock:
            row = self.order(client_id)
            for leg in row["legs"]:
                quantity, price = Decimal(leg["qty"]), Decimal(str(prices[leg["symbol"]]))
                leg.update(filled_qty=leg["qty"], filled_avg_price=str(price), status="filled", updated_at=now())
                self._move(leg["symbol"], quantity * (1 if leg["side"] == "buy" else -1), price)
                self.activities.append(activity(leg, "fill", quantity, price))
            row.update(filled_qty=row["qty"], status="filled", updated_at=now())
            self._publish("fill", row)

    def end(self, client_id: str, status: str) -> None:
        """canceled, expired, rejected, replaced."""
        with self._lock:
            row = self.order(client_id)
            row.update(status=status, updated_at=now())
            self._publish(status, row)

    def hold(self, symbol: str, quantity: int, price: int) -> None:
        with self._lock:
            self.positions[symbol] = (Decimal(quantity), Decimal(price))

    def order(self, client_id: str) -> Row:
        return next(row for row in self.orders.values() if row["client_order_id"] == client_id)

    def taken(self) -> dict[str, int]:
        """Return the number of orders by client id."""
        ids = [row["client_order_id"] for row in self.orders.values()]
        return {each: ids.count(each) for each in ids}

    def release(self) -> None:
        """Let what hangs end."""
        self._released.set()

    def cut(self) -> None:
        """Cut every stream."""
        with self._lock:
            for loop, queue in self._listeners:
                loop.call_soon_threadsafe(queue.put_nowait, None)

    def listening(self) -> int:
        return len(self._listeners)

    def _move(self, symbol: str, signed: Decimal, price: Decimal) -> None:
        size = 100 if len(symbol) > 15 else 1
        held, average = self.positions.pop(symbol, (Decimal(0), Decimal(0)))
        after = held + signed
        self.cash -= signed * price * size
        if after:
            grows = held * signed >= 0
            self.positions[symbol] = (after, (held * average + signed * price) / after if grows else average)

    def _publish(self, event: str, row: Row, **more: Any) -> None:
        data = {"event": event, "order": dict(row), "timestamp": now(), **more}
        for loop, queue in self._listeners:
            loop.call_soon_threadsafe(queue.put_nowait, {"stream": "trade_updates", "data": data})

    # What the wire asks

    async def post_order(self, request: Request) -> Response:
        wanted = await request.json()
        with self._lock:
            self.sends.append(wanted.get("client_order_id", ""))
            self.bodies.append(wanted)
            fault = self.faults.pop(0) if self.faults else ""
        kind, _, after = fault.partition("-")
        if fault == "late":
            await asyncio.sleep(LATE_SECONDS)
        elif fault and not after:
            return await self._refuse(kind)
        wrong = refusal(wanted) or (self.reserves and self._reserved(wanted))
        if wrong:
            return wrong
        try:
            row = self.take(wanted)
        except KeyError:
            return error(422, 40010001, "client_order_id must be unique")
        if after and kind == "garbage":
            return Response("<html>not JSON</html>", 200)
        return await self._refuse(kind) if after else JSONResponse(row)

    def _reserved(self, wanted: Row) -> Response | None:
        """The refusal of a sale of shares that other open sales hold already."""
        if wanted["side"] != "sell" or len(wanted["symbol"]) > 15:
            return None
        held = self.positions.get(wanted["symbol"], (Decimal(0), Decimal(0)))[0]
        rows = [row for row in self.orders.values() if row["status"] in OPEN and row["side"] == "sell"]
        rows = [row for row in rows if row["symbol"] == wanted["symbol"]]
        taken = sum((Decimal(row["qty"]) - Decimal(row["filled_qty"]) for row in rows), Decimal(0))
        if Decimal(str(wanted["qty"])) <= held - taken:
            return None
        figures = f"requested: {wanted['qty']}, available: {held - taken}"
        return error(403, 40310000, f"insufficient qty available for order ({figures})")

    async def _refuse(self, kind: str) -> Response:
        if kind == "hang":
            await asyncio.to_thread(self._released.wait, 60)
            return Response(status_code=503)
        return REFUSALS[kind]()

    async def get_orders(self, request: Request) -> Response:
        wanted = request.query_params.get("status", "open")
        after = request.query_params.get("after")
        rows = [row for row in self.orders.values() if wanted == "all" or (row["status"] in OPEN) == (wanted == "open")]
        if after:
            since = dt.datetime.fromisoformat(after)
            rows = [row for row in rows if dt.datetime.fromisoformat(row["submitted_at"]) > since]
        if request.query_params.get("nested", "").lower() != "true":  # then legs are orders among the others
            rows = [one for row in rows for one in ({**row, "legs": None}, *(row["legs"] or ()))]
        return JSONResponse(rows[::-1][: int(request.query_params.get("limit", 50))])

    async def get_order(self, request: Request) -> Response:
        row = self.orders.get(request.path_params["id"])
        if row and request.query_params.get("nested", "").lower() != "true":
            row = {**row, "legs": None}
        return JSONResponse(row) if row else error(404, 40410000, "order not found")

    async def get_by_client_id(self, request: Request) -> Response:
        if self.lookups:
            return REFUSALS[self.lookups.pop(0)]()
        wanted = request.query_params["client_order_id"]
        found = [row for row in self.orders.values() if row["client_order_id"] == wanted]
        found = [self.orders[self.astray]] if self.astray else found
        return (
            JSONResponse({**found[0], "legs": None}) if found else error(404, 40410000, f"order not found for {wanted}")
        )

    async def delete_order(self, request: Request) -> Response:
        row = self.orders.get(request.path_params["id"])
        if row is None:
            return error(404, 40410000, "order not found")
        if row["status"] not in OPEN:
            return error(422, 42210000, f'order is already in "{row["status"]}" state')
        self.end(row["client_order_id"], "canceled" if self.cancels == "done" else "pending_cancel")
        return Response(status_code=204)

    async def get_account(self, request: Request) -> Response:
        worth = sum((held * price for held, price in self.positions.values()), Decimal(0))
        row = {
            "id": "1d9eed04-be39-4e01-9b84-a48ac5bbafcf",
            "account_number": "PA1",
            "status": self.status,
            "currency": self.currency,
            "cash": str(self.cash),
            "equity": str(self.cash + worth),
            "buying_power": str(self.cash),
            "trading_blocked": self.blocked,
            "account_blocked": False,
            "trade_suspended_by_user": False,
        }
        return JSONResponse(self._with_gaps(row))

    async def get_positions(self, request: Request) -> Response:
        return JSONResponse([position(symbol, *held) for symbol, held in self.positions.items()])

    def _with_gaps(self, row: Row) -> Row:
        return {name: None if name == self.missing else value for name, value in row.items()}

    async def get_activities(self, request: Request) -> Response:
        if self.closed:
            return REFUSALS[self.closed]()
        asked = request.query_params
        kinds, after = asked["activity_types"].split(","), dt.datetime.fromisoformat(asked["after"])
        rows = [row for row in self.activities if row["activity_type"] in kinds and moment(row) > after]
        rows = [row for row in rows if not (self.hidden and row["activity_type"] == "FILL")]
        rows = [self._with_gaps(row) for row in rows]
        if "page_token" in asked and not self.stuck:
            at = [row["id"] for row in rows].index(asked["page_token"])
            rows = rows[at + 1 :]
        return JSONResponse(rows[: int(asked.get("page_size", 100))])

    async def stream(self, socket_: WebSocket) -> None:
        await socket_.accept()
        received = await socket_.receive_json()
        good = received["data"] == {"key_id": KEY, "secret_key": SECRET}
        status = "authorized" if good else "unauthorized"
        await send_frame(socket_, {"stream": "authorization", "data": {"status": status, "action": "authenticate"}})
        await send_frame(socket_, {"stream": "listening", "data": (await socket_.receive_json())["data"]})
        queue: asyncio.Queue[Row | None] = asyncio.Queue()
        mine = (asyncio.get_running_loop(), queue)
        self._listeners.append(mine)
        self.connected.set()
        try:
            while (message := await queue.get()) is not None:
                await send_frame(socket_, message)
            await socket_.close(1011)
        except WebSocketDisconnect:
            pass
        finally:
            self._listeners.remove(mine)

    async def control(self, request: Request) -> Response:
        """{"faults": [...], "fills": "all", "fill": [id, quantity, price], "end": [id, status]}, all optional."""
        wanted = await request.json()
        for name in ("faults", "fills", "hidden", "blocked", "unique"):
            if name in wanted:
                setattr(self, name, wanted[name])
        if "fill" in wanted:
            client_id, quantity, price = wanted["fill"]
            self.fill(client_id, Decimal(str(quantity)), Decimal(str(price)))
        if "end" in wanted:
            self.end(*wanted["end"])
        received = {"sends": self.sends, "taken": self.taken(), "orders": list(self.orders.values())}
        held = {symbol: str(quantity) for symbol, (quantity, _) in self.positions.items()}
        return JSONResponse({**received, "cash": str(self.cash), "positions": held})

    def app(self) -> Starlette:
        def known(handle: Callable[[Request], Any]) -> Callable[[Request], Any]:
            async def checked(request: Request) -> Response:
                self.asked.append(f"{request.method} {request.url.path}")
                if self.away:
                    return REFUSALS["500"]()
                given = (request.headers.get("APCA-API-KEY-ID"), request.headers.get("APCA-API-SECRET-KEY"))
                answer: Response = await handle(request) if given == (KEY, SECRET) else REFUSALS["401"]()
                return answer

            return checked

        return Starlette(
            routes=[
                Route("/v2/orders", known(self.post_order), methods=["POST"]),
                Route("/v2/orders", known(self.get_orders), methods=["GET"]),
                Route("/v2/orders:by_client_order_id", known(self.get_by_client_id)),
                Route("/v2/orders/{id}", known(self.get_order), methods=["GET"]),
                Route("/v2/orders/{id}", known(self.delete_order), methods=["DELETE"]),
                Route("/v2/account", known(self.get_account)),
                Route("/v2/account/activities", known(self.get_activities)),
                Route("/v2/positions", known(self.get_positions)),
                Route("/v2/options/contracts", known(self.options.get_contracts)),
                Route("/v1beta1/options/snapshots", known(self.options.get_snapshots)),
                Route("/v1beta1/options/snapshots/{symbol}", known(self.options.get_chain)),
                Route("/control", self.control, methods=["POST"]),
                WebSocketRoute("/stream", self.stream),
            ]
        )


async def send_frame(socket_: WebSocket, message: Row) -> None:
    """Send a message as a binary frame, as the trading stream does."""
    await socket_.send_bytes(json.dumps(message).encode())


@contextmanager
def serving(alpaca: Alpaca) -> Iterator[Alpaca]:
    """The stand-in on a free port of loopback, in a thread. In this process it is Alpaca, of both accounts."""
    with socket.socket() as listener:
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # see tasks.web.serving.bind
        listener.bind(("127.0.0.1", 0))
        listener.listen(64)  # what comes before the server runs waits
        alpaca.url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        config = uvicorn.Config(alpaca.app(), log_level="error", timeout_graceful_shutdown=1)
        server = PromptServer(config)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
        thread.start()
        try:
            with patch.dict(ADDRESSES, dict.fromkeys(ADDRESSES, alpaca.url)):
                yield alpaca
        finally:
            alpaca.release()
            alpaca.cut()
            server.end()
            thread.join(PATIENCE)


def main() -> None:
    with serving(Alpaca(fills="all")) as alpaca:
        print(alpaca.url, flush=True)
        threading.Event().wait()


if __name__ == "__main__":
    main()
