"""Kept threads: their records, and the protocols through which people's commands list, reset, fork and delete them.

`agents/codex` implements the protocols; tasks/ gets its objects from the desk and knows them by these names alone.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Annotated, Literal, Protocol

from pydantic import BaseModel, ConfigDict, StringConstraints

from chordesk.agents.runtime import ConversationSpec, Runtime
from chordesk.models.research import Frozen

BYTES_A_TOKEN = 4  # of English text and JSON
# A path from outside is written to: only a rollout's is accepted.
ROLLOUT_PATH = r"sessions/\d{4}/\d{2}/\d{2}/rollout-[\w.-]+\.jsonl"

RolloutPath = Annotated[str, StringConstraints(pattern=rf"^{ROLLOUT_PATH}$")]
Digest = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
PastTurnStatus = Literal["completed", "interrupted", "unfinished"]


class ThreadRecord(BaseModel):
    """Registry record of one kept thread. Times are Unix seconds.

    mode: the role's mode, which sets the thread's limits; `legacy` in records of older versions, until the next turn.
    generation: one more with each change of the record. token: fencing token of the lease that wrote it.
    owner: the worker that wrote it. home: the home that has the rollout; every other one fetches a copy.
    rollout_path: relative to CODEX_HOME. rollout_size: bytes. rollout_digest: None without a copy in the vault; the
    thread can then be resumed in its home alone. context_tokens: input tokens of its last model call, None where the
    provider gave no figure. login: digest of the login at the provider, empty without one.
    dropped: why the next conversation starts a fresh thread, such as `manual`.
    """

    model_config = ConfigDict(frozen=True)

    thread_id: str
    mode: str = "other"
    generation: int = 0
    token: int = 0
    owner: str = ""
    turns: int
    turn_ids: tuple[str, ...] = ()
    last_turn_id: str | None
    created_at: float
    updated_at: float
    reason: str
    toolset_hash: str
    binary_version: str
    home: str
    model: str
    login: str = ""
    rollout_path: RolloutPath | None = None
    rollout_digest: Digest | None = None
    rollout_size: int = 0
    context_tokens: int | None = None
    dropped: str | None = None

    @property
    def context(self) -> int:
        """The tokens that its next turn sends again; where none were counted, as many as its rollout can hold."""
        return self.context_tokens if self.context_tokens is not None else self.rollout_size // BYTES_A_TOKEN


@dataclass(frozen=True, slots=True)
class Registered:
    """A record under its name. busy: its lease is held now."""

    role: str
    subject: str
    record: ThreadRecord
    busy: bool


class TranscriptTurn(Frozen):
    """One turn of a thread. prompt and answer are whole; None where there is none. status `unfinished`: its end was
    never written, since its process died. tokens: of all model calls of the turn; None without a figure for each."""

    turn_id: str
    started_at: dt.datetime | None = None
    seconds: float | None = None
    prompt: str | None = None
    answer: str | None = None
    tokens: int | None = None
    status: PastTurnStatus = "unfinished"


class ThreadLease(Protocol):
    """Right to change the record of one kept thread, if `held`; record: as it stands, None without one."""

    record: ThreadRecord | None

    @property
    def held(self) -> bool: ...

    async def save(self, record: ThreadRecord) -> bool:
        """Write the record as the next generation, if the lease still holds and the record is still the one that was
        found; return whether it was written. Raises RedisDown."""

    async def forget(self) -> bool:
        """Drop the record, so that the next conversation starts afresh; return False when the lease was lost."""


class ThreadRecords(Protocol):
    """Registry of the threads that conversations continue in."""

    async def records(self) -> list[Registered]:
        """Return the readable records, the last changed first. Raises RedisDown."""

    def hold(self, role: str, subject: str, wait: Callable[[], float]) -> AbstractAsyncContextManager[ThreadLease]:
        """Take the thread's lease for the length of the block; it is not `held` when the thread stayed busy.

        wait() returns the seconds for which to keep trying. Raises RedisDown.
        """


class ThreadCopies(Protocol):
    """Store of copies of kept threads that outlives their home. Its methods block: call them off the event loop."""

    def transcript(self, digest: str) -> list[TranscriptTurn] | None:
        """Return the turns of the copy with that digest; None when it is gone or was changed. Raises ServiceError."""


class ThreadRuntime(Runtime, Protocol):
    """Runtime that keeps threads and can fork them."""

    async def fork(
        self, spec: ConversationSpec, source: ThreadRecord, before_turn: str | None, deadline: float
    ) -> ThreadRecord:
        """Fork a thread before one of its turns, or with all of its history; record the fork under the spec's role and
        subject, which must have no record yet. The source stays as it is.

        Raises CodexError, RedisDown, UsageError.
        """
