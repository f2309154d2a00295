"""Reading the audit log: check that it is whole, and select its lines."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from sqlmodel import col, select

from chordesk.models.database.store import Store
from chordesk.models.settings import Settings
from chordesk.models.tables.orders import AuditAnchor
from chordesk.tools.orders.audit import OPENED, AuditEntry, ChainAnchor, ChainReading, chain_of, log_path, read_chain

_ATTEMPTS = 5


@dataclass(frozen=True, slots=True)
class CheckedChain:
    """One chain compared with its file. place: host and folder that opened it; file is None when it was not found."""

    chain: str
    place: str
    count: int
    file: Path | None
    reading: ChainReading

    @property
    def whole(self) -> bool:
        return not self.reading.problems


def check_logs(store: Store, settings: Settings, also: Sequence[Path] = ()) -> list[CheckedChain]:
    """Check every chain that the database knows, with the file of this data folder or one of `also`, and every such
    file whose chain it does not know.

    The anchors are read first: whatever a file holds beyond them was written since, or never committed. Raises OSError
    when a file cannot be read.
    """
    with store.read() as session:
        anchors = session.exec(select(AuditAnchor).order_by(col(AuditAnchor.at))).all()
    files = _files(settings, also)
    known = {anchor.chain for anchor in anchors}
    unanchored = [_unanchored(chain, file) for chain, file in files.items() if chain not in known]
    return [_settled(store, anchor, files.get(anchor.chain)) for anchor in anchors] + unanchored


def _settled(store: Store, row: AuditAnchor, file: Path | None) -> CheckedChain:
    """Compare a chain with its anchor, and again while it grows: a running desk writes meanwhile."""
    for _ in range(_ATTEMPTS):
        found = _check(row, file)
        if found.whole:
            break
        with store.read() as session:
            now = session.get(AuditAnchor, row.chain)
        if now is None or now.count == row.count:
            break
        row = now
    return found


def _check(row: AuditAnchor, file: Path | None) -> CheckedChain:
    if file is None:
        lost = ChainReading([], 0, 0, [f"its file was not found; it was opened as {row.place}"])
        return CheckedChain(row.chain, row.place, row.count, None, lost)
    found = read_chain(file.read_bytes(), ChainAnchor(row.count, row.head, row.size))
    return CheckedChain(row.chain, row.place, row.count, file, found)


def _unanchored(chain: str, file: Path) -> CheckedChain:
    found = ChainReading([], 0, 0, [f"the database knows no line of {file}: its anchor is gone, or it is another's"])
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


def entries_of(checked: Sequence[CheckedChain], order_id: str) -> list[AuditEntry]:
    """Return the committed lines on one order, over all files, by time."""
    lines = [line for one in checked for line in one.reading.entries if line.facts.get("order") == order_id]
    return sorted(lines, key=lambda line: (line.at, line.n))
