"""A package of others, installed with pip: its tool, role, workflow, command, market and broker on a desk of real
processes; and packages that do not fit, which are left out with a line each."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlmodel import select

from chordesk import plugins
from chordesk.models.database.store import Store
from chordesk.models.tables.runs import Run, Step, ToolCall, Turn
from tests.features.test_switched_off import desk, python
from tests.patience import PATIENCE
from tests.stack import Processes, processes

PACKAGE = Path(__file__).parents[1] / "toy" / "package"


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("toy")
    source = shutil.copytree(PACKAGE, folder / "source")  # pip's build writes into it
    return install(source, folder / "site")


def install(source: Path, target: Path) -> Path:
    options = ("--no-deps", "--no-build-isolation", "--no-index", "--target", target)
    command = [sys.executable, "-m", "pip", "install", "-q", *options, source]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 0, done.stderr
    return target


@pytest.fixture(scope="module")
def toys(installed: Path) -> Iterator[Processes]:
    with processes(forked=False, PYTHONPATH=str(installed)) as found:
        found.rulebook()
        found.workers("all")
        yield found


def printed(toys: Processes, *arguments: str, **environ: str) -> Any:
    done = desk(toys, *arguments, **environ)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def steps_of(toys: Processes, run_id: str) -> list[Step]:
    store = Store(toys.settings.database)
    with store.read() as session:
        found = list(session.exec(select(Step).where(Step.run_id == run_id)).all())
    store.close()
    return found


@pytest.fixture(scope="module")
def runs(toys: Processes) -> list[dict[str, Any]]:
    """Three runs: one that does all, one of which a part fails, one of which every part fails."""
    found: list[dict[str, Any]] = printed(toys, "toy", "1,2,3", "2,10", "10,11")
    return found


def test_its_workflow_runs_through_real_workers(toys: Processes, runs: list[dict[str, Any]]) -> None:
    found = runs[0]
    assert (found["kind"], found["state"], found["notes"]) == ("toy", "done", [])
    assert found["line"].startswith("squares 3/3 | doubles 2/2 | ")
    steps = steps_of(toys, found["run_id"])
    assert Counter(step.kind for step in steps) == {
        "toy_split": 1, "toy_square": 3, "toy_sum": 1, "toy_double": 2, "toy_total": 1, "finish": 1
    }  # fmt: skip
    assert {(step.state, step.attempt, step.sends) for step in steps} == {("done", 1, 1)}, "no sweep was needed"
    (total,) = [step.result["value"] for step in steps if step.kind == "toy_total"]
    assert total == 2 * 2 * (1 + 4 + 9)


def test_its_notes_and_its_end_follow_from_what_it_declares(runs: list[dict[str, Any]]) -> None:
    _, part, none = runs
    assert (part["state"], part["notes"]) == ("partial", ["10 was not squared"])
    assert (none["state"], none["notes"]) == ("failed", ["10 was not squared", "11 was not squared"])


def test_a_run_waits_for_the_runs_that_it_opened_and_goes_on_when_one_fails(toys: Processes) -> None:
    (found,) = printed(toys, "toy", "--family", "1,2,3", "2,3", "10,11")
    assert found["notes"] == ["a run of [10, 11] is failed"]
    steps = steps_of(toys, found["run_id"])
    (total,) = [step.result["value"] for step in steps if step.kind == "toys_sum"]
    assert total == 4 * (1 + 4 + 9) + 4 * (4 + 9)
    assert {(step.attempt, step.sends) for step in steps} == {(1, 1)}, "no sweep was needed"


def test_its_role_calls_its_tool_in_a_run_on_its_market_and_account(toys: Processes) -> None:
    named = {"DESK_MARKET": "toy", "DESK_BROKER": "toy"}
    found = printed(toys, "research", "IBM", "--json", **named)
    assert (found["state"], found["market"]) == ("done", "toy")
    store = Store(toys.settings.database)
    with store.read() as session:
        run = session.get_one(Run, found["run_id"])
        calls = session.exec(select(ToolCall.tool, Turn.role).join(Turn).where(Turn.run_id == run.id)).all()
    store.close()
    assert (run.account, ("toy_range", "toy") in calls) == ("toy", True)
    assert "Toys" in (shown := desk(toys, "--help").stdout)
    assert "Square numbers, add them up, and double the sum." in " ".join(shown.split())


KEPT = """
import json, os
from chordesk.tasks.cli.processes import WorkerRole, forget_credentials
from chordesk.tasks.engine.kinds import WORKER_QUEUES
from chordesk.tools.orders.audit import _secrets
from chordesk.models.settings.sources import load_settings
kept = {}
secrets = list(_secrets(load_settings()))
for role in ("", *WorkerRole):
    os.environ.update(TOY_BROKER_KEY="a-toy-key", TOY_BROKER_KEY_FILE="/run/secrets/toy_broker_key")
    forget_credentials(WORKER_QUEUES.get(role, ""))
    kept[role] = [name for name in ("TOY_BROKER_KEY", "TOY_BROKER_KEY_FILE") if name in os.environ]
