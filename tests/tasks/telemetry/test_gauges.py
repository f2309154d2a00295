"""The gauges by rows of the database, keys of Redis and app-servers, and an exporter with a part that is away."""

from __future__ import annotations

import datetime as dt
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import redis
from prometheus_client.core import GaugeMetricFamily
from sqlmodel import Session

from chordesk.agents.runtime import ProcessStatus
from chordesk.models.notice_channels import NoticeKind, NotificationState
from chordesk.models.settings import Settings
from chordesk.models.shortages import Shortage
from chordesk.models.states import ApprovalState, OrderState, RunState, StepState, TradingState
from chordesk.models.tables.columns import new_id, utcnow
from chordesk.models.tables.orders import Approval, EquityMark, Order, Trading
from chordesk.models.tables.runs import Sweep
from chordesk.models.tables.runtime import Notification, NotificationChannel
from chordesk.tasks.telemetry import gauges
from chordesk.tasks.telemetry.gauges import Exporter, Gauge, read_database, read_own
from tests.builders import a_run, a_step, a_turn
from tests.parts import of_feature
from tests.stack import wait_for
from tests.tasks.views.chain import Chain


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(home=tmp_path, provider="codex", prices="tiny=1/0.1/2", budget_day_tokens=1_000)


def values(session: Session, settings: Settings) -> dict[str, dict[tuple[str, ...], float]]:
    session.flush()
    return {gauge.name: dict(found) for gauge, found in read_database(session, settings).items()}


def ago(seconds: float) -> dt.datetime:
    return utcnow() - dt.timedelta(seconds=seconds)


def test_steps_count_by_queue_when_they_are_due_and_their_run_goes_on(session: Session, settings: Settings) -> None:
    run, ended = a_run(session), a_run(session, state=RunState.STOPPED)
    a_step(session, run, due_at=ago(90))
    a_step(session, run, due_at=ago(30))
    a_step(session, run, due_at=utcnow() + dt.timedelta(hours=1))
    a_step(session, ended, due_at=ago(900))
    a_step(session, run, kind="finish", state=StepState.RUNNING)
    a_step(session, run, kind="of_another_version")
    a_step(session, run, kind="of_another_version", state=StepState.RUNNING)
    found = values(session, settings)
    assert found["desk_steps_due"] == {("screen",): 0, ("research",): 2, ("ops",): 0, ("trade",): 0}
    ages = found["desk_steps_due_age_seconds"]
    assert (90 <= ages["research",] < 900, ages["ops",]) == (True, 0)
    assert found["desk_steps_running"] == {("screen",): 0, ("research",): 0, ("ops",): 1, ("trade",): 0}
    assert found["desk_research_demand"] == {(): 2}
    assert found["desk_runs_open"]["screen",] == 1
    assert found["desk_sweep_age_seconds"] == {}, "there was no sweep yet"
    session.get_one(Sweep, 1).last_at = ago(50)
    assert 50 <= values(session, settings)["desk_sweep_age_seconds"][()] < 500


def test_orders_wait_and_are_unknown_until_they_end(session: Session, settings: Settings, chain: Chain) -> None:
    order = session.get_one(Order, chain.order_id)
    order.state = OrderState.UNKNOWN
    waits = {"payload_hash": chain.preview_hash, "notional": 1.0, "expires_at": utcnow() + dt.timedelta(minutes=5)}
    approval = Approval(order_id=order.id, state=ApprovalState.PENDING, asked_at=ago(45), **waits)
    session.add(approval)
    found = values(session, settings)
    assert (found["desk_orders_open"]["unknown",], found["desk_orders_open"]["approval_pending",]) == (1, 0)
    assert found["desk_waiting"] == {("order",): 1, ("request",): 0}
    assert (45 <= found["desk_waiting_age_seconds"]["order",] < 450) is True
    approval.expires_at = ago(1)
    order.state = OrderState.FILLED
    found = values(session, settings)
    assert (found["desk_waiting"]["order",], found["desk_orders_open"]["unknown",]) == (0, 0)


@pytest.mark.parametrize(
    ("row", "live", "in_force"),
    [
        (None, False, "preview"),
        (None, True, "live"),
        (TradingState.HALTED, True, "halted"),
        (TradingState.REDUCING, True, "reducing"),
    ],
)
def test_one_trading_state_is_in_force(
    session: Session, tmp_path: Path, row: TradingState | None, live: bool, in_force: str
) -> None:
    if row is not None:
        session.add(Trading(account="paper", state=row, why="test", by="test"))
    found = values(session, Settings(home=tmp_path, trader_live=live))["desk_trading_state"]
    assert {name for (_, name), value in found.items() if value} == {in_force}
    assert len(found) == 4


def test_equity_is_that_of_the_last_mark_and_missing_without_one(session: Session, settings: Settings) -> None:
    found = values(session, settings)
    assert (found["desk_equity"], found["desk_drawdown_share"], found["desk_day_change_share"]) == ({}, {}, {})
    for day, last in ((11, 99_000.0), (12, 90_000.0)):
        session.add(
            EquityMark(account="paper", day=dt.date(2010, 8, day), opening=96_000, last=last, high_water=100_000)
        )
    found = values(session, settings)
    assert found["desk_equity"] == {("paper",): 90_000}
    assert found["desk_drawdown_share"]["paper",] == pytest.approx(0.1)
    assert found["desk_day_change_share"]["paper",] == pytest.approx(-0.0625)


