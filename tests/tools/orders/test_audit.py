"""The audit log: what was written is found whole, and whatever was done to the file since is found."""

from __future__ import annotations

import datetime as dt
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import SecretStr
from sqlalchemy import event
from sqlmodel import select

from models.errors import OrderError
from models.order_tables import Account, AuditAnchor
from models.orders import DenialCode, Denied
from models.settings import Settings
from models.store import Store, upgrade
from tools.orders.audit import chain_of, log_path, record
from tools.orders.audit_chain import ABANDONED, FIRST_PREV, OPENED, Anchor, Entry, Reading, mark_of, read_chain, seal
from tools.orders.auditing import Checked, check_logs, entries_of

ROOT = Path(__file__).parents[3]


class Desk:
    """A data folder with a database."""

    def __init__(self, home: Path, **changes: Any) -> None:
        self.settings = Settings(home=home, **changes)
        upgrade(self.settings.database)
        self.store = Store(self.settings.database)
        self.path = log_path(self.settings)

    def record(self, *kinds: str, **facts: Any) -> None:
        with self.store.session() as session:
            for kind in kinds:
                record(session, self.settings, kind, **facts)

    def lose(self, kind: str) -> None:
        """A transaction that fails at its commit, with the line on disk."""
        with pytest.raises(ZeroDivisionError), self.store.session() as session:
            record(session, self.settings, kind)
            event.listen(session, "before_commit", lambda _: 1 // 0)

    def check(self, *also: Path) -> list[Checked]:
        return check_logs(self.store, self.settings, also)

    def reading(self) -> Reading:
        (found,) = self.check()
        return found.reading

    def kinds(self) -> list[str]:
        found = self.reading()
        assert found.problems == []
        return [entry.kind for entry in found.entries]

    def anchor(self) -> Anchor:
        with self.store.read() as session:
            row = session.exec(select(AuditAnchor)).one()
        return Anchor(row.count, row.head, row.size)


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    made = Desk(tmp_path / "home")
    yield made
    made.store.close()


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_bytes().splitlines()]


def test_what_is_recorded_is_read_again_in_order(desk: Desk) -> None:
    denied = Denied(code=DenialCode.COLLAR, reason="too far", measured="9%", limit="5%")
    at = dt.datetime(2010, 8, 12, 15, 55, tzinfo=dt.timezone(dt.timedelta(hours=-4)))
    desk.record("drafted", order="one", quantity=50.0, cash=Decimal("1.10"), at_market=at)
    desk.record("denied", order="two", **denied.model_dump())
    (checked,) = desk.check()
    assert (checked.whole, checked.count, checked.file) == (True, 3, desk.path)
    assert [entry.kind for entry in checked.reading.entries] == [OPENED, "drafted", "denied"]
    (drafted,) = entries_of([checked], "one")
    assert drafted.facts == {
        "order": "one", "quantity": 50.0, "cash": "1.10", "at_market": "2010-08-12T19:55:00+00:00",
    }  # fmt: skip
    assert entries_of([checked], "two")[0].facts["code"] == "collar"


def test_a_line_is_on_disk_before_what_it_says_is_so(desk: Desk) -> None:
    seen = []
    with desk.store.session() as session:
        session.add(Account(name="paper", cash=1.0))
        record(session, desk.settings, "opened_account", account="paper")
        event.listen(session, "before_commit", lambda _: seen.extend(lines(desk.path)))
    assert [line["kind"] for line in seen] == [OPENED, "opened_account"]
    with desk.store.read() as session:
        assert session.get_one(Account, "paper").cash == 1.0


def test_the_lines_of_a_transaction_come_in_the_order_of_the_calls(desk: Desk) -> None:
    desk.record("a", "b", "c")
    with desk.store.session() as session:
        record(session, desk.settings, "d")
        with session.begin_nested():
            session.add(Account(name="paper", cash=1.0))
        record(session, desk.settings, "e")
    assert desk.kinds() == [OPENED, "a", "b", "c", "d", "e"]


