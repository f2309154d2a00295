"""`make card`: one agent loop of 100 model calls under 50 kills, on the desk, on LangGraph and on DBOS, side by side.

The case is Temporal's sdk-python #1890: a loop whose history grows to 209,000 tokens. Each engine meets the same
schedule of SIGKILLs on the same machine, model and PostgreSQL, and is started again at once.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib.metadata
import json
import os
import random
import statistics
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import psutil
import psycopg

from chordesk.models.states import RUN_FINAL, RunState
from chordesk.models.tables.runs import Run
from chordesk.tasks.graphs.workflow import open_graphs
from tests.fakes.chat import FakeChat, send_reply
from tests.fakes.obedient import fill
from tests.fakes.responses import Call, Receive, Seen, Send, Slow, Text
from tests.ordeal.card.material import CALLS, CHARACTERS, LOOKS
from tests.postgres import Server, server
from tests.stack import REPOSITORY, Processes, processes, wait_for

PROGRAMS = Path(__file__).parent
LIMIT = 1_800.0  # seconds of one engine
FACTORY = "tests.ordeal.card.on_desk:build"


@dataclass(slots=True)
class Asked:
    """One model call. number: of the loop's calls, by the answers of tools that it has seen. at: time.monotonic().
    paid: the caller has had the whole answer."""

    number: int
    at: float
    paid: bool = False


class LoopModel(FakeChat):
    """A model that looks at the next part of the material until it has seen all."""

    def __init__(self, latency: float) -> None:
        super().__init__(log=False)
        self.wait = latency
        self.asked: list[Asked] = []

    async def answer(self, seen: Seen, receive: Receive, send: Send) -> None:
        items = seen.body.get("input") or seen.body.get("messages") or []
        number = sum(one.get("type") == "function_call_output" or one.get("role") == "tool" for one in items)
        asked = Asked(number, time.monotonic())
        self.asked.append(asked)
        late = send_reply(
            Slow(self.wait, _reply(seen.body, number)), seen.path, send, stream=bool(seen.body.get("stream"))
        )
        writing, leaving = asyncio.ensure_future(late), asyncio.ensure_future(_left(receive))
        await asyncio.wait((writing, leaving), return_when=asyncio.FIRST_COMPLETED)
        asked.paid = writing.done()
        for task in (writing, leaving):
            task.cancel()
        await asyncio.gather(writing, leaving, return_exceptions=True)

    @property
    def repeated(self) -> int:
        """Calls whose answer had been paid for before."""
        paid: set[int] = set()
        count = 0
        for one in self.asked:
            count += one.number in paid
            if one.paid:
                paid.add(one.number)
        return count


def _reply(body: dict[str, Any], number: int) -> Call | Text:
    schema = (body.get("text") or {}).get("format", {}).get("schema")
    if schema is not None:  # the bridge's calls of tools are answers in a schema
        return Text(json.dumps(fill(schema, str(number), schema, final=number == LOOKS)))
    return Call("look", json.dumps({"number": number})) if number < LOOKS else Text("Seen.")


async def _left(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


class Engine(Protocol):
    def start(self) -> None: ...

    def kill(self) -> None: ...

    def ended(self) -> bool: ...

    def processes(self) -> list[int]: ...


@dataclass(slots=True)
class Program:
    """A program that goes on with its loop when it is started again."""

    python: Path
    file: str
    model: LoopModel
    database: str
    log: Path
    running: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        environ = {
            **os.environ, "DATABASE": self.database, "PYTHONPATH": str(REPOSITORY),
            "OPENAI_API_KEY": "none", "OPENAI_BASE_URL": self.model.url,
        }  # fmt: skip
        with self.log.open("ab") as log:
            command = [self.python, str(PROGRAMS / self.file)]
            self.running = subprocess.Popen(command, cwd=REPOSITORY, env=environ, stdout=log, stderr=log)

    def kill(self) -> None:
        if self.running is not None:
            self.running.kill()
            self.running.wait()

    def ended(self) -> bool:
        code = self.running.poll() if self.running is not None else None
        assert code in (None, 0, -9), self.log.read_text()[-2000:]
        return code == 0

    def processes(self) -> list[int]:
        return [self.running.pid] if self.running is not None else []


@dataclass(slots=True)
class OnDesk:
    """The desk's own processes; the research worker is killed."""

    desk: Processes
    run_id: str = ""

    def start(self) -> None:
        self.desk.start_worker("research")
        if not self.run_id:
            given = {"card": {"messages": [["user", "Begin."]]}}
            self.run_id = open_graphs(self.desk.app, FACTORY, given).id

    def kill(self) -> None:
        self.desk.end("research", 9)

    def ended(self) -> bool:
        with self.desk.app.desk.store.read() as session:
            run = session.get_one(Run, self.run_id)
        assert run.state not in RUN_FINAL or run.state == RunState.DONE, (run.state, run.notes)
        return run.state in RUN_FINAL

    def processes(self) -> list[int]:
        return [process.pid for process in self.desk.running.values()]


