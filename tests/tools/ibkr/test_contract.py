"""The contract of brokers, which Interactive Brokers passes over a stand-in of IB Gateway."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from chordesk.testing.broker import BrokerContract, Far

pytest.importorskip("ib_async")


class TestIbkr(BrokerContract):
    @pytest.fixture
    def far(self, tmp_path: Path) -> Iterator[Far]:
        from tests.tools.ibkr.far_side import IbkrFar

        with IbkrFar(tmp_path) as far_side:
            yield far_side
