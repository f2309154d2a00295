"""The citations of a forecast: code decides whether one counts, and states why where it does not."""

from __future__ import annotations

import json
import math
import re
import unicodedata
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from itertools import combinations
from typing import Any, NamedTuple

from rapidfuzz.distance import LCSseq

from chordesk.agents.board.board_text import Board, one_line
from chordesk.agents.grounding import ground
from chordesk.agents.grounding.figure_sources import Datum, Index, Place, concepts_in, field_of, index_of, places
from chordesk.agents.grounding.figures import Figure, Reading, read
from chordesk.agents.grounding.matching import comparable
from chordesk.models.board.forecasts import concerns
from chordesk.models.questions import BoardQuestion, CitationStance, CitedSignal, SignalState, VoicePosition
from chordesk.models.tables.board import Signal

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
    """A text against an original."""

    score: float  # the larger of the two shares of the original, 0 to 1
    common: int  # number of its terms that the share stands for
    own: float  # share of the text that they are
    # the score over all of the original, with its figures and stop words, 0 for one of fewer than LEAST_COMMON of them
    whole: float

    @property
    def quoted(self) -> bool:
        """A score from QUOTE with LEAST_COMMON terms in common, or with most of the text; or WHOLE of the original."""
        enough = self.common >= LEAST_COMMON or self.own >= QUOTE
        return (self.score >= QUOTE and enough) or self.whole >= WHOLE

    @property
    def near(self) -> bool:
        return not self.quoted and self.score >= NOTE

    @property
    def share(self) -> float:
        return max(self.score, self.whole) if self.quoted else self.score


def compare(claim: str, headline: str) -> Copying:
    ours, theirs = terms(claim), terms(headline)
    if not ours or not theirs:
        return Copying(0.0, 0, 0.0, 0.0)
    common = _common(ours, theirs)
    every = tokens(headline)
    whole = _common(tokens(claim), every) / len(every) if len(every) >= LEAST_COMMON else 0.0
    return Copying(common / len(theirs), common, min(common / len(ours), 1.0), whole)


@lru_cache(maxsize=4096)
def terms(text: str) -> tuple[str, ...]:
    """Return the words of a text in order, without figures and stop words, whatever their case and accents. Letters of
    other widths count as the plain ones, and characters that are not seen do not count."""
    found = _TERM.findall(_POSSESSIVE.sub("", _plain(text)))
    return tuple(one for one in found if one not in _STOP and not any(char.isdigit() for char in one))


@lru_cache(maxsize=4096)
def tokens(text: str) -> tuple[str, ...]:
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
    return tuple(text[at : at + RUN] for at in range(len(text) - RUN + 1))


@lru_cache(maxsize=4096)
def _distinct(text: tuple[str, ...]) -> frozenset[tuple[str, ...]]:
    return frozenset(_runs(text))


MOST_FIGURES = 24  # of a claim
MOST_DERIVED = 3  # figures for which arithmetic on two others is tried, which costs by the square of them
# Further readings of a field whose class its name does not give: a change of 0.08 as 8 points.
_SCALES = {"points": (1.0, 100.0), "cents": (1.0, 100.0), "percent": (100.0,), "bps": (1e4,)}

_BASELINE = re.compile(r"(?i)\b(?:baseline|base rate|market|prior|odds|even|priced?|prices)\b")
_FORECAST = re.compile(r"\b(?:I|[Mm]y|[Mm]ine|[Ww]e|[Oo]ur|forecast|estimate|probability)\b")


def unsupported(
    claim: str, signal: Signal, question: BoardQuestion, probability: float, labels: Iterable[str]
) -> list[str]:
    """Return the figures of a claim that neither its signal nor its question has. A figure is in the signal when a
    value of its data, headline, confidence or time equals it within half of the last digit shown, or when it follows
    from two of them by arithmetic. The question's text and closing count too, its baseline and the forecast's
    probability where a term beside the figure names them. labels: of the board, whose digits are names."""
    text = _without(claim, labels)
    reading = _read(text)
    if reading.more:
        return [f"more than {MOST_FIGURES} figures"]
    found = places(reading)
    if not found:
        return []
    answer, asked = _answer(signal), {"text": question.text, "closes": question.closes_at.isoformat()}
    indexes = _index(signal.tool, _text(answer)), _index("", _text(asked))
    own = ((_BASELINE, question.baseline), (_FORECAST, probability))
    standing = [
        place.figure
        for place in found
        if any(_stands(place, index) for index in indexes) or any(_named(place, *one) for one in own)
    ]
    lacking = [place.figure for place in found if place.figure not in standing]
    lacking = [one for one in lacking if not _difference(one, standing)]
    if not lacking or len(lacking) > MOST_DERIVED:
        return [one.text for one in lacking]
    # What is left may be a difference or a ratio, by the rules for the reports of roles.
    grounding = ground({"claim": text}, [(signal.tool, {}, answer)], asked)
    derived = {(one.start, one.end) for one in grounding.citations if one.source == "derived"}
    return [one.text for one in lacking if (one.start, one.end) not in derived]


