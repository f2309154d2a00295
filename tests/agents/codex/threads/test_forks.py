"""Forks that a person asks for: a thread of its own, from an earlier turn, in another home than the one it grew in."""

from __future__ import annotations

from pathlib import Path

import pytest

from chordesk.agents.codex.rollouts import transcript
from chordesk.agents.codex.runtime import CodexRuntime
from chordesk.models.errors import CodexError, UsageError
from tests.agents.codex.kit import deadline, spec, turn
from tests.agents.codex.threads.test_roaming import history, numbered, record
from tests.agents.codex.threads.test_threads import message_texts
from tests.agents.codex.threads.vaults import Fleet, database_in, kept_threads, vault_over
from tests.fakes.responses import FakeResponses


@pytest.fixture(autouse=True)
def database(tmp_path: Path) -> str:
    return database_in(tmp_path)


async def three_turns(runtime: CodexRuntime) -> None:
    for number in (1, 2, 3):
        async with runtime.conversation(spec(keep=True), deadline()) as conversation:
            await turn(conversation, f"question {number}")


async def test_a_fork_goes_on_from_an_earlier_turn_and_its_parent_does_not_notice(
    model: FakeResponses, registry: str, database: str, fleet: Fleet
) -> None:
    numbered(model)
    async with fleet("worker", "command") as (worker, command):
        await three_turns(worker)
        parent = record(registry)
        wanted = spec(keep=True, subject="ACME#fork-1", model="gpt-5.4")
        fork = await command.fork(wanted, parent, parent.turn_ids[2], deadline())
        assert fork.thread_id != parent.thread_id
        assert (fork.turns, fork.turn_ids, fork.model) == (2, parent.turn_ids[:2], "gpt-5.4")
        # Its next turn is in the worker, which has never seen it.
        async with worker.conversation(wanted, deadline()) as conversation:
            assert (conversation.reason, conversation.thread_id) == ("resumed", fork.thread_id)
            await turn(conversation, "question 3, otherwise")
        assert message_texts(model) == [*history(3)[:-1], "question 3, otherwise"]
        assert model.requests[-1].body["model"] == "gpt-5.4"
        assert record(registry) == parent
        async with command.conversation(spec(keep=True), deadline()) as conversation:
            await turn(conversation, "question 4")
        assert message_texts(model) == [*history(4)[:-1], "question 4"]
    first, second = kept_threads(database)
    assert (second.parent_id, second.role, second.subject) == (first.thread_id, "quick", "ACME#fork-1")
    assert second.before_turn is not None
    assert second.reason == "forked:manual"


async def test_a_whole_history_is_forked_too_and_a_subject_is_taken_once(
    model: FakeResponses, registry: str, fleet: Fleet
) -> None:
    numbered(model)
    async with fleet("worker", "command") as (worker, command):
        await three_turns(worker)
        parent = record(registry)
        wanted = spec(keep=True, subject="ACME#fork-2")
        fork = await command.fork(wanted, parent, None, deadline())
        assert fork.turns == 3
        with pytest.raises(UsageError, match="ACME#fork-2"):
            await command.fork(wanted, parent, None, deadline())
        lost = parent.model_copy(update={"rollout_digest": "0" * 64})
        with pytest.raises(CodexError, match="no copy"):
            await command.fork(spec(keep=True, subject="ACME#fork-3"), lost, None, deadline())


async def test_a_transcript_has_each_turn_with_its_messages(
    model: FakeResponses, registry: str, database: str, fleet: Fleet
) -> None:
    numbered(model)
    async with fleet("worker", "command") as (worker, _):
        await three_turns(worker)
    kept = record(registry)
    with vault_over(database) as vault:
        data = vault.fetch(str(kept.rollout_digest))
    assert data is not None
    turns = transcript(data)
    assert [one.turn_id for one in turns] == list(kept.turn_ids)
    assert [one.prompt for one in turns] == ["question 1", "question 2", "question 3"]
    assert [one.answer for one in turns] == ["answer 1", "answer 2", "answer 3"]
    assert {one.status for one in turns} == {"completed"}
    assert all(one.tokens > 0 and one.started_at is not None and one.seconds is not None for one in turns)
    cut = transcript(data[: data.rindex(b"task_complete")])
    assert [one.status for one in cut] == ["completed", "completed", "unfinished"]
    assert transcript(b'no json\n[1]\n{"type":"event_msg","payload":{"type":"user_message"}}\n') == []
