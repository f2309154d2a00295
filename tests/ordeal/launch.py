"""Starts a `desk` command with the suite's switches; the rooms know nothing of them.

python -m tests.ordeal.launch --claim-switch COMMAND...  while the desk's folder holds a file `no-claim`, every message
                                                         of a step takes it, also a held one
python -m tests.ordeal.launch --clock FILE COMMAND...    the desk's clock is off by the seconds that FILE holds
python -m tests.ordeal.launch --trades COMMAND...        on an exchange that never closes, with Yahoo on loopback

A desk that trades has the claim switch too. The file `bomb` in its folder holds points and a number: the trade worker
is killed when it gets to one of them for that many-th time, once. While there is a file `resend`, it sends what it
should ask about. Only the trade worker has the broker's key.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import importlib
import os
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from sqlalchemy import update
from sqlmodel import Session, col

from chordesk.models.states import OrderState, StepState
from chordesk.models.tables import columns

NO_CLAIM, RESEND, BOMB = "no-claim", "resend", "bomb"
FAR_YAHOO = "FAR_YAHOO_URL"
# Where it may die: nothing is written; the row is to be `submitting` and the transaction still open; it is
# `submitting` and nothing sent; the broker has answered; the answer is written and the transaction still open.
POINTS = ("before the row", "before submitting", "submitting written", "answered", "booked")
FOLLOWED = "followed"  # what the account's comparison found is written, and the transaction still open
ALWAYS_OPEN = "24/7"
_lock = threading.Lock()


def is_on(switch: str) -> bool:
    """Return whether a switch is on: a file in the desk's folder, which a scenario puts there and takes away."""
    return (Path(os.environ["DESK_HOME"]) / switch).exists()


def with_claim_switch() -> None:
    """Switched on, every message finds its step free, though it is held or has ended. A suite that passes so tests no
    claim."""
    graph: Any = importlib.import_module("chordesk.tasks.engine.graph")
    real = graph.claim

    def claim(session: Session, step_id: str, *rest: Any, **more: Any) -> Any:
        if is_on(NO_CLAIM):
            free(session, step_id, graph.Step)
        return real(session, step_id, *rest, **more)

    graph.claim = claim


def free(session: Session, step_id: str, table: Any) -> None:
    values = {"state": StepState.READY, "due_at": columns.utcnow(), "lease_until": None}
    held_or_final = col(table.state) != StepState.WAITING
    session.connection().execute(
        update(table).where(col(table.id) == step_id, held_or_final).values(max_attempts=table.attempt + 2, **values)
    )


def with_clock(file: Path) -> None:
    real = columns.utcnow

    def utcnow() -> dt.datetime:
        return real() + dt.timedelta(seconds=float(file.read_text() or 0))

    for name, module in list(
        sys.modules.items()
    ):  # what sets constants (`tests.constants`) has loaded some before this
        if name.startswith("chordesk.") and getattr(module, "utcnow", None) is real:
            setattr(module, "utcnow", utcnow)  # noqa: B010


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


def passing(
    module: Any, name: str, *, before: str = "", after: str = "", when: Callable[..., bool] | None = None
) -> None:
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
    from chordesk.tools.brokers.alpaca import AlpacaWire
    from chordesk.tools.orders import flow, reconciliation, submitting

    passing(flow, "draft_orders", before=POINTS[0])
    passing(submitting, "advance", after=POINTS[1], when=lambda session, order, to: to == OrderState.SUBMITTING)
    passing(AlpacaWire, "submit", before=POINTS[2], after=POINTS[3])
    passing(submitting, "book", after=POINTS[4])
    passing(reconciliation, "book", after=FOLLOWED)


def far_sides() -> None:
    """The exchange's calendar and Yahoo are other people's; the tests' are open at any hour and on loopback."""
    from chordesk.models.exchanges import EXCHANGES, HOME
    from chordesk.tools.market import fetching
    from chordesk.tools.market.yahoo import market as yahoo
    from tests.fakes.yahoo import LoopbackSession

    EXCHANGES[HOME] = dataclasses.replace(EXCHANGES[HOME], calendar=ALWAYS_OPEN)
    fetching.PACES["Yahoo"] = fetching.Pace(1000.0, 40)  # no test process is there to be spared
    build_yahoo = yahoo.build_yahoo

    def build(home: Path, live: Any) -> Any:
        return build_yahoo(home, live, LoopbackSession(os.environ[FAR_YAHOO]))

    setattr(yahoo, "build_yahoo", build)  # noqa: B010


def with_resend_switch() -> None:
    """Send an order of open outcome again instead of looking it up, while the switch is on. A suite that passes so
    tests nothing."""
    from chordesk.tools.brokers.alpaca import AlpacaBroker

    submit, real = AlpacaBroker.submit, AlpacaBroker.lookup

    def lookup(self: AlpacaBroker, *order: Any) -> Any:
        return submit(self, *order) if is_on(RESEND) else real(self, *order)

    setattr(AlpacaBroker, "lookup", lookup)  # noqa: B010


def with_trades(command: list[str]) -> None:
    from chordesk.models.settings.schema import BROKERS
    from tests.fakes.alpaca import KEY, SECRET

    far_sides()
    with_claim_switch()
    with_resend_switch()
    if command[:2] == ["worker", "trade"]:
        os.environ.update(zip(BROKERS["alpaca-paper"].credentials, (KEY, SECRET), strict=True))
        with_points()


def main() -> None:
    switch, *rest = sys.argv[1:]
    if switch == "--claim-switch":
        with_claim_switch()
    elif switch == "--clock":
        with_clock(Path(rest.pop(0)))
    elif switch == "--trades":
        with_trades(rest)
    else:
        raise SystemExit(f"no switch {switch!r}")
    sys.argv = ["desk", *rest]
    importlib.import_module("chordesk.tasks.cli.main").main()


if __name__ == "__main__":
    main()
