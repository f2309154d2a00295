"""Dates of a text, as year, month and day; a part that is not given is None."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_MONTH = (
    r"(?:Jan(?:uary)?|Feb(?:ruary)?|Mar(?:ch)?|Apr(?:il)?|May|June?|July?|Aug(?:ust)?|Sept?(?:ember)?|Oct(?:ober)?"
    r"|Nov(?:ember)?|Dec(?:ember)?)\.?"
)
_DATE = re.compile(
    "|".join(
        (
            r"\b(?P<y1>(?:19|20)\d\d)-(?P<m1>\d\d)-(?P<d1>\d\d)(?:T[\d:.+-]+Z?)?",
            r"\b(?P<y5>(?:19|20)\d\d)-(?P<m5>0[1-9]|1[0-2])\b(?!-)",
            rf"\b(?P<d2>\d{{1,2}})(?:st|nd|rd|th)?(?: of)?[ -](?P<m2>{_MONTH})(?:,?[ -](?P<y2>(?:19|20)\d\d)\b)?",
            rf"\b(?P<m3>{_MONTH})[ -](?P<d3>\d{{1,2}})(?:st|nd|rd|th)?\b(?![.]\d|%)(?! ?(?i:put|call|strike)s?\b)"
            r"(?:,? (?P<y3>(?:19|20)\d\d)\b)?",
            rf"\b(?P<m4>{_MONTH}),? (?P<y4>(?:19|20)\d\d)\b",
            r"\b(?P<m6>\d{1,2})/(?P<d6>\d{1,2})/(?P<y6>(?:19|20)\d\d)\b",
            r"(?<![\d.,$])\b(?P<y7>(?:19|20)\d\d)\b(?![.,]\d|%|\s?(?:shares|contracts))",
        )
    )
)
_ANY_MONTH = re.compile(rf"\b{_MONTH}(?![a-z])")


class PartialDate(NamedTuple):
    """A date as far as it is given."""

    year: int | None
    month: int | None
    day: int | None

    def fits(self, other: PartialDate) -> bool:
        """Return True when no part that both have differs, and `other` has every part of this one."""
        pairs = zip(self, other, strict=True)
        return all(own is None or own == theirs for own, theirs in pairs)


def dates_in(text: str) -> Iterator[tuple[int, int, PartialDate]]:
    """Yield start, end and value of each date; a day that no month has is none."""
    for found in _DATE.finditer(text):
        parts = {key[0]: value for key, value in found.groupdict().items() if value is not None}
        day, month = parts.get("d"), parts.get("m")
        number = None if month is None else int(month) if month.isdigit() else _MONTHS.index(month[:3].lower()) + 1
        if (day is None or 1 <= int(day) <= 31) and (number is None or 1 <= number <= 12):
            yield found.start(), found.end(), PartialDate(_number(parts.get("y")), number, _number(day))


def months_in(text: str) -> Iterator[int]:
    """Yield the number of each month that a text names, with or without a day."""
    for found in _ANY_MONTH.finditer(text):
        yield _MONTHS.index(found[0][:3].lower()) + 1


def _number(digits: str | None) -> int | None:
    return None if digits is None else int(digits)
