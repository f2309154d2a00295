"""One desk under everything at once, as `desk up` runs it in a home on a small file system: the disk is filled, the
provider switched, every kind of process killed; the model calls tools that its turn does not have, and a hostile client
holds the API's port. No schedule is started."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import psutil
from sqlalchemy.exc import DBAPIError
from sqlmodel import Session, col, select

from chordesk.models.database.store import Store
from chordesk.models.states import ORDER_WORKING, RUN_FINAL, OrderState, StepKind, StepState
from chordesk.models.tables.orders import Account, Approval, Fill, Order, Position
from chordesk.models.tables.runs import ScreenHit, Step, ToolCall, Turn
from chordesk.models.text import SHORT_ID
from chordesk.tasks.services.plan import desk_command
from chordesk.tasks.worker.app import node_name
from chordesk.tasks.worker.sockets import ask_all
from chordesk.tools import rogue_calls
from chordesk.tools.decimals import exact
from tests import homes
from tests.fakes.responses import Call, Reply, Text
from tests.ordeal.check import Expected, check
from tests.ordeal.crew import FaultDesk, Pace, Result, filled, keep_logs, paced, small_disk, until
from tests.ordeal.model import Asked, FaultyModel, own_reply, subject_of
from tests.patience import PATIENCE
from tests.stack import REPOSITORY, free_port, processes

CREW = ("up",)
MIB = 96
DAYS = ("2010-08-09", "2010-08-10", "2010-08-11", "2010-08-12", "2010-08-13")  # one more with each repetition
SYMBOLS = (
    "IBM", "GE", "XOM", "KO", "PEP", "JNJ", "CAT", "BA", "MMM", "HPQ", "INTC", "ORCL", "WMT", "PG", "MRK", "PFE", "T",
    "VZ", "CVX", "WFC", "HD", "MCD", "DIS",
)  # fmt: skip
SYMBOLS_EACH, SCREENS = 3, 4
BY_RULES = 1  # of the three parts: that in which the desk has the rulebook
HOSTILE = 14
SLOWER = 3
SHARE = 0.05  # of turns with a rogue call
ROGUE = (Call("orders_submit", '{"symbol": "IBM", "quantity": 1000}'), Call("shell", '{"command": "id"}'))
ROOM_SECONDS = 15.0
DRAIN_SECONDS = 20.0
END_SECONDS = 400.0
RESEARCH = ("research", "research-2")
KINDS = (*RESEARCH, "ops", "trade", "api", "redis", "app-server", "supervisord", "up")


class Wild:
    """What the model answers: in some turns it first calls a tool that the turn does not have. made: those turns."""

    def __init__(self, chance: random.Random) -> None:
        self._chance, self._lock = chance, threading.Lock()
        self._calls: dict[str, Call | None] = {}
        self.made: list[Asked] = []

    def __call__(self, asked: Asked, body: dict[str, Any]) -> Reply:
        with self._lock:
            first = bool(asked.step_id) and asked.turn not in self._calls  # else it is a look at the model
            if first:
                forced = not self.made and len(self._calls) > 10
                rogue = forced or self._chance.random() < SHARE
                self._calls[asked.turn] = self._chance.choice(ROGUE) if rogue else None
            call = self._calls.get(asked.turn)
            if first and call is not None:
                self.made.append(asked)
                return call
        asked_for = _without(body, call.name) if call is not None else body
        reply = own_reply(asked.role, asked_for)
        return _opening_all(reply, body) if asked.role == "trader" and isinstance(reply, Text) else reply


def _opening_all(reply: Text, body: dict[str, Any]) -> Text:
    """Return the trader's answer with an order on every verdict's symbol in place of the first one's."""
    answer, subject = json.loads(reply.text), subject_of(body)
    closing = [one for one in answer["actions"] if one["action"] == "close"]
    opening = next((one for one in answer["actions"] if one["action"] == "open"), None)
    held = {one["symbol"] for one in closing}
    names = [row["symbol"] for row in (subject or {})["verdicts"] if row["symbol"] not in held] if opening else []
    return Text(json.dumps({**answer, "actions": [*closing, *({**(opening or {}), "symbol": name} for name in names)]}))


def _without(body: dict[str, Any], tool: str) -> dict[str, Any]:
    """Return a request without the calls of a tool and their answers, so that the model goes on as if it had made
    none."""
    items = body.get("input") or []
    gone = {item.get("call_id") for item in items if item.get("type") == "function_call" and item.get("name") == tool}
    return {**body, "input": [item for item in items if item.get("call_id") not in gone]}


