"""The desk of the workflows' own tests."""

from __future__ import annotations

from tests.tasks.workflows.conftest import floor, shared

__all__ = ["floor", "shared"]
