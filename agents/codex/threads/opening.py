"""Opening of a conversation's kept thread: resumed from the right copy, forked, or fresh, with the reason."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial

from agents.codex.config import RuntimeConfig
from agents.codex.server.process import AppServer
from agents.codex.threads.gateway import OpenedThread, fork_or_start, resume_or_start, unloaded
from agents.codex.threads.registry import Lease, ThreadRecord, why_fresh
from agents.codex.threads.rollout_files import RolloutFiles
from agents.runtime import ConversationSpec


async def open_kept(
    server: AppServer,
    spec: ConversationSpec,
    lease: Lease,
    wanted: ThreadRecord,
    config: RuntimeConfig,
    files: RolloutFiles,
    processes: Callable[[], Iterable[AppServer]],
) -> OpenedThread:
    """wanted: the record a fresh thread would get. processes: those of this home that may have the thread in memory.

    Raises CodexError, and ServiceError when the record's copy cannot be had now: then nothing is opened in its place,
    for what is opened would take the thread's place.
    """
    record = lease.record
    why = why_fresh(record, wanted, config)
    if spec.opening == "fresh" and why is None:
        why = "retry"
    if not lease.held or spec.opening == "fork":
        return await _fork(server, spec, record, why, "retry" if lease.held else "busy", files)
    if record is not None and why is None and not await files.bring(record, partial(unloaded, processes)):
        why = "lost"
    return await resume_or_start(server, spec, record, why)


async def _fork(
    server: AppServer,
    spec: ConversationSpec,
    record: ThreadRecord | None,
    why: str | None,
    cause: str,
    files: RolloutFiles,
) -> OpenedThread:
    if record is None or why is not None:
        return await fork_or_start(server, spec, record, why, cause)
    async with files.source(record) as (found, path):
        return await fork_or_start(server, spec, record, None if found else "lost", cause, path)