@dataclass(slots=True)
class Meter:
    """CPU seconds of processes and their children, by their last look, and the largest size of a database, bytes."""

    processes: Callable[[], list[int]]
    size: Callable[[], int]
    cpu: dict[tuple[int, float], float] = field(default_factory=dict)
    largest: int = 0
    _ending: threading.Event = field(default_factory=threading.Event)

    @contextmanager
    def running(self) -> Iterator[None]:
        watching = threading.Thread(target=self._watch, daemon=True)
        watching.start()
        try:
            yield
        finally:
            self._ending.set()
            watching.join()
            self.look()

    def _watch(self) -> None:
        while not self._ending.wait(0.25):
            self.look()

    def look(self) -> None:
        for pid in self.processes():
            with suppress(psutil.NoSuchProcess):
                root = psutil.Process(pid)
                for process in (root, *root.children(recursive=True)):
                    with suppress(psutil.NoSuchProcess):
                        times = process.cpu_times()
                        self.cpu[process.pid, process.create_time()] = times.user + times.system
        self.largest = max(self.largest, self.size())

    @property
    def seconds(self) -> float:
        return sum(self.cpu.values())


@dataclass(frozen=True, slots=True)
class Row:
    """What one engine came to. repeated: paid calls. largest, kept, written: bytes a byte of content, while it ran, at
    its end, and in the database's log. resumes: seconds from a kill to the next model call. lines: of its program."""

    name: str
    versions: str
    repeated: int
    largest: float
    kept: float
    written: float
    resumes: tuple[float, ...]
    cpu: float
    lines: int

    def __str__(self) -> str:
        p50 = statistics.median(self.resumes)
        p95 = statistics.quantiles(self.resumes, n=20, method="inclusive")[-1]
        figures = (self.largest, self.kept, self.written)
        sizes = " | ".join(f"{figure:.2f}" for figure in figures)
        return (
            f"| {self.name} | {self.versions} | {self.repeated} | {sizes} | {p50:.1f} s | {p95:.1f} s"
            f" | {self.cpu * 1000:.0f} ms | {self.lines} |"
        )


COLUMNS = (
    "engine", "versions", "paid calls repeated", "stored, largest", "stored, at the end", "written",
    "resume p50", "p95", "CPU a call", "lines",
)  # fmt: skip
HEAD = f"| {' | '.join(COLUMNS)} |\n{'|---' * len(COLUMNS)}|"


