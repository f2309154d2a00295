from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from chordesk.models.settings import Settings
from chordesk.tools.market.alpaca_chains import FEEDS, AlpacaChains, AlpacaData
from tests.fakes.alpaca import KEY, SECRET, Alpaca, serving
from tests.patience import PATIENCE
from tests.tools.alpaca.live import LiveMarket

KEYS = {"ALPACA_DATA_API_KEY": KEY, "ALPACA_DATA_SECRET_KEY": SECRET}
Connect = Callable[..., LiveMarket]


@pytest.fixture
def alpaca() -> Iterator[Alpaca]:
    with serving(Alpaca()) as running:
        yield running


@pytest.fixture
def connect(alpaca: Alpaca, tmp_path: Path) -> Connect:
    """A live market with the chains of the stand-in."""

    def make(chains: str = "alpaca", seconds: float = PATIENCE, **changes: Any) -> LiveMarket:
        environ = changes.pop("environ", KEYS)
        settings = Settings(home=tmp_path, market="yahoo", option_chains=chains)
        market = LiveMarket(**changes)
        wire = AlpacaData(alpaca.url, environ, FEEDS[chains], seconds)
        market.options = AlpacaChains(settings, market, wire)
        return market

    return make
