"""Threads: the current one of each role, those of the past, and one with its turns, in lines or in full."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import orjson
from sqlmodel import Session, col, or_, select

from chordesk.agents.runtime import PastTurn, Registered, ThreadCopies, TranscriptTurn
from chordesk.models.answers import Frozen
from chordesk.models.errors import NotFound, ServiceError, UsageError
from chordesk.models.events import LifecycleStatus
from chordesk.models.groups import by_key
from chordesk.models.tables.columns import Row
from chordesk.models.tables.runs import ToolCall, Turn
from chordesk.models.tables.runtime import KeptThread, Rollout, RuntimeApproval, RuntimeItem, RuntimeTurn

SHORTEST_PART = 6  # characters of an id that may stand for it
OF_ONE_CONVERSATION = "it is a thread of one conversation"


class ThreadRow(Frozen):
    """A thread. current: its role and subject continue in it; busy: a conversation uses it now; turns, generation,
    owner, updated_at: of the registry's record, null for a thread of the past."""

    thread: Row[KeptThread]
    current: bool
    busy: bool = False
    turns: int | None = None
    generation: int | None = None
    owner: str | None = None
    updated_at: dt.datetime | None = None


class ThreadTurn(PastTurn):
    """A turn of a thread. run_id is null for a turn outside any run, prompt and answer where they were not kept.
    outcome: the desk's own record of it; without one, how the turn ended."""

    ordinal: int
    role: str
    run_id: str | None
    outcome: str
    running: bool


class ThreadTurnDetail(ThreadTurn):
    """A turn in full. row: null for a turn outside any run, whose calls are not recorded, and for one that still
    runs."""

    row: Row[Turn] | None
    items: list[Row[RuntimeItem]]
    calls: list[Row[ToolCall]]
    approvals: list[Row[RuntimeApproval]]


class ThreadDetail(ThreadRow):
    """A thread and its turns, with the first line of each prompt and answer. missing: why its prompts cannot be shown,
    if they cannot."""

    forks: list[str]
    lines: list[ThreadTurn]
    missing: str | None


class ThreadTranscript(Frozen):
    """Some turns of a thread, the oldest first; total: of all. missing: why the prompts cannot be shown."""

    thread_id: str
    total: int
    turns: list[ThreadTurnDetail]
    missing: str | None = None


def threads(session: Session, registered: Sequence[Registered], limit: int, role: str | None = None) -> list[ThreadRow]:
    wanted = select(KeptThread).order_by(col(KeptThread.created_at).desc())
    if role is not None:
        wanted = wanted.where(KeptThread.role == role)
    kept = {row.thread_id: row for row in session.exec(wanted.limit(limit + len(registered))).all()}
    rows = [_current(one, kept.pop(one.record.thread_id, None)) for one in registered if role in (None, one.role)]
    return (rows + [ThreadRow(thread=row, current=False) for row in kept.values()])[:limit]


def find_thread(session: Session, part: str) -> str:
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


def thread_detail(
    session: Session, registered: Sequence[Registered], vault: ThreadCopies, thread_id: str
) -> ThreadDetail:
    found = _Turns(session, vault, thread_id)
    current = next((one for one in registered if one.record.thread_id == thread_id), None)
    forks = session.exec(select(KeptThread.thread_id).where(KeptThread.parent_id == thread_id)).all()
    row = _current(current, found.kept) if current is not None else found.row()
    return ThreadDetail(
        **dict(row), forks=sorted(forks), lines=[_short(one) for one in found.lines()], missing=found.missing
    )


def thread_transcript(
    session: Session, vault: ThreadCopies, thread_id: str, limit: int, offset: int = 0
) -> ThreadTranscript:
    """Return a page of a thread's turns, with those from before a fork and one that runs now."""
    found = _Turns(session, vault, thread_id)
    turns = found.in_full(offset, limit)
    return ThreadTranscript(thread_id=thread_id, total=len(found.ids), turns=turns, missing=found.missing)


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
    return next((line.strip() for line in (text or "").splitlines() if line.strip()), None)


def title_of(answer: str | None) -> str | None:
    """Return what an answer comes to, in a line: of one by a schema in words, such as "opens 8, watches 2"."""
    try:
        found = orjson.loads(answer or "")
    except orjson.JSONDecodeError:
        return first_line(answer)
    if not isinstance(found, dict):
        return first_line(answer)
    if isinstance(actions := found.get("actions"), list):
        names = Counter(str(one.get("action", "acts")) for one in actions if isinstance(one, dict))
        return ", ".join(f"{_VERBS.get(name, name)} {count}" for name, count in names.items()) or "does nothing"
    if isinstance(hits := found.get("candidates"), list):
        symbols = ", ".join(str(one.get("symbol")) for one in hits if isinstance(one, dict))
        return f"puts forward {symbols}" if hits else "puts nothing forward"
    if isinstance(forecasts := found.get("forecasts"), list):
        return f"forecasts {len(forecasts)} questions"
    judged = [str(found[name]) for name in ("verdict", "recommendation", "confidence") if found.get(name)]
    said = next((str(found[name]) for name in ("headline", "summary") if found.get(name)), "")
    return ": ".join(filter(None, (" ".join(judged), said))) or first_line(answer)


_VERBS = {"open": "opens", "add": "adds to", "reduce": "reduces", "close": "closes", "watch": "watches"}


def _short(one: ThreadTurn) -> ThreadTurn:
    return one.model_copy(update={"prompt": first_line(one.prompt), "answer": title_of(one.answer)})


