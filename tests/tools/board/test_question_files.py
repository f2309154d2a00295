"""Questions of files: each format with rows that cannot be questions, twice, and ten thousand at once."""

from __future__ import annotations

import csv
import datetime as dt
import json
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import event
from sqlmodel import select

from chordesk.models.database.store import Store
from chordesk.models.errors import UsageError
from chordesk.models.tables.board import Question
from chordesk.tools.board.question_files import FolderReport, Importing, export_csv, import_files
from chordesk.tools.questions.stored_questions import known_at

NOW = dt.datetime(2026, 3, 2, 15, tzinfo=dt.UTC)


def given(store: Store, path: Path) -> FolderReport:
    return import_files(store, path, Importing("Ann", NOW, NOW))


def stored(store: Store) -> dict[str, Question]:
    with store.read() as session:
        return {row.external_id: row for row in session.exec(select(Question))}


def written(path: Path, what: Any) -> Path:
    path.write_text(what if isinstance(what, str) else json.dumps(what), encoding="utf-8")
    return path


def aside(report: FolderReport) -> dict[int, str]:
    return {one.row: one.reason for one in report.set_aside}


BENCH = {
    "id": "DPRIME",
    "source": "fred",
    "question": "Will the rate have increased by {resolution_date} from {forecast_due_date}?",
    "resolution_criteria": "As the series has it.",
    "background": "Per cent.",
    "freeze_datetime": "2026-02-19T00:00:00+00:00",
    "freeze_datetime_value": "6.75",
    "freeze_datetime_value_explanation": "The latest value.",
    "market_info_close_datetime": "N/A",
    "market_info_resolution_criteria": "N/A",
    "url": "https://fred.example/DPRIME",
    "resolution_dates": ["2026-03-08", "2026-03-31"],
}
MARKET = BENCH | {
    "id": "40965",
    "source": "metaculus",
    "question": "Will it be released?",
    "freeze_datetime_value": "0.65",
    "market_info_close_datetime": "2026-12-31T00:00:00+00:00",
    "market_info_resolution_criteria": "Yes if released before 2027.",
    "resolution_dates": "N/A",
}


def test_a_question_set_has_a_question_for_each_horizon(store: Store, tmp_path: Path) -> None:
    odd = [
        BENCH | {"id": ["a", "b"]},
        MARKET | {"id": "1", "market_info_close_datetime": "2026-01-01T00:00:00+00:00"},
        MARKET | {"id": "2", "freeze_datetime": "soon"},
        MARKET | {"id": "3", "question": "half \ud800"},
        MARKET | {"id": "4", "freeze_datetime_value": "N/A"},
        "no object",
    ]
    questions = {"forecast_due_date": "2026-03-01", "questions": [BENCH, MARKET, *odd]}
    report = given(store, written(tmp_path / "2026-03-01-llm.json", questions))
    assert (report.new, sorted(aside(report))) == (4, [3, 4, 5, 6, 8])
    assert "combination" in aside(report)[3]
    assert aside(report)[5].startswith("freeze_datetime: ")
    rows = stored(store)
    data, market = rows["2026-03-01 fred DPRIME 2026-03-31"], rows["2026-03-01 metaculus 40965"]
    assert data.text == "Will the rate have increased by 2026-03-31 from 2026-03-01?"
    assert (data.baseline, data.criteria) == (0.5, "As the series has it.")
    assert data.closes_at == dt.datetime(2026, 3, 31, tzinfo=dt.UTC)
    assert data.opens_at == dt.datetime(2026, 2, 19, tzinfo=dt.UTC)
    assert data.background.split("\n") == ["At the freeze, 2026-02-19: 6.75.", "The latest value.", "Per cent."]
    assert (market.baseline, market.criteria) == (0.65, "As the series has it.\nYes if released before 2027.")
    assert rows["2026-03-01 metaculus 4"].baseline is None


