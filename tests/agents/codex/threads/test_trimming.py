"""What a run that goes on with a kept thread sends of its earlier turns; the real app-server reads the rollouts."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from chordesk.agents.codex.rollouts import ThreadVault, transcript, trimmed
from chordesk.agents.codex.runtime import CodexRuntime
from chordesk.agents.runtime import ConversationSpec
from tests.agents.codex.kit import Codex, deadline, spec, turn
from tests.agents.codex.threads.test_roaming import record
from tests.agents.codex.threads.vaults import copies, database_in, vault_over
from tests.fakes.responses import Call, FakeResponses, Text, answered

NOTE = "[An earlier question of "


@pytest.fixture
def database(tmp_path: Path) -> str:
    return database_in(tmp_path)


@pytest.fixture
def vault(database: str) -> Iterator[ThreadVault]:
    with vault_over(database) as made:
        yield made


@pytest.fixture(autouse=True)
def calling(model: FakeResponses) -> None:
    """A model that calls a tool in each turn, and answers with the number of the question."""

    def policy(body: dict[str, Any]) -> Call | Text:
        if not answered(body):
            return Call("quotes_get", '{"symbols":["ACME"]}')
        return Text(f"answer to {texts(body)[-1]}")

    model.policy = policy


def texts(body: dict[str, Any], *roles: str) -> list[str]:
    wanted = roles or ("user",)
    return [item["content"][0]["text"] for item in body["input"] if item.get("role") in wanted]


async def ask(runtime: CodexRuntime, kept: ConversationSpec, *numbers: int) -> None:
    for number in numbers:
        async with runtime.conversation(kept, deadline()) as conversation:
            await turn(conversation, f"question {number}")


@pytest.mark.parametrize(("answers", "left"), [(0, []), (2, [2, 3])])
async def test_a_run_sends_the_last_answers_of_a_thread_and_nothing_that_tools_answered(
    model: FakeResponses, codex: Codex, registry: str, database: str, vault: ThreadVault, answers: int, left: list[int]
) -> None:
    async with codex(vault=vault, thread_answers=answers) as runtime:
        await ask(runtime, spec(keep=True), 1, 2, 3, 4)
    first, last = [seen.body for seen in model.calls()][-2:]
    sent = texts(first, "user", "assistant")
    assert sent[1::2] == [f"answer to question {number}" for number in left]
    assert [text[: len(NOTE)] for text in sent[:-1:2]] == [NOTE] * len(left)
    assert sent[-1] == "question 4"
    assert [item["type"] for item in first["input"]].count("function_call_output") == 0
    assert [item["type"] for item in last["input"]].count("function_call_output") == 1, "of the turn itself"
    assert record(registry).reason == "resumed"


async def test_the_kept_copy_stays_whole(
    model: FakeResponses, codex: Codex, registry: str, database: str, vault: ThreadVault
) -> None:
    async with codex(vault=vault, thread_answers=1) as runtime:
        await ask(runtime, spec(keep=True), 1, 2, 3)
    kept = copies(database, record(registry).thread_id)[-1]
    data = vault.fetch(kept.digest)
    assert data is not None
    whole = [(one.prompt, one.answer, one.status) for one in transcript(data)]
    assert whole == [(f"question {n}", f"answer to question {n}", "completed") for n in (1, 2, 3)]
    assert data.count(b'"function_call_output"') == 3
    short = trimmed(data, 1)
    assert short.count(b'"function_call_output"') == 0
    assert trimmed(short, 1) == short
    assert transcript(short) == transcript(data), "its events are not what the model is sent"


async def test_a_persons_fork_has_the_whole_history_and_no_limits(
    model: FakeResponses, codex: Codex, registry: str, vault: ThreadVault
) -> None:
    own = replace(spec(keep=True, subject="ACME#fork-1"), whole=True)
    async with codex(vault=vault, thread_answers=1) as runtime:
        await ask(runtime, spec(keep=True), 1, 2, 3)
        parent = record(registry)
        fork = await runtime.fork(own, parent, parent.turn_ids[2], deadline())
        assert fork.turn_ids == parent.turn_ids[:2]
    async with codex(vault=vault, thread_tokens=1, thread_answers=1) as runtime:
        await ask(runtime, own, 5)
    assert texts(model.requests[-1].body) == ["question 1", "question 2", "question 5"]


@pytest.mark.parametrize("line", [b"{", b"[]", b'{"type":"response_item"}', json.dumps({"type": 1}).encode()])
def test_a_rollout_that_cannot_be_read_is_left_as_it_is(line: bytes) -> None:
    rows = [{"type": "event_msg", "payload": {"type": "task_started", "started_at": 1}}]
    rows += [{"type": "response_item", "payload": {"type": "function_call_output", "output": "old"}}]
    rollout = b"\n".join(json.dumps(row).encode() for row in rows) + b"\n"
    assert b"old" not in trimmed(rollout, 1)
    assert trimmed(rollout + line + b"\n", 1) == rollout + line + b"\n"
