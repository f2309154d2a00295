"""Compute follows skill: the plans of voices from records, and from the database."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from sqlmodel import Session

from chordesk.models.settings import Settings
from chordesk.tools.scoring.track_records import VoicePlan, plan_voices, tiers_of, voice_plans
from chordesk.tools.scoring.voices import VoiceRecord
from tests.tools.scoring.records.board import a_forecast, a_question, a_run_on, on_day
from tests.tools.scoring.test_compute import record

VOICES = ("ada", "bo", "cy", "di")
GOOD, BAD = record("ada", 0.05, 0.01), record("bo", -0.05, 0.01)
UNKNOWN = (VoiceRecord("cy"), VoiceRecord("di"))


def settings(**values: Any) -> Settings:
    return Settings(home=Path("/nowhere"), **values)


def test_without_a_record_all_are_alike() -> None:
    plans = plan_voices([VoiceRecord(voice) for voice in VOICES], settings(), 2)
    assert plans == dict.fromkeys(VOICES, VoicePlan(pytest.approx(0.25), 2, 2, "standard"))


def test_a_proven_voice_goes_deeper_and_a_costly_one_is_left_out() -> None:
    """Three live on: shares 2/3, 1/6 and 1/6 of six turns are 4, 1 and 1."""
    plans = plan_voices([GOOD, BAD, *UNKNOWN], settings(), 2)
    assert list(plans) == ["ada", "cy", "di"]
    assert plans["ada"] == VoicePlan(pytest.approx(2 / 3), 4, 2, "deep")
    assert plans["cy"] == plans["di"] == VoicePlan(pytest.approx(1 / 6), 1, 1, "standard")


def test_both_can_be_switched_off() -> None:
    records = [GOOD, BAD, *UNKNOWN]
    equal = plan_voices(records, settings(voice_compute="equal", voice_extinction=False), 2)
    assert equal == dict.fromkeys(VOICES, VoicePlan(pytest.approx(0.25), 2, 2, "standard"))
    without_extinction = plan_voices(records, settings(voice_extinction=False), 2)
    assert list(without_extinction) == list(VOICES)
    assert without_extinction["ada"].depth == "deep"
    without_skill = plan_voices(records, settings(voice_compute="equal"), 2)
    assert {plan.turns for plan in without_skill.values()} == {2}
    assert "bo" not in without_skill


@pytest.mark.parametrize(("depth", "best"), [("quick", "standard"), ("standard", "deep"), ("deep", "deep")])
def test_the_depth_starts_from_the_setting(depth: str, best: str) -> None:
    plans = plan_voices([GOOD, *UNKNOWN], settings(depth=depth), 2)
    assert (plans["ada"].depth, plans["cy"].depth) == (best, depth)


def test_models_go_by_the_rank_of_the_shares() -> None:
    """The first tier for the largest share; those that are equal share the one in the middle of their ranks."""
    one_ahead = {"ada": 0.6, "bo": 0.1, "cy": 0.1, "di": 0.1, "ed": 0.1}
    assert tiers_of(one_ahead, 3) == {"ada": 0, **dict.fromkeys(("bo", "cy", "di", "ed"), 1)}
    assert tiers_of({"ada": 0.5, "bo": 0.3, "cy": 0.2}, 3) == {"ada": 0, "bo": 1, "cy": 2}
    assert tiers_of(dict.fromkeys(VOICES, 0.25), 3) == dict.fromkeys(VOICES, 1)
    assert tiers_of(dict.fromkeys(VOICES, 0.25), 1) == dict.fromkeys(VOICES, 0)
    assert tiers_of({"ada": 1.0}, 0) == {"ada": None}


def test_plans_name_the_tier_where_there_are_models_of_voices() -> None:
    plans = plan_voices([GOOD, *UNKNOWN], settings(voice_models="codex:big; codex:small;"), 2)
    assert {voice: plan.tier for voice, plan in plans.items()} == {"ada": 0, "cy": 1, "di": 1}


def test_plans_come_from_what_was_known_on_the_day(session: Session) -> None:
    """Ada is right on 12 days and wrong on none: a proven record from the day on which they closed."""
    for day in range(12):
        run, question = a_run_on(session, day), a_question(session, f"q{day}", 1.0, day)
        a_forecast(session, run, question, "ada", 0.8 + day / 100)
        a_forecast(session, run, question, "bo", 0.5)
    early = voice_plans(session, settings(), "paper", ("ada", "bo", "cy"), until=on_day(11))
    later = voice_plans(session, settings(), "paper", ("ada", "bo", "cy"), until=on_day(40))
    assert [plan.turns for plan in early.values()] == [2, 2, 2]
    assert {voice: plan.turns for voice, plan in later.items()} == {"ada": 4, "bo": 1, "cy": 1}
    off = voice_plans(session, settings(voice_compute="equal"), "paper", ("ada", "bo", "cy"), until=on_day(40))
    assert [plan.turns for plan in off.values()] == [2, 2, 2]
