"""A loopback server that stands for all venues, and settings that lead there."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from chordesk.models.settings import Settings
from tests.fakes.venues import FarVenues


@pytest.fixture
def far() -> Iterator[FarVenues]:
    server = FarVenues()
    server.start()
    yield server
    server.end()


@pytest.fixture
def venue_settings(tmp_path: Path, far: FarVenues) -> Settings:
    return far.settings(tmp_path)
