"""The migrations of the database, in `versions/`; `models.database.store.upgrade` runs them."""

from __future__ import annotations

from pathlib import Path

VERSIONS = Path(__file__).parent / "versions"
