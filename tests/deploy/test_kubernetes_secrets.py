"""deploy/kubernetes/make_secrets.py: each pod gets the secrets that it mounts, they load, and no other pod has them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import redis

from chordesk.agents.role_models import PROVIDER_KEYS
from chordesk.models.settings import Settings
from chordesk.models.settings.schema import BROKER_KEYS
from chordesk.models.settings.sources import load_settings
from tests import zygote
from tests.conftest import valkey_binary
from tests.deploy.kubernetes import FOLDER, ROLES, STAYING, named, settings_of, workloads
from tests.deploy.kustomize import containers, pod
from tests.parts import of_feature
from tests.patience import PATIENCE
from tests.stack import REPOSITORY, free_port, wait_for

PROGRAM = FOLDER / "make_secrets.py"
MODEL = {"DESK_PROVIDER_URL": "https://models.example/v1", "DESK_PROVIDER_KEY": 'key-of-the-"model"\\7'}
BROKER = {"ALPACA_API_KEY": "key-of-the-broker", "ALPACA_SECRET_KEY": "secret-of-the-broker"}
OTHERS = {"OPENAI_API_KEY": "key-of-a-provider", "ALPACA_DATA_API_KEY": "key-of-the-chains"}
CHANNELS = {"DESK_NOTIFY_CHANNELS": "phone=json://127.0.0.1:1/topic-of-the-phone\nmail=json://127.0.0.1:2"}
ELSEWHERE = {
    "DESK_DATABASE_URL": "postgresql+psycopg://desk:pass-of-postgres@db.example/desk?sslmode=verify-full",
    "DESK_REDIS_URL": "rediss://desk:pass-of-redis@redis.example:6380/0",
}


def run(overlay: str, environ: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, PROGRAM, overlay], env={"PATH": os.environ["PATH"], **environ},
        capture_output=True, text=True, timeout=PATIENCE, check=False,
    )  # fmt: skip


def made(overlay: str, environ: Mapping[str, str]) -> dict[str, dict[str, str]]:
    """The files of each secret, by its name."""
    done = run(overlay, environ)
    assert done.returncode == 0, done.stderr
    items: list[dict[str, Any]] = json.loads(done.stdout)["items"]
    for each in items:
        kubernetes_validate.validate(each, kubernetes_validate.latest_version(), strict=True)
        assert each["metadata"]["namespace"] == "desk"
    return {each["metadata"]["name"]: each["stringData"] for each in items}


@pytest.fixture(scope="module")
def small() -> dict[str, dict[str, str]]:
    return made("small", {**MODEL, **BROKER, **OTHERS, **CHANNELS})


@pytest.fixture(scope="module")
def fleet() -> dict[str, dict[str, str]]:
    return made("fleet", {**MODEL, **BROKER, **OTHERS, **CHANNELS, **ELSEWHERE})


def mounted(overlay: str) -> set[str]:
    """The secrets that the pods of an overlay cannot begin without."""
    specs = [pod(each) for each in workloads(overlay).values()]
    return {one["secret"]["secretName"] for spec in specs for one in spec["volumes"] if "secret" in one}


def from_variables(role: str) -> set[str]:
    (container,) = pod(workloads("fleet")[role])["containers"]
    return {each["secretRef"]["name"] for each in container.get("envFrom", ()) if "secretRef" in each}


def test_each_mounted_secret_is_made(small: dict[str, Any], fleet: dict[str, Any]) -> None:
    optional = {"desk-research-variables", "desk-trade-variables"}
    assert set(small) == mounted("small") | optional
    (reference,) = named("fleet", "TriggerAuthentication", "desk-demand")["spec"]["secretTargetRef"]
    assert set(fleet) == mounted("fleet") | optional | {reference["name"]}
    assert reference["key"] in fleet[reference["name"]]
    assert {role: from_variables(role) for role in ROLES if from_variables(role)} == {
        "research": {"desk-research-variables"},
        "ops": {"desk-ops-variables"},  # the login of reports' storage, made by hand
        "trade": {"desk-trade-variables"},
        "migrate": optional,  # to know which keys there are
    }


@pytest.mark.parametrize("role", STAYING)
def test_each_pods_file_gives_its_settings(role: str, small: dict[str, Any], tmp_path: Path) -> None:
    file = tmp_path / "desk.toml"
    file.write_text(small[f"desk-{role}"]["desk.toml"], encoding="utf-8")
    settings = load_settings({**settings_of("small", role), "DESK_CONFIG": str(file)}, tmp_path)
    assert settings.database.endswith("@postgres:5432/desk")
    assert (settings.redis_url is not None) == (role != "notify"), "it reads the database alone"
    assert (settings.message_key is not None) == (role != "notify"), "it sends no messages"
    assert settings.provider_url == MODEL["DESK_PROVIDER_URL"]
    key = settings.provider_key.get_secret_value() if settings.provider_key else None
    assert key == (MODEL["DESK_PROVIDER_KEY"] if role == "research" else None)
    assert (settings.api_token is not None) == (role == "api")
    assert (settings.notify_channels is not None) == (role == "notify")
    if role == "notify":
        channels = of_feature("chordesk.tasks.notifications.channels:channels")
        assert [one.name for one in channels(settings)] == [
            "phone",
            "mail",
        ]


def test_the_services_have_the_same_passwords(small: dict[str, Any]) -> None:
    password, logins = small["postgres"]["password"], small["desk-roles"]
    assert len(password) >= 32
    assert f"desk:{password}@postgres" in logins["admin"]
    assert tomllib.loads(small["desk-migrate"]["desk.toml"])["database_url"] == logins["owner"]
    assert tomllib.loads(small["desk-ops"]["desk.toml"])["database_url"] == logins["service"]
    assert {name for name, files in small.items() if password in json.dumps(files)} == {"postgres", "desk-roles"}
    assert made("small", MODEL)["postgres"]["password"] != password
    kept = made("small", {**MODEL, "POSTGRES_PASSWORD": password})
    assert kept["desk-roles"]["admin"] == logins["admin"]


def test_each_key_is_one_pods_alone(fleet: dict[str, dict[str, str]]) -> None:
    texts = {name: json.dumps(files) for name, files in fleet.items()}

    def holders(value: str) -> set[str]:
        return {name for name, text in texts.items() if json.dumps(value)[1:-1] in text}

    assert holders(BROKER["ALPACA_API_KEY"]) == holders(BROKER["ALPACA_SECRET_KEY"]) == {"desk-trade"}
    assert holders(OTHERS["OPENAI_API_KEY"]) == {"desk-research"}
    assert holders("topic-of-the-phone") == {"desk-notify"}
    assert holders("key-of-the-") >= {"desk-research"}
    assert holders("pass-of-redis") == {f"desk-{role}" for role in ROLES if role != "notify"}
    assert holders("pass-of-postgres") == {f"desk-{role}" for role in ROLES} | {"desk-demand"}


def test_the_keys_of_a_packages_broker_are_the_trade_workers_alone() -> None:
    found = made("small", {**MODEL, "BROKER_KEYS": "ACME_KEY ACME_SECRET", "ACME_KEY": "one-of-acme"})
    holders = {name for name, files in found.items() if "one-of-acme" in files.values()}
    assert (holders, found["desk-trade"]["acme_key"]) == ({"desk-trade"}, "one-of-acme")
    assert found["desk-trade-variables"] == {"ACME_KEY_FILE": "/run/secrets/desk/acme_key"}


def test_the_broker_and_the_providers_are_all_there() -> None:
    wanted = {
        *BROKER_KEYS,
        *Settings.DATA_CREDENTIALS,
        *(key for keys in PROVIDER_KEYS.values() for key in keys),
    }
    environ = {**MODEL, **dict.fromkeys(wanted, "some-value-of-it")}
    found = made("small", environ)
    of_trade = {*BROKER_KEYS, *Settings.DATA_CREDENTIALS}
    for role, names in (("research", wanted - set(BROKER_KEYS)), ("trade", of_trade)):
        variables, files = found[f"desk-{role}-variables"], found[f"desk-{role}"]
        assert set(variables) == {f"{name}_FILE" for name in names}
        (mount,) = (one for one in containers_mounts(role) if one["name"] == "secrets")
        for name in names:
            folder, _, file = variables[f"{name}_FILE"].rpartition("/")
            assert (folder, files[file]) == (mount["mountPath"], "some-value-of-it"), name


def containers_mounts(role: str) -> list[dict[str, Any]]:
    (container,) = pod(workloads("fleet")[role])["containers"]
    return list(container["volumeMounts"])


def test_without_channels_the_pod_of_notifications_is_named_and_has_no_secret() -> None:
    done = run("small", MODEL)
    names = {each["metadata"]["name"] for each in json.loads(done.stdout)["items"]}
    assert (done.returncode, "desk-notify" in names) == (0, False)
    assert "DESK_NOTIFY_CHANNELS is not set: there is no Secret desk-notify" in done.stderr
    assert run("small", {**MODEL, **CHANNELS}).stderr == ""


@pytest.mark.parametrize(
    ("arguments", "environ", "problem"),
    [
        ("small", {}, "DESK_PROVIDER_URL must be set"),
        ("fleet", MODEL, "DESK_DATABASE_URL and DESK_REDIS_URL must be set"),
        ("large", MODEL, "'large' is neither"),
    ],
)
def test_a_missing_value_is_named(arguments: str, environ: dict[str, str], problem: str) -> None:
    done = run(arguments, environ)
    assert (done.returncode, done.stdout) == (2, "")
    assert problem in done.stderr


@pytest.mark.process
def test_the_pods_commands_run_with_them(small: dict[str, dict[str, str]], store: str, tmp_path: Path) -> None:
    """As the cluster starts them, but for paths, and with a database and a Redis of this machine."""
    home, file = tmp_path / "data", tmp_path / "desk.toml"
    home.mkdir()
    ours = {"DESK_CONFIG": str(file), "DESK_HOME": str(home), "HOME": str(home), "TMPDIR": str(tmp_path)}
    text = small["desk-migrate"]["desk.toml"]
    for name, value in (("database_url", f"sqlite:///{home / 'desk.db'}"), ("redis_url", store)):
        text = text.replace(tomllib.loads(text)[name], value)
    file.write_text(text, encoding="utf-8")
    (first,) = pod(workloads("small")["ops"])["initContainers"]
    (migration,) = pod(workloads("small")["migrate"])["containers"]
    given = {each["name"]: each["value"] for each in first["env"]}
    assert set(given) == set(ours), "the one that waits has nothing else"
    clean = {"PATH": os.environ["PATH"], **ours}

    def code(container: Mapping[str, Any], environ: Mapping[str, str]) -> int:
        program, *arguments = container["args"]
        assert program == "desk"
        return zygote.run(arguments, dict(environ), REPOSITORY).returncode

    assert code(first, clean) == 1, "it waits"
    variables = {**settings_of("small", "migrate"), **clean}
    assert code(migration, {**variables, "DESK_CODEX_TURNS": "many"}) == 2
    assert code(migration, {**variables, "DESK_API_TOKEN": "in-clear"}) == 2
    assert code(first, clean) == 1, "nothing was begun"
    assert code(migration, variables) == 0
    assert code(first, clean) == 0, "the pods begin"


@pytest.mark.process
def test_redis_lets_the_desk_work_and_nothing_else(store: str) -> None:
    with redis.Redis.from_url(store) as ours, redis.Redis(port=ours.get_connection_kwargs()["port"]) as theirs:
        assert ours.ping()
        assert ours.info("memory")["maxmemory_policy"] == "noeviction"
        assert ours.eval("return redis.call('set', KEYS[1], 'x')", 1, "key")
        ours.publish("channel", "message")
        for refused in (("CONFIG", "SET", "appendonly", "no"), ("SHUTDOWN",), ("ACL", "LIST"), ("FLUSHALL",)):
            with pytest.raises(redis.exceptions.NoPermissionError):
                ours.execute_command(*refused)
        with pytest.raises(redis.exceptions.AuthenticationError):
            theirs.get("key")


@pytest.fixture
def store(small: dict[str, dict[str, str]], tmp_path: Path) -> Iterator[str]:
    """Redis as the cluster starts it, on a port of this machine: its address for the desk."""
    (tmp_path / "users.acl").write_text(small["redis"]["users.acl"], encoding="utf-8")
    (container,) = containers(workloads("small")["redis"])
    arguments = [
        {"/data": str(tmp_path), "/run/secrets/redis/users.acl": str(tmp_path / "users.acl")}.get(each, each)
        for each in container["args"][1:]
    ]
    port = free_port()
    server = subprocess.Popen(
        [valkey_binary(), "--port", str(port), "--bind", "127.0.0.1", *arguments], stdout=subprocess.DEVNULL
    )
    try:
        with redis.Redis(port=port) as client:
            wait_for(lambda: _answers(client), "Redis answers")
        yield tomllib.loads(small["desk-ops"]["desk.toml"])["redis_url"].replace("redis:6379", f"127.0.0.1:{port}")
    finally:
        server.terminate()
        server.wait(PATIENCE)


def _answers(client: redis.Redis) -> bool:
    try:
        client.ping()
    except redis.exceptions.AuthenticationError:
        return True
    except redis.exceptions.ConnectionError:
        return False
    return True
