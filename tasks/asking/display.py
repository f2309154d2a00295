"""Answers and dialogues as a terminal shows them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Group, RenderableType
from rich.text import Text

from chordesk.models.text import SHORT_ID, inert, one_line
from chordesk.tasks.cli.output import paragraph, table

if TYPE_CHECKING:
    from chordesk.tasks.asking.answers import Answer
    from chordesk.tasks.asking.dialogues import DialogueView, EntryView
    from chordesk.tasks.proposals import Proposed

TERMINAL = "terminal"  # the origin of what is asked there


def dialogue_table(found: list[DialogueView]) -> RenderableType:
    if not found:
        return "no dialogue yet"
    rows = [
        (one.id[:SHORT_ID], f"{one.last_at:%m-%d %H:%M}", str(one.entries), paragraph(one_line(one.question, 120)))
        for one in found
    ]
    return table(("Dialogue", "Last, UTC", "Asked", "First question"), rows, narrow="First question")


def answer_shown(found: Answer) -> RenderableType:
    return _text(found.text, found.missing, [str(one) for one in found.sources])


def entry_shown(found: EntryView, *, question: bool = False) -> RenderableType:
    """Return a kept question's answer. question: with the question before it."""
    head = [Text(f"> {inert(one_line(found.question, 400))}", style="bold")] if question else []
    if found.state != "answered":
        why = f": {inert(one_line(found.reason, 400))}" if found.reason else ""
        return Group(*head, Text(f"no answer, {found.state}{why}", style="yellow"))
    notes = []
    if found.figures is not None and found.figures:
        notes = [f"{found.found} of {found.figures} figures found in what was looked up"]
    sources = [f"{one['kind']} {one['id'][:SHORT_ID]}" for one in found.sources]
    cards = [
        Text(f"proposed: {inert(one['title'])}; nothing is done yet: desk proposals confirm {one['id'][:12]}")
        for one in found.proposals
    ]
    return Group(*head, _text(found.text, found.missing, sources, notes), *cards)


def _text(text: str, missing: list[str], sources: list[str], notes: list[str] | None = None) -> RenderableType:
    lines: list[RenderableType] = [Text(inert(line)) for line in text.splitlines()]
    if missing:
        lines.append(Text(f"missing: {'; '.join(inert(one) for one in missing)}", style="yellow"))
    more = f" and {len(sources) - 6} more" if len(sources) > 6 else ""
    named = [f"from {', '.join(sources[:6])}{more}"] if sources else []
    if notes or named:
        lines.append(Text("; ".join([*(notes or ()), *named]), style="dim"))
    return Group(*lines)


def card_shown(found: Proposed) -> RenderableType:
    """Return a new proposal, with how it is confirmed."""
    then = f"nothing is done yet; desk proposals confirm {found.id[:12]} asks you and does it"
    return Text(f"{card_text(found)}\n{then}")


def card_text(found: Proposed) -> str:
    """Return a card as a terminal shows it."""
    lines = [f"proposal {found.id[:12]}: {inert(found.title)}", *(f"  {inert(line)}" for line in found.lines)]
    lines += [f"  {inert(found.cost)}", f"  account {found.account}; asked by {inert(found.by)} from {found.origin}"]
    lines += ["  the model had read text from outside in this turn"] if found.outside else []
    if found.open:
        lines.append(f"  until {found.expires_at:%H:%M:%S} UTC; card {found.shown[:12]}")
    return "\n".join([*lines, *([f"  {inert(found.fate)}"] if found.fate else [])])
