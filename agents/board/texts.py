"""Outside text on a board: headlines of the news, titles of venues, reasons of voices. Data, never structure."""

from __future__ import annotations

import datetime as dt
import re
import unicodedata
from typing import Any

_SPACE = re.compile(r"\s+")
# What could close a quotation, or open a line of the board's own.
_QUOTES = str.maketrans(dict.fromkeys('"\u201c\u201d\u201e\u201f\u00ab\u00bb\u2033\uff02`', "'") | {"[": "(", "]": ")"})
_RULES = re.compile(r"[\u2500-\u257f=_*#~-]{4,}")
_CUT = "..."


def one_line(text: str, most: int) -> str:
    """Return a text as one line of at most `most` characters, without control and format characters."""
    bounded = text[: 8 * most]
    kept = "".join(one if one.isspace() or unicodedata.category(one)[0] not in "C" else " " for one in bounded)
    line = _SPACE.sub(" ", kept).strip()
    return line if len(line) <= most else line[: most - len(_CUT)].rstrip() + _CUT


def outside(text: str, most: int) -> str:
    """Return other people's text for a quotation on the board: one line in which no double quote closes it, no bracket
    opens an id and no rule opens a section."""
    return one_line(_RULES.sub("-", text.translate(_QUOTES)), most)


def quoted(text: str, most: int) -> str:
    return f'"{outside(text, most)}"'


def figure(value: float) -> str:
    """Return a number with at most six significant digits and no exponent below 1e15."""
    if value == 0 or 1e-4 <= abs(value) < 1e15:
        return f"{value:.6g}" if abs(value) < 1e6 else f"{value:.0f}"
    return f"{value:.6g}"


def percent(value: float | None) -> str:
    """Return a probability in per cent, with a decimal where the whole per cent would hide what is left."""
    if value is None:
        return "none"
    shown = f"{100 * value:.0f}%"
    return shown if abs(value - round(value, 2)) < 5e-4 else f"{100 * value:.1f}%"


def moment(at: dt.datetime) -> str:
    """Return a time as date and minute in UTC; midnight as the date alone."""
    utc = at.astimezone(dt.UTC) if at.tzinfo else at
    return f"{utc:%Y-%m-%d}" if (utc.hour, utc.minute) == (0, 0) else f"{utc:%Y-%m-%d %H:%M} UTC"


def pairs(data: dict[str, Any], most: int, each: int) -> str:
    """Return data as `name=value` in one line: names of nested parts joined by dots, texts in quotes of at most `each`
    characters, at most `most` pairs and the number of those left out."""
    found: list[str] = []
    _walk("", data, found, each, 0)
    if len(found) > most:
        found = [*found[:most], f"and {len(found) - most} more"]
    return " ".join(found)


def _walk(name: str, value: Any, found: list[str], each: int, depth: int) -> None:
    if isinstance(value, dict) and value and depth < 4:
        for key, item in value.items():
            own = outside(str(key), 40).replace(" ", "_").replace("=", "_")
            _walk(f"{name}.{own}" if name else own, item, found, each, depth + 1)
    elif isinstance(value, list | tuple) and value and depth < 4:
        for at, item in enumerate(value):
            _walk(f"{name}.{at}", item, found, each, depth + 1)
    else:
        found.append(f"{name}={_value(value, each)}")


def _value(value: Any, each: int) -> str:
    if value is None or value == [] or value == {}:
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int | float):
        return figure(value)
    text = outside(str(value), each)
    return text if re.fullmatch(r"[\w.:+-]+", text) else f'"{text}"'
