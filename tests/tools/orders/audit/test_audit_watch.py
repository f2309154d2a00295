"""A log that is not whole halts the account before an order is sent, until a person accepts the break."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from chordesk.models.errors import OrderError, UsageError
from chordesk.models.states import TradingState
from chordesk.tools.orders import audit_watch, kill_switch
from chordesk.tools.orders.audit import CHAIN
from chordesk.tools.orders.halting import trading_state
from tests.tools.orders.desk import Desk, action
from tests.tools.orders.log_desk import LogDesk

BY = "ann@desk"


def _lines(path: Path) -> list[bytes]:
    return path.read_bytes().splitlines(keepends=True)


def edit(path: Path) -> None:
    lines = _lines(path)
    lines[2] = lines[2].replace(b"second", b"secant")
    path.write_bytes(b"".join(lines))


def cut_the_end(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-30])


def remove_a_line(path: Path) -> None:
    lines = _lines(path)
    path.write_bytes(b"".join(lines[:2] + lines[3:]))


def insert_a_line(path: Path) -> None:
    lines = _lines(path)
    path.write_bytes(b"".join([*lines[:2], lines[1], *lines[2:]]))


def remove_the_file(path: Path) -> None:
    path.unlink()


def remove_the_folder(path: Path) -> None:
    path.unlink()
    (path.parent / CHAIN).unlink()


def append_a_line(path: Path) -> None:
    """A copy of another line, which the next honest line would strike out as one that did not commit."""
    path.write_bytes(path.read_bytes() + _lines(path)[1].replace(b"first", b"forged"))


DAMAGES = [append_a_line, edit, cut_the_end, remove_a_line, insert_a_line, remove_the_file, remove_the_folder]


def state_of(desk: LogDesk) -> tuple[TradingState, str]:
    with desk.store.read() as session:
        return trading_state(session, desk.settings, desk.settings.account)


def look(desk: LogDesk) -> audit_watch.Break | None:
    return audit_watch.halt_if_broken(desk.store, desk.settings, desk.settings.account, "trade")


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_break_halts_until_a_person_accepts_it(tmp_path: Path, damage: Callable[[Path], None]) -> None:
    desk = LogDesk(tmp_path)
    desk.record("first", "second", "third", "fourth")
    assert look(desk) is None
    damage(desk.path)
    found = look(desk)
    assert found is not None
    state, why = state_of(desk)
    assert state is TradingState.HALTED
    assert f"`desk audit accept {found.line} --reason TEXT`" in why
    with pytest.raises(OrderError, match="the audit log is not whole"):
        kill_switch.resume(desk.store, desk.settings, BY)
    with pytest.raises(UsageError, match=f"breaks at line {found.line}, not 99"):
        audit_watch.accept(desk.store, desk.settings, 99, "a test", BY)
    assert audit_watch.accept(desk.store, desk.settings, found.line, "a test", BY) == [desk.settings.account]
    assert state_of(desk)[0] is TradingState.ACTIVE
    desk.record("fifth")
    assert look(desk) is None
    with pytest.raises(UsageError, match="the audit log is whole"):
        audit_watch.accept(desk.store, desk.settings, found.line, "again", BY)


def test_an_acceptance_covers_no_later_change_and_none_that_nobody_made(tmp_path: Path) -> None:
    desk = LogDesk(tmp_path)
    desk.record("first", "second", "third")
    edit(desk.path)
    whole = desk.path.read_bytes()
    assert look(desk) is not None
    audit_watch.accept(desk.store, desk.settings, 3, "a test", BY)
    desk.path.write_bytes(desk.path.read_bytes().replace(b"third", b"thirt"))
    found = look(desk)
    assert found is not None
    assert found.line == 3, "what was accepted is not what is there"
    other = LogDesk(tmp_path / "other")
    other.record("first", "second", "third")
    edit(other.path)
    accepted = desk.path.read_bytes()[len(whole) :]
    with other.path.open("ab") as file:
        file.write(accepted)
    assert look(other) is not None, "lines of another log's acceptance count for nothing"


def test_orders_that_wait_are_denied_and_not_sent_when_the_log_was_altered(new_desk: Callable[..., Desk]) -> None:
    desk = new_desk()
    desk.run(action("AAA"))
    sent = len(desk.fills())
    path = desk.settings.home / "audit" / "audit.jsonl"
    path.write_bytes(path.read_bytes().replace(b'"kind":"drafted"', b'"kind":"draftee"', 1))
    outcomes = desk.run(action("BBB", notional=1_020.0))
    assert [row.state for row in outcomes] == ["denied"]
    assert len(desk.fills()) == sent


def test_a_killed_writer_and_a_lost_id_are_no_break(tmp_path: Path) -> None:
    desk = LogDesk(tmp_path)
    desk.record("first", "second")
    whole = _lines(desk.path)
    desk.path.write_bytes(b"".join([*whole, whole[-1][:40]]))  # killed within its last line
    assert look(desk) is None
    (desk.path.parent / CHAIN).unlink()
    desk.record("third")
    assert look(desk) is None
    assert _lines(desk.path)[: len(whole)] == whole
    assert len(audit_watch.check_logs(desk.store, desk.settings, whole=True)) == 1, "the log goes on as it was"
