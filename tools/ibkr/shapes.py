"""IBKR's orders, executions and positions, and the desk's nouns. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Any

from ib_async.order import Order

from chordesk.models.exchanges import currency_of
from chordesk.models.order_terms import OrderType
from chordesk.models.orders import (
    AccountFill,
    BrokerAnswer,
    BrokerFill,
    BrokerOrder,
    BrokerPosition,
    OrderTicket,
)
from chordesk.tools.decimals import exact, plain
from chordesk.tools.ibkr.gateway import Lists
from chordesk.tools.ibkr.inbox import GatewaySilent, Told
from chordesk.tools.ibkr.shares import NotOrderable, symbol_here, symbol_there

_TYPES: Mapping[OrderType, str] = {
    "market": "MKT", "limit": "LMT", "stop": "STP", "stop_limit": "STP LMT", "trailing_stop": "TRAIL",
}  # fmt: skip
_AT_CLOSE: Mapping[str, str] = {"market": "MOC", "limit": "LOC"}  # types of their own, which are of the day
WORKING = ("submitted", "partially_filled")
ENDED = ("Filled", "Cancelled", "ApiCancelled", "Rejected")  # inactive ones may be sent on, until they are ended
_UNSET = 1e300
UNLISTED = "IBKR lists fills of it, and not the order"


def terms_of(ticket: OrderTicket) -> tuple[str, str]:
    """Return IBKR's order type and time in force."""
    if ticket.time_in_force == "cls":
        return _AT_CLOSE[ticket.order_type], "DAY"
    return _TYPES[ticket.order_type], ticket.time_in_force.upper()


def require_sendable(ticket: OrderTicket) -> None:
    """Raise NotOrderable for what this broker takes no orders of."""
    if ticket.is_option:
        raise NotOrderable("this broker takes orders of shares alone, and this one is of options")
    if ticket.quantity != int(ticket.quantity):
        raise NotOrderable(f"{plain(ticket.quantity)} shares: IBKR's interface takes whole shares alone")


def require_steps(ticket: OrderTicket, step: float) -> None:
    """Raise NotOrderable for a price between two steps: sent rounded, it would be another order than was checked."""
    least = exact(step)
    for name, price in (("limit", ticket.limit_price), ("stop", ticket.stop_price)):
        if price is not None and least > 0 and exact(price) % least:
            raise NotOrderable(f"the {name} price {plain(price)} is no multiple of {plain(least)}, the step at IBKR")


def order_of(ticket: OrderTicket, account: str) -> Order:
    """The reference is the desk's own order id, always. IBKR does not refuse a second order of one reference."""
    kind, time = terms_of(ticket)
    order = Order(
        action=ticket.side.upper(),
        totalQuantity=float(ticket.quantity),
        orderType=kind,
        tif=time,
        orderRef=str(ticket.order_id),
        account=account,
    )
    if ticket.limit_price is not None:
        order.lmtPrice = ticket.limit_price
    if ticket.stop_price is not None:
        order.auxPrice = ticket.stop_price
    if ticket.trail_percent is not None:
        order.trailingPercent = ticket.trail_percent
    return order


def unlike(ticket: OrderTicket, told: Told, account: str) -> list[str]:
    """Return what of an order with our reference is not ours. An ended order is listed without its quantity."""
    contract, order = told.contract, told.order
    kind, time = terms_of(ticket)
    pairs: dict[str, tuple[Any, Any]] = {
        "account": (account, order.account),
        "symbol": (symbol_there(ticket.symbol), contract.symbol),
        "security type": ("STK", contract.secType),
        "currency": (currency_of(ticket.symbol), contract.currency),
        "action": (ticket.side.upper(), order.action),
        "type": (kind.replace(" ", ""), str(order.orderType).replace(" ", "")),
        "time in force": (time, order.tif),
    }
    if order.totalQuantity:
        pairs["quantity"] = (exact(ticket.quantity), exact(order.totalQuantity))
    if ticket.limit_price is not None:
        pairs["limit price"] = (exact(ticket.limit_price), _price(order.lmtPrice))
    if ticket.stop_price is not None and ticket.order_type != "trailing_stop":
        pairs["stop price"] = (exact(ticket.stop_price), _price(order.auxPrice))
    return [name for name, (ours, theirs) in pairs.items() if ours != theirs]


