"""Tasks and their steps, with handlers of all kinds, on a real database and Redis."""

from __future__ import annotations

import pytest
from celery import Celery
from sqlmodel import SQLModel, select
from structlog.testing import capture_logs

from chordesk.models import event_log
from chordesk.models.database.store import Store
from chordesk.models.errors import LoginMissing, MarketUnavailable
from chordesk.models.events import Domain
from chordesk.models.states import StepKind, StepState
from chordesk.models.tables.columns import utcnow
from chordesk.models.tables.runs import Artifact, Candidate, Step, ToolCall, Turn
from chordesk.tasks.bootstrap import Desk
from chordesk.tasks.engine import graph
from chordesk.tasks.engine.leases import HeldStep
from chordesk.tasks.engine.steps import ClaimedStep, NewStep
from chordesk.tasks.worker.endings import Done, Ending, Handler, RetryLater
from chordesk.tasks.worker.work import work
from tests.tasks.engine.steps import ago, change, get, opened
from tests.tasks.worker.steps import logged, queued


def report(subject: str = "IBM", parent: str = "", role: str = "quick") -> NewStep:
    return NewStep(StepKind.REPORT, parent, subject, role)


def done(desk: Desk, step: ClaimedStep, held: HeldStep) -> Ending:
    return Done({"by": step.owner})


def turn_of(step: ClaimedStep) -> Turn:
    now = utcnow()
    return Turn(
        run_id=step.run_id, step_id=step.id, attempt=step.attempt, ordinal=0, role=step.role, subject=step.subject,
        kept=False, provider="rulebook", model="rulebook", status="failed", outcome="failed", started_at=now,
        finished_at=now,
    )  # fmt: skip


def raising(error: BaseException) -> Handler:
    def handler(desk: Desk, step: ClaimedStep, held: HeldStep) -> Ending:
        raise error

    return handler


def turns(store: Store) -> list[int]:
    with store.read() as session:
        return list(session.exec(select(Turn.attempt).order_by(Turn.attempt)).all())


def test_a_step_is_done_and_its_join_is_sent(app: Celery, store: Store) -> None:
    step = report()
    _, finish = opened(store, step)
    assert work(app, step.id, done) == step.id
    found = get(store, step.id)
    assert (found.state, found.result) == (StepState.DONE, {"by": app.desk.owner})
    assert queued(app) == {"ops": [("desk.finish", [finish])]}


def with_a_picture(step: ClaimedStep) -> tuple[list[SQLModel], ...]:
    """A turn, its call and the picture that the call gave."""
    turn = turn_of(step)
    turn.thread_id, turn.codex_turn_id = "thread-1", "codex-1"
    call = ToolCall(
        turn_id=turn.id, ordinal=0, tool="chart_render", output="{}", success=True, has_data=True, seconds=0.1
    )
    picture = Artifact(run_id=step.run_id, turn_id=turn.id, call_id=call.id, kind="image/png", digest="ab" * 32, size=7)
    return [turn], [call], [picture]


@pytest.mark.parametrize("again", [False, True])
def test_a_picture_is_written_with_its_event_before_the_end_of_the_attempt(
    app: Celery, store: Store, again: bool
) -> None:
    step = report()
    run, _ = opened(store, step)

    def handler(desk: Desk, step: ClaimedStep, held: HeldStep) -> Ending:
        rows = with_a_picture(step)
        return RetryLater(0.0, "once more", rows) if again else Done({}, rows)

    work(app, step.id, handler)
    app.desk.recorder.close()
    with store.read() as session:
        (picture,) = session.exec(select(Artifact)).all()
        events = event_log.read(session, run.id, 0, 100)
    types = [one.type.value for one in events]
    assert types.index("artifact.stored") < types.index("status.again" if again else "status.ended")
    (event,) = [one for one in events if one.domain is Domain.ARTIFACT]
    assert (event.thread_id, event.turn_id) == ("thread-1", "codex-1")
    assert event.payload == {
        "id": picture.id, "kind": "image/png", "digest": "ab" * 32, "size": 7, "run": run.id,
        "turn": picture.turn_id, "role": "quick", "subject": "IBM",
    }  # fmt: skip


