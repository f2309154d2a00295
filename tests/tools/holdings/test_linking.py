"""The account of another desk: read from its folder as it is, which stays as it was."""

from __future__ import annotations

import datetime as dt
import hashlib
import sqlite3
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

import pytest

from chordesk.models.database.store import Store
from chordesk.models.errors import UsageError
from chordesk.models.tables.orders import Account, EquityMark, Position
from chordesk.tools.holdings.keeping import accounts, linked_homes
from chordesk.tools.holdings.linking import read_home
from tests.databases import make_database
from tests.tools.holdings.test_keeping import imported, refused

AT = dt.datetime(2026, 1, 5, 20, 0, tzinfo=dt.UTC)


@pytest.fixture
def other(tmp_path: Path) -> Iterator[Store]:
    """A desk in a folder of its own, with an account that trades, one that does not, and one of a backtest."""
    url = f"sqlite:///{tmp_path / 'other' / 'desk.db'}"
    (tmp_path / "other").mkdir()
    make_database(url)
    found = Store(url)
    with found.session() as session:
        for name, cash in (("alpaca-paper", 1234.56), ("paper", 0.0), ("backtest-1", 10.0)):
            session.add(Account(name=name, cash=cash))
        session.flush()
        held = {"filled_at": AT, "average_cost": 100.0}
        session.add(Position(account="alpaca-paper", symbol="IBM", quantity=12.5, **held))
        session.add(Position(account="alpaca-paper", symbol="AAPL260116C00200000", quantity=-1, **held))
        session.add(Position(account="alpaca-paper", symbol="SAP.DE", quantity=4, currency="EUR", **held))
        session.add(Position(account="backtest-1", symbol="GE", quantity=4, **held))
        session.add(EquityMark(account="alpaca-paper", day=dt.date(2026, 1, 7), opening=1, last=1, high_water=1))
    yield found
    found.close()


def test_a_linked_account_is_read_and_its_desk_unchanged(store: Store, other: Store, tmp_path: Path) -> None:
    folder, file = tmp_path / "other", tmp_path / "other" / "desk.db"
    other.close()
    before = hashlib.sha256(file.read_bytes()).hexdigest()
    read = read_home(folder, tmp_path / "own", rates={"EUR": Decimal("1.1")})
    assert hashlib.sha256(file.read_bytes()).hexdigest() == before
    rows = {row.key: row for row in read.statements[0].holdings}
    assert {name: str(row.quantity) for name, row in rows.items()} == {
        "IBM": "12.5", "AAPL260116C00200000": "-1.0", "SAP.DE": "4.0", "Cash": "1234.56",
    }  # fmt: skip
    assert (rows["SAP.DE"].currency, rows["SAP.DE"].rate, rows["IBM"].rate) == ("EUR", Decimal("1.1"), 1)
    assert str(read.statements[0].as_of) == "2026-01-07"
    assert imported(store, read, "second") == ["second"]
    with store.read() as session:
        (found,) = accounts(session)
        home, is_linked = linked_homes(session)["second"]
    assert (found.home, home) == (str(folder.resolve()),) * 2
    with other.session() as session:
        session.add(Account(name="third", cash=5.0))
        session.flush()
        session.add(Position(account="third", symbol="KO", quantity=1, average_cost=1.0, filled_at=AT))
    again = read_home(Path(home), tmp_path / "own", None, {"EUR": Decimal("1.1")}, is_linked)
    assert again.digest == read.digest, "the account that was linked, and nothing changed"
    assert "the same account is imported already, as second" in refused(store, again, "twice")


def test_what_is_no_desk_of_another_is_refused(other: Store, tmp_path: Path) -> None:
    folder = tmp_path / "other"
    for where, own, of, words in (
        (folder, folder, None, "is this desk's own folder"),
        (tmp_path, folder, None, "has no desk.db"),
        (folder, tmp_path, "savings", "has no account 'savings'"),
        (folder, tmp_path, "backtest-1", "has no account 'backtest-1'"),
        (folder, tmp_path, "paper", "holds nothing"),
    ):
        with pytest.raises(UsageError, match=words):
            read_home(where, own, of)
    broken = tmp_path / "broken"
    broken.mkdir()
    (broken / "desk.db").write_bytes(b"no database at all, but long enough to be looked at" * 40)
    with pytest.raises(UsageError, match="cannot be read"):
        read_home(broken, folder)
    with sqlite3.connect(broken / "empty.db") as made:
        made.execute("create table identity (desk text)")
    (broken / "empty.db").rename(broken / "desk.db")
    with pytest.raises(UsageError, match="cannot be read"):
        read_home(broken, folder)
