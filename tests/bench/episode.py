"""(n) an episode against what its tools and its model calls in sequence must take."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from sqlmodel import Session, select

from chordesk.agents.board.voices import VOICES
from chordesk.models.states import StepKind
from chordesk.models.tables.board import EpisodeQuestion
from chordesk.models.tables.runs import Run, Step
from chordesk.tasks.bootstrap import desk_of
from chordesk.tasks.reading.runs import progress
from chordesk.tasks.workflows.episode.opening import open_episode
from tests.bench.names import priced
from tests.bench.screen import calls_by_step, has_ended
from tests.stack import Processes, processes, wait_for

ROUNDS, QUESTIONS = 2, 10


@dataclass(frozen=True, slots=True)
class EpisodeTimes:
    """Seconds. tools: of the slowest tool of the harvest; calls: model calls one after the other, each of `latency`;
    stages: from the first to the last end of each kind of step, by kind."""

    wall: float
    tools: float
    calls: int
    latency: float
    voices: int
    questions: int
    turns: int
    stages: dict[str, float]

    @property
    def critical_path(self) -> float:
        """What cannot be done at once: the slowest tool, then a model call a round."""
        return self.tools + self.calls * self.latency

    @property
    def ratio(self) -> float:
        return self.wall / self.critical_path


def episode_times(latency: float) -> EpisodeTimes:
    """Return the times of an episode of all voices, two rounds and ten questions; the second one of a desk."""
    with processes(forked=False, DESK_RULEBOOK_LATENCY_SECONDS=str(latency)) as desk:
        desk.rulebook(latency)
        desk.workers("research", "ops")
        names = priced(desk_of(desk.app).market)[:QUESTIONS]
        # One before it: a desk that runs unattended has its app-servers up and the market read.
        _held(desk, names)
        run = _held(desk, names)
        with desk_of(desk.app).store.read() as session:
            return _times(session, run.id, latency)


def _held(desk: Processes, names: list[str]) -> Run:
    run = open_episode(desk.app, names, rounds=ROUNDS)
    assert run is not None
    wait_for(lambda: has_ended(desk_of(desk.app).store, run.id), "the episode ends", 180)
    return run


def _times(session: Session, run_id: str, latency: float) -> EpisodeTimes:
    run = session.get_one(Run, run_id)
    assert run.finished_at is not None
    assert run.state == "done", run.notes
    steps = session.exec(select(Step).where(Step.run_id == run_id)).all()
    calls = calls_by_step(session, run_id)
    longest = Counter[str]()
    for step in steps:
        if step.kind == StepKind.VOICE:
            longest[step.subject] = max(longest[step.subject], calls.get(step.id, 0))
    return EpisodeTimes(
        wall=(run.finished_at - run.created_at).total_seconds(),
        tools=max(_seconds(step) for step in steps if step.kind == StepKind.HARVEST),
        calls=longest.total(),
        latency=latency,
        voices=len(VOICES),
        questions=len(session.exec(select(EpisodeQuestion).where(EpisodeQuestion.run_id == run_id)).all()),
        turns=progress(session, run_id).turns,
        stages=_stages(steps, run),
    )


def _seconds(step: Step) -> float:
    assert step.finished_at is not None
    assert step.claimed_at is not None
    return (step.finished_at - step.claimed_at).total_seconds()


def _stages(steps: list[Step], run: Run) -> dict[str, float]:
    """Return the last end of each kind of step, seconds after the run's begin."""
    ends: dict[str, float] = {}
    for step in steps:
        if step.finished_at is not None:
            name = f"{step.kind} {step.subject}" if step.kind in (StepKind.VOICE, StepKind.ROUND) else step.kind
            ended = (step.finished_at - run.created_at).total_seconds()
            ends[name] = max(ends.get(name, 0.0), ended)
    return dict(sorted(ends.items(), key=lambda pair: pair[1]))
