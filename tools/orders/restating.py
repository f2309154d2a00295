"""Restating: plans, stops and orders of an earlier day in shares of now.

Rows keep the prices of the day on which they were written. A plan and the cost that a rule's stop is measured from are
restated when they are read, from the actions since then: reading twice changes nothing, and an action that the data
learn late counts from the moment they know it. A working order is what the broker holds, so its row is changed, once,
in the transaction that books the action.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal

from sqlmodel import Session, col, select

from chordesk.models.market import legs_of, parse_contract
from chordesk.models.order_terms import follows_dividends
from chordesk.models.orders import Settlement
from chordesk.models.settings import Settings
from chordesk.models.states import ORDER_WORKING, OrderState
from chordesk.models.tables.orders import Order, Preview
from chordesk.tools.decimals import exact
from chordesk.tools.ledger import filled_quantities
from chordesk.tools.market.actions import contract_after, cost_less_cash, growth_since
from chordesk.tools.market.clock import day_of
from chordesk.tools.market.price_steps import stepped_quantity
from chordesk.tools.market.prices import actions_of
from chordesk.tools.market.protocol import Action, MarketData
from chordesk.tools.orders import audit
from chordesk.tools.orders.booking import advance
from chordesk.tools.orders.checking import ticket_of
from chordesk.tools.orders.stops import ShareHolding
from chordesk.tools.risk.exposure import started

_COST_PLACES = 8  # a ratio of one to three has no more exact ones

ActionsOf = Mapping[str, Sequence[Action]]  # by symbol, in ascending order


def known_actions(market: MarketData, holdings: Iterable[ShareHolding]) -> ActionsOf:
    """Read the actions since each position's first fill. Outside any transaction: a market may ask a network."""
    found = {one.symbol: actions_of(market, one.symbol, one.first_day) for one in holdings if one.first_day}
    return {symbol: actions for symbol, actions in found.items() if actions}


def reference_cost(holding: ShareHolding, actions: Sequence[Action]) -> Decimal:
    """Return the cost that a rule's stop is measured from: less the cash that was paid on the shares, and per share as
    the fills and the actions have it. The books' own average has what a fraction cost that a split paid out."""
    if not actions:
        return holding.cost
    held, cost = cost_less_cash(holding.moves, actions)
    if held and abs(held - holding.held) < 1:  # a fraction of a share may have been paid out
        return round(cost, _COST_PLACES)
    last = holding.moves[-1].day if holding.moves else holding.first_day
    paid = [action._replace(growth=action.growth / action.split) for action in actions]
    return holding.cost / exact(growth_since(paid, last)) if last is not None else holding.cost


def first_stop(session: Session, order: Order) -> Decimal:
    """Return the stop with which a trailing order began, in shares of its day: the row follows actions while it
    works, and not afterwards."""
    preview = session.exec(select(Preview).where(Preview.order_id == order.id)).first()
    if preview is None:
        return exact(order.stop_price or 0)
    try:
        at = json.loads(preview.payload)["stopPrice"]
    except (ValueError, TypeError, KeyError):
        at = None
    ticket = ticket_of(order).model_copy(update={"stop_price": float(at) if at is not None else None})
    return exact(started(ticket, preview.price).stop_price or 0)


def restate(session: Session, settings: Settings, account: str, leg: Settlement) -> None:
    """Bring the account's working orders on a symbol, sent before the day of an action, to the shares after it."""
    which = col(Order.account) == account, col(Order.symbol) == leg.symbol, col(Order.state).in_(ORDER_WORKING)
    for order in session.exec(select(Order).where(*which)).all():
        if day_of(order.market_at, leg.symbol) >= day_of(leg.at, leg.symbol) or order.quantity is None:
            continue
        if order.contract or order.legs:
            terms = _of_contract(session, order, leg)
        elif leg.ratio != 1 or order.protects is not None or follows_dividends(order.side, order.order_type):
            terms = _of_shares(session, order, leg)
        else:
            continue
        if terms is None:
            why = f"nothing whole is left of it after the split of {leg.at:%Y-%m-%d}"
            advance(session, order, OrderState.CANCELLED, message=why)
            continue
        changed = {name: value for name, value in terms.items() if getattr(order, name) != value}
        for name, value in changed.items():
            setattr(order, name, value)
        session.add(order)
        if changed:
            facts = {name: getattr(order, name) for name in ("quantity", "limit_price", "stop_price")}
            audit.record(session, settings, "restated", order=order.id, ratio=leg.ratio, **facts)


def follow_name(session: Session, settings: Settings, account: str, leg: Settlement) -> None:
    """Bring the account's working orders on a symbol's shares to the name that they bear now. leg: of the old name."""
    new = leg.id.partition("/")[0]
    which = col(Order.account) == account, col(Order.symbol) == leg.symbol, col(Order.state).in_(ORDER_WORKING)
    for order in session.exec(select(Order).where(*which)).all():
        if order.contract is None and not order.legs:
            order.symbol = new
            session.add(order)
            audit.record(session, settings, "renamed", order=order.id, old=leg.symbol, new=new)


def _of_shares(session: Session, order: Order, leg: Settlement) -> Mapping[str, object] | None:
    """Return the terms after a split or cash, None if less than a share is left, or than a lot of an entry. A stop that
    buys back a short position keeps its price over cash, which takes the market away from it."""
    preview = session.exec(select(Preview).where(col(Preview.order_id) == order.id)).one()
    ticket, filled = started(ticket_of(order), preview.price), filled_quantities(session, [order.id])[order.id]
    opens = order.protects is None and order.action in ("open", "add")
    left = stepped_quantity(order.symbol, (exact(ticket.quantity) - filled) * exact(leg.ratio), opens=opens)
    if not left:
        return None
    falls = leg.growth if follows_dividends(order.side, order.order_type) else leg.ratio
    found: dict[str, object] = {"quantity": float(filled + left)} if leg.ratio != 1 else {}
    for name in ("limit_price", "stop_price"):
        if (price := getattr(ticket, name)) is not None:
            found[name] = float(round(exact(price) / exact(falls), 4))
    return found


def _of_contract(session: Session, order: Order, leg: Settlement) -> Mapping[str, object] | None:
    """Return the terms on the contract that follows, None where no standard contract does."""
    day = day_of(leg.at, leg.symbol)
    action = Action(day, leg.ratio, leg.price if leg.kind == "dividend" else 0.0, leg.growth)
    traded = [one.contract for one in legs_of(order.legs)] or [order.contract or ""]
    contracts = [one for name in traded if (one := parse_contract(name)) is not None]
    after = [contract_after(contract, action) for contract in contracts]
    if after == contracts:
        return {}
    if order.legs or None in after or filled_quantities(session, [order.id])[order.id]:
        return None
    (contract,), quantity = after, float(exact(order.quantity or 0) * exact(leg.ratio))
    assert contract is not None
    found: dict[str, object] = {"contract": contract.symbol, "quantity": quantity}
    if order.limit_price is not None:
        found["limit_price"] = float(round(exact(order.limit_price) / exact(leg.ratio), 4))
    return found