def test_a_second_message_does_nothing(app: Celery, store: Store) -> None:
    step = report()
    opened(store, step)
    calls: list[str] = []

    def counted(desk: Desk, step: ClaimedStep, held: HeldStep) -> Ending:
        calls.append(step.id)
        return Done()

    assert [work(app, step.id, counted) for _ in range(3)] == [step.id] * 3
    assert calls == [step.id]
    assert len(queued(app)["ops"]) == 1


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (MarketUnavailable("the market is away"), "market_unavailable: the market is away"),
        (RuntimeError("a defect"), "crashed: RuntimeError: a defect"),
        (SystemExit("of a package"), "crashed: SystemExit: of a package"),
    ],
)
def test_a_handler_that_raises_is_tried_again_after_a_delay(
    app: Celery, store: Store, error: BaseException, reason: str
) -> None:
    step = report()
    opened(store, step, attempts=2)
    work(app, step.id, raising(error))
    found = get(store, step.id)
    assert (found.state, found.attempt, found.owner) == (StepState.READY, 1, None)
    assert found.error == reason
    assert 0.3 < (found.due_at - utcnow()).total_seconds() <= 5.0
    assert queued(app) == {}
    work(app, step.id, done)  # a message that comes too early
    assert get(store, step.id).attempt == 1


@pytest.mark.parametrize(("error", "attempts"), [(MarketUnavailable("away"), 1), (LoginMissing("no login"), 3)])
def test_without_attempts_left_or_a_chance_it_fails_and_frees_its_join(
    app: Celery, store: Store, error: Exception, attempts: int
) -> None:
    step = report()
    _, finish = opened(store, step, attempts=attempts)
    work(app, step.id, raising(error))
    assert (get(store, step.id).state, get(store, step.id).attempt) == (StepState.FAILED, 1)
    assert queued(app) == {"ops": [("desk.finish", [finish])]}


def test_a_step_of_a_kind_without_turns_has_none(app: Celery, store: Store) -> None:
    step = NewStep(StepKind.CONCLUDE, "", "IBM")
    opened(store, step)
    work(app, step.id, lambda desk, step, held: Done({"said": held.turns.run("quick", "IBM", {}).value}))
    found = get(store, step.id)
    assert found.state == StepState.FAILED
    assert found.error == "usage_error: a step of the kind conclude runs no turn (give its StepSpec turn=True)"


def test_rows_of_a_failed_attempt_are_kept(app: Celery, store: Store) -> None:
    step = report()
    opened(store, step)

    def again(desk: Desk, step: ClaimedStep, held: HeldStep) -> Ending:
        return RetryLater(0.0, "server_error: 500", [[turn_of(step)]])

    def ends(desk: Desk, step: ClaimedStep, held: HeldStep) -> Ending:
        return Done(rows=[[turn_of(step)]])

    work(app, step.id, again)
    assert (turns(store), get(store, step.id).error) == ([1], "server_error: 500")
    work(app, step.id, ends)
    assert (turns(store), get(store, step.id).state) == ([1, 2], StepState.DONE)


def test_a_lost_lease_drops_everything(app: Celery, store: Store) -> None:
    step, child = report(), report("AAPL")
    run, _ = opened(store, step)

    def outrun(desk: Desk, step: ClaimedStep, held: HeldStep) -> Ending:
        change(store, Step, step.id, lease_until=ago(1_000))
        with store.session() as session:
            assert graph.claim(session, step.id, "another", 60) is not None
        return Done({"by": "me"}, [[turn_of(step)]], [NewStep(StepKind.REPORT, step.parent_id or "", "AAPL", "risk")])

    with capture_logs() as lines:
        assert work(app, step.id, outrun) == step.id
    found = get(store, step.id)
    assert (found.state, found.owner, found.attempt, found.result) == (StepState.RUNNING, "another", 2, {})
    assert turns(store) == []
    with store.read() as session:
        assert session.exec(select(Step).where(Step.run_id == run.id, Step.subject == child.subject)).all() == []
    assert [line["event"] for line in logged(lines)] == ["step.lease_lost"]
    assert queued(app) == {}


