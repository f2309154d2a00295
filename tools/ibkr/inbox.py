"""What IB Gateway tells, kept for one connection. The methods have the names by which the client's decoder calls them.

Nothing here is found by the number of an order (`orderId`): after a restart the Gateway gives old numbers to new
orders. An order is known by its reference, which is the desk's own id, and by the venue's `permId`.
"""

from __future__ import annotations

import asyncio
import datetime as dt
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, field
from typing import Any, NoReturn

from ib_async.client import Client
from ib_async.decoder import Decoder

from chordesk.models.errors import ServiceError

LINK_LOST, LINK_BACK = (1100, 2110), (1101, 1102)
NUMBER_IN_USE, READ_ONLY = 326, 321
# Errors about an order that leave it where it is: it waits for the exchange or for shares to borrow, has its market
# data late, or its cancellation has come.
_NOTES = (399, 404, 202, 10167, 10197, *range(2100, 2200))
_UNSET = 1e300  # a figure that is not known yet is the greatest float


class GatewaySilent(ServiceError):
    """No usable answer of the Gateway: what became of a request is not known."""

    remedy = "nothing is sent again; the order is looked up by its reference until it is known"


class GatewayCut(GatewaySilent):
    """The connection ended before an answer: a question may be asked anew, an order is never sent anew."""


