"""Parts of a run's view that a package brings: one that fails costs its own part alone."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import pytest
from sqlmodel import Session

from chordesk.models import features
from chordesk.models.answers import Frozen
from chordesk.models.database.store import Store
from chordesk.models.features import Feature, Shown
from chordesk.models.tables.runs import Run
from chordesk.tasks.reading import run_parts
from tests.builders import a_run


class Weather(Frozen):
    rain: float


def weather(session: Session, run: Run) -> Weather:
    return Weather(rain=len(run.id) * 0.5)


def broken(session: Session, run: Run) -> Weather:
    raise KeyError("no gauge")


def ends(session: Session, run: Run) -> Weather:
    sys.exit(3)


def lines(found: Weather) -> str:
    return f"rain {found.rain}"


class Whole(Frozen):
    run_id: str
    market: str


@pytest.fixture
def package(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    def install(**shown: Shown) -> None:
        found = features._Found()
        found.features["almanac"], found.places["almanac"] = Feature("almanac", shown=shown), "almanac 1 (almanac:F)"
        monkeypatch.setattr(features, "_found", lambda: found)
        run_parts._parts.cache_clear()

    yield install
    run_parts._parts.cache_clear()


def test_a_part_has_its_type_its_value_and_its_text(package: Any, store: Store) -> None:
    package(
        weather=Shown(f"{__name__}:weather", text=f"{__name__}:lines"),
        noise=Shown(f"{__name__}:broken"),
        end=Shown(f"{__name__}:ends"),
    )
    wide = run_parts.widened(Whole, "detail")
    assert wide.model_json_schema()["properties"]["weather"]["anyOf"][0]["$ref"].endswith("Weather")
    with store.session() as session:
        run = a_run(session)
        found = run_parts.read(session, run, wide, "detail")
        made: Any = wide(run_id=run.id, market=run.market, **found)
    assert (made.weather, made.noise, made.end) == (Weather(rain=len(made.run_id) * 0.5), None, None)
    assert [part.call(part.shown.text, value) for part, value in run_parts.given(made, "detail")] == [
        lines(made.weather)
    ]


def test_a_part_that_cannot_be_loaded_or_has_a_name_again_leaves_its_package_out(package: Any) -> None:
    package(weather=Shown(f"{__name__}:nothing"))
    assert "weather" not in run_parts.widened(Whole, "detail").model_fields
    assert "AttributeError" in str(features.skipped()[-1])
    package(market=Shown(f"{__name__}:weather"))
    assert run_parts.widened(Whole, "detail").model_fields["market"].annotation is str
    assert "there is market already" in str(features.skipped()[-1])
