"""Models that ask a person, through the real app-server: permission, time limits, and what the wait blocks."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from chordesk.agents.codex.protocol import ApprovalRouter
from chordesk.agents.runtime import ApprovalDecision, ApprovalKind, ApprovalRequest, ConversationSpec, Scope
from tests.agents.codex.kit import FINAL, ignore, one_turn, run, running, spec, until
from tests.fakes.responses import Call, FakeResponses, Text
from tests.golden.stage import Collected
from tests.patience import PATIENCE

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


def test_a_command_waits_for_a_person_beyond_the_limit_of_silence(
    model: FakeResponses, tmp_path: Path, registry: str
) -> None:
    """Another turn of the process goes on meanwhile, and the command runs when the person approves."""

    async def work() -> None:
        person = DelayedApprover()
        async with running(model, tmp_path, registry, grace=0.5, asker=person, first_token_seconds=4.0) as runtime:
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

    run(work())


def test_the_turns_deadline_ends_the_wait(model: FakeResponses, tmp_path: Path, registry: str) -> None:
    async def work() -> None:
        person = DelayedApprover()
        async with running(model, tmp_path, registry, grace=0.5, asker=person, turn_seconds=4.0) as runtime:
            model.script(TOUCH)
            result = await one_turn(runtime, asking("command"))
            assert result.failure is not None
            assert result.failure.kind == "timeout"
            await until(lambda: person.given_up == 1)
            person.decision.set_result(ApprovalDecision(approved=True))  # too late: the turn is over
            await asyncio.sleep(0.3)
        assert not (work_of(tmp_path) / "asked.txt").exists()

    run(work())


def test_a_kept_thread_asks_again_when_it_is_gone_on_with(model: FakeResponses, tmp_path: Path, registry: str) -> None:
    """The kinds that a thread may ask for are given anew with each resume; without one its tool is missing. A harmless
    command is asked for as any other is, and none gets a terminal that could be typed into later."""

    async def work() -> None:
        person = DelayedApprover()
        person.decision.set_result(ApprovalDecision(approved=False))
        async with running(model, tmp_path, registry, grace=0.5, asker=person) as runtime:
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

    run(work())


def test_a_request_that_no_person_is_asked_is_reported(model: FakeResponses, tmp_path: Path, registry: str) -> None:
    """A role that may ask for commands asks for more than a person can read, and for a change of files."""
    patch = "apply_patch <<'EOF'\n*** Begin Patch\n*** Add File: notes.txt\n+hello\n*** End Patch\nEOF\n"

    async def work() -> None:
        person, collected = DelayedApprover(), Collected()
        async with running(model, tmp_path, registry, asker=person, observer=collected) as runtime:
            long = Call("exec_command", json.dumps({"cmd": "echo " + "x" * 20_000}))
            model.script(long, Call("exec_command", json.dumps({"cmd": patch})), Text(FINAL))
            assert (await one_turn(runtime, asking("command"))).text == FINAL
        assert person.asked == []
        reasons = [(one.payload["kind"], one.payload["why"]) for one in collected.envelopes if one.domain == "approval"]
        assert reasons == [
            ("command", "it is too long for a person to read"), ("file_change", "its role may not ask for this"),
        ]  # fmt: skip
        assert "rejected" in json.dumps(model.calls()[-1].body["input"][-1])

    run(work())


def test_questions_for_secrets_and_changes_that_are_not_shown_are_declined() -> None:
    question = {"id": "q", "header": "h", "question": "Your password?", "isSecret": True, "options": None}
    keys = {"threadId": "t", "turnId": "u", "itemId": "i"}
    asked: Mapping[str, Mapping[str, Any]] = {
        "item/tool/requestUserInput": {**keys, "questions": [question], "isBlocking": True},
        "item/fileChange/requestApproval": {**keys, "startedAtMs": 1},
    }

    async def work() -> None:
        why: list[str] = []
        person = DelayedApprover()
        router = ApprovalRouter(
            SCOPE, frozenset({"user_input", "file_change"}), person, lambda _request, reason: why.append(reason)
        )
        answers = [await router.route(method, params, None, 30) for method, params in asked.items()]
        assert answers == [{"answers": {}}, {"decision": "decline"}]
        assert why == ["a secret is asked for, and answers are stored", "what would be changed is not known"]
        assert person.asked == []

    run(work())


def test_an_asker_that_fails_is_a_refusal() -> None:
    class Failing(DelayedApprover):
        async def ask(self, request: ApprovalRequest, scope: Scope, seconds: float) -> ApprovalDecision:
            raise OSError("no database")

    async def work() -> None:
        router = ApprovalRouter(SCOPE, frozenset({"permissions"}), Failing(), ignore)
        params = {
            "threadId": "t",
            "turnId": "u",
            "itemId": "i",
            "cwd": "/",
            "permissions": {"network": {"enabled": True}},
        }
        answer = await router.route("item/permissions/requestApproval", params, None, 30)
        assert answer == {"permissions": {}, "scope": "turn"}

    run(work())
