"""The memory of a prompt: a few lines made by code from stored reports, verdicts, hits and decisions.

A validator gets those of its symbol with each question. A thread that begins without history, such as one that took the
place of a thread grown too old or too long, gets them with its first: a validator those of its symbol, a lens its
earlier hits, the trader its last decisions.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from sqlmodel import Session

from chordesk.agents.role_models import role_labels
from chordesk.agents.roles import roots, validators
from chordesk.models.research import Stance
from chordesk.tasks.workflows import memory_rows
from chordesk.tasks.workflows.memory_rows import PastReport
from chordesk.tools.orders.records.trader_notes import last_notes
from chordesk.tools.registry import ToolContext

POINTS = 3  # of a symbol's thesis
HITS = 6
DECISIONS = 3
# At most what a token takes in UTF-8, for scripts of which a character is a token and three bytes; English ones take
# four, and get a little less room than they might.
BYTES_A_TOKEN = 3
_OBJECTS: Mapping[str, int] = {Stance.REJECT: 0, Stance.CAUTION: 1, Stance.CONFIRMED: 2}
_FIRST = roots(validators())
_ROLES = (*(key for key in validators() if key not in _FIRST), *_FIRST)


def symbol_memory(session: Session, context: ToolContext, symbol: str) -> str | None:
    """Return the last verdict, one to three thesis points, the last major risk and the last trade note of a symbol;
    None when there is none of them, or memory is off."""
    if _is_off(context):
        return None
    verdicts, reports = memory_rows.past(session, context, symbol)
    notes = last_notes(session, context.settings, context.account, [symbol], context.clock.now())
    lines = [f"{one.at:%Y-%m-%d} verdict {one.rating} ({one.confidence})" for one in verdicts]
    lines += _points(reports, role_labels(context.settings))
    lines += _major_risk(reports)
    lines += [f"last trade note: {line}" for line in notes.get(symbol, [])[-1:]]
    return fit(lines, context.settings.memory_tokens)


def lens_memory(session: Session, context: ToolContext, lens: str, symbols: Sequence[str]) -> str | None:
    """Return the last hits of a lens among these symbols, the newest first; None when memory is off."""
    if _is_off(context):
        return None
    found = memory_rows.hits(session, context, lens, symbols, HITS)
    lines = (f"{hit.at:%Y-%m-%d} put forward {hit.symbol} ({hit.confidence}): {hit.thesis}" for hit in found)
    return fit(lines, context.settings.memory_tokens)


def trader_memory(session: Session, context: ToolContext) -> str | None:
    """Return the account's last decisions, the oldest first; None when memory is off. Their results are in the notes by
    symbol."""
    if _is_off(context):
        return None
    found = reversed(memory_rows.decisions(session, context, DECISIONS))
    lines = (f"{one.at:%Y-%m-%d} decided: {_actions(one.actions)}. {one.reasoning}" for one in found)
    return fit(lines, context.settings.memory_tokens)


def _is_off(context: ToolContext) -> bool:
    return context.settings.memory == "off"


def fit(lines: Iterable[str], tokens: int) -> str | None:
    """Return the lines as one text of at most so many tokens; None when they are empty.

    Whitespace within a line becomes single spaces. A text that is too long loses the ends of its longest lines, so that
    a short one after them is still whole.
    """
    flat = [line for line in (" ".join(line.split()) for line in lines) if line]
    most = tokens * BYTES_A_TOKEN
    room = most - max(len(flat) - 1, 0)  # line ends
    shares = _shares([_size(line) for line in flat], room)
    text = "\n".join(cut(line, share) for line, share in zip(flat, shares, strict=True))
    return cut(text, most) or None


def cut(text: str, most: int) -> str:
    """Return the text in at most so many bytes of UTF-8; an ellipsis stands for what is left out, if there is room for
    it."""
    if _size(text) <= most:
        return text
    end = "…" if most > _size("…") else ""
    return text.encode()[: max(most - _size(end), 0)].decode(errors="ignore").rstrip() + end


def _shares(sizes: Sequence[int], room: int) -> list[int]:
    """Return the share of each size in a room: all of it, but none more than the largest share that fits."""
    left, shares = room, [0] * len(sizes)
    for done, place in enumerate(sorted(range(len(sizes)), key=sizes.__getitem__)):
        shares[place] = min(sizes[place], max(left, 0) // (len(sizes) - done))
        left -= shares[place]
    return shares


def _size(text: str) -> int:
    return len(text.encode())


def _points(reports: Sequence[PastReport], labels: Mapping[str, str]) -> list[str]:
    """Return lines of the newest reports, those of the later roles first. The model is named where it is not the
    current one."""
    newest = sorted(reports, key=lambda one: (one.role in _FIRST, *_newest(one)))
    return [f"{_head(one)}{_by(one, labels)}: {one.summary}" for one in newest[:POINTS]]


def _major_risk(reports: Sequence[PastReport]) -> list[str]:
    """Return the first risk of the report with the strongest objection; among equals the newest."""
    naming = [one for one in reports if one.key_risks]
    if not naming:
        return []
    worst = min(naming, key=lambda one: (_OBJECTS[one.verdict], *_newest(one)))
    return [f"{worst.at:%Y-%m-%d} major risk ({worst.role}): {worst.key_risks[0]}"]


def _newest(one: PastReport) -> tuple[float, int]:
    """Return a sort key: the newest first, those of one moment in the order of the roles."""
    return -one.at.timestamp(), _ROLES.index(one.role) if one.role in _ROLES else len(_ROLES)


def _head(one: PastReport) -> str:
    return f"{one.at:%Y-%m-%d} {one.role} {one.verdict} ({one.confidence})"


def _by(one: PastReport, labels: Mapping[str, str]) -> str:
    return f", by {one.author}" if one.author != labels.get(one.role) else ""


def _actions(actions: Sequence[Mapping[str, Any]]) -> str:
    return ", ".join(f"{action.get('action')} {action.get('symbol')}" for action in actions) or "nothing"
