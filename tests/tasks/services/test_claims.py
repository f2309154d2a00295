"""One desk of a user on a machine has an id, and an account at a broker."""

from __future__ import annotations

from pathlib import Path

import pytest

from chordesk.models.errors import UsageError
from chordesk.models.home import Identity
from chordesk.models.settings import Settings
from chordesk.tasks.services import claims

KEY = {"ALPACA_API_KEY": "one"}


def named(id_: str) -> Identity:
    return Identity(id_, "host", f"/srv/{id_}", 1, 2)


def test_an_id_and_an_account_are_of_one_desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(claims, "folder", lambda: tmp_path / "locks")
    paper, alpaca = Settings(home=tmp_path), Settings(home=tmp_path, broker="alpaca-paper")
    with claims.held(named("a"), alpaca, KEY, trades=True):
        in_use = "in use by the desk on /srv/a"
        with (
            pytest.raises(UsageError, match=f"the id a of /srv/a is {in_use}"),
            claims.held(named("a"), paper, KEY, trades=True),
        ):
            pass
        with (
            pytest.raises(UsageError, match=f"the account of alpaca-paper whose key is set here is {in_use}"),
            claims.held(named("b"), alpaca, KEY, trades=True),
        ):
            pass
        with claims.held(named("b"), paper, KEY, trades=True), claims.held(named("c"), alpaca, KEY, trades=False):
            pass
    with claims.held(named("b"), alpaca, KEY, trades=True):
        pass
    assert "one" not in "".join(path.name for path in (tmp_path / "locks").iterdir())
