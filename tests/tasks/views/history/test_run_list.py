"""The list of runs, narrowed as `desk runs list` does."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import pytest

from chordesk.models.database.store import Store
from chordesk.models.errors import NotFound
from chordesk.models.settings import Settings
from chordesk.models.states import RunKind, RunState
from chordesk.models.tables.columns import utcnow
from chordesk.tasks.reading.run_details import ListedRun, listed
from chordesk.tasks.reading.run_list import SORTS, RunFilter, run_page
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
        assert ids(RunFilter(parent=parent.id)) == {child.id}
        assert newest_run(session, RunKind.SCREEN).id == newest_run(session).id == screen.id
        with pytest.raises(NotFound, match="no run of the kind episode yet"):
            newest_run(session, RunKind.EPISODE)


def test_a_list_is_sorted_over_all_pages_and_says_what_each_run_came_to(store: Store, tmp_path: Path) -> None:
    with store.session() as session:
        begun = utcnow()
        walk = a_run(session, kind=RunKind.BACKTEST, params={"days": ["2010-08-09"]}, account="backtest-1")
        session.add(
            a_run(
                session, kind=RunKind.SCREEN, account="backtest-1", parent_run_id=walk.id, params={"symbols": ["IBM"]}
            )
        )
        ended = [
            a_run(
                session, state=RunState.DONE, created_at=begun - dt.timedelta(hours=hours),
                finished_at=begun - dt.timedelta(hours=hours) + dt.timedelta(seconds=seconds),
            )
            for hours, seconds in ((1, 5), (2, 30), (3, 5))
        ]  # fmt: skip

        def page(sort: str, offset: int = 0, *, down: bool = True) -> list[ListedRun]:
            settings, wanted = Settings(home=tmp_path), RunFilter(backtests=False)
            found = run_page(session, settings, wanted, 3, offset, short=True, sort=sort, down=down)
            assert found.total == 4, "what a backtest opened for its sessions is inside of it"
            return listed(session, found.runs)

        first, second, third = (one.id for one in ended)
        assert [row.run.id for row in page("took")] == [second, first, third], "equals are the newest first"
        assert [row.run.id for row in page("took", down=False)] == [first, third, second]
        (rest,) = page("took", 3, down=False)
        assert (rest.run.id, rest.children, rest.run.params) == (walk.id, 1, {}), "without an end it is the last"
        assert rest.said.startswith("Played 0 of 1 sessions"), "though its parameters are left out"
        for sort in SORTS:
            assert len(page(sort)) == 3
