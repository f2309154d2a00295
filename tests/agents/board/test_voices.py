"""The table of voices, and the setting that chooses among them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from chordesk.agents.board.voices import (
    BECAUSE_CHARS,
    CLAIM_CHARS,
    DESK,
    MOST_CITATIONS,
    VOICES,
    accept,
    owner_of,
    voice_of,
    voices_of,
)
from chordesk.agents.prompting import PROMPTS, instructions
from chordesk.agents.roles import ROLES, has_live_signal
from chordesk.models.board import VoiceForecast, VoiceOutput
from chordesk.models.errors import SettingError
from chordesk.models.settings import Settings
from tests.agents.board.kit import BOARD, cite, position


def test_each_voice_has_a_prompt_a_role_and_a_tool_of_its_own() -> None:
    assert len(VOICES) == 6
    assert len({voice.tool for voice in VOICES.values()}) == 6
    assert {voice.archetype for voice in VOICES.values()} == {
        "synthesizer", "witness", "challenger", "fixer", "idealist", "pragmatist"
    }  # fmt: skip
    for voice in VOICES.values():
        assert (PROMPTS / voice.prompt).is_file()
        assert ROLES[voice.role].tools == ()
        assert f"`{voice.tool}`" in instructions(ROLES[voice.role])
        assert (owner_of(voice.tool), voice_of(voice.role)) == (voice.key, voice.key)
    assert owner_of("momentum") == DESK


def test_the_settings_choose_the_voices() -> None:
    assert [voice.key for voice in voices_of(Settings())] == list(VOICES)
    assert [voice.key for voice in voices_of(Settings(voices="auditor, weaver"))] == ["weaver", "auditor"]
    with pytest.raises(SettingError, match=r"\(DESK_VOICES\) has 'oracle'.*choose among weaver, witness"):
        voices_of(Settings(voices="weaver,oracle"))


def test_a_voice_has_data_when_the_board_has_a_live_signal() -> None:
    rows = [{"state": "offline"}, {"state": "dormant"}]
    assert not has_live_signal({"signals": rows}, [])
    assert has_live_signal({"signals": [*rows, {"state": "live"}]}, [])


def output(*forecasts: VoiceForecast) -> VoiceOutput:
    return VoiceOutput(forecasts=list(forecasts))


def forecast(label: str = "Q1", **changes: object) -> VoiceForecast:
    return position([cite("funding-1")], label=label).forecast.model_copy(update=changes)


def test_a_plain_answer_is_taken_as_it_is() -> None:
    given_forecasts = forecast(), forecast("Q2")
    found = accept(output(*given_forecasts), BOARD)
    assert found.forecasts == given_forecasts
    assert found.notes == ()


def test_questions_that_the_board_does_not_ask_are_left_out_with_a_note() -> None:
    found = accept(output(forecast("Q7"), forecast("Q3"), forecast(""), forecast()), BOARD)
    assert [one.question for one in found.forecasts] == ["Q1"]
    assert found.notes == (
        "Q7: no question of this board; left out",
        "Q3: it has no baseline and is not forecast; left out",
        "a question without a label: no question of this board; left out",
    )


def test_the_first_of_two_forecasts_of_a_question_counts() -> None:
    found = accept(output(forecast(probability=0.9), forecast(probability=0.1)), BOARD)
    assert [one.probability for one in found.forecasts] == [0.9]
    assert found.notes == ("Q1: forecast twice; the first counts",)


def test_stakes_above_one_are_divided_by_their_sum() -> None:
    found = accept(output(forecast(stake=0.9), forecast("Q2", stake=0.6), forecast("Q7", stake=1.0)), BOARD)
    assert [one.stake for one in found.forecasts] == pytest.approx([0.6, 0.4])
    assert found.notes[-1] == "stakes of 1.50 together; divided by it"


def test_texts_are_cut_at_their_bounds_and_free_of_control_characters() -> None:
    long = forecast(
        because="a" * 9000,
        citations=[cite("funding-1", "\x00b\x1b" * 900)] * 50,
        chain=["funding-1"] * 99,
    )
    (found,) = accept(output(long), BOARD).forecasts
    assert len(found.because) == BECAUSE_CHARS
    assert len(found.citations) == MOST_CITATIONS
    assert set(found.citations[0].claim) == {"b"}
    assert len(found.citations[0].claim) <= CLAIM_CHARS
    assert len(found.chain) == 10
    assert len(accept(output(long), BOARD).notes) == 3


@pytest.mark.parametrize("probability", [1.4, -0.1, float("nan")])
def test_a_probability_beyond_its_range_never_reaches_the_board(probability: float) -> None:
    """The schema refuses it, and the turn is repaired."""
    with pytest.raises(ValidationError):
        VoiceForecast.model_validate(forecast().model_dump() | {"probability": probability})


@given(st.lists(st.tuples(st.sampled_from(["Q1", "Q2", "Q3", "Q9"]), st.floats(0, 1)), max_size=8))
def test_any_answer_leaves_each_question_once_and_stakes_within_one(given_stakes: list[tuple[str, float]]) -> None:
    found = accept(output(*(forecast(label, stake=stake) for label, stake in given_stakes)), BOARD).forecasts
    labels = [one.question for one in found]
    assert len(labels) == len(set(labels))
    assert set(labels) <= {"Q1", "Q2"}
    assert sum(one.stake for one in found) <= 1 + 1e-9
