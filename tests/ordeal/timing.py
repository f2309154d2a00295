"""Times of whole runs: (b) a screen against what the model alone must take, with (d) its first report and verdict, (e)
the same on two workers; (m) an analysis of many symbols; (o) a backtest's sessions a minute on one worker and on two.

Two desks that a person may run play the backtest. On the small one a single `desk worker` serves all queues, and
another is added to it. On the one of `desk up` the bookkeeping and the orders have processes of their own, and
`--workers 2` adds a second research worker to three processes at work already: on two processors that can add less.
"""

from __future__ import annotations

import datetime as dt
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import add

import psutil
from sqlmodel import Session, col, func, select

from chordesk.models.analysis import AnalysisRequest
from chordesk.models.errors import MarketError
from chordesk.models.states import RUN_FINAL, RunState, StepKind
from chordesk.models.tables.runs import Report, Run, Step, ToolCall, Turn, Verdict
from chordesk.tasks.reading.runs import progress
from chordesk.tasks.workflows.analyze import open_analysis
from chordesk.tasks.workflows.research import open_research
from chordesk.tasks.workflows.screen import open_screen
from chordesk.tools.market.clock import exchange_day
from chordesk.tools.market.protocol import ChainSource, MarketData
from tests.ordeal.turns import CpuTime, priced, seconds_of
from tests.parts import of_feature
from tests.stack import Processes, processes, wait_for


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
    with processes(forked=False, DESK_SPECULATE=choice) as desk:
        desk.rulebook(latency)
        desk.workers("research", "ops", "trade")
        # One small run first: a desk that runs unattended has its app-servers up when a screen starts.
        warm = open_research(desk.app, ["IBM"])
        store = desk.app.desk.store
        wait_for(lambda: has_ended(store, warm.id), "the warm-up run ends")
        run = open_screen(desk.app, "sp500", max_candidates=candidates)
        assert run is not None
        wait_for(lambda: has_ended(store, run.id), "the screen ends", 180)
        slots = desk.settings.codex_turns
        with store.read() as session:
            return _of_screen(session, run.id, latency, slots)


def has_ended(store: object, run_id: str) -> bool:
    with store.read() as session:  # type: ignore[attr-defined]
        return session.get_one(Run, run_id).state in RUN_FINAL


def _of_screen(session: Session, run_id: str, latency: float, slots: int) -> ScreenTimes:
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


TURNS = 8  # of one app-server: few, so that they are what a screen waits for


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
    with processes(forked=False, DESK_CODEX_TURNS=str(TURNS)) as desk:
        desk.rulebook(latency)
        desk.workers(*workers, "ops", "trade")
        _warm(desk, 2 * len(workers) * TURNS)
        run = open_screen(desk.app, "sp500", max_candidates=candidates)
        assert run is not None
        _until_ended(desk, [run.id], 300)
        with desk.app.desk.store.read() as session:
            ended = session.get_one(Run, run.id)
        assert ended.finished_at is not None
        assert ended.state == RunState.DONE, ended.notes
        return (ended.finished_at - ended.created_at).total_seconds()


def _warm(desk: Processes, symbols: int) -> None:
    """App-servers start with the first turn of a worker: give each of them some."""
    names = priced(desk.app.desk.market)
    _until_ended(desk, [open_research(desk.app, names[-symbols:]).id], 120)


def _until_ended(desk: Processes, run_ids: Sequence[str], seconds: float) -> None:
    def ended() -> bool:
        with desk.app.desk.store.read() as session:
            states = session.exec(select(Run.state).where(col(Run.id).in_(run_ids))).all()
        return all(state in RUN_FINAL for state in states)

    wait_for(ended, f"{len(run_ids)} runs end", seconds)


SELECTED = "HAL"  # by the rulebook on the replay's day, so that a symbol goes through all its turns
OPTIONS = {
    "DESK_REPLAY_OPTIONS": "modelled",
    "AUTONOMOUS_STOCK_ONLY": "false",
    "AUTONOMOUS_TRADER_OPTIONS_MODE": "both",
}


@dataclass(frozen=True, slots=True)
class AnalysisTimes:
    """Seconds, but for longest_chain: model calls one after the other, which critical_path is the time of. cpu: seconds
    of the worker and its app-servers."""

    wall: float
    longest_chain: int
    critical_path: float
    symbols: int
    turns: int
    calls: int
    cpu: float

    @property
    def ratio(self) -> float:
        return self.wall / self.critical_path


def analysis_times(latency: float, symbols: int) -> AnalysisTimes:
    with processes(forked=False, **OPTIONS) as desk:
        desk.rulebook(latency)
        desk.workers("research", "ops", "trade")
        store = desk.app.desk.store
        names = _names(desk.app.desk.market, symbols)
        # One small run first: a desk that runs unattended has its app-servers up when an analysis starts.
        _analysed(desk, [SELECTED])
        before = CpuTime.spent(desk)
        run = _analysed(desk, names)
        spent = CpuTime.spent(desk)
        with store.read() as session:
            return _of_analysis(
                session, run.id, latency, spent.worker + spent.app_servers - before.worker - before.app_servers
            )


