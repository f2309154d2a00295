"""Shortening of answers and subjects to a number of tokens, by whole rows, with what was left out named in them.

A server's own tokenizer is not asked: tokens are estimated from characters, rather too many than too few.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson

LEFT_OUT = "leftOut"
WHY = "no room in the model's context; ask for less at a time"
TEXT_ROW = 100  # characters of a text that count as a row of it
SHORT_LIST = 8  # such lists of single values stay whole: names of columns, a few risks
TABLE = 12  # a mapping of more objects than this is a table by name
SHOWN_NAMES = 200
CALL_TOKENS = 20  # of a call and its answer, beside their JSON
IMAGE_TOKENS = 1_500  # assumed: a server does not say what a picture takes
_TIMES = ("date", "at", "time", "day", "publishedAt")
_DATE = re.compile(r"\d{4}-\d\d-\d\d")
_DIGITS, _CAPITALS, _SMALL = b"0123456789", b"ABCDEFGHIJKLMNOPQRSTUVWXYZ", b"abcdefghijklmnopqrstuvwxyz"


def tokens_of(text: str) -> int:
    """Return the tokens of a text, estimated: a digit is one, as are two capitals, ten small letters are three, and
    five other signs, three; spaces go with their words, and two bytes of other scripts are one.

    By the vocabulary of SmolLM2, which is small and splits numbers into digits, the desk's instructions, schemas and
    answers of tools have 0.7 to 1.0 times as many.
    """
    data = text.encode()
    digits, capitals, small = (_count(data, signs) for signs in (_DIGITS, _CAPITALS, _SMALL))
    other_scripts = sum(map(len, re.findall(rb"[\x80-\xff]+", data)))
    others = len(data) - digits - capitals - small - other_scripts - data.count(b" ")
    return int(digits + capitals / 2 + 0.3 * small + 0.6 * others + other_scripts / 2) + 1


def _count(data: bytes, signs: bytes) -> int:
    return len(data) - len(data.translate(None, signs))


def text_of(value: Any) -> str:
    return orjson.dumps(value).decode()


def shorten(
    payload: Mapping[str, Any],
    most: int,
    size: Callable[[str], int] = tokens_of,
    *,
    only: Collection[str] | None = None,
    named: bool = False,
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return a payload that is not larger than `most`, as far as leaving out rows can do that, and what was left out.

    The longest lists lose rows first, until none has more than the others: the last rows, or of rows that run on in
    time the oldest. Long texts lose whole words at their end. `leftOut` in the payload says so: by the path of each
    list {rows, of}, and of each text {chars, of}. only: keys of the payload that may lose something. named: with the
    `names` of rows that have a symbol or an id.
    """
    whole = dict(payload)
    if size(text_of(whole)) <= most:
        return whole, {}
    low, high = 0, _rows_in(whole)
    best = _cut(whole, _Cutter(0, named), only)
    while low <= high:
        middle = (low + high) // 2
        found = _cut(whole, _Cutter(middle, named), only)
        if size(text_of(found[0])) <= most:
            best, low = found, middle + 1
        else:
            high = middle - 1
    return best


def is_empty(left_out: Mapping[str, Any]) -> bool:
    """Return whether nothing was left of some list, or of all texts."""
    gone = ["rows" in one for one in left_out.values() if one.get("rows", one.get("chars")) == one["of"]]
    return any(gone) or 0 < len(gone) == len(left_out)


def lines_of(left_out: Mapping[str, Any]) -> list[str]:
    return [_line(path, one) for path, one in left_out.items() if isinstance(one, Mapping)]


def _line(path: str, one: Mapping[str, Any]) -> str:
    if "rows" not in one:
        return f"{path}: {one['chars']:,} of {one['of']:,} characters"
    names = one.get("names", [])
    more = f" and {one['rows'] - len(names)} more" if names and one["rows"] > len(names) else ""
    return f"{path}: {one['rows']} of {one['of']}" + (f" ({', '.join(names)}{more})" if names else "")


def _cut(
    payload: Mapping[str, Any], cutter: _Cutter, only: Collection[str] | None
) -> tuple[dict[str, Any], dict[str, Any]]:
    cut = {key: cutter.cut(value, key) if only is None or key in only else value for key, value in payload.items()}
    if not cutter.left:
        return cut, {}
    return {**cut, LEFT_OUT: {"why": WHY, **cutter.left}}, cutter.left


