"""Terminal output of the attempts at a run's steps: those that did not end well, and their outcomes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import groupby

from rich.console import Group, RenderableType
from rich.text import Text

from chordesk.tasks.cli.output import paragraph
from chordesk.tasks.cli.render.indented import Indented
from chordesk.tasks.views.attempts import AttemptRow

MOST_STEPS = 12
_COLOURS = {"done": "green", "running": "cyan", "again": "yellow", "lost": "magenta", "failed": "red"}


def attempts_report(rows: Sequence[AttemptRow]) -> RenderableType | None:
    """Return None when every step ended well at its first attempt; the whole list is in --json."""
    by_step = [list(group) for _, group in groupby(rows, key=lambda row: row.step_id)]
    shown = [group for group in by_step if not all(row.went_well for row in group)]
    if not shown:
        return None
    counts = Counter(row.outcome for row in rows)
    tally = ", ".join(f"{count} {outcome}" for outcome, count in sorted(counts.items()))
    parts: list[RenderableType] = [Text.assemble(("Attempts ", "bold"), f"that did not go well, of {tally}")]
    for group in shown[:MOST_STEPS]:
        first = group[0]
        name = " ".join(part for part in (first.kind, first.role, first.subject) if part)
        parts.append(Text(f"  {name}"))
        parts += [Indented(_line(row), 4) for row in group]
    if len(shown) > MOST_STEPS:
        parts.append(Text(f"  and {len(shown) - MOST_STEPS} more steps (--json has them)", style="dim"))
    return Group(*parts)


def _line(row: AttemptRow) -> Text:
    reason = f": {paragraph(row.reason)}" if row.reason else ""
    return Text.assemble(
        f"{row.attempt} of {row.max_attempts}  ",
        (row.outcome, _COLOURS.get(row.outcome, "")),
        f" after {row.seconds:.1f} s on {row.owner.partition(':')[0]}{reason}",
    )
