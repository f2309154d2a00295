"""What a screen takes, as setup says it before there was one."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import pytest

from chordesk.agents.gateway.facts import ServerFacts, keep_facts
from chordesk.models.database.store import Store
from chordesk.models.settings import Settings
from chordesk.tasks.cli.setup.trial import screen_lines
from tests.builders import a_run, a_step, a_turn

URL = "http://127.0.0.1:11434/v1"
FEW = "IBM,KO,GE,F"


@pytest.fixture
def home(tmp_path: Path, store: Store) -> Path:
    """A home with a database, which is empty."""
    assert (tmp_path / "desk.db").exists()
    return tmp_path


def lines(home: Path, seconds: float | None = None, **settings: Any) -> list[str]:
    return screen_lines(Settings(**{"home": home, "universe": FEW, "max_candidates": 2, **settings}), seconds)


def test_rules_cost_nothing(tmp_path: Path) -> None:
    assert lines(tmp_path) == ["a screen takes seconds and costs nothing: rules are no model"]


def test_a_login_is_paid_by_its_plan_and_an_endpoint_by_its_price_where_that_is_known(tmp_path: Path) -> None:
    head, codex, time = lines(tmp_path, 20.0, provider="codex")
    assert head == "a screen of IBM,KO,GE,F (4 symbols):"
    assert codex.startswith("codex:gpt-5.5: at most 13 turns, ")
    assert "as assumed before the first one; paid by the plan of the login; over the API about 0." in codex
    assert time == "at least 1 min 20 s, where each turn takes as long as the one just tried"
    for prices, words in (("", "price unknown: set DESK_PRICES"), ("m=1000/1000/1000", " USD")):
        made = lines(tmp_path, provider="endpoint", provider_url=URL, model="m", prices=prices)
        assert len(made) == 2
        assert made[1].endswith(words)


def test_a_local_model_has_its_time_by_the_measured_speed_and_no_price(home: Path) -> None:
    asked = dt.datetime(2026, 11, 24, 9, tzinfo=dt.UTC)
    speeds = {"read_speed": 1000.0, "write_speed": 50.0, "slots": 1, "context": 65_536}
    keep_facts(home, ServerFacts(url=URL, server="ollama", version="1", model="m", asked_at=asked, **speeds))
    _, tokens, time = lines(home, 20.0, provider="local", provider_url=URL, model="m")
    assert tokens.startswith("local:m: at most 13 turns, ")
    assert tokens.endswith("; local, no price")
    assert "for at most 13 turns (1 at once, 50 tokens/s written, 1,000 read; measured 2026-11-24)" in time


def test_roles_of_several_models_have_a_line_each(tmp_path: Path) -> None:
    made = lines(tmp_path, provider="local", provider_url=URL, model="m", role_models="trader=codex:gpt-5.5")
    assert [line.partition(" at most")[0] for line in made[1:3]] == ["local:m:", "codex:gpt-5.5:"]
    assert "at most 1 turn, " in made[2]
    assert "time unknown" in made[3]


def test_turns_that_the_desk_had_say_what_the_next_ones_take(home: Path, store: Store) -> None:
    with store.session() as session:
        run = a_run(session)
        roles = [f"screener_{lens}" for lens in ("technical", "fundamental", "catalyst", "options")]
        for role in (*roles, "quick", "fundamentals", "risk", "catalyst", "trader"):
            counts = {"input_tokens": 1_000, "cached_input_tokens": 0, "output_tokens": 100}
            a_turn(
                session, a_step(session, run, role=role), role=role, provider="codex", model="codex:gpt-5.5",
                outcome="completed", **counts,
            )  # fmt: skip
    assert "13 turns, 13,000 tokens read and 1,300 written; paid by" in lines(home, provider="codex")[1]


def test_a_universe_that_cannot_be_had_is_said(tmp_path: Path) -> None:
    (line,) = lines(tmp_path, provider="codex", universe="IBM,ZZZZ")
    assert line.startswith("what a screen takes is not known: the replay market does not carry ZZZZ")
