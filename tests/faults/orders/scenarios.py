"""Orders under fire: the trade worker is killed at every step of a submission, is started twice, gets every message
twice; the broker does not answer. Over all of it the stand-in, which takes a client id as often as it comes, must have
each once.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable

from tests.faults.desk import FaultDesk, until
from tests.faults.orders.check import ends_well
from tests.faults.orders.desk import Handed, arm, control, hand_over, sent
from tests.faults.orders.launch import POINTS
from tests.faults.scenario import Result

ORDERS = 3
SECOND = "trade-2"


def killed_at(point: str, desk: FaultDesk, chance: random.Random, result: Result) -> None:
    """The trade worker kills itself at this point of one of a decision's orders; the watchman starts another."""
    control(desk, faults=[], fills=chance.choice(("all", "all", "none")), unique=False)
    before = desk.restarts["trade"]
    number = 1 if point == POINTS[0] else chance.randint(1, ORDERS)
    arm(desk, number, point)
    handed = hand_over(desk, chance, ORDERS)
    until(lambda: desk.restarts["trade"] > before, f"the trade worker is killed: {point}")
    desk.await_worker("trade")
    ends_well(desk, result, handed)


def killed_at_every_step(desk: FaultDesk, chance: random.Random, result: Result) -> None:
    """One decision a point."""
    for point in POINTS:
        killed_at(point, desk, chance, result)


def _killed_while(desk: FaultDesk, result: Result, handed: Handed, moment: Callable[[], object]) -> None:
    until(moment, "the order is with the broker")
    desk.kill("trade")
    desk.await_worker("trade")
    ends_well(desk, result, handed)


def held_by_broker(desk: FaultDesk, chance: random.Random, result: Result) -> None:
    """Killed while the broker holds the request: it takes the order at once, later, or never."""
    kind = chance.choice(("hang-after", "late", "late", "hang"))
    number = chance.randrange(ORDERS)
    control(desk, faults=[""] * number + [kind], fills="all", unique=False)
    before = sent(desk)
    handed = hand_over(desk, chance, ORDERS)
    result.notes.append(kind)
    _killed_while(desk, result, handed, lambda: sent(desk) > before + number)


def killed_at_random(desk: FaultDesk, chance: random.Random, result: Result) -> None:
    """SIGKILL some time after the message is sent."""
    control(desk, faults=[], fills="all", unique=False)
    handed = hand_over(desk, chance, ORDERS)
    at = time.monotonic() + chance.uniform(0.0, 0.8)
    _killed_while(desk, result, handed, lambda: time.monotonic() > at)


def delivered_twice(desk: FaultDesk, chance: random.Random, result: Result) -> None:
    """Every message of a decision three times, and no claim that keeps the second from the work; killed in between."""
    control(desk, faults=[], fills="all", unique=False)
    handed = [hand_over(desk, chance, ORDERS, messages=3) for _ in range(3)]
    time.sleep(chance.uniform(0.0, 1.0))
    desk.kill("trade")
    desk.await_worker("trade")
    ends_well(desk, result, *handed)


def two_trade_workers(desk: FaultDesk, chance: random.Random, result: Result) -> None:
    """A second trade worker comes while the first has orders in hand, both get all messages, and one is killed. When
    the mistake is found the second is ended and the first is started again, as the error asks."""
    control(desk, faults=["late"], fills="all", unique=False)
    handed = [hand_over(desk, chance, ORDERS, messages=2)]
    desk.start(SECOND)
    handed += [hand_over(desk, chance, ORDERS, messages=2) for _ in range(2)]
    desk.await_worker(SECOND)
    handed += [hand_over(desk, chance, ORDERS, messages=2) for _ in range(2)]
    time.sleep(chance.uniform(0.0, 2.0))
    victim = chance.choice(("trade", SECOND))
    desk.kill(victim)
    desk.await_worker(victim)
    ends_well(desk, result, *handed)
    desk.stop(SECOND)
    desk.kill("trade")
    desk.await_worker("trade")
    ends_well(desk, result, hand_over(desk, chance, ORDERS))


def broker_fails_after_it_accepted(desk: FaultDesk, chance: random.Random, result: Result) -> None:
    """The broker takes orders and then hangs, answers 504 or what is no answer. Its client sends again by itself after
    a 504: it is the client id that makes this harmless, so the stand-in keeps ids apart here, as the real one does."""
    kinds = chance.choices(("hang-after", "504-after", "garbage-after", "500-after", "504", "hang"), k=ORDERS)
    control(desk, faults=kinds, fills="all", unique=True)
    handed = hand_over(desk, chance, ORDERS)
    ends_well(desk, result, handed)
    result.notes.append(" ".join(kinds))
