"""What a person does with kept threads: let one go, fork one at an earlier turn, ask on in a fork."""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import AsyncIterator, Coroutine, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

import redis.asyncio

from agents.codex.conversation import TurnResult
from agents.codex.spec import ConversationSpec, Scope
from agents.codex.threads import Registered, ThreadRecord, ThreadRegistry
from agents.roles import Role, instructions, role_of
from agents.runner import toolset_hash
from models import event_log
from models.errors import CodexError, UsageError
from models.events import DESK, EventType, event
from models.research import output_schema
from models.thread_tables import KeptThread
from tasks.bootstrap import Desk, redis_url
from tasks.threads.overview import newest_copy, said_in
from tools.registry import ToolAnswer
from tools.toolsets import toolset_for

T = TypeVar("T")
FORK = "#fork-"


@dataclass(frozen=True, slots=True)
class Forked:
    """A fork: its thread, the subject that it is kept under, and how many turns of its parent it has."""

    thread_id: str
    parent_id: str
    role: str
    subject: str
    model: str
    turns: int


def registered(desk: Desk) -> list[Registered]:
    """Every record of the registry, the last used first. Raises RedisDown."""

    async def read() -> list[Registered]:
        async with _registry(desk) as registry:
            return await registry.records()

    return _run(desk, read())


def reset(desk: Desk, thread_id: str) -> Registered:
    """Has the role and subject of a thread start afresh, with the reason `manual`. Raises UsageError, RedisDown."""

    async def drop() -> Registered:
        async with _registry(desk) as registry:
            one = next((row for row in await registry.records() if row.record.thread_id == thread_id), None)
            if one is None or one.record.dropped is not None:
                raise UsageError(f"nothing goes on in thread {thread_id}", remedy="`desk threads list` shows what does")
            async with registry.hold(one.role, one.subject, lambda: 0.0) as lease:
                if not lease.held:
                    raise UsageError(f"thread {thread_id} has a turn now", remedy="try again when it has ended")
                record = lease.record
                if record is None or record.thread_id != thread_id:
                    raise UsageError(f"{one.role}/{one.subject} has another thread by now")
                if not await lease.save(record.model_copy(update={"dropped": "manual"})):
                    raise UsageError(f"thread {thread_id} was gone on with meanwhile", remedy="reset it again")
                return one

    one = _run(desk, drop())
    _tell(desk, EventType.THREAD_CLOSED, thread_id, one.role, subject=one.subject, reason="manual")
    return one


def fork(desk: Desk, thread_id: str, before_turn: int, model: str | None = None) -> Forked:
    """A thread of its own with the history of another one before its turn of that number, as `view` counts them; one
    more than the last takes all of it. The fork's turns are asked of `model`, the parent's by default.

    Of a thread that is not gone on with any more it is not known which tools it had: those of its role are assumed.
    Raises UsageError, CodexError, RedisDown.
    """
    records = {one.record.thread_id: one for one in registered(desk)}
    with desk.store.read() as session:
        kept = session.get(KeptThread, thread_id)
        copy = newest_copy(session, thread_id)
        said, untold = said_in(session, desk.vault, thread_id)
    if kept is None or copy is None or untold is not None:
        raise UsageError(f"thread {thread_id} cannot be forked: {untold or 'it was not kept'}")
    if not 2 <= before_turn <= len(said) + 1:
        raise UsageError(f"--before-turn {before_turn}: allowed are 2 to {len(said) + 1}, it has {len(said)} turns")
    role = role_of(kept.role)
    source = records[thread_id].record if thread_id in records else _record_of(kept)
    ids = tuple(one.turn_id for one in said)
    where = {"turn_ids": ids, "rollout_digest": copy.digest, "rollout_path": copy.path, "rollout_size": copy.size}
    subject = f"{kept.subject}{FORK}{uuid.uuid4().hex[:8]}"
    spec = _spec(desk, role, subject, model or kept.model, source.toolset_hash)
    at = ids[before_turn - 1] if before_turn <= len(ids) else None
    work = desk.runtime.fork(spec, source.model_copy(update=where), at, _deadline(desk))
    made = _run(desk, work)
    _tell(
        desk, EventType.THREAD_FORKED, made.thread_id, kept.role, subject=subject, reason=made.reason, kept=True,
        parent_id=thread_id, before_turn=at,
    )  # fmt: skip
    return Forked(made.thread_id, thread_id, kept.role, subject, made.model, made.turns)


