"""Kept threads as the registry and the database know them, and their turns."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Sequence

from sqlmodel import Session, col, or_, select

from chordesk.agents.kept_threads import Registered, ThreadCopies, TranscriptTurn
from chordesk.models.errors import NotFound, ServiceError, UsageError
from chordesk.models.research import Frozen
from chordesk.models.tables.runs import Turn
from chordesk.models.tables.threads import KeptThread, Rollout

SHORTEST_PART = 6  # characters of an id that may stand for it


class ThreadRow(Frozen):
    """A thread. current: its role and subject continue in it; `busy`: a conversation uses it now."""

    thread_id: str
    role: str
    subject: str
    current: bool
    busy: bool = False
    model: str
    reason: str
    turns: int | None
    generation: int | None
    owner: str
    parent_id: str | None
    before_turn: str | None
    created_at: dt.datetime
    updated_at: dt.datetime | None


class TurnLine(Frozen):
    """One turn of a thread. run_id is None for one outside any run, and prompt and answer where they were not kept.

    outcome: the desk's own record of it; without one, how the turn ended.
    """

    ordinal: int
    turn_id: str
    role: str
    run_id: str | None
    started_at: dt.datetime | None
    seconds: float | None
    tokens: int | None
    outcome: str
    prompt: str | None
    answer: str | None


class ThreadView(Frozen):
    """A thread and its turns. missing: why its prompts cannot be shown, if they cannot."""

    thread: ThreadRow
    forks: list[str]
    turns: list[TurnLine]
    missing: str | None = None


def threads(session: Session, registered: Sequence[Registered], limit: int, role: str | None = None) -> list[ThreadRow]:
    """Return the current threads, the last used first, then those of the past, the newest first."""
    wanted = select(KeptThread).order_by(col(KeptThread.created_at).desc())
    if role is not None:
        wanted = wanted.where(KeptThread.role == role)
    kept = {row.thread_id: row for row in session.exec(wanted.limit(limit + len(registered))).all()}
    rows = [_current(one, kept.pop(one.record.thread_id, None)) for one in registered if role in (None, one.role)]
    return (rows + [_past(row) for row in kept.values()])[:limit]


def find_thread(session: Session, part: str) -> str:
    """Return the id of the one thread with this beginning or end of its id. Raises UsageError, NotFound."""
    if len(part) < SHORTEST_PART or not part.replace("-", "").isalnum():
        raise UsageError(f"{part!r} is too short for a thread's id", remedy="give its first or last 6 characters")
    found: set[str] = set()
    for column in (col(KeptThread.thread_id), col(Turn.thread_id)):
        like = or_(column.like(f"{part}%"), column.like(f"%{part}"))
        found |= {str(one) for one in session.exec(select(column).where(like).distinct().limit(3)).all()}
    if len(found) == 1:
        return found.pop()
    if found:
        raise UsageError(f"several threads with the id {part}", remedy="give more of it")
    raise NotFound(f"no thread with the id {part}", remedy="`desk threads list` shows the threads")


def view(session: Session, registered: Sequence[Registered], vault: ThreadCopies, thread_id: str) -> ThreadView:
    """Return a thread with its turns, including those from before a fork."""
    kept = session.get(KeptThread, thread_id)
    turns = session.exec(
        select(Turn).where(Turn.thread_id == thread_id).order_by(col(Turn.started_at), col(Turn.ordinal))
    ).all()
    forks = session.exec(select(KeptThread.thread_id).where(KeptThread.parent_id == thread_id)).all()
    current = next((one for one in registered if one.record.thread_id == thread_id), None)
    thread = _current(current, kept) if current is not None else _past(kept) if kept is not None else _ephemeral(turns)
    past, missing = (
        transcript_of(session, vault, thread_id) if kept is not None else ([], "it is a thread of one conversation")
    )
    # Turns from before a fork are its parent's: they have the parent's rows.
    before = session.exec(select(Turn).where(col(Turn.codex_turn_id).in_([one.turn_id for one in past]))).all()
    lines = _lines(past, [*before, *turns], thread.role)
    return ThreadView(thread=thread, forks=sorted(forks), turns=lines, missing=missing)


def transcript_of(session: Session, vault: ThreadCopies, thread_id: str) -> tuple[list[TranscriptTurn], str | None]:
    """Return the turns of a thread by its newest copy; or none, and the reason."""
    copy = newest_copy(session, thread_id)
    if copy is None:
        return [], "no copy of its rollout is kept"
    try:
        turns = vault.transcript(copy.digest)
    except ServiceError as error:
        return [], str(error)
    return (turns, None) if turns is not None else ([], "the copy of its rollout is gone or garbled")


def newest_copy(session: Session, thread_id: str) -> Rollout | None:
    wanted = select(Rollout).where(Rollout.thread_id == thread_id).order_by(col(Rollout.generation).desc())
    return session.exec(wanted.limit(1)).first()


def first_line(text: str | None) -> str | None:
    """Return the first line that is not blank."""
    return next((line.strip() for line in (text or "").splitlines() if line.strip()), None)


def _lines(past: Sequence[TranscriptTurn], rows: Iterable[Turn], role: str) -> list[TurnLine]:
    """Return turns in the order of the rollout, then those of the desk that it does not have."""
    recorded = {row.codex_turn_id: row for row in rows if row.codex_turn_id}
    ids = list(dict.fromkeys([*(one.turn_id for one in past), *recorded]))
    by_id = {one.turn_id: one for one in past}
    return [_line(n, id_, by_id.get(id_), recorded.get(id_), role) for n, id_ in enumerate(ids, start=1)]


def _line(ordinal: int, turn_id: str, past: TranscriptTurn | None, row: Turn | None, role: str) -> TurnLine:
    seconds = (row.finished_at - row.started_at).total_seconds() if row is not None else past.seconds if past else None
    return TurnLine(
        ordinal=ordinal,
        turn_id=turn_id,
        role=row.role if row is not None else role,
        run_id=row.run_id if row is not None else None,
        started_at=row.started_at if row is not None else past.started_at if past else None,
        seconds=seconds,
        tokens=row.total_tokens if row is not None else past.tokens if past else None,
        outcome=row.outcome if row is not None else past.status if past else "unknown",
        prompt=first_line(past.prompt) if past is not None else None,
        answer=first_line(row.text if row is not None and row.text else past.answer if past is not None else None),
    )


def _current(one: Registered, kept: KeptThread | None) -> ThreadRow:
    record = one.record
    return ThreadRow.of(
        one,
        record,
        current=record.dropped is None,
        parent_id=kept.parent_id if kept is not None else None,
        before_turn=kept.before_turn if kept is not None else None,
        created_at=dt.datetime.fromtimestamp(record.created_at, dt.UTC),
        updated_at=dt.datetime.fromtimestamp(record.updated_at, dt.UTC),
    )


def _past(kept: KeptThread) -> ThreadRow:
    return ThreadRow.of(kept, current=False, turns=None, generation=None, owner=kept.worker, updated_at=None)


def _ephemeral(turns: Sequence[Turn]) -> ThreadRow:
    first, last = turns[0], turns[-1]
    return ThreadRow(
        thread_id=str(first.thread_id), role=first.role, subject=first.subject, current=False, model=first.model,
        reason=first.thread_reason or "", turns=len(turns), generation=None, owner="", parent_id=None,
        before_turn=None, created_at=first.started_at, updated_at=last.finished_at,
    )  # fmt: skip
