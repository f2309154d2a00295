"""Both venues pass the contract of brokers."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from far_broker import VENUES, VenueFar

from chordesk.testing.broker import BrokerContract


class TestVenues(BrokerContract):
    @pytest.fixture(params=[*VENUES])
    def far(self, request: pytest.FixtureRequest) -> Iterator[VenueFar]:
        with VENUES[request.param]() as venue:
            far = VenueFar(venue)
            yield far
            far.close()
