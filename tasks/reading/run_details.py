"""The details of a run: its complete view, pictures, attempts, conversations, its written report and its timeline."""

from __future__ import annotations

import datetime as dt
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import computed_field, model_validator
from sqlmodel import Session, col, select

from chordesk.models.answers import Frozen
from chordesk.models.database.artifacts import path_in_home
from chordesk.models.settings import Settings
from chordesk.models.states import AttemptEnd, RunState, StepState
from chordesk.models.tables.columns import Row, utcnow
from chordesk.models.tables.runs import Artifact, Attempt, Run, RunDocumentCopy, Step, ToolCall, Turn
from chordesk.models.tables.runtime import RuntimeConversation
from chordesk.tasks.engine import kinds
from chordesk.tasks.engine.budgets import Cost, cost_of
from chordesk.tasks.reading.boards import VoiceRow, voice_rows
from chordesk.tasks.reading.candidates import CandidateTable, Funnel, candidate_table, funnel
from chordesk.tasks.reading.outcome import outcome
from chordesk.tasks.reading.reports import GroundedReport, grounded_reports
from chordesk.tasks.reading.runs import Progress, RunView, progress, view
from chordesk.tools import rogue_calls
from chordesk.tools.rogue_calls import RogueRow


class ArtifactRow(Frozen):
    """One picture. path: of its file, relative to the data folder of the worker that ran the turn; size in bytes."""

    id: str
    kind: str
    digest: str
    size: int
    path: str
    tool: str
    role: str
    subject: str
    turn_id: str


def artifacts(session: Session, run_id: str) -> list[ArtifactRow]:
    rows = session.exec(
        select(Artifact, Turn, ToolCall.tool)
        .join(Turn, col(Turn.id) == col(Artifact.turn_id))
        .join(ToolCall, col(ToolCall.id) == col(Artifact.call_id))
        .where(Artifact.run_id == run_id)
        .order_by(col(Artifact.created_at), col(Artifact.id))
    ).all()
    return [
        ArtifactRow.of(artifact, turn, id=artifact.id, path=path_in_home(artifact.digest, artifact.kind), tool=tool)
        for artifact, turn, tool in rows
    ]


def conversations(session: Session, run_id: str) -> list[RuntimeConversation]:
    rows = session.exec(
        select(RuntimeConversation)
        .where(RuntimeConversation.run_id == run_id)
        .order_by(col(RuntimeConversation.opened_at), col(RuntimeConversation.id))
    ).all()
    return list(rows)


def written_document(session: Session, run_id: str) -> RunDocumentCopy | None:
    """Return the state of a run's written report; None where nothing was to be written, or it was not begun."""
    return session.get(RunDocumentCopy, run_id)


class RunDetail(RunView):
    """The view of a run, what it did as one sentence, its progress and cost so far, its steps with each attempt, their
    conversations and pictures, where the figures of its reports came from, each voice in each round with its
    conversation, its rogue calls, and where its own report was written, null where it is written nowhere."""

    said: str
    progress: Progress
    cost: Cost
    steps: list[TimelineStep]
    conversations: list[Row[RuntimeConversation]]
    artifacts: list[ArtifactRow]
    grounded: list[GroundedReport]
    voices: list[VoiceRow]
    rogue: list[RogueRow]
    document: Row[RunDocumentCopy] | None


def detail(session: Session, settings: Settings, run: Run) -> RunDetail:
    """settings: of this process; their prices count."""
    whole = view(session, run)
    return RunDetail(
        **dict(whole),
        said=outcome(session, run),
        progress=progress(session, run.id, settings),
        cost=cost_of(session, settings, run.id),
        steps=steps_of(session, run),
        conversations=conversations(session, run.id),
        artifacts=artifacts(session, run.id),
        grounded=grounded_reports(session, run),
        voices=voice_rows(session, run.id),
        rogue=rogue_calls.of_run(session, run.id),
        document=written_document(session, run.id),
    )


RUNNING = "running"


class TimelineTurn(Frozen):
    """A turn that has ended, without its text. turn_id: the row's."""

    turn_id: str
    thread_id: str | None
    outcome: str
    tokens: int | None
    started_at: dt.datetime
    finished_at: dt.datetime


class TimelineAttempt(Frozen):
    """An attempt at a step. worker: the process that made it; outcome: how it ended, or `running`; waited: seconds from
    the moment when it could have begun, null where that is not known; taken_over: the one before it was lost with its
    worker."""

    attempt: int
    worker: str
    started_at: dt.datetime
    ended_at: dt.datetime | None
    outcome: str
    reason: str | None
    waited: float | None
    taken_over: bool
    turns: list[TimelineTurn]

    @property
    def went_well(self) -> bool:
        """Return whether the first attempt runs, succeeded, or was stopped on purpose: a stop is not a failure."""
        return self.outcome in (AttemptEnd.DONE, AttemptEnd.STOPPED, RUNNING) and self.attempt == 1


class TimelineStep(Frozen):
    """A step. title: of its kind in a run's progress, empty without one; turn: whether its kind takes a turn."""

    step: Row[Step]
    attempts: list[TimelineAttempt]

    @model_validator(mode="before")
    @classmethod
    def _as_given(cls, given: Any) -> Any:
        computed = cls.model_computed_fields
        return {key: value for key, value in given.items() if key not in computed} if isinstance(given, dict) else given

    @computed_field  # type: ignore[prop-decorator]
    @property
    def title(self) -> str:
        return spec.title if (spec := kinds.find_step(self.step.kind)) is not None else ""

    @computed_field  # type: ignore[prop-decorator]
    @property
    def turn(self) -> bool:
        return (spec := kinds.find_step(self.step.kind)) is not None and spec.turn


