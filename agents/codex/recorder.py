"""Records what a conversation does in a kept thread: after each turn a copy for the vault, then the registry."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from agents.codex.conversation import Conversation, TurnResult
from agents.codex.rollout_files import RolloutFiles
from agents.codex.spec import Opened, goes_on
from agents.codex.threads import Lease, ThreadRecord
from models.errors import RedisDown
from models.thread_tables import KeptThread

log = logging.getLogger(__name__)


class ThreadRecorder:
    """One conversation's, under the thread's lease. alive: whether the thread's process still runs.

    A turn that failed or was interrupted is recorded like any other: it is part of the history, in the file and in
    the process's memory, and a copy without it would be refused at the next resume. A turn that died with its process
    is not: nobody knows that its file is whole, and the next conversation goes on from the copy before it.
    """

    def __init__(
        self, lease: Lease, files: RolloutFiles, opened: Opened, wanted: ThreadRecord, alive: Callable[[], bool]
    ) -> None:
        old = lease.record if goes_on(opened.reason) else None
        here = {
            "thread_id": opened.thread_id,
            "mode": wanted.mode,
            "reason": opened.reason,
            "rollout_path": opened.path,
            "owner": wanted.owner,
            "home": wanted.home,
            "login": wanted.login,
            "binary_version": wanted.binary_version,
        }
        self._record = (old or wanted).model_copy(update=here)
        self._thread = _thread(lease, opened, self._record)
        self._lease, self._files, self._alive = lease, files, alive
        self._turns = 0
        self._unwritten = False

    async def after_turn(self, result: TurnResult) -> None:
        """To be called when a turn is over. What goes wrong here is logged: the turn's result is not lost by it."""
        if not result.turn_id:
            return  # it never began
        update = {"turn_ids": (*self._record.turn_ids, result.turn_id)}
        if result.status == "completed":
            self._record = self._record.model_copy(update={**update, "last_turn_id": result.turn_id})
        else:
            self._record = self._record.model_copy(update=update)
        self._count(1)
        if result.failure is not None and result.failure.kind == "context_window":
            await self._forget()  # the next attempt starts afresh, with room
        else:
            await self._write()

    async def close(self, conversation: Conversation) -> None:
        """To be called at the conversation's end: a turn whose caller gave up was not told of."""
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
            log.warning("thread %s stays at generation %d: its process died", thread_id, self._lease.generation)
        elif self._lease.lost:
            log.warning("the lease %s was lost; thread %s is not recorded", self._lease.key, thread_id)
        else:
            place = {"generation": self._lease.generation + 1, "token": self._lease.token, "updated_at": time.time()}
            kept = await self._files.keep(self._thread, self._record.model_copy(update=place))
            if kept is not None:
                await self._save(kept)
        self._unwritten = False

    async def _save(self, record: ThreadRecord) -> None:
        try:
            if not await self._lease.save(record):
                log.warning("the lease %s was lost; thread %s is not recorded", self._lease.key, record.thread_id)
        except RedisDown as error:
            log.warning("thread %s is not recorded: %s", record.thread_id, error)

    async def _forget(self) -> None:
        self._unwritten = False
        try:
            await self._lease.forget()
        except RedisDown as error:
            log.warning("thread %s is not forgotten: %s", self._record.thread_id, error)


class AsideRecorder:
    """Of a thread beside a busy one: no record names it and nobody goes on in it, but what it came from is kept."""

    def __init__(self, lease: Lease, files: RolloutFiles, opened: Opened, wanted: ThreadRecord) -> None:
        self._thread: KeptThread | None = _thread(lease, opened, wanted)
        self._files = files

    async def after_turn(self, result: TurnResult) -> None:
        """To be called when a turn is over. What goes wrong here is logged: the turn's result is not lost by it."""
        if result.turn_id:
            await self._write()

    async def close(self, conversation: Conversation) -> None:
        """To be called at the conversation's end: a turn whose caller gave up was not told of."""
        if conversation.turns:
            await self._write()

    async def _write(self) -> None:
        """Once: the row is of the thread and not of its turns."""
        if self._thread is not None:
            await self._files.note(self._thread)
            self._thread = None


def _thread(lease: Lease, opened: Opened, record: ThreadRecord) -> KeptThread:
    """The row of the thread that was opened. record: the one that its worker would write of it."""
    old = lease.record if goes_on(opened.reason) else None
    return KeptThread(
        thread_id=opened.thread_id,
        role=lease.role,
        subject=lease.subject,
        parent_id=old.thread_id if old is not None and old.thread_id != opened.thread_id else None,
        mode=record.mode,
        model=record.model,
        reason=opened.reason,
        worker=record.owner,
    )
