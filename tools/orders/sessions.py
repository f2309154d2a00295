"""The books of an account in simulated time go from session to session: what its orders meet at each open and in each
bar is booked then, in that order, and what is decided later sees it."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from dataclasses import replace

from sqlmodel import Session, col, select

from chordesk.models.database.store import Store
from chordesk.models.market import OptionContract, parse_contract
from chordesk.models.settings import Settings
from chordesk.models.states import OrderState
from chordesk.models.tables.orders import Account, Order, Position
from chordesk.tools.ledger import account_money, value
from chordesk.tools.market.clock import ReplayClock, clock_day, day_of, exchange_hours
from chordesk.tools.market.prices import actions_of, previous_session, renamed, vanished
from chordesk.tools.market.protocol import RecordedSessions
from chordesk.tools.orders.accounts import FencingLease, account_market, equity_levels, last_mark_day
from chordesk.tools.orders.booking import open_orders
from chordesk.tools.orders.protection import keep_protected
from chordesk.tools.orders.reconciliation import settle
from chordesk.tools.orders.snapshots import symbols_of, take_snapshot
from chordesk.tools.orders.submitting import SubmissionContext, cancel_disallowed, poll
from chordesk.tools.risk.exposure import underlying_of


def meet_sessions(context: SubmissionContext) -> None:
    """Bring the account's books up to the context's now: orders that were sent meet the open and then the bar of each
    session since the last one that the books have met, stops follow their fills, and each session gets its equity mark.

    Does nothing in real time, where a broker reports what came of orders. Raises FencedOff when another process submits
    for the account.
    """
    from chordesk.tools.brokers.paper import PaperBroker  # one broker of several

    broker, market = context.broker, context.market
    if not isinstance(broker, PaperBroker) or not isinstance(market, RecordedSessions):
        return
    days = _unmet(context)
    if days:
        context.lease.acquire()
        cancel_disallowed(context)
    exchange = market.clock.exchange
    for day in days:
        at_open, at_end = (market.on(ReplayClock(day, at_open=begins, exchange=exchange)) for begins in (True, False))
        opening = replace(context, market=at_open, broker=broker.on(at_end, at_open=True))
        _follow_actions(opening)
        _meet(opening)
        closing = replace(context, market=at_end, broker=broker.on(at_end))
        _meet(closing)
        _settle(closing)
        _mark(closing)


def to_next_session(store: Store, settings: Settings) -> dt.date | None:
    """Bring the books to the end of the next session of the data, and return its day; None where the data end."""
    from chordesk.tools.brokers.paper import PaperBroker

    market = account_market(store, settings)
    assert isinstance(market, RecordedSessions)
    day = next((day for day in market.recorded() if day > market.clock.session()), None)
    if day is None:
        return None
    then = market.on(ReplayClock(day, exchange=market.clock.exchange))
    lease = FencingLease(store, settings.account, "the next session")
    try:
        meet_sessions(SubmissionContext(store, settings, then, PaperBroker(store, then, settings), lease))
    finally:
        lease.release()
    return day


def _unmet(context: SubmissionContext) -> list[dt.date]:
    """Sessions up to now that the books have not met: after the last mark, or after the first order that waits."""
    market, account = context.market, context.broker.name
    today = market.clock.session()
    with context.store.read() as session:
        last = last_mark_day(session, account, today)
        if last is None:
            sent = [day_of(order.market_at, order.symbol) for order in _sent(session, account)]
            last = min(sent, default=today)
    hours = exchange_hours(market.clock.exchange)
    return [day for day in market.sessions((today - last).days + 1) if day > last and hours.is_session(day)]


def _sent(session: Session, account: str) -> Iterator[Order]:
    return (order for order in open_orders(session, account) if order.state != OrderState.APPROVED)


def _meet(context: SubmissionContext) -> None:
    """Book what the orders come to by the context's now, the earliest sent first."""
    with context.store.read() as session:
        orders = list(_sent(session, context.broker.name))
        symbols = symbols_of(session, orders, context.broker.name) if orders else set()
        money = account_money(session, context.settings, context.broker.name)
    snapshot = take_snapshot(context.market, symbols, money) if orders else None
    for order in orders:
        poll(context, snapshot or take_snapshot(context.market, ()), order.id)
    keep_protected(context, snapshot)


def _follow_actions(context: SubmissionContext) -> None:
    """Book splits, dividends and new names since the session before, before the open."""
    market, account = context.market, context.broker.name
    with context.store.read() as session:
        symbols = symbols_of(session, list(_sent(session, account)), account)
    before = previous_session(market) or clock_day(market.clock) - dt.timedelta(days=1)
    if any(actions_of(market, underlying_of(symbol), before) or renamed(market, symbol) for symbol in symbols):
        settle(context.store, context.settings, context.broker.state())


def _settle(context: SubmissionContext) -> None:
    """Book what has become of contracts that expired or were exercised, and of shares that are traded no more."""
    today = context.market.clock.session()
    with context.store.read() as session:
        held = session.exec(select(Position.symbol).where(col(Position.account) == context.broker.name)).all()
    found = [(symbol, parse_contract(symbol)) for symbol in held]
    if any(_may_end(contract, today) if contract else _gone(context, symbol) for symbol, contract in found):
        settle(context.store, context.settings, context.broker.state())


def _may_end(contract: OptionContract, today: dt.date) -> bool:
    return contract.expiry < today or contract.kind == "put"


def _gone(context: SubmissionContext, symbol: str) -> bool:
    return vanished(context.market, symbol) is not None


def _mark(context: SubmissionContext) -> None:
    account = context.broker.name
    with context.store.read() as session:
        held = session.exec(select(Position.symbol).where(col(Position.account) == account)).all()
        money = account_money(session, context.settings, account)
    snapshot = take_snapshot(context.market, held, money)
    with context.store.session() as session:
        session.get_one(Account, account, with_for_update=True)
        view = value(session, snapshot, account)
        equity_levels(session, view, snapshot.now, snapshot.previous_session, keep=True)
