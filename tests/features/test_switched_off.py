"""The desk without each of its features: the rest works, and what names the missing one gets a line with the remedy."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest

from chordesk.models import features
from chordesk.models.database.store import Store
from chordesk.models.features import Feature
from chordesk.models.settings import Settings
from chordesk.models.tables.runtime import ScheduleEntry
from tests.builders import a_run, a_step
from tests.features.surfaces import described, mentions
from tests.parts import needs
from tests.patience import PATIENCE
from tests.stack import REPOSITORY, Processes, processes

OFF = tuple(described())
# Members of a description that name what a desk shows, as `surfaces` calls it; of the others something goes, too.
NAMED = (
    "commands", "kinds", "shown", "event_kinds", "notice_kinds", "denials", "graph_roles", "tools", "lenses",
    "markets", "brokers", "holdings", "runtimes", "benchmarks", "messengers", "settings", "passes", "proposals",
)  # fmt: skip
PLACED = (
    "roles",
    "routes",
    "checks",
    "options",
    "subcommands",
    "brief",
    "lineage",
    "bounds",
    "researched",
    "wraps",
    "preflight",
    "answers",
    "asks",
    "confirms",
    "tables",
)


def desk(found: Processes, *arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
    return python(found, "-m", "chordesk.tasks.cli.main", *arguments, **environ)


def python(found: Processes, *arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*found.python, *arguments],
        cwd=REPOSITORY, env={**found.environ, **environ}, capture_output=True, text=True, timeout=PATIENCE,
    )  # fmt: skip


@pytest.fixture(scope="module")
def found() -> Iterator[Processes]:
    with processes(forked=False) as made:
        yield made


@needs("board")
def test_a_screen_and_the_doctor_run_without_any_feature(found: Processes) -> None:
    found.rulebook()
    found.environ["DESK_FEATURES_OFF"] = ",".join(OFF)
    store = Store(found.settings.database)
    with store.session() as session:  # of the time before the switch
        a_step(session, old := a_run(session, kind="episode"), kind="brief")
        session.add(ScheduleEntry(name="forecasts", kind="episode", at="09:45", enabled=True, by="Ann"))
        old_id = old.id
    store.close()
    found.workers("all")
    screen = desk(found, "screen", "--universe", "IBM,MMM", "--lens", "technical", "--json")
    assert screen.returncode == 0, screen.stderr
    assert json.loads(screen.stdout)["state"] == "done"
    doctor = desk(found, "doctor", "--json")
    checks = {row["name"]: row for row in json.loads(doctor.stdout)["checks"]}
    row = checks["features"]
    assert (doctor.returncode, row["status"]) == (0, "warn"), row
    assert all(f"{name} (off)" in row["detail"] for name in OFF)
    assert f"run {old_id} waits for brief, of the feature board, which is switched off" in row["detail"]
    assert "the schedule's forecasts starts nothing: runs of the kind episode, of the feature board" in row["detail"]
    assert f"take board out of DESK_FEATURES_OFF, or desk stop {old_id}" in row["remedy"]
    assert "or desk schedule off forecasts" in row["remedy"]


@pytest.fixture(scope="module")
def seen(found: Processes) -> dict[str, dict[str, Any]]:
    """What a desk shows with all features on, as "", with each one off by its name, and with all off."""
    environ = {key: value for key, value in found.environ.items() if key not in ("DESK_FEATURES_OFF", "DESK_PROVIDER")}
    lists = ("", *OFF, ",".join(OFF))
    looked = subprocess.run(
        [*found.python, "-W", "ignore", "-m", "tests.features.surfaces", *lists],
        cwd=REPOSITORY, env=environ, capture_output=True, text=True, timeout=PATIENCE,
    )  # fmt: skip
    assert looked.returncode == 0, looked.stderr
    return {off: json.loads(row) for off, row in zip(lists, looked.stdout.splitlines(), strict=True)}


def gone(seen: dict[str, dict[str, Any]], off: str) -> dict[str, set[str]]:
    on, without = seen[""]["shown"], seen[off]["shown"]
    assert [what for what in on if set(without[what]) - set(on[what])] == [], "nothing comes by a switch"
    return {what: set(on[what]) - set(without[what]) for what in on}


@pytest.mark.parametrize("name", OFF)
def test_all_that_a_description_states_goes_with_its_feature(name: str, seen: dict[str, dict[str, Any]]) -> None:
    feature, less, found = described()[name], gone(seen, name), seen[name]
    stated = {what: set(getattr(feature, what)) for what in NAMED}
    stated["commands"] = {f"desk {one}" for one in feature.commands}
    stated["tools"] = {features.load(place).name for place in feature.tools}
    stated["help"], stated["views"] = set(feature.commands), {view.path for view in feature.views}
    assert {what: more for what, names in stated.items() if (more := names - less[what])} == {}
    assert [what for what in PLACED if getattr(feature, what) and not less[what]] == []
    assert {what for what, names in less.items() if names} <= gone_by(feature), "and nothing else"
    assert found["database"] == 0
    runs = seen[""]["shown"]["runs"]
    assert [text for text in found["texts"] if mentions(text, feature, runs)] == []
    assert len(found["refused"]) >= len(feature.settings)
    remedy = f"take {name} out of DESK_FEATURES_OFF"
    assert {given: said for given, said in found["refused"].items() if remedy not in said} == {}
    assert set(found["schedule"]) == set(feature.kinds)
    assert {kind: why for kind, why in found["schedule"].items() if remedy not in str(why)} == {}


def gone_by(feature: Feature) -> set[str]:
    """What may be less without a feature, by the members of its description."""
    given = {what for what in (*NAMED, *PLACED, "views", "pages") if getattr(feature, what)}
    with_them = {
        "commands": ("help", "options", "subcommands"), "kinds": ("runs", "scheduled"), "tables": ("keeps",),
        "subcommands": ("options",), "settings_schema": ("settings",),
    }  # fmt: skip
    return given.union(*(names for what, names in with_them.items() if getattr(feature, what)))


def test_with_all_off_what_goes_is_what_goes_with_each(seen: dict[str, dict[str, Any]]) -> None:
    each = [gone(seen, name) for name in OFF]
    together = {what: set().union(*(one[what] for one in each)) for what in seen[""]["shown"]}
    assert gone(seen, ",".join(OFF)) == together
    core = seen[",".join(OFF)]
    assert {"screen", "runs", "orders"} <= set(core["shown"]["help"])
    assert "GET /runs" in core["shown"]["routes"]
    runs, every = seen[""]["shown"]["runs"], described().values()
    assert [text for text in core["texts"] if any(mentions(text, one, runs) for one in every)] == []


def test_kinds_of_runs_and_steps_are_of_the_feature_that_states_them(seen: dict[str, dict[str, Any]]) -> None:
    assert {name: gone(seen, name)["kinds"] for name in OFF} == {
        name: set(one.kinds) for name, one in described().items()
    }


@needs("measure")
def test_a_command_of_a_feature_that_is_off_is_named_and_an_alias_counts(found: Processes) -> None:
    refused = desk(found, "backtest", DESK_FEATURES_OFF="masks")
    assert (refused.returncode, "Traceback" in refused.stderr) == (2, False)
    assert "desk backtest is of the feature measure, which is switched off" in refused.stderr


@needs("measure")
def test_a_run_under_a_mask_has_no_turn_where_nothing_masks(monkeypatch: pytest.MonkeyPatch) -> None:
    masked = Settings(mask=("names",))
    assert features.unwrapped(masked) is None
    monkeypatch.setenv("DESK_FEATURES_OFF", "measure")
    assert "the feature measure: the run has mask" in str(features.unwrapped(masked))
    assert features.unwrapped(Settings()) is None


def test_a_name_that_is_no_feature_is_refused(found: Processes) -> None:
    refused = desk(found, "screen", DESK_FEATURES_OFF="bored")
    assert (refused.returncode, "DESK_FEATURES_OFF has 'bored'" in refused.stderr) == (2, True)
    assert f"take it out, or choose among {', '.join(sorted(OFF))}" in refused.stderr