@dataclass(slots=True)
class _Cutter:
    """Cuts every list, table and text to so many rows. left: the number left out, by path."""

    rows: int
    named: bool
    left: dict[str, dict[str, Any]] = field(default_factory=dict)

    def cut(self, value: Any, path: str) -> Any:
        if isinstance(value, str):
            return self._text(value, path)
        if isinstance(value, list):
            rows = self._list(value, path) if _is_long(value) and len(value) > self.rows else value
            return [one if isinstance(one, list) else self.cut(one, path) for one in rows]
        if isinstance(value, dict):
            kept = self._table(value, path) if _is_table(value) and len(value) > self.rows else value
            return {key: self.cut(one, path if _is_table(value) else f"{path}.{key}") for key, one in kept.items()}
        return value

    def _list(self, value: list[Any], path: str) -> list[Any]:
        first = len(value) - self.rows if _runs_on(value) else 0
        kept = value[first : first + self.rows]
        gone = value[: len(value) - self.rows] if first else value[self.rows :]
        self._note(path, "rows", len(gone), len(value), [name for one in gone if (name := _name(one))])
        return kept

    def _table(self, value: dict[str, Any], path: str) -> dict[str, Any]:
        names = list(value)
        self._note(path, "rows", len(names) - self.rows, len(names), names[self.rows :])
        return {name: value[name] for name in names[: self.rows]}

    def _text(self, text: str, path: str) -> str:
        most = self.rows * TEXT_ROW
        if len(text) <= max(most, TEXT_ROW):
            return text
        end = most
        while end > 0 and not (text[end].isspace() and not (text[end - 1].isdigit() and text[end + 1 :][:1].isdigit())):
            end -= 1
        self._note(path, "chars", len(text) - end, len(text), [])
        return f"{text[:end].rstrip()} …" if end else "…"

    def _note(self, path: str, unit: str, count: int, of: int, names: list[str]) -> None:
        before = self.left.setdefault(path, {unit: 0, "of": 0})
        before[unit] = before.get(unit, 0) + count
        before["of"] += of
        if self.named and names and len(before.get("names", [])) < SHOWN_NAMES:
            before["names"] = [*before.get("names", []), *names][:SHOWN_NAMES]


def _rows_in(value: Any) -> int:
    """Return the most rows of any list, table or text in a value."""
    if isinstance(value, str):
        return -(-len(value) // TEXT_ROW)
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return max([len(inner), *map(_rows_in, inner)]) if inner else 0


def _is_long(value: list[Any]) -> bool:
    return len(value) > SHORT_LIST or any(isinstance(one, dict | list) for one in value)


def _is_table(value: dict[str, Any]) -> bool:
    return len(value) > TABLE and all(isinstance(one, dict | list) for one in value.values())


def _runs_on(rows: list[Any]) -> bool:
    """Return whether rows have times, the oldest first."""
    first, last = _time(rows[0]), _time(rows[-1])
    return first is not None and last is not None and first < last


def _time(row: Any) -> str | None:
    values = [row.get(name) for name in _TIMES] if isinstance(row, dict) else row[:1] if isinstance(row, list) else []
    return next((one for one in values if isinstance(one, str) and _DATE.match(one)), None)


def _name(row: Any) -> str | None:
    name = row.get("symbol") or row.get("id") if isinstance(row, dict) else row
    return name if isinstance(name, str) and len(name) <= 40 else None


class Room:
    """Tokens that are left in a model's context for calls of tools in one turn, which may be at once in many threads.

    A call gets half of what is left at the most, so that there is room for further ones.
    """

    def __init__(self, tokens: int) -> None:
        self.left = max(tokens, 0)
        self._lock = threading.Lock()

    def reserve(self) -> int:
        """Return the tokens of a call that begins; they are taken until `settle`."""
        with self._lock:
            share = self.left // 2
            self.left -= share
            return share

    def settle(self, share: int, used: int) -> None:
        """Give back what a call did not use."""
        with self._lock:
            self.left = max(self.left + share - used, 0)