def test_each_line_has_the_hash_of_the_one_before(desk: Desk) -> None:
    for kind in "abc":
        desk.record(kind)
    found = lines(desk.path)
    assert [line["prev"] for line in found] == [FIRST_PREV, *(line["hash"] for line in found[:-1])]
    assert desk.anchor() == Anchor(4, found[-1]["hash"], desk.path.stat().st_size)


def test_only_its_owner_can_read_the_file(desk: Desk) -> None:
    desk.record("a")
    assert desk.path.stat().st_mode & 0o077 == 0


# What did not commit


def test_of_a_transaction_that_rolls_back_there_is_no_line(desk: Desk) -> None:
    desk.record("a")
    with pytest.raises(ZeroDivisionError), desk.store.session() as session:
        record(session, desk.settings, "b")
        raise ZeroDivisionError
    assert [line["kind"] for line in lines(desk.path)] == [OPENED, "a"]


def test_a_line_of_a_transaction_that_failed_to_commit_is_struck_out_by_the_next(desk: Desk) -> None:
    desk.record("a")
    desk.lose("lost")
    assert (desk.reading().beyond, desk.kinds()) == (1, [OPENED, "a"])
    desk.record("b")
    assert desk.kinds() == [OPENED, "a", ABANDONED, "b"]
    assert (desk.reading().abandoned, desk.reading().beyond) == (1, 0)
    assert [line["kind"] for line in lines(desk.path)] == [OPENED, "a", "lost", ABANDONED, "b"]


def test_a_mark_that_did_not_commit_is_struck_out_with_what_it_struck(desk: Desk) -> None:
    desk.lose("first")
    desk.lose("second")
    desk.lose("third")
    desk.record("a")
    assert desk.kinds() == [ABANDONED, OPENED, "a"]
    desk.lose("fourth")
    desk.record("b")
    assert desk.kinds() == [ABANDONED, OPENED, "a", ABANDONED, "b"]


DYING = """
import os, signal, sys
from pathlib import Path
from sqlalchemy import event
from models.settings import Settings
from models.store import Store
from tools.orders.audit import record
settings = Settings(home=Path(sys.argv[1]))
with Store(settings.database).session() as session:
    record(session, settings, "dying")
    event.listen(session, "before_commit", lambda _: os.kill(os.getpid(), signal.SIGKILL))
"""
BUSY = """
import sys
from pathlib import Path
from models.settings import Settings
from models.store import Store
from tools.orders.audit import record
settings = Settings(home=Path(sys.argv[1]))
store = Store(settings.database)
for number in range(30):
    with store.session() as session:
        record(session, settings, "busy", who=sys.argv[2], number=number)
"""


def start(code: str, desk: Desk, *arguments: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-c", code, str(desk.settings.home), *arguments]
    return subprocess.Popen(command, cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)})


def test_a_process_that_dies_between_line_and_commit_breaks_nothing(desk: Desk) -> None:
    desk.record("a")
    assert start(DYING, desk).wait(60) == -signal.SIGKILL
    assert lines(desk.path)[-1]["kind"] == "dying"
    assert (desk.kinds(), desk.reading().beyond) == ([OPENED, "a"], 1)
    desk.record("b")
    assert desk.kinds() == [OPENED, "a", ABANDONED, "b"]


def test_two_processes_write_one_chain(desk: Desk) -> None:
    running = [start(BUSY, desk, name) for name in ("one", "two")]
    assert [process.wait(100) for process in running] == [0, 0]
    entries = [entry for entry in desk.reading().entries if entry.kind == "busy"]
    for name in ("one", "two"):
        assert [entry.facts["number"] for entry in entries if entry.facts["who"] == name] == list(range(30))
    assert desk.kinds() == [OPENED, *["busy"] * 60]


def test_half_a_line_that_a_full_disk_left_is_struck_out(desk: Desk) -> None:
    desk.record("a")
    with desk.path.open("ab") as file:
        file.write(b'{"at":"2026')
    assert desk.kinds() == [OPENED, "a"]
    desk.record("b")
    assert desk.kinds() == [OPENED, "a", ABANDONED, "b"]


