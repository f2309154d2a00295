"""How long the texts of a stand-in are, in characters: rules write a sentence where a model writes a report."""

from __future__ import annotations

from typing import NamedTuple


class Lengths(NamedTuple):
    """Characters of a text, and of a field of a structured answer; 0 is one sentence."""

    text: int
    field: int


SHORT = Lengths(0, 0)
# Four published reports that TradingAgents made with real models, with one round of each debate, have 55,000 to 71,000
# characters in up to 12 texts: some 5,000 a text, and some 900 in a field of a structured answer.
LONG = Lengths(4_000, 800)
