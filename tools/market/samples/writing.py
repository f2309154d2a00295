"""Writing of data folders: every file whole or not at all, and none of the user's own replaced unasked."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from chordesk.models.errors import UsageError
from chordesk.models.files import replacing


class Table(NamedTuple):
    """A CSV file of a data folder, by its name within it."""

    name: str
    header: Sequence[str]
    rows: Sequence[Sequence[object]]

    def content(self) -> bytes:
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(self.header)
        writer.writerows(self.rows)
        return text.getvalue().encode()


def write_files(folder: Path, files: Iterable[tuple[str, bytes]], *, replace: bool) -> None:
    """Write files into a folder, which is made if need be. Raises UsageError when one is there already and may not be
    replaced, and when the folder cannot be written to."""
    made = list(files)
    there = [name for name, _ in made if (folder / name).exists()]
    if there and not replace:
        more = f" and {len(there) - 1} more" if len(there) > 1 else ""
        raise UsageError(
            f"{folder / there[0]} is there already{more}", remedy="--force replaces it, or choose another --to"
        )
    try:
        for name, content in made:
            with replacing(folder / name) as file:
                file.write(content)
    except OSError as error:
        raise UsageError(f"{folder} cannot be written to: {error.strerror}", remedy="choose another --to") from None
