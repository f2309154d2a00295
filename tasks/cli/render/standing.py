"""Terminal output of a standing: one line, red where real money can move."""

from __future__ import annotations

from pathlib import Path

from rich.text import Text

from chordesk.models.settings.running_desk import Standing


def standing_line(standing: Standing) -> Text:
    """Return the line; yellow where orders are sent, red where they move real money."""
    style = "bold red" if standing.real_money else "bold yellow" if standing.live else ""
    return Text(str(standing), style=style)


def desk_line(standing: Standing, home: Path, *, running: bool, held: bool) -> Text:
    """Return the line of a home's desk. running: the standing is a running desk's; without one it is this terminal's.
    held: a `desk up` holds the home, also while it starts or ends."""
    yet = " yet, one is starting or ending" if held else ""
    none = f"no `desk up` runs on {home}{yet}; by this terminal's settings"
    owner = f"the desk that runs on {home}" if running else none
    return Text.assemble(f"{owner}: ", standing_line(standing))
