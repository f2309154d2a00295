"""Notices raised by their real causes in a desk at work: real workers, Redis, app-server and commands, and the process
that sends to a far side on loopback."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from sqlmodel import select

from chordesk.models.states import RUN_FINAL, OrderState
from chordesk.models.tables.orders import Order
from chordesk.models.tables.runs import Run
from chordesk.tasks.workflows.screen import open_screen
from chordesk.tools.orders.sessions import to_next_session
from tests import zygote
from tests.constants import constants
from tests.fakes.channel import FakeChannel, Got
from tests.patience import PATIENCE
from tests.stack import Processes, processes, wait_for

SYMBOLS = (
    "AAPL,IBM,TGT,GOOG,XOM,GE,JPM,BAC,WMT,PG,JNJ,KO,PEP,MRK,PFE,INTC,CSCO,ORCL,HPQ,T,VZ,CVX,C,WFC,MMM,CAT,BA,DIS,HD,MCD"
)


@pytest.fixture(scope="module")
def far() -> Iterator[FakeChannel]:
    with FakeChannel() as found:
        yield found


@pytest.fixture(scope="module")
def desk(far: FakeChannel) -> Iterator[Processes]:
    given = {"DESK_NOTIFY_CHANNELS": far.variable("phone"), **constants(WINDOW_SECONDS=1, SWEEP_SECONDS=600)}
    given |= {"DESK_NOTIFY_PAGE_URL": "http://127.0.0.1:8123", "TRADER_LIVE": "1", "DESK_APPROVAL": "manual"}
    with processes(**given, DESK_LEASE_SECONDS="3") as found:
        found.rulebook()
        found.desk("notify", "notify", "run")
        found.workers("research", "ops", "trade")
        wait_for(lambda: "notify.sends" in found.log("notify"), "the sender holds the lease")
        yield found


def command(desk: Processes, *arguments: str) -> None:
    done = zygote.run(arguments, desk.environ, desk.home, PATIENCE)
    assert done.returncode == 0, done.stdout + done.stderr


def state_of(desk: Processes, run: Run) -> str:
    with desk.app.desk.store.read() as session:
        return session.get_one(Run, run.id).state


def arrived(far: FakeChannel, text: str) -> Got:
    """Wait for a message with this in its title or its text."""
    wait_for(lambda: any(text in f"{one.title}\n{one.text}" for one in far.got), f"a message with {text!r}")
    return next(one for one in far.got if text in f"{one.title}\n{one.text}")


def test_orders_wait_are_approved_and_filled(desk: Processes, far: FakeChannel) -> None:
    run = open_screen(desk.app, SYMBOLS, max_candidates=4)
    assert run is not None
    wait_for(lambda: state_of(desk, run) in RUN_FINAL, "the run ends")
    finished = arrived(far, f"screen {run.id[:16]} is done")
    assert finished.text.endswith(f"http://127.0.0.1:8123/#/runs/{run.id}")
    waiting = arrived(far, "for a person until")
    assert "see: desk approvals" in waiting.text
    assert waiting.text.endswith("http://127.0.0.1:8123/#/approvals")
    with desk.app.desk.store.read() as session:
        pending = select(Order).where(Order.run_id == run.id, Order.state == OrderState.APPROVAL_PENDING)
        order = session.exec(pending).all()[0]
    assert f"an order on {order.symbol} for " in waiting.text
    command(desk, "approve", order.id)
    made = desk.app.desk

    def sent() -> bool:
        with made.store.read() as session:
            return session.get_one(Order, order.id).state == OrderState.SUBMITTED

    wait_for(sent, "the order is sent")
    to_next_session(made.store, made.settings)
    fill = arrived(far, f"Bought {order.quantity:g} {order.symbol} at ")
    assert f"http://127.0.0.1:8123/#/orders/{order.id}" in fill.text
