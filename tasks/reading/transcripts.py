"""A thread in full: each turn with its prompt, answer, items, tool calls, approvals and tokens."""

from __future__ import annotations

import datetime as dt
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from sqlmodel import Session, col, select

from chordesk.agents.runtime import ThreadCopies, TranscriptTurn
from chordesk.models.answers import Frozen
from chordesk.models.events import LifecycleStatus
from chordesk.models.tables.columns import Row
from chordesk.models.tables.runs import ToolCall, Turn
from chordesk.models.tables.runtime import KeptThread, RuntimeApproval, RuntimeItem, RuntimeTurn
from chordesk.tasks.threads import transcript_of

OF_ONE_CONVERSATION = "it is a thread of one conversation"


class TurnTokens(Frozen):
    """Tokens as the provider counted them; null without a figure."""

    input_tokens: int | None
    cached_input_tokens: int | None
    output_tokens: int | None
    reasoning_tokens: int | None
    total_tokens: int | None


class WholeTurn(Frozen):
    """A turn of a thread. turn_id: the runtime's own; row_id: of the desk's record, null for one outside any run or one
    that still runs. running: it is not over. prompt, answer: null where they were not kept. calls: empty for a turn
    outside any run, whose calls are not recorded."""

    ordinal: int
    turn_id: str
    row_id: str | None
    role: str
    subject: str | None
    run_id: str | None
    step_id: str | None
    attempt: int | None
    model: str | None
    outcome: str
    running: bool
    started_at: dt.datetime | None
    seconds: float | None
    tokens: TurnTokens | None
    total_tokens: int | None
    cost_usd: float | None
    prompt: str | None
    answer: str | None
    items: list[Row[RuntimeItem]]
    calls: list[Row[ToolCall]]
    approvals: list[Row[RuntimeApproval]]


class ThreadTranscript(Frozen):
    """Some turns of a thread, the oldest first; total: of all. missing: why the prompts cannot be shown."""

    thread_id: str
    total: int
    turns: list[WholeTurn]
    missing: str | None = None


def thread_transcript(
    session: Session, vault: ThreadCopies, thread_id: str, limit: int, offset: int = 0
) -> ThreadTranscript:
    """Return a page of a thread's turns, with those from before a fork and one that runs now."""
    kept = session.get(KeptThread, thread_id)
    past, missing = transcript_of(session, vault, thread_id) if kept is not None else ([], OF_ONE_CONVERSATION)
    rows = session.exec(
        select(Turn).where(Turn.thread_id == thread_id).order_by(col(Turn.started_at), col(Turn.ordinal))
    ).all()
    # Turns from before a fork are its parent's: they have the parent's rows.
    before = session.exec(select(Turn).where(col(Turn.codex_turn_id).in_([one.turn_id for one in past]))).all()
    live = session.exec(
        select(RuntimeTurn).where(RuntimeTurn.thread_id == thread_id).order_by(col(RuntimeTurn.started_at))
    ).all()
    recorded = {row.codex_turn_id: row for row in (*before, *rows) if row.codex_turn_id}
    ids = list(dict.fromkeys([*(one.turn_id for one in past), *recorded, *(one.turn_id for one in live)]))
    page = list(enumerate(ids, start=1))[offset : offset + limit]
    found = _Found(session, [id_ for _, id_ in page], recorded, past, live, _role(kept, rows))
    return ThreadTranscript(
        thread_id=thread_id, total=len(ids), turns=[found.turn(ordinal, id_) for ordinal, id_ in page], missing=missing
    )


def _role(kept: KeptThread | None, rows: Sequence[Turn]) -> str:
    return kept.role if kept is not None else rows[0].role if rows else ""


class _Found:
    """All that belongs to the turns of a page, read at once."""

    def __init__(
        self, session: Session, ids: Sequence[str], recorded: Mapping[str, Turn], past: Iterable[TranscriptTurn],
        live: Iterable[RuntimeTurn], role: str,
    ) -> None:  # fmt: skip
        self._recorded, self._role = recorded, role
        self._past = {one.turn_id: one for one in past}
        self._live = {one.turn_id: one for one in live}
        self._items = _by(session.exec(
            select(RuntimeItem).where(col(RuntimeItem.turn_id).in_(ids)).order_by(col(RuntimeItem.started_at))
        ).all())  # fmt: skip
        self._requests = _by(session.exec(
            select(RuntimeApproval)
            .where(col(RuntimeApproval.turn_id).in_(ids))
            .order_by(col(RuntimeApproval.asked_at))
        ).all())  # fmt: skip
        known = [recorded[id_].id for id_ in ids if id_ in recorded]
        self._calls = _by(session.exec(
            select(ToolCall).where(col(ToolCall.turn_id).in_(known)).order_by(col(ToolCall.ordinal), col(ToolCall.id))
        ).all())  # fmt: skip

    def turn(self, ordinal: int, id_: str) -> WholeTurn:
        row, past, live = self._recorded.get(id_), self._past.get(id_), self._live.get(id_)
        return WholeTurn(
            ordinal=ordinal,
            turn_id=id_,
            row_id=row.id if row else None,
            role=row.role if row else self._role,
            **_of_row(row),
            outcome=_outcome(row, past, live),
            running=row is None and live is not None and live.status == LifecycleStatus.IN_PROGRESS,
            started_at=row.started_at if row else past.started_at if past else live.started_at if live else None,
            seconds=_seconds(row, past, live),
            total_tokens=row.total_tokens if row else past.tokens if past else None,
            prompt=past.prompt if past else None,
            answer=row.text if row and row.text else past.answer if past else None,
            items=self._items[id_],
            calls=self._calls[row.id] if row else [],
            approvals=self._requests[id_],
        )


def _by(rows: Iterable[Any]) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = defaultdict(list)
    for row in rows:
        found[row.turn_id].append(row)
    return found


def _of_row(row: Turn | None) -> dict[str, Any]:
    names = ("subject", "run_id", "step_id", "attempt", "model", "cost_usd")
    if row is None:
        return dict.fromkeys((*names, "tokens"))
    return {**{name: getattr(row, name) for name in names}, "tokens": TurnTokens.of(row)}


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
