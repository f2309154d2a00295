"""The scenes that are recorded: what the model's stand-in answers, and what the desk does meanwhile."""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from chordesk.agents.codex import threads
from chordesk.agents.codex.protocol import thread_settings
from chordesk.agents.codex.threads import OpenedThread
from chordesk.agents.runtime import ApprovalDecision, ApprovalKind, ConversationSpec, ThreadRecord
from tests.agents.codex.kit import FINAL, Kit, spec
from tests.fakes.responses import Call, Cut, Failing, Policy, Refusal, Reply, Silence, Status, Streamed, Text
from tests.golden.plain import GONE
from tests.golden.stage import SCOPE, Stage

Play = Callable[[Stage], Awaitable[None]]

PATCH = "apply_patch <<'EOF'\n*** Begin Patch\n*** Add File: notes.txt\n+hello\n*** End Patch\nEOF\n"
QUESTION = {
    "id": "size", "header": "Size", "question": "How large may it be?",
    "options": [{"label": "small", "description": "a tenth"}, {"label": "large", "description": "a fifth"}],
}  # fmt: skip
NETWORK = {"reason": "to look it up", "permissions": {"network": {"enabled": True}}}


@dataclass(frozen=True, slots=True)
class Scene:
    """replies: what the model answers, one call after the other; or policy, which sees each call."""

    play: Play
    replies: Sequence[Reply] = ()
    policy: Policy | None = None
    changes: Mapping[str, Any] = field(default_factory=dict)


def wanted(tools: Kit | None = None, *, keep: bool = False, approvals: Sequence[ApprovalKind] = ()) -> ConversationSpec:
    return replace(spec(tools, keep=keep), scope=SCOPE, approvals=frozenset(approvals))


async def _one_turn(stage: Stage, asked: ConversationSpec) -> None:
    opened = await threads.start(stage.server, asked, "initial")
    async with stage.conversation(asked, opened) as conversation:
        await stage.turn(conversation)


async def plain(stage: Stage) -> None:
    await _one_turn(stage, wanted())


async def tools(stage: Stage) -> None:
    """One that answers, one that raises, and one that there is not."""

    async def quotes(_arguments: Mapping[str, Any]) -> dict[str, Any]:
        return {"price": 1.25}

    async def news(_arguments: Mapping[str, Any]) -> dict[str, Any]:
        raise RuntimeError("the feed is broken")

    await _one_turn(stage, wanted(Kit(quotes_get=quotes, news_list=news)))


async def interrupted(stage: Stage) -> None:
    asked = wanted()
    opened = await threads.start(stage.server, asked, "initial")
    async with stage.conversation(asked, opened) as conversation:
        stage.on_started = lambda _turn_id: conversation.interrupt()
        await stage.turn(conversation)


async def died(stage: Stage) -> None:
    """The process is killed while it waits for a tool."""

    async def deadly(_arguments: Mapping[str, Any]) -> dict[str, Any]:
        await stage.server.client.kill()
        return {}

    await _one_turn(stage, wanted(Kit(quotes_get=deadly)))


async def kept(stage: Stage) -> None:
    """A kept thread is started, gone on with, and forked at its first turn."""
    asked = wanted(keep=True)
    opened = await threads.start(stage.server, asked, "initial")
    async with stage.conversation(asked, opened) as conversation:
        first = await stage.turn(conversation, "What of ACME?")
    again = await threads.resume_or_start(stage.server, asked, _record(stage, asked, opened, first.turn_id), None)
    async with stage.conversation(asked, again) as conversation:
        await stage.turn(conversation, "And today?")
    record = _record(stage, asked, opened, first.turn_id)
    fork = await threads.fork_or_start(stage.server, asked, record, None, "retry")
    async with stage.conversation(asked, fork) as conversation:
        await stage.turn(conversation, "And otherwise?")


def _record(stage: Stage, asked: ConversationSpec, opened: OpenedThread, turn_id: str) -> ThreadRecord:
    record = threads.wanted_record(asked, stage.server, "home", "owner")
    return record.model_copy(update={"thread_id": opened.thread_id, "last_turn_id": turn_id})


async def no_such_thread(stage: Stage) -> None:
    """A thread that is gone: a fresh one takes its place."""
    asked = wanted(keep=True)
    record = _record(stage, asked, OpenedThread(GONE, "initial"), "none")
    opened = await threads.resume_or_start(stage.server, asked, record, None)
    async with stage.conversation(asked, opened) as conversation:
        await stage.turn(conversation)


