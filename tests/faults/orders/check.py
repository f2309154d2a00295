"""Conditions between the broker's stand-in and the store at the end of a scenario of orders."""

from __future__ import annotations

import datetime as dt
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

from sqlmodel import Session, col, select

from chordesk.models.states import STEP_FINAL, OrderState
from chordesk.models.tables.columns import utcnow
from chordesk.models.tables.orders import Account, Fill, Order, Position, Reconciliation
from chordesk.models.tables.runs import Step
from chordesk.tools.decimals import exact
from chordesk.tools.orders.audit_reading import check_logs
from tests.fakes.alpaca import OPEN
from tests.faults.check import Findings
from tests.faults.desk import FaultDesk
from tests.faults.orders.broker import PRICE
from tests.faults.orders.desk import ACCOUNT, Handed, control, nudge
from tests.faults.scenario import Result

# A lease, a sweep and a worker's start, on a machine that is busy.
SETTLED_SECONDS = 45.0
Rows = Sequence[Mapping[str, Any]]
_STATUS = {"accepted": OrderState.SUBMITTED, "canceled": OrderState.CANCELLED}


def ends_well(desk: FaultDesk, result: Result, *handed: Handed, nudging: bool = True) -> None:
    """Let the desk settle and look at what it left; then fill what is still open, and look again."""
    result.runs += len(handed)
    began = time.monotonic()
    found = settle(desk, handed, nudging=nudging)
    if found.clean:
        result.took(time.monotonic() - began)
        if fill_open(desk):
            found = settle(desk, handed, nudging=nudging)
    if found.clean:
        found.wrong += off_record(desk)
    result.findings.add(found)
    count(desk, result, handed, len(found.doubled))


def settle(
    desk: FaultDesk, handed: Sequence[Handed], *, nudging: bool = True, seconds: float = SETTLED_SECONDS
) -> Findings:
    """Let the desk go on until store and stand-in agree; returns the differences left then. nudging: request its
    pass over the orders; else beat does."""
    began, until = utcnow(), time.monotonic() + seconds
    while True:
        if nudging:
            nudge(desk)
        time.sleep(0.5)
        found = compare(desk, handed, began)
        if found.clean or found.doubled or time.monotonic() > until:
            return found  # what is doubled stays so


def fill_open(desk: FaultDesk, handed: Sequence[Handed] | None = None, quantity: float | None = None) -> int:
    """Fill so much, or all that is left, of each open order, or of those of some decisions; how many there were."""
    ours = None if handed is None else {symbol for one in handed for symbol in one.symbols}
    rows = [row for row in control(desk)["orders"] if row["status"] in OPEN and (not ours or row["symbol"] in ours)]
    for row in rows:
        left = float(Decimal(row["qty"]) - Decimal(row["filled_qty"]))
        control(desk, brief=True, fill=[row["client_order_id"], min(quantity or left, left), PRICE + 1])
    return len(rows)


def compare(desk: FaultDesk, handed: Sequence[Handed], since: dt.datetime) -> Findings:
    """lost: orders and fills that are not where they should be; doubled: what the stand-in has more than once."""
    there = control(desk)
    found = Findings()
    found.doubled += [f"{times} orders {client_id}" for client_id, times in there["taken"].items() if times > 1]
    bought = Counter(row["symbol"] for row in there["orders"] if row["side"] == "buy")
    found.doubled += [f"{times} orders to buy {name}" for name, times in bought.items() if times > 1]
    with desk.store.read() as session:
        found.lost += _undone(session, handed)
        found.lost += _astray(session, there, desk.halted)
        found.wrong += _books(session, there, since)
        ours = set(session.exec(select(Order.id)).all())
    found.wrong += [f"the desk has no order {each}" for each in there["taken"].keys() - ours]
    return found


def _undone(session: Session, handed: Sequence[Handed]) -> list[str]:
    found = []
    for one in handed:
        rows = session.exec(select(Order.symbol).where(col(Order.decision_id) == one.decision_id)).all()
        found += [f"no order on {name}" for name in set(one.symbols) - set(rows)]
        step = session.get_one(Step, one.step_id)
        if step.state not in STEP_FINAL:
            found.append(f"step {step.id} is {step.state}")
    return found


