"""compose.yaml against the schema of the Compose Specification, and against the desk's own rules."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from chordesk.agents.role_models import PROVIDER_KEYS
from chordesk.models.settings import Settings
from chordesk.models.settings.schema import BROKER_KEYS

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "compose.yaml").read_text(encoding="utf-8")
DESK = {"migrate", "research", "ops", "trade", "beat", "flower", "api", "notify"}


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
    assert [error.message for error in jsonschema.Draft7Validator(schema).iter_errors(compose)] == []


def ours(compose: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The services that run the desk's image."""
    return {name: each for name, each in compose["services"].items() if each.get("command", [""])[0] == "desk"}


def test_whatever_keeps_running_has_a_health_check_without_a_shell(compose: dict[str, Any]) -> None:
    for name, each in compose["services"].items():
        if name in ("migrate", "roles"):
            assert each["healthcheck"] == {"disable": True}  # the image has one
            continue
        kind, *command = each["healthcheck"]["test"]
        assert kind == "CMD", name
        assert not {"sh", "bash", "-c", "curl"} & set(command), name


def test_the_health_of_each_process_is_that_of_its_metrics_server(compose: dict[str, Any]) -> None:
    for name, each in ours(compose).items():
        if name not in ("migrate", "flower"):
            port = each["environment"]["DESK_METRICS_PORT"]
            asked = each["healthcheck"].get("test", [""])[-1]
            assert asked == f"http://127.0.0.1:{port}/health", name
    assert compose["services"]["flower"]["healthcheck"]["test"][-1] == "http://127.0.0.1:5555/healthcheck"


def test_the_grace_period_is_above_the_drain(compose: dict[str, Any]) -> None:
    least = Settings.model_fields["drain_seconds"].default + 10
    for name, each in ours(compose).items():
        assert float(each["stop_grace_period"].removesuffix("s")) > least, name
        assert "DESK_DRAIN_SECONDS" not in each["environment"], name


def test_every_service_is_locked_down(compose: dict[str, Any]) -> None:
    for name, each in compose["services"].items():
        assert each["cap_drop"] == ["ALL"], name
        assert "cap_add" not in each, name
        assert each["security_opt"] == ["no-new-privileges:true"], name
        assert each["read_only"] is True, name
        assert re.fullmatch(r"\d+[mg]", each["deploy"]["resources"]["limits"]["memory"]), name
        assert not {"privileged", "network_mode", "pid"} & set(each), name
        assert "docker.sock" not in str(each), name


def test_networks_let_only_research_reach_models_and_only_trade_reach_brokers(compose: dict[str, Any]) -> None:
    members: dict[str, set[str]] = {name: set() for name in compose["networks"]}
    for name, each in compose["services"].items():
        for network in each["networks"]:
            members[network].add(name)
    assert members == {
        "data": DESK | {"roles", "redis", "postgres"},
        "watch": DESK - {"migrate", "flower"} | {"prometheus", "grafana"},
        "models": {"research"},
        "brokers": {"trade"},
        "market": {"ops", "api"},
        "channels": {"notify"},
        "published": {"flower", "api", "prometheus", "grafana"},
    }
    outward = {name for name, each in compose["networks"].items() if not each.get("internal")}
    masked = {name: each["driver_opts"] for name, each in compose["networks"].items() if each.get("driver_opts")}
    assert outward == {"models", "brokers", "market", "channels", "published"}
    assert masked == {"published": {"com.docker.network.bridge.enable_ip_masquerade": "false"}}


def test_ports_are_published_on_loopback_alone(compose: dict[str, Any]) -> None:
    published = [port for each in compose["services"].values() for port in each.get("ports", [])]
    assert published
    assert all(port.startswith("127.0.0.1:") for port in published)


