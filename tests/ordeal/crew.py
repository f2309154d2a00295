"""A desk of real processes that a scenario may kill: two research workers, ops, trade, Redis, and the model.

A watchman stands in for `desk up`'s supervisor: what ends by itself is started again, and counted.
"""

from __future__ import annotations

import datetime as dt
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import psutil
from kombu.exceptions import OperationalError
from redis.exceptions import RedisError
from sqlmodel import col, select

from chordesk.models.database.store import Store
from chordesk.models.states import RUN_FINAL, STEP_FINAL, StepState
from chordesk.models.tables.columns import utcnow
from chordesk.models.tables.runs import Decision, Run, Step
from chordesk.tasks.workflows.screen import open_screen
from chordesk.tools.brokers.protocol import build_broker
from chordesk.tools.market.clock import LiveClock
from chordesk.tools.market.prices import no_current_price
from chordesk.tools.market.yahoo.market import build_yahoo
from chordesk.tools.orders.accounts import FencingLease
from tests.constants import constants
from tests.fakes.alpaca import KEY, SECRET
from tests.fakes.yahoo import FarYahoo
from tests.ordeal.broken import BROKEN, library
from tests.ordeal.broker import PRICE
from tests.ordeal.launch import BOMB, FAR_YAHOO
from tests.ordeal.model import Asked, FaultyModel, Journal
from tests.patience import PATIENCE
from tests.postgres import server
from tests.stack import Processes, processes, wait_for
from tests.tools.orders.desk import Desk, action

WORKERS = ("research-1", "research-2")
CREW = (*WORKERS, "ops", "trade")
CLOCK = "clock"  # file in the home
GRAPHS = "tests.toy.graphs"  # module of the graphs that it may play


@dataclass(frozen=True, slots=True)
class Pace:
    """Durations of a desk under faults. latency: of one model call; lease, sweep, silence: settings of the desk,
    seconds."""

    latency: float = 0.5
    lease: float = 9.0
    sweep: float = 3.0
    silence: float = 8.0


@dataclass(slots=True)
class Held:
    """Steps and turns of a process at its kill, and the time of the kill (time.monotonic())."""

    at: float
    steps: dict[str, int]


