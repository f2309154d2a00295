"""Lenses as people see them: what is in force, what one finds today, what changed, and tries that are counted."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import pytest
from sqlmodel import select

from chordesk.agents.desk_roles import kept_lenses
from chordesk.models.database.store import Store
from chordesk.models.errors import NotFound, UsageError
from chordesk.models.settings import Settings
from chordesk.models.tables.runs import LensTrial
from chordesk.tasks.bootstrap import Desk
from chordesk.tasks.lenses import check, difference, rows, try_out
from tests.builders import a_run

RULE = """+++
by = "rule"
where = "momentum20 > {0} and splitLike == 0"
score = "momentum20"
+++
Names that rise.
"""
FIRST, LAST = dt.date(2010, 3, 1), dt.date(2010, 6, 30)


@pytest.fixture
def desk(store: Store, tmp_path: Path) -> Desk:
    (tmp_path / "lenses").mkdir()
    written(tmp_path, "rising", RULE.format("0.05"))
    return Desk(Settings(home=tmp_path, database_url=store.url, lenses="technical,rising"), "lens", records=False)


def written(home: Path, name: str, text: str) -> None:
    (home / "lenses" / f"{name}.md").write_text(text)


def test_the_list_has_faulty_files_with_their_remedy(desk: Desk) -> None:
    written(desk.settings.home, "broken", "+++\nhits = 99\n+++\nx")
    found = {row.name: row for row in rows(desk.settings)}
    assert (found["rising"].origin, found["rising"].by, found["rising"].used) == ("own", "rule", True)
    assert (found["technical"].origin, found["unified"].used) == ("desk", False)
    assert "hits is '99'" in str(found["broken"].fault)
    assert "correct it" in str(found["broken"].fault)


def test_a_check_says_what_passes_today(desk: Desk) -> None:
    found = check(desk, "rising")
    assert (found.market, found.compared, found.hits) == ("replay", 524, 6)
    assert 0 < found.passing < found.compared
    scores = [row["score"] for row in found.passed]
    assert scores == sorted(scores, reverse=True)
    assert found.notes
    assert "undecided" in found.notes[0]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (RULE.format("0 and trailingPE < 9"), "the replay market has no trailingPE"),
        ("Words alone.", "words alone, and no model reads them on the provider rulebook"),
        ("+++\nwhere = 'momentum20 >'\n+++\nx", "the lens rising: where cannot be read"),
    ],
)
def test_a_check_refuses_what_could_find_nothing(desk: Desk, text: str, says: str) -> None:
    written(desk.settings.home, "rising", text)
    with pytest.raises(UsageError, match=says):
        check(desk, "rising")


def test_a_difference_is_from_the_text_that_a_run_kept(desk: Desk, store: Store) -> None:
    with store.read() as session, pytest.raises(NotFound, match="no run has kept the lens rising"):
        difference(session, desk.settings, "rising", None)
    with store.session() as session:
        run = a_run(session, kind="screen", settings={"own_lenses": kept_lenses(["rising"], desk.settings)})
        run_id = run.id
    written(desk.settings.home, "rising", RULE.format("0.1"))
    with store.read() as session:
        found, text = difference(session, desk.settings, "rising", None)
    assert found == run_id
    assert '-where = "momentum20 > 0.05 and splitLike == 0"\n+where = "momentum20 > 0.1 and splitLike == 0"' in text
    with store.read() as session, pytest.raises(UsageError, match="'technical' is not an own lens"):
        difference(session, desk.settings, "technical", None)


def test_each_text_that_was_tried_counts_once(desk: Desk, store: Store) -> None:
    universe = "AAPL,IBM,GE,KO,XOM,JNJ,PG,WMT,CVX,MRK"
    tries = []
    for least in ("0.05", "0.05", "0.02"):
        written(desk.settings.home, "rising", RULE.format(least))
        tries.append(try_out(desk, "rising", FIRST, LAST, 5, universe))
    assert [one.tries for one in tries] == [1, 1, 2]
    assert tries[0] == tries[1]
    assert tries[2].hits > tries[0].hits
    assert set(tries[0].overlap) == {"technical", "catalyst", "options"}
    with store.read() as session:
        kept = session.exec(select(LensTrial)).all()
    assert {row.version for row in kept} == {tries[0].version, tries[2].version}
    assert len(kept) == 2


def test_a_try_needs_a_rule_and_days_of_the_data(desk: Desk) -> None:
    for name, first, says in (
        ("fundamental", FIRST, "has no rule"),
        ("rising", dt.date(1999, 1, 4), "outside the data"),
        ("rising", dt.date(2010, 12, 1), "after the last"),
    ):
        with pytest.raises(UsageError, match=says):
            try_out(desk, name, first, LAST)
