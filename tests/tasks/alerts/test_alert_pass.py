"""The pass over alerts: what it sees of each session, and that a firing is one, whatever dies."""

from __future__ import annotations

import datetime as dt
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from sqlmodel import Session, col, select

from chordesk.models.alerts.tables import AlertsFiring, AlertsPass, AlertsState
from chordesk.models.database.store import Store
from chordesk.models.tables.columns import utcnow
from chordesk.models.tables.orders import EquityMark
from chordesk.models.tables.runs import Run
from chordesk.models.tables.runtime import Notice
from chordesk.tasks.redis_clients import redis_url
from chordesk.tools.alerts import keeping
from chordesk.tools.alerts.past import tried
from tests.builders import a_run
from tests.patience import PATIENCE
from tests.stack import REPOSITORY
from tests.tasks.alerts.conftest import Watched

Make = Callable[..., Watched]
# Tuesday to Friday week: a holiday (25 November 2010) and a half day after it; B is split 2:1 on the 23rd.
DAYS = [dt.date(2010, 11, day) for day in (16, 17, 18, 19, 22, 23, 24, 26, 29, 30)]
# high, low, close of each session; None where there is no bar
COURSE: dict[str, list[tuple[float, float, float] | None]] = {
    # A touches 104 on the 18th, gaps over it on the 22nd, has no bar on the 23rd, and is back on the 26th.
    "A": [(100, 98, 99), (102, 100, 101), (104, 101, 102), (103, 99, 100), (110, 106, 108), None, (107, 103.5, 105),
          (102, 99, 100), (105, 101, 104), (104, 100, 103)],
    # B falls by half with its split, which is no fall.
    "B": [(200, 198, 199), (202, 198, 200), (201, 197, 200), (203, 199, 202), (204, 200, 203), (103, 100, 102),
          (102, 99, 101), (101, 96, 97), (98, 95, 96), (99, 95, 98)],
}  # fmt: skip


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "own"
    (made / "bars").mkdir(parents=True)
    for symbol, course in COURSE.items():
        rows = [
            f"{day},{(high + low) / 2},{high},{low},{close},1000"
            for day, one in zip(DAYS, course, strict=True)
            if one is not None
            for high, low, close in [one]
        ]
        (made / "bars" / f"{symbol}.csv").write_text("\n".join(["date,open,high,low,close,volume", *rows]) + "\n")
    (made / "actions.csv").write_text("symbol,date,split\nB,2010-11-23,2\n")
    return made


def firings(store: Store) -> list[AlertsFiring]:
    with store.read() as session:
        return list(session.exec(select(AlertsFiring).order_by(col(AlertsFiring.id))).all())


def notices(session: Session) -> Sequence[Notice]:
    return session.exec(select(Notice).where(col(Notice.kind).startswith("alerts"))).all()


def slowly(course: Sequence[tuple[float, float, float] | None], level: float, split_at: int | None) -> list[int]:
    """Where `price above LEVEL` fires, by words: it was below at an earlier look, and is at or above. After a firing it
    is below again once it is back by a tenth of the farthest that it was below, or on a later session."""
    found: list[int] = []
    below, farthest = False, 0.0
    for place, bar in enumerate(course):
        now = level if split_at is None or place < split_at else level / 2
        for price in (bar[0], bar[2]) if bar is not None else ():
            away = (now - price) / now
            if away <= 0:
                found += [place] if below else []
                below = False
            elif below or not found or place > found[-1] or away >= max(farthest, 0.01) / 10:
                farthest = max(farthest if below else 0.0, away)
                below = True
    return found


