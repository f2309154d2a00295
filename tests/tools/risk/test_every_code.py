"""No denial code is without a case that triggers it and one just inside its limit: in the rules or in the funnel."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from chordesk.models.orders import DenialCode
from chordesk.models.states import OrderState
from chordesk.tools.risk.codes import CODES
from tests.fakes.alpaca import Alpaca
from tests.tools.orders.desk import Desk
from tests.tools.risk.context_cases import FUNNEL, Play, Stage
from tests.tools.risk.test_rules import BOUNDARIES

NAMES = [f"{place}-{code}" for place, (code, _, _) in enumerate(FUNNEL)]


@pytest.fixture
def stage(new_desk: Callable[..., Desk], alpaca: Alpaca) -> Stage:
    return Stage(new_desk, alpaca)


@pytest.mark.parametrize(("code", "play"), [(code, outside) for code, outside, _ in FUNNEL], ids=NAMES)
def test_an_order_that_breaks_a_rule_of_the_funnel_is_denied_with_its_code(
    stage: Stage, code: DenialCode, play: Play
) -> None:
    refused = play(stage)
    assert refused.state == OrderState.DENIED, refused
    assert refused.denied.code == code, refused.denied
    assert all((refused.denied.reason, refused.denied.measured, refused.denied.limit))


@pytest.mark.parametrize("play", [inside for _, _, inside in FUNNEL], ids=NAMES)
def test_an_order_just_inside_a_limit_is_sent(stage: Stage, play: Play) -> None:
    assert play(stage).state == OrderState.FILLED


def test_no_code_is_without_a_pair() -> None:
    """Every row of the two tables is run, here or as a rule; what a row lacks cannot be written."""
    cases = [*BOUNDARIES, *FUNNEL]
    assert {code for code, _, _ in cases} == set(DenialCode) == set(CODES)
    assert all(outside != inside for _, outside, inside in cases)
