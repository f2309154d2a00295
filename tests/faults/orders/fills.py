"""Orders that are filled in parts while the trade worker dies: each part is booked once."""

from __future__ import annotations

import random
import time

from chordesk.models.states import OrderState
from tests.faults.desk import FaultDesk, until
from tests.faults.orders.broker import SILENT, STREAMING
from tests.faults.orders.check import all_are, ends_well, fill_open
from tests.faults.orders.desk import Handed, arm, control, hand_over
from tests.faults.orders.launch import FOLLOWED, POINTS
from tests.faults.orders.scenarios import ORDERS
from tests.faults.scenario import Result


def killed_half_filled(desk: FaultDesk, chance: random.Random, result: Result) -> None:
    """Half of each order is filled as it comes, a quarter while the worker is dead, the rest when it is back. It dies
    while it books what a submission brought, while it books what it finds later, and at any time between."""
    control(desk, faults=[], fills="part", unique=False)
    handed = [_killed_booking(desk, chance)]
    handed.append(_killed_following(desk, chance))
    handed.append(_killed_between(desk, chance))
    ends_well(desk, result, *handed)


def _killed_booking(desk: FaultDesk, chance: random.Random) -> Handed:
    before = desk.restarts["trade"]
    arm(desk, chance.randint(1, ORDERS), POINTS[4])
    handed = hand_over(desk, chance, ORDERS)
    until(lambda: desk.restarts["trade"] > before, "the worker is killed: it books what a submission brought")
    fill_open(desk, [handed], 1)
    desk.await_worker("trade")
    return handed


def _killed_following(desk: FaultDesk, chance: random.Random) -> Handed:
    handed = hand_over(desk, chance, ORDERS)
    until(lambda: all_are(desk, OrderState.PARTIALLY_FILLED, handed), "half of each order is booked")
    before = desk.restarts["trade"]
    control(desk, brief=True, streams=SILENT)  # so that it is the comparison with the broker that finds the next ones
    arm(desk, chance.randint(1, ORDERS), FOLLOWED, POINTS[4])
    fill_open(desk, [handed], 1)
    until(lambda: desk.restarts["trade"] > before, "the worker is killed: it books what it finds later")
    fill_open(desk, [handed])
    desk.await_worker("trade")
    control(desk, brief=True, streams=STREAMING)
    return handed


def _killed_between(desk: FaultDesk, chance: random.Random) -> Handed:
    handed = hand_over(desk, chance, ORDERS)
    time.sleep(chance.uniform(0.0, 1.0))
    desk.kill("trade")
    fill_open(desk, [handed], 1)
    desk.await_worker("trade")
    return handed
