from __future__ import annotations

from tests.tools.brokers.conftest import alpaca
from tests.tools.orders.conftest import new_desk, shared_desk

__all__ = ["alpaca", "new_desk", "shared_desk"]
