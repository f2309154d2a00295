"""One desk of real processes for the folder: it fills on paper, and all its telemetry is on."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from sqlmodel import select

from chordesk.models.states import RunState
from chordesk.models.tables.orders import Order
from chordesk.models.tables.runs import Run
from chordesk.tasks.workflows.screen import open_screen
from tests.tasks.telemetry.runs import TelemetryDesk, telemetry_desk

SYMBOLS = (
    "AAPL,IBM,TGT,GOOG,XOM,GE,JPM,BAC,WMT,PG,JNJ,KO,PEP,MRK,PFE,INTC,CSCO,ORCL,HPQ,T,VZ,CVX,C,WFC,MMM,CAT,BA,DIS,HD,MCD"
)


@pytest.fixture(scope="package")
def desk() -> Iterator[TelemetryDesk]:
    with telemetry_desk("research", "ops", "trade", metrics=True) as found:
        yield found


@pytest.fixture(scope="package")
def screen(desk: TelemetryDesk) -> Run:
    """A screen that ended with orders that were sent; the account's first, for a second one would find cooldowns."""
    run = open_screen(desk.desk.app, SYMBOLS, max_candidates=4)
    assert run is not None
    found = desk.ended(run)
    with desk.store.read() as session:
        orders = session.exec(select(Order).where(Order.run_id == run.id)).all()
    told = [(one.symbol, one.state, one.denial_code, one.denial_reason, one.message) for one in orders]
    assert (found.state, "submitted" in found.summary["orders"]) == (RunState.DONE, True), (found.notes, told)
    return found
