"""The rows of conversations, turns and items as a runtime reports them: the last word on each, written together.
What has ended stays so: a word from before its end, written after somebody else ended it, changes nothing."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from sqlalchemy.engine import Dialect
from sqlmodel import Session, SQLModel

from agents.codex.observer import ConversationSeen
from models.event_tables import Conversation, RuntimeItem, RuntimeTurn
from models.lifecycle import ItemLifecycle, TurnLifecycle
from models.prepared import BulkInsert

Row = dict[str, Any]


class Lifecycles:
    """What was told and is not written yet."""

    def __init__(self) -> None:
        self.conversations: dict[str, ConversationSeen] = {}
        self.turns: dict[tuple[str, str], tuple[TurnLifecycle, str]] = {}
        self.items: dict[tuple[str, str], tuple[ItemLifecycle, str]] = {}

    def __len__(self) -> int:
        return len(self.conversations) + len(self.turns) + len(self.items)

    def conversation(self, seen: ConversationSeen) -> None:
        self.conversations[seen.id] = seen

    def turn(self, turn: TurnLifecycle, run_id: str) -> None:
        self.turns[turn.thread_id, turn.turn_id] = turn, run_id

    def item(self, item: ItemLifecycle, run_id: str) -> None:
        self.items[item.turn_id, item.item_id] = item, run_id

    def older(self, before: Lifecycles) -> None:
        """Adds what was told before, where nothing was told since."""
        self.conversations = before.conversations | self.conversations
        self.turns = before.turns | self.turns
        self.items = before.items | self.items

    def singly(self) -> Iterator[Lifecycles]:
        """Each row by itself."""
        for kind in ("conversations", "turns", "items"):
            for key, row in getattr(self, kind).items():
                one = Lifecycles()
                setattr(one, kind, {key: row})
                yield one

    def write(self, session: Session) -> None:
        """Rows are written in one order by all, so that two writers never wait for each other."""
        talks = [_talk(seen) for _, seen in sorted(self.conversations.items())]
        turns = [_of(turn) for _, turn in sorted(self.turns.items())]
        items = [_of(item) for _, item in sorted(self.items.items())]
        connection = session.connection()
        for model, rows in ((Conversation, talks), (RuntimeTurn, turns), (RuntimeItem, items)):
            _upsert(model, connection.dialect).run(connection, rows)


def _talk(seen: ConversationSeen) -> Row:
    return {
        "id": seen.id,
        "run_id": seen.ref.run_id,
        "step_id": seen.scope.step_id,
        "role": seen.scope.role,
        "subject": seen.scope.subject,
        "runtime_kind": seen.ref.runtime_kind.value,
        "thread_id": seen.ref.thread_id,
        "thread_reason": seen.reason,
        "kept": seen.kept,
        "worker": seen.worker,
        "active_turn_id": seen.ref.active_turn_id,
        "opened_at": seen.opened_at,
        "closed_at": seen.closed_at,
    }


def _of(told: tuple[TurnLifecycle | ItemLifecycle, str]) -> Row:
    lifecycle, run_id = told
    return {**lifecycle.__dict__, "run_id": run_id}


@lru_cache(8)
def _upsert(model: type[SQLModel], dialect: Dialect) -> BulkInsert:
    ended = "closed_at" if model is Conversation else "ended_at"
    return BulkInsert(model.__table__, dialect, replace=True, ended=ended)  # type: ignore[attr-defined]
