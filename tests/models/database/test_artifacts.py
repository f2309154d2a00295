"""Artifacts as files: by their digest, once."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from chordesk.models.database.blobs import digest_of, keep, path_in_home, remove, removed_at, stored, stored_files


def test_the_same_bytes_are_one_file(tmp_path: Path) -> None:
    digest = digest_of(b"picture")
    path = tmp_path / path_in_home(digest, "image/png")
    assert path.name == f"{digest}.png"
    keep(tmp_path, b"picture", "image/png")
    os.utime(path, (1.0, 1.0))
    inode = path.stat().st_ino
    keep(tmp_path, b"picture", "image/png")
    assert path.stat().st_ino == inode
    assert path.stat().st_mtime > 1.0, "it is as of the turn that was given it last"
    keep(tmp_path, b"other", "image/png")
    assert {file.read_bytes() for file in path.parent.iterdir()} == {b"picture", b"other"}


def test_a_folder_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "artifacts").write_text("no folder")
    with pytest.raises(OSError):
        keep(tmp_path, b"picture", "image/png")
    assert [path.name for path in tmp_path.iterdir()] == ["artifacts"]


PNG = path_in_home(digest_of(b"picture"), "image/png")


def test_a_removed_file_has_a_day_until_it_is_written_again(tmp_path: Path) -> None:
    keep(tmp_path, b"picture", "image/png")
    assert removed_at(tmp_path, PNG) is None
    (file,) = stored_files(tmp_path)
    assert remove(file)
    assert stored(tmp_path, digest_of(b"picture"), "image/png") is None
    assert removed_at(tmp_path, PNG) is not None
    assert not remove(file)
    assert list(stored_files(tmp_path)) == []
    keep(tmp_path, b"picture", "image/png")
    assert removed_at(tmp_path, PNG) is None
    assert removed_at(tmp_path, path_in_home("0" * 64, "image/png")) is None, "it was never here"


def test_a_file_that_a_turn_was_given_meanwhile_stays(tmp_path: Path) -> None:
    keep(tmp_path, b"picture", "image/png")
    os.utime(tmp_path / PNG, (1.0, 1.0))
    (file,) = stored_files(tmp_path)
    keep(tmp_path, b"picture", "image/png")
    assert not remove(file)
    assert stored(tmp_path, digest_of(b"picture"), "image/png") == b"picture"
    assert removed_at(tmp_path, PNG) is None


def test_a_removal_that_was_interrupted_leaves_the_file(tmp_path: Path) -> None:
    keep(tmp_path, b"picture", "image/png")
    path = tmp_path / PNG
    path.rename(path.with_name(f".removing-{path.name}"))
    assert [file.path for file in stored_files(tmp_path)] == [path]
    (tmp_path / "artifacts" / "notes.txt").write_text("a user's own")
    assert [file.path for file in stored_files(tmp_path)] == [path]
    assert list(stored_files(tmp_path / "nothing here")) == []
