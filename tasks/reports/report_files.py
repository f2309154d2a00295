"""The files of a report, and the places that they are written to: folders, and whatever else fsspec reaches."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, get_args

from fsspec.implementations.local import LocalFileSystem

from chordesk.models.errors import SettingError, UsageError
from chordesk.models.files import reach
from chordesk.models.urls import masked
from chordesk.tasks.bootstrap import Desk
from chordesk.tasks.reports.documents import run_document
from chordesk.tasks.reports.formats import OWN_BYTES, is_own, rendered
from chordesk.tasks.reports.report_schema import Dossier, Format, RunDocument, SymbolFile

_PART = ".part"


class OutputPlace:
    """A folder or a file at an address. Raises UsageError for one that cannot be used."""

    def __init__(self, address: str) -> None:
        self.shown = masked(address)
        self._files, self._path = reach(os.path.expanduser(address))
        self._local = isinstance(self._files, LocalFileSystem)

    def is_folder(self) -> bool:
        return self.shown.endswith("/") or bool(self._asked(lambda: self._files.isdir(self._path)))

    def inside(self, name: str) -> str:
        return f"{self.shown.rstrip('/')}/{name}"

    def write(self, text: str, name: str | None = None, *, force: bool = False) -> str:
        path = f"{self._path.rstrip('/')}/{name}" if name is not None else self._path
        shown = self.inside(name) if name is not None else self.shown
        if not force and (beginning := self._asked(lambda: self._beginning(path))) and not is_own(beginning):
            raise UsageError(
                f"{shown} is there already, and no report of the desk", remedy="name another file, or add --force"
            )
        self._asked(lambda: self._put(path, text.encode()))
        return shown

    def _beginning(self, path: str) -> bytes:
        try:
            found: bytes = self._files.cat_file(path, 0, OWN_BYTES)
        except FileNotFoundError:
            return b""
        return found

    def _put(self, path: str, data: bytes) -> None:
        self._files.makedirs(path.rpartition("/")[0], exist_ok=True)
        if not self._local:
            self._files.pipe_file(path, data)
            return
        # A reader sees the old file or the new one.
        part = Path(f"{path}{_PART}")
        try:
            part.write_bytes(data)
            os.replace(part, path)
        except OSError:
            part.unlink(missing_ok=True)
            raise

    def _asked(self, ask: Any) -> Any:
        try:
            return ask()
        except UsageError:
            raise
        except Exception as error:  # each file system has errors of its own
            known = error.strerror if isinstance(error, OSError) else None
            raise UsageError(
                f"{self.shown} cannot be written: {known or error or type(error).__name__}",
                remedy="make it writable, or name another place",
            ) from None


def require_place(address: str) -> None:
    """Raise SettingError for an address of DESK_REPORT_URL that this installation cannot use."""
    try:
        OutputPlace(address)
    except UsageError as error:
        raise SettingError(f"DESK_REPORT_URL: {error.args[0]}", remedy=error.remedy) from None


REPORT = "report"
SYMBOLS = "symbols"


def write_run(desk: Desk, address: str, run_id: str) -> str:
    place = OutputPlace(address)
    found = run_document(desk, run_id)
    for one in found.symbols:
        place.write(_symbol_file(found, one).model_dump_json(indent=1) + "\n", f"{run_id}/{SYMBOLS}/{one.symbol}.json")
    for wanted in get_args(Format):
        place.write(rendered(found, wanted), f"{run_id}/{REPORT}.{wanted}")
    return place.inside(run_id)


def _symbol_file(found: RunDocument, one: Dossier) -> SymbolFile:
    run = found.run
    return SymbolFile(
        format=found.format, version=found.version, run_id=run.run_id, run_kind=run.kind, run_state=run.state,
        market=run.market, market_now=run.market_now, made_at=found.made_at, dossier=one,
    )  # fmt: skip
