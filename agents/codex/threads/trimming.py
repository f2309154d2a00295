"""Shortening of a kept thread's rollout: what its next turns send to the model again.

The app-server has no request for it: `thread/compact/start` has the model write a summary, at the price of one more
call, and `thread/inject_items` only appends. It does read the rollout when a thread is resumed, so that is shortened;
the vault's copy stays whole.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson


@dataclass(frozen=True, slots=True)
class Shortened:
    """A whole rollout, and the size in bytes of its short form that a process goes on with."""

    whole: bytes
    size: int

    def continued(self, rollout: bytes) -> bytes:
        """Return the whole with what was appended to the short form."""
        return self.whole + rollout[self.size :]


@dataclass(slots=True)
class _Turn:
    """Places of a turn's messages among the rollout's lines. message: the model's last one so far; answer: the same,
    once the turn is complete."""

    started_at: float | None
    asked: int | None = None
    message: int | None = None
    answer: int | None = None
    items: list[int] = field(default_factory=list)


def trimmed(rollout: bytes, answers: int) -> bytes:
    """Return the rollout with the last so many answers as all that the model is sent of its turns, each after a line in
    place of its question.

    Tool calls, what tools answered and the data of questions are of their time; the next question brings its own. The
    events stay, so a transcript is whole. A rollout that cannot be read is returned as it is.
    """
    lines = rollout.splitlines(keepends=True)
    try:
        turns = _turns(lines)
        answered = [turn for turn in turns if turn.answer is not None]
        changed: dict[int, bytes] = {number: b"" for turn in turns for number in turn.items}
        for turn in answered[max(len(answered) - answers, 0) :]:
            changed |= _in_short(turn, lines)
    except (orjson.JSONDecodeError, AttributeError, KeyError, TypeError):
        return rollout
    return b"".join(changed.get(number, line) for number, line in enumerate(lines))


def _turns(lines: list[bytes]) -> list[_Turn]:
    turns: list[_Turn] = []
    for number, (kind, payload) in _rows(lines):
        event = payload.get("type")
        if kind == "event_msg" and event == "task_started":
            turns.append(_Turn(payload.get("started_at")))
        elif not turns:
            continue
        elif kind == "event_msg" and event == "task_complete":
            turns[-1].answer = turns[-1].message
        elif kind == "response_item":
            _place(turns[-1], number, payload)
    return turns


def _rows(lines: list[bytes]) -> Iterator[tuple[int, tuple[str, Mapping[str, Any]]]]:
    for number, line in enumerate(lines):
        row = orjson.loads(line)
        yield number, (row["type"], row["payload"])


def _place(turn: _Turn, number: int, item: Mapping[str, Any]) -> None:
    role = item.get("role")
    if item["type"] == "message" and role not in ("user", "assistant"):
        return  # instructions
    turn.items.append(number)
    if role == "user" and turn.asked is None:
        turn.asked = number
    elif role == "assistant":
        turn.message = number


def _in_short(turn: _Turn, lines: list[bytes]) -> dict[int, bytes]:
    """Return the lines of a turn that stay, by their places."""
    asked = {turn.asked: _asked(lines[turn.asked], turn)} if turn.asked is not None else {}
    return asked | ({turn.answer: lines[turn.answer]} if turn.answer is not None else {})


def _asked(line: bytes, turn: _Turn) -> bytes:
    """Return the line of a question with a note in place of its text."""
    row = orjson.loads(line)
    at = f" of {dt.datetime.fromtimestamp(turn.started_at, dt.UTC):%Y-%m-%d %H:%M} UTC" if turn.started_at else ""
    note = [{"type": "input_text", "text": f"[An earlier question{at}, without its data and the tools' answers.]"}]
    if row["payload"]["content"] == note:
        return line
    row["payload"]["content"] = note
    return orjson.dumps(row) + b"\n"