def test_every_secret_is_a_file(compose: dict[str, Any]) -> None:
    for name, each in compose["services"].items():
        for key, value in (each.get("environment") or {}).items():
            if re.search(r"(?i)password|key|secret|token|auth(?!ority)|redis_url|database_url|identity", key):
                assert "_FILE" in key or key == "DESK_MANDATE_PUBLIC_KEY", f"{name}: {key}"
                assert not value or value.startswith(("/run/secrets/", "${")), f"{name}: {key}"
            assert "://" not in str(value), f"{name}: {key}"
    for name, secret in compose["secrets"].items():
        assert secret == {"file": f"${{SECRETS:-.secrets}}/{name}"}
    assert not re.search(r"://[^/\s]*:[^$/\s@][^/\s]*@", TEXT)


def test_every_file_of_a_secret_is_mounted_where_it_is_named(compose: dict[str, Any]) -> None:
    used = set()
    for name, each in compose["services"].items():
        given = set(each.get("secrets", []))
        used |= given
        environ = {key: str(value) for key, value in each.get("environment", {}).items() if "_FILE" in key}
        chosen = {key.removeprefix("DESK_").removesuffix("_FILE").lower() for key in environ if "${" in environ[key]}
        command = [one for one in each.get("command", []) if "--fixed=" not in one or "REDIS" in one]  # others' files
        named = set(re.findall(r"/run/secrets/(\w+)", f"{environ} {command} {each['healthcheck']}"))
        assert named | chosen <= given, name
        assert given - named - chosen <= {"authority"}, name
    assert used == set(compose["secrets"])


def test_each_key_is_in_the_service_that_needs_it(compose: dict[str, Any]) -> None:
    holders = {
        secret: {name for name, each in compose["services"].items() if secret in each.get("secrets", [])}
        for secret in compose["secrets"]
    }
    providers = {name.lower() for names in PROVIDER_KEYS.values() for name in names}
    assert {secret for secret, names in holders.items() if names == {"research"}} == providers | {
        "provider_key", "sec_identity",
    }  # fmt: skip
    assert {secret for secret, names in holders.items() if names == {"trade"}} == {name.lower() for name in BROKER_KEYS}
    data = {name.lower() for name in Settings.DATA_CREDENTIALS}
    assert all(holders[name] == {"research", "trade"} for name in data)
    assert holders["api_token"] == {"api"}
    assert (holders["admin_url"], holders["migrate_url"]) == ({"roles"}, {"roles", "migrate"})
    assert holders["flower_auth"] == {"flower"}
    bots = {"messengers_telegram_token", "messengers_slack_bot_token", "messengers_slack_app_token"}
    assert {secret for secret, names in holders.items() if names == {"notify"}} == {"notify_channels", *bots}
    example = (ROOT / ".env.example").read_text(encoding="utf-8").splitlines()
    assert {f"# {name.upper()}=" for name in providers} <= set(example)


def test_the_live_switch_is_no_file(compose: dict[str, Any]) -> None:
    assert compose["services"]["trade"]["environment"]["TRADER_LIVE"] == "${TRADER_LIVE:-0}"
    assert "TRADER_LIVE_FILE" not in TEXT


def test_what_a_service_fixes_is_what_the_first_one_refuses_to_change(compose: dict[str, Any]) -> None:
    services = ours(compose)
    migrate = services.pop("migrate")
    given = [pair for each in services.values() for pair in each["environment"].items()]
    given.append(("DESK_API_PORT", services["api"]["command"][-1]))
    fixed = {name: value for name, value in given if value and "${" not in value}
    said = [one.partition("--fixed=")[2].partition("=")[::2] for one in migrate["command"] if "--fixed=" in one]
    assert dict(said) == fixed | {"TRADER_LIVE": "0"}
    for name, each in compose["services"].items():
        assert (each.get("env_file") == [{"path": ".env", "required": False}]) == (name in DESK), name
        assert name not in services or each["depends_on"]["migrate"]["condition"] == "service_completed_successfully"


def filled(environment: dict[str, Any], **given: str) -> dict[str, str]:
    """The variables of a service as compose fills them in."""

    def value(found: re.Match[str]) -> str:
        name, rest, default = found.groups()
        return (given.get(name) or default) if rest == ":-" else given.get(name, default)

    return {name: re.sub(r"\$\{(\w+)(:?-)([^}]*)\}", value, str(text)) for name, text in environment.items()}
