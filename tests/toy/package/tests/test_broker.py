"""The toy broker passes the contract of brokers."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from toy_exchange import Exchange

from chordesk.testing.broker import BrokerContract, Far


class TestToy(BrokerContract):
    @pytest.fixture
    def far(self) -> Iterator[Far]:
        with Exchange() as exchange:
            yield exchange
