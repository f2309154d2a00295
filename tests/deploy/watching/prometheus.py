"""A real Prometheus for tests: where it is, one that scrapes a desk, and the queries of rules and dashboards."""

from __future__ import annotations

import functools
import json
import os
import re
import shutil
import subprocess
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from chordesk.tasks.services.supervision import tethered
from chordesk.tasks.services.tether import PARENT
from tests.patience import PATIENCE
from tests.stack import REPOSITORY, free_port, wait_for

# Of the tests alone: the desks under test refuse variables of their prefix that they do not know.
_NAMED = os.environ.pop("DESK_TEST_PROMETHEUS", None)
_REQUIRED = bool(os.environ.pop("DESK_TEST_PROMETHEUS_REQUIRED", None))

SCRAPE = "2s"  # and as long may an answer take, on a busy machine too
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


@dataclass(frozen=True, slots=True)
class Prometheus:
    """A server on loopback."""

    port: int

    def get(self, path: str, **query: str) -> Any:
        """The data of an answer. An error of the query fails the test with its text."""
        url = f"http://127.0.0.1:{self.port}/api/v1/{path}?{urllib.parse.urlencode(query)}"
        try:
            with urllib.request.urlopen(url, timeout=PATIENCE) as answer:
                found = json.loads(answer.read())
        except urllib.error.HTTPError as error:
            raise AssertionError(f"{query}: {error.read().decode()}") from None
        assert found["status"] == "success", found
        assert not found.get("warnings"), found
        return found["data"]

    def query(self, text: str) -> list[Any]:
        return list(self.get("query", query=text)["result"])

    def names(self) -> set[str]:
        return set(self.get("label/__name__/values"))

    def firing(self) -> set[str]:
        return {each["labels"]["alertname"] for each in self.get("alerts")["alerts"] if each["state"] == "firing"}

    def up(self) -> int:
        return sum(each["health"] == "up" for each in self.get("targets")["activeTargets"])


@contextmanager
def scraping(folder: Path, ports: Mapping[str, int]) -> Iterator[Prometheus]:
    """A Prometheus that scrapes these processes often, and alerts without the rules' waiting times."""
    program, port = require(), free_port()
    at_once = yaml.safe_load(RULES.read_text(encoding="utf-8"))
    for group in at_once["groups"]:
        for rule in group["rules"]:
            rule.pop("for", None)
    (folder / "at_once.yml").write_text(yaml.safe_dump(at_once), encoding="utf-8")
    targets = [{"targets": [f"127.0.0.1:{at}"], "labels": {"process": role}} for role, at in ports.items()]
    config = {
        "global": {"scrape_interval": SCRAPE, "scrape_timeout": SCRAPE, "evaluation_interval": "1s"},
        "rule_files": ["at_once.yml"],
        "scrape_configs": [{"job_name": "desk", "static_configs": targets}],
    }
    (folder / "prometheus.yml").write_text(yaml.safe_dump(config), encoding="utf-8")
    command = [
        str(program), "--config.file=prometheus.yml", "--storage.tsdb.path=data",
        f"--web.listen-address=127.0.0.1:{port}", "--log.level=warn",
    ]  # fmt: skip
    environ = {**os.environ, PARENT: str(os.getpid())}
    with (folder / "prometheus.log").open("wb") as log:
        process = subprocess.Popen(tethered("KILL", command), cwd=folder, env=environ, stdout=log, stderr=log)
    found = Prometheus(port)

    def ready() -> bool:
        assert process.poll() is None, (folder / "prometheus.log").read_text()
        # An HTTPError is one too: it answers 503 while it starts.
        with suppress(OSError), urllib.request.urlopen(f"http://127.0.0.1:{port}/-/ready", timeout=PATIENCE):
            return found.up() == len(ports)
        return False

    try:
        wait_for(ready, "Prometheus scrapes all processes")
        yield found
    finally:
        process.terminate()
        process.wait(PATIENCE)
