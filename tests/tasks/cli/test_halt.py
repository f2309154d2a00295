"""`desk halt` when something that it would like to write cannot be written: it halts by what is left, and says so."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlmodel import col, select, update

from models.columns import utcnow
from models.order_tables import Approval, Order, Trading
from models.settings import Settings
from models.store import Store, upgrade
from tests.tasks.cli.running import desk as command
from tests.tools.orders.desk import DEFAULTS, Desk, action
from tools.brokers.factory import build_broker
from tools.market.factory import build_market
from tools.orders.auditing import check_logs
from tools.orders.fence import Seat


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    """A desk that holds AAPL, and has an order on IBM at the broker and one on GE that waits for a person."""
    settings = Settings(home=tmp_path / "home", approval="above:1", **DEFAULTS)
    upgrade(settings.database)
    store, market = Store(settings.database), build_market(settings)
    made = Desk(store, settings, market, build_broker(settings, market, store), Seat(store, "paper", "the test"))
    assert made.process(made.decide(action("AAPL")), approval="auto")[0].state == "filled"
    made.process(made.decide(action("IBM")), trader_live=False)
    with store.session() as session:
        sent = {"state": "submitted", "fence": 1, "sent_at": utcnow()}
        session.exec(update(Order).where(col(Order.symbol) == "IBM").values(**sent))
    assert made.run(action("GE"))[0].state == "approval_pending"
    yield made
    store.close()


def halt(desk: Desk, *arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
    return command(desk.settings.home, "halt", "--why", "fire", *arguments, TRADER_LIVE="1", **environ)


def states(desk: Desk) -> dict[str, str]:
    return {row.symbol: row.state for row in desk.orders() if row.action == "open"}


def flag(desk: Desk) -> str | None:
    with desk.store.read() as session:
        row = session.get(Trading, "paper")
    return row.state if row else None


def all_was_done(desk: Desk) -> bool:
    with desk.store.read() as session:
        question = session.exec(select(Approval)).one()
    done: Any = (flag(desk), states(desk), desk.positions(), question.state, question.decided_by)
    wanted = {"AAPL": "filled", "IBM": "cancelled", "GE": "denied"}
    return bool(done == ("halted", wanted, {}, "denied", "desk"))


def test_a_log_that_cannot_be_written_holds_nothing_up(desk: Desk) -> None:
    log = desk.settings.home / "audit"
    aside = log.rename(desk.settings.home / "aside")
    log.write_text("in the way")
    halted = halt(desk, "--flatten")
    assert halted.returncode == 1
    assert "account paper halted; 1 waiting orders denied" in halted.stdout
    assert "open orders: none" in halted.stdout
    assert "AAPL: sell 10, filled, 10 filled" in halted.stdout
    assert f"the audit log {log / 'audit.jsonl'} cannot be written (halt, denied, approval_decided)" in halted.stderr
    assert "it was done all the same, and is not on record" in halted.stderr
    assert all_was_done(desk)
    assert (desk.settings.home / "HALT").exists()
    log.unlink()
    aside.rename(log)
    assert all(chain.whole for chain in check_logs(desk.store, desk.settings))


def test_a_file_that_cannot_be_written_leaves_the_rest(desk: Desk) -> None:
    path = desk.settings.home / "HALT"
    path.mkdir()
    halted = halt(desk, "--flatten")
    assert halted.returncode == 1
    assert f"the HALT file {path} cannot be written" in halted.stderr
    assert "halted: " not in halted.stdout
    assert "AAPL: sell 10, filled, 10 filled" in halted.stdout
    assert all_was_done(desk)


def test_a_database_that_refuses_the_flag_leaves_the_file_and_the_cancels(desk: Desk) -> None:
    with desk.store.session() as session:
        rule = "create trigger full before insert on trading begin select raise(abort, 'disk full'); end"
        session.connection().exec_driver_sql(rule)
    halted = halt(desk)
    assert halted.returncode == 1
    assert "by the file alone" in halted.stderr
    assert "open orders: none" in halted.stdout
    assert states(desk) == {"AAPL": "filled", "IBM": "cancelled", "GE": "approval_pending"}
    assert (desk.settings.home / "HALT").read_text().startswith("fire (")
    assert flag(desk) is None


def test_without_file_and_database_it_says_that_nothing_is_halted(desk: Desk, tmp_path: Path) -> None:
    (desk.settings.home / "HALT").mkdir()
    halted = halt(desk, DESK_DATABASE_URL=f"sqlite:///{tmp_path / 'nothing' / 'desk.db'}")
    assert halted.returncode == 1
    assert "NOTHING IS HALTED" in halted.stderr
    assert flag(desk) is None


def test_a_halt_and_a_resume_that_go_well_say_so(desk: Desk) -> None:
    halted = halt(desk, "--flatten")
    assert (halted.returncode, halted.stderr) == (0, "")
    assert all_was_done(desk)
    shown = command(desk.settings.home, "approvals").stdout
    assert shown == "no order waits for approval\n"
    with desk.store.read() as session:
        question = session.exec(select(Approval)).one()
    late = command(desk.settings.home, "approve", question.id)
    assert late.returncode == 2
    assert "waits for nobody: it is denied, halted: trading of paper is halted: fire" in late.stderr
    resumed = command(desk.settings.home, "resume")
    assert (resumed.returncode, resumed.stdout) == (0, "account paper trades again\n")
    assert not (desk.settings.home / "HALT").exists()
    assert flag(desk) == "active"
