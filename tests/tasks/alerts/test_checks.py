"""What `desk doctor` says of alerts, and how long what fired is kept."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from pathlib import Path

from sqlmodel import select

from chordesk.models.alerts.tables import AlertsAlert, AlertsFiring, AlertsState
from chordesk.models.database.store import Store
from chordesk.models.tables.columns import utcnow
from chordesk.tasks.alerts.checks import alerts
from chordesk.tasks.doctor.check import CheckContext, CheckStatus
from chordesk.tasks.retention.retention_policy import policy_of
from chordesk.tasks.retention.run_deletion import collect_rows
from tests.tasks.alerts.conftest import Watched

MONDAY = dt.date(2010, 11, 1)
DAYS = [MONDAY + dt.timedelta(days=day) for day in range(24) if day % 7 < 5]


def bars(folder: Path, **last: int) -> Path:
    (folder / "bars").mkdir(parents=True)
    for symbol, count in last.items():
        rows = [f"{day},100,101,99,100,1000" for day in DAYS[:count]]
        (folder / "bars" / f"{symbol}.csv").write_text("\n".join(["date,open,high,low,close,volume", *rows]) + "\n")
    return folder


def said(watched: Watched) -> tuple[CheckStatus, str]:
    desk = watched.app.desk
    found = alerts(CheckContext(desk.settings, desk))
    assert (found.status is CheckStatus.OK) is (not found.remedy)
    return found.status, found.detail


def test_the_doctor_names_what_an_alert_cannot_see_and_that_nobody_looks(
    watched: Callable[..., Watched], store: Store, tmp_path: Path
) -> None:
    values = {"data": bars(tmp_path / "own", STAYS=len(DAYS), LEAVES=5)}
    desk = watched(market="files", replay_date=DAYS[3], **values)
    assert said(desk) == (CheckStatus.OK, "no alert is on")
    desk.add("fine", "price above 105", "STAYS")
    assert said(desk)[0] is CheckStatus.OK, "it is new"
    with store.session() as session:
        session.get_one(AlertsAlert, "fine").changed_at = utcnow() - dt.timedelta(hours=1)
    assert said(desk) == (CheckStatus.WARN, "nobody has looked yet")
    desk.look()
    assert said(desk) == (CheckStatus.OK, "1 on, of things that the market has")
    desk.add("left", "price above 105", "LEAVES")
    desk.add("none", "move 5%", "holdings")
    desk.on(DAYS[-1]).look()
    status, detail = said(desk)
    assert status is CheckStatus.WARN
    assert f"left on LEAVES: has left the market: its last price is of {DAYS[4]}" in detail
    assert "none looks at nothing: holdings has no symbol" in detail
    assert "fine" not in detail


def test_what_fired_goes_after_its_days_and_a_state_not_before_it(
    watched: Callable[..., Watched], store: Store
) -> None:
    now = utcnow()
    with store.session() as session:
        for days in (10, 500):
            at = now - dt.timedelta(days=days)
            session.add(AlertsFiring(alert="a", symbol="IBM", slot=str(days), why="w", market_at=at, created_at=at))
            session.add(AlertsState(alert=f"of {days}", symbol="IBM", market="replay", looked_at=at))
    settings = watched().app.desk.settings
    collect_rows(store, policy_of(settings, now))
    with store.read() as session:
        assert [one.slot for one in session.exec(select(AlertsFiring)).all()] == ["10"]
        assert [one.alert for one in session.exec(select(AlertsState)).all()] == ["of 10"]
