"""Figures of rules that an order passes: they are the rules' own, and change no answer."""

from __future__ import annotations

import pytest

from chordesk.models.orders import Cleared, DenialCode
from chordesk.tools.risk import check
from chordesk.tools.risk.check import CODES_OF, RULES, measured
from tests.tools.risk.figures import account, context, limits, ticket
from tests.tools.risk.test_rules import BOUNDARIES

NUMERIC = {
    DenialCode.NOTIONAL_PER_ORDER: "notional 1,000.00",
    DenialCode.NOTIONAL_PER_SYMBOL: "exposure 1,000.00",
    DenialCode.GROSS_NOTIONAL: "gross 1,000.00",
    DenialCode.SHARE_PER_SYMBOL: "1.0000% of equity",
    DenialCode.SHARE_PER_SECTOR: "1.0000% of equity",
    DenialCode.BUYING_POWER: "needs 1,000.00",
    DenialCode.DAILY_LOSS: "0.0000% lost",
    DenialCode.DRAWDOWN: "0.0000% lost",
    DenialCode.QUOTE_STALE: "0 h old",
    DenialCode.VERDICT_STALE: "0 h old in market time",
    DenialCode.CONSECUTIVE_REJECTIONS: "0 in a row",
}


@pytest.mark.parametrize(("code", "outside", "inside"), BOUNDARIES, ids=lambda value: str(value)[:24])
def test_the_answers_are_those_of_the_check_and_a_denial_keeps_its_figure(code, outside, inside) -> None:
    given = ticket(**outside[0]), context(**outside[1]), limits(**outside[2])
    first = next(row for row in measured(*given) if row.denied is not None)
    assert first.denied == check(*given)
    assert (first.figure, code in first.codes) == (first.denied.measured, True)
    given = ticket(**inside[0]), context(**inside[1]), limits(**inside[2])
    assert check(*given) == Cleared()
    assert not [row for row in measured(*given) if row.denied is not None]


def test_every_rule_has_its_codes_in_the_order_of_the_check() -> None:
    assert [row.codes for row in measured(ticket(), context(), limits())] == [CODES_OF[rule] for rule in RULES]
    assert set(CODES_OF) == set(RULES)


def test_an_order_that_passes_has_the_figures_of_what_is_measured() -> None:
    found = {row.codes[-1]: row.figure for row in measured(ticket(), context(), limits())}
    assert {code: found[code] for code in NUMERIC} == NUMERIC


def test_an_order_that_only_reduces_is_not_bound_by_rules_on_entries() -> None:
    held = context(account=account(100_000, 100_000, AAA=10))
    rows = {row.codes[-1]: row for row in measured(ticket(action="close", side="sell"), held, limits())}
    assert (rows[DenialCode.NOTIONAL_PER_ORDER].binds, rows[DenialCode.NOTIONAL_PER_ORDER].figure) == (False, None)
    assert rows[DenialCode.DUPLICATE].binds
