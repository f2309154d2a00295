"""`desk scores` and `desk calibrate`, as people run them."""

from __future__ import annotations

import json
from pathlib import Path

from chordesk.models.database.store import Store
from tests.databases import make_database
from tests.tasks.cli.running import desk
from tests.tools.scoring.rows import a_forecast, a_question, a_run_on
from tests.tools.scoring.test_records import a_verdict


def a_home(tmp_path: Path) -> Path:
    """A home whose database has 30 days of a forecast and a verdict each."""
    home = tmp_path / "home"
    url = f"sqlite:///{home / 'desk.db'}"
    make_database(url)
    store = Store(url)
    with store.session() as session:
        for day in range(30):
            a_verdict(session, day, "IBM", float(day % 3 != 0))
            question = a_question(session, f"q{day}", float(day % 4 != 0), day)
            a_forecast(session, a_run_on(session, day), question, "ada", 0.7)
    store.close()
    return home


def test_calibrate_stores_a_probability_once_there_is_enough(tmp_path: Path) -> None:
    home = a_home(tmp_path)
    strict = desk(home, "calibrate", "--min-n", "31")
    assert "not enough: 30 of 31 resolved questions, 30 of 30 dates, 6.0 of 5 horizons" in strict.stdout
    found = json.loads(desk(home, "calibrate", "--json").stdout)
    assert [(one["rating"], one["confidence"], one["n"], one["dates"]) for one in found] == [("BUY", "high", 30, 30)]
    assert round(found[0]["found"]["probability"], 6) == round(2 / 3, 6)
    assert "67% beat the median" in desk(home, "calibrate").stdout
