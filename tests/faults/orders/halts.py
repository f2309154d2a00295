"""`desk halt` while a decision is being submitted: what is on its way ends, and nothing is sent any more."""

from __future__ import annotations

import random
import subprocess
import sys
from collections.abc import Mapping, Sequence

from sqlmodel import select

from chordesk.models.tables.orders import Order, Trading
from tests.faults.desk import FaultDesk, until
from tests.faults.orders.check import ends_well
from tests.faults.orders.desk import ACCOUNT, KEYS, Handed, control, hand_over, sent
from tests.faults.orders.outages import FILLS
from tests.faults.scenario import Result
from tests.stack import REPOSITORY

ORDERS = 4
COMMAND_SECONDS = 60.0


def halted_while_sending(desk: FaultDesk, chance: random.Random, result: Result) -> None:
    """The broker takes two seconds for each order, and the halt comes between. It comes from a host that has the
    broker's key, with or without `--flatten`, or from one that has not; at times the worker dies right after it. Then
    the account trades again."""
    control(desk, faults=["late"] * ORDERS, fills=chance.choice(FILLS), unique=False)
    try:
        _halted(desk, chance, result)
    finally:
        control(desk, brief=True, faults=[])
        _desk(desk, result, {}, "resume")
    ends_well(desk, result, hand_over(desk, chance, ORDERS))


def _halted(desk: FaultDesk, chance: random.Random, result: Result) -> None:
    keys, more = chance.choice((({}, ()), (KEYS, ()), (KEYS, ("--flatten", "--yes"))))
    before = sent(desk)
    handed = [hand_over(desk, chance, ORDERS)]
    until(lambda: sent(desk) > before, "the first order is with the broker")
    _desk(desk, result, keys, "halt", "--why", "the suite", *more)
    at_return = sent(desk)
    if chance.random() < 0.5:
        desk.kill("trade")
    handed.append(hand_over(desk, chance, ORDERS))
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
