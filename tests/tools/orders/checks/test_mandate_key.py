"""The key that a person signs mandates with."""

from __future__ import annotations

from pathlib import Path

import pytest

from chordesk.models.errors import SettingError
from chordesk.tasks.cli import arming


def test_the_key_is_made_once_and_only_its_owner_can_read_it(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "mandate.key"
    first = arming.public_text(arming.signing_key(path))
    assert path.stat().st_mode & 0o777 == 0o600
    assert arming.public_text(arming.signing_key(path)) == first


def test_a_key_that_others_can_read_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "mandate.key"
    arming.signing_key(path)
    path.chmod(0o640)
    with pytest.raises(SettingError, match="can be read by others"):
        arming.signing_key(path)


def test_an_invalid_key_is_refused_without_being_shown(tmp_path: Path) -> None:
    path = tmp_path / "mandate.key"
    path.touch(0o600)
    path.write_text("my password")
    with pytest.raises(SettingError, match="holds no private key") as raised:
        arming.signing_key(path)
    assert "password" not in str(raised.value)
