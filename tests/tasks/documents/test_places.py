"""Places of documents: what is written over, and errors that name the value and the remedy."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path

import fsspec
import pytest

from chordesk.models.errors import SettingError, UsageError
from chordesk.tasks.reports.formats import is_own
from chordesk.tasks.reports.report_files import OutputPlace, require_place

OWN = "<!-- chordesk.report 1 -->\n# A run\n"


def test_the_desks_own_report_is_written_over_and_no_other_file(tmp_path: Path) -> None:
    path = tmp_path / "new" / "run.md"
    place = OutputPlace(str(path))
    assert place.write(OWN) == str(path)
    assert place.write(OWN + "more") == str(path)
    assert path.read_text() == OWN + "more"
    path.write_text("mine, about chordesk.report 1\n")
    with pytest.raises(UsageError, match=r"run\.md is there already") as caught:
        place.write(OWN)
    assert "--force" in caught.value.remedy
    assert path.read_text().startswith("mine")
    place.write(OWN, force=True)
    assert path.read_text() == OWN
    assert os.listdir(path.parent) == ["run.md"], "nothing is left beside it"


def test_a_folder_gives_its_files_names(tmp_path: Path) -> None:
    assert OutputPlace(str(tmp_path)).is_folder()
    assert OutputPlace(f"{tmp_path}/new/").is_folder()
    assert not OutputPlace(str(tmp_path / "run.md")).is_folder()
    assert OutputPlace(str(tmp_path)).write(OWN, "a/run.md") == str(tmp_path / "a" / "run.md")


def test_other_file_systems_take_them_too() -> None:
    place = OutputPlace("memory://documents-of-tests")
    assert place.write(OWN, "x/run.md") == "memory://documents-of-tests/x/run.md"
    files = fsspec.filesystem("memory")
    assert files.cat_file("/documents-of-tests/x/run.md").decode() == OWN
    files.pipe_file("/documents-of-tests/x/run.md", b"mine")
    with pytest.raises(UsageError, match="is there already"):
        place.write(OWN, "x/run.md")


def test_a_place_that_cannot_be_used_is_named_with_a_remedy(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(UsageError, match=r"file/run\.md cannot be written"):
        OutputPlace(str(tmp_path / "file" / "run.md")).write(OWN)
    with pytest.raises(UsageError, match="nosuch://host/x cannot be used: Protocol not known") as caught:
        OutputPlace("nosuch://host/x")
    assert "s3://BUCKET" in caught.value.remedy
    with pytest.raises(UsageError, match=r"@127\.0\.0\.1:1/x cannot be used") as caught:
        OutputPlace("ftp://ann:secret@127.0.0.1:1/x")
    assert "secret" not in str(caught.value)
    if importlib.util.find_spec("s3fs") is None:
        with pytest.raises(UsageError, match="s3://bucket/x cannot be used: Install s3fs") as caught:
            OutputPlace("s3://bucket/x")
        assert "install the package" in caught.value.remedy
    with pytest.raises(SettingError, match="DESK_REPORT_URL: nosuch://host/x cannot be used"):
        require_place("nosuch://host/x")


def test_the_beginning_of_a_file_shows_that_it_is_the_desks() -> None:
    assert is_own(OWN.encode())
    assert is_own(b'{\n "format": "chordesk.report",\n "version": 1')
    head = b'<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
    assert is_own(head + b'<meta name="generator" content="chordesk.report 1">')
    others = (b"", b"x <!-- chordesk.report 1 -->", b'{"name": "chordesk.report"}', head + b"<p>chordesk.report 1")
    for other in others:
        assert not is_own(other)
