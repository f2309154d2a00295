"""Open turns of a lost worker end with its step, or some time after its run."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest
from sqlmodel import select

from chordesk.agents.runtime import ConversationState, Scope
from chordesk.models import event_log
from chordesk.models.database.store import Store
from chordesk.models.events import (
    ConversationRef,
    Envelope,
    EventType,
    ItemLifecycle,
    LifecycleStatus,
    RuntimeKind,
    TurnLifecycle,
)
from chordesk.models.states import RunState, StepState
from chordesk.models.tables.columns import utcnow
from chordesk.models.tables.runs import Run, Step
from chordesk.models.tables.runtime import EventHead, RuntimeConversation, RuntimeItem, RuntimeTurn
from chordesk.tasks.engine import graph, step_queries
from chordesk.tasks.events import lifecycles
from chordesk.tasks.events.recorder import Recorder
from chordesk.tasks.worker import control
from tests.tasks.engine.steps import ago, change, claimed, lost_before, opened, report

RUNNING, DONE = LifecycleStatus.IN_PROGRESS, LifecycleStatus.COMPLETED


def record_turn(recorder: Recorder, run_id: str, step_id: str, status: LifecycleStatus = RUNNING) -> None:
    """Record a turn with an item in a state, as a worker does."""
    now = utcnow()
    ended_at = None if status is RUNNING else now
    ref = ConversationRef(
        run_id=run_id, runtime_kind=RuntimeKind.CODEX, thread_id="t", active_turn_id="u" if status is RUNNING else None
    )
    scope = Scope(run_id, step_id, 1, "quick", "IBM")
    conversation = ConversationState(f"c-{step_id}", ref, scope, "initial", False, "w", now, ended_at)
    life: dict[str, Any] = {"thread_id": "t", "turn_id": "u", "status": status, "started_at": now, "ended_at": ended_at}
    recorder.record(
        scope, [], [conversation, TurnLifecycle(**life), ItemLifecycle(**life, item_id="i", type="agentMessage")]
    )


def store_turn(store: Store, run_id: str, step_id: str, status: LifecycleStatus = RUNNING) -> None:
    recorder = Recorder(store)
    record_turn(recorder, run_id, step_id, status)
    recorder.close()


def states(store: Store) -> list[Any]:
    """Of the conversation: its turn and whether it is open; of its turn and its item: the status, and whether open."""
    with store.read() as session:
        conversation, turn, item = (
            session.exec(select(one)).one() for one in (RuntimeConversation, RuntimeTurn, RuntimeItem)
        )
    lives = [(life.status, life.ended_at is None) for life in (turn, item)]
    return [(conversation.active_turn_id, conversation.closed_at is None), *lives]


OPEN = [("u", True), ("in_progress", True), ("in_progress", True)]
FAILED = [(None, False), ("failed", False), ("failed", False)]
COMPLETED = [(None, False), ("completed", False), ("completed", False)]


def failures(store: Store, run_id: str) -> list[Envelope]:
    with store.read() as session:
        return [one for one in event_log.read(session, run_id, 0, 100) if one.type is EventType.TURN_FAILED]


def lost_in_turn(store: Store) -> tuple[Run, str]:
    """Return a run and the id of its step; its worker was lost in the middle of a turn."""
    step = report("IBM")
    run, _ = opened(store, step)
    claimed(store, step.id, "old")
    store_turn(store, run.id, step.id)
    assert states(store) == OPEN
    change(store, Step, step.id, lease_until=ago(1))
    return run, step.id


@pytest.mark.parametrize("way", ["taken over", "worn out", "stopped"])
def test_a_lost_step_ends_what_it_had_begun(store: Store, way: str) -> None:
    run, step_id = lost_in_turn(store)
    if way == "taken over":
        claimed(store, step_id, "new")
    elif way == "worn out":
        lost_before(store, step_id)
        with store.session() as session:
            step_queries.fail_exhausted(session)
    else:
        with store.session() as session:
            control.mark(session, run.id)
            control._end_lost(session, run.id)
    assert states(store) == FAILED
    (failed,) = failures(store, run.id)
    assert (failed.thread_id, failed.turn_id) == ("t", "u")
    assert (failed.payload["kind"], failed.payload["why"]) == ("lost", graph.LOST)
    with store.read() as session:
        types = [one.type for one in event_log.read(session, run.id, 0, 100)]
    following = EventType.STATUS_AGAIN if way == "taken over" else EventType.STATUS_ENDED
    assert types[-2:] == [EventType.TURN_FAILED, following]


def test_an_older_state_opens_nothing_again_and_a_later_end_counts(store: Store) -> None:
    """The worker was only frozen: what it had to write, it writes after its step was taken over."""
    run, step_id = lost_in_turn(store)
    claimed(store, step_id, "new")
    store_turn(store, run.id, step_id)
    assert states(store) == FAILED
    store_turn(store, run.id, step_id, DONE)
    assert states(store) == COMPLETED


def test_the_turn_of_another_step_goes_on(store: Store) -> None:
    lost, lively = report("IBM"), report("MMM")
    run, _ = opened(store, lost, lively)
    claimed(store, lost.id, "old")
    claimed(store, lively.id, "new")
    store_turn(store, run.id, lively.id)
    change(store, Step, lost.id, lease_until=ago(1))
    claimed(store, lost.id, "new")
    assert states(store) == OPEN


def test_a_run_that_is_over_leaves_nothing_open_but_waits_for_late_states(store: Store) -> None:
    """A worker that died before it wrote how its turn ended, although its step had."""
    step = report("IBM")
    run, _ = opened(store, step)
    held = claimed(store, step.id)
    store_turn(store, run.id, step.id)
    with store.session() as session:
        graph.finish(session, held, StepState.DONE)
        graph.close_run(session, run.id, RunState.DONE, {}, [])
    now = utcnow()
    assert lifecycles.end_left_over_turns(store, now) == 0
    assert states(store) == OPEN
    assert lifecycles.end_left_over_turns(store, now + lifecycles.GRACE + dt.timedelta(seconds=1)) == 1
    assert states(store) == FAILED
    assert len(failures(store, run.id)) == 1
    assert lifecycles.end_left_over_turns(store, now + lifecycles.GRACE + dt.timedelta(seconds=1)) == 0


def test_a_run_that_goes_on_keeps_its_turns(store: Store) -> None:
    run, _ = lost_in_turn(store)
    with store.session() as session:
        session.get_one(EventHead, run.id).updated_at = ago(60)
    assert lifecycles.end_left_over_turns(store, utcnow() + dt.timedelta(minutes=5)) == 0
    assert states(store) == OPEN
