"""Whatever was done to the audit log's file since it was written is found."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from sqlmodel import select

from chordesk.models.tables.columns import utcnow
from chordesk.models.tables.orders import AuditAnchor
from chordesk.tools.orders import audit_reading
from chordesk.tools.orders.audit import (
    ABANDONED,
    FIRST_PREV,
    OPENED,
    AuditEntry,
    ChainAnchor,
    abandoned_facts,
    parse,
    read_chain,
    seal,
)
from chordesk.tools.orders.audit_reading import check_logs, entries_of
from tests.examples import examples
from tests.tools.orders.log_desk import LogDesk


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> tuple[bytes, ChainAnchor]:
    """A log with two struck lines, and its anchor."""
    desk = LogDesk(tmp_path_factory.mktemp("written"))
    for number in range(3):
        desk.record("fill", order="one", number=number, why="x" * 20)
    desk.lose("lost")
    for number in range(2):
        desk.record("answer", number=number)
    desk.lose("lost")
    desk.record("last")
    desk.store.close()
    return desk.path.read_bytes(), desk.anchor()


def test_it_is_whole_as_written(written: tuple[bytes, ChainAnchor]) -> None:
    data, anchor = written
    found = read_chain(data, anchor)
    assert (found.problems, found.beyond, found.abandoned) == ([], 0, 2)
    assert len(data) == anchor.size


many = settings(max_examples=examples(300), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@many
@given(st.data())
def test_any_altered_byte_is_found(written: tuple[bytes, ChainAnchor], draw: st.DataObject) -> None:
    data, anchor = written
    at = draw.draw(st.integers(0, len(data) - 1))
    byte = draw.draw(st.integers(0, 255).filter(lambda value: value != data[at]))
    assert read_chain(data[:at] + bytes([byte]) + data[at + 1 :], anchor).problems


@many
@given(st.data())
def test_any_missing_piece_is_found(written: tuple[bytes, ChainAnchor], draw: st.DataObject) -> None:
    data, anchor = written
    first = draw.draw(st.integers(0, len(data) - 1))
    last = draw.draw(st.integers(first + 1, len(data)))
    assert read_chain(data[:first] + data[last:], anchor).problems


@many
@given(st.data())
def test_any_inserted_piece_is_found(written: tuple[bytes, ChainAnchor], draw: st.DataObject) -> None:
    data, anchor = written
    at = draw.draw(st.integers(0, len(data) - 1))
    more = draw.draw(st.binary(min_size=1, max_size=30))
    # After the last line such a piece looks like a line that a crash broke off: it is reported as beyond the anchor.
    assume(at < len(data) - 1 or not more.startswith((b"\n{", b"\n\0")))
    assert read_chain(data[:at] + more + data[at:], anchor).problems


def test_an_inserted_line_is_named(written: tuple[bytes, ChainAnchor]) -> None:
    """At any place: before the first line, between two, and after the last, whose newline ends it."""
    data, anchor = written
    rows = data.splitlines(keepends=True)
    for place, text in product(range(12), [b"\n", b"\n\n", b" \n", b"a note\n"]):
        problems = read_chain(b"".join([*rows[:place], text, *rows[place:]]), anchor).problems
        assert f"line {place + 1} of the file is not a line of the log" in problems, text


def test_an_inserted_blank_line_stays_a_problem_when_the_log_goes_on(desk: LogDesk) -> None:
    desk.record("a")
    with desk.path.open("ab") as file:
        file.write(b"\n")
    assert desk.reading().problems == ["line 3 of the file is not a line of the log"]
    desk.record("b")
    assert desk.reading().problems == ["line 3 of the file is not a line of the log"]
    assert [entry.kind for entry in desk.entries()] == [OPENED, "a", ABANDONED, "b"]


@pytest.mark.parametrize("left", [b"{", b'{"at":"2026', b"\0" * 40, b'{"at":"2026\0\0'])
def test_a_line_that_a_crash_broke_off_is_no_problem(desk: LogDesk, left: bytes) -> None:
    desk.record("a")
    with desk.path.open("ab") as file:
        file.write(left)
    assert (desk.kinds(), desk.reading().beyond) == ([OPENED, "a"], 1)
    desk.record("b")
    assert desk.kinds() == [OPENED, "a", ABANDONED, "b"]


def test_a_cut_off_tail_is_found_and_named(written: tuple[bytes, ChainAnchor]) -> None:
    data, anchor = written
    rows = data.splitlines(keepends=True)
    assert len(rows) == 11
    for kept in range(10):
        assert read_chain(b"".join(rows[:kept]), anchor).problems[-1].endswith("the end of the file was cut off"), kept


def test_a_missing_line_is_named(written: tuple[bytes, ChainAnchor]) -> None:
    data, anchor = written
    rows = data.splitlines(keepends=True)
    assert read_chain(b"".join(rows[:2] + rows[3:]), anchor).problems == ["line 3 is missing"]
    assert read_chain(b"".join(rows[:1] + rows[3:]), anchor).problems == ["lines 2 to 3 are missing"]
    assert read_chain(b"", anchor).problems == [
        f"lines 1 to {anchor.count} are missing: the end of the file was cut off"
    ]


def test_an_altered_line_is_named(written: tuple[bytes, ChainAnchor]) -> None:
    data, anchor = written
    altered = data.replace(b'"number":1,"order"', b'"number":7,"order"')
    assert altered != data
    assert read_chain(altered, anchor).problems == ["line 3: its content is not what its hash was made of: altered"]


def resealed(entries: list[AuditEntry], change: dict[int, dict[str, Any]]) -> bytes:
    """Return a log made anew in its right form, with other facts on some lines."""
    data, prev = b"", FIRST_PREV
    for entry in entries:
        line, prev = seal(entry.n, entry.at, entry.kind, change.get(entry.n, entry.facts), prev)
        data += line
    return data


def test_a_log_made_anew_is_found_by_its_anchor(written: tuple[bytes, ChainAnchor]) -> None:
    data, anchor = written
    kept = [entry for raw in data.splitlines() if (entry := parse(raw)) and entry.kind not in (ABANDONED, "lost")]
    numbered = [replace(entry, n=n) for n, entry in enumerate(kept, start=1)]
    forged = resealed(numbered, {3: {"order": "one", "number": 99}})
    true_to_itself = read_chain(forged, ChainAnchor(len(numbered), json.loads(forged.splitlines()[-1])["hash"], 0))
    assert true_to_itself.problems == []
    found = read_chain(forged, ChainAnchor(len(numbered), anchor.head, 0)).problems
    assert found == [f"line {len(numbered)} is not the last one that the database has anchored"]


def test_a_mark_cannot_hide_lines(written: tuple[bytes, ChainAnchor]) -> None:
    """A mark written over real lines leaves their numbers missing."""
    data, anchor = written
    rows = data.splitlines(keepends=True)
    mark, _ = seal(4, "2026-01-01T00:00:00+00:00", ABANDONED, abandoned_facts(rows[3]), json.loads(rows[2])["hash"])
    assert read_chain(b"".join([*rows[:4], mark, *rows[4:]]), anchor).problems


def test_a_file_that_is_gone_stays_missing_when_a_new_one_is_begun(desk: LogDesk) -> None:
    for kind in "abc":
        desk.record(kind)
    desk.path.unlink()
    (checked,) = desk.check()
    assert checked.reading.problems == [f"its file was not found; it was opened as {checked.place}"]
    desk.record("d")
    assert "lines 1 to 4 are missing" in desk.reading().problems


def test_a_folder_that_is_gone_stays_missing_when_a_new_one_is_begun(desk: LogDesk) -> None:
    desk.record("a")
    desk.path.parent.rename(desk.settings.home / "elsewhere")
    desk.record("b")
    lost, new = desk.check()
    assert (lost.whole, lost.file, new.whole, new.file) == (False, None, True, desk.path)
    both = desk.check(desk.settings.home / "elsewhere" / "audit.jsonl")
    assert [one.whole for one in both] == [True, True]


def test_an_anchor_that_is_gone_is_found(desk: LogDesk) -> None:
    desk.record("a")
    with desk.store.session() as session:
        session.delete(session.exec(select(AuditAnchor)).one())
    (checked,) = desk.check()
    assert "the database knows no line" in checked.reading.problems[0]


def test_a_folder_goes_on_with_a_new_database(tmp_path: Path) -> None:
    first = LogDesk(tmp_path / "home")
    first.record("a")
    first.store.close()
    (tmp_path / "home" / "desk.db").unlink()
    second = LogDesk(tmp_path / "home")
    second.record("b")
    assert second.kinds() == [ABANDONED, OPENED, "b"]
    second.store.close()


def test_a_file_that_was_lost_halfway_does_not_stop_the_desk(desk: LogDesk) -> None:
    for kind in "abc":
        desk.record(kind)
    os.truncate(desk.path, desk.path.stat().st_size - 10)
    desk.record("d")
    problems = desk.reading().problems
    assert problems[0] == "line 4 of the file is not a line of the log"
    assert desk.entries()[-1].kind == "d"


def test_a_database_older_than_its_log_is_found_also_after_it_has_gone_on(desk: LogDesk) -> None:
    desk.record("previewed", order="one")
    desk.store.close()
    base = desk.settings.home / "desk.db"
    kept = base.read_bytes()
    desk.record("submitting", order="one")
    desk.record("fill", order="one")
    assert desk.reading().problems == []
    desk.store.close()
    base.write_bytes(kept)
    wanted = "line 3: order one was sent, and the database does not know it"
    (problem,) = desk.reading().problems
    assert problem.startswith(wanted)
    desk.record("resume")
    (problem,) = desk.reading().problems
    assert problem.startswith(wanted)


def test_a_send_that_did_not_commit_is_no_send(desk: LogDesk) -> None:
    desk.record("previewed", order="one")
    desk.lose("submitting")
    assert desk.reading().problems == []
    desk.lose("submitting")
    desk.record("submitting", order="one")
    desk.lose("fill")
    desk.record("fill", order="one")
    assert desk.reading().problems == []


def test_a_log_is_read_from_its_checkpoint_on(desk: LogDesk, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is altered after the checkpoint, or cut off before it, is found; what is altered before it by a whole check,
    which a desk with a small log always makes."""
    monkeypatch.setattr(audit_reading, "CHECKPOINT_BYTES", 1)
    desk.record("a", "b", order="one")
    desk.lose("lost")
    (first,) = desk.check()
    desk.record("c", order="one")
    (second,) = desk.check()
    assert ((first.since, second.since), desk.kinds()) == ((0, 3), [OPENED, "a", "b", ABANDONED, "c"])
    assert [line.kind for line in entries_of([second], "one", utcnow())] == ["a", "b", "c"]
    desk.record("d")
    data = desk.path.read_bytes()
    for kind, found in (("d", True), ("b", False)):
        desk.path.write_bytes(data.replace(f'"kind":"{kind}"'.encode(), b'"kind":"x"'))
        (quick,), (whole,) = desk.check(), check_logs(desk.store, desk.settings, whole=True)
        assert (quick.whole, whole.whole) == (not found, False)
    desk.path.write_bytes(data[: data.index(b'{"at', 600)])
    assert not desk.check()[0].whole
