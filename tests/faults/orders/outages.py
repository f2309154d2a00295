"""Outages under the trade worker while orders are with the broker: Redis, the database, the stream of fills."""

from __future__ import annotations

import random
import time

from chordesk.models.database.store import BUSY_SECONDS
from chordesk.models.states import OrderState
from tests.fakes.alpaca import LATE_SECONDS
from tests.faults.desk import FaultDesk, until
from tests.faults.orders.broker import CUT, SILENT, STREAMING
from tests.faults.orders.check import all_are, ends_well, fill_open
from tests.faults.orders.desk import Handed, control, hand_over, sent
from tests.faults.orders.scenarios import ORDERS
from tests.faults.runs.database import locked
from tests.faults.scenario import Result

FILLS = ("all", "part", "none")


def redis_killed(desk: FaultDesk, chance: random.Random, result: Result) -> None:
    """kill -9 to Redis while the broker has one of a decision's orders in hand, and a restart; at times the trade
    worker is killed with it. No other process has to be started again."""
    pids = {name: desk.pid(name) for name in desk.crew}
    handed = _in_hand(desk, chance, chance.choice(("late", "hang-after")))
    both = chance.random() < 0.5
    desk.kill("redis", back=False)
    if both:
        desk.kill("trade")
        del pids["trade"]
        result.notes.append("and the worker")
    time.sleep(chance.uniform(0.2, 3.0))
    desk.processes.redis()
    desk.await_worker("trade")
    ends_well(desk, result, handed)
    moved = [name for name, pid in pids.items() if desk.pid(name) != pid]
    if moved:
        result.findings.wrong.append(f"{', '.join(moved)} had to be started again")


def database_away(desk: FaultDesk, chance: random.Random, result: Result) -> None:
    """The database takes no writes from the moment on that the broker has one of a decision's orders in hand, for
    longer than anybody waits: what the broker answers cannot be written down."""
    handed = _in_hand(desk, chance, "late")
    locked(desk, LATE_SECONDS + BUSY_SECONDS + 6)
    ends_well(desk, result, handed)


def _in_hand(desk: FaultDesk, chance: random.Random, kind: str) -> Handed:
    """Return a decision at the moment at which the broker has one of its orders, and has not answered."""
    number = chance.randrange(ORDERS)
    control(desk, faults=[""] * number + [kind], fills=chance.choice(FILLS), unique=False)
    before = sent(desk)
    handed = hand_over(desk, chance, ORDERS)
    until(lambda: sent(desk) > before + number, "the order is with the broker")
    return handed


def stream_lost(desk: FaultDesk, chance: random.Random, result: Result) -> None:
    """Fills come while the broker's stream is cut, or is open and sends nothing: they are polled for. Only beat starts
    the trade worker's pass. Then the stream is back, and so are fills on it."""
    how = chance.choice((CUT, SILENT))
    _listened_to(desk)
    control(desk, faults=[], fills="part", unique=False)
    handed = [hand_over(desk, chance, ORDERS)]
    until(lambda: all_are(desk, OrderState.PARTIALLY_FILLED, *handed), "half of each order is booked")
    control(desk, brief=True, streams=how)
    try:
        if how == CUT:
            until(lambda: not _listening(desk), "the stream is cut")
        time.sleep(1.0)  # it handles its earlier notifications first
        began = time.monotonic()
        fill_open(desk, handed)
        handed.append(hand_over(desk, chance, ORDERS))
        until(lambda: all_are(desk, OrderState.FILLED, handed[0]), "fills are polled for")
        result.notes.append(f"{how}: polled in {time.monotonic() - began:.1f} s")
    finally:
        control(desk, brief=True, streams=STREAMING)
    until(lambda: _listening(desk), "the worker listens again")
    ends_well(desk, result, *handed, nudging=False)


def _listened_to(desk: FaultDesk) -> None:
    """Until the trade worker that lives listens; one that was killed may still be listed."""
    control(desk, brief=True, streams=CUT)
    until(lambda: not _listening(desk), "nobody listens")
    control(desk, brief=True, streams=STREAMING)
    until(lambda: _listening(desk), "the worker listens")


def _listening(desk: FaultDesk) -> bool:
    return bool(control(desk, brief=True)["listening"])
