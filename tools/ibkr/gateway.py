"""The one connection to IB Gateway, and the questions that are asked over it. A thread of its own has the loop."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import TimeoutError as FutureTimeout
from dataclasses import dataclass
from typing import Any, TypeVar

from ib_async.client import Client
from ib_async.contract import Contract
from ib_async.objects import ExecutionFilter
from ib_async.order import Order

from chordesk.models.errors import SettingError
from chordesk.tools.ibkr.inbox import GatewayCut, GatewayRefused, GatewaySilent, Inbox, Told, client_of

T = TypeVar("T")
FEE_SECONDS = 1.0  # that a commission is waited for, which comes after its fill
CANCEL_SECONDS = 2.0  # that the end of a cancelled order is waited for; then it is looked up, as any other
RETRY_SECONDS = 0.25
PAPER = ("DU", "DF")  # how numbers of paper accounts begin

# Its errors carry what was sent, with the account.
logging.getLogger("ib_async").setLevel(logging.CRITICAL + 1)


@dataclass(frozen=True, slots=True)
class Place:
    """Where the Gateway is, and for whom. account: not in any text. paper: whether it must be a paper account."""

    host: str
    port: int
    client_id: int
    account: str
    paper: bool

    def __repr__(self) -> str:
        return f"Place({self.host}:{self.port}, client {self.client_id})"


@dataclass(frozen=True, slots=True)
class Lists:
    """The Gateway's three lists, asked one after another: open orders, orders that ended today, today's fills."""

    open: list[Told]
    completed: list[Told]
    executions: list[tuple[Any, Any]]
    fees: dict[str, Any]


class Gateway:
    """A connection, made when it is first needed. Not for threads: one call at a time. Every call raises GatewaySilent
    when there is no usable answer, and ends the connection then, for the rest of a late answer would be taken for that
    of the next question."""

    def __init__(self, place: Place, seconds: float, changed: Callable[[str], None]) -> None:
        self._place, self._seconds, self._changed = place, seconds, changed
        self._loop: asyncio.AbstractEventLoop | None = None
        self._client: Client | None = None
        self._inbox: Inbox | None = None

    @property
    def connected(self) -> bool:
        return self._inbox is not None and not self._inbox.closed

    def connect(self) -> None:
        if not self.connected:
            self._run(self._connect())

    def disconnect(self) -> None:
        if self._client is not None:
            with contextlib.suppress(GatewaySilent):
                self._run(self._disconnect())

    def close(self) -> None:
        self.disconnect()
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._loop = None

    def require_link(self) -> None:
        """Raise GatewaySilent while the Gateway has no link to IBKR: what it has in its lists may be of before."""
        if not self._told.link:
            raise GatewaySilent("the Gateway has no link to IBKR now")

    def lists(self) -> Lists:
        return self._read(self._lists)

    def place(self, contract: Contract, order: Order) -> GatewayRefused | None:
        """Send an order, once, and wait until the Gateway has told of it. Return the error that it answers with."""
        return self._run(self._place_order(contract, order))

    def cancel(self, told: Told) -> None:
        """Request the end of an open order, and wait a moment for it."""
        self._run(self._cancel(told))

    def positions(self) -> list[tuple[Any, float, float]]:
        return self._read(self._positions)

    def values(self) -> dict[tuple[str, str], str]:
        """Return the account's figures as text, by key and currency."""
        return self._read(self._values)

    def details(self, contract: Contract) -> list[Any]:
        """Return what IBKR knows of contracts like this one, none where it knows none."""
        return self._read(lambda: self._details(contract))

    def _read(self, question: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Ask, and once more on another connection where this one was cut, as by the Gateway's restart."""
        try:
            return self._run(question())
        except GatewayCut:
            self.connect()
            return self._run(question())

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        """Raises GatewaySilent; its own limits of time are those of each question."""
        done = asyncio.run_coroutine_threadsafe(work, self._started())
        try:
            return done.result(6 * self._seconds + 10)
        except FutureTimeout:
            done.cancel()
            raise GatewaySilent("the connection to the Gateway does not answer") from None
        except OSError as error:
            raise GatewaySilent(f"the connection to the Gateway has ended: {type(error).__name__}") from None

    def _started(self) -> asyncio.AbstractEventLoop:
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
            threading.Thread(target=self._loop.run_forever, name="ibkr", daemon=True).start()
        return self._loop

    @property
    def _told(self) -> Inbox:
        if self._inbox is None:
            raise GatewaySilent("there is no connection to the Gateway")
        return self._inbox

    async def _connect(self) -> None:
        loop = asyncio.get_running_loop()
        last = loop.time() + self._seconds
        while True:
            refusal = await self._tried(max(last - loop.time(), 0.1))
            if refusal is None:
                break
            if loop.time() + RETRY_SECONDS > last:
                which = f"the client number {self._place.client_id}"
                raise GatewaySilent(
                    f"IB Gateway has {which} in use: {refusal}", remedy="end the other, or set DESK_IBKR_CLIENT_ID"
                )
            await asyncio.sleep(RETRY_SECONDS)
        try:
            self._require_account()
        except SettingError:
            await self._disconnect()
            raise

    async def _tried(self, seconds: float) -> str | None:
        """Connect; return the Gateway's words when it has our number in use, as for a moment after a kill."""
        inbox = Inbox(self._place.account, self._changed)
        client = client_of(inbox)
        where = f"{self._place.host}:{self._place.port}"
        trial = asyncio.ensure_future(
            client.connectAsync(self._place.host, self._place.port, self._place.client_id, seconds)
        )
        closed = asyncio.ensure_future(inbox.until(lambda: False, seconds))
        try:
            await asyncio.wait((trial, closed), return_when=asyncio.FIRST_COMPLETED)
            if trial.done() and trial.exception() is None:
                self._client, self._inbox = client, inbox
                return None
            if inbox.refusal:
                return inbox.refusal
            why = "it ends the connection" if not trial.done() else type(trial.exception()).__name__
            remedy = "start it, log in, and enable its API; DESK_IBKR_HOST and DESK_IBKR_PORT say where it is"
            raise GatewaySilent(f"no IB Gateway answers at {where}: {why}", remedy=remedy)
        finally:
            for each in (trial, closed):
                each.cancel()
            await asyncio.gather(trial, closed, return_exceptions=True)

    def _require_account(self) -> None:
        account, told = self._place.account, self._told
        where = f"the Gateway at {self._place.host}:{self._place.port}"
        if account not in told.accounts:
            count = len(told.accounts)
            reason = f"{where} serves {count} account{'s' * (count != 1)}, and none that IBKR_ACCOUNT names"
            raise SettingError(reason, remedy="set IBKR_ACCOUNT to the number that the Gateway shows, or log in there")
        if account.startswith(PAPER) is not self._place.paper:
            kind, other = ("live", "ibkr-live") if self._place.paper else ("paper", "ibkr-paper")
            remedy = f"set DESK_BROKER={other}, or log the Gateway in to the other account"
            raise SettingError(f"{where} serves a {kind} account", remedy=remedy)

    async def _disconnect(self) -> None:
        client, self._client = self._client, None
        inbox, self._inbox = self._inbox, None
        if inbox is not None:
            inbox.closed = True
        if client is not None:
            client.disconnect()

    async def _asked(self, key: Any, ask: Callable[[], object], what: str) -> None:
        try:
            await self._told.answered(key, ask, what, self._seconds)
        except GatewaySilent:
            await self._disconnect()
            raise

    @property
    def _line(self) -> Client:
        if self._client is None:
            raise GatewaySilent("there is no connection to the Gateway")
        return self._client

    async def _lists(self) -> Lists:
        told, client = self._told, self._line
        told.open.clear()
        told.completed.clear()
        await self._asked("open", client.reqAllOpenOrders, "open orders")
        open_ = list(told.open.values())
        for row in open_:
            row.status, row.filled = told.statuses.get(row.order.permId, (row.status, None))
        await self._asked("completed", lambda: client.reqCompletedOrders(False), "ended orders")
        number = client.getReqId()
        only = ExecutionFilter(acctCode=self._place.account)
        await self._asked(number, lambda: client.reqExecutions(number, only), "executions")
        await told.until(lambda: self._own(told).keys() <= told.fees.keys(), FEE_SECONDS)
        return Lists(open_, list(told.completed.values()), list(self._own(told).values()), dict(told.fees))

    def _own(self, told: Inbox) -> dict[str, tuple[Any, Any]]:
        rows = told.executions.items()
        return {key: pair for key, pair in rows if pair[1].acctNumber == self._place.account}

    async def _place_order(self, contract: Contract, order: Order) -> GatewayRefused | None:
        told, client = self._told, self._line
        client.updateReqId(told.highest + 1)
        number = client.getReqId()
        told.seen.discard(order.orderRef)
        client.placeOrder(number, contract, order)
        if not await told.until(lambda: number in told.errors or order.orderRef in told.seen, self._seconds):
            await self._disconnect()  # an answer that comes later is found in the lists of another connection
            return None
        # It may be told of as pending or inactive first, and refused then.
        await told.until(lambda: number in told.errors or self._taken(told, order.orderRef), self._seconds)
        return told.errors.get(number)

    @staticmethod
    def _taken(told: Inbox, reference: str) -> bool:
        rows = [row for row in told.open.values() if row.order.orderRef == reference]
        return any(row.status not in ("PendingSubmit", "ApiPending", "Inactive") for row in rows)

    async def _cancel(self, row: Told) -> None:
        told, client = self._told, self._line
        number, perm_id = row.order.orderId, row.order.permId
        told.errors.pop(number, None)
        client.cancelOrder(number)
        ends = ("Cancelled", "ApiCancelled", "Filled")
        await told.until(
            lambda: number in told.errors or told.statuses.get(perm_id, ("", 0))[0] in ends,
            min(CANCEL_SECONDS, self._seconds),
        )

    async def _positions(self) -> list[tuple[Any, float, float]]:
        told, client = self._told, self._line
        told.positions.clear()
        await self._asked("positions", client.reqPositions, "positions")
        client.cancelPositions()
        return [row for row in told.positions.values() if row[1]]  # IBKR names those of today that were closed, too

    async def _values(self) -> dict[tuple[str, str], str]:
        told, client = self._told, self._line
        told.values.clear()
        number = client.getReqId()
        ask = lambda: client.reqAccountUpdatesMulti(number, self._place.account, "", True)  # noqa: E731
        await self._asked(number, ask, "the account's figures")
        client.cancelAccountUpdatesMulti(number)
        return dict(told.values)

    async def _details(self, contract: Contract) -> list[Any]:
        told, client = self._told, self._line
        told.details.clear()
        number = client.getReqId()
        try:
            await self._asked(number, lambda: client.reqContractDetails(number, contract), "the share")
        except GatewayRefused as refused:
            if refused.code == 200:
                return []
            raise
        return list(told.details)
