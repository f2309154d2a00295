from __future__ import annotations

from tests.tools.orders.conftest import alpaca, new_desk, shared_desk

__all__ = ["alpaca", "new_desk", "shared_desk"]