def has_one_of(claim: str, signal: Signal, labels: Iterable[str]) -> bool:
    found = places(_read(_without(claim, labels)))
    index = _index(signal.tool, _text(_answer(signal))) if found else Index()
    return any(_stands(place, index) for place in found)


@lru_cache(maxsize=1024)
def _index(tool: str, text: str) -> Index:
    """Return the index of an object in JSON. Each voice cites the same few signals in each round."""
    return index_of([(tool, {}, json.loads(text))], {})


@lru_cache(maxsize=1024)
def _read(text: str) -> Reading:
    """Return the figures of a claim. A sentence that is given for several signals or in both rounds is read once."""
    return read(text, MOST_FIGURES)


def _text(value: dict[str, Any]) -> str:
    return json.dumps(value, default=str)


def _answer(signal: Signal) -> dict[str, Any]:
    return {
        "headline": signal.headline,
        "confidence": signal.confidence,
        "probability": signal.probability,
        "asOf": signal.as_of.isoformat(),
        "basis": signal.basis,
        "data": signal.data,
    }


def _stands(place: Place, index: Index) -> bool:
    figure = place.figure
    if figure.date is not None:
        return any(one.date is not None and figure.date.fits(one.date) for one in index.dates)
    # Without the terms around it no field is asked for: a signal has few figures, and the sign is checked as written.
    bare = replace(place, before="", after="")
    return any(_fits(figure, datum, bare) for datum in index.data)


def _named(place: Place, terms: re.Pattern[str], probability: float | None) -> bool:
    figure = place.figure
    if probability is None or figure.unit not in ("percent", "plain"):
        return False
    value = probability if figure.unit == "plain" else 100 * probability
    named = terms.search(place.before) or terms.search(place.after)
    return bool(named) and abs(value - figure.value) <= figure.tolerance


def _difference(figure: Figure, standing: Sequence[Figure]) -> bool:
    if figure.unit not in ("points", "percent", "money", "plain"):
        return False
    units = ("percent", "points") if figure.unit in ("percent", "points") else (figure.unit,)
    known = [one for one in standing if one.unit in units]
    return any(
        abs(abs(_value(one) - _value(other)) - figure.value) <= max(figure.tolerance, 1e-9)
        for one, other in combinations(known, 2)
    )


def _value(figure: Figure) -> float:
    return -figure.value if figure.sign < 0 else figure.value


def _fits(figure: Figure, datum: Datum, bare: Place) -> bool:
    if not math.isfinite(figure.value):
        return False
    # "Negative 6 of 8" is a count, and no figure below 0.
    sign = 0 if figure.text[:3].lower() == "neg" else figure.sign
    if sign * datum.value < 0 and not (sign < 0 and datum.falling):
        return False
    values = [one.value for one in comparable(datum, bare, named=True, idiom=True)]
    if datum.kind in ("any", "ratio", "number"):
        values += [abs(datum.value) * scale for scale in _SCALES.get(figure.unit, ())]
    # A whole number is not a rounding of a share: 1 of 0.87.
    counted = figure.step >= 1 and figure.unit in ("plain", "days", "times", "money")
    known = [value for value in values if not counted or value >= 1 or value == figure.value]
    return any(abs(value - abs(figure.value)) <= figure.tolerance for value in known)


def _without(claim: str, labels: Iterable[str]) -> str:
    """Return a claim with each label of the board as blanks, so that offsets stay."""
    pattern = _pattern(tuple(labels))
    return pattern.sub(lambda found: " " * len(found[0]), claim) if pattern is not None else claim


@lru_cache(maxsize=64)
def _pattern(labels: tuple[str, ...]) -> re.Pattern[str] | None:
    names = sorted((label for label in labels if any(char.isdigit() for char in label)), key=len, reverse=True)
    if not names:
        return None
    return re.compile("|".join(rf"(?<![\w-]){re.escape(name)}(?![\w-])" for name in names), re.IGNORECASE)


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


def names_signal(claim: str, signal: Signal, question: BoardQuestion, rivals: Sequence[Signal]) -> bool:
    given = stems(claim)
    own = _vocabulary(signal, question)
    if rivals:
        shared = frozenset().union(*(_vocabulary(one, question) for one in rivals))
        return bool(given & (own - shared))
    fields = frozenset().union(*(field_of(name).concepts for name in _fields(signal.data)))
    return bool(given & (own | _market())) or bool(concepts_in(claim) & fields)


def stems(text: str) -> set[str]:
    return {_stem(term) for term in terms(text)}


@cache
def _market() -> frozenset[str]:
    return frozenset(stems(_MARKET))


def _vocabulary(signal: Signal, question: BoardQuestion) -> frozenset[str]:
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
    """The names and texts of data; parts of names in camel case apart."""
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


_STANCES: tuple[CitationStance, ...] = ("build", "disagree", "quote")
_MOST_NAMED = 3  # figures in a reason
_FIGURE_CHARS = 24


