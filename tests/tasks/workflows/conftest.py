"""One desk of real processes for the whole folder, and the command on it."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from sqlalchemy import delete, update
from sqlmodel import col

from chordesk.models.database.store import Store
from chordesk.models.states import RUN_FINAL, OrderState
from chordesk.models.tables.orders import Account, Fill, Order, Position
from chordesk.models.tables.runs import Run
from chordesk.tasks.workflows.research import open_research
from tests import zygote
from tests.fakes.responses import FakeResponses
from tests.patience import PATIENCE
from tests.stack import REPOSITORY, Processes, processes, wait_for
from tests.tasks.workflows.scripted import Scripted
from tests.tasks.workflows.step_table import undeclared_steps

_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


@dataclass(frozen=True, slots=True)
class CommandResult:
    """Output and exit code of a command."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


@dataclass(slots=True)
class Floor:
    """The desk under test: its processes, its model, its database, its command."""

    processes: Processes
    served: FakeResponses
    model: Scripted
    store: Store
    is_live: bool = False

    def popen(self, *arguments: str, **changes: Any) -> subprocess.Popen[str]:
        environ = {**self.processes.environ, **changes.pop("environ", {})}
        command = [sys.executable, "-m", "chordesk.tasks.cli.main", *arguments]
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, **changes}
        return subprocess.Popen(command, cwd=REPOSITORY, env=environ, **pipes)

    def desk(self, *arguments: str, **environ: str) -> CommandResult:
        done = zygote.run(arguments, {**self.processes.environ, **environ}, REPOSITORY)
        return CommandResult(done.returncode, done.stdout, done.stderr)

    def json(self, *arguments: str) -> Any:
        """The JSON a command that works prints."""
        done = self.desk(*arguments, "--json")
        assert done.code == 0, done.err
        assert done.err == ""
        return done.json

    def terminal(self, *arguments: str, columns: int = 80) -> tuple[int, str]:
        """The command on a terminal of so many columns: its exit code and all it drew."""
        ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
        environ = {"TERM": "xterm-256color", "COLUMNS": "", "LINES": "", "NO_COLOR": ""}
        process = self.popen(*arguments, environ=environ, stdout=theirs, stderr=theirs, stdin=theirs)
        os.close(theirs)
        drawn = b"".join(iter(lambda: _read(ours), b""))
        os.close(ours)
        return process.wait(PATIENCE), drawn.decode()

    def research(self, *symbols: str) -> str:
        """Research run to its end, without the command; its id."""
        run = open_research(self.processes.app, symbols)
        assert self.ended(run.id) == "done"
        return run.id

    def ended(self, run_id: str) -> str:
        """Waits for a run's end; its state."""
        wait_for(lambda: self.state(run_id) in RUN_FINAL, f"run {run_id} ends")
        return self.state(run_id)

    def state(self, run_id: str) -> str:
        with self.store.read() as session:
            return session.get_one(Run, run_id).state

    def live(self, on: bool) -> None:
        """Restart the trade and ops workers, with the switch on or off."""
        for name in ("ops", "trade"):
            self.processes.end(name)
        self.processes.environ["TRADER_LIVE"] = "1" if on else ""
        self.is_live = on
        self.processes.workers("ops", "trade")


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 65536)
    except OSError:  # the far side closed
        return b""


def plain(drawn: str) -> str:
    """Return a drawing without its control sequences."""
    return _ESCAPES.sub("", drawn).replace("\r\n", "\n").replace("\r", "\n")


@pytest.fixture(scope="package")
def shared() -> Iterator[Floor]:
    model = Scripted()
    with (
        FakeResponses(model, log=False) as served,
        processes(DESK_PROVIDER="endpoint", DESK_PROVIDER_URL=served.url, DESK_CODEX_TURNS="24") as running,
    ):
        running.workers("research", "ops", "trade")
        store = Store(running.settings.database)
        yield Floor(running, served, model, store)
        with store.read() as session:
            assert undeclared_steps(session) == set()
        store.close()


@pytest.fixture
def floor(shared: Floor) -> Floor:
    """The shared desk with a model that has nothing to say yet, and no shares in the account."""
    shared.model.reset()
    shared.served.latency = 0.0
    if shared.is_live:
        shared.live(False)
    with shared.store.session() as session:
        # The paper broker's books are made of the fills: without them it holds none of these shares either.
        for table in (Position, Fill):
            session.execute(delete(table))
        session.execute(update(Account).values(cash=Account.opening_cash))
        # A stop that stands since a later day would have brought the books there.
        stops = update(Order).where(col(Order.protects).is_not(None))
        session.execute(stops.values(state=OrderState.CANCELLED))
    return shared
