"""A loopback server that stands for all venues, and settings that lead there."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from models.settings import Settings
from tests.fakes.venues import FarVenues


@pytest.fixture
def far() -> Iterator[FarVenues]:
    server = FarVenues()
    server.start()
    yield server
    server.end()


@pytest.fixture
def venue_settings(tmp_path: Path, far: FarVenues) -> Settings:
    return Settings(
        home=tmp_path,
        venues=("manifold", "polymarket", "kalshi"),
        manifold_url=far.url,
        polymarket_url=far.url,
        polymarket_book_url=far.url,
        kalshi_url=far.url,
        hyperliquid_url=far.url,
    )
