"""How commands speak: tables for people, JSON for programs, errors with their remedy on stderr."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from typing import Any

import orjson
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from models.errors import DeskError


def console() -> Console:
    """Colours and a bounded width on a terminal; plain, unwrapped lines when piped."""
    return Console(soft_wrap=False) if sys.stdout.isatty() else Console(no_color=True, width=200, highlight=False)


def print_json(value: Any) -> None:
    sys.stdout.write(orjson.dumps(value, option=orjson.OPT_INDENT_2 | orjson.OPT_NON_STR_KEYS).decode() + "\n")


def inert(text: str) -> str:
    """Text that somebody else wrote, so that it cannot steer a terminal: only its line ends are kept of what is not
    printable."""
    return "".join(c if c.isprintable() or c == "\n" else " " for c in text)


def table(columns: Sequence[str], rows: Iterable[Sequence[str]], title: str | None = None) -> Table:
    """A table whose cells are plain text: what looks like markup in them is shown as it is, and control characters
    are not shown."""
    made = Table(*columns, title=title, title_justify="left", box=None, pad_edge=False, header_style="bold")
    for row in rows:
        made.add_row(*(escape(inert(cell)) for cell in row))
    return made


def warn(warnings: Iterable[str]) -> None:
    """Prints warnings on stderr, a line each."""
    err = Console(stderr=True, highlight=False, soft_wrap=True)
    for said in warnings:
        err.print(f"[bold yellow]warning:[/] {escape(inert(said))}")


def fail(error: DeskError, code: int) -> int:
    """Prints the error and its remedy on stderr; returns the exit code."""
    err = Console(stderr=True, highlight=False, soft_wrap=True)
    said = str(error.args[0]) if error.args else type(error).__name__
    err.print(f"[bold red]error:[/] {escape(inert(said))}")
    if error.remedy:
        err.print(f"[bold]remedy:[/] {escape(inert(error.remedy))}")
    return code
