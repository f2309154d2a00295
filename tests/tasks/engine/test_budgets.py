"""Budgets and the estimate of what a run costs, counted from rows of turns."""

from __future__ import annotations

from pathlib import Path

import pytest
from sqlmodel import Session

from chordesk.models.model_prices import AS_OF
from chordesk.models.settings import Settings
from chordesk.models.tables.runs import Run
from chordesk.tasks.cli.show import amount_text
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


M = 1_000_000


@pytest.mark.parametrize(
    ("turns", "cost", "shown"),
    [
        ([], Cost(), "none yet"),
        ([("gpt-5.5", M, M // 2, 10_000), ("tiny", 2 * M, 0, M)], Cost(usd=7.05), "about 7.05 USD"),
        ([("own", M, 0, M)], Cost(unpriced=["own"]), "the price of own is unknown (DESK_PRICES)"),
        (
            [("own", M, 0, M), ("tiny", M, 0, 0)],
            Cost(usd=1.0, unpriced=["own"]),
            "at least 1.00 USD; the price of own is unknown (DESK_PRICES)",
        ),
        ([("tiny", None, None, None)], Cost(uncounted=1), "the provider counted no tokens of 1 turns"),
        (
            [("tiny", None, None, None), ("tiny", M, 0, 0)],
            Cost(usd=1.0, uncounted=1),
            "at least 1.00 USD; the provider counted no tokens of 1 turns",
        ),
        ([(None, M, 0, 1_000)], Cost(rules=True), "no price for rules, which are no model"),
    ],
)
def test_the_cost_of_turns_at_their_models_prices(
    session: Session,
    settings: Settings,
    turns: list[tuple[str | None, int | None, int | None, int | None]],
    cost: Cost,
    shown: str,
) -> None:
    run = a_run(session)
    for turn in turns:
        spend(session, run, *turn)
    spend(session, a_run(session), "gpt-5.5", 7, 7, 7)
    found = cost_of(session, settings, run.id)
    assert found == cost
    assert str(found) == shown


def test_a_cost_that_the_runtime_knows_comes_before_the_price_list(session: Session, settings: Settings) -> None:
    run = a_run(session)
    step = a_step(session, run, role="quick")
    for cost in (0.25, 0.5, None):
        a_turn(
            session, step, provider="litellm", model="litellm:anthropic/claude", input_tokens=M,
            cached_input_tokens=0, output_tokens=0, total_tokens=M, cost_usd=cost,
        )  # fmt: skip
    spend(session, run, "tiny", M, 0, 0)
    assert cost_of(session, settings, run.id) == Cost(usd=1.75, unpriced=["anthropic/claude"])


def test_local_models_cost_nothing_and_are_never_unknown(session: Session, settings: Settings) -> None:
    run = a_run(session)
    step = a_step(session, run, role="quick")
    for tokens in (M, None):
        a_turn(
            session, step, provider="local", model="local:qwen3:8b", input_tokens=tokens, cached_input_tokens=0,
            output_tokens=tokens, total_tokens=tokens,
        )  # fmt: skip
    found = cost_of(session, settings, run.id)
    assert (found, str(found)) == (Cost(usd=0.0, local=True), "local, no price")
    spend(session, run, "tiny", M, 0, 0)
    spend(session, run, "own", M, 0, 0)
    mixed = "at least 1.00 USD; the price of own is unknown (DESK_PRICES); local, no price"
    assert str(cost_of(session, settings, run.id)) == mixed
    named = {"provider": "local", "provider_url": "http://127.0.0.1:11434/v1", "model": "gpt-5.5"}
    begun = outlook(session, settings.model_copy(update=named), a_run(session, kind="trade"))
    assert begun.prices == {"local:gpt-5.5": "local, no price"}, "whatever it is called"


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
    assert amount_text.outlook(outlook(session, settings, first)) == [
        "budgets: 3,000,000 tokens a run, 1,000,000 used (DESK_BUDGET_RUN_TOKENS), "
        "30,000,000 tokens a UTC day, 1,000,000 used (DESK_BUDGET_DAY_TOKENS)",
        f"prices: gpt-5.5: 5 input, 0.5 cached, 30 output, USD a million tokens (listed {AS_OF})",
    ]
    first.summary, first.finished_at = summarise(session, first, settings), first.created_at
    session.flush()
    lines = amount_text.outlook(outlook(session, settings.model_copy(update={"model": "own"}), a_run(session)))
    assert lines[1:] == [
        "prices: own: unknown (DESK_PRICES)",
        f"the last {first.kind} used 1,000,000 tokens, cost: about 1.00 USD",
    ]
    offline = settings.model_copy(update={"provider": "rulebook"})
    assert amount_text.outlook(outlook(session, offline, a_run(session)))[1] == "prices: none, rules are no model"