def test_tokens_and_money_are_those_of_the_day(session: Session, settings: Settings) -> None:
    step = a_step(session, a_run(session), role="quick")
    assert values(session, settings)["desk_day_usd"] == {}, "nothing is priced yet"
    midnight = utcnow().replace(hour=0, minute=0, second=0, microsecond=0)
    yesterday = f"{int(midnight.timestamp() * 1000) - 1:012x}{new_id()[12:]}"
    for id_ in (new_id(), new_id(), yesterday):
        a_turn(
            session, step, id=id_, provider="codex", model="codex:tiny", input_tokens=1_000_000,
            cached_input_tokens=0, output_tokens=500_000, total_tokens=1_500_000,
        )  # fmt: skip
    found = values(session, settings)
    assert found["desk_day_tokens"] == {(): 3_000_000}
    assert found["desk_day_usd"] == {(): pytest.approx(4.0)}
    assert found["desk_limit"]["day_tokens",] == 1_000
    assert ("day_tokens",) not in values(session, Settings(home=settings.home, budget_day_tokens=0))["desk_limit"]


GAUGE = Gauge("desk_tested", "For a test.")


def shown(found: Iterator[GaugeMetricFamily]) -> dict[tuple[str, ...], float]:
    return {(one.name, *one.labels.values()): one.value for each in found for one in each.samples}


def test_a_part_that_fails_is_missing_and_the_others_are_shown() -> None:
    away: list[bool] = []

    def read() -> Any:
        if away:
            raise redis.ConnectionError("away")
        return {GAUGE: {(): 1.0}}

    both = Exporter({"database": dict, "redis": read}, rest_seconds=0)
    up = {("desk_part_up", "database"): 1, ("desk_part_up", "redis"): 1, ("desk_tested",): 1}
    assert shown(both.collect()) == up
    away.append(True)
    assert shown(both.collect()) == {("desk_part_up", "database"): 1, ("desk_part_up", "redis"): 0}
    away.clear()
    assert shown(both.collect()) == up


def test_a_part_that_hangs_is_missing_and_asked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gauges, "WAIT_SECONDS", 0.05)
    answers, asked = threading.Event(), []

    def read() -> Any:
        asked.append(True)
        answers.wait()
        return {GAUGE: {(): 1.0}}

    one = Exporter({"database": read})
    for _ in range(3):
        assert shown(one.collect()) == {("desk_part_up", "database"): 0}
    assert len(asked) == 1
    answers.set()
    wait_for(lambda: ("desk_tested",) in shown(one.collect()), "it is shown")


def message(session: Session, channel: str, state: NotificationState, **values: object) -> None:
    facts = {"kind": NoticeKind.FILL, "run_id": "r", "subject": "IBM", "title": "t", "text": "t", "urgent": False}
    session.add(
        Notification.model_validate({**facts, "next_at": utcnow(), "channel": channel, "state": state, **values})
    )


def test_messages_that_wait_are_late_or_were_given_up_count_by_channel(session: Session) -> None:
    message(session, "gone", NotificationState.WAITING)
    assert not any(of_feature("chordesk.tasks.notifications.watching:read_notifications")(session).values()), (
        "without a channel there is no value"
    )
    session.add_all([NotificationChannel(name=name, service="JSON") for name in ("mail", "phone", "quiet", "well")])
    message(session, "phone", NotificationState.WAITING, attempts=3, created_at=ago(500), next_at=ago(-300))
    message(session, "phone", NotificationState.SENDING, attempts=1, created_at=ago(40))
    message(session, "phone", NotificationState.GIVEN_UP, attempts=12, created_at=ago(9_000), ended_at=ago(4_000))
    message(session, "phone", NotificationState.GIVEN_UP, attempts=12, ended_at=ago(25 * 3600))
    message(session, "mail", NotificationState.WAITING, created_at=ago(900), next_at=ago(100))
    message(session, "mail", NotificationState.WAITING, created_at=ago(5), next_at=ago(-25))
    message(session, "quiet", NotificationState.WAITING, held="quiet", created_at=ago(9_000), next_at=ago(10))
    message(session, "well", NotificationState.SENT, attempts=1, created_at=ago(9_000), sent_at=ago(9_000))
    session.flush()
    found = {
        gauge.name: dict(each)
        for gauge, each in of_feature("chordesk.tasks.notifications.watching:read_notifications")(session).items()
    }
    assert found["desk_notifications_waiting"] == {("mail",): 2, ("phone",): 2, ("quiet",): 1, ("well",): 0}
    assert found["desk_notifications_given_up"] == {("mail",): 0, ("phone",): 1, ("quiet",): 0, ("well",): 0}
    late = found["desk_notifications_late_seconds"]
    assert 500 <= late["phone",] < 800, "one that failed is as late as it is old"
    assert 100 <= late["mail",] < 400, "one that is due is late since then"
    assert (late["quiet",], late["well",]) == (0, 0), "what is held is not late"


MIB = 2**20


def test_a_worker_has_the_turns_and_the_memory_of_its_app_servers() -> None:
    servers = [ProcessStatus("kept", pid, 1.0, 9, 2, rss) for pid, rss in ((1, 100.0), (2, 150.0))]
    found = {gauge.name: dict(each) for gauge, each in read_own(3, servers).items()}
    assert found["desk_turns_in_flight"] == {("kept",): 4}
    assert found["desk_app_servers"] == {("kept",): 2}
    assert found["desk_app_server_bytes"] == {("kept",): 250 * MIB}
    assert found["desk_app_server_largest_bytes"] == {("kept",): 150 * MIB}
    assert found["desk_room_short"] == {}
    full = Shortage("space", "home (/srv)", 0, 100, out=True)
    unknown = {gauge.name: dict(each) for gauge, each in read_own(3, None, [full]).items()}
    assert unknown == {"desk_steps_held": {(): 3}, "desk_room_short": {("space", "home (/srv)"): 2}}, "missing, not 0"