def test_both_forms_of_metaculus_and_its_groups(store: Store, tmp_path: Path) -> None:
    inner = {
        "id": 11, "type": "binary", "title": "Will A?", "scheduled_close_time": "2026-12-31T00:00:00Z",
        "resolution": None, "resolution_criteria": "A.", "fine_print": "Not B.", "description": "Why.",
        "aggregations": {"recency_weighted": {"latest": {"centers": [0.3]}}},
    }  # fmt: skip
    old = {
        "id": 5, "title": "Will O?", "possibilities": {"type": "binary"}, "close_time": "2027-01-01T00:00:00Z",
        "community_prediction": {"full": {"q2": 0.8}}, "resolution": None,
    }  # fmt: skip
    rows = [
        {"id": 10, "title": "A", "question": inner},
        {"id": 20, "title": "G", "group_of_questions": {"questions": [inner | {"id": 21}, inner | {"id": 22}]}},
        old,
        old | {"id": 6, "possibilities": {"type": "continuous"}},
        old | {"id": 7, "resolution": 1},
        old | {"id": 8, "close_time": None},
        old | {"id": 9, "close_time": "2026-01-01T00:00:00Z"},
        {"id": 30, "title": "A notebook", "question": None},
        {"name": "another list"},
    ]
    report = given(store, written(tmp_path / "page.json", {"results": rows}))
    assert (report.new, sorted(aside(report))) == (4, [4, 5, 6, 7, 8, 9])
    assert aside(report)[4] == "it has other outcomes than yes and no: continuous"
    found = stored(store)
    assert sorted(found) == ["11", "21", "22", "5"]
    assert (found["11"].source, found["11"].baseline, found["5"].baseline) == ("metaculus", 0.3, 0.8)
    assert (found["11"].criteria, found["11"].background) == ("A.\nNot B.", "Why.")
    assert found["21"].url == "https://www.metaculus.com/questions/20/"


def test_markets_of_manifold_are_those_that_the_venue_resolves(store: Store, tmp_path: Path) -> None:
    good = {
        "id": "m1", "question": "Rain?", "url": "https://manifold.example/m1", "outcomeType": "BINARY",
        "isResolved": False, "probability": 0.2, "closeTime": int(NOW.timestamp() * 1000) + 10**9,
        "textDescription": "Resolves YES on rain.",
    }  # fmt: skip
    odd = [
        good | {"id": "m2", "outcomeType": "MULTIPLE_CHOICE"},
        good | {"id": "m3", "isResolved": True, "resolution": "YES"},
        good | {"id": "m4", "closeTime": 1},
        good | {"id": "m5", "probability": 1.5},
        good | {"id": "m6", "isResolved": "maybe"},
        good | {"id": "m7", "question": " "},
    ]
    report = given(store, written(tmp_path / "markets.json", [good, *odd, good]))
    assert (report.new, sorted(aside(report))) == (1, [2, 3, 4, 5, 6, 7, 8])
    assert aside(report)[3] == "it is resolved: what Manifold says of it now is no price of before"
    assert aside(report)[7] == "it has no text"
    assert aside(report)[8] == "the same question is in markets.json, row 1"
    (row,) = stored(store).values()
    assert row.rule == {"kind": "venue", "venue": "manifold", "id": "m1"}
    assert (row.baseline, row.criteria) == (0.2, "Resolves YES on rain.")


def test_lines_of_an_own_csv(store: Store, tmp_path: Path) -> None:
    lines = [
        "question,closes,baseline,about,criteria",
        'Will it rain?,2026-12-01,0.3,"KO, AAPL","The gauge,\nat noon."',
        "Will it snow?,2026-12-01,,,",
        "Too late?,2026-01-01,,,",
        "Sure?,2026-12-01,1.5,,",
        "Much?,2026-12-01,much,,",
        ",2026-12-01,,,",
        "When?,some day,,,",
        "Few?,2026-12-01",
        "Whom?,2026-12-01,,not a symbol!,",
    ]
    path = written(tmp_path / "own.csv", "\n".join(lines))
    path.write_bytes(path.read_bytes() + b"\nNa\xefve?,2026-12-01,,,\n")
    written(tmp_path / "other.csv", "Frage,closes\nx,2026-12-01\n")
    written(tmp_path / "cut.json", '[{"id": 1,')
    report = given(store, tmp_path)
    whole = {one.file for one in report.set_aside if one.row == 0}
    of_own = [one.row for one in report.set_aside if one.file == "own.csv"]
    assert (report.new, whole, of_own) == (2, {"other.csv", "cut.json"}, [5, 6, 7, 8, 9, 10, 11, 12])
    rows = {row.text: row for row in stored(store).values()}
    assert rows["Will it rain?"].subjects == ["KO", "AAPL"]
    assert rows["Will it rain?"].criteria == "The gauge,\nat noon."
    assert rows["Will it rain?"].baseline_source == "given by Ann"
    assert (rows["Will it snow?"].baseline, rows["Will it snow?"].source) == (0.5, "person")


