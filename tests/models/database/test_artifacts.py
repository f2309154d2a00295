"""Artifacts as files: by their digest, once."""

from __future__ import annotations

from pathlib import Path

import pytest

from models.database.artifacts import digest_of, keep, path_in_home


def test_the_same_bytes_are_one_file(tmp_path: Path) -> None:
    digest = digest_of(b"picture")
    path = tmp_path / path_in_home(digest, "image/png")
    assert path.name == f"{digest}.png"
    keep(tmp_path, b"picture", "image/png")
    written = path.stat().st_mtime_ns
    keep(tmp_path, b"picture", "image/png")
    assert path.stat().st_mtime_ns == written
    keep(tmp_path, b"other", "image/png")
    assert {file.read_bytes() for file in path.parent.iterdir()} == {b"picture", b"other"}


def test_a_kind_without_an_ending_has_none() -> None:
    assert path_in_home("ab", "application/x-thing") == "artifacts/ab"
    assert len(path_in_home("a" * 64, "image/png")) <= 80, "it fits a line of a terminal"


def test_a_folder_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "artifacts").write_text("no folder")
    with pytest.raises(OSError):
        keep(tmp_path, b"picture", "image/png")
    assert [path.name for path in tmp_path.iterdir()] == ["artifacts"]
