"""Text of whatever origin in a document: made visible, and without effect as markdown."""

from __future__ import annotations

import re

UNSEEN = "\u25af"  # in place of a character that would steer a terminal or turn the line around
_SPECIAL = re.compile(r"[\\`*\[\]|~]|(?<![0-9A-Za-z])_|_(?![0-9A-Za-z])")
# At the start of a line: a heading, a list, or a line that makes a heading of the one before.
_BEGINS = re.compile(r"^(#{1,6}(?=\s|$)|[+-](?=\s|$)|\d+[.)](?=\s|$)|[=-]+$)")
# A bare address would become a link.
_ADDRESS = re.compile(r"(?i)(?<=[a-z])(?=:/)|(?<=\bwww)(?=\.)|(?=@)")


def visible(text: str) -> str:
    """Return the text with a sign in place of each character that cannot be seen; line ends and tabs are kept."""
    return "".join(c if c.isprintable() or c in "\n\t" else UNSEEN for c in text)


def one_line(text: str) -> str:
    return " ".join(visible(text).split())


def marked(text: str) -> str:
    """Return the text as one line of markdown that shows it literally: no emphasis, link, code, table or HTML."""
    shown = one_line(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    shown = _ADDRESS.sub(r"\\", _SPECIAL.sub(r"\\\g<0>", shown))
    return _BEGINS.sub(lambda found: _escaped(found[1]), shown)


def _escaped(start: str) -> str:
    return f"{start[:-1]}\\{start[-1]}"