@dataclass(slots=True)
class UpDesk(FaultDesk):
    """A `desk up`, started again whenever it ends, as by a unit of systemd. port: of its API."""

    port: int = 0
    books: Store = field(kw_only=True)

    @property
    def store(self) -> Store:
        return self.books

    def start(self, name: str) -> None:
        command = desk_command("up", "--workers", "2", "--no-beat", "--api")
        with self._lock:
            self.processes.spawn(name, *command)

    def members(self, name: str) -> list[psutil.Process]:
        with suppress(psutil.Error, KeyError):
            top = psutil.Process(self.processes.running["up"].pid)
            return [top] if name == "up" else [one for one in top.children(recursive=True) if _is(one, name)]
        return []

    def starts(self) -> int:
        """How often it has come up."""
        return self.processes.log("up").count("Ctrl-C stops all")

    def is_well(self) -> bool:
        well = {health.node for health in ask_all(self.processes.home) if health.well}
        return well >= {node_name(name) for name in (*RESEARCH, "ops", "trade")}

    def excuse(self) -> None:
        """Whoever holds a step now may have begun its turn for nothing."""
        with suppress(DBAPIError), self.store.read() as session:
            rows = session.exec(select(Step.id, Step.attempt).where(Step.state == StepState.RUNNING)).all()
            self.excused |= set(rows)

    def killed(self, name: str) -> None:
        """SIGKILL to what runs by this name, with what it held excused."""
        stopped = []
        if name in (*RESEARCH, "app-server", "supervisord", "up"):
            for one in RESEARCH:
                stopped += self._frozen(one)
            self.excuse()
        for one in self.members(name):
            with suppress(psutil.NoSuchProcess):
                one.kill()
        for one in stopped:
            with suppress(psutil.NoSuchProcess):
                one.resume()
        if name in ("up", "supervisord"):
            self._excuse_until_ended(stopped)

    def _excuse_until_ended(self, workers: Sequence[psutil.Process]) -> None:
        """Workers notice that they are left alone, and begin steps until then."""
        until = time.monotonic() + DRAIN_SECONDS
        while any(one.is_running() for one in workers) and time.monotonic() < until:
            self.excuse()
            time.sleep(0.05)

    def _frozen(self, name: str) -> list[psutil.Process]:
        frozen = []
        for worker in self.members(name):
            with suppress(psutil.NoSuchProcess):
                for one in (worker, *worker.children(recursive=True)):
                    one.suspend()
                    frozen.append(one)
        return frozen

    def switched_to(self, **environ: str) -> None:
        """End the desk in order and start it with other settings."""
        self.processes.environ |= environ
        for name in [name for name, value in environ.items() if not value]:
            del self.processes.environ[name]
        with self._lock:
            process = self.processes.running.pop("up")
        process.send_signal(signal.SIGTERM)
        while process.poll() is None:
            self.excuse()
            time.sleep(0.05)
        self.start("up")

    def screen(self, symbols: Sequence[str]) -> str:
        """A run of a person's command, tried again while the desk is not there."""
        command = desk_command(
            "screen", "--universe", ",".join(symbols), "--max", str(len(symbols)), "--no-wait", "--json"
        )
        began = time.monotonic()
        while True:
            done = self.command(*command)
            if done.returncode == 0:
                run_id: str = json.loads(done.stdout)["run_id"]
                return run_id
            assert time.monotonic() - began < 90, done.stderr[-800:]
            time.sleep(1.0)

    def command(self, *command: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command, cwd=REPOSITORY, env=self.processes.environ, capture_output=True, text=True, timeout=60
        )


def _is(process: psutil.Process, name: str) -> bool:
    try:
        command = process.cmdline()
    except psutil.Error:
        return False
    match name:
        case "app-server" | "api":
            return name in command
        case "redis":
            return any("valkey-server" in part or "redis-server" in part for part in command[:1])
        case "supervisord":
            return any(part.endswith("supervisord.py") for part in command)
        case _:
            return "worker" in command and name in command


@contextmanager
def up_desk(pace: Pace) -> Iterator[UpDesk]:
    port = free_port()
    settings = {
        **paced(pace),
        "DESK_LENSES": "technical,catalyst",
        "DESK_API_PORT": str(port),
        "DESK_REPLAY_DATE": DAYS[0],
    }
    settings["DESK_MAX_SECTOR_SHARE"] = "1"
    with ExitStack() as held:
        small = held.enter_context(small_disk(MIB, homes.base()))
        running = held.enter_context(processes(forked=False, at=small, **settings))
        running.end("redis")  # the desk has its own
        del running.environ["DESK_REDIS_URL"]
        model = held.enter_context(FaultyModel(SLOWER * pace.latency))  # so that there is work to disturb
        running.environ |= {"DESK_PROVIDER": "endpoint", "DESK_PROVIDER_URL": model.url}
        books = held.enter_context(closing(Store(running.settings.database)))
        desk = UpDesk(running, model, pace, crew=CREW, port=port, books=books)
        try:
            desk.start("up")
            with desk.watched():
                until(desk.starts, "the desk is up", PATIENCE)
                yield desk
        finally:
            keep_logs(desk)


