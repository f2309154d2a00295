"""The client against a scripted far side: everything the real binary does not do on demand."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest

from chordesk.agents.codex.protocol import ApprovalRouter, Client, declined
from chordesk.agents.runtime import ApprovalDecision, ApprovalKind, ApprovalRequest, ConversationSpec, Scope
from chordesk.models.errors import ProcessDied, RpcError, RpcTimeout
from tests.agents.codex.kit import FINAL, Codex, ignore, one_turn, spec, until
from tests.fakes.responses import Call, FakeResponses, Text
from tests.golden.stage import Collected
from tests.patience import PATIENCE

FAR_SIDE = Path(__file__).parents[3] / "fakes" / "app_server.py"


class ScriptedServer:
    """A client and what it reported."""

    def __init__(self, *argv: str, seconds: float = PATIENCE) -> None:
        self.notified: list[str] = []
        self.deaths: list[ProcessDied] = []
        self.client = Client(
            argv, {}, "/",
            on_notification=lambda method, _params: self.notified.append(method),
            on_request=self.answer, on_death=self.deaths.append, rpc_seconds=seconds, rpcs=64,
        )  # fmt: skip

    async def answer(self, method: str, params: dict[str, Any]) -> dict[str, Any] | None:
        if method == "raise":
            raise ValueError("no such luck")
        return {"served": params} if method == "item/tool/call" else declined(method)


async def started(mode: str, *more: str, seconds: float = PATIENCE) -> ScriptedServer:
    made = ScriptedServer(sys.executable, "-S", str(FAR_SIDE), mode, *more, seconds=seconds)
    answer = await made.client.start(["item/started"])
    assert answer["capabilities"] == {"experimentalApi": True, "optOutNotificationMethods": ["item/started"]}
    return made


async def test_an_unanswered_request_times_out() -> None:
    made = await started("silent")
    with pytest.raises(RpcTimeout, match=r"thread/start was not answered within 0.3 s"):
        await made.client.request("thread/start", {}, 0.3)
    await made.client.close(1)


async def test_an_overloaded_server_is_asked_again() -> None:
    made = await started("overloaded")
    assert await made.client.request("thread/start", {}) == {"attempts": 3}
    await made.client.close(1)


@pytest.mark.parametrize(
    ("method", "expected"),
    [
        ("item/tool/call", {"result": {"served": {"a": 1}}}),
        ("item/commandExecution/requestApproval", {"result": {"decision": "decline"}}),
        ("item/fileChange/requestApproval", {"result": {"decision": "decline"}}),
        ("mcpServer/elicitation/request", {"result": {"action": "decline", "content": None}}),
        ("item/permissions/requestApproval", {"result": {"permissions": {}, "scope": "turn"}}),
        ("never/heard/of", {"error": {"code": -32601, "message": "never/heard/of is not served by this client"}}),
        ("raise", {"error": {"code": -32603, "message": "raise: no such luck"}}),
    ],
)
async def test_server_requests(method: str, expected: dict[str, Any]) -> None:
    made = await started("asks")
    answer = await made.client.request("go", {"method": method, "params": {"a": 1}})
    assert answer["reply"] == {"id": "ask-2", **expected}
    await made.client.close(1)


async def test_no_text_has_a_nul() -> None:
    """Postgres takes none, wherever in a row it is."""
    made = await started("asks")
    answer = await made.client.request("go", {"method": "item/tool/call", "params": {"a": "one\0two"}})
    assert answer["reply"]["result"] == {"served": {"a": "one\ufffdtwo"}}
    await made.client.close(1)


async def test_noise_is_passed_over() -> None:
    made = await started("noisy")
    answer = await made.client.request("thread/list", {})
    assert len(answer["long"]) == 3_000_000
    assert made.notified == ["never/heard/of"]
    await made.client.close(1)


async def test_a_line_of_64_mb_harms_its_own_conversation_alone() -> None:
    made = await started("huge", seconds=PATIENCE)
    with pytest.raises(RpcError, match="more than 16,777,216 bytes"):
        await made.client.request("thread/resume", {})
    answer = await made.client.request("thread/resume", {})
    assert "more than 16,777,216 bytes" in answer["reply"]["error"]["message"]
    assert answer["reply"]["id"] == "ask"
    assert (made.notified, made.deaths) == ([], [])
    await made.client.close(1)


@pytest.mark.parametrize(
    ("how", "why"),
    [((), "exited with code 3: the disk is full"), (("9",), "exited with code -9")],
    ids=["by itself", "killed: nothing that it wrote is the reason"],
)
async def test_a_process_that_ends_fails_every_waiter_at_once_with_the_reason(how: Sequence[str], why: str) -> None:
    made = await started("crashing", *how, seconds=30)
    waiting = [made.client.request("thread/start", {}) for _ in range(10)]
    ended = await asyncio.wait_for(asyncio.gather(*waiting, return_exceptions=True), PATIENCE)
    assert all(isinstance(error, ProcessDied) for error in ended)
    assert str(ended[0]).endswith(why)
    assert len(made.deaths) == 1
    with pytest.raises(ProcessDied):
        await made.client.request("thread/start", {})
    await made.client.close(1)


async def test_close_kills_a_process_that_will_not_end() -> None:
    made = await started("stubborn")
    made.client.post("sleep", {})
    pid = made.client.pid
    await asyncio.sleep(0.2)
    await made.client.close(0.3)
    assert not psutil.pid_exists(pid)


SCOPE = Scope(run_id="run-1", step_id="step-1", attempt=1, role="quick", subject="ACME")
TOUCH = Call("exec_command", json.dumps({"cmd": "touch asked.txt && echo done"}))


class DelayedApprover:
    """Person that answers when the test lets it."""

    def __init__(self) -> None:
        self.asked: list[ApprovalRequest] = []
        self.left: list[float] = []
        self.given_up = 0
        self.decision: asyncio.Future[ApprovalDecision] = asyncio.get_running_loop().create_future()

    async def ask(self, request: ApprovalRequest, scope: Scope, seconds: float) -> ApprovalDecision:
        assert scope in (SCOPE, replace(SCOPE, subject="OTHER"))
        self.asked.append(request)
        self.left.append(seconds)
        try:
            return await asyncio.shield(self.decision)
        except asyncio.CancelledError:
            self.given_up += 1
            raise


def asking(*kinds: ApprovalKind, subject: str = "ACME", keep: bool = False) -> ConversationSpec:
    scope = replace(SCOPE, subject=subject)
    return replace(spec(subject=subject, keep=keep), scope=scope, approvals=frozenset(kinds))


def work_of(home: Path) -> Path:
    return home / "codex" / "w" / "ephemeral" / "work"


async def test_a_command_waits_for_a_person_beyond_the_limit_of_silence(
    model: FakeResponses, codex: Codex, tmp_path: Path
) -> None:
    """Another turn of the process goes on meanwhile, and the command runs when the person approves."""
    person = DelayedApprover()
    async with codex(grace=0.5, asker=person, first_token_seconds=4.0) as runtime:
        model.script(TOUCH)
        waiting = asyncio.create_task(one_turn(runtime, asking("command")))
        await until(lambda: bool(person.asked))
        assert (await one_turn(runtime, asking(subject="OTHER"))).text == FINAL
        await asyncio.sleep(4.5)
        assert not waiting.done()
        assert not (work_of(tmp_path) / "asked.txt").exists()
        person.decision.set_result(ApprovalDecision(approved=True))
        assert (await waiting).text == FINAL
    assert (work_of(tmp_path) / "asked.txt").exists()
    (asked,) = person.asked
    assert asked.kind == "command"
    assert asked.detail["command"].endswith("'touch asked.txt && echo done'")
    assert 0 < person.left[0] <= PATIENCE


async def test_the_turns_deadline_ends_the_wait(model: FakeResponses, codex: Codex, tmp_path: Path) -> None:
    person = DelayedApprover()
    async with codex(grace=0.5, asker=person, turn_seconds=4.0) as runtime:
        model.script(TOUCH)
        result = await one_turn(runtime, asking("command"))
        assert result.failure is not None
        assert result.failure.kind == "timeout"
        await until(lambda: person.given_up == 1)
        person.decision.set_result(ApprovalDecision(approved=True))  # too late: the turn is over
        await asyncio.sleep(0.3)
    assert not (work_of(tmp_path) / "asked.txt").exists()


async def test_a_kept_thread_asks_again_when_it_is_gone_on_with(model: FakeResponses, codex: Codex) -> None:
    """The kinds that a thread may ask for are given anew with each resume; without one its tool is missing. A harmless
    command is asked for as any other is, and none gets a terminal that could be typed into later."""
    person = DelayedApprover()
    person.decision.set_result(ApprovalDecision(approved=False))
    async with codex(grace=0.5, asker=person) as runtime:
        terminal = Call("exec_command", json.dumps({"cmd": "bash", "tty": True}))
        model.script(TOUCH, Text(FINAL), Call("exec_command", '{"cmd":"ls"}'), terminal)
        for _ in range(2):
            assert (await one_turn(runtime, asking("command", keep=True))).text == FINAL
        assert (await one_turn(runtime, asking(keep=True))).text == FINAL
    assert [request.detail["command"] for request in person.asked] == [
        "/bin/bash -lc 'touch asked.txt && echo done'", "/bin/bash -lc ls",
    ]  # fmt: skip
    offered = [seen.tools for seen in model.calls()]
    assert all("exec_command" in tools for tools in offered[:5])
    assert offered[5:] == [["quotes_get"]]
    assert "TTY execution is disabled" in model.calls()[4].body["input"][-1]["output"]


async def test_a_request_that_no_person_is_asked_is_reported(model: FakeResponses, codex: Codex) -> None:
    """A role that may ask for commands asks for more than a person can read, and for a change of files."""
    patch = "apply_patch <<'EOF'\n*** Begin Patch\n*** Add File: notes.txt\n+hello\n*** End Patch\nEOF\n"
    person, collected = DelayedApprover(), Collected()
    async with codex(asker=person, observer=collected) as runtime:
        long = Call("exec_command", json.dumps({"cmd": "echo " + "x" * 20_000}))
        model.script(long, Call("exec_command", json.dumps({"cmd": patch})), Text(FINAL))
        assert (await one_turn(runtime, asking("command"))).text == FINAL
    assert person.asked == []
    reasons = [(one.payload["kind"], one.payload["why"]) for one in collected.envelopes if one.domain == "approval"]
    assert reasons == [
        ("command", "it is too long for a person to read"), ("file_change", "its role may not ask for this"),
    ]  # fmt: skip
    assert "rejected" in json.dumps(model.calls()[-1].body["input"][-1])


async def test_questions_for_secrets_and_changes_that_are_not_shown_are_declined() -> None:
    question = {"id": "q", "header": "h", "question": "Your password?", "isSecret": True, "options": None}
    keys = {"threadId": "t", "turnId": "u", "itemId": "i"}
    asked: Mapping[str, Mapping[str, Any]] = {
        "item/tool/requestUserInput": {**keys, "questions": [question], "isBlocking": True},
        "item/fileChange/requestApproval": {**keys, "startedAtMs": 1},
    }
    why: list[str] = []
    person = DelayedApprover()
    router = ApprovalRouter(
        SCOPE, frozenset({"user_input", "file_change"}), person, lambda _request, reason: why.append(reason)
    )
    answers = [await router.route(method, params, None, 30) for method, params in asked.items()]
    assert answers == [{"answers": {}}, {"decision": "decline"}]
    assert why == ["a secret is asked for, and answers are stored", "what would be changed is not known"]
    assert person.asked == []


async def test_an_asker_that_fails_is_a_refusal() -> None:
    class Failing(DelayedApprover):
        async def ask(self, request: ApprovalRequest, scope: Scope, seconds: float) -> ApprovalDecision:
            raise OSError("no database")

    router = ApprovalRouter(SCOPE, frozenset({"permissions"}), Failing(), ignore)
    params = {"threadId": "t", "turnId": "u", "itemId": "i", "cwd": "/", "permissions": {"network": {"enabled": True}}}
    answer = await router.route("item/permissions/requestApproval", params, None, 30)
    assert answer == {"permissions": {}, "scope": "turn"}
