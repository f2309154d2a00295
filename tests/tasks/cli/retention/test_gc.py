"""`desk gc`: counted, deleted, measured, and its space given back, on a home without a running desk."""

from __future__ import annotations

import datetime as dt
import fcntl
import json
from pathlib import Path
from typing import Any

import pytest

from chordesk.models import event_log
from chordesk.models.database.store import Store
from chordesk.models.events import EventType, event
from chordesk.models.settings.running_desk import lock_path
from chordesk.models.states import RunState, StepState
from chordesk.models.tables.columns import utcnow
from chordesk.models.tables.runs import ToolCall
from chordesk.models.tables.runtime import EventHead, Notice, RuntimeTurn
from tests.builders import a_run, a_step, a_turn
from tests.databases import make_database
from tests.tasks.cli.running import desk

CALLS = 3000


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A home with a run of 400 days ago, 3 MB of tool calls, one of 40 days ago, and one of today; the first two have
    events, a turn of the runtime and a notice."""
    url = f"sqlite:///{tmp_path / 'desk.db'}"
    make_database(url)
    store = Store(url)
    old = utcnow() - dt.timedelta(days=400)
    with store.session() as session:
        a_run(session)
        run = a_run(session, state=RunState.DONE, created_at=old, finished_at=old)
        ended = utcnow() - dt.timedelta(days=40)
        later = a_run(session, state=RunState.DONE, created_at=ended, finished_at=ended)
        turn = a_turn(session, a_step(session, run, state=StepState.DONE))
        call = {"tool": "quote", "success": True, "has_data": True, "seconds": 0.1}
        session.add_all(ToolCall(turn_id=turn.id, ordinal=n, output="o" * 1000, **call) for n in range(CALLS))
    for days, run_id in ((400, run.id), (40, later.id)):
        _was_followed(store, run_id, utcnow() - dt.timedelta(days=days))
    store.close()
    return tmp_path


def _was_followed(store: Store, run_id: str, at: dt.datetime) -> None:
    with store.session() as session:
        event_log.append(session, [event(EventType.TOOL_COMPLETED, run_id, tool="t", n=n) for n in range(3)])
    with store.session() as session:
        session.get_one(EventHead, run_id).updated_at = at
        session.add(RuntimeTurn(run_id=run_id, thread_id="t", turn_id=run_id, status="completed", started_at=at))
        session.add(Notice(kind="run_finished", key=run_id, run_id=run_id, subject="", facts={}, occurred_at=at))


def amounts(home: Path, *arguments: str) -> Any:
    done = desk(home, "gc", *arguments, "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)["amounts"]


def test_a_dry_run_foresees_what_goes(home: Path) -> None:
    counted = amounts(home, "--dry-run")
    assert (counted["run"]["rows"], counted["tool_call"]["rows"]) == (1, CALLS)
    assert {name: counted[name]["rows"] for name in ("event", "runtime_turn", "notice")} == {
        "event": 6, "runtime_turn": 2, "notice": 2,
    }  # fmt: skip
    assert counted["tool_call"]["bytes"] > CALLS * 1000
    assert amounts(home, "--dry-run") == counted
    assert amounts(home) == counted
    assert amounts(home) == {}


def test_people_get_a_table_and_the_way_to_the_space(home: Path) -> None:
    done = desk(home, "gc")
    assert done.returncode == 0
    assert "tool_call" in done.stdout
    assert "desk gc --vacuum" in done.stdout
    assert "not looked at: rollouts: no Redis" in done.stderr
    size = (home / "desk.db").stat().st_size
    again = desk(home, "gc", "--vacuum")
    assert "nothing is due" in again.stdout
    assert "given back to the disk" in again.stdout
    assert (home / "desk.db").stat().st_size < size - 2_000_000


def test_an_age_of_its_own(home: Path) -> None:
    assert "run" not in amounts(home, "--dry-run", "--older-than", "500")
    done = desk(home, "gc", "--older-than", "0.5")
    assert done.returncode == 2
    assert "older-than" in done.stderr


def test_space_is_not_given_back_under_a_desk_at_work(home: Path) -> None:
    lock_path(home).parent.mkdir(exist_ok=True)
    with lock_path(home).open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        done = desk(home, "gc", "--vacuum")
    assert (done.returncode, "stop the desk first" in done.stderr) == (2, True)
    assert amounts(home, "--dry-run"), "nothing was deleted either"