@pytest.mark.parametrize(("symbol", "level", "split_at"), [("A", 104.0, None), ("B", 202.5, 5)])
def test_each_session_is_looked_at_once_and_fires_as_a_script_says(
    watched: Make, folder: Path, symbol: str, level: float, split_at: int | None
) -> None:
    desk = watched(market="files", data=folder, replay_date=DAYS[0])
    desk.add("over", f"price above {level}", symbol)
    for day in DAYS:
        assert desk.on(day).look()["looked"] == 1
        assert desk.look()["looked"] == 0, "the clock of a replay stands"
    found = [dt.date.fromisoformat(one.slot.partition(":")[0]) for one in firings(desk.app.desk.store)]
    assert found == [DAYS[place] for place in slowly(COURSE[symbol], level, split_at)]
    assert found, "it fires at all"
    with desk.app.desk.store.read() as session:
        row = keeping.alert(session, "over")
        row.written_on = DAYS[0]
        trial = tried(row, [symbol], desk.app.desk.account_market(), DAYS[0], DAYS[-1])
        assert [one.day for one in trial.firings] == found
        assert {one.key for one in notices(session)} == {
            f"alert:over:{symbol}:{one.slot}" for one in firings(desk.app.desk.store)
        }


def test_a_move_is_measured_from_the_close_before_and_a_missing_one_from_nothing(watched: Make, folder: Path) -> None:
    desk = watched(market="files", data=folder, replay_date=DAYS[0])
    desk.add("jumps", "move up 5%", "A")
    for day in DAYS:
        desk.on(day).look()
    assert [one.slot for one in firings(desk.app.desk.store)] == ["2010-11-22:1", "2010-11-29:2"]
    with desk.app.desk.store.read() as session:
        (state,) = session.exec(select(AlertsState)).all()
    assert state.unknown_since is None, "the 24th had nothing to be measured from; the 26th had"


def test_each_session_asks_anew_how_far_it_moved_since_the_close(watched: Make, folder: Path) -> None:
    """From the 24th on each low is so far below the close before, and two sessions close there."""
    desk = watched(market="files", data=folder, replay_date=DAYS[0])
    desk.add("falls", "move down 1%", "B")
    for day in DAYS:
        desk.on(day).look()
    assert [one.slot.partition(":")[0] for one in firings(desk.app.desk.store)] == [
        f"2010-11-{day}" for day in (18, 24, 26, 29, 30)
    ]


def test_what_is_not_seen_for_three_sessions_is_told_once(watched: Make, folder: Path) -> None:
    desk = watched(market="files", data=folder, replay_date=DAYS[0])
    desk.add("due", "earnings 5", "A")
    for day in DAYS[:5]:
        desk.on(day).look()
    with desk.app.desk.store.read() as session:
        (notice,) = notices(session)
    assert (notice.kind, notice.subject) == ("alerts_unseen", "A")
    assert notice.key.endswith("2010-11-16")
    assert firings(desk.app.desk.store) == []


def test_a_replay_that_goes_back_begins_afresh_and_no_slot_is_used_twice(watched: Make, folder: Path) -> None:
    desk = watched(market="files", data=folder, replay_date=DAYS[0])
    desk.add("over", "price above 104", "A")
    for day in (DAYS[1], DAYS[2], DAYS[0], DAYS[1], DAYS[2]):
        desk.on(day).look()
    assert [one.slot for one in firings(desk.app.desk.store)] == ["2010-11-18:1", "2010-11-18:2"]


def test_what_happens_on_the_desk_is_told_once(watched: Make) -> None:
    desk = watched()
    store = desk.app.desk.store
    with store.session() as session:
        a_run(session, state="failed", finished_at=utcnow(), account=desk.app.desk.settings.account)
    desk.add("broken", "failed")
    desk.add("dear", "spend 1000000")
    desk.look()
    assert firings(store) == [], "what had failed before is no news"
    with store.session() as session:
        a_run(session, state="failed", finished_at=utcnow(), account=desk.app.desk.settings.account)
        a_run(session, state="failed", finished_at=utcnow(), account="backtest-1")
    for _ in range(2):
        desk.look()
    (found,) = firings(store)
    assert (found.alert, found.symbol, found.run_id) == ("broken", "", None)