def test_what_cannot_be_put_on_record_does_not_happen(desk: Desk) -> None:
    desk.path.mkdir(parents=True)
    with pytest.raises(OrderError, match="cannot be written") as raised, desk.store.session() as session:
        session.add(Account(name="paper", cash=1.0))
        record(session, desk.settings, "a")
    assert str(desk.path) in str(raised.value)
    with desk.store.read() as session:
        assert session.get(Account, "paper") is None


# What was done to the file


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> tuple[bytes, Anchor]:
    """A log with two struck lines, and its anchor."""
    desk = Desk(tmp_path_factory.mktemp("written"))
    for number in range(3):
        desk.record("fill", order="one", number=number, why="x" * 20)
    desk.lose("lost")
    for number in range(2):
        desk.record("answer", number=number)
    desk.lose("lost")
    desk.record("last")
    desk.store.close()
    return desk.path.read_bytes(), desk.anchor()


def test_it_is_whole_as_written(written: tuple[bytes, Anchor]) -> None:
    data, anchor = written
    found = read_chain(data, anchor)
    assert (found.problems, len(found.entries), found.abandoned) == ([], anchor.count, 2)
    assert len(data) == anchor.size


many = settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@many
@given(st.data())
def test_any_altered_byte_is_found(written: tuple[bytes, Anchor], draw: st.DataObject) -> None:
    data, anchor = written
    at = draw.draw(st.integers(0, len(data) - 1))
    byte = draw.draw(st.integers(0, 255).filter(lambda value: value != data[at]))
    assert read_chain(data[:at] + bytes([byte]) + data[at + 1 :], anchor).problems


@many
@given(st.data())
def test_any_missing_piece_is_found(written: tuple[bytes, Anchor], draw: st.DataObject) -> None:
    data, anchor = written
    first = draw.draw(st.integers(0, len(data) - 1))
    last = draw.draw(st.integers(first + 1, len(data)))
    assert read_chain(data[:first] + data[last:], anchor).problems


@many
@given(st.data())
def test_any_inserted_piece_is_found(written: tuple[bytes, Anchor], draw: st.DataObject) -> None:
    data, anchor = written
    at = draw.draw(st.integers(0, len(data) - 1))
    more = draw.draw(st.binary(min_size=1, max_size=30))
    assert read_chain(data[:at] + more + data[at:], anchor).problems


@pytest.mark.parametrize("kept", range(10))
def test_a_cut_off_tail_is_found_and_said_to_be_one(written: tuple[bytes, Anchor], kept: int) -> None:
    data, anchor = written
    rows = data.splitlines(keepends=True)
    assert len(rows) == 11
    (problem,) = read_chain(b"".join(rows[:kept]), anchor).problems[-1:]
    assert problem.endswith("missing: the end of the file was cut off")


def test_a_missing_line_is_named(written: tuple[bytes, Anchor]) -> None:
    data, anchor = written
    rows = data.splitlines(keepends=True)
    assert read_chain(b"".join(rows[:2] + rows[3:]), anchor).problems == ["line 3 is missing"]
    assert read_chain(b"".join(rows[:1] + rows[3:]), anchor).problems == ["lines 2 to 3 are missing"]
    assert read_chain(b"", anchor).problems == [
        f"lines 1 to {anchor.count} are missing: the end of the file was cut off"
    ]


def test_an_altered_line_is_named(written: tuple[bytes, Anchor]) -> None:
    data, anchor = written
    altered = data.replace(b'"number":1,"order"', b'"number":7,"order"')
    assert altered != data
    assert read_chain(altered, anchor).problems == ["line 3: its content is not what its hash was made of: altered"]


def resealed(entries: list[Entry], change: dict[int, dict[str, Any]]) -> bytes:
    """A log made anew by somebody who knows its form, with other facts on some lines."""
    data, prev = b"", FIRST_PREV
    for entry in entries:
        line, prev = seal(entry.n, entry.at, entry.kind, change.get(entry.n, entry.facts), prev)
        data += line
    return data


