"""What a person's words ask the desk to do, read by rules from their beginning: the arguments of a proposal, which the
person then confirms. English alone. A question about an act is none: it does not begin with what to do."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from chordesk.models.settings.types import TIME_RULE

_PLEASE = r"^\s*(?:please\s+|can you\s+|could you\s+)?"
_END = r"\s*(?:,?\s*please)?\s*[.!]*\s*$"
_ID = r"(?P<id>[0-9A-Za-z][0-9A-Za-z_.=^-]{0,63})"
_SYMBOL = r"\$?[A-Za-z][A-Za-z0-9-]{0,9}(?:\.[A-Za-z]{1,2})?"
_NAME = r"(?P<name>[a-z][a-z0-9-]{0,39})"
_HALT = re.compile(
    _PLEASE + r"(?:halt(?: (?:trading|everything|the desk|all trading))?|stop (?:all )?trading|stop everything|"
    r"kill switch)(?:\s+now)?" + _END,
    re.IGNORECASE,
)
_STOP = re.compile(_PLEASE + r"stop (?:the )?(?:run )?(?P<id>(?=[0-9a-f]*\d)[0-9a-f]{6,32})" + _END, re.IGNORECASE)
_ANSWERS = {"approve": r"approve", "deny": r"(?:deny|refuse|reject)"}
_OF_ORDER = r"\s+(?:the )?(?:order |request )?(?:on |of |for )?\$?" + _ID
_BECAUSE = r"(?:\s*[,:]?\s*(?:because|since|as|why:)\s+(?P<why>.{1,200}?))?"
_SYMBOLS = rf"{_SYMBOL}(?:(?:\s*,\s*|\s+and\s+|\s*,\s*and\s+|\s+){_SYMBOL})*"
_RUNS = {"research": "research", "look into": "research", "analyze": "analyze", "analyse": "analyze"}
_RUN = rf"(?P<run>{'|'.join(_RUNS)})(?: of| on| run of)?"
_START = re.compile(rf"{_PLEASE}(?:run |start )?(?:a |an )?{_RUN}\s+(?P<symbols>{_SYMBOLS}){_END}", re.IGNORECASE)
_SCREEN = re.compile(rf"{_PLEASE}(?:(?:run|start) (?:an? |the )?)?screen(?: now)?{_END}", re.IGNORECASE)
_DAY = r"day|session|weekday|week|month|monday|tuesday|wednesday|thursday|friday"
_EVERY = re.compile(
    rf"{_PLEASE}(?:run|start|schedule)\s+(?:an? |the )?(?P<run>[a-z]{{1,20}})"
    rf"(?:\s+(?:of |on )?(?P<symbols>{_SYMBOLS}))??"
    rf"\s+(?:(?:every|each)\s+(?P<days>{_DAY})|on\s+(?P<list>[a-z,-]+))"
    rf"\s+at\s+(?P<at>{TIME_RULE})(?:\s+as\s+{_NAME})?{_END}",
    re.IGNORECASE,
)
_SWITCH = re.compile(
    _PLEASE + rf"(?:switch|turn)\s+(?P<do>on|off)\s+(?:the )?schedule(?:d run|'s)?\s+{_NAME}" + _END, re.IGNORECASE
)
_UNSCHEDULE = re.compile(_PLEASE + rf"remove\s+{_NAME}\s+from the schedule" + _END, re.IGNORECASE)
_DAYS = {"day": "sessions", "session": "sessions", "weekday": "sessions", "week": "week-first", "month": "month-first"}
_NO_SYMBOLS = frozenset(
    {
        *("IT", "THIS", "THAT", "THEM", "MY", "THE", "ALL", "NOW", "NEW", "RUN", "RUNS", "REPORT", "REPORTS"),
        *("TODAY", "TOMORROW", "TONIGHT", "YESTERDAY", "LATER", "SOON", "AGAIN", "SOMETHING", "ANYTHING", "EVERYTHING"),
        *("MONDAY", "TUESDAY", "WEDNESDAY", "THURSDAY", "FRIDAY", "SATURDAY", "SUNDAY"),
    }
)


def halting(text: str) -> Mapping[str, Any] | None:
    return {} if _HALT.match(text) else None


def stopping(text: str) -> Mapping[str, Any] | None:
    found = _STOP.match(text)
    return {"run": found["id"].lower()} if found is not None else None


def approving(word: str) -> Callable[[str], Mapping[str, Any] | None]:
    pattern = re.compile(_PLEASE + _ANSWERS[word] + _OF_ORDER + _BECAUSE + _END, re.IGNORECASE)

    def read(text: str) -> Mapping[str, Any] | None:
        found = pattern.match(text)
        if found is None or found["id"].upper() in _NO_SYMBOLS:
            return None
        return {"id": found["id"], **({"why": found["why"].strip()} if found["why"] else {})}

    return read


def starting(text: str) -> Mapping[str, Any] | None:
    if _SCREEN.match(text):
        return {"run": "screen"}
    found = _START.match(text)
    if found is None or (symbols := symbols_of(found["symbols"])) is None:
        return None
    return {"run": _RUNS[found["run"].lower()], "symbols": symbols}


def scheduling(text: str) -> Mapping[str, Any] | None:
    if (found := _SWITCH.match(text)) is not None:
        return {"do": found["do"].lower(), "name": found["name"].lower()}
    if (found := _UNSCHEDULE.match(text)) is not None:
        return {"do": "remove", "name": found["name"].lower()}
    found = _EVERY.match(text)
    if found is None:
        return None
    run, at = found["run"].lower(), found["at"].lower()
    given = {"do": "add", "run": run, "at": at, "days": _days(found["days"], found["list"])}
    symbols = symbols_of(found["symbols"]) if found["symbols"] else None
    given |= {"symbols": symbols} if symbols else {}
    return given | {"name": (found["name"] or _entry_name(run, at)).lower()}


def _days(word: str | None, listed: str | None) -> str:
    if word is None:
        return (listed or "").lower()
    return _DAYS.get(word.lower(), word.lower()[:3])


def _entry_name(run: str, at: str) -> str:
    """Return a name for an entry that has none: screen at open+15m -> screen-open-15m."""
    return re.sub(r"[^a-z0-9]+", "-", f"{run}-{at}").strip("-")


def symbols_of(text: str) -> list[str] | None:
    """Return the symbols of a list in words, None where it names none: a word in small letters may be any word."""
    words = [word.lstrip("$") for word in re.split(r"\s*,\s*(?:and\s+)?|\s+and\s+|\s+", text) if word]
    marked = all(word.upper() == word for word in words) or "$" in text or len(words) == 1
    if not marked or any(word.upper() in _NO_SYMBOLS for word in words):
        return None
    return [word.upper() for word in words]
