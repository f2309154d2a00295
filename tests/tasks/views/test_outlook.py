"""What a run on local models takes: turns, tokens and time, at the measured speed and never an invented one."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import pytest
from sqlmodel import Session

from chordesk.agents.gateway.facts import ServerFacts, keep_facts
from chordesk.agents.prompting import CALLS, SMALLEST_ANSWER, SYMBOL_DATA, smallest_tokens
from chordesk.agents.roles import ROLES
from chordesk.models.database.store import Store
from chordesk.models.settings import Settings
from chordesk.tasks.cli.show import amount_text
from chordesk.tasks.engine.kinds import turns_of
from chordesk.tasks.reading.outlook import (
    ASSUMED_WRITTEN,
    TurnTokens,
    assumed_tokens,
    local_times,
    outlook,
    past_tokens,
    seconds_of,
    spending,
)
from chordesk.tasks.workflows.screen import screen_params, smaller
from tests.builders import a_run, a_step, a_turn
from tests.parts import needs

URL = "http://127.0.0.1:11434/v1"
MODEL, LABEL = "qwen3:8b", "local:qwen3:8b"
SYMBOLS = [f"S{number}" for number in range(262)]


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(home=tmp_path, provider="local", provider_url=URL, model=MODEL)


def known(settings: Settings, model: str = MODEL, **values: Any) -> None:
    asked = dt.datetime(2026, 11, 24, 9, tzinfo=dt.UTC)
    facts = {"read_speed": 300.0, "write_speed": 25.0, "slots": 1, "context": 65_536, **values}
    keep_facts(settings.home, ServerFacts(url=URL, server="ollama", version="1", model=model, asked_at=asked, **facts))


def test_the_time_is_what_is_read_and_written_at_the_measured_speed(settings: Settings) -> None:
    known(settings)
    past = {(LABEL, "quick"): TurnTokens(3_000, 500), ("codex:gpt-5.5", "risk"): TurnTokens(6_000, 1_000)}
    past["codex:gpt-5.5", "quick"] = TurnTokens(9, 9)  # its own turns say more than those of others
    (found,) = local_times(settings, {"quick": 6, "risk": 3}, past)
    assert (found.read, found.written, found.turns, found.at_once) == (36_000, 6_000, 9, 1)
    assert found.seconds == 36_000 / 300 + 6_000 / 25 == 360.0
    assert amount_text.times([found]) == [
        "local:qwen3:8b: about 6 min for at most 9 turns "
        "(1 at once, 25 tokens/s written, 300 read; measured 2026-11-24)"
    ]
    known(settings, slots=4)
    (found,) = local_times(settings, {"quick": 6, "risk": 3}, past)
    assert (found.at_once, found.seconds) == (4, 90.0)
    (found,) = local_times(settings.model_copy(update={"model_turns": 2}), {"quick": 6, "risk": 3}, past)
    assert (found.at_once, found.seconds) == (2, 180.0)


def test_a_speed_that_was_not_measured_is_unknown(settings: Settings) -> None:
    past = {(LABEL, "quick"): TurnTokens(3_000, 500)}
    asked = "its context is not known, and prompts are not fitted to it; `desk doctor` asks the server"
    why = "its speed was not measured; `desk doctor` does it"
    for asked_before in (False, True):
        if asked_before:
            known(settings, write_speed=None, context=None)
        (found,) = local_times(settings, {"quick": 2}, past)
        assert (found.seconds, found.measured, seconds_of([found])) == (None, None, None)
        assert amount_text.times([found]) == [
            f"local:qwen3:8b: time unknown for at most 2 turns (1 at once): {why}",
            f"local:qwen3:8b: {asked}",
        ]


def test_what_is_not_known_of_a_role_is_assumed_and_said_to_be(settings: Settings) -> None:
    known(settings)
    quick, lens = ROLES["quick"], ROLES["screener_technical"]
    least = smallest_tokens(quick, settings) - SMALLEST_ANSWER
    assert assumed_tokens(quick, settings) == TurnTokens(least, ASSUMED_WRITTEN)
    prompt = smallest_tokens(lens, settings) - SMALLEST_ANSWER - CALLS
    assert assumed_tokens(lens, settings) == TurnTokens(prompt + 131 * SYMBOL_DATA, ASSUMED_WRITTEN)
    (found,) = local_times(settings, {"quick": 1, "risk": 1}, {(LABEL, "risk"): TurnTokens(1, 1)})
    assert found.assumed == ["quick"]
    assert amount_text.times([found])[0].endswith(
        "; tokens are assumed, without reasoning, for roles that have had no turn: quick"
    )


def test_models_of_one_server_are_added_up_and_others_are_left_out(settings: Settings) -> None:
    known(settings)
    known(settings, "gemma3:4b", read_speed=600.0, write_speed=50.0)
    both = settings.model_copy(update={"role_models": "risk=local:gemma3:4b;trader=codex:gpt-5.5"})
    past = {("x", role): TurnTokens(3_000, 250) for role in ("quick", "risk")}
    found = local_times(both, {"quick": 1, "risk": 1, "trader": 1}, past)
    assert [(one.model, one.seconds) for one in found] == [(LABEL, 20.0), ("local:gemma3:4b", 10.0)]
    assert seconds_of(found) == 30.0
    assert local_times(Settings(home=settings.home), {"quick": 1}, past) == []


def test_a_forecast_is_the_most_turns_at_the_medians_of_earlier_ones(store: Store, settings: Settings) -> None:
    with store.session() as session:
        step = a_step(session, a_run(session))
        for read, written in ((1_000, 10), (3_000, 30), (90_000, 900)):
            tokens = {"input_tokens": read, "cached_input_tokens": read // 2, "output_tokens": written}
            a_turn(session, step, role="quick", provider="codex", model="codex:gpt-5.5", outcome="completed", **tokens)
    asked = Settings(home=settings.home, provider="codex", model="gpt-5.5")
    with store.session() as session:
        planned = a_run(session, kind="research", params={"symbols": ["A", "B"], "roles": ["quick", "risk"]})
        found = spending(session, asked, planned)
        other = spending(session, asked.model_copy(update={"model": "new"}), planned)
        rules = spending(session, asked.model_copy(update={"provider": "rulebook"}), planned)
    assert (found.turns, found.unknown, found.lacking) == (4, 2, {"codex:gpt-5.5": ["risk"]})
    assert (found.tokens, found.earlier) == (2 * 3_030, 3)
    assert found.cost.usd == pytest.approx(2 * (1_500 * 5e-6 + 1_500 * 0.5e-6 + 30 * 30e-6))
    assert found.said == (
        "at most 4 turns; about 6,060 tokens, paid by the plan of the login, over the API about 0.0183 USD "
        "(medians of 3 earlier turns); unknown for 2: no earlier turn of codex:gpt-5.5 as risk; "
        "the Codex login: unknown whether its plan has room, it has not told its windows"
    )
    assert (other.tokens, other.earlier, other.cost.usd, other.unknown) == (0, 0, None, 4)  # of no other model
    assert (rules.rules, rules.asks_models) == (4, False)


def test_turns_of_each_kind_of_run(settings: Settings) -> None:
    screened = screen_params(settings, SYMBOLS)
    lenses = {f"screener_{lens}": 2 for lens in settings.lenses}
    roles = dict.fromkeys(("quick", "fundamentals", "risk", "catalyst"), 20)
    assert turns_of("screen", screened, settings) == {**lenses, **roles, "trader": 1}
    assert turns_of("screen", screened, settings, held=3)["quick"] == 23
    assert turns_of("research", {"symbols": ["A", "B"], "roles": ["quick", "risk"]}, settings) == {
        "quick": 2,
        "risk": 2,
    }
    due = {"symbols": ["A", "B"], "roles": ["quick", "risk"], "portfolio": [{"due": [{"role": "risk"}]}, {"due": []}]}
    assert turns_of("research", due, settings) == {"risk": 1}
    analysed = {"symbols": ["A", "B"], "roles": ["chart"], "depth": "standard"}
    assert turns_of("analyze", analysed, settings) == {"chart": 2, "synthesis": 2}
    assert turns_of("analyze", {**analysed, "depth": "quick"}, settings) == {"chart": 2}
    assert turns_of("trade", {}, settings) == {"trader": 1}
    assert turns_of("flatten", {}, settings) == {}


@needs("board")
def test_turns_of_voices(settings: Settings) -> None:
    rounds = settings.model_copy(update={"rounds": 2, "voices": ("weaver",)})
    assert turns_of("screen", screen_params(settings, SYMBOLS), rounds)["voice_weaver"] == 2
    assert len(turns_of("episode", {"rounds": 2}, settings)) == 6


@needs("measure")
def test_turns_of_a_backtest(settings: Settings) -> None:
    days = {"days": ["2010-08-11", "2010-08-12"], "symbols": SYMBOLS}
    assert turns_of("backtest", days, settings)["quick"] == 40


def test_a_small_context_makes_more_and_smaller_turns_of_a_screen(settings: Settings) -> None:
    known(settings, context=8_192)
    turns = turns_of("screen", screen_params(settings, SYMBOLS), settings)
    assert turns["screener_technical"] >= 20
    (found,) = local_times(settings, turns, {})
    assert found.symbols is not None
    assert -(-262 // found.symbols) >= turns["screener_technical"]
    assert (
        f"{found.symbols} symbols a screener's turn, for its context has 8,192 tokens" in amount_text.times([found])[1]
    )
    (note, *_) = smaller(settings.lenses, settings)
    assert "symbols a turn in place of 131 (DESK_SHARD_SIZE), for the context of local:qwen3:8b has no room" in note
    known(settings)
    assert smaller(settings.lenses, settings) == []


def test_a_run_that_takes_longer_than_it_may_says_what_to_set(session: Session, settings: Settings) -> None:
    known(settings)
    params = {"symbols": SYMBOLS[:10], "roles": ["quick", "risk"]}
    run = a_run(session, kind="research", params=params)
    run.deadline_at = run.created_at + dt.timedelta(minutes=60)
    step = a_step(session, run, role="quick")
    for role, read, cached, written in (
        ("quick", 3_000, 0, 2_000),
        ("quick", 4_000, 1_000, 9_000),
        ("quick", 90_000, 0, 2_500),
        ("risk", 30_000, 0, 5_000),
    ):
        a_turn(
            session, step, role=role, provider="local", model=LABEL, outcome="completed", input_tokens=read,
            cached_input_tokens=cached, output_tokens=written,
        )  # fmt: skip
    a_turn(session, step, role="risk", provider="local", model=LABEL, outcome="failed", input_tokens=1, output_tokens=1)
    a_turn(session, step, role="risk", provider="rulebook", outcome="completed", input_tokens=1, output_tokens=1)
    a_turn(session, step, role="risk", provider="local", model=LABEL, outcome="completed", input_tokens=None)
    session.flush()
    past = past_tokens(session)
    assert past == {(LABEL, "quick"): TurnTokens(3_000, 2_500, n=3), (LABEL, "risk"): TurnTokens(30_000, 5_000, n=1)}
    found = outlook(session, settings, run)
    assert found.seconds == 10 * (3_000 / 300 + 2_500 / 25 + 30_000 / 300 + 5_000 / 25) == 4_100.0
    lines = amount_text.outlook(found)
    assert lines[-2].startswith("local:qwen3:8b: about 1 h 8 min for at most 20 turns (1 at once, ")
    assert lines[-1] == (
        "that is longer than a run may take, 1 h: set DESK_RUN_DEADLINE_MINUTES=110, or give it less to do; it ends "
        "as partial then"
    )
