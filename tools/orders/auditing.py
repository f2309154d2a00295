"""Reading the audit log: whether it is whole, and what it says."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from sqlmodel import col, select

from models.order_tables import AuditAnchor
from models.settings import Settings
from models.store import Store
from tools.orders.audit import chain_of, log_path
from tools.orders.audit_chain import OPENED, Anchor, Entry, Reading, read_chain

_LOOKS = 5


@dataclass(frozen=True, slots=True)
class Checked:
    """One chain held against its file. place: host and folder that opened it; file is None when it was not found."""

    chain: str
    place: str
    count: int
    file: Path | None
    reading: Reading

    @property
    def whole(self) -> bool:
        return not self.reading.problems


def check_logs(store: Store, settings: Settings, also: Sequence[Path] = ()) -> list[Checked]:
    """Every chain that the database knows, with the file of this data folder or one of `also`, and every such file
    whose chain it does not know.

    The anchors are read first: whatever a file holds beyond them then was written since, or never committed.
    Raises OSError when a file cannot be read.
    """
    with store.read() as session:
        anchors = session.exec(select(AuditAnchor).order_by(col(AuditAnchor.at))).all()
    files = _files(settings, also)
    known = {anchor.chain for anchor in anchors}
    strangers = [_unanchored(chain, file) for chain, file in files.items() if chain not in known]
    return [_settled(store, anchor, files.get(anchor.chain)) for anchor in anchors] + strangers


def _settled(store: Store, row: AuditAnchor, file: Path | None) -> Checked:
    """The chain held against its anchor; once more while it moves on, for a desk that runs writes meanwhile."""
    for _ in range(_LOOKS):
        found = _check(row, file)
        if found.whole:
            break
        with store.read() as session:
            now = session.get(AuditAnchor, row.chain)
        if now is None or now.count == row.count:
            break
        row = now
    return found


def _check(row: AuditAnchor, file: Path | None) -> Checked:
    if file is None:
        lost = Reading([], 0, 0, [f"its file was not found; it was opened as {row.place}"])
        return Checked(row.chain, row.place, row.count, None, lost)
    found = read_chain(file.read_bytes(), Anchor(row.count, row.head, row.size))
    return Checked(row.chain, row.place, row.count, file, found)


def _unanchored(chain: str, file: Path) -> Checked:
    found = Reading([], 0, 0, [f"the database knows no line of {file}: its anchor is gone, or it is another's"])
    return Checked(chain, str(file.parent), 0, file, found)


def _files(settings: Settings, also: Sequence[Path]) -> dict[str, Path]:
    """Files by chain: the data folder's own by the folder's id, another by its first line."""
    found = {_first_chain(path) or str(path): path for path in also}
    own = log_path(settings)
    if own.exists():
        try:
            found[chain_of(own.parent)] = own
        except (OSError, UnicodeError):  # the id is gone: go by what the file says
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


def entries_of(checked: Sequence[Checked], order_id: str) -> list[Entry]:
    """The committed lines on one order, over all files, by time."""
    lines = [line for one in checked for line in one.reading.entries if line.facts.get("order") == order_id]
    return sorted(lines, key=lambda line: (line.at, line.n))
