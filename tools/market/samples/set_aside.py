"""The report of an import on what it left out: file, row and reason of each."""

from __future__ import annotations

import csv
import io
from collections import Counter
from typing import NamedTuple

from chordesk.tools.market.files.data_folder import SET_ASIDE

_SHOWN = 8


class Left(NamedTuple):
    """kind: the reason without its figures, by which rows are counted. row: None of a whole file."""

    file: str
    row: int | None
    kind: str
    reason: str


class SetAside:
    def __init__(self) -> None:
        self.rows: list[Left] = []

    def add(self, file: str, row: int | None, kind: str, detail: str = "") -> None:
        self.rows.append(Left(file, row, kind, f"{kind}: {detail}" if detail else kind))

    def content(self) -> bytes:
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(("file", "row", "reason"))
        writer.writerows((one.file, "" if one.row is None else one.row, one.reason) for one in self.rows)
        return text.getvalue().encode()

    def lines(self, kept_in: str = f", each with its reason in {SET_ASIDE}") -> list[str]:
        """Return what was left out, the most frequent first, each with an example."""
        counts = Counter(one.kind for one in self.rows)
        if not counts:
            return []
        examples = {one.kind: one for one in reversed(self.rows)}
        found = [f"set aside: {len(self.rows):,} rows and files{kept_in}"]
        for kind, count in counts.most_common(_SHOWN):
            one = examples[kind]
            place = one.file + one.reason.removeprefix(kind) if one.row is None else f"{one.file} row {one.row}"
            found.append(f"  {count:,} {kind} (such as {place})")
        rest = counts.most_common()[_SHOWN:]
        return [*found, *([f"  {sum(count for _, count in rest):,} for {len(rest)} other reasons"] if rest else [])]
