"""Prices of models, in US dollars for a million tokens, and the estimate that follows from them."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import NamedTuple

MILLION = 1_000_000
FORM = "write MODEL=INPUT/CACHED/OUTPUT in USD a million tokens, with a semicolon between entries"
AS_OF = "November 2026"


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

# USD for a million tokens of input, cached input and output at the standard rate of each provider, as published on
# the pages below, by the table of them that LiteLLM 1.110.2 carries; where no rate of cached input is published, it is
# that of input. Another endpoint may charge otherwise: DESK_PRICES overrides them.
SOURCES: Mapping[str, str] = {
    "OpenAI": "developers.openai.com/api/docs/pricing",
    "Anthropic": "platform.claude.com/docs/en/about-claude/pricing",
    "Google": "ai.google.dev/gemini-api/docs/pricing",
}
_TABLES: Mapping[str, str] = {
    "OpenAI": """
gpt-6.1-sol             2/0.1/10
gpt-6.1-terra           1/0.05/5
gpt-6-astra             10/1/50
gpt-6-sol               2/0.2/10
gpt-6-luna              0.1/0.01/0.5
gpt-5.6                 4/0.4/20
gpt-5.6-sol             4/0.4/20
gpt-5.6-terra           2/0.2/12
gpt-5.6-luna            0.2/0.02/1.2
gpt-5.5                 5/0.5/30
gpt-5.5-pro             30/30/180
gpt-5.4                 2.5/0.25/15
gpt-5.4-mini            0.75/0.075/4.5
gpt-5.4-nano            0.2/0.02/1.25
gpt-5.4-pro             30/30/180
gpt-5.3-codex           1.75/0.175/14
gpt-5.2                 1.75/0.175/14
gpt-5.2-pro             21/21/168
gpt-5.1                 1.25/0.125/10
gpt-5                   1.25/0.125/10
gpt-5-mini              0.25/0.025/2
gpt-5-nano              0.05/0.005/0.4
gpt-5-pro               15/15/120
gpt-4.1                 2/0.5/8
gpt-4.1-mini            0.4/0.1/1.6
gpt-4o                  2.5/1.25/10
gpt-4o-mini             0.15/0.075/0.6
o3                      2/0.5/8
o3-pro                  20/20/80
""",
    "Anthropic": """
claude-fable-5-1        10/0.25/50
claude-fable-5          10/1/50
claude-mythos-5-1       10/0.25/50
claude-mythos-5         10/1/50
claude-opus-5-5         4/0.2/20
claude-opus-5           5/0.5/25
claude-opus-4-8         5/0.5/25
claude-opus-4-7         5/0.5/25
claude-opus-4-6         5/0.5/25
claude-opus-4-5         5/0.5/25
claude-sonnet-5-5       2/0.1/10
claude-sonnet-5         2/0.2/10
claude-sonnet-4-6       3/0.3/15
claude-sonnet-4-5       3/0.3/15
claude-haiku-5-5        0.1/0.01/0.5
claude-haiku-4-5        1/0.1/5
""",
    "Google": """
gemini-4-argon          2/0.1/10
gemini-4-hydrogen       1.5/0.075/7.5
gemini-3.8-flash        0.75/0.075/3.75
gemini-3.7-flash        0.75/0.075/3.75
gemini-3.6-flash        0.75/0.075/3.75
gemini-3.5-flash        1.5/0.15/9
gemini-3.5-flash-lite   0.3/0.03/2.5
gemini-3.1-pro-preview  2/0.2/12
gemini-3.1-flash-lite   0.25/0.025/1.5
gemini-3-flash-preview  0.5/0.05/3
gemini-2.5-pro          1.25/0.125/10
gemini-2.5-flash        0.3/0.03/2.5
gemini-2.5-flash-lite   0.1/0.01/0.4
""",
}
# Names of the providers before a model's, as LiteLLM writes them: what they sell, they sell at the prices above.
_SELLERS = ("openai/", "anthropic/", "gemini/")
_DATED = re.compile(r"-20\d\d-?[01]\d-?[0-3]\d$")  # ends the name of a snapshot, which costs what its model does


def listed_of(provider: str) -> dict[str, Price]:
    """Return the prices of a provider of SOURCES by model."""
    rows = (line.split() for line in filter(None, _TABLES[provider].splitlines()))
    return {model: _price(model, figures) for model, figures in rows}


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
    return _FREE if label.startswith(LOCAL) else price_by_name(model_of(label), known)


def price_by_name(model: str, known: Mapping[str, Price]) -> Price | None:
    """Of a model, such as `gpt-5.5`, `openai/gpt-5.5` or `gpt-5.5-2026-04-23`; None where it is unknown. A router or a
    cloud before the name (`openrouter/openai/gpt-5.5`, `azure/gpt-5.5`) sets prices of its own."""
    seller = next(filter(model.startswith, _SELLERS), "")
    bare = model.removeprefix(seller)
    return next((known[name] for name in (model, bare, _DATED.sub("", bare)) if name in known), None)


def is_listed(model: str, price: Price | str | None) -> bool:
    """Return whether a model's price, or its text, is the one that is listed here, and not one of `DESK_PRICES`."""
    listed = price_by_name(model, LISTED)
    return listed is not None and str(listed) == str(price)


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


LISTED: Mapping[str, Price] = {name: price for each in SOURCES for name, price in listed_of(each).items()}
