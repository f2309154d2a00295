"""The place of a backup: a folder, or an address that fsspec can reach."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

from fsspec.implementations.local import LocalFileSystem

from chordesk.models.errors import BackupError, UsageError
from chordesk.models.files import reach, sync_folder
from chordesk.models.urls import masked
from chordesk.tasks.backup.asides import abandoned, aside
from chordesk.tasks.backup.manifest import NAME, BackupFile, Manifest, file_of, parsed


class BackupPlace:
    """A folder of files. Methods raise BackupError when it does not answer."""

    def __init__(self, address: str) -> None:
        """Raises UsageError for an address that cannot be used."""
        self._files, root = reach(address)
        self._root = root.rstrip("/")
        self.name = masked(address)
        self.folder = Path(self._root) if isinstance(self._files, LocalFileSystem) else None

    def require_empty(self) -> None:
        """Raises UsageError when there is something already."""
        with self._answering():
            self._files.invalidate_cache()
            there = self._files.exists(self._root) and bool(self._files.ls(self._root, detail=False))
        if there:
            raise UsageError(f"{self.name} is not empty", remedy="name a new folder for each backup")

    @contextlib.contextmanager
    def filled(self) -> Iterator[Path]:
        """Yield an empty folder whose content becomes this place's when the block ends; an error leaves nothing. The
        manifest comes last: a place that an end at any moment leaves without it is no backup."""
        target = self.folder or Path(tempfile.gettempdir(), "desk-backup")
        with contextlib.ExitStack() as stack:
            with self._answering():
                target.parent.mkdir(parents=True, exist_ok=True)
                folder = stack.enter_context(aside(target))
            yield folder
            with self._answering():
                self._publish(folder)

    def leftovers(self) -> list[str]:
        """Return what killed backups left beside this folder."""
        return [str(path) for path in abandoned(self.folder.parent)] if self.folder is not None else []

    def _publish(self, folder: Path) -> None:
        names = [path.relative_to(folder).as_posix() for path in sorted(folder.rglob("*")) if path.is_file()]
        if self.folder is not None:
            for name in names:
                with (folder / name).open("rb") as file:
                    os.fsync(file.fileno())
            os.rename(folder, self.folder)
            sync_folder(self.folder.parent)
            return
        for name in sorted(names, key=lambda name: name == NAME):
            self._files.makedirs(f"{self._root}/{name}".rpartition("/")[0], exist_ok=True)
            self._files.put_file(str(folder / name), f"{self._root}/{name}")

    def manifest(self) -> Manifest:
        """Return the manifest. Raises BackupError where there is none, or a damaged one."""
        with self._answering():
            try:
                data: bytes = self._files.cat_file(f"{self._root}/{NAME}")
            except (FileNotFoundError, NotADirectoryError):
                raise BackupError(
                    f"{self.name} is no backup: it has no {NAME}, which is written last",
                    remedy="name the folder of a backup that was not interrupted",
                ) from None
        return parsed(data, self.name)

    def fetch(self, file: BackupFile, folder: Path) -> None:
        """Copy a file into a folder, at its own path. Raises BackupError when it is missing or not as it was."""
        target = folder / file.path
        target.parent.mkdir(parents=True, exist_ok=True)
        with self._answering():
            try:
                self._files.get_file(f"{self._root}/{file.path}", str(target))
            except FileNotFoundError:
                raise self._damaged(file, "is missing") from None
            target.chmod(0o600)
            if file_of(folder, file.path) != file:
                raise self._damaged(file, "is damaged: its SHA-256 is not that of the manifest")

    def _damaged(self, file: BackupFile, why: str) -> BackupError:
        return BackupError(
            f"{file.path} of the backup {self.name} {why}", remedy="use another backup, or another copy of it"
        )

    @contextlib.contextmanager
    def _answering(self) -> Iterator[None]:
        try:
            yield
        except BackupError:
            raise
        except Exception as error:  # each file system has errors of its own
            raise BackupError(
                f"{self.name} cannot be used: {error}", remedy="check the address and its space"
            ) from None
