"""Two workers, each a process with a home of its own: one Redis and one database are all that they share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.agents.codex.kit import run, until
from tests.agents.codex.threads.one_worker import OneWorker
from tests.agents.codex.threads.test_roaming import history, numbered, record
from tests.agents.codex.threads.test_threads import message_texts
from tests.agents.codex.threads.vaults import copies, database_in, kept_threads
from tests.fakes.responses import FakeResponses, Silence, Text

Worker = Callable[[str], OneWorker]


@pytest.fixture
def database(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return str(request.getfixturevalue("postgres_url")) if hasattr(request, "param") else database_in(tmp_path)


@pytest.fixture
def worker(model: FakeResponses, tmp_path: Path, registry: str, database: str) -> Worker:
    """A worker of a name, in the home of that name."""
    return lambda name: OneWorker(name, str(tmp_path / name), model.url, registry, database)


@pytest.mark.postgres
@pytest.mark.parametrize("database", ["postgres"], indirect=True)
def test_two_worker_processes_take_turns_in_one_thread(
    model: FakeResponses, registry: str, database: str, worker: Worker
) -> None:
    """Separate processes and homes; only Redis and the database are shared."""
    numbered(model)
    with worker("a") as first, worker("b") as second:
        done = []
        for number in range(1, 6):
            done.append((first, second)[number % 2].turn(f"question {number}"))
            assert message_texts(model) == history(number)
            assert record(registry).generation == number
            assert record(registry).owner.partition("@")[0] == "ab"[number % 2]
    assert {one["thread_id"] for one in done} == {done[0]["thread_id"]}
    assert [one["reason"] for one in done] == ["initial"] + ["resumed"] * 4
    last = record(registry)
    assert (last.turns, last.turn_ids) == (5, tuple(one["turn_id"] for one in done))
    assert last.last_turn_id == done[-1]["turn_id"]
    kept = copies(database, last.thread_id)
    assert [copy.generation for copy in kept] == list(range(1, 6))
    assert [copy.token for copy in kept] == sorted({copy.token for copy in kept}), "fencing tokens must grow"
    assert kept[-1].digest == last.rollout_digest
    [thread] = kept_threads(database)
    assert (thread.thread_id, thread.role, thread.subject, thread.reason) == (
        last.thread_id, "quick", "ACME", "initial",
    )  # fmt: skip


def test_killing_the_owner_within_a_turn_loses_that_turn_alone(model: FakeResponses, worker: Worker) -> None:
    async def asked() -> None:
        await until(lambda: len(model.requests) == 2)

    model.script(Text("answer 1"), Silence(60), Text("answer 2"), Text("answer 3"))
    with worker("b") as second:
        with worker("a") as first:
            first.turn("question 1")
            first.ask("lost")
            run(asked())
            first.kill()
        assert second.turn("question 2")["reason"] == "resumed"
        assert message_texts(model) == history(2)
    # The home of the one that was killed still has the lost turn's beginning in its file: it is not gone on with.
    with worker("a") as first:
        assert first.turn("question 3")["reason"] == "resumed"
    assert message_texts(model) == history(3)