@dataclass(slots=True)
class FaultDesk:
    """excused: steps and attempts that may have begun turns for nothing. symbols: those that decisions were handed over
    on. halted: ids of decisions that a halt may have denied orders of. dead: killed owners of steps. small: its small
    file system.
    """

    processes: Processes
    model: FaultyModel
    pace: Pace
    launcher: tuple[str, ...] = ()
    crew: tuple[str, ...] = CREW
    small: Path | None = None
    restarts: Counter[str] = field(default_factory=Counter)
    excused: set[tuple[str, int]] = field(default_factory=set)
    symbols: set[str] = field(default_factory=set)
    halted: set[str] = field(default_factory=set)
    dead: set[str] = field(default_factory=set)
    _offset: int = 0
    _lock: threading.RLock = field(default_factory=threading.RLock)
    _watching: threading.Event = field(default_factory=threading.Event)

    @property
    def store(self) -> Store:
        return self.processes.app.desk.store

    @property
    def journal(self) -> Journal:
        return self.model.journal

    # Processes

    def start(self, name: str) -> None:
        """Start one of the crew, through the suite's launcher if there is one."""
        command = ["worker", name.partition("-")[0], "--name", name]
        if name in WORKERS:
            command += ["--concurrency", "32"]
        module = self.launcher or ("chordesk.tasks.cli.main",)
        with self._lock:
            self.processes.spawn(name, sys.executable, "-m", *module, *command)

    def start_all(self) -> None:
        for name in self.crew:
            self.start(name)
        wait_for(lambda: self._answering(list(self.crew)), "the workers answer")

    def await_worker(self, name: str) -> None:
        wait_for(lambda: self._answering([name]), f"{name} answers")

    def _answering(self, names: Sequence[str]) -> bool:
        try:
            found = self.processes.app.control.ping(timeout=0.5)
        except (OperationalError, RedisError):
            return False  # our own connection, to a Redis that is not there any more
        return set(names) <= {node.partition("@")[0] for answer in found for node in answer}

    def pid(self, name: str) -> int:
        return self.processes.running[name].pid

    def kill(self, name: str, *, back: bool = True) -> None:
        """SIGKILL to one process. With `back` the watchman starts it again, as a supervisor would."""
        with self._lock:
            process = self.processes.running[name]
            if not back:
                del self.processes.running[name]
            process.kill()
            process.wait(10)

    def stop(self, name: str, seconds: float = 60.0) -> int:
        """SIGTERM, and the exit code."""
        with self._lock:
            process = self.processes.running.pop(name)
        process.send_signal(signal.SIGTERM)
        return process.wait(seconds)

    def app_servers(self, name: str) -> list[psutil.Process]:
        children = psutil.Process(self.pid(name)).children(recursive=True)
        return [child for child in children if "app-server" in " ".join(child.cmdline())]

    @contextmanager
    def watched(self) -> Iterator[None]:
        """While the block runs, whatever of the crew ends by itself is started again."""
        watchman = threading.Thread(target=self._watch, daemon=True)
        watchman.start()
        try:
            yield
        finally:
            self._watching.set()
            watchman.join()

    def _watch(self) -> None:
        while not self._watching.wait(0.3):
            with self._lock:
                for name, process in list(self.processes.running.items()):
                    if process.poll() is not None and name != "redis":
                        self.restarts[name] += 1
                        self.start(name)

    def move_clock(self, seconds: float) -> None:
        """Set how far the clock of a crew that was launched with `--clock` is off."""
        fresh = self.processes.home / "clock.new"
        fresh.write_text(f"{seconds:g}")
        fresh.rename(self.processes.home / CLOCK)

    @contextmanager
    def switched(self, *switches: str) -> Iterator[None]:
        """While the block runs, these files are in the desk's folder; what it was launched with looks for them."""
        files = [self.processes.home / switch for switch in switches]
        for file in files:
            file.touch()
        try:
            yield
        finally:
            for file in files:
                file.unlink()

    # Runs

    def open_run(self, symbols: int = 3) -> str:
        """A screen of names of its own, all of which become candidates."""
        market = self.processes.app.desk.market
        names = [listing.symbol for listing in market.universe("sp500")]
        names = [symbol for symbol in names if no_current_price(market, symbol) is None]
        chosen = names[self._offset % (len(names) - symbols) :][:symbols]
        self._offset += symbols
        run = open_screen(self.processes.app, ",".join(chosen), ("technical", "catalyst"), max_candidates=symbols)
        assert run is not None
        return run.id

    def run(self, run_id: str) -> Run:
        with self.store.read() as session:
            return session.get_one(Run, run_id)

    def steps(self, *run_ids: str) -> list[Step]:
        with self.store.read() as session:
            return list(session.exec(select(Step).where(col(Step.run_id).in_(run_ids))).all())

    def await_end(self, *run_ids: str, seconds: float = PATIENCE) -> list[str]:
        """Wait for the runs to end; the ids of those that did not."""
        until = time.monotonic() + seconds
        left = list(run_ids)
        while left and time.monotonic() < until:
            time.sleep(0.1)
            left = [run_id for run_id in left if self.run(run_id).state not in RUN_FINAL]
        return left

    # Kills

    def held_by(self, name: str, *run_ids: str) -> dict[str, int]:
        """Steps of a worker that lives, by their owner's name; with the attempt."""
        found = [step for step in self.steps(*run_ids) if step.state == StepState.RUNNING]
        mine = [step for step in found if str(step.owner).startswith(f"{name}@") and step.owner not in self.dead]
        return {step.id: step.attempt for step in mine}

    def asking(self, held: dict[str, int]) -> list[Asked]:
        """Model calls of these steps that are open now."""
        return self.journal.open(lambda call: held.get(call.step_id) == call.attempt)

    def freeze_in_flight(self, name: str, run_ids: Sequence[str], seconds: float = PATIENCE) -> Held:
        """Stop a worker and its app-servers at a moment when one of its turns is in flight, and say what it holds.

        Frozen first and looked at then: nothing moves between the look and the kill.
        """
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            if not self.asking(self.held_by(name, *run_ids)):
                time.sleep(0.02)
                continue
            frozen = self.freeze(name)
            held = self.held_by(name, *run_ids)
            if self.asking(held):
                return Held(time.monotonic(), held)
            for process in frozen:
                process.resume()
        raise AssertionError(f"{name} had no turn in flight within {seconds:g} s")

    def freeze(self, name: str) -> list[psutil.Process]:
        """Stop a process and its app-servers where they are."""
        frozen = [psutil.Process(self.pid(name)), *self.app_servers(name)]
        for process in frozen:
            process.suspend()
        return frozen

    def kill_in_flight(self, name: str, run_ids: Sequence[str]) -> Held:
        """SIGKILL a worker while a turn of these runs is in flight in it; its steps are excused from then on."""
        held = self.freeze_in_flight(name, run_ids)
        self.kill_frozen(name, held)
        return held

    def kill_frozen(self, name: str, held: Held) -> None:
        servers = self.app_servers(name)
        with self.store.read() as session:
            owners = session.exec(select(Step.owner).where(col(Step.id).in_(held.steps))).all()
        self.dead |= {str(owner) for owner in owners}
        self.kill(name)
        for process in servers:
            with suppress(psutil.NoSuchProcess):
                process.resume()  # orphans: they find their pipe closed
        self.excused |= set(held.steps.items())

    def takeover(self, held: Held, seconds: float = 60.0) -> float:
        """Seconds from the kill until every step of the dead was claimed again or ended; infinite when it was not."""
        until = held.at + seconds
        while time.monotonic() < until:
            with self.store.read() as session:
                rows = session.exec(select(Step).where(col(Step.id).in_(held.steps))).all()
            if all(row.attempt > held.steps[row.id] or row.state in STEP_FINAL for row in rows):
                return time.monotonic() - held.at
            time.sleep(0.1)
        return float("inf")