def _names(market: MarketData, count: int) -> list[str]:
    """Return names with a price and a modelled chain, one that goes through all its turns among them."""
    assert isinstance(market, ChainSource)
    found = [SELECTED]
    today = exchange_day(market.clock.now())
    for name in priced(market):
        if len(found) == count:
            break
        try:
            market.chain(name, today, today + dt.timedelta(days=45))
        except MarketError:
            continue
        found += [name] if name != SELECTED else []
    return found


def _analysed(desk: Processes, names: list[str]) -> Run:
    run = open_analysis(desk.app, names, AnalysisRequest(research=False))
    wait_for(lambda: has_ended(desk.app.desk.store, run.id), "the analysis ends", 180)
    return run


def _of_analysis(session: Session, run_id: str, latency: float, cpu: float) -> AnalysisTimes:
    run = session.get_one(Run, run_id)
    assert run.finished_at is not None
    assert run.state == "done", run.notes
    calls = calls_by_step(session, run_id)
    chains: dict[str, int] = defaultdict(int)
    turned = (StepKind.REPORT, StepKind.DESCRIBE)
    for step in session.exec(select(Step).where(Step.run_id == run_id)).all():
        chains[step.subject] += calls.get(step.id, 0) if step.kind in turned else 0
    longest = max(chains.values())
    return AnalysisTimes(
        wall=(run.finished_at - run.created_at).total_seconds(),
        longest_chain=longest,
        critical_path=longest * latency,
        symbols=len(run.params["symbols"]),
        turns=progress(session, run_id).turns,
        calls=sum(calls.values()),
        cpu=cpu,
    )


# A session takes some seconds of CPU, and a busy machine gives the walk a small part of its processors.
LEAST_SECONDS, SECONDS_A_SESSION = 600.0, 60.0
# Seconds between two looks at the run: more often, and the bench would take time from what it measures.
POLL = 0.5
FIRST = dt.date(2010, 3, 1)


# The processes of each desk, by what is added to it: the first of them is what a second worker takes work from.
DESKS = {
    "`desk worker`": (("all",), ("all", "all-2")),
    "`desk up`": (("research-1", "ops", "trade"), ("research-1", "research-2", "ops", "trade")),
}


@dataclass(frozen=True, slots=True)
class Walked:
    """One walk. seconds: wall; cpu: seconds of user and system time of each process, by its name; worker: the process
    that a second one takes work from."""

    worker: str
    turns: int
    seconds: float
    cpu: Mapping[str, float]

    @property
    def attainable(self) -> float:
        """Times that two workers are faster when all processes share two processors that nothing else uses.

        One worker is as long at work as its CPU time; with two, both processors have half of all.
        """
        return 2 * self.cpu[self.worker] / sum(self.cpu.values())


@dataclass(frozen=True, slots=True)
class WalkPace:
    """The same walk on a desk with one worker process and with two."""

    desk: str
    sessions: int
    one: Walked
    two: Walked

    @property
    def faster(self) -> float:
        return self.one.seconds / self.two.seconds

    def a_minute(self, walk: Walked) -> float:
        return 60 * self.sessions / walk.seconds

    def cpu_a_session(self, walk: Walked) -> dict[str, float]:
        """Return the CPU seconds a session of each process, the most first."""
        spent = sorted(walk.cpu.items(), key=lambda pair: -pair[1])
        return {name: seconds / self.sessions for name, seconds in spent}


def walk_paces(sessions: int) -> Iterator[WalkPace]:
    """Yield the pace of each desk."""
    for desk, (one, two) in DESKS.items():
        yield WalkPace(desk, sessions, _walk(sessions, one), _walk(sessions, two))


def _walk(sessions: int, workers: Sequence[str]) -> Walked:
    with processes(forked=False) as desk:
        desk.rulebook()
        desk.workers(*workers)
        limit = max(LEAST_SECONDS, sessions * SECONDS_A_SESSION)
        _ended(desk, open_research(desk.app, ["IBM", "KO"]), limit)
        days = [day for day in desk.app.desk.market.recorded() if day >= FIRST][:sessions]  # type: ignore[attr-defined]
        before = _cpu(desk)
        run = _ended(
            desk, of_feature("chordesk.tasks.measure.backtest:open_backtest")(desk.app, days[0], days[-1]), limit
        )
        after = _cpu(desk)
        assert run.state == RunState.DONE, run.notes
        assert run.summary["sessions"] == sessions
        assert run.summary["missing"] == [], run.summary["missing"]
        assert run.finished_at is not None
        seconds = (run.finished_at - run.created_at).total_seconds()
        spent = {name: after[name] - before[name] for name in after}
        return Walked(workers[0], run.summary["turns"], seconds, spent)


def _cpu(desk: Processes) -> dict[str, float]:
    """Return the CPU seconds that each process of a desk has spent with its children, and this one."""
    spent = {name: seconds_of(psutil.Process(process.pid), children=True) for name, process in desk.running.items()}
    return {**spent, "bench": seconds_of(psutil.Process())}


def _ended(desk: Processes, run: Run, limit: float) -> Run:
    store, until = desk.app.desk.store, time.monotonic() + limit
    while True:
        with store.read() as session:
            row = session.get_one(Run, run.id)
        if row.state in RUN_FINAL:
            return row
        assert time.monotonic() < until, f"not within {limit:g} s: the {run.kind} ends"
        time.sleep(POLL)
