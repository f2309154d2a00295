"""A package of others that brings one of each, installed with pip, on a desk of real processes; switched off, and
uninstalled with its rows left."""

from __future__ import annotations

import dataclasses
import json
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from sqlmodel import select

from chordesk import plugins
from chordesk.models import event_log, features
from chordesk.models.database.store import Store
from chordesk.models.tables.runs import Report, Run, Step, ToolCall, Turn
from chordesk.models.tables.runtime import Notice
from tests.features.test_switched_off import desk, python
from tests.parts import needs
from tests.patience import PATIENCE
from tests.stack import Processes, processes, wait_for

OFF = {"DESK_FEATURES_OFF": "toys"}
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
        upgraded = desk(found, "db", "upgrade")  # its database was made before the package came
        assert upgraded.returncode == 0, upgraded.stderr
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
    assert total == found["toys"] == 2 * 2 * (1 + 4 + 9)
    store = Store(toys.settings.database)
    with store.read() as session:
        events = [(one.domain, one.payload) for one in event_log.read(session, found["run_id"], 0, 100)]
        (notice,) = session.exec(select(Notice).where(Notice.run_id == found["run_id"], Notice.kind == "toy_added"))
    store.close()
    assert ("toy", {"total": total}) in events
    assert notice.subject == str(total)


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
    chain = printed(toys, "runs", "show", run.id, "--lineage", "IBM", "--json", **named)
    assert "IBM is a toy" in [node["label"] for node in chain["nodes"]]
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
    os.environ.update(TOY_READ_KEY="a-read-key", TOY_READ_KEY_FILE="/run/secrets/toy_read_key")
    forget_credentials(WORKER_QUEUES.get(role, ""))
    kept[role] = [name for name in os.environ if name.startswith("TOY_") and "KEY" in name]
print(json.dumps([kept, "a-toy-key" in secrets and "a-read-key" in secrets]))
"""


def test_its_brokers_key_reaches_the_trade_worker_alone(toys: Processes) -> None:
    done = python(toys, "-c", KEPT, TOY_BROKER_KEY="a-toy-key", TOY_READ_KEY="a-read-key")
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


@needs("holdings")
def test_a_person_refreshes_its_accounts_with_a_key_that_no_worker_has(toys: Processes) -> None:
    refused = desk(toys, "holdings", "refresh", "--yes", TOY_READ_KEY="another-key")
    assert (refused.returncode, "another-key" in refused.stderr) == (2, False), refused.stderr
    for saved, line in (("100", "2 holdings as of 2026-01-05 kept"), ("100", "nothing is to be done")):
        done = desk(
            toys, "holdings", "refresh", "--yes", TOY_READ_KEY="reads-only", TOY_SAVED=saved, TOY_BROKER_KEY="x"
        )
        assert (done.returncode, line in done.stdout) == (0, True), done.stdout + done.stderr
        assert "note: seen: ['TOY_READ_KEY', 'TOY_SAVED']" in done.stdout
    (row,) = printed(toys, "holdings", "list", "--json")
    assert (row["account"], row["source"], row["holdings"]) == ("toy_savings-4711", "toy_savings", 2)


def test_its_pass_is_done_by_a_worker(toys: Processes) -> None:
    wait_for((toys.settings.home / "toys-tidied").exists, "the sweep has requested the pass, and a worker did it")


def test_a_role_has_its_turns_on_its_runtime(toys: Processes) -> None:
    found = printed(toys, "research", "IBM", "--json", DESK_ROLE_MODELS="toy=toyish:any")
    store = Store(toys.settings.database)
    with store.read() as session:
        turns = dict(session.exec(select(Turn.role, Turn.model).where(Turn.run_id == found["run_id"])).all())
        reports = session.exec(select(Report.summary).where(Report.role == "toy")).all()
    store.close()
    assert turns["toy"] == "toyish:any"
    assert "A toy says yes." in reports


def test_its_rows_are_shown_where_it_is_gone(toys: Processes, runs: list[dict[str, Any]]) -> None:
    gone = {"PYTHONPATH": ""}
    shown = desk(toys, "runs", "show", runs[0]["run_id"], **gone)
    assert (shown.returncode, "toy" in shown.stdout) == (0, True), shown.stderr
    watched = desk(toys, "watch", runs[0]["run_id"], **gone)
    assert (watched.returncode, "toy.added" in watched.stdout) == (0, True), watched.stderr
    assert "of a feature that is not installed or is off" in " ".join(watched.stdout.split())


# What is in force of each thing that a feature may bring.
IN_FORCE = """
import json, os
from pathlib import Path
from types import SimpleNamespace
from typer.testing import CliRunner
from chordesk.agents import prompting
from chordesk.agents.role_models import RUNTIMES
from chordesk.agents.roles import GRAPH_ROLES, ROLES, TOOLS
from chordesk.agents.rulebook.policies import POLICIES
from chordesk.models import features
from chordesk.models.database import store
from chordesk.models.events import EventType
from chordesk.models.notice_channels import NoticeKind
from chordesk.models.settings import BROKERS, KNOWN_LENSES, MARKETS, Settings
from chordesk.models.settings.schema import HOLDINGS_SOURCES, MESSENGERS
from chordesk.models.settings.sources import load
from chordesk.tasks.cli.root import COMMANDS, build, outline
from chordesk.tasks.doctor import checklist
from chordesk.tasks.engine import kinds
from chordesk.tasks.reading import run_parts
from chordesk.tasks.services import plan
from chordesk.tasks.web.app import ROUTERS
from chordesk.tasks.web.page import assets
from chordesk.tasks.worker.app import routes
from chordesk.tools.risk.pre_trade import RULES
from chordesk.tools.risk.codes import meanings

