"""Indented text that ends where its words end: rich's own padding fills each line to the width of the longest."""

from __future__ import annotations

from dataclasses import dataclass

from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.segment import Segment


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
