"""What a prompt says of the past: a few lines made by code from stored reports, verdicts, hits and decisions.

A validator is told of its symbol in each question. A thread that begins without history, such as one that took the
place of a thread grown too old or too long, is told in its first: a validator of its symbol, a lens of what it put
forward before, the trader of its last decisions.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from sqlmodel import Session

from agents.researchers import FIRST_ROLE, RESEARCH_ROLES
from models.research import Stance
from tasks import recalled
from tasks.recalled import Said
from tools.orders.notes import last_notes
from tools.registry import ToolContext

POINTS = 3  # of a symbol's thesis
HITS = 6
DECISIONS = 3
# At most what a token takes in UTF-8, for scripts of which a character is a token and three bytes; English ones take
# four, and get a little less room than they might.
BYTES_A_TOKEN = 3
_OBJECTS: Mapping[str, int] = {Stance.REJECT: 0, Stance.CAUTION: 1, Stance.CONFIRMED: 2}
_ROLES = (*RESEARCH_ROLES, FIRST_ROLE)


def symbol_memory(session: Session, context: ToolContext, symbol: str) -> str | None:
    """The last verdict, one to three thesis points, the last major risk and the last trade note; None when there is
    none of them."""
    said = recalled.reports(session, context, symbol)
    notes = last_notes(session, context.settings, context.account, [symbol], context.clock.now())
    verdicts = recalled.verdicts(session, context, symbol)
    lines = [f"{one.at:%Y-%m-%d} verdict {one.rating} ({one.confidence})" for one in verdicts]
    lines += _points(said, context.settings.spoken_by)
    lines += _major_risk(said)
    lines += [f"last trade note: {line}" for line in notes.get(symbol, [])[-1:]]
    return fit(lines, context.settings.memory_tokens)


def lens_memory(session: Session, context: ToolContext, lens: str, symbols: Sequence[str]) -> str | None:
    """What a lens put forward last among these symbols, the newest first."""
    found = recalled.hits(session, context, lens, symbols, HITS)
    lines = (f"{hit.at:%Y-%m-%d} put forward {hit.symbol} ({hit.confidence}): {hit.thesis}" for hit in found)
    return fit(lines, context.settings.memory_tokens)


def trader_memory(session: Session, context: ToolContext) -> str | None:
    """The account's last decisions, the oldest first. What became of them is in the notes by symbol."""
    found = reversed(recalled.decisions(session, context, DECISIONS))
    lines = (f"{one.at:%Y-%m-%d} decided: {_actions(one.actions)}. {one.reasoning}" for one in found)
    return fit(lines, context.settings.memory_tokens)


def fit(lines: Iterable[str], tokens: int) -> str | None:
    """The lines as one text of at most so many tokens; None when there is nothing to say.

    Whitespace within a line becomes single spaces. What is too long loses the ends of its longest lines, so that a
    short one after them is still whole.
    """
    flat = [line for line in (" ".join(line.split()) for line in lines) if line]
    most = tokens * BYTES_A_TOKEN
    room = most - max(len(flat) - 1, 0)  # line ends
    shares = _shares([_size(line) for line in flat], room)
    text = "\n".join(cut(line, share) for line, share in zip(flat, shares, strict=True))
    return cut(text, most) or None


def cut(text: str, most: int) -> str:
    """The text in at most so many bytes of UTF-8; an ellipsis stands for what is left out, if there is room for it."""
    if _size(text) <= most:
        return text
    end = "…" if most > _size("…") else ""
    return text.encode()[: max(most - _size(end), 0)].decode(errors="ignore").rstrip() + end


def _shares(sizes: Sequence[int], room: int) -> list[int]:
    """What each of several gets of a room: all it wants, but none more than the largest share that fits."""
    left, shares = room, [0] * len(sizes)
    for done, place in enumerate(sorted(range(len(sizes)), key=sizes.__getitem__)):
        shares[place] = min(sizes[place], max(left, 0) // (len(sizes) - done))
        left -= shares[place]
    return shares


def _size(text: str) -> int:
    return len(text.encode())


def _points(reports: Sequence[Said], speaker: str) -> list[str]:
    """The newest reports, those of the research roles before the first role's. Who spoke is said where it is not who
    speaks now."""
    newest = sorted(reports, key=lambda one: (one.role == FIRST_ROLE, *_newest(one)))
    return [f"{_head(one)}{_by(one, speaker)}: {one.summary}" for one in newest[:POINTS]]


def _major_risk(reports: Sequence[Said]) -> list[str]:
    """The first risk of the report that objects most; among equals the newest."""
    naming = [one for one in reports if one.key_risks]
    if not naming:
        return []
    worst = min(naming, key=lambda one: (_OBJECTS[one.verdict], *_newest(one)))
    return [f"{worst.at:%Y-%m-%d} major risk ({worst.role}): {worst.key_risks[0]}"]


def _newest(one: Said) -> tuple[float, int]:
    """The newest first, of one moment in the order of the roles."""
    return -one.at.timestamp(), _ROLES.index(one.role) if one.role in _ROLES else len(_ROLES)


def _head(one: Said) -> str:
    return f"{one.at:%Y-%m-%d} {one.role} {one.verdict} ({one.confidence})"


def _by(one: Said, speaker: str) -> str:
    return f", by {one.spoken_by}" if one.spoken_by != speaker else ""


def _actions(actions: Sequence[Mapping[str, Any]]) -> str:
    return ", ".join(f"{action.get('action')} {action.get('symbol')}" for action in actions) or "nothing"
