"""The desk without each of its features: the rest works, and what names the missing one gets a line with the remedy."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator

import pytest

from chordesk.models import features
from chordesk.models.settings import Settings
from tests.patience import PATIENCE
from tests.stack import REPOSITORY, Processes, processes

# Each with what it has of its own: a command, a path of the API, and a setting that names it.
OFF: dict[str, tuple[str | None, str | None, dict[str, str]]] = {
    "measure": ("backtest", "/experiments", {"DESK_MASK": "names"}),
    "board": ("episode", "/scores", {"DESK_ROUNDS": "1"}),
    "graphs": ("tradingagents", None, {"DESK_RESEARCH_ROLES": "quick,tradingagents"}),
    "litellm": (None, None, {"DESK_ROLE_MODELS": "trader=litellm:openai/gpt-5.5"}),
    "notifications": ("notify", None, {"DESK_NOTIFY_CHANNELS": "me=json://localhost"}),
    "samples": ("demo", None, {}),
    "holdings": ("holdings", "/holdings", {"DESK_BOOK": "off"}),
    "ibkr": (None, None, {"DESK_BROKER": "ibkr-paper"}),
}
LOOK = """
import json, os, sys
from typer.testing import CliRunner
from chordesk.models.database.store import every_table
from chordesk.tasks.cli.root import build, outline
from chordesk.tasks.web.app import ROUTERS
from chordesk.tasks.worker import log_format
log_format.quiet()
help = CliRunner().invoke(outline(), ["--help"]).stdout
naming, found = json.loads(sys.argv[1]), {
    "help": [line.split()[1] for line in help.splitlines() if line.startswith("│ ")],
    "paths": [route.path for router in ROUTERS for route in router.routes],
    "database": CliRunner().invoke(build("db"), ["db", "current"]).exit_code,
    "tables": len(every_table()),
}
os.environ.update(naming)
if naming:
    found["named"] = str(CliRunner().invoke(build("screen"), ["screen", "--no-wait"]).exception)
print(json.dumps(found))
"""


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


def test_a_screen_and_the_doctor_run_without_any_feature(found: Processes) -> None:
    found.rulebook()
    found.environ["DESK_FEATURES_OFF"] = ",".join(OFF)
    found.workers("all")
    screen = desk(found, "screen", "--universe", "IBM,MMM", "--lens", "technical", "--json")
    assert screen.returncode == 0, screen.stderr
    assert json.loads(screen.stdout)["state"] == "done"
    doctor = desk(found, "doctor", "--json")
    checks = {row["name"]: row for row in json.loads(doctor.stdout)["checks"]}
    assert (doctor.returncode, checks["features"]["status"]) == (0, "ok"), checks["features"]
    assert all(f"{name} (off)" in checks["features"]["detail"] for name in OFF)


@pytest.mark.parametrize("name", OFF)
def test_the_desk_works_without_a_feature(name: str, found: Processes) -> None:
    command, path, naming = OFF[name]
    looked = python(found, "-c", LOOK, json.dumps(naming), DESK_FEATURES_OFF=name)
    assert looked.returncode == 0, looked.stderr
    seen = json.loads(looked.stdout.splitlines()[-1])
    assert "screen" in seen["help"]
    assert command not in seen["help"]
    assert "/runs" in seen["paths"]
    assert path not in seen["paths"]
    assert seen["database"] == 0
    if naming:
        assert f"take {name} out of DESK_FEATURES_OFF" in seen["named"]


def test_a_command_of_a_feature_that_is_off_is_named_and_an_alias_counts(found: Processes) -> None:
    refused = desk(found, "backtest", DESK_FEATURES_OFF="masks")
    assert (refused.returncode, "Traceback" in refused.stderr) == (2, False)
    assert "desk backtest is of the feature measure, which is switched off" in refused.stderr


def test_a_run_under_a_mask_has_no_turn_where_nothing_masks(monkeypatch: pytest.MonkeyPatch) -> None:
    masked = Settings(mask=("names",))
    assert features.unwrapped(masked) is None
    monkeypatch.setenv("DESK_FEATURES_OFF", "measure")
    assert "the feature measure: the run has mask" in str(features.unwrapped(masked))
    assert features.unwrapped(Settings()) is None


def test_a_name_that_is_no_feature_is_refused(found: Processes) -> None:
    refused = desk(found, "screen", DESK_FEATURES_OFF="bored")
    assert (refused.returncode, "DESK_FEATURES_OFF has 'bored'" in refused.stderr) == (2, True)
    assert "take it out, or choose among board, graphs, holdings, ibkr, litellm, measure" in refused.stderr
