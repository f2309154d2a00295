"""Reading the audit log: check that it is whole, and select its lines."""

from __future__ import annotations

import datetime as dt
import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from sqlalchemy import update
from sqlmodel import col, select

from chordesk.models.database.store import Store
from chordesk.models.settings import Settings
from chordesk.models.tables.columns import utcnow
from chordesk.models.tables.orders import AuditAnchor
from chordesk.tools.orders.audit import (
    ABANDONED,
    OPENED,
    START,
    AuditEntry,
    ChainAnchor,
    ChainReading,
    chain_of,
    log_path,
    parse,
    read_chain,
)

ACCEPTED = "audit_accepted"  # the kind of a line
_ATTEMPTS = 5
CHECKPOINT_BYTES = 4_000_000  # that a log grows by until the check that has read them is kept
_LONGEST = 1_000_000  # bytes of a line
_EARLY = dt.timedelta(hours=1)  # by which a line may stand behind one of a later moment: its transaction was longer


@dataclass(frozen=True, slots=True)
class CheckedChain:
    """One chain compared with its file."""

    chain: str
    place: str  # host and folder that opened it
    count: int
    file: Path | None  # None when it was not found
    reading: ChainReading
    size: int = 0  # bytes of its lines
    since: int = 0  # number of lines that were not read now but at an earlier check, `since_at`
    since_at: dt.datetime | None = None
    accepted: AuditEntry | None = None  # the line by which a person accepted what is wrong before it

    @property
    def whole(self) -> bool:
        return not self.reading.problems


def check_logs(
    store: Store, settings: Settings, also: Sequence[Path] = (), *, whole: bool = False
) -> list[CheckedChain]:
    """Check every chain that the database knows, with the file of this data folder or one of `also`, and every such
    file whose chain it does not know.

    A log is read from the checkpoint on that the database has of an earlier check: that its last line is still there,
    and all after it. What was altered before it since then is found by a `whole` check alone.

    The anchors are read first: whatever a file holds beyond them was written since, or never committed. Raises OSError
    when a file cannot be read.
    """
    with store.read() as session:
        anchors = session.exec(select(AuditAnchor).order_by(col(AuditAnchor.at))).all()
    files = _files(settings, also)
    known = {anchor.chain for anchor in anchors}
    unanchored = [_unanchored(chain, file) for chain, file in files.items() if chain not in known]
    return [_settled(store, anchor, files.get(anchor.chain), whole) for anchor in anchors] + unanchored


def _settled(store: Store, row: AuditAnchor, file: Path | None, whole: bool) -> CheckedChain:
    """Compare a chain with its anchor, and again while it grows: a running desk writes meanwhile."""
    for _ in range(_ATTEMPTS):
        found = _check(row, file, whole)
        if found.whole:
            _keep(store, row, found)
            break
        with store.read() as session:
            now = session.get(AuditAnchor, row.chain)
        if now is None or now.count == row.count:
            break
        row = now
    return found


def _check(row: AuditAnchor, file: Path | None, whole: bool) -> CheckedChain:
    if file is None:
        lost = ChainReading(0, 0, [f"its file was not found; it was opened as {row.place}"])
        return CheckedChain(row.chain, row.place, row.count, None, lost)
    anchor, since, at = ChainAnchor(row.count, row.head, row.size), _checkpoint(row), row.verified_at
    with file.open("rb") as log:
        if whole or not _stands(log, since):
            since, at = START, None
        log.seek(since.size)
        reading, accepted = read_chain(log.read(), anchor, since), None
        if reading.problems:  # an acceptance is of the file from its beginning
            log.seek(0)
            since, at = START, None
            reading, accepted = read_accepted(log.read(), anchor)
    return CheckedChain(row.chain, row.place, row.count, file, reading, row.size, since.count, at, accepted)


def read_accepted(data: bytes, anchor: ChainAnchor) -> tuple[ChainReading, AuditEntry | None]:
    """Read a whole file. Where it is not whole and a person has accepted that, read what follows the accepted bytes,
    which must still be those of the acceptance; also return its line."""
    reading = read_chain(data, anchor)
    if reading.problems:
        for begin, line in reversed(_acceptances(data)):
            if (since := _accepted_until(data, begin, line)) is None:
                continue
            after = read_chain(data[since.size :], anchor, since)
            if line.n <= anchor.count and not after.problems:
                return after, line
    return reading, None


def _acceptances(data: bytes) -> list[tuple[int, AuditEntry]]:
    """Return the committed lines of acceptances, and where each begins."""
    kept: list[tuple[int, AuditEntry]] = []
    begin, marks = 0, (f'"kind":"{ACCEPTED}"'.encode(), f'"kind":"{ABANDONED}"'.encode())
    for raw in data.splitlines(keepends=True):
        found = parse(raw) if any(mark in raw for mark in marks) else None
        if found is not None and found.kind == ABANDONED:
            struck = found.facts.get("bytes")
            kept = [one for one in kept if not isinstance(struck, int) or one[0] < begin - struck]
        if found is not None and found.kind == ACCEPTED:
            kept.append((begin, found))
        begin += len(raw)
    return kept


