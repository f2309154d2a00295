"""(b) a whole screen against what the model alone must take, and (d) when the first report and verdict are there."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from operator import add

from sqlmodel import Session, func, select

from chordesk.models.states import RUN_FINAL, StepKind
from chordesk.models.tables.runs import Report, Run, Step, ToolCall, Turn, Verdict
from chordesk.tasks.bootstrap import desk_of
from chordesk.tasks.reading.runs import progress
from chordesk.tasks.workflows.research import open_research
from chordesk.tasks.workflows.screen import open_screen
from tests.stack import processes, wait_for


@dataclass(frozen=True, slots=True)
class ScreenTimes:
    """Seconds, but for longest_chain: model calls one after the other, which critical_path is the time of. slot_floor:
    all model calls over the turn slots."""

    wall: float
    longest_chain: int
    critical_path: float
    slot_floor: float
    first_report: float
    first_verdict: float
    candidates: int
    turns: int
    most_calls: int

    @property
    def ratio(self) -> float:
        return self.wall / max(self.critical_path, self.slot_floor)


def screen_times(latency: float, candidates: int, *, speculate: bool = False) -> ScreenTimes:
    choice = "on" if speculate else "off"
    with processes(forked=False, DESK_RULEBOOK_LATENCY_SECONDS=str(latency), DESK_SPECULATE=choice) as desk:
        desk.rulebook(latency)
        desk.workers("research", "ops", "trade")
        # One small run first: a desk that runs unattended has its app-servers up when a screen starts.
        warm = open_research(desk.app, ["IBM"])
        store = desk_of(desk.app).store
        wait_for(lambda: has_ended(store, warm.id), "the warm-up run ends", 60)
        run = open_screen(desk.app, "sp500", max_candidates=candidates)
        assert run is not None
        wait_for(lambda: has_ended(store, run.id), "the screen ends", 180)
        slots = min(desk.settings.codex_turns, desk.settings.worker_threads)
        with store.read() as session:
            return _times(session, run.id, latency, slots)


def has_ended(store: object, run_id: str) -> bool:
    with store.read() as session:  # type: ignore[attr-defined]
        return session.get_one(Run, run_id).state in RUN_FINAL


def _times(session: Session, run_id: str, latency: float, slots: int) -> ScreenTimes:
    run = session.get_one(Run, run_id)
    assert run.finished_at is not None
    assert run.state == "done", run.notes
    calls = calls_by_step(session, run_id)
    first_report = session.exec(select(func.min(Report.created_at)).where(Report.run_id == run_id)).one()
    first_verdict = session.exec(select(func.min(Verdict.created_at)).where(Verdict.run_id == run_id)).one()
    longest = _longest(session, run_id, calls)
    return ScreenTimes(
        wall=(run.finished_at - run.created_at).total_seconds(),
        longest_chain=longest,
        critical_path=longest * latency,
        slot_floor=sum(calls.values()) * latency / slots,
        first_report=(first_report - run.created_at).total_seconds(),
        first_verdict=(first_verdict - run.created_at).total_seconds(),
        candidates=run.summary["candidates"],
        turns=progress(session, run_id).turns,
        most_calls=max(calls.values()),
    )


def calls_by_step(session: Session, run_id: str) -> dict[str, int]:
    """Model calls of each step: one more than its tool calls, since a turn's tool calls come one at a time."""
    tools = dict(
        session.exec(
            select(Turn.step_id, func.count()).join(ToolCall).where(Turn.run_id == run_id).group_by(Turn.step_id)
        ).all()
    )
    turns = dict(
        session.exec(select(Turn.step_id, func.count()).where(Turn.run_id == run_id).group_by(Turn.step_id)).all()
    )
    return {step: count + tools.get(step, 0) for step, count in turns.items()}


def _longest(session: Session, run_id: str, calls: dict[str, int]) -> int:
    """Calls on the longest chain: the slowest shard, a candidate's reports, the trader. Roles that were begun beside
    the quick one are on a chain of their own."""
    steps = session.exec(select(Step).where(Step.run_id == run_id)).all()
    shards = [calls.get(s.id, 0) for s in steps if s.kind == StepKind.SCREEN_SHARD]
    trader = [calls.get(s.id, 0) for s in steps if s.kind == StepKind.DECIDE]
    quick: dict[str, int] = defaultdict(int)
    roles: dict[str, int] = defaultdict(int)
    early: set[str] = set()
    for step in steps:
        if step.kind == StepKind.REPORT:
            found = quick if step.role == "quick" else roles
            found[step.subject] = max(found[step.subject], calls.get(step.id, 0))
            early |= {step.subject} if step.payload.get("beside") else set()
    reports = [(max if symbol in early else add)(quick[symbol], roles[symbol]) for symbol in quick]
    return max(shards) + max(reports) + max(trader, default=0)