def ask(desk: Desk, thread_id: str, text: str) -> TurnResult:
    """One more turn in a fork. No run is made of it: it is the desk's own. Raises UsageError, CodexError, RedisDown."""
    one = next((row for row in registered(desk) if row.record.thread_id == thread_id), None)
    if one is None or FORK not in one.subject:
        raise UsageError(
            f"thread {thread_id} is no fork: what is asked in it would be part of its role's memory",
            remedy=f"`desk threads fork {thread_id} --before-turn N` makes one",
        )
    if one.record.model == desk.settings.model:
        return _ask(desk, one, text)
    # An app-server knows the tools' way of one model, that of its settings.
    other = Desk(desk.settings.model_copy(update={"model": one.record.model}), desk.name)
    with contextlib.closing(other):
        return _ask(other, one, text)


def _tell(desk: Desk, type_: EventType, thread_id: str, role: str, **told: Any) -> None:
    """What a person did with a thread belongs to no run: it is told in the desk's own stream."""
    with desk.store.session() as session:
        event_log.append(session, [event(type_, DESK, thread_id=thread_id, role=role, **told)])


def _ask(desk: Desk, one: Registered, text: str) -> TurnResult:
    role = role_of(one.role)
    spec = _spec(desk, role, one.subject, one.record.model, one.record.toolset_hash)
    metadata = {"role": role.key, "thread_id": one.record.thread_id}
    runtime = desk.runtime  # made here, for making it waits for the loop

    async def turn() -> TurnResult:
        async with runtime.conversation(spec, _deadline(desk)) as conversation:
            if conversation.reason != "resumed":
                raise CodexError(f"the fork cannot be gone on with: {conversation.reason}", remedy="fork once more")
            return await conversation.turn(text, output_schema(role.output), metadata)

    return _run(desk, turn())


def _spec(desk: Desk, role: Role, subject: str, model: str, tools_hash: str) -> ConversationSpec:
    tools = toolset_for(role.tools, desk.tool_context(), seconds=desk.settings.tool_seconds, sink=_unrecorded)
    return ConversationSpec(
        role=role.key,
        subject=subject,
        keep=True,
        base_instructions=instructions(role),
        tools=tools,
        model=model,
        toolset_hash=tools_hash or toolset_hash(tools.specs()),
        scope=Scope(role=role.key, subject=subject),
        mode=role.mode,
    )


def _unrecorded(arguments: Mapping[str, Any], answer: ToolAnswer) -> None:
    """Tool calls are recorded with a run's turns; these have none. Their events are stored."""


def _record_of(kept: KeptThread) -> ThreadRecord:
    """The record of a thread that has none any more, as far as a fork needs it."""
    at = kept.created_at.timestamp()
    return ThreadRecord(
        thread_id=kept.thread_id, turns=0, last_turn_id=None, created_at=at, updated_at=at, reason=kept.reason,
        toolset_hash="", binary_version="", home="", model=kept.model,
    )  # fmt: skip


def _deadline(desk: Desk) -> float:
    return desk.loop.loop.time() + desk.settings.turn_seconds


def _run(desk: Desk, work: Coroutine[Any, Any, T]) -> T:
    return desk.loop.submit(work).result()


@asynccontextmanager
async def _registry(desk: Desk) -> AsyncIterator[ThreadRegistry]:
    client = redis.asyncio.from_url(redis_url(desk.settings))
    try:
        yield ThreadRegistry(client, desk.settings.lease_seconds)
    finally:
        await client.aclose()
