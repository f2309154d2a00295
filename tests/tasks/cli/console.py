"""Rendering for tests: a console of 80 columns that keeps its text."""

from __future__ import annotations

import io

from rich.console import Console


def rendered(what: object, width: int = 80) -> str:
    """Return what a terminal of this width shows."""
    console = Console(width=width, no_color=True, highlight=False, file=io.StringIO())
    console.print(what)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()