def until(condition: Callable[[], object], what: str, seconds: float = PATIENCE) -> None:
    wait_for(lambda: bool(condition()), what, seconds)


def paced(pace: Pace) -> dict[str, str]:
    """Return the settings that all desks of the suite share."""
    return {
        "DESK_LEASE_SECONDS": f"{pace.lease:g}",
        **constants(SWEEP_SECONDS=pace.sweep),
        "DESK_PREMARKET": "off",
        "DESK_MIDDAY": "off",
        "DESK_COOLDOWN_HOURS": "0",
        "DESK_LOG_LEVEL": "INFO",
        "TRADER_LIVE": "1",
    }


BREAKABLE = "BREAKABLE"  # environment of a desk whose disk may break
SMALL = "{small}"  # in a setting of a scenario: a file system of SMALL_MIB of its own
SMALL_MIB, SERVER_MIB, SMALL_INODES = 16, 128, 4096


@contextmanager
def small_disk(mib: int = SMALL_MIB, at: Path | None = None) -> Iterator[Path]:
    """A small file system, as root alone can mount one, in the temp folder or another; unmounted with the block."""
    folder = Path(tempfile.mkdtemp(prefix="small-", dir=at))
    options = f"size={mib}m,nr_inodes={SMALL_INODES}"
    subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)], check=True)
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)
        folder.rmdir()


