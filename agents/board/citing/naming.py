"""Whether a claim names something of its signal: a low bar, which a paraphrase passes and nonsense does not."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache, lru_cache
from typing import Any

from chordesk.agents.board.citing.copying import terms
from chordesk.agents.grounding.concepts import concepts_in, field_of
from chordesk.models.board.questions import BoardQuestion
from chordesk.models.board.signals import BoardSignal

# Terms in which any finding of a market may be paraphrased.
_MARKET = (
    "trend momentum reversal strength strong weak weakness rally rise fall fell drop gain loss lose outperform"
    " underperform lag lead relative median universe rank market crowd consensus contrarian fade bet position"
    " volatility vol calm quiet risk edge signal evidence noise sample instance base rate probability odds chance"
    " likely unlikely price value cheap expensive dear overbought oversold stretched extended breakout bounce support"
    " resistance level volume liquidity spread gap divergence arbitrage venue funding short long bull bullish bear"
    " bearish up down higher lower option implied move earnings report headline news event surprise heat correlation"
    " diversify hedge stake size kelly bankroll confident confidence overconfident priced overstate understate"
    " overestimate underestimate persist mean horizon session week month drift"
)
_ENDINGS = ("ation", "ility", "ment", "ness", "ence", "ing", "ies", "ity", "ied", "ed", "es", "er", "ly", "s", "e", "y")
_SHORTEST = 3


def names_signal(claim: str, signal: BoardSignal, question: BoardQuestion, rivals: Sequence[BoardSignal]) -> bool:
    """Return whether a claim has a term of its signal, of the fields in its data, or of the market at large.

    rivals: signals of other tools that the same sentence is given for. It then has to name each of them by a term that
    the others do not have: what they have in common names none.
    """
    given = stems(claim)
    own = _vocabulary(signal, question)
    if rivals:
        shared = frozenset().union(*(_vocabulary(one, question) for one in rivals))
        return bool(given & (own - shared))
    fields = frozenset().union(*(field_of(name).concepts for name in _fields(signal.data)))
    return bool(given & (own | _market())) or bool(concepts_in(claim) & fields)


def stems(text: str) -> set[str]:
    """Return the stems of a text's terms."""
    return {_stem(term) for term in terms(text)}


@cache
def _market() -> frozenset[str]:
    return frozenset(stems(_MARKET))


def _vocabulary(signal: BoardSignal, question: BoardQuestion) -> frozenset[str]:
    texts = [
        signal.headline,
        signal.tool,
        signal.label,
        signal.owner,
        signal.direction,
        signal.basis,
        signal.source,
        *signal.subjects,
        *question.subjects,
        *_strings(signal.data),
    ]
    return _stems_of(tuple(texts))


@lru_cache(maxsize=1024)
def _stems_of(texts: tuple[str, ...]) -> frozenset[str]:
    return frozenset(stem for text in texts for stem in stems(text.replace("_", " ")))


def _strings(value: Any, depth: int = 0) -> Iterable[str]:
    """Yield the names and texts of data; parts of names in camel case apart."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict) and depth < 4:
        for key, item in value.items():
            yield "".join(f" {char}" if char.isupper() else char for char in str(key))
            yield from _strings(item, depth + 1)
    elif isinstance(value, list | tuple) and depth < 4:
        for item in value:
            yield from _strings(item, depth + 1)


def _fields(value: Any, depth: int = 0) -> Iterable[str]:
    if isinstance(value, dict) and depth < 4:
        for key, item in value.items():
            yield str(key)
            yield from _fields(item, depth + 1)
    elif isinstance(value, list | tuple) and depth < 4:
        for item in value:
            yield from _fields(item, depth + 1)


def _stem(term: str) -> str:
    """Return a term without its ending, so that "funded" is the term of "funding"."""
    for ending in _ENDINGS:
        if term.endswith(ending) and len(term) - len(ending) >= _SHORTEST:
            return term[: -len(ending)]
    return term
