"""Opening of a conversation's kept thread: resumed from the right copy, forked, or fresh, with the reason."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial

from chordesk.agents.codex.config import RuntimeConfig, ThreadLimits
from chordesk.agents.codex.server.process import AppServer
from chordesk.agents.codex.threads.gateway import OpenedThread, fork_or_start, resume_or_start, unloaded
from chordesk.agents.codex.threads.registry import Lease, why_fresh
from chordesk.agents.codex.threads.rollout_files import RolloutFiles
from chordesk.agents.kept_threads import ThreadRecord
from chordesk.agents.runtime import ConversationSpec


async def open_kept(
    server: AppServer,
    spec: ConversationSpec,
    lease: Lease,
    wanted: ThreadRecord,
    config: RuntimeConfig,
    files: RolloutFiles,
    processes: Callable[[], Iterable[AppServer]],
) -> OpenedThread:
    """Return the thread of a conversation: resumed, forked or fresh.

    wanted: the record of a fresh thread. processes: app-servers of this home that may have the thread in memory.
    Raises CodexError, and ServiceError when the rollout's copy cannot be fetched now: no other thread is opened then,
    because its record would replace this one.
    """
    record = lease.record
    answers = config.thread_answers if not spec.whole else None
    shortened = None
    why = why_fresh(record, wanted, await _limits(config, spec, wanted) if not spec.whole else None)
    if spec.opening == "fresh" and why is None:
        why = "retry"
    if not lease.held or spec.opening == "fork":
        return await _fork(server, spec, record, why, "retry" if lease.held else "busy", files, answers)
    if record is not None and why is None:
        if not await files.bring(record, partial(unloaded, processes)):
            why = "lost"
        elif answers is not None:
            shortened = await files.trim(record, answers, partial(unloaded, processes))
    opened = await resume_or_start(server, spec, record, why)
    return replace(opened, shortened=shortened) if opened.reason == "resumed" else opened


async def _limits(config: RuntimeConfig, spec: ConversationSpec, wanted: ThreadRecord) -> ThreadLimits:
    """Return the limits of a kept thread. Half of a known context is for the next question, its tools and answer."""
    limits = config.thread_limits(wanted.mode)
    context = (await config.facts(spec.model)).context if config.facts is not None else None
    return limits._replace(tokens=min(limits.tokens, context // 2)) if context is not None else limits


async def _fork(
    server: AppServer,
    spec: ConversationSpec,
    record: ThreadRecord | None,
    why: str | None,
    cause: str,
    files: RolloutFiles,
    answers: int | None,
) -> OpenedThread:
    if record is None or why is not None:
        return await fork_or_start(server, spec, record, why, cause)
    async with files.source(record, answers) as (found, path):
        return await fork_or_start(server, spec, record, None if found else "lost", cause, path)
