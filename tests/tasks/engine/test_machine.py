"""A run's graph under any order of what workers, sweeps and people do, against a model of a few lines.

Workers claim, are lost, come back late, finish with children, cancel siblings, give back; messages come twice; sweeps
send again, fail what is worn out and fire joins; a run is closed while steps are held. Whatever the order: a step is
held by one worker, ends once and keeps that end; a join is made ready once, when all its children are final; each
attempt that ended is written once.
"""

from __future__ import annotations

import shutil
import tempfile
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test
from sqlmodel import select

from chordesk.models.database.store import Store
from chordesk.models.errors import LeaseLost
from chordesk.models.states import STEP_FINAL, AttemptEnd, RunState, StepKind, StepState
from chordesk.models.tables.columns import new_id
from chordesk.models.tables.runs import Attempt, Run, Step
from chordesk.tasks.engine import graph, step_queries
from chordesk.tasks.engine.policy import ALONE_AFTER
from chordesk.tasks.engine.steps import ClaimedStep, NewStep
from tests.builders import run_row
from tests.examples import examples
from tests.tasks.engine.steps import ago, change

ATTEMPTS = 3
PICK = st.integers(0, 1_000)
OWNERS = st.sampled_from("abc")


@dataclass
class Modelled:
    """What the model knows of a step. ended: attempts that have ended, by outcome."""

    parent: str | None
    kind: str
    state: str
    attempt: int = 0
    allowed: int = ATTEMPTS
    owner: str | None = None
    expired: bool = False
    ended: Counter[str] = field(default_factory=Counter)


