"""A desk at work under a real Prometheus: every query of rules and dashboards runs there, every metric in one exists,
and alerts fire by real faults.

Faults that this desk cannot have cheaply are promtool's (`test_rules`): turns and events that fail by the dozen, a
database that is away. Ages and equity are put back in the database, and limits are lowered where an excess would take
hours.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import pytest
from sqlmodel import select

from chordesk.models.states import ApprovalState
from chordesk.models.tables.orders import Approval
from chordesk.models.tables.runs import Run
from chordesk.tasks.workflows.screen import open_screen
from tests.constants import constants
from tests.deploy.watching.prometheus import Prometheus, alerts, metrics_in, queries, scraping
from tests.fakes.channel import FakeChannel
from tests.stack import Processes, free_port, processes, wait_for

ROLES = ("research", "ops", "trade", "beat", "api", "notify")
SYMBOLS = "AAPL,IBM,TGT,GOOG,XOM,GE,JPM,BAC,WMT,PG"
# These have a series once what they count has happened: an error, a missing figure, a priced turn, a limited turn,
# little room.
WITH_ITS_EVENT = {
    "desk_codex_errors_total", "desk_usage_missing_total", "desk_day_usd", "desk_turns_reserved",
    "desk_turns_waiting", "desk_model_parked_seconds", "desk_room_short",
}  # fmt: skip
SETTINGS = {
    "TRADER_LIVE": "1",
    "DESK_APPROVAL": "manual",
    "DESK_PREMARKET": "off",
    "DESK_MIDDAY": "off",
    **constants(ORDERS_SECONDS=3600),  # an order pass would ask the broker about the order that is made unknown
}


@dataclass(frozen=True, slots=True)
class Watched:
    """A desk with a port for each role, the Prometheus that scrapes them, and the far side of a channel."""

    desk: Processes
    far: FakeChannel
    ports: Mapping[str, int]
    prometheus: Prometheus

    def start(self, role: str, **given: str) -> None:
        environ = {"DESK_METRICS_PORT": str(self.ports[role]), **given}
        if role == "notify":
            self.desk.desk(role, role, "run", environ={**environ, **self.notices()})
        elif role in ("beat", "api"):
            self.desk.desk(role, role, environ=environ)
        else:
            self.desk.start_worker(role, environ=environ)

    def notices(self) -> dict[str, str]:
        return {"DESK_NOTIFY_CHANNELS": self.far.variable("phone"), **constants(ORDERS_SECONDS=3600, WINDOW_SECONDS=0)}

    def rests(self, *names: str) -> None:
        wait_for(lambda: not self.prometheus.firing() & set(names), f"{', '.join(names)} do not fire")


@pytest.fixture(scope="module")
def watched(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watched]:
    ports = {role: free_port() for role in ROLES}
    folder = tmp_path_factory.mktemp("prometheus")
    with processes(**SETTINGS) as desk, FakeChannel() as far:
        desk.rulebook(latency=0.2)
        starting = Watched(desk, far, ports, Prometheus(0))
        for role in ROLES:
            starting.start(role)
        desk.await_workers("research", "ops", "trade")
        with scraping(folder, ports) as prometheus:
            yield Watched(desk, far, ports, prometheus)


@pytest.fixture(scope="module")
def screen(watched: Watched) -> Run:
    """A screen that ended with an order that waits for a person."""
    run = open_screen(watched.desk.app, SYMBOLS, max_candidates=3)
    assert run is not None
    store = watched.desk.app.desk.store

    def waits() -> bool:
        with store.read() as session:
            return session.exec(select(Approval).where(Approval.state == ApprovalState.PENDING)).first() is not None

    wait_for(waits, "an order waits for a person")
    return run


@pytest.mark.long
def test_every_query_runs_and_every_metric_in_one_exists(watched: Watched, screen: Run) -> None:
    wanted = {name for query in queries() for name in metrics_in(query)}
    assert wanted >= WITH_ITS_EVENT, "names that no query has"
    wait_for(lambda: wanted - WITH_ITS_EVENT <= watched.prometheus.names(), "every metric was scraped")
    for query in queries():
        watched.prometheus.query(query)
    waiting = 'max by (kind) (desk_waiting{kind="order"}) >= 1'
    wait_for(lambda: bool(watched.prometheus.query(waiting)), "an order waits for a person")
    wait_for(lambda: len(watched.prometheus.query('up{job="desk"} == 1')) == len(ROLES), "all processes are up")


@pytest.mark.long
def test_a_desk_at_work_sets_off_no_alert(watched: Watched, screen: Run) -> None:
    wait_for(lambda: watched.prometheus.query(f"sum(desk_ready) == {len(ROLES)}") != [], "all processes are ready")
    watched.rests(*alerts())