async def command_approved(stage: Stage) -> None:
    await _one_turn(stage, wanted(approvals=["command"]))


async def command_denied(stage: Stage) -> None:
    stage.person.decision = ApprovalDecision(approved=False)
    await _one_turn(stage, wanted(approvals=["command"]))


async def patch_approved(stage: Stage) -> None:
    await _one_turn(stage, wanted(approvals=["file_change"]))


async def patch_not_allowed(stage: Stage) -> None:
    """A role that may ask for commands asks for a change of files."""
    await _one_turn(stage, wanted(approvals=["command"]))


async def permissions_approved(stage: Stage) -> None:
    await _one_turn(stage, wanted(approvals=["permissions"]))


async def question_answered(stage: Stage) -> None:
    stage.person.decision = ApprovalDecision(approved=True, answers={"size": ["small"]})
    await _one_turn(stage, wanted(approvals=["user_input"]))


async def with_an_approval_id(stage: Stage) -> None:
    """Typing into a terminal that was approved is asked for by an id of its own. The desk's own threads get none, so
    that this one is started with one."""
    asked = wanted(approvals=["command"])
    terminal = thread_settings(asked.approvals)
    terminal["config"] = {**terminal["config"], "features.unified_exec_tty": True}
    answer = await stage.server.client.request(
        "thread/start",
        {
            "model": asked.model, "modelProvider": stage.server.launch.model_provider, "ephemeral": True,
            "baseInstructions": asked.base_instructions, "cwd": str(stage.server.work), **terminal,
        },
    )  # fmt: skip
    async with stage.conversation(asked, OpenedThread(answer["thread"]["id"], "initial")) as conversation:
        await stage.turn(conversation)


def _typing(body: dict[str, Any]) -> Reply:
    """Starts a command in a terminal outside the sandbox, types into it, and answers."""
    outputs = [str(item["output"]) for item in body["input"] if item.get("type") == "function_call_output"]
    if not outputs:
        terminal = {"cmd": "cat", "tty": True, "yield_time_ms": 300, "justification": "to see"}
        return Call("exec_command", json.dumps({**terminal, "sandbox_permissions": "require_escalated"}))
    session = re.search(r"session ID (\d+)", outputs[0])
    if len(outputs) == 1 and session is not None:
        return Call("write_stdin", json.dumps({"session_id": int(session[1]), "chars": "hi\n", "yield_time_ms": 300}))
    return Text(FINAL)


def _calls(name: str, **arguments: Any) -> Call:
    return Call(name, json.dumps(arguments))


_TOUCH = (_calls("exec_command", cmd="touch notes.txt && echo done"), Text(FINAL))
_PATCH = (_calls("exec_command", cmd=PATCH), Text(FINAL))

SCENES: Mapping[str, Scene] = {
    "completed": Scene(plain, [Text(FINAL)]),
    "tools": Scene(tools, [_calls("quotes_get", symbols=["ACME"]), Call("news_list"), Call("none"), Text(FINAL)]),
    "deltas": Scene(plain, [Streamed(FINAL, 4)], changes={"deltas": True}),
    "interrupted": Scene(interrupted, [Silence(20)]),
    "failed": Scene(plain, [Status(400, {"error": {"message": "bad field"}})]),
    "tried_again": Scene(plain, [Cut(), Text(FINAL)]),
    "limited": Scene(plain, [Failing("rate_limit_exceeded", "try again in 1s"), Failing("rate_limit_exceeded")]),
    "refused": Scene(plain, [Refusal("I will not.")]),
    "policy": Scene(plain, [Failing("cyber_policy", "this is not allowed")]),
    "died": Scene(died, [Call("quotes_get")]),
    "kept": Scene(kept, [Text(FINAL)] * 3),
    "no_such_thread": Scene(no_such_thread, [Text(FINAL)]),
    "command_approved": Scene(command_approved, _TOUCH),
    "command_denied": Scene(command_denied, _TOUCH),
    "patch_approved": Scene(patch_approved, _PATCH),
    "patch_not_allowed": Scene(patch_not_allowed, _PATCH),
    "permissions_approved": Scene(permissions_approved, [_calls("request_permissions", **NETWORK), Text(FINAL)]),
    "question_answered": Scene(question_answered, [_calls("request_user_input", questions=[QUESTION]), Text(FINAL)]),
    "approval_id": Scene(with_an_approval_id, policy=_typing),
}
