"""Closing one position at a person's request: what of it an order can close now, and what stands in the way."""

from __future__ import annotations

from typing import Any

from sqlmodel import Session, col, select

from chordesk.models.errors import UsageError
from chordesk.models.market import parse_contract
from chordesk.models.settings import Settings
from chordesk.models.states import ORDER_OPEN, OrderState, RunKind, RunState, TradingState
from chordesk.models.tables.orders import Order, Position
from chordesk.models.tables.runs import Run
from chordesk.tools.decimals import exact, plain
from chordesk.tools.orders.halting import trading_state
from chordesk.tools.orders.stops import holdings
from chordesk.tools.risk.exposure import underlying_of

_NOT_SENT = frozenset({OrderState.DRAFTED, OrderState.PREVIEWED})


def closing_action(session: Session, settings: Settings, symbol: str, why: str) -> dict[str, Any]:
    """Return the action of a decision that closes a position of the settings' account, as a trader's are written. Its
    protective stop is withdrawn when the order is sent, as for any other that sells what a stop holds. Raises
    UsageError where nothing of it can be closed now."""
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
    _require_alone(session, settings.account, symbol, side)
    contract = parse_contract(symbol)
    quantity = abs(exact(held.quantity))
    if contract is None:
        quantity = next((one.free for one in holdings(session, settings.account, symbol)), exact(0))
    if not quantity:
        reason = f"of {plain(abs(held.quantity))} {symbol} nothing is free: other orders or written calls bind it"
        raise UsageError(reason, remedy=f"`desk orders list --symbol {underlying_of(symbol)}` shows them")
    return {
        "symbol": underlying_of(symbol), "action": "close", "side": side, "quantity": float(quantity),
        "notional": None, "orderType": "market", "limitPrice": None,
        "contract": symbol if contract is not None else None, "confidence": "high", "reasoning": why,
    }  # fmt: skip


def _require_alone(session: Session, account: str, symbol: str, side: str) -> None:
    """Raise UsageError while another order of a person or a trader gives the same position back."""
    which = [Order.account == account, Order.symbol == underlying_of(symbol), Order.side == side]
    rows = session.exec(
        select(Order).where(*which, col(Order.protects).is_(None), col(Order.state).in_(ORDER_OPEN | _NOT_SENT))
    )
    for order in rows:
        if (order.contract or order.symbol) == symbol and order.action in ("close", "reduce"):
            reason = f"order {order.id} gives {plain(order.quantity or 0)} {symbol} back already: {order.state}"
            raise UsageError(reason, remedy="answer or cancel that one first")
    asked = select(Run).where(Run.kind == RunKind.CLOSE, Run.account == account, Run.state == RunState.RUNNING)
    for run in session.exec(asked):
        if run.params.get("position") == symbol:
            reason = f"run {run.id} closes {symbol} already, and its order is not drafted yet"
            raise UsageError(reason, remedy=f"`desk runs show {run.id}` has it")
