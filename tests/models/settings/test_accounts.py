"""Names of accounts: a backtest has one of its own, which no settings can name."""

from __future__ import annotations

import datetime as dt

import pytest
from pydantic import ValidationError

from chordesk.models.settings import Settings
from chordesk.models.settings.running_desk import (
    backtest_account,
    in_run,
    is_backtest,
    is_paper,
    research_account,
    snapshot,
    standing_of_run,
)
from chordesk.models.tables.columns import new_id, utcnow


def test_each_backtest_has_an_account_of_its_own() -> None:
    names = {backtest_account(new_id()) for _ in range(50)}
    assert len(names) == 50
    assert all(is_backtest(name) and is_paper(name) for name in names)
    assert is_backtest(research_account(names.pop()))


@pytest.mark.parametrize("account", ["paper", "alpaca-paper", "alpaca-live", ""])
def test_no_other_account_is_taken_for_one(account: str) -> None:
    assert not is_backtest(account)
    assert is_paper(account) == (account == "paper")


def test_no_source_of_settings_can_name_the_account_of_a_backtest() -> None:
    with pytest.raises(ValidationError):
        Settings(account=backtest_account(new_id()))  # type: ignore[call-arg]
    with pytest.raises(ValidationError):
        Settings(broker=backtest_account(new_id()))


def test_a_run_of_a_backtest_has_its_account_and_every_other_run_the_brokers() -> None:
    kept, name = snapshot(Settings()), backtest_account(new_id())
    assert in_run(Settings(), kept, name).account == name
    assert in_run(Settings(), kept, "paper").account == "paper"
    assert in_run(Settings(), {**kept, "broker": "alpaca-live"}, "paper").account == "alpaca-live"


def test_its_standing_is_simulated_though_its_orders_are_sent() -> None:
    kept = snapshot(Settings(trader_live=True))
    text = str(standing_of_run(kept, backtest_account(new_id()), "rulebook", "replay", utcnow()))
    assert text.startswith("simulated; broker paper; account backtest-")
    assert str(standing_of_run(kept, "paper", "rulebook", "replay", utcnow())).startswith("LIVE; ")
    sydney = standing_of_run({"exchange": "XASX"}, "paper", "m", "yahoo", dt.datetime(2024, 3, 14, 22, tzinfo=dt.UTC))
    assert (sydney.day, str(sydney).rpartition("; ")[2]) == (
        dt.date(2024, 3, 15),
        "market yahoo on 2024-03-15 of Sydney",
    )