def _accepted_until(data: bytes, begin: int, line: AuditEntry) -> ChainAnchor | None:
    size, count, head = (line.facts.get(name) for name in ("size", "count", "head"))
    if not isinstance(size, int) or not isinstance(count, int) or not isinstance(head, str) or not 0 <= size <= begin:
        return None
    same = hashlib.sha256(data[:size]).hexdigest() == line.facts.get("sha256")
    return ChainAnchor(count, head, size) if same else None


def _checkpoint(row: AuditAnchor) -> ChainAnchor:
    if row.verified_count is None or row.verified_head is None or row.verified_size is None:
        return START
    return ChainAnchor(row.verified_count, row.verified_head, row.verified_size)


def _stands(log: BinaryIO, since: ChainAnchor) -> bool:
    log.seek(begin := max(since.size - _LONGEST, 0))
    *_, last = [b"", *log.read(since.size - begin).splitlines()]
    line = parse(last)
    return line is not None and (line.n, line.hash) == (since.count, since.head)


def _keep(store: Store, row: AuditAnchor, found: CheckedChain) -> None:
    if row.size - _checkpoint(row).size < CHECKPOINT_BYTES:
        return
    kept = {"verified_count": row.count, "verified_head": row.head, "verified_size": row.size, "verified_at": utcnow()}
    with store.session() as session:
        session.execute(update(AuditAnchor).where(col(AuditAnchor.chain) == row.chain).values(kept))


def _unanchored(chain: str, file: Path) -> CheckedChain:
    found = ChainReading(0, 0, [f"the database knows no line of {file}: its anchor is gone, or it is another's"])
    return CheckedChain(chain, str(file.parent), 0, file, found)


def _files(settings: Settings, also: Sequence[Path]) -> dict[str, Path]:
    """Return files by chain: the data folder's own by the folder's id, another by its first line."""
    found = {_first_chain(path) or str(path): path for path in also}
    own = log_path(settings)
    if own.exists():
        try:
            found[chain_of(own.parent)] = own
        except (OSError, UnicodeError):  # the id is gone: the file has it in its first line
            found[_first_chain(own) or str(own)] = own
    return found


def _first_chain(path: Path) -> str | None:
    with path.open("rb") as file:
        for raw in file:
            try:
                line = json.loads(raw)
            except ValueError:
                continue
            if isinstance(line, dict) and line.get("kind") == OPENED:
                return str(line.get("facts", {}).get("chain"))
    return None


def entries_of(checked: Sequence[CheckedChain], order_id: str, since: dt.datetime | None = None) -> list[AuditEntry]:
    wanted = f'"order":"{order_id}"'.encode()
    lines = [
        line
        for one in checked
        if one.file is not None
        for line in _lines(one.file, _place_of(one.file, one.size, since), one.size, lambda raw: wanted in raw)
        if line.facts.get("order") == order_id
    ]
    return sorted(lines, key=lambda line: (line.at, line.n))


def last_entries(checked: Sequence[CheckedChain], count: int) -> list[AuditEntry]:
    lines = [line for one in checked if one.file is not None for line in _last(one.file, one.size, count)]
    return sorted(lines, key=lambda line: (line.at, line.n))[-count:]


def _last(file: Path, size: int, count: int) -> list[AuditEntry]:
    length = 64_000
    while True:
        begin = max(size - length, 0)
        found = _lines(file, begin, size, lambda _: True)
        if len(found) > count or begin == 0:  # the first may be half a line
            return found[-count:]
        length *= 4


def _lines(file: Path, begin: int, end: int, wanted: Callable[[bytes], bool]) -> list[AuditEntry]:
    """Return the committed lines between two places of a file that are wanted."""
    kept: list[tuple[int, AuditEntry]] = []
    mark = f'"kind":"{ABANDONED}"'.encode()
    with file.open("rb") as log:
        log.seek(begin)
        while begin < end and (raw := log.readline()):
            if (of_interest := wanted(raw)) or mark in raw:
                found = parse(raw)
                if found is not None and found.kind == ABANDONED:
                    struck = begin - found.facts.get("bytes", 0)
                    kept = [one for one in kept if one[0] < struck]
                if found is not None and of_interest:
                    kept.append((begin, found))
            begin += len(raw)
    return [line for _, line in kept]


def _place_of(file: Path, size: int, moment: dt.datetime | None) -> int:
    """Return a place in a file before which every line is older."""
    low, high = 0, size
    sought = (moment - _EARLY).astimezone(dt.UTC).isoformat() if moment is not None else ""
    with file.open("rb") as log:
        while sought and high - low > _LONGEST:
            log.seek(middle := (low + high) // 2)
            log.readline()
            found = parse(log.readline())
            if found is not None and found.at < sought:
                low = middle
            else:
                high = middle
        log.seek(low)
        return low + len(log.readline()) if low else 0
