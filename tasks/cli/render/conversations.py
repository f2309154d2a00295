"""Terminal output of a run's conversations: their number, those with a running turn, and those on kept threads."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.text import Text

from chordesk.tasks.cli.output import inert
from chordesk.tasks.views.conversations import ConversationRow

MOST = 12


def conversations_report(rows: Sequence[ConversationRow]) -> RenderableType | None:
    """Return None when there were none; the whole list is in --json."""
    if not rows:
        return None
    running = [row for row in rows if row.active_turn_id is not None and row.closed_at is None]
    shown = running + [row for row in rows if row.kept and row not in running]
    threads = len({row.thread_id for row in rows})
    tally = f"{len(rows)} in {threads} threads, {len(running)} with a turn that runs now"
    parts: list[RenderableType] = [Text.assemble(("Conversations ", "bold"), tally)]
    parts += [_line(row) for row in shown[:MOST]]
    if len(shown) > MOST:
        parts.append(Text(f"  and {len(shown) - MOST} more (--json has them)", style="dim"))
    return Group(*parts)


def _line(row: ConversationRow) -> Text:
    name = inert(" ".join(part for part in (row.role, row.subject) if part))
    turn = f", turn {row.active_turn_id}" if row.active_turn_id is not None else ""
    return Text.assemble(f"  {name}  ", (f"{row.thread_reason}  ", "dim"), f"thread {row.thread_id}{turn}")
