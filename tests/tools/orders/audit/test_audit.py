"""Writing the audit log: what was written is read again, and what did not commit counts for nothing."""

from __future__ import annotations

import datetime as dt
import os
import re
import subprocess
import sys
from decimal import Decimal
from pathlib import Path

import pytest
from pydantic import SecretStr
from sqlalchemy import event

from chordesk.models.errors import OrderError
from chordesk.models.orders import DenialCode, Denied
from chordesk.models.tables.orders import Account
from chordesk.tools.orders.audit import ABANDONED, OPENED, best_effort, record
from chordesk.tools.orders.audit_reading import entries_of
from tests.patience import PATIENCE
from tests.tools.orders.log_desk import LogDesk, lines

ROOT = Path(__file__).parents[4]


def test_recorded_lines_are_read_again_in_order(desk: LogDesk) -> None:
    denied = Denied(code=DenialCode.COLLAR, reason="too far", measured="9%", limit="5%")
    at = dt.datetime(2010, 8, 12, 15, 55, tzinfo=dt.timezone(dt.timedelta(hours=-4)))
    desk.record("drafted", order="one", quantity=50.0, cash=Decimal("1.10"), at_market=at)
    desk.record("denied", order="two", **denied.model_dump())
    (checked,) = desk.check()
    assert (checked.whole, checked.count, checked.file) == (True, 3, desk.path)
    assert desk.kinds() == [OPENED, "drafted", "denied"]
    (drafted,) = entries_of([checked], "one")
    assert drafted.facts == {
        "order": "one", "quantity": 50.0, "cash": "1.10", "at_market": "2010-08-12T19:55:00+00:00",
    }  # fmt: skip
    assert entries_of([checked], "two")[0].facts["code"] == "collar"


def test_a_line_is_on_disk_before_its_change_is_made(desk: LogDesk) -> None:
    seen = []
    with desk.store.session() as session:
        session.add(Account(name="paper", cash=1.0))
        record(session, desk.settings, "opened_account", account="paper")
        event.listen(session, "before_commit", lambda _: seen.extend(lines(desk.path)))
    assert [line["kind"] for line in seen] == [OPENED, "opened_account"]
    with desk.store.read() as session:
        assert session.get_one(Account, "paper").cash == 1.0


def test_the_lines_of_a_transaction_come_in_the_order_of_the_calls(desk: LogDesk) -> None:
    desk.record("a", "b", "c")
    with desk.store.session() as session:
        record(session, desk.settings, "d")
        with session.begin_nested():
            session.add(Account(name="paper", cash=1.0))
        record(session, desk.settings, "e")
    assert desk.kinds() == [OPENED, "a", "b", "c", "d", "e"]


def test_only_its_owner_can_read_the_file(desk: LogDesk) -> None:
    desk.record("a")
    assert desk.path.stat().st_mode & 0o077 == 0


# What did not commit


def test_of_a_transaction_that_rolls_back_there_is_no_line(desk: LogDesk) -> None:
    desk.record("a")
    with pytest.raises(ZeroDivisionError), desk.store.session() as session:
        record(session, desk.settings, "b")
        raise ZeroDivisionError
    assert [line["kind"] for line in lines(desk.path)] == [OPENED, "a"]


def test_a_line_of_a_transaction_that_failed_to_commit_is_struck_out_by_the_next(desk: LogDesk) -> None:
    desk.record("a")
    desk.lose("lost")
    assert (desk.reading().beyond, desk.kinds()) == (1, [OPENED, "a"])
    desk.record("b")
    assert desk.kinds() == [OPENED, "a", ABANDONED, "b"]
    assert (desk.reading().abandoned, desk.reading().beyond) == (1, 0)
    assert [line["kind"] for line in lines(desk.path)] == [OPENED, "a", "lost", ABANDONED, "b"]


