"""The trade worker as a process: killed with an order in hand, started twice by mistake, halted, made to wait."""

from __future__ import annotations

import datetime as dt
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlmodel import col, select

from chordesk.models.database.store import Store
from chordesk.models.states import StepState
from chordesk.models.tables.columns import utcnow
from chordesk.models.tables.orders import Fill, Submitter
from chordesk.models.tables.runs import Decision, Step
from chordesk.tools.brokers.protocol import build_broker
from chordesk.tools.market.factory import build_market
from chordesk.tools.orders.accounts import FencingLease
from tests import zygote
from tests.constants import constants
from tests.stack import REPOSITORY, Processes, processes, wait_for
from tests.tools.orders.desk import Desk, action


@pytest.fixture
def running() -> Iterator[Processes]:
    with processes(TRADER_LIVE="1", DESK_COOLDOWN_HOURS="0", **constants(SWEEP_SECONDS=1)) as found:
        yield found


@pytest.fixture
def desk(running: Processes) -> Iterator[Desk]:
    """Writes decisions into the processes' database."""
    settings = running.settings
    store, market = Store(settings.database), build_market(settings)
    yield Desk(store, settings, market, build_broker(settings, market, store), FencingLease(store, "paper", "the test"))
    store.close()


def hand_over(running: Processes, desk: Desk, *actions: Any) -> str:
    """Hand a decision's orders to the trade queue; return the id of its step."""
    decision_id = desk.decide(*actions, deadline_at=utcnow() + dt.timedelta(hours=1))
    with desk.store.session() as session:
        run_id = session.get_one(Decision, decision_id).run_id
        step = Step(run_id=run_id, kind="submit", state="ready", payload={"decision_id": decision_id})
        session.add(step)
        session.flush()
        step_id = step.id
    running.app.send_task("desk.submit", args=[step_id])
    return step_id


def states(desk: Desk) -> dict[str, str]:
    return {row.symbol: row.state for row in desk.orders()}


def step_state(desk: Desk, step_id: str) -> str:
    with desk.store.read() as session:
        return session.get_one(Step, step_id).state


def fills(desk: Desk) -> list[str]:
    with desk.store.read() as session:
        return list(session.exec(select(Fill.symbol).order_by(col(Fill.symbol))).all())


def holder(desk: Desk) -> str:
    with desk.store.read() as session:
        return session.get_one(Submitter, "paper").owner


def command(running: Processes, *arguments: str) -> subprocess.CompletedProcess[str]:
    return zygote.run(arguments, running.environ, REPOSITORY)


def go_on(running: Processes, day: str) -> None:
    """Start the trade worker anew on a later day of the replay."""
    if "trade" in running.running:
        running.end("trade")
    running.environ["DESK_REPLAY_DATE"] = day
    running.workers("trade")
    running.app.send_task("desk.orders")


def test_killed_with_an_order_at_the_broker_it_is_filled_once(running: Processes, desk: Desk, tmp_path: Path) -> None:
    bomb = tmp_path / "bomb"
    bomb.touch()
    place, worker = "chordesk.tools.brokers.paper:PaperBroker.submit", ("worker", "trade", "--name", "trade")
    crashing = running.spawn(
        "trade", sys.executable, "-m", "tests.tasks.worker.stopping.killed_worker", str(bomb), place, *worker
    )
    hand_over(running, desk, action("AAPL"), action("IBM"))
    wait_for(lambda: crashing.poll() is not None, "the worker is killed")
    del running.running["trade"]
    assert states(desk) == {"AAPL": "submitting", "IBM": "approved"}
    assert fills(desk) == []
    go_on(running, "2010-08-12")
    wait_for(lambda: set(states(desk).values()) == {"submitted"}, "both orders are sent")
    assert fills(desk) == []
    go_on(running, "2010-08-13")
    wait_for(lambda: set(states(desk).values()) == {"filled"}, "both orders are filled")
    assert fills(desk) == ["AAPL", "IBM"]
    assert sorted((row.symbol, row.fence) for row in desk.orders()) == [("AAPL", 1), ("IBM", 2)]