def _current(one: Registered, kept: KeptThread | None) -> ThreadRow:
    record = one.record
    created = dt.datetime.fromtimestamp(record.created_at, dt.UTC)
    made = KeptThread(
        thread_id=record.thread_id, role=one.role, subject=one.subject, mode=record.mode, model=record.model,
        reason=record.reason, worker=record.owner, created_at=created,
    )  # fmt: skip
    return ThreadRow(
        thread=kept or made, current=record.dropped is None, busy=one.busy, turns=record.turns,
        generation=record.generation, owner=record.owner,
        updated_at=dt.datetime.fromtimestamp(record.updated_at, dt.UTC),
    )  # fmt: skip


class _Turns:
    """The turns of a thread: by its newest copy, by the desk's own record, and one that runs now."""

    def __init__(self, session: Session, vault: ThreadCopies, thread_id: str) -> None:
        self._session, self._thread_id = session, thread_id
        self.kept = session.get(KeptThread, thread_id)
        past, self.missing = (
            transcript_of(session, vault, thread_id) if self.kept is not None else ([], OF_ONE_CONVERSATION)
        )
        self._rows = session.exec(
            select(Turn).where(Turn.thread_id == thread_id).order_by(col(Turn.started_at), col(Turn.ordinal))
        ).all()
        # Turns from before a fork are its parent's: they have the parent's rows.
        before = session.exec(select(Turn).where(col(Turn.codex_turn_id).in_([one.turn_id for one in past]))).all()
        live = session.exec(
            select(RuntimeTurn).where(RuntimeTurn.thread_id == thread_id).order_by(col(RuntimeTurn.started_at))
        ).all()
        self._past = {one.turn_id: one for one in past}
        self._recorded = {row.codex_turn_id: row for row in (*before, *self._rows) if row.codex_turn_id}
        self._live = {one.turn_id: one for one in live}
        self.ids = list(dict.fromkeys([*self._past, *self._recorded, *self._live]))

    def row(self) -> ThreadRow:
        if self.kept is not None:
            return ThreadRow(thread=self.kept, current=False)
        first, last = self._rows[0], self._rows[-1]
        thread = KeptThread(
            thread_id=self._thread_id, role=first.role, subject=first.subject, mode="", model=first.model,
            reason=first.thread_reason or "", worker="", created_at=first.started_at,
        )  # fmt: skip
        return ThreadRow(thread=thread, current=False, turns=len(self._rows), updated_at=last.finished_at)

    def lines(self) -> list[ThreadTurn]:
        return [ThreadTurn(**self._line(ordinal, id_)) for ordinal, id_ in enumerate(self.ids, start=1)]

    def in_full(self, offset: int, limit: int) -> list[ThreadTurnDetail]:
        page = list(enumerate(self.ids, start=1))[offset : offset + limit]
        ids = [id_ for _, id_ in page]
        items = _by(self._session.exec(
            select(RuntimeItem).where(col(RuntimeItem.turn_id).in_(ids)).order_by(col(RuntimeItem.started_at))
        ).all())  # fmt: skip
        requests = _by(self._session.exec(
            select(RuntimeApproval)
            .where(col(RuntimeApproval.turn_id).in_(ids))
            .order_by(col(RuntimeApproval.asked_at))
        ).all())  # fmt: skip
        known = [self._recorded[id_].id for id_ in ids if id_ in self._recorded]
        calls = _by(self._session.exec(
            select(ToolCall).where(col(ToolCall.turn_id).in_(known)).order_by(col(ToolCall.ordinal), col(ToolCall.id))
        ).all())  # fmt: skip
        found = []
        for ordinal, id_ in page:
            row = self._recorded.get(id_)
            found.append(
                ThreadTurnDetail(
                    **self._line(ordinal, id_), row=row, items=items[id_], calls=calls[row.id] if row else [],
                    approvals=requests[id_],
                )
            )  # fmt: skip
        return found

    def _line(self, ordinal: int, id_: str) -> dict[str, Any]:
        row, past, live = self._recorded.get(id_), self._past.get(id_), self._live.get(id_)
        role = self.kept.role if self.kept is not None else self._rows[0].role if self._rows else ""
        return {
            "ordinal": ordinal,
            "turn_id": id_,
            "role": row.role if row else role,
            "run_id": row.run_id if row else None,
            "started_at": row.started_at if row else past.started_at if past else live.started_at if live else None,
            "seconds": _seconds(row, past, live),
            "tokens": row.total_tokens if row else past.tokens if past else None,
            "outcome": _outcome(row, past, live),
            "running": row is None and live is not None and live.status == LifecycleStatus.IN_PROGRESS,
            "prompt": past.prompt if past else None,
            "answer": row.text if row and row.text else past.answer if past else None,
        }


def _by(rows: Iterable[Any]) -> dict[str, list[Any]]:
    return by_key((row.turn_id, row) for row in rows)


def _outcome(row: Turn | None, past: TranscriptTurn | None, live: RuntimeTurn | None) -> str:
    if row is not None:
        return row.outcome
    return past.status if past is not None and past.status != "unfinished" else live.status if live else "unknown"


def _seconds(row: Turn | None, past: TranscriptTurn | None, live: RuntimeTurn | None) -> float | None:
    if row is not None:
        return (row.finished_at - row.started_at).total_seconds()
    if past is not None and past.seconds is not None:
        return past.seconds
    return (live.ended_at - live.started_at).total_seconds() if live is not None and live.ended_at else None
