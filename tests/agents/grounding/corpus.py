"""The fixed corpora: sentences on real tool answers with their figures marked, and figures invented in their place.

A corpus is a file of sentences in tests/golden/grounding; each names the file of tool answers that it is on, and has
the offsets of its figures.
"""

from __future__ import annotations

import datetime as dt
import json
import random
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any

from chordesk.agents.grounding import ground
from chordesk.agents.grounding.report import KEPT
from chordesk.models.answers import Grounding

FOLDER = Path(__file__).parents[2] / "golden" / "grounding"
_NUMBER = re.compile(r"\d[\d,]*(?:\.\d+)?")
_TERMS = ("two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")
_MONTHS = [dt.date(2010, month, 1).strftime("%B") for month in range(1, 13)]
_DATE = re.compile(rf"(\d{{1,2}}) ({'|'.join(_MONTHS)})|({'|'.join(m[:3] for m in _MONTHS)}) (\d{{1,2}})")
INVENTED_SHARE = 0.1
TEXTS_OF_A_REPORT = 20


@dataclass(frozen=True, slots=True)
class MarkedSentence:
    """One sentence. figures: offsets of its figures; invented: those of them that are made up."""

    answers: str
    text: str
    figures: Sequence[tuple[int, int]]
    invented: frozenset[int] = frozenset()


@dataclass(slots=True)
class Rates:
    """Counts of a whole corpus. flagged: invented figures found unsupported; false: figures found so in sentences that
    have no invented one (what is derived from an invented figure has no source either)."""

    invented: int = 0
    flagged: int = 0
    true: int = 0
    false: int = 0

    @property
    def caught(self) -> float:
        return self.flagged / self.invented

    @property
    def alarms(self) -> float:
        return self.false / self.true


def sentences(name: str) -> list[MarkedSentence]:
    rows = [json.loads(line) for line in (FOLDER / name).read_text(encoding="utf-8").splitlines()]
    return [MarkedSentence(row["answers"], row["text"], [(a, b) for a, b in row["figures"]]) for row in rows]


