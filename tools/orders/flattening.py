"""Closing everything: a person's command, by a path of its own that can only give exposure back."""

from __future__ import annotations

import time
from collections.abc import Sequence
from decimal import Decimal

from sqlmodel import col, select

from models.columns import utcnow
from models.errors import MarketError
from models.market import Quote
from models.order_tables import Order, Preview
from models.orders import BrokerPosition, DenialCode, Denied, OrderOutcome
from models.states import ORDER_WORKING, OrderState
from tools.decimals import exact, plain
from tools.ledger import account_view
from tools.market.quotes import quote_of
from tools.orders import audit, fence
from tools.orders.closing_rows import underlying, write_orders
from tools.orders.context import ticket_of
from tools.orders.outcomes import outcome
from tools.orders.snapshots import take_snapshot
from tools.orders.states import advance, load_order
from tools.orders.submitting import Funnel, ask, hear, refuse
from tools.orders.tending import cancel_open, open_orders
from tools.risk import deny

CANCEL_SECONDS = 15.0
FILL_SECONDS = 5.0  # a broker acknowledges a market order first and fills it a moment later
PAUSE_SECONDS = 0.5


def flatten(funnel: Funnel, by: str, why: str) -> tuple[list[OrderOutcome], list[str]]:
    """Cancel what is open and sell or buy back every position that the broker shows; what became of each, and the
    ids of the orders whose end the broker did not tell: nothing is closed on their symbols.

    The account is taken at the fence, so that a trade worker submits nothing meanwhile, and given back at the end.
    The orders are rows like any other, of a decision that a person made. Raises FencedOff when the account is taken
    from this process, and what the broker raises when it does not show its positions.
    """
    token = funnel.seat.hold()
    left = _cancelled(funnel)
    with funnel.store.read() as session:
        busy = {load_order(session, id_).symbol for id_ in left}
    held = [row for row in funnel.broker.state().positions if row.quantity and underlying(row.symbol) not in busy]
    quotes = {row.symbol: _price(funnel, row) for row in held}
    with funnel.store.session() as session:
        fence.require(session, funnel.broker.name, token)
        ids = write_orders(session, funnel, held, quotes, by, why) if held else []
    for id_ in ids:
        _send(funnel, id_)
    _await_fills(funnel, ids)
    with funnel.store.session() as session:
        fence.give_back(session, funnel.broker.name, token)
        return [outcome(session, load_order(session, id_), live=True) for id_ in ids], left


def _cancelled(funnel: Funnel) -> list[str]:
    """Cancel what is open and wait for its end, for it must not fill beside what closes its position."""
    until = time.monotonic() + CANCEL_SECONDS
    left = cancel_open(funnel)
    while left and time.monotonic() < until:
        time.sleep(PAUSE_SECONDS)
        for id_ in left:
            ask(funnel, take_snapshot(funnel.market, ()), id_)
        with funnel.store.read() as session:
            left = [order.id for order in open_orders(session, funnel.broker.name) if order.state in ORDER_WORKING]
    return left


def _await_fills(funnel: Funnel, ids: Sequence[str]) -> None:
    """Ask about the closing orders for a while, so that what is told of them is how they ended."""
    until = time.monotonic() + FILL_SECONDS
    while time.monotonic() < until:
        with funnel.store.read() as session:
            open_ = [id_ for id_ in ids if load_order(session, id_).state in ORDER_WORKING]
        if not open_:
            return
        time.sleep(PAUSE_SECONDS)
        for id_ in open_:
            ask(funnel, take_snapshot(funnel.market, ()), id_)


def _price(funnel: Funnel, row: BrokerPosition) -> Quote:
    """The last price; where there is none, what the position cost: an emergency does not wait for a quote."""
    try:
        return quote_of(funnel.market, row.symbol)
    except MarketError:
        at = funnel.market.clock.now()
        return Quote(symbol=row.symbol, price=max(row.average_cost, 0.0001), at=at, source="average cost")


def _send(funnel: Funnel, id_: str) -> None:
    """Send one of these orders, once, if it still only gives back what the broker shows."""
    token = funnel.seat.hold()
    shown = {row.symbol: row.quantity for row in funnel.broker.state().positions}
    with funnel.store.session() as session:
        order = load_order(session, id_)
        fence.require(session, order.account, token)
        denied = _would_open(order, exact(shown.get(order.contract or order.symbol, 0.0)))
        if denied is not None:
            refuse(session, funnel.settings, order, denied)
            return
        found = session.exec(select(Preview).where(col(Preview.order_id) == id_)).one()
        advance(session, order, OrderState.SUBMITTING, fence=token, sent_at=utcnow())
        audit.record(session, funnel.settings, "submitting", order=id_, fence=token, payload_hash=found.payload_hash)
        ticket, view = ticket_of(order), account_view(session, take_snapshot(funnel.market, ()), order.account)
    hear(funnel, id_, lambda: funnel.broker.submit(ticket, found, view))


def _would_open(order: Order, held: Decimal) -> Denied | None:
    quantity = exact(order.quantity or 0)
    against = held if order.side == "sell" else -held
    if quantity <= against:
        return None
    reason = f"the broker shows {plain(held)} {order.contract or order.symbol} by now; flatten again"
    return deny(
        DenialCode.REDUCING, reason, f"{order.side} {plain(quantity)}", f"at most {plain(max(against, Decimal(0)))}"
    )
