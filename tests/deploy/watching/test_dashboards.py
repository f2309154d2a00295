"""The dashboards: Grafana's own schema reads them, and they are those of their script."""

from __future__ import annotations

import json
import runpy
from pathlib import Path

import pytest
import yaml
from grafana_foundation_sdk.cog.plugins import register_default_plugins
from grafana_foundation_sdk.models.dashboard import Dashboard, Panel
from grafana_foundation_sdk.models.prometheus import Dataquery

from tests.deploy.watching.prometheus import DASHBOARDS, metrics_in, promtool, queries
from tests.stack import REPOSITORY

GRAFANA = REPOSITORY / "deploy" / "grafana"
NAMES = {"desk", "runs", "models", "orders", "fleet"}


@pytest.fixture(params=DASHBOARDS, ids=lambda path: path.stem)
def dashboard(request: pytest.FixtureRequest) -> Dashboard:
    register_default_plugins()
    return Dashboard.from_json(json.loads(request.param.read_text(encoding="utf-8")))


def panels(dashboard: Dashboard) -> list[Panel]:
    found = [one for one in dashboard.panels or [] if isinstance(one, Panel)]
    assert len(found) == len(dashboard.panels or []) > 0
    return found


def test_there_are_five_and_they_are_those_of_the_script() -> None:
    assert {path.stem for path in DASHBOARDS} == NAMES
    script = runpy.run_path(str(GRAFANA / "generate.py"))
    for path in DASHBOARDS:
        assert path.read_text(encoding="utf-8") == script["text"](path.stem), (
            "it is stale: run `python deploy/grafana/generate.py`"
        )


def test_grafana_s_schema_reads_title_queries_and_units(dashboard: Dashboard) -> None:
    assert str(dashboard.uid).startswith("desk-")
    assert dashboard.title
    for panel in panels(dashboard):
        assert panel.title
        assert panel.type_val in ("stat", "timeseries")
        assert panel.field_config is not None
        assert panel.field_config.defaults.unit
        for query in panel.targets or []:
            assert isinstance(query, Dataquery)
            assert query.expr
            assert query.legend_format
        assert panel.targets


def test_every_metric_of_a_query_is_one_of_the_reference() -> None:
    page = (REPOSITORY / "docs" / "reference" / "telemetry.md").read_text(encoding="utf-8")
    for query in queries():
        for name in metrics_in(query):
            known = name.removesuffix("_bucket")
            assert f"- `{known}`" in page or name.startswith("process_"), f"{name} of {query}"


def test_every_query_is_one_that_prometheus_can_run(tmp_path: Path) -> None:
    recorded = [{"record": f"desk:query_{number}", "expr": query} for number, query in enumerate(queries())]
    path = tmp_path / "queries.yml"
    path.write_text(yaml.safe_dump({"groups": [{"name": "queries", "rules": recorded}]}), encoding="utf-8")
    done = promtool("check", "rules", path)
    assert done.returncode == 0, done.stdout + done.stderr
