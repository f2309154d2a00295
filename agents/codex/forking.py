"""A fork that a person asked for: a thread of its own, from an earlier turn of another one."""

from __future__ import annotations

from agents.codex.gateway import fork_before, unsubscribe
from agents.codex.process import AppServer
from agents.codex.rollout_files import RolloutFiles
from agents.codex.spec import ConversationSpec, Opened
from agents.codex.threads import Lease, ThreadRecord
from models.errors import CodexError
from models.thread_tables import KeptThread

REASON = "forked:manual"


async def fork_kept(
    server: AppServer,
    spec: ConversationSpec,
    lease: Lease,
    wanted: ThreadRecord,
    files: RolloutFiles,
    source: ThreadRecord,
    before_turn: str | None,
) -> ThreadRecord:
    """Forks, gives the vault its copy and registers it under the lease. wanted: the record a fresh thread would get.

    Raises CodexError, RedisDown.
    """
    async with files.source(source) as (found, path):
        if not found:
            raise CodexError(
                f"there is no copy of thread {source.thread_id} to fork from",
                remedy="`desk threads list` shows the threads that are kept",
            )
        opened = await fork_before(server, spec, source.thread_id, before_turn, path)
    try:
        return await _register(lease, files, _record(wanted, source, opened, before_turn), source, before_turn)
    finally:
        unsubscribe(server, opened.thread_id)


def _record(wanted: ThreadRecord, source: ThreadRecord, opened: Opened, before_turn: str | None) -> ThreadRecord:
    turns = source.turn_ids
    inherited = turns[: turns.index(before_turn)] if before_turn in turns else turns
    update = {
        "thread_id": opened.thread_id,
        "rollout_path": opened.path,
        "reason": REASON,
        "turns": len(inherited),
        "turn_ids": inherited,
        "last_turn_id": inherited[-1] if inherited else None,
        "toolset_hash": source.toolset_hash
        or wanted.toolset_hash,  # a fork has the tools that its thread was started with
    }
    return wanted.model_copy(update=update)


async def _register(
    lease: Lease, files: RolloutFiles, record: ThreadRecord, source: ThreadRecord, before_turn: str | None
) -> ThreadRecord:
    thread = KeptThread(
        thread_id=record.thread_id,
        role=lease.role,
        subject=lease.subject,
        parent_id=source.thread_id,
        before_turn=before_turn,
        mode=record.mode,
        model=record.model,
        reason=record.reason,
        worker=record.owner,
    )
    place = {"generation": lease.generation + 1, "token": lease.token}
    kept = await files.keep(thread, record.model_copy(update=place))
    if kept is None or not await lease.save(kept):
        raise CodexError(f"the fork of thread {source.thread_id} could not be kept", remedy="try again")
    assert lease.record is not None
    return lease.record
