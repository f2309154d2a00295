"""Which backtests can be compared."""

from __future__ import annotations

import json

import pytest

from chordesk.models.database.store import Store
from chordesk.models.errors import UsageError
from chordesk.models.settings import Settings
from chordesk.models.states import RunKind, RunState
from chordesk.tasks.measure.backtest import Arm, require_differences
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


def test_arms_of_two_texts_of_one_lens_differ_and_an_unknown_lens_is_refused() -> None:
    texts = [json.dumps({"mine": f"+++\nby = 'rule'\nwhere = 'momentum20 > {least}'\n+++\nRises."}) for least in (0, 1)]
    arms = [Arm(f"a{at}", {"own_lenses": text, "lenses": "mine"}) for at, text in enumerate(texts)]
    require_differences(Settings(), arms)
    with pytest.raises(UsageError, match="the arms a and b differ in nothing"):
        require_differences(Settings(), [Arm(name, arms[0].settings) for name in "ab"])
    with pytest.raises(UsageError, match="'mine' is not a lens"):
        require_differences(Settings(), [Arm("a", {}), Arm("b", {"lenses": "mine"})])
