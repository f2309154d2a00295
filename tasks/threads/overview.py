"""Kept threads as the registry and the database know them, and what was said in one."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Sequence

from sqlmodel import Session, col, or_, select

from agents.codex.rollouts import Vault
from agents.codex.threads import Registered
from agents.codex.transcript import SaidTurn, transcript
from models.errors import NotFound, ServiceError, UsageError
from models.research import Frozen
from models.tables import Turn
from models.thread_tables import KeptThread, Rollout

SHORTEST_PART = 6  # characters of an id that may stand for it


class ThreadRow(Frozen):
    """A thread. current: its role and subject go on in it; `busy`: a conversation is in it now."""

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
    """One turn of a thread. run_id is None for one that no run made, and prompt and answer where they were not kept.

    outcome: what the desk made of it; without a record of its own, how the turn ended.
    """

    ordinal: int
    turn_id: str
    role: str
    run_id: str | None
    started_at: dt.datetime | None
    seconds: float | None
    tokens: int
    outcome: str
    prompt: str | None
    answer: str | None


class ThreadView(Frozen):
    """A thread and its turns. untold: why what was said in it cannot be shown, if it cannot."""

    thread: ThreadRow
    forks: list[str]
    turns: list[TurnLine]
    untold: str | None = None


def threads(session: Session, registered: Sequence[Registered], limit: int, role: str | None = None) -> list[ThreadRow]:
    """The threads that are gone on with, the last used first, then those of the past, the newest first."""
    wanted = select(KeptThread).order_by(col(KeptThread.created_at).desc())
    if role is not None:
        wanted = wanted.where(KeptThread.role == role)
    kept = {row.thread_id: row for row in session.exec(wanted.limit(limit + len(registered))).all()}
    rows = [_current(one, kept.pop(one.record.thread_id, None)) for one in registered if role in (None, one.role)]
    return (rows + [_past(row) for row in kept.values()])[:limit]


def find_thread(session: Session, part: str) -> str:
    """The id of the one thread whose id begins or ends with this. Raises UsageError, NotFound when there is none."""
    if len(part) < SHORTEST_PART or not part.replace("-", "").isalnum():
        raise UsageError(f"{part!r} is too little of a thread's id", remedy="give its first or last 6 characters")
    found: set[str] = set()
    for column in (col(KeptThread.thread_id), col(Turn.thread_id)):
        like = or_(column.like(f"{part}%"), column.like(f"%{part}"))
        found |= {str(one) for one in session.exec(select(column).where(like).distinct().limit(3)).all()}
    if len(found) == 1:
        return found.pop()
    if found:
        raise UsageError(f"several threads with the id {part}", remedy="give more of it")
    raise NotFound(f"no thread with the id {part}", remedy="`desk threads list` shows the threads")


def view(session: Session, registered: Sequence[Registered], vault: Vault, thread_id: str) -> ThreadView:
    """A thread with its turns, those from before a fork too."""
    kept = session.get(KeptThread, thread_id)
    turns = session.exec(
        select(Turn).where(Turn.thread_id == thread_id).order_by(col(Turn.started_at), col(Turn.ordinal))
    ).all()
    forks = session.exec(select(KeptThread.thread_id).where(KeptThread.parent_id == thread_id)).all()
    current = next((one for one in registered if one.record.thread_id == thread_id), None)
    thread = _current(current, kept) if current is not None else _past(kept) if kept is not None else _ephemeral(turns)
    said, untold = (
        said_in(session, vault, thread_id) if kept is not None else ([], "it is a thread of one conversation")
    )
    return ThreadView(thread=thread, forks=sorted(forks), turns=_lines(said, turns, thread.role), untold=untold)


def said_in(session: Session, vault: Vault, thread_id: str) -> tuple[list[SaidTurn], str | None]:
    """What was said in a thread, by its newest copy; or nothing, and why."""
    copy = newest_copy(session, thread_id)
    if copy is None:
        return [], "no copy of its rollout is kept"
    try:
        data = vault.fetch(copy.digest)
    except ServiceError as error:
        return [], str(error)
    return (transcript(data), None) if data is not None else ([], "the copy of its rollout is gone or garbled")


def newest_copy(session: Session, thread_id: str) -> Rollout | None:
    wanted = select(Rollout).where(Rollout.thread_id == thread_id).order_by(col(Rollout.generation).desc())
    return session.exec(wanted.limit(1)).first()


def first_line(text: str | None) -> str | None:
    """The first line with something in it."""
    return next((line.strip() for line in (text or "").splitlines() if line.strip()), None)


def _lines(said: Sequence[SaidTurn], rows: Iterable[Turn], role: str) -> list[TurnLine]:
    """Turns in the order of the rollout, then those of the desk that it does not have."""
    recorded = {row.codex_turn_id: row for row in rows if row.codex_turn_id}
    ids = list(dict.fromkeys([*(one.turn_id for one in said), *recorded]))
    spoken = {one.turn_id: one for one in said}
    return [_line(n, id_, spoken.get(id_), recorded.get(id_), role) for n, id_ in enumerate(ids, start=1)]


def _line(ordinal: int, turn_id: str, said: SaidTurn | None, row: Turn | None, role: str) -> TurnLine:
    seconds = (row.finished_at - row.started_at).total_seconds() if row is not None else said.seconds if said else None
    return TurnLine(
        ordinal=ordinal,
        turn_id=turn_id,
        role=row.role if row is not None else role,
        run_id=row.run_id if row is not None else None,
        started_at=row.started_at if row is not None else said.started_at if said else None,
        seconds=seconds,
        tokens=row.total_tokens if row is not None else said.tokens if said else 0,
        outcome=row.outcome if row is not None else said.status if said else "unknown",
        prompt=first_line(said.prompt) if said is not None else None,
        answer=first_line(row.text if row is not None and row.text else said.answer if said is not None else None),
    )


def _current(one: Registered, kept: KeptThread | None) -> ThreadRow:
    record = one.record
    return ThreadRow(
        thread_id=record.thread_id,
        role=one.role,
        subject=one.subject,
        current=record.dropped is None,
        busy=one.busy,
        model=record.model,
        reason=record.reason,
        turns=record.turns,
        generation=record.generation,
        owner=record.owner,
        parent_id=kept.parent_id if kept is not None else None,
        before_turn=kept.before_turn if kept is not None else None,
        created_at=dt.datetime.fromtimestamp(record.created_at, dt.UTC),
        updated_at=dt.datetime.fromtimestamp(record.updated_at, dt.UTC),
    )


def _past(kept: KeptThread) -> ThreadRow:
    named = kept.model_dump(include={"thread_id", "role", "subject", "model", "reason", "parent_id", "before_turn"})
    return ThreadRow(
        **named, current=False, turns=None, generation=None, owner=kept.worker, created_at=kept.created_at,
        updated_at=None,
    )  # fmt: skip


def _ephemeral(turns: Sequence[Turn]) -> ThreadRow:
    first, last = turns[0], turns[-1]
    return ThreadRow(
        thread_id=str(first.thread_id), role=first.role, subject=first.subject, current=False, model=first.model,
        reason=first.thread_reason or "", turns=len(turns), generation=None, owner="", parent_id=None,
        before_turn=None, created_at=first.started_at, updated_at=last.finished_at,
    )  # fmt: skip