@contextmanager
def filled(folder: Path, *, inodes: bool = False) -> Iterator[None]:
    """While the block runs, the folder's file system takes not a byte more, or not a file, but for moments."""
    over, filler = threading.Event(), folder / "filler"
    filler.mkdir()

    def fill() -> None:
        with (filler / "bytes").open("ab", buffering=0) as file:
            while not over.wait(0.02):
                with suppress(OSError):
                    for number in count():
                        (filler / f"{time.monotonic_ns()}-{number}").touch() if inodes else file.write(bytes(4096))

    thread = threading.Thread(target=fill, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
        shutil.rmtree(filler)


def without_disk(desk: FaultDesk, *, inodes: bool = False) -> AbstractContextManager[None]:
    """While the block runs, the desk's small file system is full, or that of its home broken."""
    return desk.switched(BROKEN) if desk.small is None else filled(desk.small, inodes=inodes)


@contextmanager
def stored(environ: Mapping[str, str], *, postgres: bool) -> Iterator[tuple[dict[str, str], Path | None]]:
    """Settings with a small file system, which is the second, in place of SMALL. postgres: and with a server's
    database, whose data is there."""
    with ExitStack() as held:
        small = None
        if any(SMALL in value for value in environ.values()):
            small = held.enter_context(small_disk(SERVER_MIB if postgres else SMALL_MIB))
        found = {name: value.replace(SMALL, str(small)) for name, value in environ.items()}
        if BREAKABLE in found:
            found["LD_PRELOAD"] = library()
        if postgres:
            found["DESK_DATABASE_URL"] = held.enter_context(server(small)).empty()
        yield found, small


@contextmanager
def fault_desk(
    pace: Pace, *launcher: str, crew: tuple[str, ...] = CREW, postgres: bool = False, **environ: str
) -> Iterator[FaultDesk]:
    """The whole crew, up and warm; everything ends with the block. launcher: module and arguments to start it with,
    with {home} for the desk's folder. postgres: the database is a server's."""
    with stored(environ, postgres=postgres) as (own, small):
        settings = {
            **paced(pace),
            "DESK_FIRST_TOKEN_SECONDS": f"{pace.silence:g}",
            "DESK_SILENCE_SECONDS": f"{pace.silence:g}",
            "DESK_DRAIN_SECONDS": "20",
            "DESK_GRAPHS": GRAPHS,
            **own,
        }
        with (
            processes(forked=False, **settings) as running,
            FaultyModel(pace.latency, running.home / "model.jsonl") as model,
        ):
            running.environ["DESK_PROVIDER"] = "endpoint"
            running.environ["DESK_PROVIDER_URL"] = model.url
            # Of roles that a scenario gives to LiteLLM; no key of the machine's goes along.
            running.environ |= {"OPENAI_API_BASE": model.url, "OPENAI_BASE_URL": model.url, "OPENAI_API_KEY": "none"}
            (running.home / CLOCK).write_text("0")
            start_with = tuple(part.replace("{home}", str(running.home)) for part in launcher)
            desk = FaultDesk(running, model, pace, start_with, crew, small)
            try:
                desk.start_all()
                with desk.watched():
                    # App-servers start with the first turn; a desk that trades has them up.
                    assert not desk.await_end(desk.open_run(2), seconds=90), "the first run did not end"
                    yield desk
            finally:
                keep_logs(desk)


def keep_logs(desk: FaultDesk) -> None:
    """With FAULT_LOGS=FOLDER the logs of every process outlive the desk."""
    folder = os.environ.get("FAULT_LOGS")
    if folder:
        subprocess.run(["cp", "-r", str(desk.processes.home), folder], check=False)


@dataclass(slots=True)
class Findings:
    """lost: runs that did not end, and candidates, reports, verdicts and decisions that are not there. doubled: of
    reports, verdicts, decisions, orders and turns."""

    lost: list[str] = field(default_factory=list)
    doubled: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)

    @property
    def clean(self) -> bool:
        return not (self.lost or self.doubled or self.wrong)

    def add(self, other: Findings) -> None:
        self.lost += other.lost
        self.doubled += other.doubled
        self.wrong += other.wrong

    def text(self) -> str:
        named = {"lost": self.lost, "doubled": self.doubled, "wrong": self.wrong}
        return "; ".join(f"{name}: {item}" for name, items in named.items() for item in items)


@dataclass(slots=True)
class Result:
    """One scenario, over all its repetitions. takeover: the slowest, seconds; None when nothing had to be taken.
    figures: what was counted, by name. skipped: why it was not played.
    """

    name: str
    runs: int = 0
    takeover: float | None = None
    seconds: float = 0.0
    findings: Findings = field(default_factory=Findings)
    notes: list[str] = field(default_factory=list)
    figures: Counter[str] = field(default_factory=Counter)
    skipped: str = ""

    def took(self, seconds: float) -> None:
        self.takeover = max(self.takeover or 0.0, seconds)

    def merge(self, other: Result) -> None:
        self.runs += other.runs
        self.seconds += other.seconds
        self.findings.add(other.findings)
        self.notes += other.notes
        self.figures += other.figures
        self.skipped = other.skipped or self.skipped
        if other.takeover is not None:
            self.took(other.takeover)


