from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator

import pytest

from chordesk.models.settings import Settings
from chordesk.tools.brokers import alpaca as module
from chordesk.tools.brokers.alpaca import AlpacaBroker
from tests.fakes.alpaca import Alpaca
from tests.patience import PATIENCE
from tests.tools.brokers.alpaca_orders import CREDENTIALS
from tests.tools.orders.conftest import alpaca, new_desk
from tests.tools.orders.tape import Tape

__all__ = ["alpaca", "broker", "connect", "new_desk"]


@pytest.fixture
def connect(alpaca: Alpaca, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., AlpacaBroker]]:
    made: list[AlpacaBroker] = []

    def make(seconds: float = PATIENCE, url: str = alpaca.url, **environ: str) -> AlpacaBroker:
        monkeypatch.setattr(module, "REQUEST_SECONDS", seconds)
        monkeypatch.setitem(module.ADDRESSES, "alpaca-paper", url)
        market = Tape({"AAPL": 100.0})
        market.clock.at = dt.datetime.now(dt.UTC)
        broker = AlpacaBroker(
            Settings(broker="alpaca-paper"), market.clock, {**CREDENTIALS, **environ}, retry_seconds=0.01
        )
        made.append(broker)
        return broker

    yield make
    alpaca.release()
    for broker in made:
        broker.close()


@pytest.fixture
def broker(connect: Callable[..., AlpacaBroker]) -> AlpacaBroker:
    return connect()
