"""The tables of the board, on SQLite and on a real PostgreSQL."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import inspect
from sqlalchemy.exc import IntegrityError

from tests.models.migrations.old_database import OldDatabase, insert, old_database
from tests.postgres import Server

_QUESTION = {"source": "person", "market": "", "text": "?", "rule": '{"kind": "person"}', "state": "open"}
_OPEN = {"opens_at": "2010-01-04 00:00:00", "closes_at": "2010-01-18 00:00:00"}


def a_board_comes_and_goes(url: str) -> None:
    """A run of before there was a board gets one; what may be there once is there once; a downgrade leaves the rest.
    The database is empty."""
    with old_database(url, "0020") as old:
        with old.engine.begin() as connection:
            insert(connection, "run", id="r")
        before = old.rows("run")
        old.upgrade("head")
        _add(old, "question", id="q", external_id="a", **_QUESTION, **_OPEN)
        _add(old, "episode_question", run_id="r", question_id="q", label="Q1", baseline=0.5)
        _add(old, "karma_entry", id="k", run_id="r", account="paper", voice="v", key="isolated", amount=-1.0)
        for table, row in {
            "question": {"id": "p", "external_id": "a", **_QUESTION, **_OPEN},
            "episode_question": {"run_id": "r", "question_id": "q", "label": "Q2"},
            "karma_entry": {"id": "l", "run_id": "r", "account": "paper", "voice": "v", "key": "isolated"},
        }.items():
            with pytest.raises(IntegrityError):
                _add(old, table, **row)
        with pytest.raises(IntegrityError):
            _add(old, "question", id="o", external_id="b", **_QUESTION, opens_at="2010-01-18", closes_at="2010-01-04")
        with pytest.raises(IntegrityError):
            _add(old, "question", id="o", external_id="b", **_QUESTION, **_OPEN, outcome=1.4)
        old.downgrade("0020")
        assert not {"question", "signal", "forecast", "karma_entry"} & set(inspect(old.engine).get_table_names())
        assert old.rows("run") == before


def _add(old: OldDatabase, table: str, **row: Any) -> None:
    with old.engine.begin() as connection:
        insert(connection, table, **row)


def test_a_board_comes_with_its_tables_and_goes_with_them(tmp_path: Path) -> None:
    a_board_comes_and_goes(f"sqlite:///{tmp_path / 'desk.db'}")


@pytest.mark.postgres
def test_a_board_comes_with_its_tables_and_goes_with_them_on_postgres(postgres: Server) -> None:
    a_board_comes_and_goes(postgres.empty())
