from __future__ import annotations

from collections.abc import Iterator

import pytest
from chordesk_ccxt import venue

from chordesk.plugins import Pace


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No test waits for a venue's pace, or rests after another one's too many requests."""
    quick = Pace(10_000.0, 10_000)
    monkeypatch.setattr(venue, "PACES", {"kraken": quick, "binance": quick})
    venue.source_of.cache_clear()
    yield
    venue.source_of.cache_clear()