def test_a_log_made_anew_is_found_by_its_anchor(written: tuple[bytes, Anchor]) -> None:
    data, anchor = written
    plain_entries = [entry for entry in read_chain(data, anchor).entries if entry.kind != ABANDONED]
    numbered = [Entry(n, e.at, e.kind, e.facts, e.prev, e.hash) for n, e in enumerate(plain_entries, start=1)]
    forged = resealed(numbered, {3: {"order": "one", "number": 99}})
    true_to_itself = read_chain(forged, Anchor(len(numbered), json.loads(forged.splitlines()[-1])["hash"], 0))
    assert true_to_itself.problems == []
    found = read_chain(forged, Anchor(len(numbered), anchor.head, 0)).problems
    assert found == [f"line {len(numbered)} is not the last one that the database has anchored"]


def test_a_mark_cannot_hide_lines(written: tuple[bytes, Anchor]) -> None:
    """Whoever writes a mark over real lines leaves their numbers missing."""
    data, anchor = written
    rows = data.splitlines(keepends=True)
    mark, _ = seal(4, "2026-01-01T00:00:00+00:00", ABANDONED, mark_of(rows[3]), json.loads(rows[2])["hash"])
    assert read_chain(b"".join([*rows[:4], mark, *rows[4:]]), anchor).problems


def test_a_file_that_is_gone_stays_missing_when_a_new_one_is_begun(desk: Desk) -> None:
    for kind in "abc":
        desk.record(kind)
    desk.path.unlink()
    (checked,) = desk.check()
    assert checked.reading.problems == [f"its file was not found; it was opened as {checked.place}"]
    desk.record("d")
    assert "lines 1 to 4 are missing" in desk.reading().problems


def test_a_folder_that_is_gone_stays_missing_when_a_new_one_is_begun(desk: Desk) -> None:
    desk.record("a")
    desk.path.parent.rename(desk.settings.home / "elsewhere")
    desk.record("b")
    lost, new = desk.check()
    assert (lost.whole, lost.file, new.whole, new.file) == (False, None, True, desk.path)
    both = desk.check(desk.settings.home / "elsewhere" / "audit.jsonl")
    assert [one.whole for one in both] == [True, True]


def test_an_anchor_that_is_gone_is_found(desk: Desk) -> None:
    desk.record("a")
    with desk.store.session() as session:
        session.delete(session.exec(select(AuditAnchor)).one())
    (checked,) = desk.check()
    assert "the database knows no line" in checked.reading.problems[0]


def test_a_folder_goes_on_with_a_new_database(tmp_path: Path) -> None:
    first = Desk(tmp_path / "home")
    first.record("a")
    first.store.close()
    (tmp_path / "home" / "desk.db").unlink()
    second = Desk(tmp_path / "home")
    second.record("b")
    assert second.kinds() == [ABANDONED, OPENED, "b"]
    second.store.close()


def test_a_file_that_was_lost_halfway_does_not_stop_the_desk(desk: Desk) -> None:
    for kind in "abc":
        desk.record(kind)
    os.truncate(desk.path, desk.path.stat().st_size - 10)
    desk.record("d")
    problems = desk.reading().problems
    assert problems[0] == "line 4 of the file is not a line of the log"
    assert desk.reading().entries[-1].kind == "d"


# Secrets


def test_no_secret_gets_into_the_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ALPACA_SECRET_KEY", "alpaca-hidden-word")
    desk = Desk(
        tmp_path,
        provider="endpoint",
        provider_url="http://127.0.0.1:1/v1",
        provider_key=SecretStr("sk-hidden-word"),
        redis_url=SecretStr("redis://:hidden-word@127.0.0.1/0"),
    )
    desk.record(
        "answer",
        said="refused for sk-hidden-word and alpaca-hidden-word",
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


def test_the_id_of_a_chain_is_made_once(tmp_path: Path) -> None:
    assert chain_of(tmp_path / "audit", make=True) == chain_of(tmp_path / "audit", make=True)
    assert not [path for path in (tmp_path / "audit").iterdir() if path.name != "chain"]
