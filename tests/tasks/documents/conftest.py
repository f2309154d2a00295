"""A desk over a database of the test's own, with a researched chain and a run of markup in it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import chordesk.tasks.workflows  # noqa: F401
from chordesk.models.settings import running_desk
from chordesk.models.settings.sources import load_settings
from chordesk.tasks.bootstrap import Desk
from tests.databases import make_database
from tests.tasks.views.chain import Chain, a_chain

PAGE = "http://127.0.0.1:8000"


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    home = tmp_path / "home"
    home.mkdir()
    settings = load_settings({"DESK_HOME": str(home)}, tmp_path)
    make_database(settings.database)
    running_desk.write_api(home, PAGE)
    made = Desk(settings)
    yield made
    made.close()


@pytest.fixture
def chained(desk: Desk) -> Chain:
    with desk.store.session() as session:
        return a_chain(session)
