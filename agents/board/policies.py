"""The policies of the board's voices: a fixed rule for each archetype, over the probabilities that signals imply."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from statistics import fmean

from chordesk.agents.board.voices import VOICES, Archetype, Voice
from chordesk.agents.rulebook.cases import PREFIX, Case, Payload, number, policy

_LIVE = "live"
_FAR = 0.02  # from the baseline; a forecast nearer to it says nothing
_LEAST, _MOST = 0.02, 0.98  # a rule is never surer


@dataclass(frozen=True, slots=True)
class ArchetypeRule:
    """Weights of one archetype, in log odds: of signals of its own tool and of others, and of the other voices' mean in
    round 2."""

    own: float
    others: float
    voices: float
    cites: int  # most signals
    stake: float  # of each unit of moved probability
    chains: bool = False  # whether it connects two tools
    against: float | None = None  # the weight of the strongest signal, where it is another's, in place of `others`


RULES: Mapping[Archetype, ArchetypeRule] = {
    "synthesizer": ArchetypeRule(own=0.6, others=0.5, voices=0.25, cites=4, stake=1.0, chains=True),
    "witness": ArchetypeRule(own=0.8, others=0.2, voices=0.0, cites=1, stake=0.5),
    "challenger": ArchetypeRule(own=0.6, others=0.3, voices=-0.25, cites=2, stake=0.8, against=-0.2),
    "fixer": ArchetypeRule(own=0.4, others=0.25, voices=0.25, cites=2, stake=0.4),
    "idealist": ArchetypeRule(own=0.5, others=0.4, voices=0.5, cites=3, stake=0.8),
    "pragmatist": ArchetypeRule(own=0.5, others=0.3, voices=-0.25, cites=3, stake=0.6, chains=True),
}
_CLAIM = {
    "build": "The {tool} tool leans to {side} here; the rule gives it {weight}.",
    "disagree": "The {tool} tool leans to {side} here, which the rule doubts.",
}


@dataclass(frozen=True, slots=True)
class Lean:
    """One signal on one question. odds: by how much it moves the log odds; weight: of it in the forecast."""

    signal: str
    tool: str
    odds: float
    weight: float


def forecast(case: Case, voice: Voice) -> Payload:
    """Return the answer of a voice: a forecast of each question on which a live signal implies a probability."""
    rule = RULES[voice.archetype]
    made = [_one(case, voice, rule, question) for question in _rows(case, "questions")]
    found = [one for one in made if one is not None]
    total = sum(one["stake"] for one in found)
    for one in found:
        one["stake"] = round(one["stake"] / max(total, 1.0), 4)
    return {"forecasts": found}


def _one(case: Case, voice: Voice, rule: ArchetypeRule, question: Payload) -> Payload | None:
    baseline, label = number(question, "baseline"), str(question.get("id"))
    leans = _leans(case, voice, rule, question, baseline) if baseline is not None else []
    if baseline is None or not leans:
        return None
    odds = _odds(baseline) + sum(lean.weight * lean.odds for lean in leans)
    odds += rule.voices * (_others(case, voice, label, odds) - odds)
    probability = min(max(1 / (1 + math.exp(-odds)), _LEAST), _MOST)
    moved = probability - baseline
    cited = sorted(leans, key=lambda lean: (-abs(lean.weight * lean.odds), lean.signal))[: rule.cites]
    return {
        "question": label,
        "probability": round(probability, 4),
        "stake": rule.stake * abs(moved),
        "because": _because(leans, moved),
        "change": "the strongest of its signals turns round",
        "citations": [_citation(lean) for lean in cited],
        "chain": _chain(cited, moved) if rule.chains else [],
    }


def _leans(case: Case, voice: Voice, rule: ArchetypeRule, question: Payload, baseline: float) -> list[Lean]:
    """Return the live signals that imply a probability for a question, the strongest first."""
    about = {str(question.get("id")), *map(str, question.get("about") or [])}
    found = []
    for row in _rows(case, "signals"):
        moved, stands = number(row, "shift"), number(row, "probability")
        if moved is None and stands is not None:
            moved = _odds(stands) - _odds(baseline)
        subjects = set(map(str, row.get("about") or []))
        if row.get("state") == _LIVE and moved is not None and (not subjects or subjects & about):
            weight = rule.own if row.get("tool") == voice.tool else rule.others
            found.append(Lean(str(row.get("id")), str(row.get("tool")), moved, weight))
    found.sort(key=lambda lean: (-abs(lean.odds), lean.signal))
    if found and rule.against is not None and found[0].tool != voice.tool:
        first = found[0]
        found[0] = Lean(first.signal, first.tool, first.odds, rule.against)
    return found


def _others(case: Case, voice: Voice, label: str, alone: float) -> float:
    rows = [row for row in _rows(case, "positions") if row.get("question") == label and row.get("voice") != voice.key]
    odds = [_odds(stands) for row in rows if (stands := number(row, "probability")) is not None]
    return fmean(odds) if odds else alone


def _because(leans: Sequence[Lean], moved: float) -> str:
    up, down = (sum(lean.odds > 0 for lean in leans), sum(lean.odds < 0 for lean in leans))
    way = "stays near the baseline" if abs(moved) < _FAR else "leans to YES" if moved > 0 else "leans to NO"
    return f"{PREFIX} of the signals {_count(up)} lean to YES and {_count(down)} to NO; the forecast {way}."


def _count(how_many: int) -> str:
    """Return a count in letters: a figure of a text must stand in a signal."""
    names = ("none", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
    return names[how_many] if how_many < len(names) else "many"


def _citation(lean: Lean) -> Payload:
    stance = "build" if lean.weight >= 0 else "disagree"
    weight = "full weight" if lean.weight >= 0.5 else "some weight"
    side = "YES" if lean.odds >= 0 else "NO"
    claim = _CLAIM[stance].format(tool=lean.tool, side=side, weight=weight)
    return {"signal": lean.signal, "stance": stance, "claim": claim}


def _chain(cited: Sequence[Lean], moved: float) -> list[str]:
    """Return the two strongest cited signals of different tools that carry the forecast's direction, if it has one."""
    carrying = [lean for lean in cited if lean.weight > 0 and lean.odds * moved > 0]
    tools = dict.fromkeys(lean.tool for lean in carrying)
    if abs(moved) < _FAR or len(tools) < 2:
        return []
    return [next(lean.signal for lean in carrying if lean.tool == tool) for tool in list(tools)[:2]]


def _odds(probability: float) -> float:
    clipped = min(max(probability, _LEAST), _MOST)
    return math.log(clipped / (1 - clipped))


def _rows(case: Case, key: str) -> list[Payload]:
    found = case.subject.get(key)
    return [row for row in found if isinstance(row, dict)] if isinstance(found, list) else []


for _voice in VOICES.values():
    policy(_voice.role)(partial(forecast, voice=_voice))
