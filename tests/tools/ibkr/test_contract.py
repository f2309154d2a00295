"""The contract of brokers, which Interactive Brokers passes over a stand-in of IB Gateway."""

from __future__ import annotations

import pytest

from chordesk.testing.broker import BrokerContract, Far


class TestIbkr(BrokerContract):
    @pytest.fixture
    def far(self, far: Far) -> Far:
        return far
