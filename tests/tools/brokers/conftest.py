from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.fakes.alpaca import Alpaca, serving
from tests.tools.orders.conftest import new_desk, template_db

__all__ = ["alpaca", "new_desk", "template_db"]


@pytest.fixture
def alpaca() -> Iterator[Alpaca]:
    with serving(Alpaca()) as running:
        yield running
