"""The short version of `make faults`: one kill of each kind, with short leases. And the proof that it can fail."""

from __future__ import annotations

import dataclasses

import pytest

from tests.ordeal.crew import Result
from tests.ordeal.faults import SCENARIOS, SHORT, run, switchable, with_resend, without_claim

# Two desks for all: the runs' and the orders'. What switches something off comes last on them.
SHORT_ONES = tuple(switchable(scenario) for scenario in SCENARIOS if scenario.short)
TWICE = "every message twice"
UNCLAIMED = "the same with the claim off"
WITHOUT_CLAIM = tuple(
    dataclasses.replace(without_claim(scenario), name=UNCLAIMED) for scenario in SCENARIOS if scenario.name == TWICE
)
RESENT = "orders are sent again"
ANSWERED = "orders: killed, answered"
WITH_RESEND = tuple(
    dataclasses.replace(with_resend(scenario), name=RESENT) for scenario in SCENARIOS if scenario.name == ANSWERED
)


# The first test waits for all scenarios.
pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def results() -> dict[str, Result]:
    """All at once: most of the time is leases that run out."""
    return {result.name: result for result in run([*SHORT_ONES, *WITHOUT_CLAIM, *WITH_RESEND], SHORT, 2, once=True)}


@pytest.mark.parametrize("name", [scenario.name for scenario in SHORT_ONES])
def test_nothing_is_lost_and_nothing_done_twice(results: dict[str, Result], name: str) -> None:
    result = results[name]
    assert result.runs > 0
    assert result.findings.clean, result.findings.text()


def test_with_the_claim_off_turns_are_done_twice(results: dict[str, Result]) -> None:
    assert results[UNCLAIMED].findings.doubled


def test_an_order_that_is_sent_again_shows(results: dict[str, Result]) -> None:
    assert results[RESENT].findings.doubled
