"""The far side of Yahoo's wire, and clocks to look at it by."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from pathlib import Path

import pytest

from chordesk.tools.market.yahoo.market import YahooMarket, build_yahoo
from tests.fakes.yahoo import FarYahoo
from tests.tools.market.far_market import TODAY, FarClock, NowClock


def days(count: int) -> list[dt.date]:
    """Calendar days that end on the clock's."""
    return [TODAY - dt.timedelta(days=back) for back in range(count - 1, -1, -1)]


@pytest.fixture
def far() -> Iterator[FarYahoo]:
    server = FarYahoo()
    server.charts["AAPL"] = [(day, 10 + n, 12 + n, 9 + n, 11 + n, 1000 + n) for n, day in enumerate(days(40))]
    server.start()
    yield server
    server.shutdown()
    server.server_close()


@pytest.fixture
def market(far: FarYahoo, tmp_path: Path) -> YahooMarket:
    return build_yahoo(tmp_path, FarClock(), far.session())


@pytest.fixture
def live(far: FarYahoo, tmp_path: Path) -> YahooMarket:
    return build_yahoo(tmp_path, NowClock(), far.session())