@contextmanager
def besieged(desk: UpDesk) -> Iterator[None]:
    """While the block runs, a hostile client holds connections of the API's port."""
    command = [sys.executable, "-m", "tests.fakes.hostile", str(desk.port), str(HOSTILE), "3600"]
    with subprocess.Popen(command, cwd=REPOSITORY, stdout=subprocess.DEVNULL) as hostile:
        try:
            yield
        finally:
            hostile.kill()


def everything(desk: FaultDesk, chance: random.Random, result: Result) -> None:
    assert isinstance(desk, UpDesk)
    wild = desk.model.own = Wild(chance)
    url = desk.processes.environ["DESK_PROVIDER_URL"]
    kills = chance.sample(KINDS, len(KINDS))
    symbols = chance.sample(SYMBOLS, SYMBOLS_EACH * SCREENS)
    runs: list[str] = []
    with besieged(desk):
        for number in range(3):
            if number == BY_RULES:
                desk.switched_to(DESK_PROVIDER="rulebook", DESK_PROVIDER_URL="")
            elif number == BY_RULES + 1:
                desk.switched_to(DESK_PROVIDER="endpoint", DESK_PROVIDER_URL=url)
            for _ in range(2 if number == 0 else 1):
                runs.append(desk.screen([symbols.pop() for _ in range(SYMBOLS_EACH)]))
            _harm(desk, chance, result, kills[number * 3 :][:3], runs)
        left = desk.await_end(*runs, seconds=END_SECONDS)
    result.runs += len(runs)
    if left:
        result.findings.lost += [f"run {run} has not ended: {_standing(desk, run)}" for run in left]
    _look(desk, result, runs, wild)


def _harm(desk: UpDesk, chance: random.Random, result: Result, kills: list[str], runs: list[str]) -> None:
    """One kill, then a disk that is full, with a kill in the midst of it, and one more kill."""
    before, within, after = kills
    until(lambda: _in_work(desk), "a step is in work", PATIENCE)
    time.sleep(chance.uniform(0.0, 3.0))
    _killed(desk, before)
    time.sleep(chance.uniform(0.0, 4.0))
    seconds = chance.uniform(0.6, 1.6) * desk.pace.lease
    until(desk.is_well, "all workers are there again", PATIENCE)
    until(lambda: desk.members(within), f"{within} runs", PATIENCE)
    with filled(desk.processes.home):
        time.sleep(seconds / 2)
        desk.killed(within)
        time.sleep(seconds / 2)
    took = _back(desk, runs)
    result.notes.append(f"{before}; full {seconds:.0f} s and {within}: back in {took:.1f} s; {after}")
    if took > (PATIENCE if within in ("up", "supervisord") else ROOM_SECONDS):  # all is started anew
        result.findings.wrong.append(f"nothing goes on within {took:.1f} s of the space ({within} killed)")
    time.sleep(chance.uniform(0.0, 4.0))
    _killed(desk, after)


def _killed(desk: UpDesk, name: str) -> None:
    until(lambda: desk.members(name), f"{name} runs", PATIENCE)
    desk.killed(name)


def _in_work(desk: UpDesk) -> bool:
    with suppress(DBAPIError), desk.store.read() as session:
        return session.exec(select(Step.id).where(Step.state == StepState.RUNNING)).first() is not None
    return False


def _back(desk: UpDesk, runs: list[str]) -> float:
    """Seconds until a step begins or ends; none where all runs had ended."""
    began = time.monotonic()
    seen = _moves(desk, runs)
    while time.monotonic() < began + PATIENCE:
        time.sleep(0.1)
        if _moves(desk, runs) != seen:
            return time.monotonic() - began
        if all(desk.run(run).state in RUN_FINAL for run in runs):
            return 0.0
    return float("inf")


def _moves(desk: UpDesk, runs: list[str]) -> set[tuple[str, int, str]]:
    return {(step.id, step.attempt, step.state) for step in desk.steps(*runs)}


