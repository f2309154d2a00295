"""A model that plays voices, and episodes on real workers."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from sqlmodel import Session, select

from chordesk.models.database.store import Store
from chordesk.models.states import RUN_FINAL
from chordesk.models.tables.runs import Run
from chordesk.tasks.board.episode.opening import open_episode
from tests import zygote
from tests.fakes.responses import FakeResponses, Policy, Reply, Text
from tests.stack import REPOSITORY, Processes, processes, wait_for

SYMBOLS = ("AAPL", "IBM", "HPQ", "KO")
_SUBJECT = re.compile(r"```subject\n(.*?)\n```", re.DOTALL)
Subject = Mapping[str, Any]


@dataclass(slots=True)
class VoiceModel:
    """Answers each voice by `answer`, or what `instead` has for it. subjects: what each turn was given, in order."""

    answer: Callable[[Subject], Mapping[str, Any]]
    instead: dict[str, Reply] = field(default_factory=dict)
    subjects: list[Subject] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)

    def __call__(self, body: dict[str, Any]) -> Reply:
        texts = [part["text"] for item in body["input"] if item["type"] == "message" for part in item["content"]]
        subject = json.loads(_SUBJECT.findall("\n".join(texts))[-1])
        self.subjects.append(subject)
        if subject["voice"] in self.instead:
            return self.instead[subject["voice"]]
        return Text(json.dumps(self.answer(subject)))


def signals_of(subject: Subject, question: Subject) -> list[Subject]:
    """The live signals that concern a question."""
    about = {question["id"], *question["about"]}
    return [
        one for one in subject["signals"] if one["state"] == "live" and (not one["about"] or about & set(one["about"]))
    ]


def forecast(subject: Subject, question: Subject, probability: float, **changes: Any) -> dict[str, Any]:
    """A forecast that builds on the first signal that concerns a question."""
    first = signals_of(subject, question)[0]
    claim = f"I take the {first['tool']} figure as a reason."
    made = {
        "question": question["id"],
        "probability": probability,
        "stake": 0.1,
        "because": f"The {first['tool']} signal moves me.",
        "change": f"The {first['tool']} signal turns.",
        "citations": [{"signal": first["id"], "stance": "build", "claim": claim}],
        "chain": [],
    }
    return {**made, **changes}


def all_at(probability: float) -> Callable[[Subject], Mapping[str, Any]]:
    """Forecasts of every question at one probability."""
    return lambda subject: {"forecasts": [forecast(subject, one, probability) for one in subject["questions"]]}


@dataclass(frozen=True, slots=True)
class Floor:
    """A desk of real processes with its database."""

    processes: Processes
    store: Store

    def json(self, *arguments: str, code: int = 0, **environ: str) -> Any:
        """The JSON that a command prints."""
        done = zygote.run((*arguments, "--json"), {**self.processes.environ, **environ}, REPOSITORY)
        assert done.returncode == code, done.stderr
        return json.loads(done.stdout)

    def text(self, *arguments: str, code: int = 0, **environ: str) -> str:
        """All that a command prints."""
        done = zygote.run(arguments, {**self.processes.environ, **environ}, REPOSITORY)
        assert done.returncode == code, done.stderr
        return str(done.stdout + done.stderr)

    def held(self, symbols: tuple[str, ...] = SYMBOLS, rounds: int = 2) -> Run:
        """An episode at its end."""
        run = open_episode(self.processes.app, symbols, rounds=rounds)
        assert run is not None
        wait_for(lambda: self.run(run.id).state in RUN_FINAL, "the episode ends")
        return self.run(run.id)

    def run(self, run_id: str) -> Run:
        with self.store.read() as session:
            return session.get_one(Run, run_id)

    def rows(self, table: Any, run_id: str) -> list[Any]:
        with self.store.read() as session:
            return rows(session, table, run_id)


def rows(session: Session, table: Any, run_id: str) -> list[Any]:
    return list(session.exec(select(table).where(table.run_id == run_id)).all())


@contextmanager
def floor(model: Policy | None = None, **environ: str) -> Iterator[Floor]:
    """With workers, and the rulebook where no model is given."""
    if model is None:
        with processes(**environ) as made:
            made.rulebook()
            made.workers("research", "ops", "trade")
            yield Floor(made, made.app.desk.store)
        return
    with (
        FakeResponses(model, log=False) as served,
        processes(DESK_PROVIDER="endpoint", DESK_PROVIDER_URL=served.url, **environ) as made,
    ):
        made.workers("research", "ops", "trade")
        yield Floor(made, made.app.desk.store)
