"""Compute follows skill in an episode: rounds, depth and model of each voice."""

from __future__ import annotations

from collections import Counter

from chordesk.agents.board.voices import VOICES
from chordesk.models.tables.board import Forecast
from chordesk.models.tables.runs import Run, Step, Turn
from tests.tasks.workflows.episode.kit import Floor, VoiceModel, all_at, floor
from tests.tools.scoring.rows import a_forecast, a_question, a_run_on

TIERS = "codex:gpt-5.6-sol:high;codex:gpt-5.5"


def proven(made: Floor, voice: str) -> None:
    """Give a voice 40 days on which it was right, all of them known before the replay's day."""
    with made.store.session() as session:
        for nth in range(40):
            run, question = a_run_on(session, 3 * nth), a_question(session, f"proven {nth}", 1.0, 3 * nth)
            a_forecast(session, run, question, voice, 0.8 + nth / 1000)


def turns(made: Floor, run: Run) -> Counter[tuple[str, str]]:
    """The number of turns by voice and model."""
    return Counter((row.role.removeprefix("voice_"), row.model) for row in made.rows(Turn, run.id))


def test_a_proven_voice_has_both_rounds_more_depth_and_the_first_model_and_the_others_one_turn() -> None:
    with floor(VoiceModel(all_at(0.6)), DESK_VOICE_MODELS=TIERS) as made:
        equal = made.held(("AAPL",))
        proven(made, "weaver")
        skilled = made.held(("AAPL",))
        assert turns(made, equal) == {(voice, "endpoint:gpt-5.6-sol"): 2 for voice in VOICES}, "the middle of 6 ranks"
        others = {(voice, "endpoint:gpt-5.5"): 1 for voice in VOICES if voice != "weaver"}
        assert turns(made, skilled) == {("weaver", "endpoint:gpt-5.6-sol"): 2, **others}
        steps = [step for step in made.rows(Step, skilled.id) if step.kind == "voice"]
        assert {step.role: step.payload["depth"] for step in steps} == {
            voice.role: "deep" if voice.key == "weaver" else "standard" for voice in VOICES.values()
        }
        rounds = {(row.voice, row.round, row.author) for row in made.rows(Forecast, skilled.id)}
        assert {(voice, number) for voice, number, _ in rounds} == {
            *((voice, 1) for voice in VOICES), ("weaver", 2),
        }  # fmt: skip
        assert {author for voice, _, author in rounds if voice == "weaver"} == {"endpoint:gpt-5.6-sol"}
