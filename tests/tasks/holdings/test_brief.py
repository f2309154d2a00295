"""Shares of what is held elsewhere: what the trader is told by the setting, and what a report has."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import pytest

from chordesk.models.database.store import Store
from chordesk.models.statements import Holding, Statement
from chordesk.tasks.holdings.brief import brief_of_trader, held_elsewhere
from tests.builders import a_run
from tests.tools.holdings.test_keeping import a_read, imported

NOW = dt.datetime(2026, 1, 7, 15, 0, tzinfo=dt.UTC)
ROWS = (
    Holding(1, "Cash", "cash", Decimal(250), "USD", value=Decimal(250), rate=Decimal(1)),
    Holding(2, "IBM", "share", Decimal(2), "USD", "IBM", price=Decimal(200), rate=Decimal(1)),
    Holding(3, "A fund", "fund", Decimal(7), "EUR", value=Decimal(280), rate=Decimal("1.25")),
    Holding(4, "A note", "other", Decimal(1), "KWD", value=Decimal(300)),
)


@pytest.mark.parametrize(
    ("values", "is_told", "is_reported"),
    [
        ({"settings": {"book": "weights"}}, True, True),
        ({"settings": {"book": "size"}}, False, True),
        ({"settings": {"book": "off"}}, False, False),
        ({"settings": {"book": "weights", "mask": "names"}}, False, True),
        ({"settings": {"book": "weights"}, "account": "backtest-1"}, False, False),
        ({"settings": {"book": "weights"}, "market_now": NOW - dt.timedelta(days=30)}, False, False),
    ],
)
def test_shares_are_told_by_the_setting(store: Store, values: dict[str, Any], is_told: bool, is_reported: bool) -> None:
    imported(store, a_read(Statement("U4711", ROWS, dt.date(2026, 1, 5))), "savings")
    with store.session() as session:
        run = a_run(session, **{"market_now": NOW, **values})
        told, reported = brief_of_trader(session, run.id), held_elsewhere(session, run)
    assert (bool(told), reported is not None) == (is_told, is_reported)
    if told:
        weights = {"IBM": 0.4, "without a ticker": 0.35, "cash": 0.25}
        assert told["heldElsewhere"] | {"about": ""} == {
            "about": "", "weights": weights, "notNamed": 0, "withoutValue": 1, "asOf": "2026-01-05", "sessionsOld": 2,
        }  # fmt: skip
        assert "savings" not in str(told)
