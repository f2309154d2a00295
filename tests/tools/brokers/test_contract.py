"""The contract of brokers: those of the desk pass it. The toy package tests its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from chordesk.testing.broker import BrokerContract, Far
from tests.fakes.alpaca import Alpaca
from tests.tools.brokers.far_sides import AlpacaFar, PaperFar
from tests.tools.brokers.test_paper import Deep
from tests.tools.orders.desk import Desk


class TestPaper(BrokerContract):
    @pytest.fixture
    def far(self, new_desk: Callable[..., Desk]) -> Far:
        market = Deep({"AAPL": 100.0, "MSFT": 100.0})
        return PaperFar(new_desk(market), market)


class TestAlpaca(BrokerContract):
    @pytest.fixture
    def far(self, alpaca: Alpaca) -> Iterator[Far]:
        with AlpacaFar(alpaca) as far_side:
            yield far_side
