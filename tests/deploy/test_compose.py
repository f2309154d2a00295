"""compose.yaml against the schema of the Compose Specification, and against the desk's own rules."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from typer.main import get_command

from agents.role_models import PROVIDER_KEYS
from models.settings import Settings
from tasks.cli.root import build

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "compose.yaml").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def compose() -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load(TEXT)
    return loaded


@pytest.fixture(scope="module")
def schema() -> dict[str, Any]:
    path = Path(__file__).parent / "schema" / "compose_spec.json"
    loaded: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return loaded


def test_it_fits_the_schema(compose: dict[str, Any], schema: dict[str, Any]) -> None:
    assert problems(schema, compose) == []


def test_the_schema_would_notice_a_mistake(compose: dict[str, Any], schema: dict[str, Any]) -> None:
    wrong = json.loads(json.dumps(compose))
    wrong["services"]["redis"]["healthchek"] = {}
    (problem,) = problems(schema, wrong)
    assert "healthchek" in problem


def problems(schema: dict[str, Any], value: dict[str, Any]) -> list[str]:
    return [error.message for error in jsonschema.Draft7Validator(schema).iter_errors(value)]


def test_it_has_every_part_of_the_fleet(compose: dict[str, Any]) -> None:
    services = set(compose["services"])
    assert services == {"redis", "postgres", "migrate", "research", "ops", "trade", "beat", "flower", "api"}


def test_whatever_keeps_running_has_a_health_check(compose: dict[str, Any]) -> None:
    without = {name for name, each in compose["services"].items() if "healthcheck" not in each}
    assert without == {"migrate"}


def test_ports_are_published_on_loopback_alone(compose: dict[str, Any]) -> None:
    published = [port for each in compose["services"].values() for port in each.get("ports", [])]
    assert published
    assert all(port.startswith("127.0.0.1:") for port in published)


def test_scaled_services_have_no_fixed_name_or_port(compose: dict[str, Any]) -> None:
    assert not {"container_name", "ports"} & set(compose["services"]["research"])


def test_no_secret_is_written_down() -> None:
    for line in TEXT.splitlines():
        found = re.search(r"(?i)^\s*\w*(password|key|secret|token|auth)\w*:\s*(\S+)", line.partition("#")[0])
        assert found is None or found[2].startswith("${"), line
        assert not re.search(r"://[^/\s]*:[^$/\s@][^/\s]*@", line), line


def test_the_providers_keys_are_the_research_workers_alone(compose: dict[str, Any]) -> None:
    keys = {name for names in PROVIDER_KEYS.values() for name in names}
    services = {name: each.get("environment", {}) for name, each in compose["services"].items()}
    assert {key: services["research"][key] for key in keys} == dict.fromkeys(keys)  # no value of their own
    assert services["research"]["DESK_PROVIDER_URL"]
    assert {name for name, environ in services.items() if keys & set(environ)} == {"research"}
    example = (ROOT / ".env.example").read_text(encoding="utf-8").splitlines()
    assert {f"# {key}=" for key in keys} <= set(example)


def test_the_identity_for_filings_is_the_research_workers_alone(compose: dict[str, Any]) -> None:
    services = {
        name for name, each in compose["services"].items() if "DESK_SEC_IDENTITY" in each.get("environment", {})
    }
    assert services == {"research"}


def test_every_desk_variable_is_a_setting(compose: dict[str, Any]) -> None:
    names = [
        key.removeprefix("DESK_").lower()
        for each in compose["services"].values()
        for key in each.get("environment", {})
        if key.startswith("DESK_")
    ]
    assert names
    assert set(names) <= set(Settings.model_fields)


def test_every_command_is_one_of_ours(compose: dict[str, Any]) -> None:
    known = set(get_command(build()).commands)  # type: ignore[attr-defined]
    commands = [each["command"] for each in compose["services"].values() if each.get("command", [""])[0] == "desk"]
    checks = [each.get("healthcheck", {}).get("test", [])[1:] for each in compose["services"].values()]
    used = {each[1] for each in commands} | {check[1] for check in checks if check[:1] == ["desk"]}
    assert len(used) >= 5
    assert used <= known
