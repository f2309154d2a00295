"""Forks that a person asks for: a new thread from an earlier turn of another one."""

from __future__ import annotations

from chordesk.agents.codex.server.process import AppServer
from chordesk.agents.codex.threads.gateway import OpenedThread, fork, unsubscribe
from chordesk.agents.codex.threads.registry import Lease
from chordesk.agents.codex.threads.rollout_files import RolloutFiles, kept_thread
from chordesk.agents.kept_threads import ThreadRecord
from chordesk.agents.runtime import ConversationSpec
from chordesk.models.errors import CodexError


async def fork_kept(
    server: AppServer,
    spec: ConversationSpec,
    lease: Lease,
    wanted: ThreadRecord,
    files: RolloutFiles,
    source: ThreadRecord,
    before_turn: str | None,
) -> ThreadRecord:
    """Fork a thread, store its copy in the vault and register it under the lease. wanted: the record a fresh thread
    would get.

    Raises CodexError, RedisDown.
    """
    async with files.source(source) as (found, path):
        if not found:
            raise CodexError(
                f"there is no copy of thread {source.thread_id} to fork from",
                remedy="`desk threads list` shows the threads that are kept",
            )
        point = {"beforeTurnId": before_turn} if before_turn is not None else {}
        opened = await fork(server, spec, source.thread_id, "manual", path, **point)
    try:
        return await _register(lease, files, _record(wanted, source, opened, before_turn), source, before_turn)
    finally:
        unsubscribe(server, opened.thread_id)


def _record(wanted: ThreadRecord, source: ThreadRecord, opened: OpenedThread, before_turn: str | None) -> ThreadRecord:
    turns = source.turn_ids
    inherited = turns[: turns.index(before_turn)] if before_turn in turns else turns
    update = {
        "thread_id": opened.thread_id,
        "rollout_path": opened.path,
        "reason": opened.reason,
        "turns": len(inherited),
        "turn_ids": inherited,
        "last_turn_id": inherited[-1] if inherited else None,
        # A fork has the tools that its thread was started with.
        "toolset_hash": source.toolset_hash or wanted.toolset_hash,
    }
    return wanted.model_copy(update=update)


async def _register(
    lease: Lease, files: RolloutFiles, record: ThreadRecord, source: ThreadRecord, before_turn: str | None
) -> ThreadRecord:
    thread = kept_thread(lease, record, source.thread_id, before_turn)
    place = {"generation": lease.generation + 1, "token": lease.token}
    kept = await files.keep(thread, record.model_copy(update=place))
    if kept is None or not await lease.save(kept):
        raise CodexError(f"the fork of thread {source.thread_id} could not be kept", remedy="try again")
    assert lease.record is not None
    return lease.record
