"""Budgets and the estimate of what a run costs, counted from rows of turns."""

from __future__ import annotations

from pathlib import Path

import pytest
from sqlmodel import Session

from chordesk.models.settings import Settings
from chordesk.models.tables.runs import Run
from chordesk.tasks.cli.show import amounts
from chordesk.tasks.engine.budgets import BudgetUse, Cost, cost_of, used_up
from chordesk.tasks.engine.summary import summarise
from chordesk.tasks.reading.outlook import outlook
from tests.builders import a_run, a_step, a_turn


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(home=tmp_path, provider="codex", prices="tiny=1/0.1/2")


def spend(
    session: Session, run: Run, model: str | None, read: int | None, cached: int | None, wrote: int | None
) -> None:
    """Add a turn; model: None for one of the rulebook."""
    named = ("codex", f"codex:{model}") if model else ("rulebook", "rulebook (rules, no model)")
    whole = None if read is None or wrote is None else read + wrote
    a_turn(
        session, a_step(session, run, role="quick"), provider=named[0], model=named[1], input_tokens=read,
        cached_input_tokens=cached, output_tokens=wrote, total_tokens=whole,
    )  # fmt: skip


def test_an_estimate_is_of_each_model_at_its_price(session: Session, settings: Settings) -> None:
    run, other = a_run(session), a_run(session)
    spend(session, run, "gpt-5.5", 1_000_000, 500_000, 10_000)
    spend(session, run, "tiny", 2_000_000, 0, 1_000_000)
    spend(session, other, "gpt-5.5", 7, 7, 7)
    found = cost_of(session, settings, run.id)
    assert found == Cost(usd=2.5 + 0.25 + 0.3 + 2.0 + 2.0)
    assert str(found) == "about 7.05 USD"


def test_a_cost_that_the_runtime_knows_comes_before_the_price_list(session: Session, settings: Settings) -> None:
    run = a_run(session)
    step = a_step(session, run, role="quick")
    for cost in (0.25, 0.5, None):
        a_turn(
            session, step, provider="litellm", model="litellm:anthropic/claude", input_tokens=1_000_000,
            cached_input_tokens=0, output_tokens=0, total_tokens=1_000_000, cost_usd=cost,
        )  # fmt: skip
    spend(session, run, "tiny", 1_000_000, 0, 0)
    assert cost_of(session, settings, run.id) == Cost(usd=1.75, unpriced=["anthropic/claude"])


def test_an_unknown_price_is_named_and_is_no_zero(session: Session, settings: Settings) -> None:
    run = a_run(session)
    spend(session, run, "someones-own", 1_000_000, 0, 1_000_000)
    found = cost_of(session, settings, run.id)
    assert found == Cost(unpriced=["someones-own"])
    assert str(found) == "the price of someones-own is unknown (DESK_PRICES)"
    spend(session, run, "tiny", 1_000_000, 0, 0)
    assert str(cost_of(session, settings, run.id)).startswith("at least 1.00 USD; the price of someones-own")


def test_turns_without_counts_are_counted(session: Session, settings: Settings) -> None:
    run = a_run(session)
    spend(session, run, "tiny", None, None, None)
    found = cost_of(session, settings, run.id)
    assert found == Cost(uncounted=1)
    spend(session, run, "tiny", 1_000_000, 0, 0)
    assert str(cost_of(session, settings, run.id)) == ("at least 1.00 USD; the provider counted no tokens of 1 turns")
    assert summarise(session, run, settings)["tokens"] == 1_000_000


def test_rules_have_no_price(session: Session, settings: Settings) -> None:
    run = a_run(session)
    assert str(cost_of(session, settings, run.id)) == "none yet"
    spend(session, run, None, 1_000_000, 0, 1_000)
    found = cost_of(session, settings, run.id)
    assert found == Cost(rules=True)
    assert str(found) == "no price for rules, which are no model"


