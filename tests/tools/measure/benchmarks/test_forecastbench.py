"""Question sets with their resolutions: what is scored, what a forecast may know, and what is refused."""

from __future__ import annotations

import datetime as dt
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from chordesk.models.benchmarks import Answered, Ask, Given
from chordesk.models.errors import UsageError
from chordesk.tools.measure.benchmarks import forecastbench
from chordesk.tools.measure.benchmarks.forecastbench import by_code, key_of, measure, read, scores, submitted

FIRST = dt.date(2025, 10, 26)
SETS = [FIRST + dt.timedelta(days=14 * place) for place in range(12)]
SERIES = {"yfinance": ["UP", "DOWN"], "fred": ["RATE"], "polymarket": ["0xa", "0xb"]}
PRICES = {"0xa": 0.9, "0xb": 0.2}


def outcome(source: str, name: str, day: dt.date) -> float:
    """UP rises always, DOWN never, the rate every other time; the market's price is right."""
    if source == "polymarket":
        return float(PRICES[name] > 0.5)
    return {"UP": 1.0, "DOWN": 0.0}.get(name, float(day.toordinal() // 14 % 2))


def question(source: str, name: str, due: dt.date, days: list[dt.date]) -> dict[str, Any]:
    return {
        "id": name, "source": source, "question": f"Will {name} rise by {{resolution_date}}?",
        "freeze_datetime": f"{due - dt.timedelta(days=10)}T00:00:00+00:00",
        "freeze_datetime_value": str(PRICES.get(name, 7.5)),
        "market_info_close_datetime": "2027-12-31T00:00:00+00:00",
        "resolution_dates": "N/A" if source == "polymarket" else [day.isoformat() for day in days],
    }  # fmt: skip


def write(root: Path, due: dt.date, changed: dict[tuple[dt.date, str], float] | None = None) -> None:
    """A set with one week and a year, of which the week is resolved. changed: outcomes by set and series."""
    week, year = due + dt.timedelta(days=7), due + dt.timedelta(days=365)
    names = [(source, name) for source, all_of in SERIES.items() for name in all_of]
    asked = [question(source, name, due, [week, year]) for source, name in names]
    resolved = [
        {
            "id": name, "source": source, "direction": None, "resolution_date": week.isoformat(), "resolved": True,
            "resolved_to": (changed or {}).get((due, name), outcome(source, name, due)),
        }
        for source, name in names
    ]  # fmt: skip
    head = {"forecast_due_date": due.isoformat(), "question_set": f"{due}-llm.json"}
    (root / f"{due}-llm.json").write_text(json.dumps({**head, "questions": asked}))
    (root / f"{due}_resolution_set.json").write_text(json.dumps({**head, "resolutions": resolved}))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for due in SETS:
        write(tmp_path, due)
    return tmp_path


def test_scores_are_the_mean_squares_of_an_own_computation(folder: Path) -> None:
    found = by_code(read(folder), SETS)
    for name, forecasts in found.items():
        own = [(one.probability - one.asked.outcome) ** 2 for one in forecasts if one.asked.outcome is not None]
        by_group = {one.group: one for one in scores(name, forecasts)}
        both = [by_group[group].brier * by_group[group].n for group in ("data", "market")]
        assert sum(both) == pytest.approx(sum(own))
        assert sum(by_group[group].n for group in ("data", "market")) == len(own) == 12 * 5
    market = {one.group: one.brier for one in scores("freeze price", found["freeze price"])}["market"]
    assert market == pytest.approx(np.mean([0.1**2, 0.2**2]))


def test_a_series_that_always_rises_is_learned_from_the_sets_before(folder: Path) -> None:
    found = {(one.asked.due, one.asked.series.id): one.probability for one in by_code(read(folder), SETS)["own record"]}
    assert found[SETS[0], "UP"] == 0.5, "nothing is known before the first set"
    assert found[SETS[-1], "UP"] > 0.8 > 0.2 > found[SETS[-1], "DOWN"]


def test_no_forecast_knows_what_was_resolved_after_its_freeze(
    folder: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """The outcomes of a set, of those after it, and of one whose week ends within the freeze's lag, are turned."""
    day = SETS[6]
    late = [due for due in SETS if due + dt.timedelta(days=7) + forecastbench.LAG > day - dt.timedelta(days=10)]
    assert SETS[5] in late
    assert SETS[4] not in late
    other = tmp_path_factory.mktemp("turned")
    for due in SETS:
        turned = {(due, name): 1 - outcome("", name, due) for name in ("UP", "DOWN", "RATE")} if due in late else None
        write(other, due, turned)
    one, two = (
        {name: [each.probability for each in all_of] for name, all_of in by_code(read(root), [day]).items()}
        for root in (folder, other)
    )
    assert one == two
    later = by_code(read(other), [SETS[-1]])["own record"]
    assert [each.probability for each in later] != [
        each.probability for each in by_code(read(folder), [SETS[-1]])["own record"]
    ]


def test_what_was_exported_has_the_score_it_had_and_what_is_missing_counts_as_even(
    folder: Path, tmp_path: Path
) -> None:
    day, into = SETS[-1], tmp_path / "out"
    measured = measure(folder, Given(sets=[day], export=into))
    (file,) = into.iterdir()
    own = {row.who: row.figures for row in measured.rows}["code"]
    who, _, forecasts, strange = submitted(file, read(folder))
    assert (who, strange) == ("chordesk code", 0)
    again = {one.group: one.brier for one in scores(who, forecasts)}
    assert (again["data"], again["market"]) == pytest.approx((own["data"], own["market"]), abs=1e-3)
    content = json.loads(file.read_text())
    content["forecasts"] = [one for one in content["forecasts"] if one["source"] != "polymarket"]
    file.write_text(json.dumps(content))
    content["forecasts"].append({"id": "NEW", "source": "fred", "forecast": 0.5, "resolution_date": str(day)})
    file.write_text(json.dumps(content))
    measured = measure(folder, Given(forecasts=file))
    rows = {row.who: row.figures for row in measured.rows}
    assert rows[who]["market"] == 0.25
    assert rows[who]["data n"] == rows["code"]["data n"] == 3, "beside those of the same set"
    assert any("25.0% of the forecasts are missing" in line for line in measured.lines)
    assert f"{who}: 1 forecasts are of no question of the set of {day}" in measured.lines
    with pytest.raises(UsageError, match=f"forecasts the set of {day}"):
        measure(folder, Given(sets=[SETS[0]], forecasts=file))


def test_a_set_without_outcomes_is_exported_and_not_scored(folder: Path, tmp_path: Path) -> None:
    day = SETS[-1]
    (folder / f"{day}_resolution_set.json").unlink()
    with pytest.raises(UsageError, match=f"no set of {day} has resolutions"):
        measure(folder, Given(sets=[day]))
    measured = measure(folder, Given(sets=[day], export=tmp_path / "one"))
    assert measured.rows == []
    assert [file.name for file in (tmp_path / "one").iterdir()] == [f"{day}.chordesk.code.json"]
    measure(folder, Given(export=tmp_path / "all"))
    assert len(list((tmp_path / "all").iterdir())) == len(SETS)
    with pytest.raises(UsageError, match="cannot be written to"):
        measure(folder, Given(export=folder / f"{day}-llm.json"))


def test_a_set_named_twice_counts_once_and_what_is_not_read_is_counted(folder: Path) -> None:
    file = folder / f"{FIRST}-llm.json"
    content = json.loads(file.read_text())
    more = question("polymarket", "0xc", FIRST, [])
    content["questions"] += [{**more, "id": ["0xa", "0xb"]}, {**more, "source": "kalshi"}]
    file.write_text(json.dumps(content))
    once, twice = (measure(folder, Given(sets=[FIRST] * times)) for times in (1, 2))
    assert once == twice
    assert {"not read: 1 combinations of questions", "not read: 1 of the source kalshi"} <= set(once.lines)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda root: [file.unlink() for file in root.glob("*_resolution_set.json")], "no pair"),
        (lambda root: (root / f"{FIRST}-llm.json").write_text('{"questions": []}'), f"{FIRST}-llm.json.*due_date"),
        (lambda root: (root / f"{FIRST}_resolution_set.json").write_text("{"), "resolution_set.json"),
        (
            lambda root: write(root, FIRST, {(FIRST, "UP"): 2.0}),
            f"{FIRST}_resolution_set.json.*less than or equal to 1",
        ),
    ],
)
def test_a_folder_of_another_shape_is_refused_with_its_file(folder: Path, change: Any, said: str) -> None:
    change(folder)
    with pytest.raises(UsageError, match=said):
        measure(folder, Given())