def test_outcomes_are_taken_with_the_time_from_which_they_are_known(store: Store, tmp_path: Path) -> None:
    written(tmp_path / "2026-03-01-llm.json", {"forecast_due_date": "2026-03-01", "questions": [BENCH, MARKET]})
    assert given(store, tmp_path).new == 3
    row = {"source": "fred", "id": "DPRIME", "resolution_date": "2026-03-08", "resolved_to": 1.0, "resolved": True}
    open_yet = {"source": "metaculus", "id": "40965", "resolution_date": "2026-04-01", "resolved_to": 0.4}
    outcomes = {"forecast_due_date": "2026-03-01", "resolutions": [row, open_yet | {"resolved": False}]}
    written(tmp_path / "2026-03-01_resolution_set.json", outcomes)
    written(tmp_path / "2026-03-15_resolution_set.json", outcomes | {"forecast_due_date": "2026-03-15"})
    report = given(store, tmp_path)
    assert (report.changed, report.same) == (1, 2)
    assert "2026-03-15-llm.json, which is not here" in report.set_aside[0].reason
    ended = stored(store)["2026-03-01 fred DPRIME 2026-03-08"]
    assert (ended.state, ended.outcome, known_at(ended)) == ("resolved", 1.0, dt.datetime(2026, 3, 9, tzinfo=dt.UTC))
    past = "question,opens,closes,state,outcome,resolved\n"
    lines = ["Rain?,2026-01-01,2026-02-01,resolved,yes,2026-02-03T12:00+00:00", "Hail?,2026-01-01,2026-02-01,void,,"]
    given(store, written(tmp_path / "own.csv", past + "\n".join(lines)))
    rows = {one.text: one for one in stored(store).values()}
    assert (rows["Rain?"].outcome, rows["Hail?"].state) == (1.0, "void")
    assert known_at(rows["Rain?"]) == dt.datetime(2026, 2, 3, 12, tzinfo=dt.UTC), "after its closing"
    with store.read() as session:
        export_csv(session.exec(select(Question)).all(), tmp_path / "all.csv")
    assert given(store, tmp_path / "all.csv").same == 5


def test_a_second_import_changes_nothing_and_an_export_is_one(store: Store, tmp_path: Path) -> None:
    folder = tmp_path / "sets"
    folder.mkdir()
    written(folder / "set.json", {"forecast_due_date": "2026-03-01", "questions": [BENCH, MARKET]})
    written(folder / "own.csv", "question,closes,baseline\nWill it rain?,2026-12-01,0.3\n")
    given(store, folder)
    before = {key: row.model_dump() for key, row in stored(store).items()}
    later = Importing("Bob", NOW + dt.timedelta(days=1), NOW)
    report = import_files(store, folder, later)
    assert (report.new, report.changed, report.same) == (0, 1, 3)  # the price is Bob's now
    again = import_files(store, folder, later)
    assert (again.new, again.changed, again.same) == (0, 0, 4)
    with store.read() as session:
        assert export_csv(session.exec(select(Question)).all(), tmp_path / "all.csv") == 4
    exported = given(store, tmp_path / "all.csv")
    assert (exported.new, exported.changed, exported.same, exported.set_aside) == (0, 0, 4, ())
    assert set(stored(store)) == set(before)
    line = "question,closes,opens,source,id\nSooner?,2026-01-02,2026-01-01,forecastbench,2026-03-01 metaculus 40965\n"
    sooner = given(store, written(tmp_path / "sooner.CSV", line))
    assert (sooner.changed, list(aside(sooner))) == (0, [2])


def test_ten_thousand_questions_are_few_statements(store: Store, tmp_path: Path) -> None:
    path = tmp_path / "many.csv"
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([("question", "closes"), *((f"Will {n}?", "2026-12-01") for n in range(10_000))])
    statements: list[str] = []
    event.listen(store.engine, "before_cursor_execute", lambda *given: statements.append(given[2]))
    assert given(store, path).new == 10_000
    assert len(statements) < 300


def test_a_folder_without_questions_is_named(store: Store, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"has no \.json and no \.csv"):
        given(store, tmp_path)
