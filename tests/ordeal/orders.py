"""Orders under fire: the trade worker is killed at every step of a submission, is started twice, gets every message
twice; the broker does not answer. Over all of it the stand-in, which takes a client id as often as it comes, must have
each once.
"""

from __future__ import annotations

import random
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence

from sqlmodel import select

from chordesk.models.database.store import BUSY_SECONDS
from chordesk.models.states import OrderState
from chordesk.models.tables.orders import Order, Trading
from tests.fakes.alpaca import LATE_SECONDS
from tests.ordeal.broker import CUT, SILENT, STREAMING
from tests.ordeal.check import all_are, ends_well, fill_open
from tests.ordeal.crew import (
    ACCOUNT,
    KEYS,
    FaultDesk,
    Handed,
    Result,
    arm,
    control,
    hand_over,
    sent,
    until,
    without_disk,
)
from tests.ordeal.launch import FOLLOWED, POINTS
from tests.ordeal.runs import locked
from tests.stack import REPOSITORY

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


def disk_lost(desk: FaultDesk, chance: random.Random, result: Result) -> None:
    """The database's file system is full, or the home's is broken, from any moment of a submission on, for longer than
    a lease. The broker fills meanwhile, and the trade worker is killed."""
    control(
        desk, faults=chance.choice(([], ["late"], ["hang-after"])), fills=chance.choice(("all", "none")), unique=False
    )
    before = sent(desk)
    handed = [hand_over(desk, chance, ORDERS)]
    number = chance.randint(0, ORDERS)
    until(lambda: sent(desk) >= before + number, f"{number} orders are sent")
    with without_disk(desk):
        time.sleep(chance.uniform(0.0, desk.pace.lease))
        desk.kill("trade")
        fill_open(desk)
        time.sleep(desk.pace.lease)
    began = time.monotonic()
    desk.await_worker("trade")
    result.notes.append(f"{number} sent before, the worker is there {time.monotonic() - began:.1f} s after the space")
    ends_well(desk, result, *handed, hand_over(desk, chance, ORDERS))


def stream_lost(desk: FaultDesk, chance: random.Random, result: Result) -> None:
    """Fills come while the broker's stream is cut, or is open and sends nothing: they are polled for. Only the sweep
    starts the trade worker's pass. Then the stream is back, and so are fills on it."""
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


HALTED = 4
COMMAND_SECONDS = 60.0


def halted_while_sending(desk: FaultDesk, chance: random.Random, result: Result) -> None:
    """The broker takes two seconds for each order, and the halt comes between. It comes from a host that has the
    broker's key, with or without `--flatten`, or from one that has not; at times the worker dies right after it. Then
    the account trades again."""
    control(desk, faults=["late"] * HALTED, fills=chance.choice(FILLS), unique=False)
    try:
        _halted(desk, chance, result)
    finally:
        control(desk, brief=True, faults=[])
        _desk(desk, result, {}, "resume")
    ends_well(desk, result, hand_over(desk, chance, HALTED))


def _halted(desk: FaultDesk, chance: random.Random, result: Result) -> None:
    keys, more = chance.choice((({}, ()), (KEYS, ()), (KEYS, ("--flatten", "--yes"))))
    before = sent(desk)
    handed = [hand_over(desk, chance, HALTED)]
    until(lambda: sent(desk) > before, "the first order is with the broker")
    _desk(desk, result, keys, "halt", "--why", "the suite", *more)
    at_return = sent(desk)
    if chance.random() < 0.5:
        desk.kill("trade")
    handed.append(hand_over(desk, chance, HALTED))
    desk.halted.update(one.decision_id for one in handed)
    desk.await_worker("trade")
    ends_well(desk, result, *handed)
    result.findings.wrong += _sent_after(desk, handed, at_return)
    if more and (left := control(desk)["positions"]):
        result.findings.wrong.append(f"all was to be closed, and {left} is left")
    result.notes.append(f"{' '.join(('halt', *more))}{'' if keys else ' without a key'}")


def _desk(desk: FaultDesk, result: Result, keys: Mapping[str, str], *command: str) -> None:
    """Run a `desk` command. It ends with 1 where something was left to the trade worker, or is not filled yet."""
    done = subprocess.run(
        [sys.executable, "-m", *desk.launcher, *command],
        cwd=REPOSITORY,
        env={**desk.processes.environ, **keys},
        capture_output=True,
        text=True,
        timeout=COMMAND_SECONDS,
        check=False,
    )
    if done.returncode not in (0, 1) or f"account {ACCOUNT}" not in done.stdout:
        output = (done.stdout + done.stderr)[-400:]
        result.findings.wrong.append(f"desk {command[0]} exited {done.returncode}: {output}")


def _sent_after(desk: FaultDesk, handed: Sequence[Handed], at_return: int) -> list[str]:
    """Return the orders sent though the account was halted, by the store and by the stand-in. Sales of the command
    itself are no part of them."""
    with desk.store.read() as session:
        halted_at = session.get_one(Trading, ACCOUNT).since
        rows = session.exec(select(Order).where(Order.account == ACCOUNT)).all()
    ours = {one.decision_id for one in handed}
    found = [
        f"order {row.id} was sent at {row.sent_at}, halted at {halted_at}"
        for row in rows
        if row.decision_id in ours and row.sent_at and row.sent_at > halted_at
    ]
    allowed = {row.id for row in rows if row.side == "sell" or (row.sent_at and row.sent_at <= halted_at)}
    late = control(desk)["sends"][at_return:]
    return found + [f"order {each} came to the broker after the halt" for each in late if each not in allowed]