def test_an_end_that_cannot_be_written_is_tried_again(app: Celery, store: Store) -> None:
    step = report()
    _, finish = opened(store, step)

    def orphan(desk: Desk, step: ClaimedStep, held: HeldStep) -> Ending:
        row = Candidate(
            run_id="no such run", symbol="IBM", instrument="equity", confidence="medium", origin="manual", rank=1,
            score=0.0,
        )  # fmt: skip
        return Done({}, [[turn_of(step)], [row]])

    with capture_logs() as lines:
        assert work(app, step.id, orphan) == step.id
    assert (get(store, step.id).state, get(store, finish).pending) == (StepState.READY, 1)
    assert turns(store) == []
    assert [line["event"] for line in logged(lines)] == ["step.broke"]
    change(store, Step, step.id, due_at=ago(1))
    work(app, step.id, done)
    assert (get(store, step.id).state, get(store, step.id).attempt) == (StepState.DONE, 2)


def test_new_children_are_sent_and_counted(app: Celery, store: Store) -> None:
    join = NewStep(StepKind.CONCLUDE, "", "IBM", waits=True)
    quick = report("IBM", join.id)
    opened(store, join, quick)
    children = [report("IBM", join.id, role) for role in ("fundamentals", "risk")]
    work(app, quick.id, lambda desk, step, held: Done(children=children))
    assert queued(app) == {"research": [("desk.report", [child.id]) for child in children]}
    assert get(store, join.id).pending == 2


def test_a_candidate_that_the_quick_role_ends_is_concluded_at_once(app: Celery, store: Store) -> None:
    """There is no chord yet that could send the conclusion."""
    join = NewStep(StepKind.CONCLUDE, "", "IBM", waits=True)
    quick = report("IBM", join.id)
    opened(store, join, quick)
    work(app, quick.id, done)
    assert queued(app) == {"ops": [("desk.conclude", [join.id])]}


def test_the_last_report_of_a_chord_leaves_the_conclusion_to_it(app: Celery, store: Store) -> None:
    join = NewStep(StepKind.CONCLUDE, "", "IBM", waits=True)
    last = report("IBM", join.id, "risk")
    opened(store, join, last)
    work(app, last.id, done, in_chord=True)
    assert get(store, join.id).state == StepState.READY
    assert queued(app) == {}


def test_the_last_report_of_a_second_attempt_sends_the_conclusion_itself(app: Celery, store: Store) -> None:
    """Its chord counted the first attempt's end and has fired already."""
    join = NewStep(StepKind.CONCLUDE, "", "IBM", waits=True)
    last = report("IBM", join.id, "risk")
    opened(store, join, last)
    work(app, last.id, lambda desk, step, held: RetryLater(0.0, "later"), in_chord=True)
    work(app, last.id, done, in_chord=True)
    assert queued(app) == {"ops": [("desk.conclude", [join.id])]}


def test_a_step_given_back_that_its_sibling_made_needless_ends_without_its_handler(app: Celery, store: Store) -> None:
    join = NewStep(StepKind.CONCLUDE, "", "IBM", waits=True)
    quick, risk = report("IBM", join.id), report("IBM", join.id, "risk")
    opened(store, join, quick, risk)

    def rejects_meanwhile(desk: Desk, step: ClaimedStep, held: HeldStep) -> Ending:
        work(app, quick.id, lambda desk, step, held: Done(cancels="quick rejected it"))
        return RetryLater(0.0, "later")

    work(app, risk.id, rejects_meanwhile)
    assert get(store, risk.id).state == StepState.READY
    work(app, risk.id, lambda desk, step, held: pytest.fail("it is needless"))
    assert (get(store, risk.id).state, get(store, risk.id).error) == (StepState.STOPPED, "quick rejected it")
    assert get(store, join.id).state == StepState.READY
