"""What all subjects of a role have alike comes before what is of one: a provider that keeps prompts reads it once."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import takewhile
from typing import Any

import orjson
import pytest

from chordesk.agents.prompting import render
from chordesk.agents.roles import ROLES, Role
from chordesk.agents.subjects import (
    AnalystSubject,
    ScreenerSubject,
    SynthesisSubject,
    Thesis,
    TraderSubject,
    VoiceSubject,
    analyst_subject,
    screener_subject,
    synthesis_subject,
    trader_subject,
    validator_subject,
    voice_subject,
)
from chordesk.models.board import VoiceForecast, VoicePosition
from chordesk.models.settings import Settings

SETTINGS = Settings()
CAPITAL = 80_000.0


def subject(role: Role, one: str) -> dict[str, Any]:
    """A subject of a run; `one` is in all that is its own. Of a voice, a round is."""
    if role.subject is ScreenerSubject:
        return dict(screener_subject("technical", len(one), [one], SETTINGS, CAPITAL))
    if role.subject is SynthesisSubject:
        return dict(synthesis_subject(one, "csp", {"reasons": [one]}, SETTINGS, CAPITAL))
    if role.subject is VoiceSubject:
        forecast = VoiceForecast(question="Q1", probability=0.6, stake=0.2, because=one, chain=[], citations=[])
        position = VoicePosition(voice="weaver", round=1, forecast=forecast)
        return dict(voice_subject(role.key, len(one), "the board", [], [], SETTINGS, [position], "the record"))
    if role.subject is TraderSubject:
        portfolio = {"cash": 90_000.0, "buyingPower": CAPITAL, "positions": [{"symbol": one}]}
        return dict(trader_subject("paper", [], portfolio, SETTINGS, {one: [one]}))
    found = validator_subject(one, "equity", [Thesis(lens=one, confidence="high", thesis=one)], SETTINGS, CAPITAL)
    return {**(analyst_subject(found, SETTINGS) if role.subject is AnalystSubject else found), "memory": one}


@pytest.mark.parametrize("role", [pytest.param(role, id=key) for key, role in ROLES.items()])
def test_two_subjects_of_a_role_are_the_same_up_to_what_is_their_own(role: Role) -> None:
    one, other = subject(role, "AA"), subject(role, "BBB")
    alike = alike_first(one, other)
    prompts = [render(role, given, SETTINGS) for given in (one, other)]
    assert prompts[0].base_instructions == prompts[1].base_instructions
    assert "constraints" in alike
    assert orjson.dumps(alike).decode().removesuffix("}") in shared(*(prompt.user for prompt in prompts))


def alike_first(one: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    """Return what two subjects have alike, having asserted that nothing of one subject comes before any of it."""
    assert list(one) == list(other)
    alike = [one[name] == other[name] for name in one]
    assert alike == sorted(alike, reverse=True), list(one)
    return {name: one[name] for name, same in zip(one, alike, strict=True) if same}


@pytest.mark.parametrize("role", [pytest.param(role, id=key) for key, role in ROLES.items() if role.keeps_thread])
def test_what_a_new_thread_is_told_comes_after_the_constraints(role: Role) -> None:
    given = {**subject(role, "AA"), "memory": "before"}
    texts = [render(role, given, SETTINGS, afresh=afresh).user for afresh in (False, True)]
    assert "- Market: replay." in shared(*texts)


def shared(one: str, other: str) -> str:
    """Return what two texts begin with."""
    return "".join(mine for mine, _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))
