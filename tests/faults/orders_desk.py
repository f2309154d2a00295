"""A desk that trades at the broker's stand-in: trade, ops and beat as processes, the real Alpaca client, Yahoo on
loopback. And what must hold between the stand-in and the store afterwards."""

from __future__ import annotations

import dataclasses
import datetime as dt
import json
import random
import sys
import time
import urllib.request
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from zoneinfo import ZoneInfo

from sqlmodel import col, select

from models.columns import utcnow
from models.order_tables import Account, Fill, Order, Position, Reconciliation
from models.states import STEP_FINAL, OrderState
from models.store import Store
from models.tables import Decision, Step
from tests.fakes.alpaca import KEY, SECRET
from tests.faults.check import Findings
from tests.faults.desk import FaultDesk, Pace, keep_logs
from tests.faults.model import FaultyModel
from tests.faults.orders_launch import FAR_YAHOO
from tests.stack import Processes, processes, wait_for
from tests.tools.far_yahoo import FarYahoo
from tests.tools.orders.desk import Desk, action
from tools.brokers.factory import build_broker
from tools.market.clock import LiveClock
from tools.market.yahoo import build_yahoo
from tools.orders.fence import Seat

ORDER_CREW = ("ops", "trade", "beat")
ACCOUNT = "alpaca-paper"
STAND_IN = "STAND_IN_URL"
QUANTITY, PRICE, CASH = 3.0, 100.0, 100_000.0
SETTLED_SECONDS = 120.0
SETTINGS = {
    "DESK_MARKET": "yahoo",
    "DESK_BROKER": ACCOUNT,
    "DESK_APPROVAL": "auto",
    "DESK_BROKER_SECONDS": "3",
    "DESK_ORDERS_SECONDS": "2",
    "DESK_MAX_QUOTE_AGE_MINUTES": "10000",  # Yahoo's day ends at four, the suite is run at any hour
    "DESK_MAX_SECTOR_SHARE": "1",
    "DESK_MAX_TRADES_PER_DAY": "1000000",
    "DESK_MAX_ORDERS_PER_MINUTE": "1000000",
}


@dataclasses.dataclass(frozen=True, slots=True)
class Handed:
    """A decision that was handed over, and its step on the trade queue."""

    decision_id: str
    step_id: str
    symbols: tuple[str, ...]


@contextmanager
def order_desk(pace: Pace, *launcher: str, crew: tuple[str, ...] = ORDER_CREW, **environ: str) -> Iterator[FaultDesk]:
    """The crew up, with nothing traded yet; everything ends with the block."""
    settings = {
        "DESK_LEASE_SECONDS": f"{pace.lease:g}",
        "DESK_MAINTAIN_SECONDS": f"{pace.sweep:g}",
        "DESK_PREMARKET": "off",
        "DESK_MIDDAY": "off",
        "DESK_COOLDOWN_HOURS": "0",
        "DESK_LOG_LEVEL": "INFO",
        "TRADER_LIVE": "1",
        **SETTINGS,
        **environ,
    }
    far = far_yahoo()
    with processes(**settings) as running, FaultyModel(pace.latency, running.home / "model.jsonl") as model:
        running.environ |= {"DESK_PROVIDER": "endpoint", "DESK_PROVIDER_URL": model.url}
        running.environ[FAR_YAHOO] = f"http://127.0.0.1:{far.server_port}"
        start_stand_in(running)
        desk = FaultDesk(running, model, pace, launcher, crew)
        try:
            desk.start_all()
            with desk.watched():
                yield desk
        finally:
            keep_logs(desk)
            far.shutdown()
            far.server_close()


def start_stand_in(running: Processes) -> None:
    running.spawn("alpaca", sys.executable, "-m", "tests.fakes.alpaca")
    wait_for(lambda: "http://" in running.log("alpaca"), "the broker's stand-in listens")
    url = running.log("alpaca").split()[0]
    running.environ |= {"DESK_ALPACA_URL": url, STAND_IN: url}


class QuietYahoo(FarYahoo):
    def handle_error(self, request: Any, client_address: Any) -> None:
        """A worker that is killed leaves its connections as they are."""


def far_yahoo() -> FarYahoo:
    """Every name that the suite trades, each at the price of the stand-in's fills."""
    far = QuietYahoo()
    today = dt.datetime.now(ZoneInfo("America/New_York")).date()
    days = [today - dt.timedelta(days=back) for back in (2, 1, 0)]
    for symbol in NAMES:
        far.charts[symbol] = [(day, PRICE, PRICE, PRICE, PRICE, 1000) for day in days]
        far.infos[symbol] = {"longName": symbol, "sector": "Industrials"}
    far.start()
    return far


LETTERS = "BCDFGHJKLM"
NAMES = tuple(f"Q{one}{two}{three}" for one in LETTERS for two in LETTERS for three in LETTERS)


def control(desk: FaultDesk, **wanted: Any) -> dict[str, Any]:
    """Tell the stand-in what to do next, and hear what it has."""
    request = urllib.request.Request(
        f"{desk.processes.environ[STAND_IN]}/control", json.dumps(wanted).encode(), method="POST"
    )
    with urllib.request.urlopen(request, timeout=10) as answer:
        said: dict[str, Any] = json.load(answer)
    return said