def measure(
    name: str, versions: str, lines: int, engine: Engine, model: LoopModel, database: Database, kills: int, seed: int
) -> Row:
    """Play the loop to its end under so many kills, and return its figures."""
    draw = random.Random(seed)
    schedule = [(number, draw.uniform(0.0, model.wait + 0.2)) for number in sorted(draw.sample(range(CALLS), kills))]
    before, log_before = database.size(), database.written()
    resumes = []
    meter = Meter(engine.processes, database.size)
    with meter.running():
        engine.start()
        for number, delay in schedule:
            wait_for(lambda number=number: engine.ended() or (model.asked[-1:] and model.asked[-1].number >= number),
                     f"{name} asks for call {number}", LIMIT)  # fmt: skip
            time.sleep(delay)
            meter.look()
            engine.kill()
            at = time.monotonic()
            engine.start()
            wait_for(lambda at=at: engine.ended() or model.asked[-1].at > at, f"{name} goes on", LIMIT)
            resumes.append(time.monotonic() - at)
        wait_for(engine.ended, f"{name} ends", LIMIT)
    assert {one.number for one in model.asked} == set(range(CALLS))
    written = database.written() - log_before
    content = LOOKS * CHARACTERS
    largest = meter.largest
    database.compact()
    return Row(
        name, versions, model.repeated, (largest - before) / content, (database.size() - before) / content,
        written / content, tuple(resumes), meter.seconds / CALLS, lines,
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Database:
    """A database of the server, by its address."""

    url: str

    def _ask(self, text: str) -> int:
        with psycopg.connect(self.url, autocommit=True) as connection:
            found = connection.execute(text.encode())
            row = found.fetchone() if found.description else None
        return int(row[0]) if row else 0

    def size(self) -> int:
        return self._ask("select pg_database_size(current_database())")

    def written(self) -> int:
        return self._ask("select pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::bigint")

    def compact(self) -> None:
        self._ask("vacuum full")


def plain(url: str) -> str:
    """Return an address of the desk's form as libpq takes it."""
    return url.replace("postgresql+psycopg://", "postgresql://")


def version_of(python: Path, *names: str) -> str:
    ask = "import importlib.metadata as m, sys; print(', '.join(f'{n} {m.version(n)}' for n in sys.argv[1:]))"
    return subprocess.run([python, "-c", ask, *names], capture_output=True, text=True, check=True).stdout.strip()


def lines_of(*files: str) -> int:
    """Return the lines of code of programs, without their own account of themselves."""
    texts = [(PROGRAMS / file).read_text().split('"""\n', 1)[1] for file in files]
    return sum(bool(line.strip()) for text in texts for line in text.splitlines())


def on_program(
    name: str, file: str, packages: tuple[str, ...], python: Path, postgres: Server, folder: Path, given: Any
) -> Row:
    with LoopModel(given.latency) as model:
        database = Database(plain(postgres.empty()))
        engine = Program(python, file, model, database.url, folder / f"{file}.log")
        try:
            return measure(
                name, version_of(python, *packages), lines_of(file), engine, model, database, given.kills, given.seed
            )
        finally:
            engine.kill()


def on_desk(postgres: Server, given: Any) -> Row:
    url = postgres.migrated()
    with (
        LoopModel(given.latency) as model,
        processes(
            forked=False, DESK_DATABASE_URL=url, DESK_GRAPHS="tests.ordeal.card.on_desk", DESK_PROVIDER="endpoint",
            DESK_PROVIDER_URL=model.url,
        ) as desk,
    ):  # fmt: skip
        desk.workers("ops")
        desk.desk("beat", "beat")
        name = f"chordesk {importlib.metadata.version('chordesk')}"
        database = Database(plain(url))
        return measure("Chordesk", name, lines_of("on_desk.py"), OnDesk(desk), model, database, given.kills, given.seed)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--venv", type=Path, required=True, help="environment with LangGraph and DBOS")
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1890)
    parser.add_argument("--latency", type=float, default=0.5, help="of a model call, seconds")
    parser.add_argument("engine", nargs="*", default=["desk", "langgraph", "dbos"])
    given = parser.parse_args()
    python = given.venv.absolute() / "bin" / "python"
    with server() as postgres:
        engines = {
            "desk": partial(on_desk, postgres, given),
            "langgraph": partial(
                on_program, "LangGraph", "on_langgraph.py", ("langgraph", "langgraph-checkpoint-postgres"), python,
                postgres, given.venv, given,
            ),
            "dbos": partial(on_program, "DBOS", "on_dbos.py", ("dbos",), python, postgres, given.venv, given),
        }  # fmt: skip
        print(f"{CALLS} model calls of {given.latency:g} s, {LOOKS * CHARACTERS / 1e6:.2f} MB of content, "
              f"{given.kills} kills, seed {given.seed}; PostgreSQL {postgres_version(postgres)}\n")  # fmt: skip
        print(HEAD, flush=True)
        for name in given.engine:
            print(engines[name](), flush=True)


def postgres_version(postgres: Server) -> str:
    with psycopg.connect(plain(postgres.empty())) as connection:
        return str(connection.info.server_version // 10_000)


if __name__ == "__main__":
    main()
