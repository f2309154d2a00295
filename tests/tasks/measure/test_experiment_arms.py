"""Which backtests can be compared."""

from __future__ import annotations

import pytest

from chordesk.models.database.store import Store
from chordesk.models.errors import UsageError
from chordesk.models.settings import Settings
from chordesk.models.states import RunKind, RunState
from chordesk.tasks.measure.experiment_view import experiment
from tests.builders import run_row


def test_an_arm_whose_every_session_is_missing_is_not_compared(store: Store) -> None:
    params = {"days": ["2010-03-01"], "symbols": ["KO"], "backtest": "b"}
    missing = {"missing": [{"day": "2010-03-01", "reason": "its screen failed: cassette_miss"}]}
    rows = [
        run_row(kind=RunKind.BACKTEST, state=RunState.DONE, params=params, summary=summary) for summary in ({}, missing)
    ]
    with store.session() as session:
        session.add_all(rows)
        session.flush()
        names = [row.id for row in rows]
        with pytest.raises(
            UsageError, match=f"every session of backtest {names[1]} is missing: its screen failed: cass"
        ):
            experiment(session, Settings(), names)
