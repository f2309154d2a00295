"""A graph of TradingAgents' shapes on a ticker, through the real app-server: its turns, its data, its report."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from models.states import StepState
from tests.tasks.workflows.tradingagents.kit import DAY, TURNS, Tickers, tickers
from tests.toy.analyst import analyst

pytestmark = pytest.mark.process


@pytest.fixture(scope="module")
def shared() -> Iterator[Tickers]:
    with tickers() as found:
        yield found


@pytest.fixture
def desk(shared: Tickers) -> Tickers:
    shared.model.policy = analyst()
    shared.model.requests.clear()
    return shared


def test_a_ticker_runs_to_its_end_and_its_signal_is_a_report(desk: Tickers) -> None:
    run_id = desk.begin("IBM")
    step = desk.play(run_id)
    assert (step.state, step.error) == (StepState.DONE, None)
    assert [turn.role for turn in desk.turns(run_id)] == TURNS
    (report,) = desk.reports(run_id)
    assert (report.role, report.status, report.verdict, report.confidence) == (
        "tradingagents", "completed", "CONFIRMED", "medium",
    )  # fmt: skip