def test_two_trade_workers_by_mistake_and_the_older_one_sends_nothing_more(running: Processes, desk: Desk) -> None:
    running.workers("ops", "trade-1")
    first = hand_over(running, desk, action("AAPL"))
    wait_for(lambda: step_state(desk, first) == StepState.DONE, "the first worker trades")
    running.workers("trade-2")

    def second_has_it() -> bool:
        running.app.send_task("desk.orders")
        time.sleep(0.2)
        return holder(desk).startswith("trade-2@")

    wait_for(second_has_it, "the second worker looks after the orders")
    symbols = ("IBM", "GE", "XOM", "KO")
    steps = [hand_over(running, desk, action(symbol)) for symbol in symbols]

    def all_done() -> bool:
        running.app.send_task("desk.orders")
        time.sleep(0.5)
        return {step_state(desk, step) for step in steps} == {StepState.DONE}

    wait_for(all_done, "what the older one gave back is done by the newer one")
    assert [(row.symbol, row.denial_reason) for row in desk.orders() if row.state != "submitted"] == []
    assert states(desk).keys() == {"AAPL", *symbols}
    assert {row.symbol: row.fence for row in desk.orders()} == {"AAPL": 1, **dict.fromkeys(symbols, 2)}
    wait_for(lambda: "orders.fenced_off" in running.log("trade-1"), "the older one says so")
    assert "taken by trade-2@" in running.log("trade-1")
    assert "fenced_off" not in running.log("trade-2")


def test_an_order_waits_for_a_person_and_the_queue_does_not(running: Processes, desk: Desk) -> None:
    running.environ["DESK_APPROVAL"] = "above:1000"
    running.workers("trade")
    first = hand_over(running, desk, action("AAPL"), action("IBM"), action("GE", quantity=1))
    wait_for(lambda: step_state(desk, first) == StepState.DONE, "the step does not wait")
    assert states(desk) == {"AAPL": "approval_pending", "IBM": "approval_pending", "GE": "submitted"}
    listed = {row["order"]["symbol"]: row for row in json.loads(command(running, "approvals", "--json").stdout)}
    assert set(listed) == {"AAPL", "IBM"}
    assert "AAPL" in command(running, "approvals").stdout
    no = command(running, "deny", listed["IBM"]["approval"]["id"], "--why", "enough of it")
    yes = command(running, "approve", listed["AAPL"]["order"]["id"][:8])
    assert (no.returncode, yes.returncode) == (0, 0), no.stderr + yes.stderr
    wait_for(lambda: states(desk)["AAPL"] == "submitted", "the approved order is sent")
    assert states(desk)["IBM"] == "denied"
    again = command(running, "approve", listed["AAPL"]["order"]["id"])
    assert again.returncode == 2
    assert "waits for no person" in again.stderr
    assert command(running, "approvals").stdout == "nothing waits for approval\n"


def test_halt_works_without_redis_and_flatten_closes_what_is_held(running: Processes, desk: Desk) -> None:
    running.workers("trade")
    first = hand_over(running, desk, action("AAPL"), action("IBM"))
    wait_for(lambda: step_state(desk, first) == StepState.DONE, "the worker trades")
    go_on(running, "2010-08-13")
    wait_for(lambda: fills(desk) == ["AAPL", "IBM"], "the next open comes")
    running.end("trade")
    running.end("redis")
    halted = command(running, "halt", "--why", "fire", "--flatten", "--yes")
    assert halted.returncode == 1, halted.stderr
    assert "AAPL: sell 10, submitted" in halted.stdout
    desk.next_session()
    assert desk.positions() == {}
    closed = next(row for row in desk.orders() if row.action == "close" and row.symbol == "AAPL")
    assert "close sell 10 AAPL: filled" in command(running, "orders", "show", closed.id).stdout
    rests_on = command(running, "runs", "show", closed.run_id, "--lineage", "AAPL")
    assert "decided by a person" in rests_on.stdout, rests_on.stderr
    assert (running.home / "HALT").read_text().startswith("fire (")
    (denied,) = desk.run(action("GE"))
    assert denied.denied is not None
    assert denied.denied.code == "halted"
    resumed = command(running, "resume", "--reduce-only")
    assert (resumed.returncode, resumed.stdout) == (0, "account paper gives exposure back only\n")
    (reduced,) = desk.run(action("GE"))
    assert reduced.denied is not None
    assert reduced.denied.code == "reducing"
    assert command(running, "resume").stdout == "account paper trades again\n"
    assert not (running.home / "HALT").exists()
    assert desk.run(action("GE"))[0].state == "submitted"


def test_halt_without_a_database_halts_by_the_file_and_reports_it(tmp_path: Path, running: Processes) -> None:
    running.environ["DESK_DATABASE_URL"] = f"sqlite:///{tmp_path / 'nothing' / 'desk.db'}"
    halted = command(running, "halt")
    assert halted.returncode == 1
    assert "halted: " in halted.stdout
    assert "by the file alone" in halted.stderr
    assert (running.home / "HALT").exists()
