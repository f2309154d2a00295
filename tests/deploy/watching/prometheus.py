"""The program promtool for tests: where it is; and the queries of rules and dashboards."""

from __future__ import annotations

import functools
import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.patience import PATIENCE
from tests.stack import REPOSITORY

# Of the tests alone: the desks under test refuse variables of their prefix that they do not know.
_NAMED = os.environ.pop("DESK_TEST_PROMETHEUS", None)
_REQUIRED = bool(os.environ.pop("DESK_TEST_PROMETHEUS_REQUIRED", None))

REMEDY = "install the package prometheus, or name its program in DESK_TEST_PROMETHEUS (promtool is beside it)"
RULES = REPOSITORY / "deploy" / "prometheus" / "rules" / "desk.rules.yml"
DASHBOARDS = sorted((REPOSITORY / "deploy" / "grafana" / "dashboards").glob("*.json"))
_METRIC = re.compile(r"\b(?:desk|process)_[a-z_0-9]+\b")
_STRING = re.compile(r'"[^"]*"')


@functools.cache
def _find() -> Path | None:
    found = shutil.which(_NAMED or "prometheus") or shutil.which("/usr/bin/prometheus")
    return Path(found) if found else None


def require() -> Path:
    """The program; without it the test is skipped, or failed where DESK_TEST_PROMETHEUS_REQUIRED is set."""
    found = _find()
    if found is None or not found.with_name("promtool").exists():
        (pytest.fail if _REQUIRED else pytest.skip)(f"no Prometheus: {REMEDY}")
    return found


def promtool(*arguments: str | Path, folder: Path = RULES.parent) -> subprocess.CompletedProcess[str]:
    command = [require().with_name("promtool"), *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=PATIENCE, check=False)


def rules() -> list[dict[str, Any]]:
    """Every alert of the rules."""
    groups = yaml.safe_load(RULES.read_text(encoding="utf-8"))["groups"]
    return [rule for group in groups for rule in group["rules"]]


def alerts() -> list[str]:
    return sorted({str(rule["alert"]) for rule in rules()})


def queries() -> list[str]:
    """Every query of the rules and of the dashboards."""
    found = [str(rule["expr"]) for rule in rules()]
    for path in DASHBOARDS:
        for panel in json.loads(path.read_text(encoding="utf-8"))["panels"]:
            found += [str(target["expr"]) for target in panel["targets"]]
    return found


def metrics_in(query: str) -> set[str]:
    """The names of metrics in a query."""
    return set(_METRIC.findall(_STRING.sub('""', query)))
