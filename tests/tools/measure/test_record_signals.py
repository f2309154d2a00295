"""The record of question sets: what a board's day knows of it, and that nothing later is in it."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import pytest
from sqlmodel import col, select

from chordesk.models.database.store import Store
from chordesk.models.settings import Settings
from chordesk.models.tables.board import Question, SignalFinding
from chordesk.tools.board.harvest_context import HarvestContext
from chordesk.tools.board.question_files import Importing, import_files
from chordesk.tools.measure.benchmarks import calendar
from chordesk.tools.questions.stored_questions import askable, known_at
from tests.tools.board.boards import harvested, question
from tests.tools.conftest import MakeContext
from tests.tools.measure.benchmarks.test_forecastbench import PRICES, SETS, write

AT = dt.datetime(2026, 11, 1, tzinfo=dt.UTC)
LAST = SETS[-1]


@pytest.fixture
def imported(store: Store, tmp_path: Path) -> Store:
    for due in SETS:
        write(tmp_path, due)
    import_files(store, tmp_path, Importing("Ann", AT, AT))
    return store


def rows(store: Store, due: dt.date) -> dict[str, Question]:
    with store.read() as session:
        found = session.exec(select(Question).where(col(Question.external_id).startswith(str(due)))).all()
    return {one.external_id.removeprefix(f"{due} "): one for one in found}


def on(day: dt.date) -> calendar.Calendar:
    return calendar.build(Settings(), day)


def of_record(store: Store, make_context: MakeContext, day: dt.date) -> dict[str, SignalFinding]:
    week = LAST + dt.timedelta(days=7)
    asked = rows(store, LAST)
    names = {f"yfinance UP {week}": "Q1", f"yfinance DOWN {week}": "Q2", "polymarket 0xa": "Q3"}
    questions = tuple(question(label, id=asked[name].id) for name, label in names.items())
    context = HarvestContext(make_context(on(day), store), questions, (), 60.0)
    return {str(one.subjects[0]): one for one in harvested("record", context)}


def test_a_question_with_its_outcome_is_open_until_the_day_that_decided_it_has_passed(imported: Store) -> None:
    week = LAST + dt.timedelta(days=7)
    row = rows(imported, LAST)[f"yfinance UP {week}"]
    assert (row.state, row.outcome, known_at(row).date()) == ("resolved", 1.0, week + dt.timedelta(days=1))
    with imported.read() as session:
        before, after = (
            {one.id for one in askable(session, market, market.clock.now())}
            for market in (on(dt.date(2026, 3, 19)), on(dt.date(2026, 4, 6)))
        )
    assert dt.date(2026, 3, 29) == LAST
    assert row.id in before
    assert row.id not in after
    year = rows(imported, LAST)[f"yfinance UP {LAST + dt.timedelta(days=365)}"]
    assert (year.state, year.id in after) == ("open", True)


def test_a_board_has_the_record_of_a_series_and_of_prices_near(imported: Store, make_context: MakeContext) -> None:
    found = of_record(imported, make_context, dt.date(2026, 3, 19))
    assert found["Q1"].data["known"] == found["Q1"].data["yes"] == 10, "of the sets that were resolved a week before"
    assert found["Q1"].probability > 0.8 > 0.2 > found["Q2"].probability
    # No other market has a price within NEAR of .9: it stands alone.
    assert found["Q3"].probability == pytest.approx(PRICES["0xa"])


def test_no_finding_depends_on_an_outcome_of_less_than_a_week_before(
    imported: Store, make_context: MakeContext
) -> None:
    day = dt.date(2026, 3, 19)
    first = of_record(imported, make_context, day)
    until = on(day).clock.now() - dt.timedelta(days=7)
    with imported.session() as session:
        for row in session.exec(select(Question).where(col(Question.outcome).is_not(None))):
            if known_at(row) > until:
                row.outcome = 1 - (row.outcome or 0.0)
    again = of_record(imported, make_context, day)
    assert {label: one.model_dump() for label, one in again.items()} == {
        label: one.model_dump() for label, one in first.items()
    }
