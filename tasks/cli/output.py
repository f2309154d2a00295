"""Output of commands: tables and indented text for people, JSON for programs, errors with their remedy on stderr."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import orjson
from pydantic import BaseModel
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.markup import escape
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from chordesk.models.errors import DeskError
from chordesk.models.text import inert, json_shown, one_line

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
    console().print(text, markup=False, highlight=False, soft_wrap=True)


def print_json(value: Any) -> None:
    options = orjson.OPT_INDENT_2 | orjson.OPT_NON_STR_KEYS
    sys.stdout.write(json_shown(orjson.dumps(value, _jsonable, option=options).decode()) + "\n")


def _jsonable(value: Any) -> Any:
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json")
    raise TypeError(f"{type(value).__name__} has no JSON form")


def relative(path: Path) -> str:
    here = Path.cwd()
    return str(path.relative_to(here) if path.is_relative_to(here) else path)


def paragraph(text: str | None, longest: int = LONGEST_TEXT) -> str:
    return one_line(text, longest)


# One colour for each state, wherever it is shown; others have none.
_COLOURS = {
    "green": ("BUY", "filled", "done", "select", "ok", "live", "resolved"),
    "cyan": ("HOLD", "previewed", "running"),
    "yellow": ("CAUTION", "denied", "partial", "stopping", "stopped", "again", "warn", "void"),
    "magenta": ("INSUFFICIENT", "approval_pending", "incomplete", "lost"),
    "red": ("PASS", "rejected", "unknown", "failed", "reject", "offline"),
    "bold red": ("fail",),
    "dim": ("dormant",),
}
_STYLES = {state: colour for colour, states in _COLOURS.items() for state in states}


def state(name: str | None, text: str | None = None) -> Text:
    return Text(inert(text or name or "-"), style=_STYLES.get(name or "", ""))


def table(
    columns: Sequence[str] | Mapping[str, Callable[[Any], str | Text]],
    rows: Iterable[Any],
    title: str | None = None,
    *,
    right: Collection[str] = (),
    narrow: str | None = None,
) -> Table:
    padding = (0, 1, 0, 0) if narrow else (0, 1)
    made = Table(title=title, title_justify="left", box=None, pad_edge=False, padding=padding, header_style="bold")
    names = list(columns)
    for place, name in enumerate(names):
        whole = name != narrow if narrow is not None else place == 0
        made.add_column(name, justify="right" if name in right else "left", no_wrap=whole)
    if isinstance(columns, Mapping):
        rows = ([cell(row) for cell in columns.values()] for row in rows)
    for row in rows:
        cells = [Text(inert(cell)) if isinstance(cell, str) else cell for cell in row]
        if narrow is not None:
            cut = cells[names.index(narrow)]
            cut.no_wrap, cut.overflow = True, "ellipsis"
        made.add_row(*cells)
    return made


def facts(pairs: Iterable[tuple[str, str | Text]]) -> Table:
    made = Table.grid(padding=(0, 2, 0, 0))
    made.add_column(style="dim", no_wrap=True)
    made.add_column()
    for name, fact in pairs:
        made.add_row(name, Text(inert(fact)) if isinstance(fact, str) else fact)
    return made


def tally(counts: Mapping[str, int], nothing: str = "none") -> str:
    """Return counts with their names: 2 filled, 1 denied."""
    return ", ".join(f"{count} {name}" for name, count in counts.items()) or nothing


def bounded(rows: Sequence[T], most: int, line: Callable[[T], RenderableType], what: str = "") -> list[RenderableType]:
    """Return a line for each of the first rows, and how many more there are."""
    left = f"  and {len(rows) - most} more{what} (--json has them)"
    return [*map(line, rows[:most]), *([Text(left, style="dim")] if len(rows) > most else [])]


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
