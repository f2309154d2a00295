"""Output of commands: tables and indented text for people, JSON for programs, errors with their remedy on stderr."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import orjson
from pydantic import BaseModel
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.markup import escape
from rich.segment import Segment
from rich.table import Table

from chordesk.models.errors import DeskError

T = TypeVar("T")
LONGEST_TEXT = 320  # of a paragraph


def console() -> Console:
    """Return a console with colours and a bounded width on a terminal; plain, unwrapped lines when piped."""
    return Console(soft_wrap=False) if sys.stdout.isatty() else Console(no_color=True, width=200, highlight=False)


def emit(value: T, render: Callable[[T], RenderableType], *, as_json: bool) -> None:
    """Print a value as JSON for programs, else as `render` shows it to people."""
    if as_json:
        print_json(value)
    elif isinstance(shown := render(value), str):
        print_line(shown)
    else:
        console().print(shown)


def print_line(text: str) -> None:
    """Print a line as it is: no markup, no colours, and not wrapped."""
    console().print(text, markup=False, highlight=False, soft_wrap=True)


def print_json(value: Any) -> None:
    """Print plain data, dataclasses and pydantic models."""
    options = orjson.OPT_INDENT_2 | orjson.OPT_NON_STR_KEYS
    sys.stdout.write(orjson.dumps(value, _jsonable, option=options).decode() + "\n")


def _jsonable(value: Any) -> Any:
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json")
    raise TypeError(f"{type(value).__name__} has no JSON form")


def relative(path: Path) -> str:
    """Return the path as short as it can be typed in this folder."""
    here = Path.cwd()
    return str(path.relative_to(here) if path.is_relative_to(here) else path)


def inert(text: str) -> str:
    """Return untrusted text that cannot steer a terminal: of what is not printable, only line ends are kept."""
    return "".join(c if c.isprintable() or c == "\n" else " " for c in text)


def paragraph(text: str | None, longest: int = LONGEST_TEXT) -> str:
    """Return untrusted text as one paragraph that cannot steer a terminal, cut where it gets long."""
    shown = " ".join(inert(text or "").split())
    return shown if len(shown) <= longest else f"{shown[: longest - 1].rstrip()}…"


def table(columns: Sequence[str], rows: Iterable[Sequence[str]], title: str | None = None) -> Table:
    """Return a table with plain text in its cells: markup is shown literally, control characters are removed."""
    made = Table(*columns, title=title, title_justify="left", box=None, pad_edge=False, header_style="bold")
    for row in rows:
        made.add_row(*(escape(inert(cell)) for cell in row))
    return made


def warn(warnings: Iterable[str]) -> None:
    """Print warnings on stderr, a line each."""
    err = Console(stderr=True, highlight=False, soft_wrap=True, emoji=False)
    for warning in warnings:
        err.print(f"[bold yellow]warning:[/] {escape(inert(warning))}")


def fail(error: DeskError, code: int) -> int:
    """Print the error and its remedy on stderr; return the exit code."""
    err = Console(stderr=True, highlight=False, soft_wrap=True, emoji=False)
    message = str(error.args[0]) if error.args else type(error).__name__
    err.print(f"[bold red]error:[/] {escape(inert(message))}")
    if error.remedy:
        err.print(f"[bold]remedy:[/] {escape(inert(error.remedy))}")
    return code


@dataclass(frozen=True, slots=True)
class Indented:
    """Renderable moved to the right by some columns and wrapped there."""

    content: RenderableType
    columns: int

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        narrower = options.update_width(max(options.max_width - self.columns, 1))
        for line in console.render_lines(self.content, narrower, pad=False):
            yield Segment(" " * self.columns)
            yield from line[:-1]
            yield from (Segment(last.text.rstrip(), last.style) for last in line[-1:])
            yield Segment.line()
