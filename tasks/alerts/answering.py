"""Questions in words about alerts and watch lists, answered from rows: what there is, and how each stands.

A question is read where each of its words is a plain one, but for at most one that names an alert, a list or a symbol.
English alone.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from sqlmodel import Session

from chordesk.models.answers import Frozen
from chordesk.models.database.store import Store
from chordesk.models.settings import Settings
from chordesk.models.text import one_line
from chordesk.tasks.alerts.display import AlertRow, alert_rows
from chordesk.tools.alerts import keeping
from chordesk.tools.market.protocol import MarketData

MOST, MOST_SYMBOLS = 12, 40  # alerts or lists, and symbols of one, that an answer names
LONGEST = 200  # characters of a question that can be one of these
_PLAIN = frozenset(
    (
        "a", "about", "active", "alert", "alerts", "all", "any", "are", "defined", "do", "enabled", "every", "existing",
        "for", "have", "i", "in", "is", "list", "lists", "me", "my", "named", "of", "off", "on", "our", "please", "set",
        "show", "symbols", "tell", "the", "there", "we", "what", "which", "you",
    )
)  # fmt: skip
_BEFORE = frozenset(("about", "alert", "for", "list", "named", "of", "on"))
_LISTS = re.compile(r"\bwatch[ -]?lists?\b", re.IGNORECASE)
_WORD = re.compile(r"[A-Za-z0-9$][\w.=^&:-]*")


class AlertsAnswer(Frozen):
    """As `answers` of a feature."""

    intent: str = ""
    text: str = ""
    missing: list[str] = []


def answer(settings: Settings, store: Store, market: Callable[[], MarketData], text: str) -> AlertsAnswer:
    """Return what alerts or watch lists there are; no intent for another question."""
    of_lists = _LISTS.search(text) is not None
    words = [word.rstrip(".?!,") for word in _WORD.findall(_LISTS.sub(" list ", text[: LONGEST + 1]))]
    named = [place for place, word in enumerate(words) if word.lower() not in _PLAIN]
    asks = of_lists or any(word.lower() in ("alert", "alerts") for word in words)
    if not asks or len(text) > LONGEST or len(named) > 1 or not all(_is_name(words, place) for place in named):
        return AlertsAnswer()
    with store.read() as session:
        read = _lists if of_lists else _alerts
        return AlertsAnswer(
            intent="watchlists" if of_lists else "alerts", text=read(session, [words[place] for place in named])
        )


def _is_name(words: Sequence[str], place: int) -> bool:
    """Whether a word stands where a name does: "on AAPL", "watch list tech", "the tech watch list"."""
    before = words[place - 1].lower() if place else ""
    after = words[place + 1].lower() if place + 1 < len(words) else ""
    return (before in _BEFORE and not after) or (before in ("the", "my", "our") and after == "list")


def _lists(session: Session, named: Sequence[str]) -> str:
    rows = keeping.watchlists(session)
    found = [row for row in rows if not named or row.name.lower() == named[0].lower()]
    if not found:
        names = ", ".join(row.name for row in rows[:MOST])
        lacks = f"there is no watch list {one_line(named[0], 40)!r}" if named else "there is no watch list"
        return f"{lacks}; there are {names}" if rows else lacks
    lines = []
    for row in found[:MOST]:
        more = f" and {len(row.symbols) - MOST_SYMBOLS} more" if len(row.symbols) > MOST_SYMBOLS else ""
        count = f"{len(row.symbols)} symbol{'s' * (len(row.symbols) != 1)}"
        lines.append(f"watch list {row.name}, {count}: {', '.join(row.symbols[:MOST_SYMBOLS])}{more}")
    return _text(lines, len(found))


def _alerts(session: Session, named: Sequence[str]) -> str:
    rows = alert_rows(session)
    name = named[0].removeprefix("$").lower() if named else ""
    found = [row for row in rows if not name or name in (row.name.lower(), row.subject.lower(), *_seen(row))]
    if not found:
        return f"no alert is named {one_line(named[0], 40)!r} or on it" if rows and named else "there is no alert"
    return _text([_line(row) for row in found[:MOST]], len(found))


def _seen(row: AlertRow) -> list[str]:
    return [one.symbol.lower() for one in row.symbols]


def _line(row: AlertRow) -> str:
    then = "" if row.action == "notify" else f", then {row.action}"
    times = f"fired {row.fired} time{'s' * (row.fired != 1)}" if row.fired else "has not fired"
    return f"{row.name}: {one_line(row.condition, 120)} on {row.subject}{then}; {row.state}, {times}"


def _text(lines: Sequence[str], count: int) -> str:
    more = [f"and {count - MOST} more"] if count > MOST else []
    return "\n".join([*lines, *more])
