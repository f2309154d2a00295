"""The table of voices, and the setting that chooses among them."""

from __future__ import annotations

import pytest

from chordesk.agents.board.voices import DESK, VOICES, owner_of, voice_of, voices_of
from chordesk.agents.prompting import PROMPTS, instructions
from chordesk.agents.roles import ROLES, has_live_signal
from chordesk.models.errors import SettingError
from chordesk.models.settings import Settings


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
