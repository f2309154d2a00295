"""`desk halt` when one of its records cannot be written: it halts by what is left, and reports that."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlmodel import col, select, update

from chordesk.models.database.store import Store
from chordesk.models.settings import Settings
from chordesk.models.settings.running_desk import snapshot
from chordesk.models.tables.columns import utcnow
from chordesk.models.tables.orders import Approval, Order, Position, Preview, Submitter, Trading
from chordesk.tools.brokers.protocol import build_broker
from chordesk.tools.ledger import ensure_account
from chordesk.tools.market.factory import build_market
from chordesk.tools.orders.accounts import FencingLease
from chordesk.tools.orders.audit_reading import check_logs
from chordesk.tools.orders.protection import keep_protected
from tests.databases import make_database
from tests.patience import PATIENCE
from tests.tasks.cli.running import desk as command
from tests.tasks.cli.running import environment
from tests.tasks.cli.setup.terminal import Terminal
from tests.tools.orders.desk import DEFAULTS, Desk, action


def place_orders(desk: Desk) -> None:
    """A position in AAPL, an order on IBM at the broker, and one on GE that waits for a person."""
    assert desk.process(desk.decide(action("AAPL")), approval="auto")[0].state == "submitted"
    desk.next_session()
    desk.process(desk.decide(action("IBM")), trader_live=False)
    with desk.store.session() as session:
        sent = {"state": "submitted", "fence": 1, "sent_at": utcnow()}
        session.exec(update(Order).where(col(Order.symbol) == "IBM").values(**sent))
    assert desk.run(action("GE"))[0].state == "approval_pending"


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    """A desk that holds AAPL, and has an order on IBM at the broker and one on GE that waits for a person."""
    settings = Settings(home=tmp_path / "home", approval="above:1", **DEFAULTS)
    make_database(settings.database)
    store, market = Store(settings.database), build_market(settings)
    made = Desk(
        store, settings, market, build_broker(settings, market, store), FencingLease(store, "paper", "the test")
    )
    place_orders(made)
    yield made
    store.close()


def halt(desk: Desk, *arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
    return command(desk.settings.home, "halt", "--why", "fire", *arguments, TRADER_LIVE="1", **environ)


def states(desk: Desk) -> dict[str, str]:
    return {row.symbol: row.state for row in desk.orders() if row.action == "open"}


def flag(desk: Desk, account: str = "paper") -> str | None:
    with desk.store.read() as session:
        row = session.get(Trading, account)
    return row.state if row else None


def all_was_done(desk: Desk) -> bool:
    """The position is closed at the next open."""
    assert desk.positions() == {"AAPL": 10}
    desk.next_session()
    with desk.store.read() as session:
        question = session.exec(select(Approval)).one()
    done: Any = (flag(desk), states(desk), desk.positions(), question.state, question.decided_by)
    wanted = {"AAPL": "filled", "IBM": "cancelled", "GE": "denied"}
    return bool(done == ("halted", wanted, {}, "denied", "desk"))


def test_a_log_that_cannot_be_written_holds_nothing_up(desk: Desk) -> None:
    log = desk.settings.home / "audit"
    aside = log.rename(desk.settings.home / "aside")
    log.write_text("in the way")
    halted = halt(desk, "--flatten", "--yes")
    assert halted.returncode == 1
    assert "account paper halted; waiting orders denied: 1" in halted.stdout
    assert "open orders: none" in halted.stdout
    assert "AAPL: sell 10, submitted" in halted.stdout
    assert f"the audit log {log / 'audit.jsonl'} cannot be written (halt, denied, approval_decided)" in halted.stderr
    assert "it was done all the same, and is not on record" in halted.stderr
    assert (desk.settings.home / "HALT").exists()
    log.unlink()
    aside.rename(log)
    assert all_was_done(desk)
    assert all(chain.whole for chain in check_logs(desk.store, desk.settings))


def test_a_flatten_is_confirmed_by_a_typed_line_and_a_halt_is_not(desk: Desk) -> None:
    alone = halt(desk, "--flatten")
    assert alone.returncode == 2
    assert "nobody confirmed it, and nothing was halted" in alone.stderr
    assert "a script adds --yes" in alone.stderr
    assert (flag(desk), (desk.settings.home / "HALT").exists()) == (None, False)
    wrong = at_a_terminal(desk, "flatten")
    assert "'flatten' does not confirm it, and nothing was halted" in wrong
    assert flag(desk) is None
    right = at_a_terminal(desk, "flatten paper")
    assert "closed: AAPL 10" in right
    assert "every position that the desk holds on account paper is closed at market" in right
    assert all_was_done(desk)


def test_a_terminal_shows_the_order_and_approves_that_one_alone(desk: Desk) -> None:
    with desk.store.read() as session:
        asked = session.exec(select(Approval)).one()
    with Terminal(desk.settings.home, "approve", asked.order_id[:8]) as terminal:
        terminal.waits_for("GE")
        terminal.waits_for("approve it?")
        with desk.store.session() as session:
            preview = session.exec(select(Preview).where(Preview.order_id == asked.order_id)).one()
            shown, preview.payload_hash = preview.payload_hash, "1" * 64
        terminal.types("", "y")
        assert terminal.ends() == 2
        assert "is not the one that waits (111111111111)" in terminal.shown
    assert states(desk)["GE"] == "approval_pending"
    with desk.store.session() as session:
        session.exec(select(Preview).where(Preview.order_id == asked.order_id)).one().payload_hash = shown
    done = command(desk.settings.home, "approve", asked.order_id)
    assert "no worker that trades is seen to run: start the desk" in done.stdout, done


def at_a_terminal(desk: Desk, typed: str) -> str:
    """Return what a halt with --flatten prints at a terminal, for one typed line."""
    ours, theirs = pty.openpty()
    environ = environment(desk.settings.home, TRADER_LIVE="1")
    command = [sys.executable, "-m", "chordesk.tasks.cli.main", "halt", "--flatten"]
    with subprocess.Popen(
        command, env=environ, cwd=desk.settings.home, stdin=theirs, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    ) as halting:
        os.write(ours, f"{typed}\n".encode())
        shown, _ = halting.communicate(timeout=PATIENCE)
    os.close(ours)
    os.close(theirs)
    return shown.decode()


def test_a_file_that_cannot_be_written_leaves_the_rest(desk: Desk) -> None:
    path = desk.settings.home / "HALT"
    path.mkdir()
    halted = halt(desk, "--flatten", "--yes")
    assert halted.returncode == 1
    assert f"the HALT file {path} cannot be written" in halted.stderr
    assert "halted: " not in halted.stdout
    assert "AAPL: sell 10, submitted" in halted.stdout
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


def test_without_file_and_database_it_reports_that_nothing_is_halted(desk: Desk, tmp_path: Path) -> None:
    (desk.settings.home / "HALT").mkdir()
    halted = halt(desk, DESK_DATABASE_URL=f"sqlite:///{tmp_path / 'nothing' / 'desk.db'}")
    assert halted.returncode == 1
    assert "NOTHING IS HALTED" in halted.stderr
    assert flag(desk) is None


def test_a_wrong_setting_is_named_and_holds_nothing_up(desk: Desk) -> None:
    wrong = {"DESK_MAX_ORDER_NOTIONAL": "much", "DESK_FOO": "1", "DESK_ROLE_MODELS": "nobody=codex:x"}
    done = halt(desk, "--flatten", "--yes", **wrong, DESK_REDIS_URL="redis://127.0.0.1:1")
    assert all_was_done(desk), done.stdout + done.stderr
    assert (done.returncode, "Traceback" in done.stderr) == (1, False)
    warnings = [line for line in done.stderr.splitlines() if line.startswith("warning: ")]
    assert any("DESK_MAX_ORDER_NOTIONAL='much'" in line for line in warnings)
    assert any("DESK_FOO (from environment) is not a setting" in line for line in warnings)
    assert all(line.endswith("this halt goes on without it") for line in warnings)


def test_a_halt_and_a_resume_that_go_well_are_confirmed(desk: Desk) -> None:
    halted = halt(desk, "--flatten", "--yes")
    assert (halted.returncode, halted.stderr) == (1, ""), "the closing order waits for the next open"
    assert all_was_done(desk)
    shown = command(desk.settings.home, "approvals").stdout
    assert shown == "nothing waits for approval\n"
    status = " ".join(command(desk.settings.home, "status").stdout.split())
    assert re.search(r"account paper is halted since [^;]+ by \S+: fire; one order denied since, open GE at", status)
    assert "`desk resume` lets it trade" in status
    with desk.store.read() as session:
        question = session.exec(select(Approval)).one()
    late = command(desk.settings.home, "approve", question.id)
    assert late.returncode == 2
    assert "waits for no person: it is denied, halted: trading of paper is halted: fire" in late.stderr
    resumed = command(desk.settings.home, "resume")
    assert (resumed.returncode, resumed.stdout) == (0, "account paper trades again\n")
    assert not (desk.settings.home / "HALT").exists()
    assert flag(desk) == "active"
    assert "halted" not in command(desk.settings.home, "status").stdout


def elsewhere(desk: Desk, *, held: bool) -> None:
    """Another account, which a worker of another host may trade; with a position and an order that waits."""
    with desk.store.session() as session:
        ensure_account(session, "alpaca-paper", 100_000)
        session.add(Submitter(account="alpaca-paper", token=3, owner="trade@elsewhere" if held else ""))
        if held:
            row = {"symbol": "AAPL", "quantity": 10, "average_cost": 100, "filled_at": utcnow()}
            session.add(Position(account="alpaca-paper", **row))
            session.exec(update(Order).where(col(Order.symbol) == "GE").values(account="alpaca-paper"))


def test_it_halts_every_account_and_names_the_broker_that_it_did_not_ask(desk: Desk) -> None:
    elsewhere(desk, held=True)
    halted = halt(desk, "--flatten", "--yes")
    assert halted.returncode == 1
    assert "account paper halted; waiting orders denied: 0" in halted.stdout
    assert "account alpaca-paper halted; waiting orders denied: 1" in halted.stdout
    assert "AAPL: sell 10, submitted" in halted.stdout
    warning = "the broker of account alpaca-paper was not asked, only paper was"
    assert f"{warning}: positions AAPL" in halted.stderr
    assert "DESK_BROKER=alpaca-paper desk halt --flatten" in halted.stderr
    assert (flag(desk), flag(desk, "alpaca-paper")) == ("halted", "halted")
    assert states(desk)["GE"] == "denied"


def test_a_resume_is_of_its_own_account_and_names_those_that_stay_halted(desk: Desk) -> None:
    elsewhere(desk, held=False)
    halted = halt(desk)
    assert (halted.returncode, halted.stderr) == (0, ""), "nothing is left there to warn of"
    resumed = command(desk.settings.home, "resume")
    assert resumed.returncode == 0
    stays = "account alpaca-paper stays halted: DESK_BROKER=alpaca-paper desk resume"
    assert resumed.stdout.splitlines() == ["account paper trades again", stays]
    assert (flag(desk), flag(desk, "alpaca-paper")) == ("active", "halted")
    again = command(desk.settings.home, "resume", DESK_BROKER="alpaca-paper")
    assert again.stdout == "account alpaca-paper trades again\n"
    assert flag(desk, "alpaca-paper") == "active"


def test_it_asks_another_broker_than_the_running_desks(desk: Desk) -> None:
    run = desk.settings.home / "run"
    run.mkdir(exist_ok=True)
    (run / "services.json").write_text(json.dumps(snapshot(desk.settings)))
    with (run / "up.lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        refused = command(desk.settings.home, "reconcile", DESK_BROKER="alpaca-paper")
        halted = halt(desk, DESK_BROKER="alpaca-paper")
    assert "DESK_BROKER='alpaca-paper' (from environment), but its workers have broker='paper'" in refused.stderr
    assert halted.returncode == 1
    assert "needs ALPACA_API_KEY and ALPACA_SECRET_KEY" in halted.stderr
    assert "the broker of account paper was not asked, only alpaca-paper was" in halted.stderr
    assert (flag(desk), flag(desk, "alpaca-paper")) == ("halted", "halted")


def protect(desk: Desk) -> str:
    """Put a stop beside the position in AAPL, as a desk with DESK_PROTECT does; return its id."""
    keep_protected(desk.context(protect="stop:8%"))
    (stop,) = [order for order in desk.orders() if order.protects]
    assert (stop.state, stop.symbol, stop.order_type) == ("submitted", "AAPL", "stop")
    return stop.id


def test_a_halt_leaves_protective_orders_and_names_them(desk: Desk) -> None:
    stop = protect(desk)
    halted = halt(desk)
    assert halted.returncode == 0, halted.stderr
    assert f"protective orders stay in force: {stop}; --flatten cancels them" in halted.stdout
    assert [order.state for order in desk.orders() if order.protects] == ["submitted"]
    assert "AAPL" in desk.positions()


def test_flattening_cancels_protective_orders_and_closes_what_they_protected(desk: Desk) -> None:
    protect(desk)
    halted = halt(desk, "--flatten", "--yes")
    assert halted.returncode == 1, halted.stderr
    assert "protective" not in halted.stdout
    assert [order.state for order in desk.orders() if order.protects] == ["cancelled"]
    desk.next_session()
    assert desk.positions() == {}