def printed(*arguments):
    done = CliRunner().invoke(build(arguments[0]), arguments)
    return [done.stdout] if done.exit_code == 0 else []

def named(what):
    return [part.__name__ for _, parts in features.parts(what) for part in parts]

order = SimpleNamespace(symbol="ZZT")
params = {"lenses": [], "symbols": ["IBM"], "roles": [], "max_candidates": 1}
found = {
    "aliases": [alias for one in features.in_force() for alias in one.aliases],
    "kinds": [kind for one in features.in_force() for kind in one.kinds],
    "roles": [*ROLES], "graph_roles": [*GRAPH_ROLES], "tools": [*TOOLS], "lenses": [*KNOWN_LENSES],
    "prompts": prompting._environment().list_templates(), "policies": [*POLICIES], "workflows": [*kinds.run_kinds()],
    "steps": [spec.kind for spec in kinds.steps()], "commands": [*COMMANDS],
    "help": [line.split()[1] for line in CliRunner().invoke(outline(), ["--help"]).stdout.splitlines() if "│ " in line],
    "turn_counts": [*kinds.turns_of("screen", params, Settings())], "brief": named("brief"),
    "shown": [part.name for part in run_parts.parts("run", "detail")], "lineage": named("lineage"),
    "options": printed("stop", "--toy"), "subcommands": printed("runs", "toys"),
    "event_kinds": EventType.known(), "notice_kinds": NoticeKind.known(), "denials": [*meanings()],
    "rules": [rule(order, None, None).reason for rule, codes in RULES.items() if "toy_shy" in codes],
    "bounds": named("bounds"), "researched": named("researched"),
    "checks": [one.name for one in checklist.ALL],
    "preflight": named("preflight"), "wraps": named("wraps"),
    "programs": [one.name for one in plan.make(load(), os.environ, Path(), plan.Choice()).programs],
    "messengers": [*MESSENGERS], "answers": named("answers"), "asks": named("asks"),
    "proposals": [*features.added({}, "proposals")], "confirms": named("confirms"),
    "passes": [name.removeprefix("desk.pass.") for name in routes() if "pass." in name],
    "routes": [route.path for router in ROUTERS for route in router.routes],
    "views": [view.path for _, view in features.views()], "lost views": [line for line, _ in features.lost_views()],
    "pages": [name for name in assets._FILES if name.startswith("of/")],
    "markets": [*MARKETS], "brokers": [*BROKERS], "holdings": [*HOLDINGS_SOURCES], "runtimes": [*RUNTIMES],
    "tables": [*store.every_table()], "keeps": [*store.rules()], "settings_schema": [*Settings.model_fields],
    "migrations": [str(line) for line in store.feature_lines(load().settings.database)[0]],
    "benchmarks": [*features.added({}, "benchmarks")], "skipped": [str(one) for one in features.skipped()],
}
print(json.dumps(found))
"""
BROUGHT = {
    "aliases": {"toys"}, "roles": {"toy", "screener_toy", "screener_steady"},
    "graph_roles": {"toy_graph"}, "tools": {"toy_range"}, "lenses": {"toy", "steady"},
    "prompts": {"toy.md", "screener_toy.md"}, "policies": {"toy", "screener_toy"},
    "kinds": {"toy", "toys"},
    "workflows": {"toy", "toys"}, "commands": {"toy"}, "help": {"toy"}, "turn_counts": {"toy"}, "brief": {"brief"},
    "shown": {"toys"}, "lineage": {"toy_lineage"},
    "steps": {"toy_split", "toy_square", "toy_sum", "toy_double", "toy_total", "toy_play", "toys_open", "toys_sum"},
    "options": {"the toys are stopped\n"}, "subcommands": {"toys\n"}, "event_kinds": {"toy.added"},
    "notice_kinds": {"toy_added"}, "denials": {"toy_shy"}, "rules": {"ZZT is shy"}, "bounds": {"small"},
    "researched": {"kept_toys"},
    "checks": {"toys"},
    "preflight": {"find_toys"}, "wraps": {"ToyWrap"}, "programs": {"toy"}, "passes": {"toy_tidy"}, "routes": {"/toys"},
    "messengers": {"toy"}, "answers": {"toy_answer"}, "asks": {"ToyAsks"},
    "proposals": {"toy"}, "confirms": {"ToyConfirms"},
    "views": {"/toys", "/toys/lost"}, "pages": {"of/toy/toys.js"}, "markets": {"toy"}, "brokers": {"toy"},
    "holdings": {"toy_savings"},
    "runtimes": {"toyish"}, "benchmarks": {"toy"}, "tables": {"toy_note"}, "keeps": {"toy_note"},
    "migrations": {"the feature toy: revision none, newest 0001"},
    "settings_schema": {"toy_largest", "toy_note_days", "toy_post"},
}  # fmt: skip
# Members of a description that say how it is used, and bring nothing.
SAID = {"name", "scope", "scopes", "asides", "needs", "modules", "uses", "requires", "settings", "documents"}


def test_each_thing_that_it_brings_is_there_while_it_is_on(installed: Path) -> None:
    members = {one.name for one in dataclasses.fields(features.Feature)} - SAID
    assert members - BROUGHT.keys() == set(), "the package brings one of each"
    with processes(forked=False) as found:
        found.environ["PYTHONPATH"] = str(installed)
        with ThreadPoolExecutor(2) as pool:
            looks = list(pool.map(lambda environ: python(found, "-c", IN_FORCE, **environ), ({}, OFF)))
        assert [looked.returncode for looked in looks] == [0, 0], [looked.stderr for looked in looks]
        on, off = ({name: set(of) for name, of in json.loads(one.stdout.splitlines()[-1]).items()} for one in looks)
    (lost,) = on.pop("lost views")
    assert lost.startswith("the view /toys/lost of the feature toy has no file ")
    assert {name: more for name, names in on.items() if (more := names - off[name])} == BROUGHT
    assert all(names <= on.get(name, names) for name, names in off.items())


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
