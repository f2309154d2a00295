"""Trader Workstation, or IB Gateway, on loopback: its text protocol, an account, and the habits that cost orders.

A test holds it as `Tws`, says what becomes of the next orders (`faults`), and fills orders by hand. As a process of
its own (`python -m tests.fakes.tws --port 4002`) it fills each order at once.
"""

from __future__ import annotations

import argparse
import datetime as dt
import socket
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Any

from tests.fakes import tws_messages as messages
from tests.fakes.tws_messages import Execution, FarOrder, Share

ACCOUNT = "DU7654321"
_NEEDS_STOP = ("STP", "STP LMT")
_ENDS = {"cancelled": "Cancelled", "expired": "Cancelled", "inactive": "Inactive"}
_WHY = {"expired": "Expired", "cancelled": "Cancelled by Trader"}


class Line:
    """One client's connection."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock, self.client_id, self.waiting = sock, -1, b""
        self._lock = threading.Lock()

    def write(self, data: bytes) -> None:
        with self._lock, suppress(OSError):
            self.sock.sendall(data)

    def cut(self) -> None:
        with suppress(OSError):
            self.sock.shutdown(socket.SHUT_RDWR)
        self.sock.close()


@dataclass
class Tws:
    """One login. sends: the order references of all requests to place an order that came in, taken or not.

    faults: what becomes of the next requests to place an order, one each: `lost-before` (not taken, and cut),
    `lost-after` (taken, and cut before an answer), `logout` (taken, cut, and nobody is logged in until `login`),
    `queued` (the client has sent it, TWS has it in its queue, which a cut loses), `hang` (never answered, not taken),
    `late` (never answered, taken when `arrive` is called), `refused` (error 201), `inactive` (201, and kept as
    inactive), `warned` (taken, with the message 399 before), or empty for nothing.
    fills: what happens to an order that is taken: `none`, `all` or `part`, at `price`.
    """

    accounts: list[str] = field(default_factory=lambda: [ACCOUNT])
    cash: dict[str, Decimal] = field(default_factory=lambda: {"USD": Decimal(1_000_000)})
    base: str = "USD"
    price: Decimal = Decimal(100)
    fee: Decimal = Decimal("0.35")
    fee_currency: str = "USD"
    fills: str = "none"
    faults: list[str] = field(default_factory=list)
    sends: list[str] = field(default_factory=list)
    orders: list[FarOrder] = field(default_factory=list)
    strangers: list[FarOrder] = field(default_factory=list)  # of another account, in every list
    positions: dict[str, tuple[Decimal, Decimal]] = field(default_factory=dict)
    shares: dict[str, Share] = field(default_factory=dict)
    next_id: int = 1
    late_fees: bool = False  # executions come without their commission reports
    cancels: str = "done"  # pending: taken, and does not come; refused: error 161
    doubled: bool = False  # every message comes twice
    away: bool = False  # nothing is answered
    logged_in: bool = True  # False: connections are refused
    missing: str = ""  # a key of the account's values that is left out
    forgets_completed: bool = False  # the list of ended orders is empty, as after a day
    forgets_executions: bool = False
    torn: int = 0  # a kind of message that comes with fields missing
    read_only: bool = False
    knows_all: bool = False  # a share of any name is there
    listings: dict[str, int] = field(default_factory=dict)  # by symbol: how many shares have it, one by default
    port: int = 0

    def __post_init__(self) -> None:
        self._lock = threading.RLock()
        self._lines: list[Line] = []
        self._numbers = Counter[str]()
        self._late: list[Callable[[], None]] = []
        self._listener: socket.socket | None = None
        for number, symbol in enumerate(("AAPL", "MSFT", "IBM", "MMM", "BRK B", "AAA", "BBB", "SAP"), 265_598):
            self.shares[symbol] = Share(number, symbol)
        self.shares["SAP"].currency, self.shares["SAP"].primary = "EUR", "IBIS"
        self.requests: list[int] = []  # the kinds of all that came in

    # What the account does

    def order(self, ref: str) -> FarOrder:
        (found,) = [row for row in self.orders if row.ref == ref]
        return found

    def fill(self, ref: str, quantity: Decimal, price: Decimal) -> dt.datetime:
        with self._lock:
            row = self.order(ref)
            number = self._number("execution")
            at = dt.datetime.now(dt.UTC).replace(microsecond=0)
            fee = None if self.late_fees else self.fee
            exec_id = f"00025b44.{number:08x}.01.01"
            made = Execution(exec_id, quantity, price, row.filled + quantity, at, fee, self.fee_currency)
            row.fills.append(made)
            row.status = "Filled" if row.filled == row.quantity else "Submitted"
            self._book(row, made)
            owner = self._owner(row)
            # An execution comes before the order's new status, and its commission after both.
            self._tell(owner, messages.execution(-1, row, made))
            self._tell(owner, messages.open_order(row) + messages.order_status(row))
            if fee is not None:
                self._tell(owner, messages.commission(made))
            return at

    def _book(self, row: FarOrder, made: Execution) -> None:
        sign = 1 if row.action == "BUY" else -1
        held, cost = self.positions.get(row.share.symbol, (Decimal(0), Decimal(0)))
        left = held + sign * made.quantity
        if held * sign >= 0 and left:
            cost = (abs(held) * cost + made.quantity * made.price) / abs(left)
        self.positions[row.share.symbol] = (left, cost)
        currency = row.share.currency
        self.cash[currency] = self.cash.get(currency, Decimal(0)) - sign * made.quantity * made.price - self.fee

    def correct(self, ref: str, price: Decimal) -> None:
        """Correct the last fill of an order: another id, but for its last digits."""
        row = self.order(ref)
        old = row.fills[-1]
        exec_id = f"{old.exec_id.rpartition('.')[0]}.02"
        row.fills.append(Execution(exec_id, old.quantity, price, old.total, old.at, old.commission, old.currency))

    def repeat(self, ref: str) -> None:
        """The order is there a second time, as after a send that was repeated."""
        self.orders.append(replace(self.order(ref), perm_id=self._number("perm") + 1_553_500_000, fills=[]))

    def new_day(self) -> None:
        """Ended orders and the fills of before are listed no more."""
        self.orders = [row for row in self.orders if row.works]
        for row in self.orders:
            row.listed_from = len(row.fills)

    def report_fees(self) -> None:
        with self._lock:
            self.late_fees = False
            for row in self.orders:
                for made in row.fills:
                    if made.commission is None:
                        made.commission = self.fee
                        self._tell(self._owner(row), messages.commission(made))

    def end(self, ref: str, how: str) -> None:
        with self._lock:
            row = self.order(ref)
            row.status, row.why = _ENDS[how], _WHY.get(how, "")
            self._tell(self._owner(row), messages.order_status(row))

    def by_hand(self, symbol: str = "MSFT", ref: str = "", account: str = "") -> FarOrder:
        """Place an order in TWS itself, or at another account of the login."""
        terms = ("BUY", Decimal(1), "LMT", "DAY", "50.0", "", "", "")
        with self._lock:
            where = account or self.accounts[0]
            row = FarOrder(self._number("perm") + 900_000, 0, 0, ref, where, self.shares[symbol], *terms)
            row.status = "Submitted"
            (self.orders if where == self.accounts[0] else self.strangers).append(row)
            return row

    def arrive(self) -> None:
        """Take the orders that are late."""
        late, self._late = self._late, []
        for take in late:
            take()

    # What the connection does

    def cut(self) -> None:
        """Cut all connections. What waits in TWS's queue is gone."""
        with self._lock:
            lines, self._lines = self._lines, []
            self._late.clear()
        for line in lines:
            line.cut()

    def logout(self) -> None:
        self.logged_in = False
        self.cut()

    def login(self) -> None:
        self.logged_in = True

    def restart(self) -> None:
        """The daily restart: connections end, and the numbers of orders begin anew."""
        self.next_id = 1
        self.cut()

    def link(self, code: int) -> None:
        """1100: the link to IBKR's servers is lost; 1101, 1102: it is there again; 2110: TWS's own is broken."""
        text = {1100: "Connectivity between IBKR and Trader Workstation has been lost."}
        self._tell(None, messages.error(-1, code, text.get(code, "Connectivity has been restored.")))

    def connected(self) -> set[int]:
        with self._lock:
            return {line.client_id for line in self._lines if line.client_id >= 0}

    def _owner(self, row: FarOrder) -> int:
        return row.client_id

    def _tell(self, client_id: int | None, data: bytes) -> None:
        """Write to a client's connection, or to all."""
        if self.away:
            return
        with self._lock:
            lines = [line for line in self._lines if client_id in (None, line.client_id)]
        for line in lines:
            line.write(data * 2 if self.doubled else data)

    def _number(self, what: str) -> int:
        self._numbers[what] += 1
        return self._numbers[what]

    # The wire

    def serve(self, port: int = 0) -> None:
        listener = socket.create_server(("127.0.0.1", port))
        self._listener, self.port = listener, listener.getsockname()[1]
        threading.Thread(target=self._accept, args=(listener,), name="tws", daemon=True).start()

    def close(self) -> None:
        if self._listener is not None:
            with suppress(OSError):
                self._listener.shutdown(socket.SHUT_RDWR)
            self._listener.close()
        self.cut()

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                sock, _ = listener.accept()
            except OSError:
                return
            if not self.logged_in:
                sock.close()
                continue
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            threading.Thread(target=self._converse, args=(Line(sock),), daemon=True).start()

    def _converse(self, line: Line) -> None:
        with suppress(EOFError, OSError, ValueError):
            assert messages.exactly(line.sock, 4) == b"API\0"
            (hello,) = messages.read_frame(line.sock)
            low, _, high = hello.removeprefix("v").partition("..")
            if not int(low) <= messages.VERSION <= int(high):
                raise ValueError(hello)
            if self.away:
                threading.Event().wait()
            line.write(messages.frame(messages.VERSION, "20261129 06:00:00 EST"))
            while True:
                self._handle(line, messages.read_frame(line.sock))
        with self._lock, suppress(ValueError):
            self._lines.remove(line)
        line.cut()

    def _handle(self, line: Line, fields: list[str]) -> None:
        kind = int(fields[0])
        with self._lock:
            self.requests.append(kind)
            if kind == 3:
                self._place(line, fields)
                return
            if self.away:
                return
            if self.read_only and kind in (5, 16, 99, 4):
                line.write(messages.error(-1, 321, "Error validating request: The API is in Read-Only mode."))
                return
            answers = {
                71: self._start, 4: self._cancel, 5: self._open, 16: self._open, 99: self._completed,
                7: self._executions, 61: self._positions, 76: self._values, 9: self._details, 8: self._ids,
                6: self._updates,
            }  # fmt: skip
            for data in answers[kind](line, fields) if kind in answers else ():
                torn = self.torn and data[4:].startswith(f"{self.torn}\0".encode())
                data = messages.frame(self.torn, "0") if torn else data
                line.write(data * 2 if self.doubled else data)

    def _start(self, line: Line, fields: list[str]) -> Iterator[bytes]:
        client_id = int(fields[2])
        if any(other.client_id == client_id for other in self._lines):
            line.write(messages.error(-1, 326, "Unable to connect as the client id is already in use."))
            raise EOFError
        line.client_id = client_id
        self._lines.append(line)
        yield messages.frame(15, 1, ",".join(self.accounts))
        yield messages.frame(9, 1, self.next_id)
        yield messages.error(-1, 2104, "Market data farm connection is OK:usfarm")

    def _ids(self, line: Line, fields: list[str]) -> Iterator[bytes]:
        yield messages.frame(9, 1, self.next_id)

    def _place(self, line: Line, fields: list[str]) -> None:
        wanted, order_id = messages.placed(fields), int(fields[1])
        self.sends.append(wanted["ref"])
        fault = self.faults.pop(0) if self.faults else ""
        if self.away or fault == "hang":
            return
        if fault == "lost-before":
            self.cut()
        elif fault in ("late", "queued"):
            self._late.append(lambda: self._taken(line, order_id, wanted))
        elif (why := self._unfit(line, order_id, wanted, fault)) is not None:
            if fault == "inactive":
                row = self._made(line, order_id, wanted)
                row.status, row.why = "Inactive", why[1]
                line.write(messages.open_order(row) + messages.order_status(row))
            line.write(messages.error(order_id, *why))
        elif fault in ("lost-after", "logout"):
            self._made(line, order_id, wanted)
            self.logged_in = fault != "logout"
            self.cut()
        else:
            if fault == "blamed":
                line.write(messages.error(order_id, 201, "Order rejected - reason: of another order"))
            if fault == "warned":
                line.write(messages.error(order_id, 399, "Order Message: it is not sent to the exchange until 09:30."))
            self._taken(line, order_id, wanted)

    def _unfit(self, line: Line, order_id: int, wanted: dict[str, str], fault: str) -> tuple[int, str] | None:
        """The error of an order that TWS does not take."""
        if fault in ("refused", "inactive"):
            return 201, "Order rejected - reason:The available funds are in sufficient."
        if self.read_only:
            return 321, "Error validating request: The API interface is currently in Read-Only mode."
        if any(row.works and (row.client_id, row.order_id) == (line.client_id, order_id) for row in self.orders):
            return 103, "Duplicate order id"
        if wanted["symbol"] not in self.shares:
            return 200, "No security definition has been found for the request"
        if wanted["account"] not in self.accounts:
            return 321, "Error validating request: the account code is not of this login"
        for name in ("limit", "aux"):
            tick = Decimal(self.shares[wanted["symbol"]].tick)
            if wanted[name] and wanted["type"] != "TRAIL" and Decimal(wanted[name]) % tick:
                return 110, "The price does not conform to the minimum price variation for this contract."
        if wanted["type"] in _NEEDS_STOP and not wanted["aux"]:
            return 321, "Error validating request: a stop price is needed"
        return None

    def _made(self, line: Line, order_id: int, wanted: dict[str, str]) -> FarOrder:
        terms = (wanted["action"], Decimal(wanted["quantity"]), wanted["type"], wanted["tif"])
        prices = (wanted["limit"], wanted["aux"], wanted["trail_stop"], wanted["trail_percent"])
        ids = (self._number("perm") + 1_553_000_000, order_id, line.client_id, wanted["ref"], wanted["account"])
        row = FarOrder(*ids, self.shares[wanted["symbol"]], *terms, *prices)
        self.orders.append(row)
        self.next_id = max(self.next_id, order_id + 1)
        return row

    def _taken(self, line: Line, order_id: int, wanted: dict[str, str]) -> None:
        row = self._made(line, order_id, wanted)
        self._tell(line.client_id, messages.open_order(row) + messages.order_status(row))
        if self.fills != "none" and self._reached(row):
            whole = row.quantity if self.fills == "all" else row.quantity / 2
            self.fill(row.ref, whole, self.price)

    def _reached(self, row: FarOrder) -> bool:
        if row.kind in ("LMT", "LOC"):
            return self.price <= Decimal(row.limit) if row.action == "BUY" else self.price >= Decimal(row.limit)
        return row.kind in ("MKT", "MOC")

    def _cancel(self, line: Line, fields: list[str]) -> Iterator[bytes]:
        order_id = int(fields[2])
        rows = [row for row in self.orders if (row.client_id, row.order_id) == (line.client_id, order_id)]
        if not rows:
            yield messages.error(order_id, 10147, f"OrderId {order_id} that needs to be cancelled is not found.")
            return
        row = rows[-1]
        if not row.works or self.cancels == "refused":
            yield messages.error(order_id, 161, "Cancel attempted when order is not in a cancellable state.")
            return
        if self.cancels == "pending":
            row.status = "PendingCancel"
            yield messages.order_status(row)
            return
        row.status, row.why = "Cancelled", _WHY["cancelled"]
        yield messages.order_status(row)
        yield messages.error(order_id, 202, "Order Canceled - reason:")

    def _open(self, line: Line, fields: list[str]) -> Iterator[bytes]:
        for row in (*self.orders, *self.strangers):
            if row.works:
                yield messages.open_order(row)
                yield messages.order_status(row)
        yield messages.frame(53, 1)

    def _completed(self, line: Line, fields: list[str]) -> Iterator[bytes]:
        for row in (*self.orders, *self.strangers):
            if not row.works and not self.forgets_completed:
                yield messages.completed_order(row)
        yield messages.frame(102)

    def _executions(self, line: Line, fields: list[str]) -> Iterator[bytes]:
        request = int(fields[2])
        fills = [(row, made) for row in (*self.orders, *self.strangers) for made in row.fills[row.listed_from :]]
        for row, made in () if self.forgets_executions else fills:
            yield messages.execution(request, row, made)
        yield messages.frame(55, 1, request)
        for _, made in () if self.forgets_executions else fills:
            if made.commission is not None:
                yield messages.commission(made)

    def _positions(self, line: Line, fields: list[str]) -> Iterator[bytes]:
        for symbol, (quantity, cost) in self.positions.items():
            yield messages.position(self.accounts[0], self.shares[symbol], quantity, cost)
        for account in self.accounts[1:]:
            yield messages.position(account, self.shares["IBM"], Decimal(999), Decimal(1))
        yield messages.frame(62, 1)

    def _values(self, line: Line, fields: list[str]) -> Iterator[bytes]:
        request, account = fields[2], fields[3]
        worth = sum((quantity * self.price for quantity, _ in self.positions.values()), Decimal(0))
        whole = sum(self.cash.values(), Decimal(0))
        rows = [("CashBalance", whole, "BASE"), *(("CashBalance", held, code) for code, held in self.cash.items())]
        rows += [("Currency", self.base, self.base), ("NetLiquidation", whole + worth, self.base)]
        for key, value, code in rows:
            if key != self.missing:
                yield messages.frame(73, 1, request, account, "", key, value, code)
        yield messages.frame(74, 1, request)

    def _updates(self, line: Line, fields: list[str]) -> Iterator[bytes]:
        yield messages.frame(6, 2, "CashBalance", self.cash.get(self.base, 0), self.base, fields[3])
        yield messages.frame(54, 1, fields[3])

    def _details(self, line: Line, fields: list[str]) -> Iterator[bytes]:
        request, symbol = int(fields[2]), fields[4]
        if fields[3] != "0":
            symbol = next((name for name, row in self.shares.items() if str(row.con_id) == fields[3]), "")
        if self.knows_all and symbol not in self.shares:
            self.shares[symbol] = Share(300_000 + len(self.shares), symbol)
        if symbol in self.shares:
            for number in range(self.listings.get(symbol, 1)):
                share = self.shares[symbol]
                yield messages.details(request, replace(share, con_id=share.con_id + 1000 * number))
            yield messages.frame(52, 1, request)
        else:
            yield messages.error(request, 200, "No security definition has been found for the request")


@contextmanager
def serving(tws: Tws | None = None, port: int = 0) -> Iterator[Tws]:
    made = tws or Tws()
    made.serve(port)
    try:
        yield made
    finally:
        made.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, default=4002)
    parser.add_argument("--fills", choices=("none", "part", "all"), default="all")
    parser.add_argument("--price", type=Decimal, default=Decimal(100))
    parser.add_argument("--hold", action="append", default=[], metavar="SYMBOL=QUANTITY", help="a position at --price")
    given: Any = parser.parse_args()
    made = Tws(fills=given.fills, price=given.price, knows_all=True)
    for symbol, _, quantity in (each.partition("=") for each in given.hold):
        made.positions[symbol] = (Decimal(quantity), given.price)
        made.shares.setdefault(symbol, Share(300_000 + len(made.shares), symbol))
    with serving(made, given.port) as tws:
        print(f"IB Gateway's stand-in on 127.0.0.1:{tws.port}, account {ACCOUNT}", flush=True)
        threading.Event().wait()


if __name__ == "__main__":
    main()
