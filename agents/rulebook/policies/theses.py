"""The thesis of a rule's report: from the market's base rate, by the gravest of the rule's findings."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from chordesk.agents.rulebook import thresholds as limits
from chordesk.agents.rulebook.cases import Case, Payload, clip, number
from chordesk.agents.rulebook.thresholds import Level
from chordesk.models.thesis import MOST_POINTS, Thesis

_WAYS = {Level.CALM: "up", Level.CAUTION: "none", Level.REJECT: "down"}
# The thesis of a report whose evidence decides nothing of the share.
UNDECIDED: Payload = Thesis().model_dump(mode="json", by_alias=True)


@dataclass(frozen=True, slots=True)
class Remark:
    """A finding as a thesis has it. tool: whose answer it stands in."""

    text: str
    level: Level
    tool: str


def thesis_of(
    case: Case,
    remarks: Sequence[Remark],
    level: Level,
    *,
    levels: Iterable[tuple[str, float]] = (),
    close: float | None = None,
    atr: float | None = None,
    catalysts: Sequence[Payload] = (),
) -> Payload:
    """Return the thesis of a report. level: the gravest of its findings. levels: (id, price) of those that may prove it
    wrong; atr: average true range, in which a level that is too near the close is told."""
    rate: Payload = next(iter(case.subject.get("baseRates") or ()), {})
    beat = number(rate, "beatMedian")
    probability = None if beat is None else round(_stepped(beat, limits.THESIS_STEPS[level]), 4)
    way = _WAYS[level] if probability is None else _way(probability)
    return {
        "direction": way,
        "horizon": rate.get("horizon"),
        "probability": probability,
        "move": number(rate, "move"),
        "moveLow": number(rate, "moveLow"),
        "moveHigh": number(rate, "moveHigh"),
        "entry": "at once" if way == "up" else None,
        "invalidation": _invalidation(way, levels, close, atr),
        "catalysts": list(catalysts),
        "pointsFor": _points(case, remarks, calm=True),
        "pointsAgainst": _points(case, remarks, calm=False),
        "change": "a figure above that reaches its threshold" if way == "up" else "its figures below their thresholds",
    }


def next_report(case: Case, day: object, tool: str) -> list[Payload]:
    """Return the next report as a catalyst of a thesis; nothing where its day is not known. tool: that has the day."""
    cite = case.cite(tool)
    return [{"event": "next report", "day": str(day), "source": cite}] if day and cite else []


def _way(probability: float) -> str:
    return "none" if probability == 0.5 else "up" if probability > 0.5 else "down"


def _stepped(probability: float, step: float) -> float:
    inside = min(max(probability, 0.01), 0.99)
    return 1 / (1 + math.exp(-math.log(inside / (1 - inside)) - step))


def _invalidation(
    way: str, levels: Iterable[tuple[str, float]], close: float | None, atr: float | None
) -> Payload | None:
    """Return the nearest level on the side where the thesis is wrong, an average true range or more from the close."""
    if close is None or way == "none":
        return None
    sign, least = (1 if way == "up" else -1), atr or 0.0
    beyond = [(sign * (close - price), id) for id, price in levels if sign * (close - price) > 0]
    far = [one for one in beyond if one[0] >= least] or beyond
    return {"level": min(far)[1], "event": None, "day": None} if far else None


def _points(case: Case, remarks: Sequence[Remark], *, calm: bool) -> list[Payload]:
    found = [one for one in remarks if (one.level is Level.CALM) == calm]
    cited = [(clip(one.text), case.cite(one.tool)) for one in found]
    return [{"text": text, "source": source} for text, source in cited if source is not None][:MOST_POINTS]
