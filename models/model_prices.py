"""Prices of models, in US dollars for a million tokens, and the estimate that follows from them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

MILLION = 1_000_000
FORM = "write MODEL=INPUT/CACHED/OUTPUT in USD a million tokens, with a semicolon between entries"
AS_OF = "June 2026"


class Price(NamedTuple):
    """USD for a million tokens: of input, of input that the provider had in its cache, and of output."""

    input: float
    cached_input: float
    output: float

    def of(self, input_tokens: int, cached_input_tokens: int, output_tokens: int) -> float:
        """Return USD for so many tokens. Cached ones are among the input, and those of reasoning among the output."""
        cached = min(cached_input_tokens, input_tokens)
        parts = (input_tokens - cached) * self.input + cached * self.cached_input + output_tokens * self.output
        return parts / MILLION

    def __str__(self) -> str:
        return f"{self.input:g} input, {self.cached_input:g} cached, {self.output:g} output"


LOCAL = "local:"  # begins the labels of models of a local server
NO_PRICE = "local, no price"
_FREE = Price(0.0, 0.0, 0.0)

# OpenAI's published standard prices. Another endpoint may charge otherwise: DESK_PRICES overrides them.
LISTED: Mapping[str, Price] = {
    "gpt-5.5": Price(5.0, 0.5, 30.0),
    "gpt-5.4": Price(2.5, 0.25, 15.0),
    "gpt-5.4-mini": Price(0.75, 0.075, 4.5),
    "gpt-5.4-nano": Price(0.2, 0.02, 1.25),
}


def prices(own: str) -> dict[str, Price]:
    """Return the prices by model: those listed, and over them a text of one's own. Raises ValueError."""
    found = dict(LISTED)
    for entry in filter(None, (part.strip() for part in own.split(";"))):
        model, equals, figures = (part.strip() for part in entry.rpartition("="))
        if not (model and equals):
            raise ValueError(f"{entry!r} has no price: {FORM}")
        found[model] = _price(entry, figures)
    return found


def price_of(label: str, known: Mapping[str, Price]) -> Price | None:
    """By its label, such as `codex:gpt-5.5`: nothing for a local one; None where it is unknown."""
    return _FREE if label.startswith(LOCAL) else known.get(model_of(label))


def model_of(label: str) -> str:
    return label.partition(":")[2] or label


def readable(own: str) -> str:
    prices(own)
    return own


def _price(entry: str, figures: str) -> Price:
    try:
        numbers = [float(part) for part in figures.split("/")]
    except ValueError:
        numbers = []
    if len(numbers) != len(Price._fields) or not all(math.isfinite(number) and number >= 0 for number in numbers):
        raise ValueError(f"{entry!r} has no price: {FORM}")
    return Price(*numbers)
