"""The list of runs, narrowed as `desk runs list` does."""

from __future__ import annotations

from pathlib import Path

import pytest

from chordesk.models.database.store import Store
from chordesk.models.errors import NotFound
from chordesk.models.settings import Settings
from chordesk.models.states import RunKind, RunState
from chordesk.tasks.reading.run_list import RunFilter, run_page
from chordesk.tasks.reading.runs import newest_run
from tests.builders import a_run


def test_children_are_folded_and_runs_narrowed_by_kind_and_state(store: Store, tmp_path: Path) -> None:
    with store.session() as session:
        parent = a_run(session, kind=RunKind.BACKTEST, state=RunState.DONE)
        child = a_run(session, kind=RunKind.SCREEN, state=RunState.FAILED, parent_run_id=parent.id)
        screen = a_run(session, kind=RunKind.SCREEN, state=RunState.DONE)

        def ids(wanted: RunFilter) -> set[str]:
            return {row.run.id for row in run_page(session, Settings(home=tmp_path), wanted, 20).runs}

        assert ids(RunFilter()) == {parent.id, child.id, screen.id}
        assert ids(RunFilter(with_children=False)) == {parent.id, screen.id}
        assert ids(RunFilter("screen", "done")) == {screen.id}
        assert newest_run(session, RunKind.SCREEN).id == newest_run(session).id == screen.id
        with pytest.raises(NotFound, match="no run of the kind episode yet"):
            newest_run(session, RunKind.EPISODE)
