"""`desk api` as a process on loopback, and the ways to ask it: well-behaved ones, and raw ones for the others."""

from __future__ import annotations

import contextlib
import datetime as dt
import json
import re
import socket
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import httpx
import psutil
import redis
from sqlmodel import select

from chordesk.models import event_log
from chordesk.models.database.blobs import digest_of, keep
from chordesk.models.database.store import Store
from chordesk.models.events import EventType, event
from chordesk.models.states import RunKind, RunState
from chordesk.models.tables.board import Episode, EpisodeQuestion
from chordesk.models.tables.columns import utcnow
from chordesk.models.tables.runs import Artifact, BacktestSession, Run, ToolCall, Turn
from chordesk.tasks.events.deltas import CHANNEL
from tests.builders import a_run
from tests.patience import PATIENCE
from tests.stack import Processes, processes, wait_for
from tests.tools.questions.rows import person_question

BY = {"by": "Ann Lee"}
_LISTENING = re.compile(r"listening on (http://\S+), the token is in (.+)")


@dataclass(slots=True)
class Service:
    """A running service, its desk and the desk's database."""

    processes: Processes
    store: Store
    url: str
    token: str

    @property
    def port(self) -> int:
        return int(self.url.rpartition(":")[2])

    def client(self, **headers: str) -> httpx.Client:
        """Shows the token unless another Authorization is given."""
        return httpx.Client(
            base_url=self.url, headers={"Authorization": f"Bearer {self.token}", **headers}, timeout=PATIENCE
        )

    def raw(self, request: str) -> int:
        """The status that answers these bytes, for what no client library would send."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=PATIENCE) as connection:
            connection.sendall(request.replace("\n", "\r\n").encode())
            return int(connection.recv(4096).split()[1])

    def listens(self) -> bool:
        """Whether the service listens to deltas: it does while a stream with deltas is read."""
        with redis.Redis.from_url(self.processes.environ["DESK_REDIS_URL"]) as client:
            return bool(client.pubsub_numsub(CHANNEL)[0][1])

    def connections(self) -> int:
        """Count the connections of clients and of the service's own."""
        process = psutil.Process(self.processes.running["api"].pid)
        return sum(one.status == psutil.CONN_ESTABLISHED for one in process.net_connections(kind="tcp"))

    def add_events(self, run_id: str, count: int) -> None:
        """So many events of a run, in one transaction."""
        with self.store.session() as session:
            event_log.append(session, [event(EventType.TOOL_COMPLETED, run_id, tool="t", n=n) for n in range(count)])

    def end_run(self, run_id: str) -> None:
        """As the desk ends a run: its state and its last event in one transaction."""
        with self.store.session() as session:
            run = session.get_one(Run, run_id)
            run.state = "done"
            session.add(run)
            event_log.append(session, [event(EventType.RUN_COMPLETED, run_id, state="done")])


def a_picture(running: Service, data: bytes) -> str:
    """Store a picture of the first tool call, as a worker does; return its digest."""
    keep(running.processes.home, data, "image/png")
    with running.store.session() as session:
        turn, call = session.exec(select(Turn, ToolCall.id).join(ToolCall)).first() or (None, "")
        assert turn is not None
        session.add(
            Artifact(
                run_id=turn.run_id, turn_id=turn.id, call_id=call, kind="image/png", digest=digest_of(data),
                size=len(data),
            )
        )  # fmt: skip
    return digest_of(data)


@contextlib.contextmanager
def service(*arguments: str, **environ: str) -> Iterator[Service]:
    """A home, a database, Redis and the service on them."""
    with processes(**environ) as desk:
        url, token = start(desk, *arguments)
        store = Store(desk.settings.database)
        try:
            yield Service(desk, store, url, token)
        finally:
            store.close()


def start(desk: Processes, *arguments: str, environ: Mapping[str, str] | None = None) -> tuple[str, str]:
    """Starts `desk api` and waits until it listens; its URL and the token."""
    before = len(desk.log("api")) if (desk.home / "api.log").exists() else 0
    process = desk.desk("api", "api", *arguments, environ=environ)

    def listening() -> re.Match[str] | None:
        assert process.poll() is None, f"it ended with {process.returncode}: {desk.log('api')[before:]}"
        return _LISTENING.search(desk.log("api"), before)

    wait_for(lambda: listening() is not None, "the service listens")
    found = listening()
    assert found is not None
    return found[1], (desk.home / "run" / "api-token").read_text(encoding="ascii").strip()


@dataclass(frozen=True, slots=True)
class Message:
    """One server-sent event, or a comment."""

    id: int | None = None
    event: str = "message"
    data: Any = None
    comment: str | None = None


def messages(response: httpx.Response) -> Iterator[Message]:
    """Yield the messages of a text/event-stream, as a browser would read it."""
    fields: dict[str, str] = {}
    for line in response.iter_lines():
        if line:
            name, _, value = line.partition(":")
            fields[name] = value.removeprefix(" ")
            continue
        if "" in fields:
            yield Message(comment=fields[""])
        elif fields:
            id_ = int(fields["id"]) if "id" in fields else None
            yield Message(id_, fields.get("event", "message"), json.loads(fields["data"]))
        fields = {}


def a_board(running: Service, run_id: str) -> str:
    """Give a run a board of one question, with its tally; return the question's id."""
    with running.store.session() as session:
        question = person_question(session)
        session.add(EpisodeQuestion(run_id=run_id, question_id=question.id, label="Q1", baseline=0.3))
        session.add(
            Episode(run_id=run_id, account="paper", number=1, rounds=1, content="# Episode 1\n", created_at=utcnow())
        )
        return question.id


def an_experiment(running: Service) -> str:
    """Store two arms' backtests of two sessions; return the experiment's id."""
    days = [dt.date(2010, 8, 9), dt.date(2010, 8, 10)]
    with running.store.session() as session:
        for arm in ("a", "b"):
            run = a_run(session, kind=RunKind.BACKTEST, state=RunState.DONE, finished_at=utcnow(), account=f"of-{arm}")
            run.market = "replay"
            run.params = {
                "backtest": run.id, "days": [str(day) for day in days], "symbols": ["KO"], "experiment": "one",
                "arm": arm,
            }  # fmt: skip
            run.summary = {"backtest": {"capital": 1.0, "returns": {"desk": 0.0, "held": None}}}
            session.add(run)
            session.add_all(
                BacktestSession(
                    backtest_id=run.id, run_id=run.id, day=day, state="done", cash=1.0, equity=1.0, traded=0.0
                )
                for day in days
            )
    return "one"
