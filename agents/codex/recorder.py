"""Recording of kept threads: after each turn a copy of the thread for the vault, then its registry record."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import structlog

from chordesk.agents.codex.conversation import CodexConversation
from chordesk.agents.codex.threads.gateway import OpenedThread
from chordesk.agents.codex.threads.registry import Lease
from chordesk.agents.codex.threads.rollout_files import RolloutFiles, kept_thread
from chordesk.agents.kept_threads import ThreadRecord
from chordesk.agents.runtime import TurnResult, has_history
from chordesk.models.errors import RedisDown
from chordesk.models.tables.threads import KeptThread

log = structlog.get_logger(__name__)


class ThreadRecorder:
    """Recorder of one conversation, under the thread's lease. alive: returns whether the thread's process still runs.

    A turn that failed or was interrupted is recorded like any other: it is part of the history, in the file and in
    the process's memory, and a copy without it would be refused at the next resume. A turn that died with its process
    is not: its file may be cut, and the next conversation continues from the copy before it.
    """

    def __init__(
        self, lease: Lease, files: RolloutFiles, opened: OpenedThread, wanted: ThreadRecord, alive: Callable[[], bool]
    ) -> None:
        old = lease.record if has_history(opened.reason) else None
        here = wanted.model_dump(include={"mode", "owner", "home", "login", "binary_version"})
        here |= {"thread_id": opened.thread_id, "reason": opened.reason, "rollout_path": opened.path}
        self._record = (old or wanted).model_copy(update=here)
        self._thread = _thread(lease, opened, self._record)
        self._lease, self._files, self._alive = lease, files, alive
        self._shortened = opened.shortened
        self._turns = 0
        self._unwritten = False

    async def after_turn(self, result: TurnResult) -> None:
        """Record a turn that is over. A failure here is logged: the turn's result is not lost."""
        if not result.turn_id:
            return  # it never started
        update: dict[str, Any] = {"turn_ids": (*self._record.turn_ids, result.turn_id)}
        update["context_tokens"] = result.context_tokens
        last = {"last_turn_id": result.turn_id} if result.status == "completed" else {}
        self._record = self._record.model_copy(update=update | last)
        self._count(1)
        if result.failure is not None and result.failure.kind == "context_window":
            await self._forget()  # the next attempt starts afresh, with room
        else:
            await self._write()

    async def close(self, conversation: CodexConversation) -> None:
        """Record what `after_turn` was not called for: a turn that its caller gave up."""
        self._count(conversation.turns - self._turns)
        if self._unwritten:
            await self._write()

    def _count(self, turns: int) -> None:
        if turns > 0:
            self._turns += turns
            self._unwritten = True
            self._record = self._record.model_copy(update={"turns": self._record.turns + turns})

    async def _write(self) -> None:
        thread_id = self._record.thread_id
        if not self._alive():
            log.warning("thread.process_died", thread=thread_id, generation=self._lease.generation)
        elif self._lease.lost:
            log.warning("thread.not_recorded", thread=thread_id, lease_lost=self._lease.key)
        else:
            place = {"generation": self._lease.generation + 1, "token": self._lease.token, "updated_at": time.time()}
            kept = await self._files.keep(self._thread, self._record.model_copy(update=place), self._shortened)
            if kept is not None:
                await self._save(kept)
        self._unwritten = False

    async def _save(self, record: ThreadRecord) -> None:
        try:
            if not await self._lease.save(record):
                log.warning("thread.not_recorded", thread=record.thread_id, lease_lost=self._lease.key)
        except RedisDown as error:
            log.warning("thread.not_recorded", thread=record.thread_id, error=str(error))

    async def _forget(self) -> None:
        self._unwritten = False
        try:
            await self._lease.forget()
        except RedisDown as error:
            log.warning("thread.not_forgotten", thread=self._record.thread_id, error=str(error))


class UnregisteredRecorder:
    """Recorder of a thread beside a busy one: it gets no registry record and is never resumed, but its origin is
    kept."""

    def __init__(self, lease: Lease, files: RolloutFiles, opened: OpenedThread, wanted: ThreadRecord) -> None:
        self._thread: KeptThread | None = _thread(lease, opened, wanted)
        self._files = files

    async def after_turn(self, result: TurnResult) -> None:
        """Record a turn that is over. A failure here is logged: the turn's result is not lost."""
        if result.turn_id:
            await self._write()

    async def close(self, conversation: CodexConversation) -> None:
        """Record what `after_turn` was not called for: a turn that its caller gave up."""
        if conversation.turns:
            await self._write()

    async def _write(self) -> None:
        """Once: the row is of the thread and not of its turns."""
        if self._thread is not None:
            await self._files.note(self._thread)
            self._thread = None


def _thread(lease: Lease, opened: OpenedThread, record: ThreadRecord) -> KeptThread:
    """Return the row of the opened thread. record: the registry record that its worker would write."""
    old = lease.record if has_history(opened.reason) else None
    parent_id = old.thread_id if old is not None and old.thread_id != opened.thread_id else None
    here = record.model_copy(update={"thread_id": opened.thread_id, "reason": opened.reason})
    return kept_thread(lease, here, parent_id, None)
