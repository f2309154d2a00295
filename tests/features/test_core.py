"""The core loads no module of a feature that is off; import contracts name the modules."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
from importlib import import_module

from chordesk.models import features
from chordesk.models.features import Feature
from tests.features.test_switched_off import OFF
from tests.patience import PATIENCE
from tests.stack import REPOSITORY

# Of the desk's own, in a process that has started, with all features off; the descriptions are not counted, which are
# read to name a feature that is off.
MOST_MODULES = 264
# What each process is, as far as it is loaded: of the same beginning, the others are loaded apart.
LOOK = """
import json, sys
from multiprocessing import get_context
from typer.testing import CliRunner
from chordesk.tasks.cli.root import outline
from chordesk.models import features

def seen():
    return sorted(name for name in sys.modules if name.startswith("chordesk."))

def worker():
    from chordesk.agents import runner
    from chordesk.tasks import bootstrap
    from chordesk.tasks.engine import kinds
    from chordesk.tasks.worker import app, control, maintenance, order_pass, step_turns, work
    kinds.run_kinds()
    return seen()

def api():
    from chordesk.tasks.web import app
    return seen()

CliRunner().invoke(outline(), ["--help"])
loaded = {"help": seen()}
with get_context("fork").Pool(2, maxtasksperchild=1) as pool:
    loaded["worker"], loaded["api"] = (one.get() for one in [pool.apply_async(one) for one in (worker, api)])
print(json.dumps({"loaded": loaded, "descriptions": features.OWN}))
"""


def own() -> dict[str, Feature]:
    found = (import_module(place).FEATURE for place in features.OWN)
    return {one.name: one for one in found}


def owners() -> dict[str, str]:
    return {module: feature.name for feature in own().values() for module in feature.modules}


def test_the_contracts_state_what_the_descriptions_do() -> None:
    contracts = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    stated = {one["name"]: one for one in contracts if one["name"].startswith("Core knows no feature")}
    known = own()
    for name, feature in known.items():
        contract = stated[f"Core knows no feature: {name}"]
        users = (f"chordesk.*.{one.name}" for one in known.values() if name in one.uses)
        folders, public = f"chordesk.*.{name}", {"*.langchain"} if name == "graphs" else set()
        assert "ignore_imports" not in contract, name
        assert contract["protected_modules"] == [folders], name
        assert {"chordesk.plugins", folders, *public, *users} <= set(contract["allowed_importers"]), name
        outside = [one for one in feature.modules if one.split(".")[2:] != [name]]
        assert outside == (["chordesk.langchain"] if public else []), "each room has one folder of a feature's name"


def test_with_all_features_off_no_module_of_one_is_loaded() -> None:
    looked = subprocess.run(
        [sys.executable, "-c", LOOK],
        cwd=REPOSITORY, env={**os.environ, "DESK_FEATURES_OFF": ",".join(OFF)}, capture_output=True, text=True,
        timeout=PATIENCE, check=False,
    )  # fmt: skip
    assert looked.returncode == 0, looked.stderr
    seen = json.loads(looked.stdout.splitlines()[-1])
    # A description is read to name a feature that is off, and its packages with it.
    read = {one.rsplit(".", parts)[0] for one in seen["descriptions"] for parts in range(3)}
    owned = owners()

    def of_features(names: list[str]) -> set[str]:
        return {
            name
            for name in names
            if name not in read and any(name == module or name.startswith(f"{module}.") for module in owned)
        }

    assert [process for process, names in seen["loaded"].items() if of_features(names)] == [], seen
    counted = {process: len(set(names) - read) for process, names in seen["loaded"].items()}
    assert max(counted.values()) <= MOST_MODULES, counted
