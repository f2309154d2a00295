"""Removal of pictures: of runs that ended long ago, never of one that goes on."""

from __future__ import annotations

import datetime as dt
import os
from pathlib import Path

import pytest
from sqlmodel import select

from chordesk.models.database.blobs import FOLDER, digest_of, keep, path_in_home, removed_at
from chordesk.models.database.store import Store
from chordesk.models.settings import Settings
from chordesk.models.tables.columns import utcnow
from chordesk.models.tables.runs import Artifact, Run, ToolCall
from chordesk.tasks.retention import old_files
from chordesk.tasks.retention.old_files import prune_hourly
from chordesk.tasks.retention.retention_policy import policy_of
from tests.tasks.events.kit import ended, opened
from tests.tools.ledger_rows import add, add_turn

DAY = dt.timedelta(days=1)


def prune(store: Store, settings: Settings, now: dt.datetime) -> int:
    """Prune by the settings and return how many files went: those that were counted before."""
    policy = policy_of(settings, now)
    counted = old_files.due_pictures(store, settings.home, policy)
    assert old_files.prune_pictures(store, settings.home, policy) == counted
    assert (counted.bytes > 0) == (counted.rows > 0)
    return counted.rows


def picture(store: Store, settings: Settings, run_id: str | None, data: bytes, days: float) -> Path:
    """A picture of a run, given to its turn so many days ago; None for one without a row."""
    keep(settings.home, data, "image/png")
    path = settings.home / path_in_home(digest_of(data), "image/png")
    stamp = (utcnow() - days * DAY).timestamp()
    os.utime(path, (stamp, stamp))
    if run_id is not None:
        with store.session() as session:
            turn = add_turn(session, session.get_one(Run, run_id))
            call = ToolCall(
                turn_id=turn.id, ordinal=0, tool="chart_render", output="{}", success=True, has_data=True, seconds=0.1
            )
            add(session, call)
            named = {"kind": "image/png", "digest": digest_of(data), "size": len(data)}
            session.add(Artifact(run_id=run_id, turn_id=turn.id, call_id=call.id, **named))
    return path


def run_of(store: Store, days: float | None) -> str:
    """A run that ended so many days ago, None for one that goes on."""
    run_id = opened(store)
    if days is not None:
        ended(store, run_id)
        with store.session() as session:
            session.get_one(Run, run_id).finished_at = utcnow() - days * DAY
    return run_id


def rows(store: Store) -> int:
    with store.read() as session:
        return len(session.exec(select(Artifact)).all())


def test_pictures_of_runs_that_ended_long_ago_are_removed(store: Store, settings: Settings) -> None:
    old = picture(store, settings, run_of(store, 91), b"old", 91)
    new = picture(store, settings, run_of(store, 89), b"new", 91)
    going = picture(store, settings, run_of(store, None), b"going", 400)
    assert prune(store, settings, utcnow()) == 1
    assert (old.exists(), new.exists(), going.exists()) == (False, True, True)
    assert removed_at(settings.home, f"{FOLDER}/{old.name}") is not None
    assert removed_at(settings.home, f"{FOLDER}/{new.name}") is None
    assert rows(store) == 3
    assert prune(store, settings, utcnow()) == 0


@pytest.mark.parametrize("other", [None, 10.0])
def test_a_picture_of_two_runs_stays_for_the_later_one(other: float | None, store: Store, settings: Settings) -> None:
    picture(store, settings, run_of(store, 200), b"same", 200)
    path = picture(store, settings, run_of(store, other), b"same", 150)
    assert prune(store, settings, utcnow()) == 0
    assert path.exists()
    with store.session() as session:
        for run in session.exec(select(Run)).all():
            run.finished_at = utcnow() - 120 * DAY
    assert prune(store, settings, utcnow()) == 1
    assert not path.exists()


def test_a_file_without_a_row_is_removed_once_no_turn_can_have_it(store: Store, settings: Settings) -> None:
    short = settings.model_copy(update={"keep_artifact_days": 0.01})
    fresh = picture(store, settings, None, b"of a turn that goes on", 0.5)
    left = picture(store, settings, None, b"of a turn that was killed", 1.5)
    assert prune(store, short, utcnow()) == 1
    assert (fresh.exists(), left.exists()) == (True, False)


def test_a_picture_that_was_given_to_a_turn_lately_stays(store: Store, settings: Settings) -> None:
    """Its row is written with the turn's end; until then the file's time alone shows that it is needed."""
    path = picture(store, settings, run_of(store, 200), b"again", 200)
    keep(settings.home, b"again", "image/png")
    assert prune(store, settings, utcnow()) == 0
    assert path.exists()


def test_a_data_folder_is_looked_after_once_an_hour(store: Store, settings: Settings) -> None:
    prune_hourly(store, settings, utcnow())  # before the first picture there is no folder
    first = picture(store, settings, run_of(store, 100), b"first", 100)
    now = utcnow()
    prune_hourly(store, settings, now)
    second = picture(store, settings, run_of(store, 100), b"second", 100)
    prune_hourly(store, settings, now + dt.timedelta(minutes=59))
    assert (first.exists(), second.exists()) == (False, True)
    prune_hourly(store, settings, now + dt.timedelta(minutes=61))
    assert not second.exists()


def test_rollouts_of_app_servers_go_with_the_threads_that_nobody_used(store: Store, settings: Settings) -> None:
    old, young, foreign = (
        settings.home / "codex" / place
        for place in (
            "research/aged/sessions/2026/01/02/rollout-a.jsonl",
            "research/kept/sessions/2026/01/03/rollout-b.jsonl",
            "research/kept/sessions/2026/01/02/notes.txt",
        )
    )
    now = utcnow()
    for path, days in ((old, 15), (young, 13), (foreign, 15)):
        path.parent.mkdir(parents=True)
        path.write_text("{}\n")
        os.utime(path, (now.timestamp() - days * 86_400,) * 2)
    policy = policy_of(settings, now)
    assert [(path, size) for path, size in old_files.old_rollouts(settings, policy)] == [(old, 3)]
    prune_hourly(store, settings, now)
    assert (old.parent.exists(), young.exists(), foreign.exists()) == (False, True, True)


def test_a_database_that_is_away_removes_nothing(store: Store, settings: Settings) -> None:
    path = picture(store, settings, run_of(store, 100), b"first", 100)
    away = Store(f"sqlite:///{settings.home / 'none' / 'desk.db'}")
    prune_hourly(away, settings, utcnow())
    away.close()
    assert path.exists()
