"""The service of the routes' own tests."""

from __future__ import annotations

from tests.tasks.web.conftest import floor

__all__ = ["floor"]
