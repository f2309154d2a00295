"""A desk that trades at the broker's stand-in: trade, ops and beat as processes, the real Alpaca client, Yahoo on
loopback."""

from __future__ import annotations

import dataclasses
import datetime as dt
import json
import random
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any
from zoneinfo import ZoneInfo

from kombu.exceptions import OperationalError
from redis.exceptions import RedisError

from chordesk.models.tables.columns import utcnow
from chordesk.models.tables.runs import Decision, Step
from chordesk.tools.brokers.protocol import build_broker
from chordesk.tools.market.clock import LiveClock
from chordesk.tools.market.yahoo.market import build_yahoo
from chordesk.tools.orders.accounts import FencingLease
from tests.fakes.alpaca import KEY, SECRET
from tests.fakes.yahoo import FarYahoo
from tests.faults.desk import FaultDesk, Pace, keep_logs
from tests.faults.model import FaultyModel
from tests.faults.orders.broker import PRICE
from tests.faults.orders.launch import BOMB, FAR_YAHOO
from tests.faults.orders.postgres import database_of
from tests.stack import Processes, processes, wait_for
from tests.tools.orders.desk import Desk, action

ORDER_CREW = ("ops", "trade", "beat")
ACCOUNT = "alpaca-paper"
STAND_IN = "STAND_IN_URL"
KEYS = {"ALPACA_API_KEY": KEY, "ALPACA_SECRET_KEY": SECRET}
QUANTITY = 4.0
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
def order_desk(
    pace: Pace, *launcher: str, crew: tuple[str, ...] = ORDER_CREW, postgres: bool = False, **environ: str
) -> Iterator[FaultDesk]:
    """The crew up, with nothing traded yet; everything ends with the block. postgres: the database is a server's."""
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
    with (
        database_of(postgres) as where,
        processes(forked=False, **settings, **where) as running,
        FaultyModel(pace.latency, running.home / "model.jsonl") as model,
    ):
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
    running.spawn("alpaca", sys.executable, "-m", "tests.faults.orders.broker")
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
    """Send the stand-in a command, and return its state."""
    request = urllib.request.Request(
        f"{desk.processes.environ[STAND_IN]}/control", json.dumps(wanted).encode(), method="POST"
    )
    with urllib.request.urlopen(request, timeout=10) as answer:
        reply: dict[str, Any] = json.load(answer)
    return reply


def sent(desk: FaultDesk) -> int:
    """Return how often an order was sent to the stand-in."""
    return int(control(desk, brief=True)["sent"])


def arm(desk: FaultDesk, number: int, *points: str) -> None:
    """Have the trade worker kill itself when it gets to one of these points for that many-th time."""
    (desk.processes.home / BOMB).write_text(f"{', '.join(points)} {number}")


def nudge(desk: FaultDesk) -> None:
    """Have the trade queue look after its orders now."""
    with suppress(OperationalError, RedisError):
        desk.processes.app.send_task("desk.orders", expires=5)


def hand_over(desk: FaultDesk, chance: random.Random, orders: int = 3, messages: int = 1) -> Handed:
    """Write a decision of so many orders, on names that nothing was traded in, and put its step on the trade queue."""
    symbols = tuple(chance.sample([name for name in NAMES if name not in desk.symbols], orders))
    desk.symbols.update(symbols)
    settings, store = desk.processes.settings, desk.store
    market = build_yahoo(settings.home, LiveClock())
    writer = Desk(
        store, settings, market, build_broker(settings, market, store, KEYS), FencingLease(store, ACCOUNT, "suite")
    )
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
