"""Texts with one spelling of digits, signs and spaces, of the same length as before."""

from __future__ import annotations

import unicodedata

_ALIKE = str.maketrans(
    dict.fromkeys("\u2212\u2010\u2011\u2012\u2013\u2014\ufe63\uff0d", "-")
    | dict.fromkeys("\u00a0\u2007\u2009\u202f\u2002\u2003\t\n\r", " ")
    | {"\uff05": "%", "\u2019": "'", "\uff0e": ".", "\uff0c": ",", "\u00d7": "x"}
)


def plain(text: str) -> str:
    """Return the text with decimal digits of every script as 0 to 9, every dash as a hyphen and every space as a blank;
    a line's end is a blank. The length stays, so that offsets do."""
    text = text.translate(_ALIKE)
    return text if text.isascii() else "".join(map(_digit, text))


def _digit(char: str) -> str:
    value = unicodedata.decimal(char, None)
    return char if value is None else str(value)
