"""A whole desk of separate processes on a model's server, and what is read of its runs."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TypeVar

from sqlmodel import Session, col, select

from chordesk.models.states import RUN_FINAL
from chordesk.models.tables.orders import Order
from chordesk.models.tables.runs import Report, Run, Turn
from tests.constants import constants
from tests.real.server import MODEL, LlamaServer
from tests.stack import REPOSITORY, Processes, processes, wait_for

T = TypeVar("T")
RUN_SECONDS = 1_200.0  # on a machine that does much else beside
COMMAND_SECONDS = 1_200.0
UNSENT = ("drafted", "denied", "previewed", "approval_pending", "approved")
# A bound on each answer keeps a run of a model that rambles short, as anybody would set it for such a model.
LIMITS = {"DESK_TURN_SECONDS": "400", "DESK_OUTPUT_TOKENS": "500"}
ONE_ROLE = {"DESK_RESEARCH_ROLES": "risk"}


@dataclass(slots=True)
class RealDesk:
    """runs: ids of those begun here, in their order."""

    processes: Processes
    server: LlamaServer
    runs: list[str] = field(default_factory=list)

    def command(self, *arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
        """Return a `desk` command when it has ended."""
        return subprocess.run(
            [sys.executable, "-m", "chordesk.tasks.cli.main", *arguments], cwd=REPOSITORY,
            env=self.processes.environ | environ, capture_output=True, text=True, check=False,
            timeout=COMMAND_SECONDS, stdin=subprocess.DEVNULL,
        )  # fmt: skip

    def opened(self, *arguments: str, **environ: str) -> str:
        """Return the id of a run that a command opens, which is not waited for."""
        done = self.command(*arguments, "--no-wait", "--json", **environ)
        assert done.returncode == 0, said(done)
        id_ = str(json.loads(done.stdout)["run_id"])
        self.runs.append(id_)
        return id_

    def ended(self, id_: str) -> Run:
        """Return a run when it has ended."""
        wait_for(lambda: self.run(id_).state in RUN_FINAL, f"run {id_} ends", RUN_SECONDS)
        return self.run(id_)

    def run(self, id_: str) -> Run:
        return self._read(lambda session: session.get_one(Run, id_))

    def turns(self, *ids: str) -> Sequence[Turn]:
        wanted = select(Turn).where(col(Turn.run_id).in_(ids)).order_by(col(Turn.started_at))
        return self._read(lambda session: session.exec(wanted).all())

    def reports(self, id_: str) -> Sequence[Report]:
        return self._read(lambda session: session.exec(select(Report).where(Report.run_id == id_)).all())

    def sent(self) -> Sequence[str]:
        """Return the orders that left the desk, or may have."""
        wanted = select(Order.id).where(col(Order.state).not_in(UNSENT))
        return self._read(lambda session: session.exec(wanted).all())

    def await_writing(self) -> None:
        wait_for(self.server.writing, "the server writes", RUN_SECONDS)

    def await_idle(self, seconds: float) -> float:
        """Return after how many seconds no slot generates any more."""
        began = time.monotonic()
        wait_for(lambda: self.server.busy() == 0, "the server's slots are idle", seconds)
        return time.monotonic() - began

    def _read(self, ask: Callable[[Session], T]) -> T:
        with self.processes.app.desk.store.read() as session:
            return ask(session)


@contextmanager
def desk_on(server: LlamaServer, **environ: str) -> Iterator[RealDesk]:
    """Yield a whole desk on a server, whose broker would take an order; it ends with the block."""
    given = {
        "DESK_PROVIDER": "local",
        "DESK_PROVIDER_URL": server.url,
        "DESK_MODEL": MODEL,
        "DESK_PREMARKET": "off",
        "DESK_MIDDAY": "off",
        **constants(SWEEP_SECONDS=3),
        "TRADER_LIVE": "1",
    }
    with processes(True, **given, **LIMITS, **environ) as desk:
        desk.workers("research", "ops", "trade")
        yield RealDesk(desk, server)


def outcomes(reports: Sequence[Report]) -> dict[str, int]:
    """Return how many reports have each status, failures by their kind."""
    return dict(Counter(_outcome(report) for report in reports).most_common())


def _outcome(report: Report) -> str:
    kind = (report.reason or "").partition(":")[0]
    return f"{report.status} {kind}" if report.status == "failed" else str(report.status)


def said(done: subprocess.CompletedProcess[str]) -> str:
    """Return what a command printed, in one line."""
    return " ".join((done.stdout + done.stderr).split())
