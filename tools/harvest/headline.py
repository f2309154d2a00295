"""Headlines of findings, made of their data."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from string import Formatter
from typing import Any


def compose(template: str, data: Mapping[str, Any]) -> str:
    """Return a template with its fields from `data`, such as "{symbol} rose {change:.1%}".

    Raises ValueError for a template with a digit of its own: every figure of a headline stands in the data.
    """
    _check(template)
    return Formatter().vformat(template, (), data)


@cache
def _check(template: str) -> None:
    for text, _, _, _ in Formatter().parse(template):
        if any(char.isdigit() for char in text):
            raise ValueError(f"the headline {template!r} has a figure that is not in its data")
