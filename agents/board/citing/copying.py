"""The copy score: how much of one text stands in another, by words without figures and stop words."""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache
from typing import NamedTuple

from rapidfuzz.distance import LCSseq

QUOTE, NOTE = 0.60, 0.40  # from QUOTE a text is copied, from NOTE it is near it
# Four terms in common are a subject and its tool, which every honest claim on a short headline shares with it. Such a
# headline is mostly figures: there a copy is found by all that stands in it.
LEAST_COMMON = 5
WHOLE = 0.80
RUN = 3
_TERM = re.compile(r"[^\W_]+")
# Letters of Cyrillic and Greek that look as Latin ones do.
_ALIKE = str.maketrans(
    "\u0430\u0435\u043e\u0440\u0441\u0443\u0445\u0456\u0458\u0455\u03bf\u03b1\u03bd\u03c1", "aeopcyxijsoavp"
)
_POSSESSIVE = re.compile(r"'s\b")
_TOKEN = re.compile(r"\d+(?:[.,]\d+)*|[^\W\d_]+")
_STOP = frozenset(
    re.findall(
        r"\S+",
        "a an the this that these those it its is are was were be been being am do does did has have had having of"
        " on in at to for from by with as into onto over under than then and or but nor so if not no yes we our us i my"
        " me you your he she they them their his her there here which what when where while will would can could should"
        " may might must shall also just very too more most less about per vs versus",
    )
)


class Copying(NamedTuple):
    """A text against an original. score: the larger of the two shares of the original, 0 to 1; common: number of its
    terms that the share stands for; own: share of the text that they are; whole: the score over all of the original,
    with its figures and stop words, 0 for one of fewer than LEAST_COMMON of them."""

    score: float
    common: int
    own: float
    whole: float

    @property
    def quoted(self) -> bool:
        """Return whether the text is a quotation: a score from QUOTE with LEAST_COMMON terms in common, or with most of
        the text; or WHOLE of the original."""
        enough = self.common >= LEAST_COMMON or self.own >= QUOTE
        return (self.score >= QUOTE and enough) or self.whole >= WHOLE

    @property
    def near(self) -> bool:
        """Return whether the text is near the original without being a quotation."""
        return not self.quoted and self.score >= NOTE

    @property
    def share(self) -> float:
        """Return the share of the original by which a quotation was found, else the score."""
        return max(self.score, self.whole) if self.quoted else self.score


def compare(claim: str, headline: str) -> Copying:
    """Return how much of a headline stands in a claim."""
    ours, theirs = terms(claim), terms(headline)
    if not ours or not theirs:
        return Copying(0.0, 0, 0.0, 0.0)
    common = _common(ours, theirs)
    every = tokens(headline)
    whole = _common(tokens(claim), every) / len(every) if len(every) >= LEAST_COMMON else 0.0
    return Copying(common / len(theirs), common, min(common / len(ours), 1.0), whole)


@lru_cache(maxsize=4096)
def terms(text: str) -> tuple[str, ...]:
    """Return the words of a text in order, without figures and stop words, whatever their case and accents.

    Letters of other widths count as the plain ones, and characters that are not seen do not count.
    """
    found = _TERM.findall(_POSSESSIVE.sub("", _plain(text)))
    return tuple(one for one in found if one not in _STOP and not any(char.isdigit() for char in one))


@lru_cache(maxsize=4096)
def tokens(text: str) -> tuple[str, ...]:
    """Return the words and figures of a text in order."""
    return tuple(_TOKEN.findall(_plain(text)))


def _plain(text: str) -> str:
    decomposed = unicodedata.normalize("NFKD", text.replace("\u2019", "'"))
    seen = "".join(char for char in decomposed if unicodedata.category(char) not in ("Mn", "Cf"))
    return seen.casefold().translate(_ALIKE)


def _common(ours: tuple[str, ...], theirs: tuple[str, ...]) -> int:
    return max(int(LCSseq.similarity(ours, theirs)), _covered(ours, theirs))


def _covered(ours: tuple[str, ...], theirs: tuple[str, ...]) -> int:
    """Return how many of the headline's terms lie in a run of RUN or more that the claim has too."""
    known, covered, end = _distinct(ours), 0, 0
    for at, run in enumerate(_runs(theirs)):
        if run in known:
            covered += at + RUN - max(at, end)
            end = at + RUN
    return covered


@lru_cache(maxsize=4096)
def _runs(text: tuple[str, ...]) -> tuple[tuple[str, ...], ...]:
    """Return the runs of RUN terms of a text in order. Each text is compared with many."""
    return tuple(text[at : at + RUN] for at in range(len(text) - RUN + 1))


@lru_cache(maxsize=4096)
def _distinct(text: tuple[str, ...]) -> frozenset[tuple[str, ...]]:
    return frozenset(_runs(text))
