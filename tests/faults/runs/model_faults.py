"""A model that fails: too many requests, server errors, cut streams, silence, nonsense, refusals."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from chordesk.agents.roles import ROLES
from chordesk.models.answers import ValidatorOutput
from chordesk.models.states import RunState
from tests.fakes.responses import Cut, Malformed, Reply, Silence, Status, Text, answered
from tests.faults.check import Expected, check
from tests.faults.desk import FaultDesk
from tests.faults.journal import FAULT, Asked
from tests.faults.model import Fault, no_fault
from tests.faults.runs.kills import ends_well
from tests.faults.scenario import Result

RETRY_AFTER = 4
TOO_MANY = Status(
    429,
    {"error": {"type": "rate_limit_exceeded", "code": "rate_limit_exceeded", "message": "too many requests"}},
    {"retry-after": str(RETRY_AFTER)},
)
BROKEN = Status(500, {"error": {"message": "internal error"}})
DECLINED = "I'm sorry, I can't help with trading decisions."


@contextmanager
def failing(desk: FaultDesk, fault: Fault) -> Iterator[None]:
    desk.model.fault = fault
    try:
        yield
    finally:
        desk.model.fault = no_fault


def survives(desk: FaultDesk, result: Result, fault: Fault) -> str:
    """A run that ends well though the model fails so; its id."""
    with failing(desk, fault):
        run_id = desk.open_run()
        ends_well(desk, result, run_id)
    if not any(call.answer == FAULT for call in desk.journal.of([run_id])):
        result.findings.wrong.append("the model did not fail once")
    return run_id


def _chosen(asked: Asked, share: int = 2) -> bool:
    """Every second step or so, the same ones each time they are asked about."""
    return int(asked.step_id[-4:], 16) % share == 0


def too_many_requests(desk: FaultDesk, chance: random.Random, result: Result) -> None:
    """429 with Retry-After to everything, for that long; no request may come meanwhile."""
    first: list[float] = []

    def fault(asked: Asked, body: dict[str, Any]) -> Reply | None:
        if not first and ROLES[asked.role].schema is not ValidatorOutput:
            return None  # begins with the quick reports, so that more than one turn is in flight
        if not first:
            first.append(asked.at)
        return TOO_MANY if asked.at < first[0] + RETRY_AFTER else None

    run_id = survives(desk, result, fault)
    early, late = first[0] + 1.5, first[0] + RETRY_AFTER - 0.5
    knocked = [call for call in desk.journal.of([run_id]) if early < call.at < late]
    if knocked:
        result.findings.wrong.append(f"{len(knocked)} calls to a model that had asked for {RETRY_AFTER} s of peace")


def server_errors(desk: FaultDesk, chance: random.Random, result: Result) -> None:
    """Two bursts of 500, the first with the first call."""
    first: list[float] = []

    def fault(asked: Asked, body: dict[str, Any]) -> Reply | None:
        first.append(asked.at)
        since = asked.at - first[0]
        return BROKEN if since < 1.0 or 4.0 < since < 5.0 else None

    survives(desk, result, fault)


def cut_streams(desk: FaultDesk, chance: random.Random, result: Result) -> None:
    """Streams end half way in every second step's first attempt."""

    def fault(asked: Asked, body: dict[str, Any]) -> Reply | None:
        return Cut() if asked.attempt == 1 and _chosen(asked) else None

    survives(desk, result, fault)


def broken_lines(desk: FaultDesk, chance: random.Random, result: Result) -> None:
    """Streams with lines that are no JSON, in every second step's first attempt."""

    def fault(asked: Asked, body: dict[str, Any]) -> Reply | None:
        return Malformed() if asked.attempt == 1 and _chosen(asked) else None

    survives(desk, result, fault)


def silence(desk: FaultDesk, chance: random.Random, result: Result) -> None:
    """No byte of an answer to the catalyst role: its report fails by name, and its turn is paid for once."""
    _asked_once(desk, result, "catalyst", Silence(120), frozenset({RunState.DONE, RunState.PARTIAL}))


def invalid_answers(desk: FaultDesk, chance: random.Random, result: Result) -> None:
    """Every step's first answer is no JSON, or JSON of another kind: one repair turn each, in the same attempt."""
    spoiled: set[str] = set()

    def fault(asked: Asked, body: dict[str, Any]) -> Reply | None:
        if asked.step_id in spoiled or not answered(body):
            return None
        spoiled.add(asked.step_id)
        return Text('{"verdict": "CONFIRMED", "confid' if _chosen(asked) else '{"verdict": "PERHAPS"}')

    run_id = survives(desk, result, fault)
    again = {call.step_id for call in desk.journal.of([run_id]) if call.attempt > 1}
    if again:
        result.findings.doubled += [f"step {step}: an answer was repaired by a whole new attempt" for step in again]


def refusals(desk: FaultDesk, chance: random.Random, result: Result) -> None:
    """The risk role declines: an outcome, asked for once and not argued with."""
    _asked_once(desk, result, "risk", Text(DECLINED))


def _asked_once(
    desk: FaultDesk, result: Result, role: str, reply: Reply, states: frozenset[str] = frozenset({RunState.DONE})
) -> None:
    """A role gets this reply to everything, and no step of it is asked a second time."""

    def fault(asked: Asked, body: dict[str, Any]) -> Reply | None:
        return reply if asked.role == role else None

    with failing(desk, fault):
        run_id = desk.open_run()
        desk.await_end(run_id)
    result.runs += 1
    result.findings.add(check(desk, [run_id], Expected(states, failing=frozenset({role}))))
    calls = [call for call in desk.journal.of([run_id]) if call.answer == FAULT]
    for step in {call.step_id for call in calls}:
        count = sum(call.step_id == step for call in calls)
        if count > 1:
            result.findings.doubled.append(f"step {step} was asked {count} times")
