"""Mandates: limits that a person signs for a broker that moves real money, as canonical text."""

from __future__ import annotations

import datetime as dt
import json
from decimal import Decimal
from typing import Annotated

from pydantic import AwareDatetime, Field

from chordesk.models.research import Frozen

ANY_SYMBOL = "*"
# Signed with the text, so that a signature made for something else by the same key is none for a mandate.
PURPOSE = b"chordesk mandate 1\n"


class MandateTerms(Frozen):
    """Limits of one mandate. max_notional: account currency, over all orders sent under the mandate; max_orders
    likewise. Times are real time. symbols: underlyings, or * alone for all."""

    version: Annotated[int, Field(ge=1)]
    broker: str
    max_notional: Annotated[Decimal, Field(gt=0, allow_inf_nan=False)]
    max_orders: Annotated[int, Field(ge=1)]
    symbols: Annotated[tuple[str, ...], Field(min_length=1)]
    armed_at: AwareDatetime
    expires_at: AwareDatetime
    armed_by: str

    def document(self) -> str:
        """Return canonical JSON: sorted keys, no spaces, amounts as decimal text, times in UTC."""
        fields = self.model_dump(mode="json")
        for name in ("armed_at", "expires_at"):
            fields[name] = getattr(self, name).astimezone(dt.UTC).isoformat()
        return json.dumps(fields, sort_keys=True, separators=(",", ":"))

    def allows(self, symbol: str) -> bool:
        return self.symbols == (ANY_SYMBOL,) or symbol in self.symbols


def signed_bytes(document: str) -> bytes:
    """Return the bytes that a mandate's signature covers."""
    return PURPOSE + document.encode()
