from __future__ import annotations

from tests.tools.orders.conftest import new_desk, shared_desk, template_db

__all__ = ["new_desk", "shared_desk", "template_db"]