def test_an_unknown_set_and_a_probability_above_one_are_refused(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no set of 2024-01-01"):
        measure(folder, Given(sets=[dt.date(2024, 1, 1)]))
    wrong = tmp_path / "wrong.json"
    forecast = {"id": "UP", "source": "yfinance", "forecast": 1.5, "resolution_date": "2025-11-02"}
    head = {"organization": "a", "model": "b", "forecast_due_date": FIRST.isoformat()}
    wrong.write_text(json.dumps({**head, "forecasts": [forecast]}))
    with pytest.raises(UsageError, match=r"1\.5 for UP is no probability"):
        submitted(wrong, read(folder))
    wrong.write_text(json.dumps({**head, "forecasts": [{**forecast, "forecast": chance} for chance in (0.2, 0.3)]}))
    with pytest.raises(UsageError, match="two forecasts of yfinance UP for 2025-11-02"):
        submitted(wrong, read(folder))
    wrong.unlink()
    with pytest.raises(UsageError, match=r"wrong\.json cannot be read: No such file"):
        measure(folder, Given(forecasts=wrong))


def test_voices_are_asked_a_sample_by_seed_and_what_they_leave_out_counts_as_even(folder: Path) -> None:
    asked: list[Ask] = []

    def ask(given: Ask) -> Answered:
        """All together are right and sure of data, and leave the markets out."""
        asked.append(given)
        outcomes = {key_of(one): one.outcome for day in SETS for one in read(folder).resolved(day)}
        data = [key for board in given.boards for key in board.questions if "polymarket" not in key]
        right = {key: float(outcomes[key] or 0) for key in data}
        return Answered("a model", {"": right}, 6, 1000, dict.fromkeys(right, 0.5))

    for seed in (1, 1, 2):
        measured = measure(folder, Given(ask=ask, questions=12, seed=seed))
    one, again, other = asked
    assert one == again != other
    assert sum(len(board.questions) for board in one.boards) == 12
    for board in one.boards:
        due = dt.date.fromisoformat(board.questions[0].split()[0])
        assert due - dt.timedelta(days=10) <= board.day < due, "on or after the freeze, before they are due"
    rows = {row.who: row.figures for row in measured.rows}
    assert (rows["the voices, a model"]["data"], rows["the voices, a model"]["market"]) == (0.0, 0.25)
    assert any(line.startswith("round 2 less round 1: -0.2500") for line in measured.lines)
    assert 0 < (rows["a model, all questions of these sets"]["data"] or 0) < 0.25
    assert rows["code, the same questions"]["data n"] == rows["the voices, a model"]["data n"]
    with pytest.raises(UsageError, match="--questions 1000"):
        measure(folder, Given(ask=ask, questions=1000))