class GraphMachine(RuleBasedStateMachine):
    template: Path

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="desk-graph-"))
        shutil.copyfile(self.template, self.folder / "desk.db")
        self.store = Store(f"sqlite:///{self.folder}/desk.db")
        run, finish = run_row(), new_id()
        self.run_id, self.closed = run.id, False
        self.steps = {finish: Modelled(None, StepKind.FINISH, StepState.WAITING)}
        self.claims: list[ClaimedStep] = []  # every claim that was ever given, also those of lost workers
        self.fired: Counter[str] = Counter()
        join = NewStep(StepKind.CONCLUDE, finish, "IBM", waits=True)
        first = [NewStep(StepKind.REPORT, join.id, "IBM", role) for role in ("quick", "risk")]
        with self.store.session() as session:
            graph.open_run(session, run, finish, ATTEMPTS)
            graph.add(session, run.id, [join, *first], ATTEMPTS)
        for step in (join, *first):
            self._know(step)

    def teardown(self) -> None:
        self.store.close()
        shutil.rmtree(self.folder)

    def _know(self, step: NewStep, allowed: int = ATTEMPTS) -> None:
        state = StepState.WAITING if step.waits else StepState.READY
        self.steps[step.id] = Modelled(step.parent, step.kind, state, allowed=allowed)

    def _pick(self, number: int) -> tuple[str, Modelled]:
        return list(self.steps.items())[number % len(self.steps)]

    def _open_under(self, parent: str | None) -> int:
        return sum(one.parent == parent and one.state not in STEP_FINAL for one in self.steps.values())

    def _end(self, step_id: str, state: str, outcome: str | None = None) -> list[str]:
        """End a modelled step, and return the joins that this makes ready."""
        one = self.steps[step_id]
        one.state, one.owner, one.expired = state, None, False
        if outcome is not None:
            one.ended[outcome] += 1
        parent = self.steps.get(one.parent or "")
        open_ones = [
            other for other in self.steps.values() if other.parent == one.parent and other.state not in STEP_FINAL
        ]
        if parent is None or open_ones or parent.state != StepState.WAITING:
            return []
        parent.state = StepState.READY
        self.fired[one.parent or ""] += 1
        return [one.parent or ""]

    @rule(number=PICK, owner=OWNERS)
    def claim(self, number: int, owner: str) -> None:
        """Also what a message does that comes twice, or too late."""
        step_id, one = self._pick(number)
        with self.store.session() as session:
            found = graph.claim(session, step_id, owner, 60)
        ready = one.state == StepState.READY and one.attempt < one.allowed
        if self.closed or not (ready or one.expired):
            assert found is None
        elif ready:
            assert found is not None
        if found is None:
            return
        if one.expired:
            one.ended[AttemptEnd.LOST] += 1
            one.allowed += 1
        one.attempt += 1
        one.state, one.owner, one.expired = StepState.RUNNING, owner, False
        assert (found.attempt, found.owner, found.max_attempts) == (one.attempt, owner, one.allowed)
        self.claims.append(found)

    @rule(number=PICK)
    def lose_and_claim_again(self, number: int) -> None:
        """By the same owner: its earlier claim must not count any more."""
        running = [place for place, one in enumerate(self.steps.values()) if one.state == StepState.RUNNING]
        if running:
            place = running[number % len(running)]
            owner = self._pick(place)[1].owner or ""
            self.lose_a_worker(place)
            self.claim(place, owner)

    @precondition(lambda self: any(self._is_late(held) for held in self.claims))
    @rule(number=PICK)
    def end_late(self, number: int) -> None:
        late = [held for held in self.claims if self._is_late(held)]
        with pytest.raises(LeaseLost), self.store.session() as session:
            graph.finish(session, late[number % len(late)], StepState.DONE)

    def _is_late(self, held: ClaimedStep) -> bool:
        return held.attempt < self.steps[held.id].attempt

    @rule(number=PICK)
    def lose_a_worker(self, number: int) -> None:
        step_id, one = self._pick(number)
        if one.state == StepState.RUNNING and one.ended[AttemptEnd.LOST] < ALONE_AFTER - 1:
            change(self.store, Step, step_id, lease_until=ago(1))
            one.expired = True

    @precondition(lambda self: self.claims)
    @rule(number=PICK, more=st.integers(0, 2), cancels=st.booleans(), failed=st.booleans())
    def finish(self, number: int, more: int, cancels: bool, failed: bool) -> None:
        """By whoever ever had a claim: only the holder's end counts."""
        held = self.claims[number % len(self.claims)]
        one = self.steps[held.id]
        state = StepState.FAILED if failed else StepState.DONE
        children = []
        if held.kind == StepKind.REPORT and not failed and len(self.steps) < 12:
            children = [
                NewStep(StepKind.REPORT, held.parent_id or "", "IBM", f"role{len(self.steps)}-{n}") for n in range(more)
            ]
        why = "not needed" if cancels and held.kind == StepKind.REPORT else None
        holds = one.state == StepState.RUNNING and (one.owner, one.attempt) == (held.owner, held.attempt)
        result: dict[str, Any] = {"by": f"{held.owner}{held.attempt}"}
        try:
            with self.store.session() as session:
                ready = graph.finish(session, held, state, result=result, children=children, cancels=why)
        except LeaseLost:
            assert not holds
            return
        assert holds
        expected = []
        if not self.closed:
            for child in children:
                self._know(child, held.max_attempts)
                expected.append(child.id)
        joins = []
        if why is not None:
            needless = [
                step_id for step_id, other in self.steps.items()
                if other.parent == one.parent and other.kind == one.kind and other.state == StepState.READY
            ]  # fmt: skip
            for step_id in needless:
                joins += self._end(step_id, StepState.STOPPED)
        joins += self._end(held.id, state, AttemptEnd(state))
        assert [step.id for step in ready] == expected + joins

    @precondition(lambda self: self.claims)
    @rule(number=PICK, counts=st.booleans())
    def give_back(self, number: int, counts: bool) -> None:
        held = self.claims[number % len(self.claims)]
        one = self.steps[held.id]
        holds = one.state == StepState.RUNNING and (one.owner, one.attempt) == (held.owner, held.attempt)
        try:
            with self.store.session() as session:
                graph.give_back(session, held, -1, "busy", counts=counts)
        except LeaseLost:
            assert not holds
            return
        assert holds
        one.state, one.owner, one.expired = StepState.READY, None, False
        one.allowed += not counts
        one.ended[AttemptEnd.AGAIN] += 1

    @rule()
    def sweep(self) -> None:
        with self.store.session() as session:
            sent = {step.id for step in step_queries.resend(session)}
            freed = [step.id for step in step_queries.fail_exhausted(session)]
            fired = [step.id for step in step_queries.fire_joins(session)]
        assert fired == [], "counting down has made every join ready"
        for step_id in sent:
            one = self.steps[step_id]
            assert one.expired or (one.state == StepState.READY and one.attempt < one.allowed)
        worn = [name for name, one in self.steps.items() if one.state == StepState.READY and one.attempt >= one.allowed]
        joins = []
        for step_id in worn:
            joins += self._end(step_id, StepState.FAILED)
        assert sorted(freed) == sorted(joins)

    @precondition(lambda self: not self.closed)
    @rule()
    def close(self) -> None:
        held = {name for name, one in self.steps.items() if one.state == StepState.RUNNING}
        with self.store.session() as session:
            graph.fail_open_steps(session, self.run_id, "over")
            assert graph.close_run(session, self.run_id, RunState.PARTIAL, {}, []) is not None
        with self.store.session() as session:
            assert graph.close_run(session, self.run_id, RunState.DONE, {}, []) is None
        self.closed = True
        for step_id, one in self.steps.items():
            if one.state not in STEP_FINAL:
                one.state, one.owner, one.expired = StepState.FAILED, None, False
                one.ended[AttemptEnd.FAILED] += step_id in held

    @invariant()
    def the_database_agrees(self) -> None:
        with self.store.read() as session:
            rows = {row.id: row for row in session.exec(select(Step)).all()}
            attempts = session.exec(select(Attempt)).all()
            run = session.get_one(Run, self.run_id)
        assert rows.keys() == self.steps.keys()
        assert (run.state == RunState.PARTIAL) == self.closed
        ended: dict[str, Counter[str]] = {step_id: Counter() for step_id in rows}
        for attempt in attempts:
            ended[attempt.step_id][attempt.outcome] += 1
        assert len({(attempt.step_id, attempt.attempt) for attempt in attempts}) == len(attempts)
        for step_id, one in self.steps.items():
            row = rows[step_id]
            assert (row.state, row.attempt, row.max_attempts) == (one.state, one.attempt, one.allowed)
            assert row.owner == one.owner or one.owner is None
            assert ended[step_id] == +one.ended
            if row.state == StepState.WAITING:
                left = [
                    other for other in self.steps.values() if other.parent == step_id and other.state not in STEP_FINAL
                ]
                assert row.pending == len(left)
        assert all(count == 1 for count in self.fired.values())


def test_whatever_happens_in_any_order(template_db: Path) -> None:
    machine = type("Machine", (GraphMachine,), {"template": template_db})
    slow = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]
    limits = settings(max_examples=examples(25), stateful_step_count=30, deadline=None, suppress_health_check=slow)
    run_state_machine_as_test(machine, settings=limits)