def _price(value: Any) -> Decimal | None:
    return None if value is None or abs(value) >= _UNSET else exact(float(value))


def fills_of(executions: Iterable[tuple[Any, Any]], fees: Mapping[str, Any]) -> dict[str, BrokerFill | None]:
    """Return fills by their ids, the earliest of an order first; None for one whose commission has not come."""
    ordered = sorted(executions, key=lambda pair: (pair[1].cumQty, pair[1].time))
    return {execution.execId: _fill(contract, execution, fees.get(execution.execId)) for contract, execution in ordered}


def _fill(contract: Any, execution: Any, fee: Any) -> BrokerFill | None:
    if fee is None:
        return None
    if fee.commission and fee.currency != contract.currency:
        where = f"the commission of the fill {execution.execId} is in {fee.currency}"
        raise GatewaySilent(
            f"{where}, and its price in {contract.currency}", remedy="look into the account's statement"
        )
    return BrokerFill(
        id=execution.execId,
        quantity=float(execution.shares),
        price=float(execution.price),
        commission=float(fee.commission),
        at=execution.time,
    )


def order_in(ticket: OrderTicket, lists: Lists, account: str) -> Told | None:
    """Return a ticket's order, as it ended if it did. Raises GatewaySilent where what has its reference is another
    order, or where there are two."""
    found = None
    for row in (*lists.open, *lists.completed):
        if row.order.orderRef == str(ticket.order_id):
            if wrong := unlike(ticket, row, account):
                raise GatewaySilent(f"IBKR has another order as {ticket.order_id}: {', '.join(wrong)} differ")
            found = row
    return found


def answer_in(
    ticket: OrderTicket, lists: Lists, account: str, kept: Mapping[str, tuple[int, BrokerFill]]
) -> BrokerAnswer | None:
    """Return what the lists have of a ticket, None where none of them has it. kept: the fills that were told earlier,
    by id, each with IBKR's number of its order. Raises as `order_in`."""
    reference = str(ticket.order_id)
    told = order_in(ticket, lists, account)
    pairs = [pair for pair in lists.executions if pair[1].orderRef == reference]
    side = "BOT" if ticket.side == "buy" else "SLD"
    if any((pair[0].symbol, pair[1].side) != (symbol_there(ticket.symbol), side) for pair in pairs):
        raise GatewaySilent(f"IBKR has a fill of another order as {reference}")
    rows = (row.order for row in (*lists.open, *lists.completed) if row.order.orderRef == reference)
    numbers = {order.permId for order in (*rows, *(pair[1] for pair in pairs))} - {0}
    numbers |= {perm_id for perm_id, _ in kept.values()}
    if len(numbers) > 1:
        remedy = "cancel one of them in TWS, then `desk reconcile --adopt`"
        raise GatewaySilent(f"IBKR has {len(numbers)} orders as {reference}: {sorted(numbers)}", remedy=remedy)
    fills = {**{id_: fill for id_, (_, fill) in kept.items()}, **fills_of(pairs, lists.fees)}
    _require_uncorrected(fills)
    if told is None and not pairs and total(fills.values()) != exact(ticket.quantity):
        return None
    return answer_of(ticket, told, numbers.pop() if numbers else None, fills)


def total(fills: Iterable[BrokerFill | None]) -> Decimal:
    return sum((exact(fill.quantity) for fill in fills if fill is not None), Decimal(0))


def _require_uncorrected(ids: Iterable[str]) -> None:
    """Raise GatewaySilent for a fill that IBKR corrected, which has the same id but for its last digits: what was
    booked is another price or quantity."""
    stems: dict[str, str] = {}
    for id_ in ids:
        stem = id_.rpartition(".")[0]
        if stem and stems.setdefault(stem, id_) != id_:
            remedy = "compare the order with the account's statement, then `desk reconcile --adopt`"
            raise GatewaySilent(f"IBKR corrected the fill {stems[stem]} to {id_}", remedy=remedy)


