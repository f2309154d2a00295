"""deploy/kubernetes: each object against Kubernetes' schemas, and each pod against the desk's own rules."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import jsonschema
import kubernetes_validate
import pytest
import yaml
from typer.main import get_command

import chordesk.tasks.worker.app  # noqa: F401  the kinds of steps are declared with the app
from chordesk.models.settings.sources import load_settings
from chordesk.models.settings.variables import names_setting
from chordesk.tasks.cli.root import build
from chordesk.tasks.engine.step_queries import demand_query
from tests.deploy.kubernetes import FOLDER, OVERLAYS, ROLES, STAYING, named, overlay, rendered, settings_of, workloads
from tests.deploy.kustomize import Object, containers, pod
from tests.patience import PATIENCE
from tests.stack import REPOSITORY

WRITABLE = {"/data", "/tmp"}
REPORTS = "/reports"
SPARE_SECONDS = 10  # for turns to be interrupted after the drain, and given back
GENERATED = re.compile(r"^(desk-settings)-[0-9a-z]{10}$")


def schema() -> Any:
    return json.loads((Path(__file__).parent / "schema" / "keda.json").read_text(encoding="utf-8"))


def problems(each: Object) -> list[str]:
    """What is wrong with an object, by Kubernetes' schema of its kind or by that of KEDA."""
    if each["apiVersion"].startswith("keda.sh/"):
        return [error.message for error in jsonschema.Draft7Validator(schema()).iter_errors(each)]
    try:
        kubernetes_validate.validate(each, kubernetes_validate.latest_version(), strict=True)
    except kubernetes_validate.ValidationError as error:
        return [str(error.message)]
    return []


@pytest.mark.parametrize("name", OVERLAYS)
def test_each_object_fits_its_schema(name: str) -> None:
    found = rendered(name)
    assert len(found) > 20
    assert {(each["kind"], each["metadata"]["name"]): problems(each) for each in found if problems(each)} == {}


