"""The rules of the board's voices: what they forecast, cite and connect."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chordesk.agents.board.citations import judge
from chordesk.agents.board.policies import RULES, forecast
from chordesk.agents.board.voices import VOICES, accept
from chordesk.agents.rulebook.cases import Case
from chordesk.models.board.forecasts import VoiceOutput
from chordesk.models.questions import VoicePosition, implied, log_odds
from tests.agents.board.kit import BOARD, SIGNALS


def signal(name: str, leans: float | None, state: str = "live", about: tuple[str, ...] = ("IBM",)) -> dict[str, Any]:
    """leans: what it makes of even odds."""
    moved = None if leans is None else log_odds(leans)
    tool = name.rpartition("-")[0]
    return {"id": name, "tool": tool, "owner": "desk", "state": state, "shift": moved, "about": list(about)}


def answer(voice: str, signals: list[dict[str, Any]], *positions: dict[str, Any], baseline: Any = 0.5) -> VoiceOutput:
    questions = [{"id": "Q1", "about": ["IBM"], "baseline": baseline}]
    subject = {"questions": questions, "signals": signals, "positions": list(positions)}
    case = Case(VOICES[voice].role, subject, frozenset(), ())
    return VoiceOutput.model_validate(forecast(case, VOICES[voice]))


def only(output: VoiceOutput) -> Any:
    (found,) = output.forecasts
    return found


@pytest.mark.parametrize("voice", VOICES)
def test_without_a_live_signal_on_it_a_question_is_not_forecast(voice: str) -> None:
    quiet = [signal("momentum-1", 0.8, "offline"), signal("events-1", None), signal("volatility-1", 0.7, about=("GE",))]
    assert answer(voice, quiet).forecasts == []
    assert answer(voice, [signal("momentum-1", 0.8)], baseline=None).forecasts == []


@given(
    st.sampled_from(sorted(VOICES)),
    st.lists(st.floats(0.01, 0.99), min_size=1, max_size=8),
    st.floats(0, 1),
    st.lists(st.floats(0, 1), max_size=5),
)
def test_every_answer_fits_the_schema_and_stakes_are_at_most_one(
    voice: str, leanings: list[float], baseline: float, others: list[float]
) -> None:
    signals = [signal(f"momentum-{place}", value) for place, value in enumerate(leanings)]
    rows = [{"voice": f"v{place}", "question": "Q1", "probability": value} for place, value in enumerate(others)]
    output = answer(voice, signals, *rows, baseline=baseline)
    assert sum(one.stake for one in output.forecasts) <= 1.0001
    assert len(only(output).citations) <= RULES[VOICES[voice].archetype].cites


@pytest.mark.parametrize("voice", VOICES)
def test_every_citation_of_a_rule_counts(voice: str) -> None:
    leaning = [(one, chance) for one in SIGNALS if (chance := implied(one, 0.5)) is not None]
    rows = [signal(f"{one.tool}-1", chance, about=one.subjects) for one, chance in leaning]
    subject = {"questions": [{"id": "Q1", "about": ["BTC"], "baseline": 0.5}], "signals": rows, "positions": []}
    given_answer = forecast(Case(VOICES[voice].role, subject, frozenset(), ()), VOICES[voice])
    (made,) = accept(VoiceOutput.model_validate(given_answer), BOARD).forecasts
    found = judge(VoicePosition(voice=voice, round=1, forecast=made), BOARD)
    assert found
    assert [one.reason for one in found if not one.counts] == []
