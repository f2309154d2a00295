"""Making a backup while the desk works.

The point in time is that of the database's copy. Whatever a row refers to was in a file before the row was written, and
neither pictures nor blobs nor the lines of the audit log ever change: so the files are copied after the database, and
hold all that its rows refer to. What came later is left out: pictures and blobs that no row of the copy names, and the
lines of the audit log beyond the anchor in the copy.
"""

from __future__ import annotations

import datetime as dt
import shutil
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from chordesk.models.database.artifacts import removed_at
from chordesk.models.database.store import Store
from chordesk.models.errors import BackupError
from chordesk.models.settings import Settings
from chordesk.tasks.backup import databases, places
from chordesk.tasks.backup.databases import Anchored, Facts
from chordesk.tasks.backup.places import DATABASES, BackupChain, BackupPlace, Manifest
from chordesk.tools.orders.audit import CHAIN, LOG, chain_of, log_path, read_chain
from chordesk.tools.orders.halting import halt_file

AUDIT, BLOBS = "audit", "blobs"
SECRETS = (
    "secrets: keys of brokers and models, the service's token, the mandate's signing key, logins, desk.toml and .env",
    "Redis: messages, and which thread is current; steps are sent again and roles start new threads",
)


@dataclass(frozen=True, slots=True)
class Made:
    """A backup that is complete, and the bytes of its files. leftovers: what others beside it left that were killed."""

    place: str
    manifest: Manifest
    bytes: int
    leftovers: list[str]


def backup(settings: Settings, store: Store, address: str, version: str | None) -> Made:
    """A new folder or fsspec address. Raises UsageError when something is there; BackupError, DatabaseDown leave no
    backup."""
    place = BackupPlace(address)
    place.require_empty()
    kind = "sqlite" if store.is_sqlite else "postgresql"
    with place.filled() as folder:
        try:
            facts = databases.dump(store, folder / DATABASES[kind])
            found = _Copies(settings, folder, facts)
            found.audit_log()
            found.halt()
            found.pictures()
            found.blobs()
            files = [places.file_of(folder, path.relative_to(folder).as_posix()) for path in _files(folder)]
        except OSError as error:
            raise BackupError(
                f"{error.filename or folder} cannot be copied: {error.strerror}",
                remedy="make some space, and try again",
            ) from None
        made = Manifest(
            **dict(facts.counted), format=places.FORMAT, version=version, database=kind, chains=found.chains,
            files=files, removed=found.removed, missing=sorted(found.missing), left_out=[*SECRETS, *found.left_out],
        ).sealed()  # fmt: skip
        (folder / places.MANIFEST_NAME).write_bytes(places.written_manifest(made))
    return Made(place.name, made, sum(file.bytes for file in files), place.leftovers())


def _files(folder: Path) -> list[Path]:
    return [path for path in sorted(folder.rglob("*")) if path.is_file()]


class _Copies:
    """The files of a data folder that belong to a copy of its database, copied into a folder."""

    def __init__(self, settings: Settings, folder: Path, facts: Facts) -> None:
        self._settings, self._folder, self._facts = settings, folder, facts
        self.chains: list[BackupChain] = []
        self.removed: dict[str, dt.datetime] = {}
        self.missing: list[str] = []
        self.left_out: list[str] = []

    def audit_log(self) -> None:
        own = self._own_chain()
        for known in self._facts.chains:
            if known.chain != own:
                self.chains.append(self._elsewhere(known))
                continue
            problems = self._cut(known)
            self.chains.append(
                BackupChain(
                    chain=known.chain, place=known.place, lines=known.anchor.count, included=True, problems=problems
                )
            )

    def _own_chain(self) -> str | None:
        with suppress(OSError, UnicodeError):
            if log_path(self._settings).exists():
                return chain_of(log_path(self._settings).parent)
        return None

    def _elsewhere(self, known: Anchored) -> BackupChain:
        self.left_out.append(
            f"the audit log of {known.place} ({known.anchor.count} lines): copy its folder `audit` too"
        )
        return BackupChain(chain=known.chain, place=known.place, lines=known.anchor.count, included=False)

    def _cut(self, known: Anchored) -> list[str]:
        source, target = log_path(self._settings), self._folder / AUDIT
        target.mkdir()
        shutil.copyfile(source.parent / CHAIN, target / CHAIN)
        with source.open("rb") as log:
            lines = log.read(known.anchor.size)
        (target / LOG).write_bytes(lines)
        return read_chain(lines, known.anchor).problems

    def halt(self) -> None:
        with suppress(FileNotFoundError):
            shutil.copyfile(halt_file(self._settings), self._folder / "HALT")

    def pictures(self) -> None:
        for digest, path in sorted(self._facts.pictures.items()):
            target = self._folder / path
            target.parent.mkdir(exist_ok=True)
            try:
                shutil.copyfile(self._settings.home / path, target)
            except FileNotFoundError:
                at = removed_at(self._settings.home, path)
                if at is not None:
                    self.removed[digest] = at
                else:
                    self.missing.append(path)

    def blobs(self) -> None:
        """Copy the blobs that rows name from a folder within the data folder; name a place elsewhere."""
        if self._settings.blob_url is None:
            return  # they are in the database
        stored = BackupPlace(self._settings.blob_url)
        if stored.folder is None or not stored.folder.resolve().is_relative_to(self._settings.home.resolve()):
            self.left_out.append(f"rollouts: they are in DESK_BLOB_URL={stored.name}, which needs a backup of its own")
            return
        for digest in sorted(self._facts.rollouts):
            name = f"{digest[:2]}/{digest}"
            target = self._folder / BLOBS / name
            target.parent.mkdir(parents=True, exist_ok=True)
            try:
                shutil.copyfile(stored.folder / name, target)
            except FileNotFoundError:
                self.missing.append(f"{BLOBS}/{name}")
