"""Rendering of the kustomizations under deploy/kubernetes, as far as they use it: resources, patches by file with a
target or by name, generated ConfigMaps, images, labels and the namespace. `kubectl kustomize` gives the same, but for
the hash in a generated name."""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

Object = dict[str, Any]
KNOWN = {
    "apiVersion", "kind", "namespace", "resources", "configMapGenerator", "patches", "images", "labels",
}  # fmt: skip
# What the elements of a list are merged by.
KEYS = {"containers": "name", "initContainers": "name", "volumes": "name", "env": "name", "volumeMounts": "mountPath"}
KEYS |= {"ports": "containerPort"}
CLUSTER_WIDE = {"Namespace"}
POD_TEMPLATES = {"Deployment", "StatefulSet", "Job"}


def render(folder: Path) -> list[Object]:
    """Return the objects of a kustomization. Raises ValueError for what this renderer does not know."""
    (wanted,) = _documents(folder / "kustomization.yaml")
    if unknown := set(wanted) - KNOWN:
        raise ValueError(f"{folder}: {', '.join(sorted(unknown))}: the renderer of the tests does not know it")
    found: list[Object] = []
    for name in wanted.get("resources", ()):
        path = folder / name
        found += render(path) if path.is_dir() else _documents(path)
    for generator in wanted.get("configMapGenerator", ()):
        _generate(found, folder, generator)
    for patch in wanted.get("patches", ()):
        for part in _documents(folder / patch["path"]):
            _patch(found, part, patch.get("target"))
    for each in found:
        for label in wanted.get("labels", ()):
            _label(each, label["pairs"], label.get("includeTemplates", False))
        if "namespace" in wanted and each["kind"] not in CLUSTER_WIDE:
            each["metadata"]["namespace"] = wanted["namespace"]
        for container in containers(each):
            container["image"] = _image(container["image"], wanted.get("images", ()))
    return found


def pod(each: Object) -> Object:
    """Return the pod's spec of a workload, empty for another object."""
    return dict(each["spec"]["template"]["spec"]) if each["kind"] in POD_TEMPLATES else {}


def containers(each: Object) -> Iterator[Object]:
    """Yield the containers of a workload, those that begin it first."""
    spec = pod(each)
    yield from spec.get("initContainers", ())
    yield from spec.get("containers", ())


def _documents(path: Path) -> list[Object]:
    return [each for each in yaml.safe_load_all(path.read_text(encoding="utf-8")) if each]


def _generate(found: list[Object], folder: Path, generator: Mapping[str, Any]) -> None:
    lines = [line for name in generator["envs"] for line in (folder / name).read_text(encoding="utf-8").splitlines()]
    data = dict(line.split("=", 1) for line in lines if line and not line.startswith("#"))
    if generator.get("behavior") == "merge":
        (present,) = (each for each in found if _is(each, "ConfigMap", generator["name"]))
        present["data"] |= data
    else:
        about = {"name": generator["name"]}
        found.append({"apiVersion": "v1", "kind": "ConfigMap", "metadata": about, "data": data})


def _is(each: Object, kind: str, name: str) -> bool:
    return each["kind"] == kind and each["metadata"]["name"] == name


def _patch(found: list[Object], part: Object, target: Mapping[str, str] | None) -> None:
    """Merge a patch into the objects of its target, or into the one of its own kind and name."""
    if target is not None:
        chosen = [each for each in found if re.fullmatch(target["kind"], each["kind"])]
    else:
        chosen = [each for each in found if _is(each, part["kind"], part["metadata"]["name"])]
    if not chosen:
        raise ValueError(f"the patch {part['kind']} {part['metadata']['name']} fits no object")
    for each in chosen:
        own = {key: copy.deepcopy(value) for key, value in part.items() if key not in ("apiVersion", "kind")}
        own["metadata"] = {key: value for key, value in own["metadata"].items() if key != "name"}
        _merge(each, own)


def _merge(into: Object, part: Mapping[str, Any]) -> None:
    for key, value in part.items():
        if value is None:
            into.pop(key, None)
        elif isinstance(value, dict) and isinstance(into.get(key), dict):
            _merge(into[key], value)
        elif key in KEYS and isinstance(into.get(key), list):
            into[key] = _merge_lists(into[key], value, KEYS[key])
        else:
            into[key] = value


def _merge_lists(present: list[Object], parts: list[Object], key: str) -> list[Object]:
    """Return the elements of a patch, then those that it does not name: the order of kustomize."""
    by_key = {each[key]: each for each in present}
    new = []
    for part in parts:
        if part[key] in by_key:
            _merge(by_key[part[key]], part)
        else:
            new.append(part)
    return [*new, *present]


def _label(each: Object, pairs: Mapping[str, str], templates: bool) -> None:
    each["metadata"].setdefault("labels", {}).update(pairs)
    if templates and each["kind"] in POD_TEMPLATES:
        for template in (each["spec"]["template"], *each["spec"].get("volumeClaimTemplates", ())):
            template.setdefault("metadata", {}).setdefault("labels", {}).update(pairs)


def _image(name: str, images: Any) -> str:
    for each in images:
        if each["name"] == name:
            return f"{each.get('newName', name)}:{each['newTag']}"
    return name