def test_local_models_cost_nothing_and_are_never_unknown(session: Session, settings: Settings) -> None:
    run = a_run(session)
    step = a_step(session, run, role="quick")
    for tokens in (1_000_000, None):
        a_turn(
            session, step, provider="local", model="local:qwen3:8b", input_tokens=tokens, cached_input_tokens=0,
            output_tokens=tokens, total_tokens=tokens,
        )  # fmt: skip
    found = cost_of(session, settings, run.id)
    assert found == Cost(usd=0.0, local=True)
    assert str(found) == "local, no price"
    spend(session, run, "tiny", 1_000_000, 0, 0)
    assert str(cost_of(session, settings, run.id)) == "about 1.00 USD; local, no price"
    spend(session, run, "own", 1_000_000, 0, 0)
    mixed = cost_of(session, settings, run.id)
    assert str(mixed) == "at least 1.00 USD; the price of own is unknown (DESK_PRICES); local, no price"
    named = {"provider": "local", "provider_url": "http://127.0.0.1:11434/v1", "model": "gpt-5.5"}
    local = settings.model_copy(update=named)
    begun = outlook(session, local, a_run(session, kind="trade"))
    assert begun.prices == {"local:gpt-5.5": "local, no price"}, "whatever it is called"
    assert amounts.outlook(begun)[1] == "prices: local:gpt-5.5: local, no price"


def reason(use: BudgetUse | None) -> str | None:
    return use.reason if use is not None else None


def test_a_run_has_a_budget_without_setting_one(session: Session, settings: Settings) -> None:
    run = a_run(session)
    spend(session, run, "tiny", 2_999_999, 0, 0)
    assert used_up(session, settings, run.id) is None
    spend(session, run, "tiny", 1, 0, 0)
    assert reason(used_up(session, settings, run.id)) == (
        "budget: the run has used 3,000,000 of 3,000,000 tokens (DESK_BUDGET_RUN_TOKENS)"
    )
    assert used_up(session, settings.model_copy(update={"budget_run_tokens": 0}), run.id) is None
    for _ in range(9):
        spend(session, a_run(session), "tiny", 3_000_000, 0, 0)
    assert reason(used_up(session, settings.model_copy(update={"budget_run_tokens": 0}), run.id)) == (
        "budget: the UTC day has used 30,000,000 of 30,000,000 tokens (DESK_BUDGET_DAY_TOKENS)"
    )
    none = settings.model_copy(update={"budget_run_tokens": 0, "budget_day_tokens": 0})
    assert used_up(session, none, run.id) is None


def test_a_run_begins_with_its_budgets_and_prices(session: Session, settings: Settings) -> None:
    first = a_run(session)
    spend(session, first, "tiny", 1_000_000, 0, 0)
    assert amounts.outlook(outlook(session, settings, first)) == [
        "budgets: 3,000,000 tokens a run, 1,000,000 used (DESK_BUDGET_RUN_TOKENS), "
        "30,000,000 tokens a UTC day, 1,000,000 used (DESK_BUDGET_DAY_TOKENS)",
        "prices: gpt-5.5: 5 input, 0.5 cached, 30 output, USD a million tokens (listed June 2026)",
    ]
    first.summary, first.finished_at = summarise(session, first, settings), first.created_at
    session.flush()
    lines = amounts.outlook(outlook(session, settings.model_copy(update={"model": "own"}), a_run(session)))
    assert lines[1:] == [
        "prices: own: unknown (DESK_PRICES)",
        f"the last {first.kind} used 1,000,000 tokens, cost: about 1.00 USD",
    ]
    offline = settings.model_copy(update={"provider": "rulebook"})
    assert amounts.outlook(outlook(session, offline, a_run(session)))[1] == "prices: none, rules are no model"


def test_a_summary_names_its_tools_and_lenses(session: Session, settings: Settings) -> None:
    assert amounts.figures({"tokens": 1}) == [], "of a version before"
    run = a_run(session)
    spend(session, run, "tiny", 1_000_000, 0, 0)
    summary = summarise(session, run, settings)
    shown = {**summary, "lenses": {"technical": 2, "catalyst": 0}, "tools": {"signals_get": 7, "news_list": 1}}
    assert amounts.figures(shown) == [
        "cost: about 1.00 USD",
        "budgets: 1,000,000 of 3,000,000 tokens of the run, 1,000,000 of 30,000,000 tokens of the UTC day",
        "hits by lens: 2 technical, 0 catalyst",
        "tools called: 7 signals_get, 1 news_list",
    ]
