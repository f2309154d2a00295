"""What TWS writes and reads at server version 178: fields of text, each ended by a NUL, in a frame of their length."""

from __future__ import annotations

import datetime as dt
import socket
import struct
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

VERSION = 178
ZONE = ZoneInfo("America/New_York")
UNKNOWN = 1.7976931348623157e308  # a figure that TWS does not know yet


@dataclass(slots=True)
class Share:
    """A contract. symbol: as IBKR writes it, BRK B."""

    con_id: int
    symbol: str
    currency: str = "USD"
    kind: str = "STK"
    local: str = ""
    primary: str = "NASDAQ"
    tick: str = "0.01"

    def fields(self, exchange: str = "SMART") -> list[Any]:
        return [
            self.con_id, self.symbol, self.kind, "", "0", "?", "", exchange, self.currency, self.local or self.symbol,
            self.symbol,
        ]  # fmt: skip


@dataclass(slots=True)
class Execution:
    """One fill. commission: None while its report has not come."""

    exec_id: str
    quantity: Decimal
    price: Decimal
    total: Decimal
    at: dt.datetime
    commission: Decimal | None
    currency: str = "USD"


@dataclass(slots=True)
class FarOrder:
    """An order as TWS has it. perm_id: the venue's own number; order_id: the client's, which is no identity."""

    perm_id: int
    order_id: int
    client_id: int
    ref: str
    account: str
    share: Share
    action: str
    quantity: Decimal
    kind: str
    tif: str
    limit: str
    aux: str
    trail_stop: str
    trail_percent: str
    status: str = "PreSubmitted"
    why: str = ""
    fills: list[Execution] = field(default_factory=list)
    listed_from: int = 0  # the fills before it are of an earlier day

    @property
    def filled(self) -> Decimal:
        return sum((fill.quantity for fill in self.fills), Decimal(0))

    @property
    def works(self) -> bool:
        return self.status in ("PendingSubmit", "PreSubmitted", "Submitted", "PendingCancel", "Inactive")


def frame(*fields: Any) -> bytes:
    text = "".join(f"{_text(one)}\0" for one in fields).encode()
    return struct.pack(">I", len(text)) + text


def _text(one: Any) -> str:
    if isinstance(one, bool):
        return str(int(one))
    return "" if one is None else str(one)


def exactly(sock: socket.socket, size: int) -> bytes:
    """Raises EOFError when the other side ends before so many bytes."""
    found = b""
    while len(found) < size:
        more = sock.recv(size - len(found))
        if not more:
            raise EOFError
        found += more
    return found


def read_frame(sock: socket.socket) -> list[str]:
    """The first one, with the client's versions, has no NUL at its end."""
    (size,) = struct.unpack(">I", exactly(sock, 4))
    return exactly(sock, size).decode().removesuffix("\0").split("\0")


# The places of an order's fields in a request to place one, as the client of this version writes them.
_AT = {
    "con_id": 2, "symbol": 3, "kind": 4, "exchange": 9, "primary": 10, "currency": 11, "local": 12, "action": 16,
    "quantity": 17, "type": 18, "limit": 19, "aux": 20, "tif": 21, "account": 23, "ref": 26, "trail_stop": 68,
    "trail_percent": 69,
}  # fmt: skip


def placed(fields: list[str]) -> dict[str, str]:
    return {name: fields[at] for name, at in _AT.items()}


def open_order(row: FarOrder) -> bytes:
    head = [5, row.order_id, *row.share.fields(), row.action, row.quantity, row.kind, row.limit or "0.0"]
    head += [row.aux or "0.0", row.tif, "", row.account, "", 0, row.ref, row.client_id, row.perm_id, False, False]
    head += ["0.0", "", "", "", "", "", "", "", "", "", "", 0, "", -1, 0, "", "", "", "", "", "", False, False, False]
    head += ["", 3, False, False, "", 0, 0, "", 0, "", ""]  # deltaNeutralOrderType, next to last, is empty
    head += [False, "", row.trail_stop, row.trail_percent, "", "", ""]  # to the description of legs
    head += [0, 0, 0, "", "", "", "", False, "", "IB", False, 0, "", False, False]
    margins = [UNKNOWN] * 9
    head += [row.status, *margins, "", "", "", "", row.why, False, False, 0, "None", "", row.trail_stop, ""]
    head += ["", "", "", 0, "", "", "", "0", False, False, False, False, "", "", False, "", "", "", "", ""]
    return frame(*head)


def order_status(row: FarOrder) -> bytes:
    worth = sum((fill.quantity * fill.price for fill in row.fills), Decimal(0))
    mean, last = (worth / row.filled, row.fills[-1].price) if row.fills else (0, 0)
    left = row.quantity - row.filled
    fields = [row.status, row.filled, left, mean, row.perm_id, 0, last, row.client_id, "", "0.0"]
    return frame(3, row.order_id, *fields)


def completed_order(row: FarOrder) -> bytes:
    """An order that ended. It has neither the client's numbers nor, as at the real one, its whole quantity."""
    head = [101, *row.share.fields(), row.action, 0, row.kind, row.limit or "0.0", row.aux or "0.0", row.tif, ""]
    head += [row.account, "", 0, row.ref, row.perm_id, False, False, "0.0", "", "", "", "", "", "", "0", "", "", 0, ""]
    head += [-1, "", "", "", "", "", "", False, False, "", 3, 0, "", 0, "", ""]
    head += [False, "", row.trail_stop, row.trail_percent, "", 0, 0, 0, "", "", "", "", "", "IB", False, 0, "", False]
    head += [row.status, False, False, 0, row.trail_stop, "", "", False, False, "", row.filled, "", False, "", False]
    head += [False, 0, dt.datetime.now(ZONE).strftime("%Y%m%d %H:%M:%S US/Eastern"), row.why, "", "", "", "", ""]
    return frame(*head)


def execution(request: int, row: FarOrder, fill: Execution) -> bytes:
    at = fill.at.astimezone(ZONE).strftime("%Y%m%d %H:%M:%S US/Eastern")
    side = "BOT" if row.action == "BUY" else "SLD"
    fields = [fill.exec_id, at, row.account, "NASDAQ", side, fill.quantity, fill.price, row.perm_id, row.client_id, 0]
    fields += [fill.total, fill.price, row.ref, "", "", "", 1, False]
    return frame(11, request, row.order_id, *row.share.fields("NASDAQ"), *fields)


def commission(fill: Execution) -> bytes:
    return frame(59, 1, fill.exec_id, fill.commission, fill.currency, UNKNOWN, UNKNOWN, "")


def position(account: str, share: Share, quantity: Decimal, cost: Decimal) -> bytes:
    return frame(61, 3, account, *share.fields(""), quantity, cost)


def details(request: int, share: Share) -> bytes:
    head = [10, request, share.symbol, share.kind, "", "0", "", "SMART", share.currency, share.local or share.symbol]
    head += ["NMS", share.symbol, share.con_id, share.tick, "", "LMT,MKT,STP,TRAIL", "SMART,NASDAQ", 1, 0]
    head += [share.symbol, share.primary, "", "", "", "", "US/Eastern", "", "", "", 0, 0, 1, "", "", "26", "", "COMMON"]
    return frame(*head, "1", "1", "100")


def error(request: int, code: int, message: str) -> bytes:
    return frame(4, 2, request, code, message, "")