def _standing(desk: UpDesk, run_id: str) -> str:
    return desk.command(*desk_command("status", run_id[:SHORT_ID])).stdout[-600:]


def _look(desk: UpDesk, result: Result, runs: list[str], wild: Wild) -> None:
    ruled = runs[BY_RULES + 1]
    found = check(desk, [run for run in runs if run != ruled])
    found.add(check(desk, [ruled], Expected(whole=False)))
    with desk.store.read() as session:
        found.wrong += _unrecorded(session, wild, desk.excused, result)
        found.wrong += _unheld(session, wild, runs)
    _next_day(desk)
    with desk.store.read() as session:
        found.wrong += _books(session, runs, result)
    result.findings.add(found)


def _unrecorded(session: Session, wild: Wild, excused: set[tuple[str, int]], result: Result) -> list[str]:
    """Return the turns with a rogue call that is not on record. One that was made in the moment of a kill, or while the
    disk was full, may be none."""
    found, gone = [], 0
    for one in wild.made:
        rows = session.exec(
            select(ToolCall.id)
            .join(Turn)
            .where(Turn.step_id == one.step_id, Turn.attempt == one.attempt, col(ToolCall.rogue).is_not(None))
        ).all()
        if not rows and (one.step_id, one.attempt) in excused:
            gone += 1
        elif not rows:
            found.append(f"the rogue call of {one.role}, step {one.step_id} attempt {one.attempt}, is no row")
    killed = sum((one.step_id, one.attempt) in excused for one in wild.made)
    result.notes.append(f"{len(wild.made)} turns with a rogue call; of {killed} of killed workers {gone} have no row")
    return found


def _unheld(session: Session, wild: Wild, runs: list[str]) -> list[str]:
    """Return the orders that rest on a rogue call and were not held for a person."""
    found = []
    steps = {one.step_id for one in wild.made}
    for order in session.exec(select(Order).where(col(Order.run_id).in_(runs))).all():
        hits = session.exec(select(ScreenHit.step_id).where(ScreenHit.symbol == order.symbol)).all()
        own = select(Step.id).where(
            Step.run_id == order.run_id, (Step.subject == order.symbol) | (Step.kind == StepKind.DECIDE)
        )
        rests = {*hits, *session.exec(own).all()} & steps
        asked = session.exec(select(Approval.id).where(Approval.order_id == order.id)).first()
        if rogue_calls.of_steps(session, rests) and asked is None and order.state != OrderState.DENIED:
            found.append(f"order {order.id} on {order.symbol} is {order.state}, and rests on a rogue call")
    return found


def _next_day(desk: UpDesk) -> None:
    """Let the next day come, on which what rests is filled."""
    today = DAYS.index(desk.processes.environ["DESK_REPLAY_DATE"])
    desk.switched_to(DESK_REPLAY_DATE=DAYS[today + 1])

    def done() -> bool:
        with suppress(DBAPIError), desk.store.read() as session:
            open_ = (col(Order.state).in_(ORDER_WORKING), col(Order.protects).is_(None))
            return not session.exec(select(Order.id).where(*open_)).all()
        return False

    with suppress(AssertionError):
        until(done, "the next day's fills are booked", PATIENCE)


def _books(session: Session, runs: list[str], result: Result) -> list[str]:
    """Return how positions and cash differ from the fills, and orders that were left open, but for those that protect a
    position and rest until their price is reached."""
    orders = session.exec(select(Order).where(col(Order.run_id).in_(runs))).all()
    states = Counter(order.state for order in orders)
    open_ = [order for order in orders if order.state in ORDER_WORKING and order.protects is None]
    found = [f"order {order.id} is {order.state}" for order in open_]
    fills = session.exec(select(Fill)).all()
    held: dict[str, Any] = {}
    account = session.exec(select(Account)).first()
    cash = exact(100_000)
    for fill in fills:
        sign = 1 if fill.side == "buy" else -1
        held[fill.symbol] = held.get(fill.symbol, 0) + sign * exact(fill.quantity)
        cash -= sign * exact(fill.quantity) * exact(fill.price) + exact(fill.commission)
    counted = ", ".join(f"{number} {state}" for state, number in sorted(states.items()))
    result.notes.append(f"orders: {counted}; {len(fills)} fills in the books")
    there = {row.symbol: exact(row.quantity) for row in session.exec(select(Position)).all()}
    if there != {symbol: quantity for symbol, quantity in held.items() if quantity}:
        found.append(f"positions are {there}, the fills say {held}")
    if account is None or abs(exact(account.cash) - cash) > exact(0.01):
        found.append(f"cash is {account and account.cash}, the fills say {cash}")
    return found
