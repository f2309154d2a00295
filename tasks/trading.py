"""What the trade queue does besides decisions: each minute, and whenever something happened to an order, it looks
after the account's orders."""

from __future__ import annotations

import time

import structlog
from celery import Celery, Task, shared_task
from kombu.exceptions import OperationalError
from redis.exceptions import RedisError
from sqlalchemy.exc import SQLAlchemyError

from models.errors import DeskError, FencedOff
from tasks.bootstrap import Desk, desk_of
from tools.brokers.protocol import Streaming
from tools.orders.submitting import Funnel
from tools.orders.tending import tend

log = structlog.get_logger(__name__)

TASK = "desk.orders"
# A message that waited this long is of no use: the next minute's does the same.
EXPIRES_SECONDS = 60
# For so long a worker that is fenced off leaves the queue to the one that is not.
ASIDE_SECONDS = 5.0


@shared_task(bind=True, name=TASK)  # type: ignore[untyped-decorator]
def orders(self: Task) -> dict[str, int]:
    """Expire approvals, compare the account with its broker, submit what was approved, ask about what was sent."""
    desk = desk_of(self.app)
    if desk.drain.asked:
        return {}
    desk.nudged.clear()
    try:
        found = tend(funnel_of(desk))
        _listen(self.app, desk)
        return found
    except FencedOff as error:
        log.error("orders.fenced_off", error=str(error))
        nudge(self.app)  # the message was for whoever has the account
        stand_aside(desk)
        return {"fenced_off": 1}
    except (DeskError, SQLAlchemyError) as error:
        # The database and the broker keep what there is to do; the next minute comes.
        log.warning("orders.put_off", error=str(error))
        return {}


def stand_aside(desk: Desk) -> None:
    """Take no message for a while if another process submits for the account. It has work with each of them, this one
    has none and would get most."""
    until = time.monotonic() + ASIDE_SECONDS
    while desk.seat.is_off and not desk.drain.asked and time.monotonic() < until:
        time.sleep(0.1)


def funnel_of(desk: Desk) -> Funnel:
    return Funnel(desk.store, desk.settings, desk.market, desk.broker, desk.seat)


def _listen(app: Celery, desk: Desk) -> None:
    """Have a broker that streams say when an order has changed, so that fills are booked before the minute is over."""
    broker = desk.broker
    if desk.settings.trader_live and isinstance(broker, Streaming):
        broker.listen(lambda order_id: _on_change(app, order_id))


def _on_change(app: Celery, order_id: str) -> None:
    """One look is for all that has changed until it begins: a hundred fills must not queue up a hundred."""
    waiting = desk_of(app).nudged
    if not waiting.is_set():
        waiting.set()
        if not nudge(app):
            waiting.clear()


def nudge(app: Celery) -> bool:
    """Ask the trade queue to look at its orders now; False when it could not be asked, and does so within a minute."""
    try:
        app.send_task(TASK, expires=EXPIRES_SECONDS, ignore_result=True, retry=False)
    except (OperationalError, RedisError, OSError) as error:
        log.warning("orders.not_nudged", error=str(error))
        return False
    return True
