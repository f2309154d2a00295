"""Keeping positions protected: after every pass each free share has a protective order, and none has two."""

from __future__ import annotations

from decimal import Decimal

import structlog

from chordesk.models.errors import DeskError, FencedOff
from chordesk.models.tables.orders import Order
from chordesk.models.trading.protection import parse_protection
from chordesk.tools.market.clock import exchange_day
from chordesk.tools.orders.protection.coverage import Unprotected, obstacle, unprotected
from chordesk.tools.orders.protection.placing import place
from chordesk.tools.orders.records.accounts import books_day
from chordesk.tools.orders.records.snapshots import Snapshot, take_snapshot
from chordesk.tools.orders.stops.holdings import ShareHolding, holdings, left_of, working_protection
from chordesk.tools.orders.stops.terms import stop_for
from chordesk.tools.orders.submitting import SubmissionContext, ensure_reconciled, withdraw

log = structlog.get_logger(__name__)


def keep_protected(context: SubmissionContext, snapshot: Snapshot | None = None) -> list[Unprotected]:
    """Cancel protective orders that no longer fit their positions and place those that are missing; return what stays
    unprotected. Safe at any time and any number of times.

    Nothing is changed on a day before that of the account's books, whose sessions are over for them, nor while they
    could not be compared with the broker's. Raises FencedOff when another process submits for the account.
    """
    if not context.settings.trader_live or not _has_work(context) or ensure_reconciled(context) is not None:
        return []
    for order_id in misfits(context):
        withdraw(context, order_id)
    if parse_protection(context.settings.protect) is None:
        return []
    reasons = {}
    for holding in _bare(context):
        try:
            left = place(context, holding.symbol, snapshot or take_snapshot(context.market, ()))
        except FencedOff:
            raise
        except DeskError as error:
            left = Unprotected(holding.symbol, float(holding.free), float(holding.free), str(error))
        if left is not None:
            reasons[left.symbol] = left
    with context.store.read() as session:
        found = [reasons.get(row.symbol, row) for row in unprotected(session, context.settings) if row.free]
    for row in found:
        log.warning("orders.unprotected", symbol=row.symbol, quantity=row.quantity, why=row.why)
    return found


def _has_work(context: SubmissionContext) -> bool:
    """Return whether there is a rule or an order of one, on a day that is not over for the books."""
    with context.store.read() as session:
        if context.settings.protect == "none" and not working_protection(session, context.broker.name):
            return False
        day = books_day(session, context.broker.name)
    return day is None or exchange_day(context.market.clock.now()) >= day


def misfits(context: SubmissionContext) -> list[str]:
    """Return ids of working protective orders that are not what their positions need, the oldest first. Of two on one
    symbol neither fits.

    One that could not be replaced now, as without a mandate, is better than none: it stays unless it would close more
    than is free.
    """
    rule = parse_protection(context.settings.protect)
    found = []
    with context.store.read() as session:
        held = {row.symbol: row for row in holdings(session, context.broker.name)}
        orders = working_protection(session, context.broker.name)
        symbols = [order.symbol for order in orders]
        for order in orders:
            holding, left = held.get(order.symbol), left_of(session, order)
            if holding is None or symbols.count(order.symbol) > 1 or _closes_more(order, left, holding):
                found.append(order.id)
            elif rule is not None:  # what was placed under a rule stays without one
                stop = stop_for(rule, order.symbol, holding.held, holding.free, holding.cost)
                if not stop.is_that_of(order, left) and obstacle(session, context.settings, order.symbol) is None:
                    found.append(order.id)
    return found


def _closes_more(order: Order, left: Decimal, holding: ShareHolding) -> bool:
    """Return whether a protective order could close more than is free, or would open."""
    return left > holding.free or (order.side == "sell") != (holding.held > 0)


def _bare(context: SubmissionContext) -> list[ShareHolding]:
    with context.store.read() as session:
        protected = {order.symbol for order in working_protection(session, context.broker.name)}
        return [row for row in holdings(session, context.broker.name) if row.free and row.symbol not in protected]
