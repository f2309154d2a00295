"""The format of the audit log: one JSON object a line, each with the hash of the one before it.

{"at": time, "facts": {...}, "hash": ..., "kind": ..., "n": 1, 2, ..., "prev": hash of line n - 1}

hash is the SHA-256 of the line's canonical JSON without `hash`. A transaction that did not commit leaves lines that the
database's anchor does not count; the next line written is an `abandoned` line, which names those bytes by length and
SHA-256, so that nothing is ever removed from the file.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

FIRST_PREV = "0" * 64
OPENED = "opened"
ABANDONED = "abandoned"
SENT = "submitting"  # the last line of its transaction, always
_BEGINNING = b'{"at":"'  # of every line
_LINE = re.compile(rb"[^\n]*\n|[^\n]+\Z")
_KEYS = {"n", "at", "kind", "facts", "prev", "hash"}


@dataclass(frozen=True, slots=True)
class AuditEntry:
    """One line of the log. at: real time, UTC."""

    n: int
    at: str
    kind: str
    facts: Mapping[str, Any]
    prev: str
    hash: str


@dataclass(frozen=True, slots=True)
class ChainAnchor:
    """The database's record of a chain: number of lines, hash of the last one, and the file's length with it."""

    count: int
    head: str
    size: int


@dataclass(frozen=True, slots=True)
class ChainReading:
    """A file compared with its anchor.

    entries: committed lines in order. abandoned: number of lines that an `abandoned` line covers. beyond: number of
    lines after the anchored ones, of transactions that did not commit or are not over. problems: lines that were
    altered, inserted, are missing or were cut off, and lines that did commit although the database does not count them.
    """

    entries: list[AuditEntry]
    abandoned: int
    beyond: int
    problems: list[str]


def seal(n: int, at: str, kind: str, facts: Mapping[str, Any], prev: str) -> tuple[bytes, str]:
    """Return a line as it is written, with its newline, and its hash."""
    body = {"n": n, "at": at, "kind": kind, "facts": facts, "prev": prev}
    found = hashlib.sha256(_canonical(body)).hexdigest()
    return _canonical({**body, "hash": found}) + b"\n", found


def _canonical(value: Mapping[str, Any]) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()


def abandoned_facts(beyond: bytes) -> dict[str, Any]:
    """Return the facts of the line that marks the bytes right before it as abandoned."""
    return {"bytes": len(beyond), "lines": beyond.count(b"\n"), "sha256": hashlib.sha256(beyond).hexdigest()}


def read_chain(data: bytes, anchor: ChainAnchor) -> ChainReading:
    """Read a file's lines in order and name everything that is not as it was written."""
    raws = _LINE.findall(data)
    starts = [0, *accumulate(map(len, raws))]
    parsed = [_parse(raw) for raw in raws]
    struck, problems = _abandoned(data, starts, parsed)
    entries: list[AuditEntry] = []
    expected, head, beyond = 1, FIRST_PREV, 0
    uncounted = set(struck)
    for place, found in enumerate(parsed):
        counts = place not in struck and expected <= anchor.count
        if found is None and (counts or not _broken_off(raws[place])):
            problems.append(f"line {place + 1} of the file is not a line of the log")
            continue
        if place in struck:
            continue
        if found is None or not counts:
            beyond += 1
            uncounted.add(place)
            continue
        problems += _faults(found, raws[place], expected, head)
        entries.append(found)
        expected, head = found.n + 1, found.hash
    problems += _end(expected - 1, head, anchor) + _uncounted_orders(parsed, uncounted)
    return ChainReading(entries, len(struck), beyond, problems)


def _parse(raw: bytes) -> AuditEntry | None:
    try:
        found = json.loads(raw)
    except ValueError:
        return None
    if not isinstance(found, dict) or set(found) != _KEYS:
        return None
    texts = all(isinstance(found[key], str) for key in ("at", "kind", "prev", "hash"))
    whole = isinstance(found["n"], int) and isinstance(found["facts"], dict)
    return AuditEntry(**found) if texts and whole else None


def _broken_off(raw: bytes) -> bool:
    """Return whether a full disk or a crash can have left this of a line: its beginning, or zeros in its place. A
    blank line or any other text was inserted."""
    text = raw.removesuffix(b"\n")
    return text.startswith((_BEGINNING, b"\0")) or (text != b"" and _BEGINNING.startswith(text))


def _abandoned(data: bytes, starts: list[int], parsed: list[AuditEntry | None]) -> tuple[set[int], list[str]]:
    """Return the places of abandoned lines, and problems. The last mark comes first: it may cover a mark that did
    not commit."""
    struck: set[int] = set()
    problems: list[str] = []
    for place in range(len(parsed) - 1, -1, -1):
        found = parsed[place]
        if place in struck or found is None or found.kind != ABANDONED:
            continue
        length = found.facts.get("bytes")
        begin = starts[place] - length if isinstance(length, int) else -1
        if begin < 0 or abandoned_facts(data[begin : starts[place]]) != found.facts:
            problems.append(f"line {found.n}: the lines that it strikes out are not what stands before it")
            continue
        struck.update(other for other in range(place) if starts[other] >= begin)
    return struck, problems


def _faults(found: AuditEntry, raw: bytes, expected: int, head: str) -> list[str]:
    sealed, digest = seal(found.n, found.at, found.kind, found.facts, found.prev)
    if digest != found.hash or sealed != raw:
        return [f"line {found.n}: its content is not what its hash was made of: altered"]
    if found.n > expected:
        return [f"{_lines(expected, found.n - 1)} missing"]
    if found.n < expected:
        return [f"line {found.n} stands where line {expected} should"]
    if found.prev != head:
        return [f"line {found.n} does not follow from the line before it: one of them was altered"]
    return []


def _end(last: int, head: str, anchor: ChainAnchor) -> list[str]:
    if last < anchor.count:
        return [f"{_lines(last + 1, anchor.count)} missing: the end of the file was cut off"]
    if head != anchor.head:
        return [f"line {last} is not the last one that the database has anchored"]
    return []


def _uncounted_orders(parsed: list[AuditEntry | None], uncounted: set[int]) -> list[str]:
    """Return problems for orders that were sent by lines the database does not count: the next line's writer had
    seen them committed."""
    problems = []
    for place in sorted(uncounted):
        found, after = parsed[place], parsed[place + 1] if place + 1 in uncounted else None
        if found is None or after is None or found.kind != SENT or after.prev != found.hash:
            continue
        sent = f"line {found.n}: order {found.facts.get('order')} was sent, and the database does not know it"
        problems.append(f"{sent}: it is older than the log, as after a restore; ask the broker")
    return problems


def _lines(first: int, last: int) -> str:
    return f"line {first} is" if first == last else f"lines {first} to {last} are"
