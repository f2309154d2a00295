"""The store, the migrations, the graph, the lineage and a whole run on a real PostgreSQL."""

from __future__ import annotations

import datetime as dt
import json
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import text
from sqlmodel import SQLModel

import tests.tasks.engine.test_graph as graph_cases
import tests.tasks.workflows.portfolio.test_portfolio as portfolio_cases
from chordesk.models.database.lookup import by_prefix
from chordesk.models.database.store import Store, current, require_current
from chordesk.models.errors import DatabaseDown
from chordesk.models.tables.runs import Run
from chordesk.tasks.reading.chain import chain as read_chain
from chordesk.tasks.reading.runs import progress, view
from tests.builders import MARKET_NOW, a_run
from tests.databases import ALL_BUT_LINES
from tests.models.database.writers import cash_after
from tests.postgres import Server
from tests.tasks.cli.running import desk
from tests.tasks.views.chain import a_chain

pytestmark = pytest.mark.postgres


@pytest.fixture
def store(postgres_store: Store) -> Store:
    return postgres_store


# Cases that look for the text of SQLite's errors; what they show is shown here in another way.
SQLITE_TERMS = {"test_a_step_is_unique_in_its_run"}


test_two_looks_at_once = portfolio_cases.test_two_runs_that_end_a_look_at_once_leave_one
# Every other case of the graph runs here too, on this module's `store`: its locks are of rows.
globals().update(
    {name: case for name, case in vars(graph_cases).items() if name.startswith("test_") and name not in SQLITE_TERMS}
)


def test_the_command_upgrades_an_empty_database_and_names_its_place(postgres: Server, tmp_path: Path) -> None:
    url = postgres.empty()
    assert current(url)[0] is None
    with pytest.raises(DatabaseDown, match="desk db upgrade"):
        require_current(url)
    done = desk(tmp_path, "db", "upgrade", DESK_DATABASE_URL=url)
    assert done.returncode == 0, done.stderr
    require_current(url)
    again = desk(tmp_path, "db", "current", "--json", DESK_DATABASE_URL=url)
    found = json.loads(again.stdout)
    assert (again.returncode, found["revision"]) == (0, found["newest"])


def test_migrations_and_tables_agree(store: Store) -> None:
    with store.engine.connect() as connection:
        assert compare_metadata(MigrationContext.configure(connection, opts=ALL_BUT_LINES), SQLModel.metadata) == []


def test_json_and_times_come_back_as_they_were(store: Store) -> None:
    params = {"symbols": ["BRK.B", "é"], "nested": {"none": None, "figure": 0.1, "nul": "a\x00b"}, "on": True}
    new_york = dt.timezone(dt.timedelta(hours=-4))
    with store.session() as session:
        run_id = a_run(session, params=params, notes=["one", "two"], market_now=MARKET_NOW.astimezone(new_york)).id
    with store.read() as session:
        run = session.get_one(Run, run_id)
    assert (run.params, run.notes) == (params, ["one", "two"])
    assert run.market_now == MARKET_NOW
    assert run.market_now.utcoffset() == dt.timedelta(0)
    with store.read() as session:
        raw = session.execute(text("select market_now from run")).scalar_one()
    assert raw == MARKET_NOW.replace(tzinfo=None)


def test_a_locked_row_makes_writers_wait_and_loses_nothing(store: Store) -> None:
    assert cash_after(store, writers=6, times=10, lock=True) == 60.0


def test_the_chain_of_an_order_and_the_view_of_its_run(store: Store) -> None:
    with store.session() as session:
        chain = a_chain(session)
    with store.read() as session:
        run = by_prefix(session, Run, chain.run_id[:20])
        found = read_chain(session, run, "ACME")
        seen, whole = progress(session, run.id), view(session, run)
    assert chain.ids_of(found) == chain.expected()
    assert (seen.turns, seen.candidates) == (chain.turns, {"BUY": 2})
    assert [row.symbol for row in whole.candidates] == ["ACME", "IBM"]
    assert whole.actions[0].order_id == chain.order_id