@cache
def answers(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((FOLDER / "answers" / f"{name}.json").read_text(encoding="utf-8"))
    return found


def grounded(answered: str, *texts: str) -> Grounding:
    """Return the grounding of texts, each named by its ordinal, on a file of tool answers."""
    given = answers(answered)
    calls = [(call["tool"], call["arguments"], call["answer"]) for call in given["calls"]]
    return ground({str(at): text for at, text in enumerate(texts)}, calls, given["question"])


def with_inventions(marked: Sequence[MarkedSentence], seed: int) -> list[MarkedSentence]:
    """Return the sentences with one figure in ten, by lot, replaced by an invented one of its size and format."""
    lot = random.Random(seed)
    places = [(at, place) for at, row in enumerate(marked) for place in range(len(row.figures))]
    chosen = set(lot.sample(places, round(len(places) * INVENTED_SHARE)))
    return [_replaced(row, frozenset(p for a, p in chosen if a == at), lot) for at, row in enumerate(marked)]


def _replaced(row: MarkedSentence, chosen: frozenset[int], lot: random.Random) -> MarkedSentence:
    text, figures, last = "", [], 0
    for place, (start, end) in enumerate(row.figures):
        text += row.text[last:start]
        figure = row.text[start:end]
        new = invented(figure, lot) if place in chosen else figure
        figures.append((len(text), len(text) + len(new)))
        text, last = text + new, end
    return MarkedSentence(row.answers, text + row.text[last:], figures, chosen)


def invented(figure: str, lot: random.Random) -> str:
    """Return another figure of the same format: 5 to 30 per cent away, and by three of its last digit or more; a small
    count one to three away, a date two to twenty days."""
    lower = figure.lower()
    if lower in _TERMS:
        other = lot.choice([term for term in _TERMS[:6] if term != lower])
        return other.capitalize() if figure[0].isupper() else other
    if re.fullmatch(r"\d{4}-\d\d-\d\d", figure):
        return str(dt.date.fromisoformat(figure) + dt.timedelta(days=lot.choice((-1, 1)) * lot.randint(2, 20)))
    dated = _DATE.fullmatch(figure)
    if dated:
        name = dated[2] or dated[3]
        month = next(at for at, long in enumerate(_MONTHS, start=1) if long.startswith(name))
        day = dt.date(2010, month, int(dated[1] or dated[4]))
        day += dt.timedelta(days=lot.choice((-1, 1)) * lot.randint(2, 20))
        return f"{day.day} {day:%B}" if dated[1] else f"{day:%b} {day.day}"
    found = _NUMBER.search(figure)
    assert found is not None, figure
    digits = found[0].replace(",", "")
    decimals = len(digits.partition(".")[2])
    value, step = float(digits), 10.0**-decimals
    while True:
        if value <= 12 and not decimals:
            other_value = value + lot.choice((-3, -2, -1, 1, 2, 3))
        else:
            other_value = value * (1 + lot.choice((-1, 1)) * lot.uniform(0.05, 0.3))
            other_value += lot.choice((-1, 1)) * 3 * step if abs(other_value - value) < 3 * step else 0.0
        shown = f"{other_value:,.{decimals}f}" if "," in found[0] else f"{other_value:.{decimals}f}"
        if other_value > 0 and shown != found[0]:
            return figure[: found.start()] + shown + figure[found.end() :]


def rates(marked: Sequence[MarkedSentence], misses: list[str] | None = None) -> Rates:
    """Return the counts of a corpus. misses: gets a line for each figure that was judged wrongly."""
    return _counted(_grounded(marked), misses)


def rates_of_samples(samples: Sequence[Sequence[MarkedSentence]]) -> list[Rates]:
    """Return the counts of each sample."""
    found = iter(_grounded([row for sample in samples for row in sample]))
    return [_counted(list(islice(found, len(sample)))) for sample in samples]


def _counted(judged: Sequence[tuple[MarkedSentence, list[tuple[int, int]]]], misses: list[str] | None = None) -> Rates:
    total = Rates()
    for row, unsupported in judged:
        for place, (start, end) in enumerate(row.figures):
            flagged = any(a < end and start < b for a, b in unsupported)
            made_up = place in row.invented
            total.invented += made_up
            total.flagged += made_up and flagged
            if not row.invented:
                total.true += 1
                total.false += flagged
            if misses is not None and flagged is not made_up:
                name = "missed" if made_up else "false alarm"
                misses.append(f"{name} {row.text[start:end]!r} in: {row.text} ({row.answers})")
        marks = row.figures
        if row.invented:
            continue
        extra = [one for one in unsupported if not any(one[0] < end and start < one[1] for start, end in marks)]
        total.false += len(extra)
        total.true += len(extra)
        if misses is not None:
            misses += [f"no figure {row.text[a:b]!r} in: {row.text}" for a, b in extra]
    return total


def _grounded(marked: Sequence[MarkedSentence]) -> list[tuple[MarkedSentence, list[tuple[int, int]]]]:
    """Return each sentence with the offsets of its unsupported figures.

    Sentences on the same answers are texts of one report, which are judged as those of a report each: the index of the
    answers is most of the work, and a report has one.
    """
    on: dict[str, list[int]] = {}
    for at, row in enumerate(marked):
        on.setdefault(row.answers, []).append(at)
    judged: dict[int, list[tuple[int, int]]] = {}
    for answered, ordinals in on.items():
        for first in range(0, len(ordinals), TEXTS_OF_A_REPORT):
            some = ordinals[first : first + TEXTS_OF_A_REPORT]
            found = grounded(answered, *(marked[at].text for at in some))
            assert found.figures <= KEPT, "a report keeps no more of them"
            for name, at in enumerate(some):
                judged[at] = [(one.start, one.end) for one in found.unsupported if one.text == str(name)]
    return [(row, judged[at]) for at, row in enumerate(marked)]
