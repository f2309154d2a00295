"""Starts a `desk` command on an exchange that never closes, with Yahoo on loopback, and kills it at a given point.

python -m tests.faults.orders.launch COMMAND...

The file `bomb` in the desk's folder holds points and a number: the trade worker is killed when it gets to one of them
for that many-th time, once. While there is a file `no-claim`, every message of a step takes it; while there is a file
`resend`, the worker sends what it should ask about. Only the trade worker has the broker's key.
"""

from __future__ import annotations

import importlib
import os
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from chordesk.models.settings import Settings
from chordesk.models.states import OrderState
from chordesk.tools.brokers.alpaca import AlpacaBroker, AlpacaWire
from chordesk.tools.market import clock
from chordesk.tools.market.yahoo import market as yahoo
from chordesk.tools.market.yahoo import wire as yahoo_wire
from chordesk.tools.orders import flow, submitting
from chordesk.tools.orders import reconciliation as reconciling
from tests.fakes.alpaca import KEY, SECRET
from tests.fakes.yahoo import LoopbackSession
from tests.faults.launch import is_on, with_claim_switch

FAR_YAHOO = "FAR_YAHOO_URL"
BOMB = "bomb"
RESEND = "resend"
# Where it may die: nothing is written; the row is to be `submitting` and the transaction still open; it is
# `submitting` and nothing sent; the broker has answered; the answer is written and the transaction still open.
POINTS = ("before the row", "before submitting", "submitting written", "answered", "booked")
FOLLOWED = "followed"  # what the account's comparison found is written, and the transaction still open
ALWAYS_OPEN = "24/7"
_lock = threading.Lock()


def pass_by(point: str) -> None:
    """Kill this process if the bomb names this point."""
    file = Path(os.environ["DESK_HOME"]) / BOMB
    with _lock:
        if not file.exists():
            return
        named, _, left = file.read_text().rpartition(" ")
        if point not in named.split(", "):
            return
        if int(left) > 1:
            file.write_text(f"{named} {int(left) - 1}")
            return
        file.unlink()
        os.kill(os.getpid(), signal.SIGKILL)


Met = Callable[..., bool]


def passing(module: Any, name: str, *, before: str = "", after: str = "", when: Met | None = None) -> None:
    """Have a function pass a point before or after its work."""
    real = getattr(module, name)

    def passed(*given: Any, **named: Any) -> Any:
        met = when is None or when(*given)
        if before and met:
            pass_by(before)
        found = real(*given, **named)
        if after and met:
            pass_by(after)
        return found

    setattr(module, name, passed)


def with_points() -> None:
    passing(flow, "draft_orders", before=POINTS[0])
    passing(submitting, "advance", after=POINTS[1], when=lambda session, order, to: to == OrderState.SUBMITTING)
    passing(AlpacaWire, "submit", before=POINTS[2], after=POINTS[3])
    passing(submitting, "book", after=POINTS[4])
    passing(reconciling, "book", after=FOLLOWED)


def far_sides() -> None:
    """The exchange's calendar and Yahoo are other people's; the tests' are open at any hour and on loopback."""
    setattr(clock, "EXCHANGE", ALWAYS_OPEN)  # noqa: B010
    setattr(yahoo_wire, "REQUESTS_A_SECOND", 1000.0)  # noqa: B010  # no test process is there to be spared

    build_yahoo = yahoo.build_yahoo

    def build(home: Path, live: Any) -> Any:
        return build_yahoo(home, live, LoopbackSession(os.environ[FAR_YAHOO]))

    setattr(yahoo, "build_yahoo", build)  # noqa: B010


def with_resend_switch() -> None:
    """Send an order of open outcome again instead of looking it up, while the switch is on. A suite that passes so
    tests nothing."""
    submit, real = AlpacaBroker.submit, AlpacaBroker.lookup

    def lookup(self: AlpacaBroker, *order: Any) -> Any:
        return submit(self, *order) if is_on(RESEND) else real(self, *order)

    setattr(AlpacaBroker, "lookup", lookup)  # noqa: B010


def main() -> None:
    rest = sys.argv[1:]
    far_sides()
    with_claim_switch()
    with_resend_switch()
    if rest[:2] == ["worker", "trade"]:
        os.environ.update(zip(Settings.CREDENTIALS, (KEY, SECRET), strict=True))
        with_points()
    sys.argv = ["desk", *rest]
    importlib.import_module("chordesk.tasks.cli.main").main()


if __name__ == "__main__":
    main()
