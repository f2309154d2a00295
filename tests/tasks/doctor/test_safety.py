"""The pre-flight of what stands behind an order: its log, its mandate, and the prices of what is held."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from sqlmodel import select

from chordesk.models.market import Quote
from chordesk.models.tables.columns import utcnow
from chordesk.models.tables.orders import AuditAnchor, Position
from chordesk.tasks import bootstrap
from chordesk.tasks.cli import arming
from chordesk.tasks.cli.show.status_display import status_report
from chordesk.tasks.doctor import trading
from chordesk.tasks.doctor.check import Check, CheckContext, CheckStatus
from chordesk.tasks.reading.desk_status import status
from chordesk.tools.ledger import ensure_account
from chordesk.tools.orders import halting
from chordesk.tools.orders.audit import log_path, record
from tests.databases import make_database
from tests.tasks.cli.console import rendered
from tests.tasks.doctor.test_doctor import check_context, one
from tests.tools.orders.tape import Tape

PUT = "AAA100918P00090000"


@pytest.fixture
def context(tmp_path: Path) -> Iterator[CheckContext]:
    """Yield the context of a desk with two lines in its log."""
    made = opened(tmp_path)
    write(made, "a")
    yield made
    made.desk.close()


def opened(home: Path, **settings: Any) -> CheckContext:
    made = check_context(home, **settings)
    make_database(made.settings.database)
    return made


def write(context: CheckContext, kind: str) -> None:
    with context.desk.store.session() as session:
        record(session, context.settings, kind)


def test_a_log_that_is_whole(context: CheckContext) -> None:
    path = log_path(context.settings)
    assert one("audit log", context) == Check("audit log", CheckStatus.OK, f"{path}: 2 lines, whole")
    assert sorted(child.name for child in path.parent.iterdir()) == ["audit.jsonl", "chain"], "it leaves no trace"


def test_before_the_first_line_there_is_nothing_to_verify(tmp_path: Path) -> None:
    fresh = check_context(tmp_path / "fresh")
    assert "nothing is on record yet" in one("audit log", fresh).detail
    assert not log_path(fresh.settings).parent.exists()
    make_database(fresh.settings.database)
    found = one("audit log", fresh)
    assert (found.status, "nothing is on record yet" in found.detail) == (CheckStatus.OK, True)


def test_an_altered_log_fails_with_the_line(context: CheckContext) -> None:
    path = log_path(context.settings)
    path.write_bytes(path.read_bytes().replace(b'"kind":"a"', b'"kind":"b"'))
    found = one("audit log", context)
    assert found.status is CheckStatus.FAIL
    assert "line 2: its content is not what its hash was made of" in found.detail
    assert "desk audit verify" in found.remedy


def test_a_log_that_is_gone_fails(context: CheckContext) -> None:
    log_path(context.settings).unlink()
    found = one("audit log", context)
    assert (found.status, "its file was not found" in found.detail) == (CheckStatus.FAIL, True)


@pytest.mark.parametrize("what", ["folder", "log"])
def test_a_log_that_cannot_be_written_is_named(context: CheckContext, what: str) -> None:
    path = log_path(context.settings)
    blocked = path.parent if what == "folder" else path
    blocked.rename(context.settings.home / "aside")
    if what == "folder":
        blocked.write_text("in the way")
    else:
        blocked.mkdir()
    found = one("audit log", context)
    assert found.status is CheckStatus.FAIL
    assert f"{path.parent} cannot be written" in found.detail
    assert "each order needs its line in the log" in found.remedy


def test_a_log_of_another_host_is_reported_and_does_not_fail(context: CheckContext) -> None:
    with context.desk.store.session() as session:
        session.add(AuditAnchor(chain="c", place="elsewhere:/data/audit", count=3, head="h", size=9))
    found = one("audit log", context)
    assert (found.status, "1 more of other data folders" in found.detail) == (CheckStatus.WARN, True)
    with context.desk.store.session() as session:
        mine = session.exec(select(AuditAnchor.place).where(AuditAnchor.chain != "c")).one()
        session.get_one(AuditAnchor, "c").place = mine  # one that was begun here, and is gone
    assert one("audit log", context).status is CheckStatus.FAIL


# Protection


def test_shares_without_a_stop_are_named_by_the_doctor_and_the_status(tmp_path: Path) -> None:
    context = opened(tmp_path, protect="stop:8%", trader_live=True)
    assert one("protection", context).status is CheckStatus.OK
    with context.desk.store.session() as session:
        ensure_account(session, "paper", 1_000.0)
        session.add(Position(account="paper", symbol="AAA", quantity=10, average_cost=100, filled_at=utcnow()))
    found = one("protection", context)
    line = "10 AAA (the next pass over the orders places it)"
    assert (found.status, found.detail) == (CheckStatus.WARN, f"DESK_PROTECT=stop:8%, and without a stop: {line}")
    assert "the trade worker places a stop each minute" in found.remedy
    shown = status(context.settings, running=False)
    assert shown.database is not None
    expected = {"symbol": "AAA", "quantity": 10.0, "why": "the next pass over the orders places it"}
    assert shown.model_dump(mode="json")["database"]["unprotected"] == [expected]
    assert f"without a stop: {line}" in rendered(status_report(shown), 200)
    context.desk.close()


# The mandate


def test_play_money_needs_no_mandate(context: CheckContext) -> None:
    assert one("mandate", context) == Check("mandate", CheckStatus.OK, "paper moves no real money and needs none")


@pytest.mark.parametrize(
    ("case", "status", "expected"),
    [
        ("armed", CheckStatus.OK, "mandate 1 of alpaca-live until"),
        ("none", CheckStatus.FAIL, "no mandate was ever armed for alpaca-live"),
        ("forged", CheckStatus.FAIL, "mandate 1 is not signed by the key"),
        ("ended", CheckStatus.FAIL, "mandate 1 ended at"),
        ("disarmed", CheckStatus.FAIL, "mandate 1 was disarmed by bob"),
    ],
)
def test_real_money_needs_a_mandate_that_holds(tmp_path: Path, case: str, status: CheckStatus, expected: str) -> None:
    key = Ed25519PrivateKey.generate()
    context = opened(tmp_path, broker="alpaca-live", mandate_public_key=arming.public_text(key))
    if case != "none":
        signer = Ed25519PrivateKey.generate() if case == "forged" else key
        hours = 1e-6 if case == "ended" else 8.0
        arming.arm(
            context.desk.store, context.settings, signer, "alpaca-live", Decimal(10_000), 3, ["IBM"], hours, "ann"
        )
    if case == "disarmed":
        halting.disarm(context.desk.store, context.settings, None, "bob")
    found = one("mandate", context)
    assert (found.status, expected in found.detail) == (status, True), found
    assert ("desk arm" in found.remedy) is (status is CheckStatus.FAIL)
    if case == "armed":
        assert "0 of 3 orders, 0.00 of 10,000.00 used" in found.detail
    context.desk.close()


# What is held


class Options(Tape):
    """A tape that prices contracts, and not as shares."""

    def option_quote(self, contract: str) -> Quote:
        return Quote(symbol=contract, price=2.5, at=self.clock.now(), source=self.name)


def test_an_option_position_is_priced_by_its_contract(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bootstrap, "build_market", lambda _settings, _key: Options({"AAA": 100.0}))
    context = opened(tmp_path)
    with context.desk.store.session() as session:
        ensure_account(session, "paper", 10_000.0)
        at = utcnow() - dt.timedelta(days=1)
        session.add(Position(account="paper", symbol=PUT, quantity=-2, average_cost=3.0, filled_at=at))
        session.add(Position(account="paper", symbol="AAA", quantity=1, average_cost=90.0, filled_at=at))
    assert "cash 10,000.00, equity 9,600.00, 2 positions" in trading.broker(context).detail
    context.desk.close()


def test_no_rule_asks_for_no_stop(context: CheckContext) -> None:
    rule = "DESK_PROTECT=none: no rule places a stop; a position whose plan has one gets it"
    assert one("protection", context) == Check("protection", CheckStatus.OK, f"{rule}; no share is held")


def test_before_there_is_a_database_there_is_no_mandate(tmp_path: Path) -> None:
    assert trading.mandate(check_context(tmp_path, broker="alpaca-live")).status is CheckStatus.FAIL
