"""Rows of a feature that is off: what waits or is shown says so, with the remedy."""

from __future__ import annotations

import datetime as dt

import pytest

from chordesk.models import features
from chordesk.models.database.store import Store
from chordesk.models.tables.columns import utcnow
from chordesk.models.tables.runs import Run
from chordesk.tasks.reading.runs import view, waits
from tests.builders import a_run, a_step
from tests.parts import needs


@needs("board")
def test_a_run_whose_feature_is_off_waits_for_the_switch_and_no_worker(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    with store.session() as session:
        run = a_run(session, kind="episode")
        a_step(session, run, kind="brief", due_at=utcnow() - dt.timedelta(minutes=1))
        run_id = run.id
    with store.read() as session:
        assert "take board out" not in " ".join(map(str, waits(session, session.get_one(Run, run_id))))
    monkeypatch.setenv(features.OFF, "board")
    with store.read() as session:
        run = session.get_one(Run, run_id)
        (found,) = waits(session, run)
        assert found.what == (
            "brief, of the feature board, which is switched off: take board out of DESK_FEATURES_OFF, or "
            f"`desk stop {run_id[:16]}`"
        )
        remedy = "to see what it did, take board out of DESK_FEATURES_OFF"
        (note,) = view(session, run).notes
        assert note == f"a run of the kind episode, of the feature board, which is switched off: {remedy}"


def test_a_run_of_a_kind_that_no_package_has_names_the_remedy(store: Store) -> None:
    with store.session() as session:
        run_id = a_run(session, kind="horoscope").id
    with store.read() as session:
        assert view(session, session.get_one(Run, run_id)).notes == [
            "a run of the kind horoscope, which no feature here has: to see what it did, install its package"
        ]