def test_a_mark_that_did_not_commit_is_struck_out_with_what_it_struck(desk: LogDesk) -> None:
    desk.lose("first")
    desk.lose("second")
    desk.lose("third")
    desk.record("a")
    assert desk.kinds() == [ABANDONED, OPENED, "a"]
    desk.lose("fourth")
    desk.record("b")
    assert desk.kinds() == [ABANDONED, OPENED, "a", ABANDONED, "b"]


BUSY = """
import sys
from pathlib import Path
from chordesk.models.settings import Settings
from chordesk.models.database.store import Store
from chordesk.tools.orders.audit import record
settings = Settings(home=Path(sys.argv[1]))
store = Store(settings.database)
for number in range(30):
    with store.session() as session:
        record(session, settings, "busy", who=sys.argv[2], number=number)
"""


def start(code: str, desk: LogDesk, *arguments: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-c", code, str(desk.settings.home), *arguments]
    return subprocess.Popen(command, cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)})


def test_two_processes_write_one_chain(desk: LogDesk) -> None:
    running = [start(BUSY, desk, name) for name in ("one", "two")]
    assert [process.wait(PATIENCE) for process in running] == [0, 0]
    entries = [entry for entry in desk.entries() if entry.kind == "busy"]
    for name in ("one", "two"):
        assert [entry.facts["number"] for entry in entries if entry.facts["who"] == name] == list(range(30))
    assert desk.kinds() == [OPENED, *["busy"] * 60]


def test_a_change_that_cannot_be_recorded_does_not_happen(desk: LogDesk) -> None:
    desk.path.mkdir(parents=True)
    with pytest.raises(OrderError, match="cannot be written") as raised, desk.store.session() as session:
        session.add(Account(name="paper", cash=1.0))
        record(session, desk.settings, "a")
    assert str(desk.path) in str(raised.value)
    with desk.store.read() as session:
        assert session.get(Account, "paper") is None


def test_a_change_that_cannot_be_put_on_record_happens_only_to_stop_trading(desk: LogDesk) -> None:
    desk.record("before")
    aside = desk.path.rename(desk.path.with_name("aside"))
    desk.path.mkdir()
    with best_effort() as errors:
        with desk.store.session() as session:
            session.add(Account(name="paper", cash=1.0))
            record(session, desk.settings, "a")
            record(session, desk.settings, "b")
        desk.path.rmdir()
        aside.rename(desk.path)
        desk.record("c")
    assert [f"{desk.path} cannot be written (a, b)" in str(error) for error in errors] == [True]
    with desk.store.read() as session:
        assert session.get_one(Account, "paper").cash == 1.0
    assert desk.kinds() == [OPENED, "before", "c"]
    desk.path.rename(aside)
    desk.path.mkdir()
    with pytest.raises(OrderError, match="cannot be written"):
        desk.record("d")


def test_a_folder_without_a_readable_id_is_an_error_that_names_it(desk: LogDesk) -> None:
    desk.record("a")
    (desk.path.parent / "chain").write_bytes(b"\xff\xfe")
    with pytest.raises(OrderError, match="cannot be written"):
        desk.record("b")
    assert desk.kinds() == [OPENED, "a"]


# Secrets


def test_no_secret_gets_into_the_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ALPACA_SECRET_KEY", "alpaca-hidden-word")
    desk = LogDesk(
        tmp_path,
        provider="endpoint",
        provider_url="http://127.0.0.1:1/v1",
        provider_key=SecretStr("sk-hidden-word"),
        redis_url=SecretStr("redis://:hidden-word@127.0.0.1/0"),
    )
    desk.record(
        "answer",
        answer="refused for sk-hidden-word and alpaca-hidden-word",
        address="redis://me:hidden-word@host/0",
        nested=[{"api_key": "hidden-word", "authorization": "Bearer hidden-word-2"}],
        header="Authorization: Bearer hidden-word-3",
        fence=7,
    )
    text = desk.path.read_text()
    assert "hidden-word" not in text
    assert re.search(r'"fence":7', text)
    assert "redis://me:********@host/0" in text
    desk.store.close()