def _astray(session: Session, there: Mapping[str, Any], halted: set[str]) -> list[str]:
    """Return how orders and fills disagree with the stand-in's. An order that was to be sent and never arrived is
    `unknown` for good: it could still arrive. Only where a halt came between may an order have been denied."""
    taken = {row["client_order_id"]: row for row in there["orders"]}
    filled: dict[str, list[float]] = {}
    for fill in session.exec(select(Fill)).all():
        filled.setdefault(fill.order_id, []).append(fill.quantity)
    found = []
    for order in session.exec(select(Order)).all():
        name, row = f"order {order.id} on {order.symbol}", taken.get(order.id)
        if row is None:
            denied = order.denial_code == "halted" and order.decision_id in halted
            if order.state != OrderState.UNKNOWN and not denied:
                found.append(f"{name} is {order.state} ({order.denial_code}), the broker has none")
            continue
        fills, times = filled.get(order.id, []), there["fills"].get(order.id, 0)
        status, quantity = _STATUS.get(row["status"], row["status"]), sum(map(exact, fills))
        if (order.state, quantity, len(fills)) != (status, exact(float(row["filled_qty"])), times):
            described = f"{row['status']}, {row['filled_qty']} in {times} fills"
            found.append(f"{name} is {order.state}, {quantity} in {len(fills)} fills; at the broker {described}")
    return found


def _books(session: Session, there: Mapping[str, Any], since: dt.datetime) -> list[str]:
    found = []
    held = {row.symbol: exact(row.quantity) for row in session.exec(select(Position)).all()}
    if held != {symbol: Decimal(quantity) for symbol, quantity in there["positions"].items()}:
        found.append(f"positions are {held}, at the broker {there['positions']}")
    account = session.get(Account, ACCOUNT)
    # The broker's figure of cash is taken over only while no order's outcome is open.
    if account is not None and abs(account.cash - float(there["cash"])) > 0.01:
        found.append(f"cash is {account.cash}, at the broker {there['cash']}")
    compared = session.exec(select(Reconciliation).order_by(col(Reconciliation.at).desc())).first()
    if compared is None or compared.at < since:
        found.append("the account was not compared with its broker")
    elif not compared.agreed:
        found.append(f"the account does not agree: {compared.differences}")
    return found


def off_record(desk: FaultDesk) -> list[str]:
    """Return the faults of the audit log: it is not whole, or has not one line for each sending and each fill."""
    logs = check_logs(desk.store, desk.processes.settings)
    found = [problem for one in logs for problem in one.reading.problems]
    lines = Counter((line.kind, line.facts.get("order")) for one in logs for line in one.reading.entries)
    there = control(desk)
    for order_id in there["taken"]:
        sent, filled = lines["submitting", order_id], lines["fill", order_id]
        if (sent, filled) != (1, there["fills"].get(order_id, 0)):
            found.append(f"order {order_id} is on record as sent {sent} times and filled {filled} times")
    return found


def count(desk: FaultDesk, result: Result, handed: Sequence[Handed], doubled: int) -> None:
    """Count these decisions' orders by outcome, for the figures."""
    there = control(desk)["taken"]
    with desk.store.read() as session:
        ids = col(Order.decision_id).in_([one.decision_id for one in handed])
        states = dict(session.execute(select(Order.id, Order.state).where(ids)).all())
        fills = session.exec(select(Fill.id).where(col(Fill.order_id).in_(states))).all()
    result.figures["orders"] += sum(order_id in there for order_id in states)
    result.figures["twice"] += doubled
    result.figures["fills"] += len(fills)
    result.figures["denied"] += sum(state == OrderState.DENIED for state in states.values())
    unknown = sum(state == OrderState.UNKNOWN for state in states.values())
    result.figures["unknown"] += unknown
    if unknown:
        result.notes.append(f"{unknown} unknown, never at the broker")


def states_of(desk: FaultDesk, *handed: Handed) -> list[str]:
    """The states of these decisions' orders; fewer than were handed over while not all are drafted."""
    with desk.store.read() as session:
        ids = col(Order.decision_id).in_([one.decision_id for one in handed])
        return list(session.exec(select(Order.state).where(ids)).all())


def all_are(desk: FaultDesk, state: OrderState, *handed: Handed) -> bool:
    return states_of(desk, *handed) == [state] * sum(len(one.symbols) for one in handed)
