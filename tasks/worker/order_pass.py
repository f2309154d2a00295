"""The order pass of the trade queue: each minute, and whenever an order has changed at the broker."""

from __future__ import annotations

import time

import structlog
from celery import Task, shared_task
from sqlalchemy.exc import SQLAlchemyError

from chordesk.models.errors import DeskError, FencedOff
from chordesk.models.settings.running_desk import is_backtest
from chordesk.tasks.bootstrap import Desk
from chordesk.tasks.worker.messages import ORDER_PASS, DeskApp, request_pass
from chordesk.tools.brokers.protocol import Streaming
from chordesk.tools.market.protocol import MarketData
from chordesk.tools.orders.accounts import FencingLease
from chordesk.tools.orders.flow import maintain_orders, simulated_context
from chordesk.tools.orders.sessions import meet_sessions
from chordesk.tools.orders.submitting import SubmissionContext

log = structlog.get_logger(__name__)

# For so long a worker that is fenced off leaves the queue to the one that is not.
ASIDE_SECONDS = 5.0


@shared_task(bind=True, name=ORDER_PASS)  # type: ignore[untyped-decorator]
def orders(self: Task) -> dict[str, int]:
    desk: Desk = self.app.desk
    if desk.drain.requested:
        return {}
    desk.order_pass_due.clear()
    try:
        account = submission_context(desk)
        found = maintain_orders(account, lambda run_id: _order_context(desk, account, run_id))
        _listen(self.app, desk)
        return found
    except FencedOff as error:
        log.error("orders.fenced_off", error=str(error))
        request_pass(self.app, ORDER_PASS)  # the message was for the process that has the account
        stand_aside(desk)
        return {"fenced_off": 1}
    except (DeskError, SQLAlchemyError) as error:
        # The database and the broker keep what there is to do; the next minute comes.
        log.warning("orders.put_off", error=str(error))
        return {}


def meet_past_sessions(desk: Desk, account: str) -> None:
    """A run on a later day sees what came of earlier orders. The trade worker takes the fence again afterwards."""
    settings, market = desk.settings, desk.market
    if account != settings.account or not settings.trader_live or market.clock.day is None:
        return
    lease = FencingLease(desk.store, account, desk.owner)
    context = SubmissionContext(desk.store, settings, market, desk.broker_on(market), lease)
    try:
        meet_sessions(context)
    finally:
        lease.release()


def stand_aside(desk: Desk) -> None:
    """Take no message for a while if another process submits for the account: it has work with each of them."""
    until = time.monotonic() + ASIDE_SECONDS
    while desk.submission_lease.is_fenced_off and not desk.drain.requested and time.monotonic() < until:
        time.sleep(0.1)


def submission_context(desk: Desk) -> SubmissionContext:
    """Return the context of the account as a whole: the market and day of its last trade, if it has one."""
    return _context_on(desk, desk.account_market())


def run_context(desk: Desk, run_id: str) -> SubmissionContext:
    """The run's market and day with this process's settings and fence. A backtest's orders go to the paper broker."""
    market, settings = desk.market_of(run_id), desk.settings_of(run_id)
    if is_backtest(settings.account):
        return simulated_context(desk.store, settings, market)
    return _context_on(desk, market)


def _order_context(desk: Desk, account: SubmissionContext, run_id: str) -> SubmissionContext:
    """Return the context of an order: its run's market and day, or the account's where that is later."""
    market = desk.market_of(run_id, instead=account.market)
    return account if market.clock.now() <= account.market.clock.now() else _context_on(desk, market)


def _context_on(desk: Desk, market: MarketData) -> SubmissionContext:
    return SubmissionContext(desk.store, desk.settings, market, desk.broker_on(market), desk.submission_lease)


def _listen(app: DeskApp, desk: Desk) -> None:
    """Have a broker that streams report changed orders, so that fills are booked before the minute is over."""
    broker = desk.broker
    if desk.settings.trader_live and isinstance(broker, Streaming):
        broker.listen(lambda order_id: _on_change(app, order_id))


def _on_change(app: DeskApp, order_id: str) -> None:
    waiting = app.desk.order_pass_due
    if not waiting.is_set():
        waiting.set()
        if not request_pass(app, ORDER_PASS):
            waiting.clear()