class Timeline(Frozen):
    """A run's steps in the order in which they were added. now: of the database's reader, where open bars end. workers:
    in the order in which they first took a step. expected: kinds of steps that the last whole run of this kind went
    through, and this one has none of yet; empty when it has ended."""

    run_id: str
    kind: str
    state: str
    created_at: dt.datetime
    finished_at: dt.datetime | None
    now: dt.datetime
    workers: list[str]
    steps: list[TimelineStep]
    expected: list[str]


def timeline(session: Session, run: Run) -> Timeline:
    rows = steps_of(session, run)
    begun = sorted((one for row in rows for one in row.attempts), key=lambda one: one.started_at)
    return Timeline.of(
        run,
        run_id=run.id,
        now=utcnow(),
        workers=list(dict.fromkeys(one.worker for one in begun if one.worker)),
        steps=rows,
        expected=_expected(session, run, {row.step.kind for row in rows}),
    )


def steps_of(session: Session, run: Run) -> list[TimelineStep]:
    steps = session.exec(select(Step).where(Step.run_id == run.id).order_by(col(Step.created_at), col(Step.id))).all()
    ended = _ended(session, run.id)
    turns = _turns(session, run.id)
    parents = {step.parent_id for step in steps}
    return [
        TimelineStep(
            step=step,
            attempts=_attempts(step, ended[step.id], turns, joins=step.id in parents),
        )
        for step in steps
    ]


def _ended(session: Session, run_id: str) -> dict[str, list[Attempt]]:
    rows = session.exec(
        select(Attempt)
        .join(Step, col(Step.id) == col(Attempt.step_id))
        .where(Step.run_id == run_id)
        .order_by(col(Attempt.attempt), col(Attempt.started_at))
    ).all()
    found: dict[str, list[Attempt]] = defaultdict(list)
    for row in rows:
        found[row.step_id].append(row)
    return found


def _turns(session: Session, run_id: str) -> dict[tuple[str, int], list[TimelineTurn]]:
    rows = session.exec(select(Turn).where(Turn.run_id == run_id).order_by(col(Turn.started_at), col(Turn.ordinal)))
    found: dict[tuple[str, int], list[TimelineTurn]] = defaultdict(list)
    for row in rows.all():
        one = TimelineTurn.of(row, turn_id=row.id, tokens=row.total_tokens)
        found[row.step_id, row.attempt].append(one)
    return found


def _attempts(
    step: Step, ended: Sequence[Attempt], turns: Mapping[tuple[str, int], list[TimelineTurn]], *, joins: bool
) -> list[TimelineAttempt]:
    found: list[TimelineAttempt] = []
    for row in ended:
        found.append(_attempt(step, row.attempt, row.owner, row.started_at, row, found, turns, joins=joins))
    if step.state == StepState.RUNNING:
        begun = step.claimed_at or step.created_at
        found.append(_attempt(step, step.attempt, step.owner or "", begun, None, found, turns, joins=joins))
    return found


def _attempt(
    step: Step, number: int, worker: str, begun: dt.datetime, ended: Attempt | None, before: list[TimelineAttempt],
    turns: Mapping[tuple[str, int], list[TimelineTurn]], *, joins: bool,
) -> TimelineAttempt:  # fmt: skip
    ready = before[-1].ended_at if before else _ready_at(step, begun, joins=joins)
    return TimelineAttempt(
        attempt=number,
        worker=worker,
        started_at=begun,
        ended_at=ended.ended_at if ended is not None else None,
        outcome=ended.outcome if ended is not None else RUNNING,
        reason=ended.reason if ended is not None else None,
        waited=max((begun - ready).total_seconds(), 0.0) if ready is not None else None,
        taken_over=bool(before) and before[-1].outcome == AttemptEnd.LOST,
        turns=turns.get((step.id, number), []),
    )


def _ready_at(step: Step, begun: dt.datetime, *, joins: bool) -> dt.datetime | None:
    if not joins:
        return step.created_at
    return step.due_at if step.due_at <= begun else None


def _expected(session: Session, run: Run, seen: set[str]) -> list[str]:
    if run.finished_at is not None:
        return []
    whole = (Run.kind == run.kind, Run.state == RunState.DONE, col(Run.id) < run.id)
    last = session.exec(select(Run.id).where(*whole).order_by(col(Run.id).desc()).limit(1)).first()
    if last is None:
        return []
    known = session.exec(select(Step.kind).where(Step.run_id == last).order_by(col(Step.created_at), col(Step.id)))
    return [kind for kind in dict.fromkeys(known.all()) if kind not in seen]


class RunCourse(Frozen):
    """A run with its funnel, its timeline and its candidates, all of one moment. run: without the steps, which the
    timeline has."""

    run: RunDetail
    funnel: Funnel
    timeline: Timeline
    table: CandidateTable


def course(session: Session, settings: Settings, run: Run) -> RunCourse:
    return RunCourse(
        run=detail(session, settings, run).model_copy(update={"steps": []}),
        funnel=funnel(session, run),
        timeline=timeline(session, run),
        table=candidate_table(session, run),
    )