def hand_over(desk: FaultDesk, chance: random.Random, orders: int = 3, messages: int = 1) -> Handed:
    """Write a decision of so many orders, on names that nothing was traded in, and put its step on the trade queue."""
    symbols = tuple(unused(desk.store, chance, orders))
    settings, store = desk.processes.settings, desk.store
    market = build_yahoo(settings.home, LiveClock())
    keys = {"ALPACA_API_KEY": KEY, "ALPACA_SECRET_KEY": SECRET}
    writer = Desk(store, settings, market, build_broker(settings, market, store, keys), Seat(store, ACCOUNT, "suite"))
    opened = [action(symbol, quantity=QUANTITY) for symbol in symbols]
    decision_id = writer.decide(*opened, deadline_at=utcnow() + dt.timedelta(hours=1))
    with store.session() as session:
        run_id = session.get_one(Decision, decision_id).run_id
        step = Step(run_id=run_id, kind="submit", state="ready", payload={"decision_id": decision_id}, max_attempts=9)
        session.add(step)
        session.flush()
        step_id = step.id
    for _ in range(messages):
        desk.processes.app.send_task("desk.submit", args=[step_id])
    return Handed(decision_id, step_id, symbols)


def unused(store: Store, chance: random.Random, count: int) -> Sequence[str]:
    with store.read() as session:
        traded = set(session.exec(select(Order.symbol)).all())
    return chance.sample([name for name in NAMES if name not in traded], count)


def settle(desk: FaultDesk, handed: Sequence[Handed], seconds: float = SETTLED_SECONDS) -> Findings:
    """Let the desk go on until store and stand-in agree; what is left then."""
    began, until = utcnow(), time.monotonic() + seconds
    while True:
        desk.processes.app.send_task("desk.orders", expires=5)
        time.sleep(0.5)
        found = compare(desk, handed, began)
        if found.clean or found.doubled or time.monotonic() > until:
            return found  # what is doubled stays so


def compare(desk: FaultDesk, handed: Sequence[Handed], since: dt.datetime) -> Findings:
    """lost: orders that are not where they should be; doubled: what the stand-in has more than once."""
    there = control(desk)
    found = Findings()
    found.doubled += [f"{times} orders {client_id}" for client_id, times in there["taken"].items() if times > 1]
    by_symbol = Counter(row["symbol"] for row in there["orders"])
    found.doubled += [f"{times} orders on {symbol}" for symbol, times in by_symbol.items() if times > 1]
    taken = {row["client_order_id"]: row for row in there["orders"]}
    with desk.store.read() as session:
        for one in handed:
            rows = session.exec(select(Order).where(col(Order.decision_id) == one.decision_id)).all()
            found.lost += [f"no order on {name}" for name in set(one.symbols) - {row.symbol for row in rows}]
            step = session.get_one(Step, one.step_id)
            if step.state not in STEP_FINAL:
                found.lost.append(f"step {step.id} is {step.state}")
        ours = session.exec(select(Order)).all()
        filled: Counter[str] = Counter()
        for fill in session.exec(select(Fill)).all():
            filled[fill.order_id] += round(fill.quantity)
        held = {row.symbol: row.quantity for row in session.exec(select(Position)).all()}
        account = session.get(Account, ACCOUNT)
        newest = select(Reconciliation).order_by(col(Reconciliation.at).desc())
        compared = session.exec(newest).first()
    found.lost += [text for row in ours if (text := astray(row, taken.get(row.id), filled[row.id]))]
    found.wrong += [f"the desk has no order {each}" for each in taken.keys() - {row.id for row in ours}]
    if held != {symbol: float(quantity) for symbol, quantity in there["positions"].items()}:
        found.wrong.append(f"positions are {held}, at the broker {there['positions']}")
    # The broker's figure of cash is taken over only while no order's outcome is open.
    if account is not None and abs(account.cash - float(there["cash"])) > 0.01:
        found.wrong.append(f"cash is {account.cash}, at the broker {there['cash']}")
    if compared is None or compared.at < since:
        found.wrong.append("the account was not compared with its broker")
    elif not compared.agreed:
        found.wrong.append(f"the account does not agree: {compared.differences}")
    return found


def astray(order: Order, there: dict[str, Any] | None, filled: int) -> str | None:
    """How an order's row disagrees with the stand-in; None when it does not. What was to be sent and never came there
    is `unknown` for good: nobody can say it will not."""
    name = f"order {order.id} on {order.symbol}"
    if there is None:
        return None if order.state == OrderState.UNKNOWN else f"{name} is {order.state}, the broker has none"
    status = {"accepted": OrderState.SUBMITTED}.get(there["status"], there["status"])
    if order.state != status or filled != round(float(there["filled_qty"])):
        return f"{name} is {order.state} with {filled}, at the broker {there['status']} with {there['filled_qty']}"
    return None


def unknown(desk: FaultDesk, handed: Sequence[Handed]) -> int:
    """Orders of these decisions that the broker never had."""
    ids = [one.decision_id for one in handed]
    with desk.store.read() as session:
        rows = session.exec(
            select(Order.id).where(col(Order.decision_id).in_(ids), Order.state == OrderState.UNKNOWN)
        ).all()
    return len(rows)
