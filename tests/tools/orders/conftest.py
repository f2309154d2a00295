from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from pydantic import SecretStr

from chordesk.tools.orders import reconciliation, submitting
from tests.fakes.alpaca import KEY, SECRET, Alpaca, serving
from tests.tools.orders.desk import Desk, make_desk


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """The desk pauses before it asks a broker again; a stand-in has nothing more by then."""
    monkeypatch.setattr(reconciliation, "PAUSE_SECONDS", 0.0)
    monkeypatch.setattr(submitting, "PAUSE_SECONDS", 0.0)


@pytest.fixture
def alpaca() -> Iterator[Alpaca]:
    """Alpaca's stand-in, with its keys in the environment."""
    # No monkeypatch: it would be undone after the stand-in has ended, and with it what a test changed of the addresses.
    keys = {"ALPACA_API_KEY": KEY, "ALPACA_SECRET_KEY": SECRET}
    with patch.dict(os.environ, keys), serving(Alpaca()) as running:
        yield running


@pytest.fixture
def new_desk(
    dialect: str, template_db: Path, tmp_path: Path, request: pytest.FixtureRequest
) -> Iterator[Callable[..., Desk]]:
    """Makes desks; each closes its database at the end."""
    made: list[Desk] = []

    def make(market: Any = None, **settings: Any) -> Desk:
        if dialect == "postgres":
            settings["database_url"] = SecretStr(request.getfixturevalue("postgres").migrated())
        made.append(make_desk(template_db, tmp_path / str(len(made)), market, **settings))
        return made[-1]

    yield make
    for desk in made:
        desk.store.close()


@pytest.fixture
def shared_desk(new_desk: Callable[..., Desk]) -> Desk:
    """One desk for all examples of a property test, with live trading off."""
    return new_desk(trader_live=False)
