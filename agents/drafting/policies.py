"""The drafter on rules: a few words of English that it knows, each with its part of a rule."""

from __future__ import annotations

import re
from typing import NamedTuple

from chordesk.agents.rulebook.cases import PREFIX, Call, Case, Payload, policy


class _Phrase(NamedTuple):
    """words: as a person writes them. where, score: over one figure."""

    words: str
    where: str
    score: str
    figure: str


_PHRASES = (
    _Phrase(r"ris(e|es|ing)|climb\w*|momentum|up", "momentum60 > 0.05", "rank(momentum60)", "momentum60"),
    _Phrase(r"fall\w*|fell|drop\w*|down|losers?", "momentum20 < -0.05", "rank(-momentum20)", "momentum20"),
    _Phrase(r"calm\w*|quiet\w*|steady|steadily|little", "volatility20 < 0.35", "rank(-volatility20)", "volatility20"),
    _Phrase(r"oversold", "rsi14 < 35", "rank(-rsi14)", "rsi14"),
    _Phrase(r"overbought", "rsi14 > 65", "rank(rsi14)", "rsi14"),
    _Phrase(r"volume|traded", "volumeRatio > 1.5", "rank(volumeRatio)", "volumeRatio"),
    _Phrase(r"highs?", "fromHigh > -0.05", "rank(fromHigh)", "fromHigh"),
    _Phrase(r"gaps?|gapped", "gap > 0.02", "rank(gap)", "gap"),
    _Phrase(r"dividends?|pays?|yield\w*", "dividendYield > 0.02", "rank(dividendYield)", "dividendYield"),
    _Phrase(r"cheap\w*|value", "trailingPE > 0 and trailingPE < 15", "rank(-trailingPE)", "trailingPE"),
    _Phrase(r"profit\w*", "profitMargin > 0.1", "rank(profitMargin)", "profitMargin"),
)


def knows(words: str) -> bool:
    """Return whether a rule could be made of the words."""
    return any(_said(one, words) for one in _PHRASES)


def _said(phrase: _Phrase, words: str) -> bool:
    return re.search(rf"\b(?:{phrase.words})\b", words, re.IGNORECASE) is not None


@policy("drafter")
def drafter(case: Case) -> Call | Payload:
    """A rule of the phrases that the words have and whose figure the market has; by a model without any."""
    words = str(case.subject.get("words") or "")
    known = {str(row.get("name")) for row in case.subject.get("figures") or ()}
    found = [one for one in _PHRASES if one.figure in known and _said(one, words)]
    parts = [one.where for one in found]
    if found and "splitLike" in known:
        parts.append("splitLike == 0")
    return {
        "name": _new_name(words, [str(name) for name in case.subject.get("taken") or ()]),
        "purpose": f"{PREFIX} {', '.join(one.figure for one in found) or 'words alone'}",
        "by": "rule" if found else "model",
        "universe": "",
        "where": " and ".join(parts),
        "score": " + ".join(one.score for one in found),
        "high": "",
        "figures": [one.figure for one in found],
        "hits": 6,
        "words": words,
    }


def _new_name(words: str, taken: list[str]) -> str:
    base = "-".join(re.findall(r"[a-z]+", words.lower())[:3])[:28].rstrip("-") or "lens"
    numbered = (f"{base}-{number}" for number in range(2, len(taken) + 3))
    return base if base not in taken else next(name for name in numbered if name not in taken)
