"""Closing one position at a person's request: what of it an order can close now, and what stands in the way."""

from __future__ import annotations

from collections.abc import Collection
from decimal import Decimal
from typing import Any

from sqlmodel import Session, col, select

from chordesk.models.errors import UsageError
from chordesk.models.market import parse_contract
from chordesk.models.settings import Settings
from chordesk.models.states import ORDER_OPEN, ORDER_WORKING, OrderState, RunKind, RunState, TradingState
from chordesk.models.tables.orders import Order, Position
from chordesk.models.tables.runs import Run
from chordesk.tools.decimals import exact, plain
from chordesk.tools.orders.booking import in_time
from chordesk.tools.orders.halting import trading_state
from chordesk.tools.orders.stops import holdings, left_of_each
from chordesk.tools.risk.exposure import underlying_of

_NOT_SENT = frozenset({OrderState.DRAFTED, OrderState.PREVIEWED})


def closing_action(session: Session, settings: Settings, symbol: str, why: str, own: str = "") -> dict[str, Any]:
    """Return the action of a decision that closes a position of the settings' account, as a trader's are written: all
    that no other order or written call binds. Its protective stop is withdrawn when the order is sent, as for any other
    that sells what a stop holds. own: the run that asks. Raises UsageError where nothing of it can be closed now."""
    held = session.get(Position, (settings.account, symbol))
    if held is None or not held.quantity:
        others = session.exec(select(Position.symbol).where(Position.account == settings.account)).all()
        remedy = f"it holds {', '.join(sorted(others))}" if others else "it holds nothing"
        raise UsageError(f"account {settings.account} holds no {symbol}", remedy=remedy)
    state, reason = trading_state(session, settings, settings.account)
    if state not in (TradingState.ACTIVE, TradingState.REDUCING):
        remedy = "`desk resume --reduce-only` lets positions be closed; `desk halt --flatten` closes all of them"
        raise UsageError(f"trading is halted: {reason or 'no reason given'}; {symbol} was not closed", remedy=remedy)
    side = "sell" if held.quantity > 0 else "buy"
    _require_alone(session, settings.account, symbol, side, own)
    contract = parse_contract(symbol)
    quantity, resting = _free(session, held), resting_entries(session, settings.account, symbol)
    return {
        "symbol": underlying_of(symbol), "action": "close", "side": side, "quantity": float(quantity),
        "notional": None, "orderType": "market", "limitPrice": None,
        "contract": symbol if contract is not None else None, "confidence": "high",
        "reasoning": "; ".join([why, *resting]),
    }  # fmt: skip


def resting_entries(session: Session, account: str, symbol: str) -> list[str]:
    """Return a line for each order that may take the same position on again after it was closed: none of them is
    cancelled by that."""
    held = session.get(Position, (account, symbol))
    if held is None:
        return []
    orders = _orders_on(session, account, symbol, "buy" if held.quantity > 0 else "sell", ORDER_OPEN)
    left = left_of_each(session, orders)
    return [
        f"order {one.id} ({one.side} {plain(left[one.id])} {symbol}, {one.state}) stays and can open it again"
        for one in orders
        if left[one.id] or one.quantity is None
    ]


def _free(session: Session, held: Position) -> Decimal:
    """Return how much of a position an order can close now. Raises UsageError where that is nothing."""
    symbol, all_of_it = held.symbol, abs(exact(held.quantity))
    if parse_contract(symbol) is not None:
        return all_of_it
    found = next(iter(holdings(session, held.account, symbol)))
    if found.free:
        return found.free
    if not found.unbound:
        reason = f"of {plain(all_of_it)} {symbol} nothing is free: other orders or written calls bind it"
        raise UsageError(reason, remedy=f"`desk orders list --symbol {underlying_of(symbol)}` shows them")
    which = "" if found.unbound == all_of_it else f" of {plain(all_of_it)}, the rest bound by other orders or calls,"
    reason = f"{plain(found.unbound)} {symbol}{which} is less than a step of its listing, which no order can close"
    raise UsageError(reason, remedy="close it at the venue, if it takes so little")


def _orders_on(session: Session, account: str, symbol: str, side: str, states: Collection[str]) -> list[Order]:
    """Return the orders of a person or a trader on exactly this position."""
    which = [Order.account == account, Order.symbol == underlying_of(symbol), Order.side == side]
    rows = session.exec(select(Order).where(*which, col(Order.protects).is_(None), col(Order.state).in_(states)))
    return [one for one in in_time(rows) if not one.legs and (one.contract or one.symbol) == symbol]


def _require_alone(session: Session, account: str, symbol: str, side: str, own: str) -> None:
    """Raise UsageError while another order or run gives the same position back: a second order on one side of it is
    denied as a duplicate, even where the first one leaves something."""
    for order in _orders_on(session, account, symbol, side, ORDER_OPEN | _NOT_SENT):
        reason = f"order {order.id} gives {plain(order.quantity or 0)} {symbol} back already: {order.state}"
        remedy = f"`desk orders show {order.id}` has it"
        if order.state == OrderState.APPROVAL_PENDING:
            remedy = f"`desk approve {order.id}` or `desk deny {order.id}` answers it"
        elif order.state in ORDER_WORKING:
            remedy = "close it when that one has ended; cancel it at the broker, or with all open ones by `desk halt`"
        raise UsageError(reason, remedy=remedy)
    asked = select(Run).where(Run.kind == RunKind.CLOSE, Run.account == account, Run.state == RunState.RUNNING)
    for run in session.exec(asked.where(Run.id != own)):
        if run.params.get("position") == symbol:
            reason = f"run {run.id} closes {symbol} already, and its order is not drafted yet"
            raise UsageError(reason, remedy=f"`desk runs show {run.id}` has it")
