"""Keys of models' providers in files: the library, which reads the environment alone, gets them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from chordesk.agents.litellm.library import library
from chordesk.models.errors import SettingError

load = library.__wrapped__  # each call is a first one


def test_the_library_gets_keys_of_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "key").write_text("gsk-from-a-file\n", encoding="utf-8")
    monkeypatch.setenv("GROQ_API_KEY", "")
    monkeypatch.setenv("GROQ_API_KEY_FILE", str(tmp_path / "key"))
    for _ in range(2):
        assert load().validate_environment("groq/some-model")["keys_in_environment"]
        assert os.environ["GROQ_API_KEY"] == "gsk-from-a-file"


def test_a_file_without_a_key_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "key").touch()
    monkeypatch.setenv("MISTRAL_API_KEY_FILE", str(tmp_path / "key"))
    with pytest.raises(SettingError, match=r"MISTRAL_API_KEY_FILE=.*: the file is empty"):
        load()
