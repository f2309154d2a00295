"""The far side of Yahoo's wire, and clocks to look at it by."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from pathlib import Path

import pytest

from chordesk.models.text import NEW_YORK
from chordesk.tools.market.yahoo.market import YahooMarket, build_yahoo
from tests.fakes.yahoo import FarYahoo
from tests.tools.market.far_market import TODAY, FarClock


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


class NowClock(FarClock):
    """A clock of real time, as it stands at 15:55 of the far market's day."""

    def __init__(self) -> None:
        super().__init__()
        self.day, self._today = None, self.day  # type: ignore[assignment]

    def now(self) -> dt.datetime:
        return dt.datetime.combine(self._today, dt.time(15, 55), NEW_YORK)

    def session(self) -> dt.date:
        return self._today


@pytest.fixture
def live(far: FarYahoo, tmp_path: Path) -> YahooMarket:
    return build_yahoo(tmp_path, NowClock(), far.session())