print(json.dumps([kept, "a-toy-key" in secrets]))
"""


def test_its_brokers_key_reaches_the_trade_worker_alone(toys: Processes) -> None:
    done = python(toys, "-c", KEPT, TOY_BROKER_KEY="a-toy-key")
    assert done.returncode == 0, done.stderr
    kept, masked = json.loads(done.stdout)
    both = ["TOY_BROKER_KEY", "TOY_BROKER_KEY_FILE"]
    assert kept == {"": [], "research": [], "ops": [], "trade": both, "all": both}
    assert masked
    for given in ({"TOY_BROKER_KEY": "a-toy-key"}, {}):
        rows = {row["name"]: row for row in printed(toys, "config", "--json", DESK_BROKER="toy", **given)}
        shown = (rows["TOY_BROKER_KEY"]["value"], rows["TOY_BROKER_KEY"]["source"])
        assert shown == (("********", "TOY_BROKER_KEY (environment)") if given else (None, "not set"))
    trailing = desk(toys, "config", DESK_BROKER="toy", DESK_PROTECT="trail:8%")
    assert (trailing.returncode, "takes no trailing stop that is gtc" in trailing.stderr) == (2, True)


def test_what_waits_for_a_package_that_is_gone_is_named(installed: Path) -> None:
    with processes(forked=False) as found:
        opened = desk(found, "research", "IBM", "--no-wait", "--json", PYTHONPATH=str(installed))
        assert opened.returncode == 0, opened.stderr
        gone = python(found, "-c", OPEN_STEP, json.loads(opened.stdout)["run_id"])
        assert gone.returncode == 0, gone.stderr
        checks = {row["name"]: row for row in json.loads(desk(found, "doctor", "--json").stdout)["checks"]}
        row = checks["features"]
        assert row["status"] == "warn", row
        assert "waits for toy_split, which no feature here has" in row["detail"]
        assert "a thread of the role toy is kept" in row["detail"]
        assert "install its package, or desk stop" in row["remedy"]
        unknown = desk(found, "screen", DESK_RESEARCH_ROLES="quick,toy")
        assert (unknown.returncode, "install the package that has it" in unknown.stderr) == (2, True)


OPEN_STEP = """
import sys
from sqlmodel import select
from chordesk.models.database.store import Store
from chordesk.models.settings.sources import load_settings
from chordesk.models.tables.runs import Step
from chordesk.models.tables.runtime import KeptThread
store = Store(load_settings().database)
with store.session() as session:
    step = session.exec(select(Step).where(Step.run_id == sys.argv[1], Step.kind != "finish")).first()
    step.kind = "toy_split"
    session.add(step)
    kept = {name: 'x' for name in ('thread_id', 'subject', 'mode', 'model', 'reason', 'worker')}
    session.add(KeptThread(role='toy', **kept))
"""


def test_its_benchmark_has_the_desks_row_beside_the_published_one(toys: Processes, tmp_path: Path) -> None:
    (tmp_path / "answers.csv").write_text("right\nright\nwrong\nright\n")
    found = printed(toys, "benchmark", "toy", "--from", str(tmp_path), "--json")
    assert [(row["who"], row["figures"]) for row in found["rows"]] == [
        ("the desk", {"right": 0.75}),
        ("A person", {"right": 0.9}),
    ]
    refused = desk(toys, "benchmark", "toy", "--from", str(tmp_path), "--set", "2026-01-04")
    assert (refused.returncode, "no use for --set" in refused.stderr) == (2, True), refused.stderr


def test_an_example_never_overwrites_a_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert plugins.main([str(tmp_path)]) == 2
    assert "name a new folder" in capsys.readouterr().err
