"""(e) the same screen on one worker process and on two, and (f) many runs at once and what a report costs."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

import psutil
from sqlmodel import Session, col, func, select

from chordesk.models.states import RUN_FINAL, RunState
from chordesk.models.tables.runs import Report, Run, Verdict
from chordesk.tasks.bootstrap import desk_of
from chordesk.tasks.workflows.research import open_research
from chordesk.tasks.workflows.screen import open_screen
from tests.bench.names import priced
from tests.stack import Processes, processes, wait_for

TURNS = 8  # of one app-server: few, so that they are what a screen waits for
TOOL = ("--tool", "symbol_overview", "--arguments", '{"symbols":["IBM"]}')
ANSWER = '{"verdict":"CONFIRMED","confidence":"high","summary":"measured","keyRisks":[]}'


@dataclass(frozen=True, slots=True)
class Scaling:
    """Wall seconds of the same screen on one and on two worker processes."""

    one: float
    two: float

    @property
    def faster(self) -> float:
        return self.one / self.two


def scaling(latency: float, candidates: int) -> Scaling:
    return Scaling(
        _screen_seconds(latency, candidates, ["research"]),
        _screen_seconds(latency, candidates, ["research-1", "research-2"]),
    )


def _screen_seconds(latency: float, candidates: int, workers: Sequence[str]) -> float:
    with processes(forked=False, DESK_RULEBOOK_LATENCY_SECONDS=str(latency), DESK_CODEX_TURNS=str(TURNS)) as desk:
        desk.rulebook(latency)
        desk.workers(*workers, "ops", "trade")
        _warm(desk, 2 * len(workers) * TURNS)
        run = open_screen(desk.app, "sp500", max_candidates=candidates)
        assert run is not None
        _until_ended(desk, [run.id], 300)
        with desk_of(desk.app).store.read() as session:
            ended = session.get_one(Run, run.id)
        assert ended.finished_at is not None
        assert ended.state == RunState.DONE, ended.notes
        return (ended.finished_at - ended.created_at).total_seconds()


def _warm(desk: Processes, symbols: int) -> None:
    """App-servers start with the first turn of a worker: give each of them some."""
    names = priced(desk_of(desk.app).market)
    _until_ended(desk, [open_research(desk.app, names[-symbols:]).id], 120)


@dataclass(frozen=True, slots=True)
class Crowd:
    """Runs that were queued at once. cpu_ms: of worker and ops processes a report, without their app-servers."""

    runs: int
    ended: int
    reports: int
    verdicts: int
    seconds: float
    cpu_ms: float


def crowd(runs: int, symbols: int) -> Crowd:
    """So many research runs of so many symbols, queued at once, with a model that answers at once."""
    with processes(forked=False) as desk:
        desk.stand_in("--latency", "0", *TOOL, "--answer", ANSWER)
        desk.workers("research", "ops")
        _warm(desk, 4)
        names = priced(desk_of(desk.app).market)
        before, began = _cpu_seconds(desk), time.perf_counter()
        opened = [open_research(desk.app, names[number * symbols :][:symbols]).id for number in range(runs)]
        _until_ended(desk, opened, 300)
        seconds, cpu = time.perf_counter() - began, _cpu_seconds(desk) - before
        with desk_of(desk.app).store.read() as session:
            reports, verdicts = _count(session, Report.run_id, opened), _count(session, Verdict.run_id, opened)
            done = session.exec(
                select(func.count()).select_from(Run).where(col(Run.id).in_(opened), Run.state == RunState.DONE)
            ).one()
        return Crowd(runs, done, reports, verdicts, seconds, cpu / max(reports, 1) * 1000)


def _cpu_seconds(desk: Processes) -> float:
    """User and system time of the workers' own processes; their app-servers are children and not counted."""
    times = [psutil.Process(desk.running[name].pid).cpu_times() for name in ("research", "ops")]
    return sum(found.user + found.system for found in times)


def _count(session: Session, column: object, run_ids: Sequence[str]) -> int:
    return session.exec(select(func.count()).where(col(column).in_(run_ids))).one()  # type: ignore[arg-type]


def _until_ended(desk: Processes, run_ids: Sequence[str], seconds: float) -> None:
    def ended() -> bool:
        with desk_of(desk.app).store.read() as session:
            states = session.exec(select(Run.state).where(col(Run.id).in_(run_ids))).all()
        return all(state in RUN_FINAL for state in states)

    wait_for(ended, f"{len(run_ids)} runs end", seconds)