def answer_of(
    ticket: OrderTicket, told: Told | None, perm_id: int | None, fills: Mapping[str, BrokerFill | None]
) -> BrokerAnswer:
    """told: as a list of orders has it, None where the fills alone name the order. Its end is told only with all its
    fills and their commissions: until then it works."""
    known = [fill for fill in fills.values() if fill is not None]
    filled = total(known)
    whole = exact(ticket.quantity)
    status, note = (told.status, told.note or None) if told else ("", UNLISTED)
    there = exact(told.filled) if told and told.filled is not None else filled
    state, message = "partially_filled" if known else "submitted", note
    if len(known) < len(fills):
        message = "IBKR has not told the commission of a fill yet"
    elif filled == whole:
        state, message = "filled", None
    elif status == "Filled" or there > filled:
        message = f"IBKR reports {status or 'fills'}; its list of fills has {plain(filled)} of {plain(there)}"
    elif told is not None and (told.ended or status in ENDED):
        state = _end_of(told, bool(known))
    elif status == "Inactive":
        message = f"IBKR keeps it as inactive: {message or 'it says no more'}"
    fields = {"status": state, "broker_order_id": str(perm_id) if perm_id else None, "fills": known, "message": message}
    return BrokerAnswer.model_validate(fields)


def _end_of(told: Told, partly: bool) -> str:
    if "expire" in told.note.lower():
        return "expired"
    refused = told.status in ("Inactive", "Rejected") or "reject" in told.note.lower()
    return "rejected" if refused and not partly else "cancelled"


def position_of(contract: Any, quantity: float, cost: float, money: str) -> BrokerPosition:
    return BrokerPosition(
        symbol=symbol_here(contract),
        quantity=quantity,
        average_cost=abs(cost) / _units(contract),
        currency=None if contract.currency == money else str(contract.currency),
    )


def _units(contract: Any) -> float:
    return float(contract.multiplier or 1) if contract.secType == "OPT" else 1.0


def open_orders(lists: Lists, account: str) -> list[BrokerOrder]:
    rows = (row for row in lists.open if row.order.account == account and row.status not in ENDED)
    return [_open_order(row) for row in rows]


def _open_order(told: Told) -> BrokerOrder:
    order = told.order
    return BrokerOrder(
        client_id=str(order.orderRef or f"IBKR {order.permId}"),
        broker_order_id=str(order.permId),
        symbol=symbol_here(told.contract),
        side="buy" if order.action == "BUY" else "sell",
        quantity=float(order.totalQuantity),
        filled=float(told.filled or 0.0),
    )


def account_fills(pairs: Iterable[tuple[Any, Any]], fees: Mapping[str, Any]) -> list[AccountFill]:
    """Raises GatewaySilent for a fill whose commission has not come: without it, a position would have no reason."""
    rows = {execution.execId: (contract, execution) for contract, execution in pairs}
    _require_uncorrected(rows)
    found = []
    for id_, fill in fills_of(rows.values(), fees).items():
        if fill is None:
            raise GatewaySilent(f"IBKR has not told the commission of the fill {id_} yet")
        found.append(_account_fill(*rows[id_], fill))
    return found


def _account_fill(contract: Any, execution: Any, fill: BrokerFill) -> AccountFill:
    return AccountFill(
        client_id=execution.orderRef or None,
        broker_order_id=str(execution.permId),
        symbol=symbol_here(contract),
        side="buy" if execution.side == "BOT" else "sell",
        fill=fill,
    )


def cash_of(values: Mapping[tuple[str, str], str], money: str) -> float:
    """Raises GatewaySilent where the account has no figure of its cash: no figure is not 0."""
    cash = values.get(("CashBalance", money))
    if cash is None:
        raise GatewaySilent(f"IBKR tells no cash of the account in {money}", remedy="look at the account in TWS")
    return number(cash)


def number(text: str) -> float:
    """Raises ValueError for what is no figure."""
    found = Decimal(text)
    if not found.is_finite():
        raise ValueError("a figure is no number")
    return float(found)


def blocked_of(
    values: Mapping[tuple[str, str], str], positions: Iterable[tuple[Any, float, float]], money: str
) -> str | None:
    """Return what of the account the desk cannot count."""
    reasons = [
        f"cash {plain(number(held))} in {code}"
        for (key, code), held in sorted(values.items())
        if key == "CashBalance" and code not in ("BASE", money) and number(held)
    ]
    for contract, quantity, _ in positions:
        if quantity and contract.currency != money:
            reasons.append(f"{symbol_here(contract)} in {contract.currency}")
        elif quantity and contract.secType not in ("STK", "OPT"):
            reasons.append(symbol_here(contract))
    told = ", ".join(reasons)
    return f"the account at IBKR has what the desk does not count: {told}; it needs one of its own" if told else None
