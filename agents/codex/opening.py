"""Opening a thread in a process: start a fresh one, resume a kept one, or fork one that is busy."""

from __future__ import annotations

import asyncio
import logging
import time
from typing import Any

from agents.codex.conversation import ConversationSpec, Opened
from agents.codex.process import AppServer
from agents.codex.threads import ThreadRecord
from models.errors import RpcError

log = logging.getLogger(__name__)

# The process of a thread's last conversation, which may be draining, still unloads it for a moment.
UNLOAD_SECONDS = 5.0
UNLOAD_PAUSE = 0.02
UNLOADING = ("is closing", "active writer")


def wanted_record(spec: ConversationSpec, server: AppServer, home: str) -> ThreadRecord:
    """The record a fresh thread of this spec would get."""
    now = time.time()
    return ThreadRecord(
        thread_id="",
        turns=0,
        last_turn_id=None,
        created_at=now,
        updated_at=now,
        reason="initial",
        toolset_hash=spec.toolset_hash,
        binary_version=server.launch.version,
        home=home,
        model=spec.model,
    )


async def start(server: AppServer, spec: ConversationSpec, reason: str) -> Opened:
    """Starts a thread with the spec's tools. Raises CodexError."""
    tools = [
        {"type": "function", "name": tool.name, "description": tool.description, "inputSchema": tool.input_schema}
        for tool in spec.tools.specs()
    ]
    kind: dict[str, Any] = {"historyMode": "legacy"} if spec.keep else {"ephemeral": True}
    params = {**_common(server, spec), "dynamicTools": tools, "environments": [], **kind}
    answer = await server.client.request("thread/start", params)
    return Opened(str(answer["thread"]["id"]), reason)


async def resume_or_start(
    server: AppServer, spec: ConversationSpec, record: ThreadRecord | None, why: str | None
) -> Opened:
    """Resumes the record's thread unless there is a reason for a fresh one; a thread that is gone is `lost`.

    Raises CodexError when neither can be done.
    """
    if record is None or why is not None:
        return await start(server, spec, why or "initial")
    try:
        await resume(server, spec, record.thread_id)
    except RpcError as error:
        log.warning("thread %s of %s/%s cannot be resumed: %s", record.thread_id, spec.role, spec.subject, error)
        return await start(server, spec, "lost")
    return Opened(record.thread_id, "resumed")


async def fork_or_start(
    server: AppServer, spec: ConversationSpec, record: ThreadRecord | None, why: str | None
) -> Opened:
    """For a thread that stays busy: a fork at its last completed turn, else a fresh thread.

    Raises CodexError when neither can be done.
    """
    if record is None or record.last_turn_id is None or why is not None:
        return await start(server, spec, why if why not in (None, "initial") else "busy")
    point = {"threadId": record.thread_id, "lastTurnId": record.last_turn_id, "excludeTurns": True}
    try:
        answer = await server.client.request("thread/fork", {**_common(server, spec), **point})
    except RpcError as error:
        log.warning("thread %s of %s/%s cannot be forked: %s", record.thread_id, spec.role, spec.subject, error)
        return await start(server, spec, "lost")
    return Opened(str(answer["thread"]["id"]), "forked:busy")


async def resume(server: AppServer, spec: ConversationSpec, thread_id: str) -> None:
    """Loads a kept thread, after its last conversation has let go of it. Raises CodexError."""
    loop = asyncio.get_running_loop()
    until = loop.time() + UNLOAD_SECONDS
    params = {**_common(server, spec), "threadId": thread_id, "excludeTurns": True}
    while True:
        try:
            await server.client.request("thread/resume", params)
            return
        except RpcError as error:
            if loop.time() > until or not any(word in str(error) for word in UNLOADING):
                raise
        await asyncio.sleep(UNLOAD_PAUSE)


def _common(server: AppServer, spec: ConversationSpec) -> dict[str, Any]:
    return {
        "model": spec.model,
        "modelProvider": server.launch.model_provider,
        "baseInstructions": spec.base_instructions,
        "sandbox": "read-only",
        "approvalPolicy": "never",
    }