# Does its harm to runs of its own and puts what it found into the result.
Act = Callable[[FaultDesk, random.Random, Result], None]


@dataclass(frozen=True, slots=True)
class Scenario:
    """times: repetitions in the long version, each with a seed of its own. short: whether the short version has it.

    environ: settings that its desk needs; scenarios with the same ones share a desk. launcher: how its
    crew starts. switches: files in its desk's folder while it plays. postgres: whether its desk's database is one.
    """

    name: str
    act: Act
    times: int = 1
    short: bool = False
    environ: Mapping[str, str] = field(default_factory=dict)
    launcher: tuple[str, ...] = ()
    crew: tuple[str, ...] = CREW
    switches: tuple[str, ...] = ()
    postgres: bool = False


def perform(scenario: Scenario, desk: FaultDesk, seed: int) -> Result:
    """One repetition. What it raises is a finding: the others go on."""
    result = Result(scenario.name)
    began = time.monotonic()
    try:
        with desk.switched(*scenario.switches):
            scenario.act(desk, random.Random(seed), result)
    except Exception as error:
        result.findings.wrong.append(f"seed {seed}: {type(error).__name__}: {error}")
    result.seconds = time.monotonic() - began
    return result


def table(results: Iterable[Result]) -> str:
    rows = [("scenario", "runs", "lost", "doubled", "slowest takeover", "seconds", "")]
    for result in results:
        found = result.findings
        takeover = f"{result.takeover:.1f} s" if result.takeover is not None else "-"
        verdict = result.skipped or ("ok" if found.clean else "WRONG" if found.wrong else "FAILED")
        counts = (str(result.runs), str(len(found.lost)), str(len(found.doubled)))
        rows.append((result.name, *counts, takeover, f"{result.seconds:.0f}", verdict))
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in rows)


def order_figures(results: Iterable[Result]) -> str:
    """Return the outcome of all orders in one line; empty when there was none."""
    counted = sum((result.figures for result in results), Counter[str]())
    if not counted:
        return ""
    at_broker = f"{counted['orders']} orders at the broker, {counted['twice']} of them more than once"
    rest = f"{counted['denied']} denied by a halt, {counted['unknown']} unknown and never there"
    return f"{at_broker}; {counted['fills']} fills booked; {rest}"


ORDER_CREW = ("ops", "trade")
ACCOUNT = "alpaca-paper"
STAND_IN = "STAND_IN_URL"
KEYS = {"ALPACA_API_KEY": KEY, "ALPACA_SECRET_KEY": SECRET}
QUANTITY = 4.0
SETTINGS = {
    "DESK_MARKET": "yahoo",
    "DESK_BROKER": ACCOUNT,
    "DESK_APPROVAL": "auto",
    "DESK_MAX_QUOTE_AGE_MINUTES": "10000",  # Yahoo's day ends at four, the suite is run at any hour
    "DESK_MAX_SECTOR_SHARE": "1",
    "DESK_MAX_TRADES_PER_DAY": "1000000",
    "DESK_MAX_ORDERS_PER_MINUTE": "1000000",
}


@dataclass(frozen=True, slots=True)
class Handed:
    """A decision that was handed over, and its step on the trade queue."""

    decision_id: str
    step_id: str
    symbols: tuple[str, ...]