class GatewayRefused(ServiceError):
    """A question that the Gateway answers with an error. code: IBKR's."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(f"IBKR answers with error {code}: {message}", remedy="read the reason, and look into TWS")
        self.code = code


@dataclass(slots=True)
class Told:
    """One order of a list. filled: None where the list does not have it. ended: it is in the list of ended orders."""

    contract: Any
    order: Any
    status: str
    note: str = ""
    filled: float | None = None
    ended: bool = False


@dataclass(slots=True)
class Inbox:
    """account: whose fills are told to `changed`; that of another account of the same login is nobody's business."""

    account: str
    changed: Callable[[str], None]
    defaultTimezone = dt.UTC
    accounts: list[str] = field(default_factory=list)
    link: bool = True  # between the Gateway and IBKR
    closed: bool = False
    refusal: str = ""  # of the whole connection
    open: dict[Hashable, Told] = field(default_factory=dict)
    completed: dict[Hashable, Told] = field(default_factory=dict)
    executions: dict[str, tuple[Any, Any]] = field(default_factory=dict)  # contract and execution, since connecting
    fees: dict[str, Any] = field(default_factory=dict)
    positions: dict[Hashable, tuple[Any, float, float]] = field(default_factory=dict)
    values: dict[tuple[str, str], str] = field(default_factory=dict)
    details: list[Any] = field(default_factory=list)
    statuses: dict[int, tuple[str, float]] = field(default_factory=dict)  # by permId: status, and how much is filled
    seen: set[str] = field(default_factory=set)  # references of orders that were told of
    errors: dict[int, GatewayRefused] = field(default_factory=dict)  # by the number of the order or question
    highest: int = 0  # of the numbers of orders
    news: asyncio.Event = field(default_factory=asyncio.Event)
    _refs: dict[int, str] = field(default_factory=dict)  # by permId
    _ends: dict[Hashable, asyncio.Future[None]] = field(default_factory=dict)

    # Questions

    async def answered(self, key: Hashable, ask: Callable[[], object], what: str, seconds: float) -> None:
        """Ask, and wait for the end of the answer. Raises GatewaySilent, or GatewayRefused."""
        end = self._ends[key] = asyncio.get_running_loop().create_future()
        try:
            if self.closed:
                raise GatewayCut(f"{what}: the connection to the Gateway has ended")
            ask()
            await asyncio.wait_for(end, seconds)
        except TimeoutError:
            raise GatewaySilent(f"{what}: the Gateway does not answer in {seconds:g} s") from None
        except ConnectionError:
            raise GatewayCut(f"{what}: the connection to the Gateway has ended") from None
        finally:
            self._ends.pop(key, None)

    async def until(self, done: Callable[[], bool], seconds: float) -> bool:
        """Wait for what `done` looks for, for the end of the connection or of the time; return whether it is there."""
        loop = asyncio.get_running_loop()
        last = loop.time() + seconds
        while not done():
            left = last - loop.time()
            if self.closed or left <= 0:
                return False
            self.news.clear()
            try:
                await asyncio.wait_for(self.news.wait(), left)
            except TimeoutError:
                return done()
        return True

    def _end(self, key: Hashable) -> None:
        end = self._ends.get(key)
        if end is not None and not end.done():
            end.set_result(None)

    def _fail(self, error: Exception, keys: Iterable[Hashable] | None = None) -> None:
        for key in list(self._ends) if keys is None else keys:
            end = self._ends.get(key)
            if end is not None and not end.done():
                end.set_exception(error)

    def unreadable(self) -> None:
        """Without it a list would end without the order that could not be read, as if there were none."""
        self._fail(GatewaySilent("an answer of the Gateway could not be read"))

    # The connection

    @property
    def ib(self) -> Inbox:
        return self

    @property
    def TimezoneTWS(self) -> NoReturn:
        """The zone of a time without one, which nobody knows."""
        raise ValueError("the Gateway tells times without a zone")

    def connectAck(self) -> None: ...

    def managedAccounts(self, names: str) -> None:
        self.accounts = [name for name in names.split(",") if name]

    def setEventsDone(self) -> None:
        """Called at the end of a connection, ready or not."""
        self.closed = True
        self.news.set()
        self._fail(GatewayCut("the connection to the Gateway was cut"))

    def connectionClosed(self) -> None: ...

    def error(self, number: int, code: int, message: str, _: str = "") -> None:
        text = message.replace(self.account, "IBKR_ACCOUNT") if self.account else message
        found = GatewayRefused(code, text.strip())
        if code in LINK_LOST:
            self.link = False
            self._fail(GatewaySilent(f"the Gateway has no link to IBKR ({code})"))
        elif code in LINK_BACK:
            self.link = True
        elif code == NUMBER_IN_USE:
            self.refusal = text
        elif number >= 0 and code not in _NOTES:
            self.errors[number] = found
            self._fail(found, [key for key in self._ends if key == number])
        elif code == READ_ONLY:
            self._fail(found)
        self.news.set()

    # Orders

    def openOrder(self, number: int, contract: Any, order: Any, state: Any) -> None:
        self._know(order)
        if order.clientId >= 0:
            self.highest = max(self.highest, number)
        key = order.permId or (order.clientId, number)
        self.open[key] = Told(contract, order, str(state.status), str(state.warningText))
        self.news.set()

    def orderStatus(
        self, number: int, status: str, filled: float, remaining: float, mean: float, perm_id: int, *_: Any
    ) -> None:
        before = self.statuses.get(perm_id)
        self.statuses[perm_id] = (status, filled)
        if before is not None and before != (status, filled) and perm_id in self._refs:
            self.changed(self._refs[perm_id])
        self.news.set()

    def openOrderEnd(self) -> None:
        self._end("open")

    def completedOrder(self, contract: Any, order: Any, state: Any) -> None:
        self._know(order)
        filled = float(order.filledQuantity)
        note = str(state.completedStatus)
        told = Told(contract, order, str(state.status), note, filled if filled < _UNSET else None, ended=True)
        self.completed[order.permId] = told

    def completedOrdersEnd(self) -> None:
        self._end("completed")

    def _know(self, order: Any) -> None:
        if order.account == self.account and order.orderRef:
            self.seen.add(order.orderRef)
            self._refs[order.permId] = order.orderRef

    # Fills

    def execDetails(self, number: int, contract: Any, execution: Any) -> None:
        new = execution.execId not in self.executions
        self.executions[execution.execId] = (contract, execution)
        self.highest = max(self.highest, execution.orderId)
        if execution.acctNumber == self.account and execution.orderRef:
            self._refs[execution.permId] = execution.orderRef
            if new and number < 0:  # not an answer of ours
                self.changed(execution.orderRef)
        self.news.set()

    def execDetailsEnd(self, number: int) -> None:
        self._end(number)

    def commissionReport(self, report: Any) -> None:
        if abs(report.commission) >= _UNSET:
            return
        new = report.execId not in self.fees
        self.fees[report.execId] = report
        found = self.executions.get(report.execId)
        if new and found is not None and found[1].acctNumber == self.account and found[1].orderRef:
            self.changed(found[1].orderRef)
        self.news.set()

    # The account

    def position(self, account: str, contract: Any, quantity: float, cost: float) -> None:
        if account == self.account:
            self.positions[contract.conId] = (contract, quantity, cost)

    def positionEnd(self) -> None:
        self._end("positions")

    def accountUpdateMulti(self, number: int, account: str, model: str, key: str, value: str, currency: str) -> None:
        if account == self.account:
            self.values[key, currency] = value

    def accountUpdateMultiEnd(self, number: int) -> None:
        self._end(number)

    def contractDetails(self, number: int, details: Any) -> None:
        self.details.append(details)

    def contractDetailsEnd(self, number: int) -> None:
        self._end(number)


class _Strict(Decoder):
    """The decoder, which tells of an answer that it cannot read; the library's writes that to a log and goes on."""

    def __init__(self, inbox: Inbox) -> None:
        super().__init__(inbox, 0)  # type: ignore[arg-type]
        self.logger = _Failures(inbox)  # type: ignore[assignment]

    def interpret(self, fields: list[str]) -> None:
        if fields and fields[0].isdigit() and int(fields[0]) in self.handlers:
            super().interpret(fields)


class _Failures:
    def __init__(self, inbox: Inbox) -> None:
        self._inbox = inbox

    def exception(self, *_: object) -> None:
        self._inbox.unreadable()


def client_of(inbox: Inbox) -> Client:
    """Return the library's client, with an inbox of ours: its own high level finds orders by their numbers."""
    client = Client(inbox)
    client.decoder = _Strict(inbox)
    return client
