"""Conditions after every scenario, counted from the database and from the stand-in's journal."""

from __future__ import annotations

import datetime as dt
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from sqlalchemy import Select, func
from sqlmodel import Session, col, select

from chordesk.agents.roles import default_roles
from chordesk.models import event_log
from chordesk.models.events import Domain
from chordesk.models.states import RUN_FINAL, STEP_FINAL, OrderState, RunState
from chordesk.models.tables.columns import utcnow
from chordesk.models.tables.orders import Account, Fill, Order, Position, Reconciliation
from chordesk.models.tables.runs import Candidate, Decision, Report, Run, Step, Turn, Verdict
from chordesk.tools.decimals import exact
from chordesk.tools.orders.audit_reading import check_logs, last_entries
from tests.fakes.alpaca import OPEN
from tests.ordeal.broker import PRICE
from tests.ordeal.crew import ACCOUNT, FaultDesk, Findings, Handed, Result, control, nudge
from tests.ordeal.model import doubled

ANSWERED = ("completed", "no_data")
ROLES = frozenset(default_roles())


@dataclass(frozen=True, slots=True)
class Expected:
    """Rows that a scenario may leave behind. failing: roles with reports that may be other than answered."""

    states: frozenset[str] = frozenset({RunState.DONE})
    failing: frozenset[str] = frozenset()
    whole: bool = True  # every candidate has its verdict, the run its decision
    decided: bool = True  # a run of research has none


ALL_DONE = Expected()


def check(desk: FaultDesk, run_ids: Sequence[str], expected: Expected = ALL_DONE) -> Findings:
    """Look at these runs, which should have ended."""
    found = Findings()
    with desk.store.read() as session:
        for run_id in run_ids:
            run = session.get_one(Run, run_id)
            _ended(session, run, expected, found)
            if expected.whole and run.state in RUN_FINAL:
                _complete(session, run, expected, found)
        _unique(session, run_ids, found)
        _threads(session, found)
        asked_again = doubled(desk.journal.of(run_ids), desk.excused)
        found.doubled += [f"{text}; {_said(session, run_ids, text)}" for text in asked_again]
    return found


def _said(session: Session, run_ids: Sequence[str], text: str) -> str:
    """What the desk said of the step that a finding names, so that the finding can be explained."""
    said = [
        f"{event.occurred_at:%H:%M:%S} {event.type.value} {event.payload.get('why') or ''}"
        for run_id in run_ids
        for event in event_log.read(session, run_id, 0, 1_000_000)
        if event.domain is Domain.STATUS and str(event.payload.get("step")) in text
    ]
    return ", ".join(said)


def _ended(session: Session, run: Run, expected: Expected, found: Findings) -> None:
    steps = session.exec(select(Step).where(Step.run_id == run.id)).all()
    if run.state not in RUN_FINAL:
        open_steps = [f"{s.kind} {s.role} {s.state} attempt {s.attempt}" for s in steps if s.state not in STEP_FINAL]
        found.lost.append(f"run {run.id} is {run.state}: {open_steps}")
        return
    if run.state not in expected.states:
        found.wrong.append(f"run {run.id} ended as {run.state}: {run.notes}")
    left = [f"{step.kind} {step.role}" for step in steps if step.state not in STEP_FINAL]
    if left:
        found.wrong.append(f"run {run.id} has ended, but not its steps {left}")


def _complete(session: Session, run: Run, expected: Expected, found: Findings) -> None:
    candidates = set(session.exec(select(Candidate.symbol).where(Candidate.run_id == run.id)).all())
    verdicts = set(session.exec(select(Verdict.symbol).where(Verdict.run_id == run.id)).all())
    reports = {(r.symbol, r.role): r for r in session.exec(select(Report).where(Report.run_id == run.id)).all()}
    found.lost += [f"candidate {symbol}" for symbol in set(run.params["symbols"]) - candidates]
    found.lost += [f"verdict of {symbol}" for symbol in candidates - verdicts]
    for symbol in candidates:
        for role in ROLES:
            report = reports.get((symbol, role))
            if report is None:
                found.lost.append(f"report {role} of {symbol}")
            elif report.status not in ANSWERED and role not in expected.failing:
                found.lost.append(f"report {role} of {symbol} is {report.status}: {report.reason}")
    if expected.decided and not session.exec(select(Decision.id).where(Decision.run_id == run.id)).all():
        found.lost.append(f"the decision of run {run.id}")


def _unique(session: Session, run_ids: Sequence[str], found: Findings) -> None:
    """By count, not by trust in the constraints. A fill is one a paper order; a step has one completed turn."""
    orders = select(Order.id).where(col(Order.run_id).in_(run_ids))
    tables: dict[str, Select] = {  # type: ignore[type-arg]
        "candidate": _more_than_one(Candidate.run_id, Candidate.symbol).where(col(Candidate.run_id).in_(run_ids)),
        "report": _more_than_one(Report.run_id, Report.symbol, Report.role).where(col(Report.run_id).in_(run_ids)),
        "verdict": _more_than_one(Verdict.run_id, Verdict.symbol).where(col(Verdict.run_id).in_(run_ids)),
        "decision": _more_than_one(Decision.run_id).where(col(Decision.run_id).in_(run_ids)),
        "order": _more_than_one(Order.decision_id, Order.symbol).where(col(Order.run_id).in_(run_ids)),
        "fill": _more_than_one(Fill.order_id).where(col(Fill.order_id).in_(orders)),
        "completed turn": _more_than_one(Turn.step_id).where(
            col(Turn.run_id).in_(run_ids), Turn.outcome == "completed"
        ),
    }
    for name, statement in tables.items():
        found.doubled += [f"{name} {tuple(row)}" for row in session.execute(statement)]


def _more_than_one(*columns: object) -> Select:  # type: ignore[type-arg]
    return select(*columns, func.count()).group_by(*columns).having(func.count() > 1)  # type: ignore[call-overload]


def _threads(session: Session, found: Findings) -> None:
    """A thread belongs to one role and subject, whatever happened to the registry."""
    pairs = set(session.execute(select(Turn.thread_id, Turn.role, Turn.subject)).all())
    owners: dict[str, set[tuple[str, str]]] = {}
    for thread, role, subject in pairs:
        if thread:
            owners.setdefault(thread, set()).add((role, subject))
    found.wrong += [f"thread {thread} served {sorted(owner)}" for thread, owner in owners.items() if len(owner) > 1]


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
    pass over the orders; else the sweep does."""
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
    lines = Counter((line.kind, line.facts.get("order")) for line in last_entries(logs, sum(one.count for one in logs)))
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