@contextmanager
def order_desk(
    pace: Pace, *launcher: str, crew: tuple[str, ...] = ORDER_CREW, postgres: bool = False, **environ: str
) -> Iterator[FaultDesk]:
    """The crew up, with nothing traded yet; everything ends with the block. postgres: the database is a server's."""
    far = far_yahoo()
    with (
        stored({**paced(pace), **SETTINGS, **environ}, postgres=postgres) as (settings, small),
        processes(forked=False, **settings) as running,
        FaultyModel(pace.latency, running.home / "model.jsonl") as model,
    ):
        running.environ |= {"DESK_PROVIDER": "endpoint", "DESK_PROVIDER_URL": model.url}
        running.environ[FAR_YAHOO] = f"http://127.0.0.1:{far.server_port}"
        start_stand_in(running)
        desk = FaultDesk(running, model, pace, launcher, crew, small)
        try:
            desk.start_all()
            with desk.watched():
                yield desk
        finally:
            keep_logs(desk)
            far.shutdown()
            far.server_close()


def start_stand_in(running: Processes) -> None:
    running.spawn("alpaca", sys.executable, "-m", "tests.ordeal.broker")
    wait_for(lambda: "http://" in running.log("alpaca"), "the broker's stand-in listens")
    url = running.log("alpaca").split()[0]
    own = constants(running.environ, ALPACA=url, ORDERS_SECONDS=2, REQUEST_SECONDS=3)
    running.environ |= {**own, STAND_IN: url}


class QuietYahoo(FarYahoo):
    def handle_error(self, request: Any, client_address: Any) -> None:
        """A worker that is killed leaves its connections as they are."""


def far_yahoo() -> FarYahoo:
    """Every name that the suite trades, each at the price of the stand-in's fills."""
    far = QuietYahoo()
    today = dt.datetime.now(ZoneInfo("America/New_York")).date()
    days = [today - dt.timedelta(days=back) for back in (2, 1, 0)]
    for symbol in NAMES:
        far.charts[symbol] = [(day, PRICE, PRICE, PRICE, PRICE, 1000) for day in days]
        far.infos[symbol] = {"longName": symbol, "sector": "Industrials"}
    far.start()
    return far


LETTERS = "BCDFGHJKLM"
NAMES = tuple(f"Q{one}{two}{three}" for one in LETTERS for two in LETTERS for three in LETTERS)


def control(desk: FaultDesk, **wanted: Any) -> dict[str, Any]:
    """Send the stand-in a command, and return its state."""
    request = urllib.request.Request(
        f"{desk.processes.environ[STAND_IN]}/control", json.dumps(wanted).encode(), method="POST"
    )
    with urllib.request.urlopen(request, timeout=10) as answer:
        reply: dict[str, Any] = json.load(answer)
    return reply


def sent(desk: FaultDesk) -> int:
    """Return how often an order was sent to the stand-in."""
    return int(control(desk, brief=True)["sent"])


def arm(desk: FaultDesk, number: int, *points: str) -> None:
    """Have the trade worker kill itself when it gets to one of these points for that many-th time."""
    (desk.processes.home / BOMB).write_text(f"{', '.join(points)} {number}")


def nudge(desk: FaultDesk) -> None:
    """Have the trade queue look after its orders now."""
    with suppress(OperationalError, RedisError):
        desk.processes.app.send_task("desk.orders", expires=5)


def hand_over(desk: FaultDesk, chance: random.Random, orders: int = 3, messages: int = 1) -> Handed:
    """Write a decision of so many orders, on names that nothing was traded in, and put its step on the trade queue."""
    symbols = tuple(chance.sample([name for name in NAMES if name not in desk.symbols], orders))
    desk.symbols.update(symbols)
    settings, store = desk.processes.settings, desk.store
    market = build_yahoo(settings.home, LiveClock())
    writer = Desk(
        store, settings, market, build_broker(settings, market, store, KEYS), FencingLease(store, ACCOUNT, "suite")
    )
    opened = [action(symbol, quantity=QUANTITY) for symbol in symbols]
    decision_id = writer.decide(*opened, deadline_at=utcnow() + dt.timedelta(hours=1))
    with store.session() as session:
        run_id = session.get_one(Decision, decision_id).run_id
        step = Step(run_id=run_id, kind="submit", state="ready", payload={"decision_id": decision_id}, max_attempts=9)
        session.add(step)
        session.flush()
        step_id = step.id
    for _ in range(messages):
        desk.processes.app.send_task("desk.submit", args=[step_id])
    return Handed(decision_id, step_id, symbols)
