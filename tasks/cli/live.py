"""Live output of a run until it ends: a redrawn view on a terminal, plain lines in a pipe."""

from __future__ import annotations

import time
from collections.abc import Callable

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.text import Text

from chordesk.models.database.store import Store
from chordesk.tasks.cli.render.runs import progress_line, progress_panel
from chordesk.tasks.views.run_view import Progress, progress

POLL_SECONDS = 0.4
UNCLAIMED_SECONDS = 8.0
UNCLAIMED = "no worker has started the run yet: is `desk up` or `desk worker` running?"


def follow(store: Store, run_id: str, console: Console, *, quiet: bool = False) -> Progress:
    """Show a run's progress and return it once the run has ended. Ctrl-C leaves the run going: it belongs to the
    workers."""
    if quiet:
        return _wait(store, run_id, lambda seen: None)
    # Colours may be forced on a pipe; a view that is drawn over itself needs a real terminal.
    if console.is_terminal and not console.is_dumb_terminal and console.file.isatty():
        with Live(console=console, refresh_per_second=4, transient=True) as live:
            return _wait(store, run_id, lambda seen: live.update(_view(seen)))
    lines = _Lines(console)
    return _wait(store, run_id, lines.show)


def _view(seen: Progress) -> RenderableType:
    return Group(progress_panel(seen), Text(UNCLAIMED, style="yellow")) if _unclaimed(seen) else progress_panel(seen)


def _unclaimed(seen: Progress) -> bool:
    return not seen.begun and not seen.final and seen.seconds > UNCLAIMED_SECONDS


class _Lines:
    """Prints a line when something has changed, at most one a second."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._last = ""
        self._at = 0.0
        self._hinted = False

    def show(self, seen: Progress) -> None:
        if _unclaimed(seen) and not self._hinted:
            self._hinted = True
            self._console.print(UNCLAIMED, soft_wrap=True, highlight=False)
        line = progress_line(seen)
        now = time.monotonic()
        if line != self._last and (seen.final or now - self._at >= 1.0):
            self._last, self._at = line, now
            self._console.print(f"{seen.seconds:6.1f} s  {line}", soft_wrap=True, highlight=False)


def _wait(store: Store, run_id: str, show: Callable[[Progress], None]) -> Progress:
    while True:
        with store.read() as session:
            seen = progress(session, run_id)
        show(seen)
        if seen.final:
            return seen
        time.sleep(POLL_SECONDS)