def test_what_the_desk_knows_of_itself_is_looked_at(watched: Make) -> None:
    """Each condition on rows; equity that was never marked is not known, and then a fall fires."""
    desk = watched()
    store, account = desk.app.desk.store, desk.app.desk.settings.account
    for name in ("verdict", "thesis"):
        desk.add(name, name, "IBM")
    for when in ("review", "drawdown 10%", "waiting 5", "failed", "spend 5"):
        desk.add(when.split()[0], when)
    desk.look()
    with store.read() as session:
        states = {one.alert: one for one in session.exec(select(AlertsState)).all()}
    assert {name: one.armed for name, one in states.items()} == {
        "verdict": True, "thesis": True, "review": True, "waiting": True, "failed": True, "spend": True,
        "drawdown": False,
    }  # fmt: skip
    assert "never marked" in str(states["drawdown"].unknown_why)
    for last in (95.0, 89.0):
        with store.session() as session:
            session.merge(
                EquityMark(account=account, day=dt.date(2010, 8, 12), opening=100.0, last=last, high_water=100.0)
            )
        desk.look()
    (found,) = firings(store)
    assert found.why == "account drawdown 10%: equity is 11.0% below its highest, 100.00"


def test_a_day_has_so_many_runs_and_then_alerts_only_notify(watched: Make, folder: Path) -> None:
    desk = watched(market="files", data=folder, replay_date=DAYS[1])
    desk.add("one", "price above 104", "A", action="research", most_per_day=0)
    desk.add("two", "price above 104", "A", action="research", given=("budget_tokens=5000",))
    for day in DAYS[1:3]:
        desk.on(day).look()
    capped, started = firings(desk.app.desk.store)
    assert (capped.state, capped.note) == ("ended", "no run: one has started 0 today")
    with desk.app.desk.store.read() as session:
        (run,) = session.exec(select(Run)).all()
    assert (started.run_id, run.kind, run.params["symbols"]) == (run.id, "research", ["A"])
    assert (run.schedule, run.settings["budget_run_tokens"], run.params["trade"]) == ("alert:two", 5000, False)


DYING = """
import os, signal, sys
from chordesk.models.settings.sources import load_settings
from chordesk.tasks.alerts import firing
from chordesk.tasks.alerts.alert_pass import look_around
from chordesk.tasks.worker.app import create_app

app, where, whole = create_app(load_settings(), "dying"), sys.argv[1], firing.open_once

def opening(*given):
    if where == "before":
        os.kill(os.getpid(), signal.SIGKILL)
    whole(*given)
    os.kill(os.getpid(), signal.SIGKILL)

firing.open_once = opening
look_around(app)
"""


@pytest.mark.parametrize("where", ["before", "after"])
def test_a_worker_that_is_killed_costs_no_run_firing_or_notice(watched: Make, folder: Path, where: str) -> None:
    """Killed after the firing with its notice and before its run, and between the run and its place in the firing."""
    desk = watched(market="files", data=folder, replay_date=DAYS[1])
    settings = desk.app.desk.settings
    desk.add("over", "price above 104", "A", action="research")
    desk.look()
    environ = {
        **os.environ, "DESK_HOME": str(settings.home), "DESK_REDIS_URL": redis_url(settings),
        "DESK_MARKET": "files", "DESK_DATA": str(folder), "DESK_REPLAY_DATE": DAYS[2].isoformat(),
    }  # fmt: skip
    done = subprocess.run([sys.executable, "-c", DYING, where], cwd=REPOSITORY, env=environ, timeout=PATIENCE)
    assert done.returncode == -signal.SIGKILL
    with desk.app.desk.store.session() as session:
        session.get_one(AlertsPass, "alerts").until = utcnow()  # its time is over
    for _ in range(2):
        desk.on(DAYS[3]).look()  # the price is back: what fired still gets its run
    with desk.app.desk.store.read() as session:
        (run,) = session.exec(select(Run)).all()
        assert len(notices(session)) == 1
    (found,) = firings(desk.app.desk.store)
    assert (found.run_id, found.state, run.slot) == (run.id, "started", "A:2010-11-18:1")


def test_of_two_looks_at_once_one_counts(watched: Make, folder: Path) -> None:
    desk = watched(market="files", data=folder, replay_date=DAYS[1])
    desk.look()
    desk.add("over", "price above 104", "A")
    desk.look()
    with desk.app.desk.store.session() as session:
        session.get_one(AlertsPass, "alerts").until = utcnow() + dt.timedelta(minutes=1)
    assert desk.on(DAYS[2]).look() == {"another": 1}
    assert firings(desk.app.desk.store) == []
