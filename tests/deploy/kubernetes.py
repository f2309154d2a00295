"""The rendered overlays of deploy/kubernetes, and what one looks for in them."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

from tests.deploy.kustomize import Object, pod, render
from tests.stack import REPOSITORY

FOLDER = REPOSITORY / "deploy" / "kubernetes"
OVERLAYS = ("small", "fleet")
STAYING = ("research", "ops", "trade", "beat", "api", "notify")
ROLES = (*STAYING, "migrate")
COMPONENT = "app.kubernetes.io/component"


def overlay(name: str) -> Path:
    return FOLDER / "overlays" / name


@cache
def rendered(name: str) -> tuple[Object, ...]:
    """Return the objects of an overlay; not to be changed."""
    return tuple(render(overlay(name)))


def named(name: str, kind: str, called: str) -> Object:
    (found,) = (each for each in rendered(name) if each["kind"] == kind and each["metadata"]["name"] == called)
    return found


def workloads(name: str) -> dict[str, Object]:
    """Return the workloads of an overlay by component."""
    found = [each for each in rendered(name) if pod(each)]
    return {each["spec"]["template"]["metadata"]["labels"][COMPONENT]: each for each in found}


def settings_of(name: str, component: str) -> dict[str, str]:
    """Return the variables of a component's container, without those of secrets."""
    (container,) = pod(workloads(name)[component])["containers"]
    found: dict[str, Any] = {}
    for source in container.get("envFrom", ()):
        if "configMapRef" in source:
            found |= named(name, "ConfigMap", source["configMapRef"]["name"])["data"]
    return {**found, **{each["name"]: each["value"] for each in container.get("env", ())}}
