"""Rows that a session gets by their ids."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy import event
from sqlalchemy.exc import NoResultFound
from sqlmodel import SQLModel

from chordesk.models.database.store import Store
from chordesk.models.tables.orders import Account
from chordesk.models.tables.runs import Run


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with closing(Store(f"sqlite:///{tmp_path / 'desk.db'}")) as found:
        SQLModel.metadata.create_all(found.engine)
        yield found


def account(name: str) -> Account:
    return Account(name=name, cash=5.0)


def test_row_of_a_key_and_of_an_unknown_one(store: Store) -> None:
    with store.session() as session:
        session.add(account("one"))
    with store.read() as session:
        assert session.get_one(Account, "one").cash == 5.0
        assert session.get(Account, "two") is None
        assert session.get(Run, "one") is None
        with pytest.raises(NoResultFound):
            session.get_one(Account, "two")


def test_row_that_was_just_added_is_found(store: Store) -> None:
    with store.session() as session:
        added = account("one")
        session.add(added)
        assert session.get(Account, "one") is added


def test_row_is_read_once_in_a_session_and_again_where_it_may_have_changed(store: Store) -> None:
    with store.session() as session:
        session.add(account("one"))
    statements: list[str] = []
    event.listen(store.writer, "before_cursor_execute", lambda *given: statements.append(given[2]))
    with store.session() as session:
        first = session.get_one(Account, "one")
        assert session.get(Account, "one") is first
        assert len(statements) == 1
        session.connection().exec_driver_sql("UPDATE account SET cash = 7 WHERE name = 'one'")
        assert session.get_one(Account, "one", populate_existing=True).cash == 7.0
        session.expire(first)
        assert session.get_one(Account, "one").cash == 7.0
