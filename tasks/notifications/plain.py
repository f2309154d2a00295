"""Text of others in messages: symbols, reasons and models' own text, without markup, mentions, links or secrets."""

from __future__ import annotations

import re
import unicodedata

from chordesk.models.masking import without_secrets

LONGEST = 160
_KEPT = frozenset(" .,;:()%+-'$")
# A dot before a letter would be a host, a colon an emoji, to some reader of the text.
_HOST = re.compile(r"\.(?=[^\W\d_])")
_COLON = re.compile(r":(?=[^\W\d_])")
# Account numbers of brokers: six digits or more, with letters around them or without.
_NUMBER = re.compile(r"\b(?=\w*\d{6})\w+\b")
_SPACES = re.compile(r"\s+")
# A suffix of one letter is a class of shares; one of two or more could be a domain.
_SYMBOL = re.compile(r"[A-Za-z0-9^=/ -]{1,40}(?:\.[A-Za-z])?")
HIDDEN_NUMBER = "(number left out)"


def quoted(text: object, longest: int = LONGEST) -> str:
    """Return untrusted text as one line of letters, digits and plain punctuation, cut where it gets long.

    Letters of any script stay; signs that are markup, a mention or part of a link anywhere do not.
    """
    known = without_secrets(unicodedata.normalize("NFKC", str(text or "")))
    lettered = "".join(one if one.isalnum() or one in _KEPT else " " for one in known)
    broken = _COLON.sub(": ", _HOST.sub(". ", lettered)).replace("--", "-")
    hidden = _NUMBER.sub(lambda found: HIDDEN_NUMBER, broken)
    shown = _SPACES.sub(" ", hidden).strip()
    return shown if len(shown) <= longest else f"{shown[: longest - 3].rstrip()}..."


def symbol(text: object) -> str:
    """Return a symbol, or the code of a contract, if it is one; else what of it is plain text."""
    given = str(text or "")
    return given if _SYMBOL.fullmatch(given) else quoted(given, 40)
