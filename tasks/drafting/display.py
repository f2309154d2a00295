"""A run's draft as a terminal shows it."""

from __future__ import annotations

from collections.abc import Mapping

from rich.console import RenderableType
from rich.text import Text


def draft_text(found: Mapping[str, str]) -> RenderableType:
    return Text(f"draft of the lens {found['name']}, by {found['author']}, not in force:\n\n{found['text']}")
