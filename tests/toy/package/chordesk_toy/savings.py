"""Savings elsewhere: a source of holdings gets its own variables, and returns what its account holds."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from decimal import Decimal

from chordesk.plugins import Holding, ServiceError, Snapshot, Statement


def read(environ: Mapping[str, str]) -> Snapshot:
    """Raises ServiceError for a key that the place does not know."""
    if (key := environ["TOY_READ_KEY"]) != "reads-only":
        raise ServiceError(f"toy savings refuse the key {key}", remedy="make a new one")
    saved = Decimal(environ.get("TOY_SAVED", "100"))
    shares = Holding(1, "IBM", "share", saved, "USD", symbol="IBM", price=Decimal(200), rate=Decimal(1))
    cash = Holding(2, "Cash", "cash", Decimal(5), "USD", value=Decimal(5), rate=Decimal(1))
    return Snapshot(
        (Statement("toy-4711", (shares, cash), as_of=dt.date(2026, 1, 5)),), notes=(f"seen: {sorted(environ)}",)
    )
