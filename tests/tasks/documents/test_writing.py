"""The pass that writes the reports of runs that ended: each once, none twice, and a failure is the pass's alone."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from pathlib import Path

import pytest

from chordesk.models.settings.running_desk import BACKTEST
from chordesk.models.states import DocumentState, RunKind, RunState
from chordesk.models.tables.columns import utcnow
from chordesk.models.tables.runs import Run, RunDocumentCopy
from chordesk.tasks.bootstrap import Desk
from chordesk.tasks.cli.show.run_display import document_line
from chordesk.tasks.reading.run_details import written_document
from chordesk.tasks.reports import writing
from chordesk.tasks.reports.writing import write_due
from tests.builders import a_run

NOTHING = {"written": 0, "failed": 0}


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path / "reports"


@pytest.fixture
def writer(desk: Desk, place: Path) -> Iterator[Desk]:
    made = Desk(desk.settings.model_copy(update={"report_url": str(place)}))
    yield made
    made.close()


def ended(desk: Desk, **values: object) -> str:
    with desk.store.session() as session:
        return a_run(session, **{"state": RunState.DONE, "finished_at": utcnow(), **values}).id


def seen(desk: Desk, run_id: str) -> RunDocumentCopy:
    with desk.store.read() as session:
        found = written_document(session, run_id)
    assert found is not None
    return found


def make_due(desk: Desk, run_id: str) -> None:
    with desk.store.session() as session:
        row = session.get_one(RunDocumentCopy, run_id)
        row.due_at = utcnow() - dt.timedelta(seconds=1)
        session.add(row)


def test_each_ended_run_is_written_once_and_its_place_is_shown(writer: Desk, place: Path) -> None:
    done, running = ended(writer), ended(writer, state=RunState.RUNNING, finished_at=None)
    assert write_due(writer) == {"written": 1, "failed": 0}
    assert write_due(writer) == NOTHING
    found = seen(writer, done)
    assert (found.state, found.place, found.error) == ("written", str(place / done), None)
    assert sorted(path.name for path in (place / done).iterdir()) == ["report.html", "report.json", "report.md"]
    assert not (place / running).exists()
    line = document_line(found)
    assert line is not None
    assert line.plain == f"Report {place / done}"


def test_without_a_place_nothing_is_written(desk: Desk) -> None:
    ended(desk)
    assert write_due(desk) == {}


def test_old_runs_and_the_days_of_a_backtest_are_left_alone(writer: Desk, place: Path) -> None:
    ended(writer, finished_at=utcnow() - writing.CATCH_UP - dt.timedelta(hours=1))
    ended(writer, account=f"{BACKTEST}x")
    assert write_due(writer) == NOTHING
    whole = ended(writer, account=f"{BACKTEST}x", kind=RunKind.BACKTEST)
    with writer.store.session() as session:
        run = session.get_one(Run, whole)
        run.params = {"backtest": whole, "parallel": False, "days": []}
        session.add(run)
    assert write_due(writer) == {"written": 1, "failed": 0}
    assert (place / whole / "report.html").exists()


def test_a_failure_is_recorded_and_tried_again_and_the_run_stays_as_it_is(writer: Desk, place: Path) -> None:
    place.write_text("a file where the folder should be")
    run_id = ended(writer)
    assert write_due(writer) == {"written": 0, "failed": 1}
    found = seen(writer, run_id)
    assert (found.state, found.tries, found.place) == ("due", 1, str(place))
    assert found.error is not None
    assert "cannot be written" in found.error
    assert found.due_at > utcnow()
    line = document_line(found)
    assert line is not None
    assert "not written after 1 tries" in line.plain
    assert write_due(writer) == NOTHING, "not before its time"
    place.unlink()
    make_due(writer, run_id)
    assert write_due(writer) == {"written": 1, "failed": 0}
    assert (seen(writer, run_id).tries, seen(writer, run_id).error) == (2, None)
    with writer.store.read() as session:
        assert session.get_one(Run, run_id).state == RunState.DONE


def test_it_is_given_up_at_last(writer: Desk, place: Path) -> None:
    place.write_text("in the way")
    run_id = ended(writer)
    for _ in range(writing.MOST_TRIES):
        assert write_due(writer) == {"written": 0, "failed": 1}
        make_due(writer, run_id)
    assert write_due(writer) == NOTHING
    found = seen(writer, run_id)
    assert (found.state, found.tries) == (DocumentState.FAILED, writing.MOST_TRIES)
    line = document_line(found)
    assert line is not None
    assert line.plain.endswith("given up")


def test_one_process_at_a_time_has_a_report_and_a_lost_one_loses_it(writer: Desk) -> None:
    run_id, now = ended(writer), utcnow()
    with writer.store.session() as session:
        writing.add_ended(session, "x", now)
        writing.add_ended(session, "x", now)
        assert writing.claim_report(session, run_id, now)
        assert not writing.claim_report(session, run_id, now)
        assert writing.due_runs(session, now, 10) == []
        assert writing.claim_report(session, run_id, now + writing.HELD)
