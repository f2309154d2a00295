"""The rows of a chapter: its turns and its tools' calls since the last checkpoint, which is written with them."""

from __future__ import annotations

import datetime as dt
import itertools
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import orjson
from sqlmodel import Session, col, select

from chordesk.agents.judging import storable
from chordesk.agents.runner import KEPT_OUTPUT_CHARS
from chordesk.agents.tradingagents.data import EMPTY
from chordesk.models.database.store import insert_rows, new_row
from chordesk.models.tables.runs import ToolCall, Turn

_LENIENT = orjson.OPT_NON_STR_KEYS


@dataclass(slots=True)
class Record:
    """Rows that are not in the database yet. Threads of a graph share it. last: the turn that a tool's call counts to
    when it names none."""

    last: str | None = None
    turns: list[Turn] = field(default_factory=list)
    calls: list[ToolCall] = field(default_factory=list)
    begun: int = 0  # turns of this attempt
    _asked: dict[str, str] = field(default_factory=dict)
    _counts: dict[str, int] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)  # held for no longer than a look
    _writing: threading.Lock = field(default_factory=threading.Lock)

    @property
    def tokens(self) -> int:
        """Return the tokens of turns that are not in the database."""
        with self._lock:
            return sum(turn.total_tokens or 0 for turn in self.turns)

    def turn(self, make: Callable[[int], Turn]) -> Turn:
        """Add the row of a turn that has ended. make: is given its place in the attempt."""
        with self._lock:
            row = make(self.begun)
            self.begun += 1
            self.turns.append(row)
            self.last = row.id
            return row

    def asks(self, turn: Turn, call_ids: Sequence[str]) -> None:
        """Note that a turn asked for these calls."""
        with self._lock:
            self._asked.update(dict.fromkeys(call_ids, turn.id))

    def called(
        self, tool: str, arguments: Mapping[str, Any], output: str, *, success: bool, began: dt.datetime,
        ended: dt.datetime, call_id: str = "",
    ) -> None:  # fmt: skip
        """Add a tool's call; a tool that the graph called before any turn belongs to none, and has no row."""
        with self._lock:
            turn_id = self._asked.get(call_id, self.last)
            if turn_id is None:
                return
            ordinal = self._counts.get(turn_id, 0)
            self._counts[turn_id] = ordinal + 1
            row = new_row(
                ToolCall,
                turn_id=turn_id,
                ordinal=ordinal,
                tool=storable(tool),
                arguments=storable(orjson.loads(orjson.dumps(dict(arguments), default=str, option=_LENIENT))),
                output=storable(output)[:KEPT_OUTPUT_CHARS],
                success=success,
                has_data=success and bool(output.strip()) and not output.startswith(EMPTY),
                seconds=round((ended - began).total_seconds(), 6),
            )
            self.calls.append(row)

    @contextmanager
    def written(self) -> Iterator[Callable[[Session], bool]]:
        """Yield the writer of these rows; they are gone from here when the block ends well. It returns False when an
        earlier try of the same transaction has written them."""
        with self._writing:
            turns, calls = self.rows()
            tries = itertools.count()
            yield lambda session: _insert(session, turns, calls, again=next(tries) > 0)
            with self._lock:
                self.turns = self.turns[len(turns) :]
                self.calls = self.calls[len(calls) :]

    def rows(self) -> tuple[list[Turn], list[ToolCall]]:
        """Return the rows that are left, each group before the next (foreign keys)."""
        with self._lock:
            return list(self.turns), list(self.calls)


def _insert(session: Session, turns: Sequence[Turn], calls: Sequence[ToolCall], *, again: bool) -> bool:
    for table, rows in ((Turn, turns), (ToolCall, calls)) if again else ():
        ids = [row.id for row in rows]
        if ids and session.exec(select(col(table.id)).where(col(table.id).in_(ids)).limit(1)).first() is not None:
            return False  # the commit was made, its answer was lost
    insert_rows(session, turns)
    insert_rows(session, calls)
    return True
