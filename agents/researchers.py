"""The subjects of the validators."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from agents.roles import constraints
from models.settings import Settings

FIRST_ROLE = "quick"
RESEARCH_ROLES = ("fundamentals", "risk", "catalyst")  # what follows unless the first role rejects


@dataclass(frozen=True, slots=True)
class Thesis:
    """What a lens said of a symbol."""

    lens: str
    confidence: str
    thesis: str


def validator_subject(
    symbol: str,
    instrument: str,
    theses: Iterable[Thesis],
    settings: Settings,
    capital: float | None = None,
) -> dict[str, Any]:
    """The subject of one validator turn.

    theses: none when a person named the symbol. capital: buying power in account currency, None when it is not known.
    """
    said = [{"lens": one.lens, "confidence": one.confidence, "thesis": one.thesis} for one in theses]
    return {
        "symbol": symbol,
        "instrument": instrument,
        "screenTheses": said,
        "constraints": constraints(settings, capital),
    }