@pytest.mark.parametrize("name", OVERLAYS)
def test_kustomize_makes_the_same_of_it(name: str) -> None:
    """The renderer of the tests knows what the overlays use, so that no test needs kubectl."""
    kubectl = shutil.which("kubectl")
    if kubectl is None:
        pytest.skip("no kubectl on the PATH: install it to compare with kustomize itself")
    done = subprocess.run(
        [kubectl, "kustomize", overlay(name)], capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    assert done.returncode == 0, done.stderr
    theirs = [without_hash(each) for each in yaml.safe_load_all(done.stdout)]
    assert by_name(theirs) == by_name(list(rendered(name)))


def without_hash(value: Any) -> Any:
    """The same without the hash in the name of a generated ConfigMap."""
    if isinstance(value, dict):
        return {key: without_hash(each) for key, each in value.items()}
    if isinstance(value, list):
        return [without_hash(each) for each in value]
    return GENERATED.sub(r"\1", value) if isinstance(value, str) else value


def by_name(found: list[Object]) -> dict[tuple[str, str], Object]:
    return {(each["kind"], each["metadata"]["name"]): each for each in found}


# Each pod


@pytest.mark.parametrize("name", OVERLAYS)
def test_every_pod_is_hardened(name: str) -> None:
    assert named(name, "Namespace", "desk")["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "restricted"
    for role, each in workloads(name).items():
        spec = pod(each)
        assert spec["automountServiceAccountToken"] is False, role
        assert spec["enableServiceLinks"] is False, f"{role}: variables of services would pass for settings"
        assert spec["securityContext"]["runAsNonRoot"] is True, role
        assert spec["securityContext"]["runAsUser"] > 0, role
        assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}, role
        assert not {"hostNetwork", "hostPID", "hostIPC"} & set(spec), role
        for container in containers(each):
            allowed = container["securityContext"]
            assert allowed["allowPrivilegeEscalation"] is False, role
            assert allowed["readOnlyRootFilesystem"] is True, role
            assert allowed["capabilities"] == {"drop": ["ALL"]}, role
            assert "privileged" not in allowed, role
            assert set(container["resources"]) == {"requests", "limits"}, role
            assert {"cpu", "memory"} == set(container["resources"]["requests"]), role
            assert "memory" in container["resources"]["limits"], role


def test_no_token_of_the_account_is_mounted() -> None:
    assert named("fleet", "ServiceAccount", "desk")["automountServiceAccountToken"] is False
    assert {pod(workloads("fleet")[role])["serviceAccountName"] for role in ROLES} == {"desk"}
    assert not {each["kind"] for each in rendered("fleet")} & {
        "Role",
        "ClusterRole",
        "RoleBinding",
        "ClusterRoleBinding",
    }


@pytest.mark.parametrize("name", OVERLAYS)
@pytest.mark.parametrize("role", ROLES)
def test_the_desk_writes_to_its_home_the_folder_of_temporary_files_and_that_of_reports_alone(
    role: str, name: str
) -> None:
    each, variables = workloads(name)[role], settings_of(name, role)
    reports = {REPORTS} if (name, role) == ("small", "ops") else set()
    volumes = {one["name"]: one for one in pod(each)["volumes"]}
    claims = {one["metadata"]["name"] for one in each["spec"].get("volumeClaimTemplates", ())}
    for container in containers(each):
        mounts = {one["mountPath"]: one for one in container["volumeMounts"]}
        if container["name"] == "roles":
            assert [one["readOnly"] for one in mounts.values()] == [True]
            continue
        own = reports if container["name"] == "desk" else set()
        assert {path for path, one in mounts.items() if not one.get("readOnly")} == WRITABLE | own
        for path in WRITABLE:
            volume = mounts[path]["name"]
            assert volume in claims or "emptyDir" in volumes[volume]
    assert variables["DESK_HOME"] == variables["HOME"] == "/data"
    assert variables["TMPDIR"] == "/tmp"


def test_the_audit_log_outlives_its_pod() -> None:
    trade = workloads("fleet")["trade"]
    assert [claim["metadata"]["name"] for claim in trade["spec"]["volumeClaimTemplates"]] == ["data"]
    assert trade["spec"]["replicas"] == 1
    assert set(trade["spec"]["persistentVolumeClaimRetentionPolicy"].values()) == {"Retain"}


@pytest.mark.parametrize("name", OVERLAYS)
@pytest.mark.parametrize("role", STAYING)
def test_each_has_probes_over_http(name: str, role: str) -> None:
    (container,) = pod(workloads(name)[role])["containers"]
    probes = {probe: container[f"{probe}Probe"] for probe in ("startup", "readiness", "liveness")}
    assert {probe: each["httpGet"]["port"] for probe, each in probes.items()} == dict.fromkeys(probes, "metrics")
    paths = {probe: each["httpGet"]["path"] for probe, each in probes.items()}
    assert paths == {"startup": "/health/live", "liveness": "/health/live", "readiness": "/health/ready"}
    source = "".join(path.read_text("utf-8") for path in (REPOSITORY / "tasks" / "telemetry").glob("*.py"))
    assert all(f'"{path}"' in source for path in paths.values()), "paths that the desk answers"
    ports = {each["name"]: each["containerPort"] for each in container["ports"]}
    variables = settings_of(name, role)
    assert str(ports["metrics"]) == variables["DESK_METRICS_PORT"]
    assert variables["DESK_METRICS_HOST"] == "0.0.0.0", "the probe comes from outside the pod"
    about = workloads(name)[role]["spec"]["template"]["metadata"]["annotations"]
    assert about["prometheus.io/port"] == variables["DESK_METRICS_PORT"]


@pytest.mark.parametrize("name", OVERLAYS)
@pytest.mark.parametrize("role", STAYING)
def test_a_pod_has_longer_to_end_than_its_turns(name: str, role: str) -> None:
    seconds = float(settings_of(name, role)["DESK_DRAIN_SECONDS"])
    assert pod(workloads(name)[role])["terminationGracePeriodSeconds"] >= seconds + SPARE_SECONDS


@pytest.mark.parametrize("role", STAYING)
def test_each_waits_for_the_migration(role: str) -> None:
    (first,) = pod(workloads("fleet")[role])["initContainers"]
    assert first["args"] == ["desk", "db", "current"]
    (migration,) = pod(workloads("fleet")["migrate"])["containers"]
    assert migration["args"] == ["desk", "db", "upgrade", "--fleet"]
    assert first["image"] == migration["image"]


# Settings, commands, images


@pytest.mark.parametrize("name", OVERLAYS)
@pytest.mark.parametrize("role", ROLES)
def test_every_variable_of_the_desk_is_a_setting_that_fits(name: str, role: str, tmp_path: Path) -> None:
    variables = settings_of(name, role)
    file = tmp_path / "desk.toml"
    file.write_text('provider_url = "https://models.example/v1"\n', encoding="utf-8")
    assert variables["DESK_CONFIG"] == "/run/secrets/desk/desk.toml"
    assert {key for key in variables if not names_setting(key)} == {"HOME", "TMPDIR"}
    settings = load_settings({**variables, "DESK_CONFIG": str(file)}, tmp_path)
    assert settings.trader_live is False
    assert settings.provider == "endpoint"


def test_all_parts_have_the_same_settings() -> None:
    """A run that was opened under others is not traded on; and what an overlay's desk.env says reaches each of them."""
    found = [settings_of("fleet", role) for role in ROLES]
    assert all(each == found[0] for each in found)


@pytest.mark.parametrize("role", ROLES)
def test_every_command_is_one_of_ours(role: str) -> None:
    known = set(get_command(build()).commands)  # type: ignore[attr-defined]
    for container in containers(workloads("fleet")[role]):
        program, command, *_ = container["args"]
        assert program == "desk"
        assert command in known


@pytest.mark.parametrize("name", OVERLAYS)
def test_images_are_pinned(name: str) -> None:
    with (REPOSITORY / "pyproject.toml").open("rb") as file:
        version = tomllib.load(file)["project"]["version"]
    for role, each in workloads(name).items():
        for container in containers(each):
            image, _, tag = container["image"].rpartition(":")
            assert image, f"{role} has no version of its image"
            assert re.match(r"\d+\.\d+", tag), f"{role}: {tag} may change by itself"
            if role in ROLES:
                assert (image, tag) == ("chordesk", version)


# Scaling


def test_keda_asks_what_the_desk_does() -> None:
    spec = named("fleet", "ScaledObject", "desk-research")["spec"]
    (trigger,) = spec["triggers"]
    assert trigger["metadata"]["query"] == demand_query(), (
        "write the text of chordesk.tasks.engine.step_queries.query() there"
    )
    assert trigger["metadata"]["targetQueryValue"] == settings_of("fleet", "research")["DESK_CODEX_TURNS"]
    assert trigger["metricType"] == "AverageValue", "the number is for all workers together"
    assert spec["scaleTargetRef"]["name"] == workloads("fleet")["research"]["metadata"]["name"]
    assert "replicas" not in workloads("fleet")["research"]["spec"], "an apply would undo the autoscaler's choice"
    assert 1 <= spec["minReplicaCount"] <= spec["fallback"]["replicas"] <= spec["maxReplicaCount"]


def test_nothing_secret_is_written_down() -> None:
    for path in FOLDER.rglob("*"):
        if path.suffix in (".yaml", ".env"):
            text = path.read_text(encoding="utf-8")
            assert not re.search(r"(?i)(_key|password|token)\s*[:=]\s*[\"']?[a-z0-9]{8,}", text), path
            assert "://" not in text, path