@dataclass(frozen=True, slots=True)
class JudgedCitation:
    """A citation with code's decision."""

    voice: str
    round: int
    question: str
    ordinal: int  # of the citation in its forecast
    cited: CitedSignal
    signal: Signal | None  # None for an unknown label
    counts: bool
    reason: str | None = None  # why it does not count, or a note
    copied: float | None = None  # the copy score, None without a signal's own text
    quoted: bool = False  # void as a copy

    @property
    def tool(self) -> str | None:
        return self.signal.tool if self.signal else None


def judge(position: VoicePosition, board: Board) -> list[JudgedCitation]:
    """Return each citation of a forecast, in its order, with whether it counts.

    One counts when its signal is on the board, is live and concerns the question, its claim names something of the
    signal, has no figure that the signal and the question lack, and is not copied. A signal counts once a forecast;
    which citation of it does, and all that follows, does not depend on their order.
    """
    question = board.question(position.forecast.question)
    drafts = [_judged(position, at, one, question, board) for at, one in enumerate(position.forecast.citations)]
    by_signal: dict[str, list[JudgedCitation]] = defaultdict(list)
    for draft in drafts:
        if draft.signal is not None:
            by_signal[draft.signal.label].append(draft)
    decided = {one.ordinal: one for group in by_signal.values() for one in _once(group)}
    return [decided.get(draft.ordinal, draft) for draft in drafts]


def _judged(
    position: VoicePosition, at: int, cited: CitedSignal, question: BoardQuestion | None, board: Board
) -> JudgedCitation:
    signal = board.signal(cited.signal)
    draft = JudgedCitation(position.voice, position.round, position.forecast.question, at, cited, signal, False)
    if signal is None:
        return replace(draft, reason="no such signal on this board")
    copying = compare(cited.claim, signal.headline)
    draft = replace(draft, copied=copying.share, quoted=signal.state == SignalState.LIVE and copying.quoted)
    why = _refused(position, cited, signal, question, board)
    if why is not None:
        # What is void for another reason is no less a copy.
        return replace(draft, reason=why)
    if draft.quoted:
        return replace(draft, reason=_copied(copying.share))
    return replace(draft, counts=True, reason=_note(copying))


def _refused(
    position: VoicePosition, cited: CitedSignal, signal: Signal, question: BoardQuestion | None, board: Board
) -> str | None:
    if question is None:
        return "its question is not on this board"
    if signal.state != SignalState.LIVE:
        return f"the signal is {signal.state}"
    if not concerns(signal, question.subjects, question.label):
        return f"the signal does not concern {question.label}"
    if not cited.claim.strip() or not _names(cited, signal, question, position.forecast.citations, board):
        return "the claim names nothing of the signal"
    own = position.forecast.probability if position.stated is None else position.stated
    lacking = unsupported(cited.claim, signal, question, own, _labels(board))
    if lacking:
        named = ", ".join(one_line(one, _FIGURE_CHARS) for one in lacking[:_MOST_NAMED])
        return f"not in the signal's data: {named}"
    return None


def _once(group: Sequence[JudgedCitation]) -> list[JudgedCitation]:
    signal = group[0].signal
    assert signal is not None, "a group is of a signal on the board"
    counting = sorted((one for one in group if one.counts), key=_canonical)
    together = compare(" ".join(one.cited.claim for one in counting), signal.headline)
    in_parts = len(counting) > 1 and together.quoted
    copies = " ".join(sorted(one.cited.claim for one in group if one.quoted))
    decided, taken = {}, False
    for one in counting:
        if in_parts or _adds(one.cited.claim, copies, signal.headline):
            why = f"{_copied(together.share)} in parts" if in_parts else "a part of a copied headline"
            decided[one.ordinal] = replace(one, counts=False, reason=why, quoted=True)
        elif taken:
            why = "the signal is cited before on this question"
            decided[one.ordinal] = replace(one, counts=False, reason=why)
        else:
            taken = True
    return [decided.get(one.ordinal, one) for one in group]


def _adds(claim: str, copies: str, headline: str) -> bool:
    """Return whether a claim beside copies of a headline has a run of terms more of it."""
    if not copies:
        return False
    return compare(f"{copies} {claim}", headline).common - compare(copies, headline).common >= RUN


def _canonical(one: JudgedCitation) -> tuple[int, str, int]:
    return _STANCES.index(one.cited.stance), one.cited.claim, one.ordinal


def _names(
    cited: CitedSignal, signal: Signal, question: BoardQuestion, others: Sequence[CitedSignal], board: Board
) -> bool:
    """Return whether a claim has a term or figure of its signal; one sentence for several tools has to name each."""
    alike = {one.signal for one in others if one.claim == cited.claim and one.signal != signal.label}
    rivals = [found for label in sorted(alike) if (found := board.signal(label)) and found.tool != signal.tool]
    return names_signal(cited.claim, signal, question, rivals) or (
        not rivals and has_one_of(cited.claim, signal, _labels(board))
    )


def _labels(board: Board) -> list[str]:
    return [*board.questions_by_label, *board.signals_by_label, *(s for one in board.questions for s in one.subjects)]


def _copied(score: float) -> str:
    return f"copied: {score:.2f} of the headline"


def _note(copying: Copying) -> str | None:
    return f"near the headline: {copying.score:.2f} of it" if copying.near else None
