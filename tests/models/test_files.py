from __future__ import annotations

from pathlib import Path
from typing import Any

import fsspec
import pytest

from chordesk.models.database.blobs import FolderBlobs
from chordesk.models.errors import DeskError, SettingError, UsageError
from chordesk.models.files import reach, replacing
from chordesk.tasks.backup.places import BackupPlace
from chordesk.tasks.reports.report_files import OutputPlace


class CredentialsRetrievalError(Exception):
    """An error as clouds' libraries have them: of no class that is known here."""


class Refusing(fsspec.AbstractFileSystem):
    """A file system that asks its service as soon as it is made, and gets no answer."""

    protocol = "refusing"
    error: Exception

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        raise self.error


def test_a_file_is_replaced_whole(tmp_path: Path) -> None:
    path = tmp_path / "new folder" / "file"
    for text in (b"first", b"second"):
        with replacing(path) as file:
            file.write(text)
    assert path.read_bytes() == b"second"
    assert list(path.parent.iterdir()) == [path]


def test_a_torn_write_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"old")

    def torn() -> None:
        with replacing(path) as file:
            file.write(b"ne")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        torn()
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_an_address_leads_to_its_file_system_and_path(tmp_path: Path) -> None:
    files, path = reach(str(tmp_path))
    assert (path, files.isdir(path)) == (str(tmp_path), True)
    files, path = reach("memory://some/where")
    assert (type(files).__name__, path) == ("MemoryFileSystem", "/some/where")


@pytest.mark.parametrize(
    ("error", "why", "remedy"),
    [
        (CredentialsRetrievalError("none found\nand 3 lines more"), "none found", "credentials"),
        (OSError(113, "No route to host"), "[Errno 113] No route to host", "its service answers"),
        (RuntimeError(), "RuntimeError", "name another place"),
        (KeyError("account"), "'account'", "check the address"),
        (ValueError("no account_name"), "no account_name", "s3://BUCKET/FOLDER"),
        (ImportError("Install cloudfs"), "Install cloudfs", "install the package"),
        (OSError("refused by refusing://me:secret@host"), "refused by refusing://me:********@host", "credentials"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else "",
)
@pytest.mark.parametrize(
    ("use", "kind", "name"),
    [(FolderBlobs, SettingError, "DESK_BLOB_URL="), (BackupPlace, UsageError, ""), (OutputPlace, UsageError, "")],
)
def test_a_file_system_that_cannot_be_made_is_named_with_its_remedy(
    monkeypatch: pytest.MonkeyPatch, use: Any, kind: type[DeskError], name: str, error: Exception, why: str, remedy: str
) -> None:
    fsspec.register_implementation("refusing", Refusing, clobber=True)
    monkeypatch.setattr(Refusing, "error", error, raising=False)
    with pytest.raises(kind) as caught:
        use("refusing://me:secret@host/x")
    assert caught.value.args[0] == f"{name}refusing://********@host/x cannot be used: {why}"
    assert remedy in caught.value.remedy
