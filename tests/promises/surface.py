"""What others build on, as names alone: commands, JSON over HTTP, settings, messages, and what packages import.

A surface is a mapping of parts to sets of names. Whoever uses a name can rely on it, so `broken` tells what a new
surface takes away, or newly asks for; a name that is only new breaks nobody.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from typer.main import get_command

from chordesk import plugins
from chordesk.models.settings import Settings
from chordesk.models.settings.schema import ALIASES
from chordesk.tasks.cli.root import build
from chordesk.tasks.web.app import routed
from chordesk.tasks.worker.app import routes

NEEDS = "needs "  # begins the name of what a caller has to give: a new one breaks him
Surface = Mapping[str, list[str]]


def surface() -> Surface:
    found: dict[str, Iterable[str]] = {
        "commands": _commands(get_command(build()), "desk"),
        "settings": (*Settings.model_fields, *ALIASES),
        "http": _http(routed().openapi()),
        "tasks": routes(),
        "plugins": _plugins(),
    }
    return {part: sorted(set(names)) for part, names in found.items()}


def broken(kept: Surface, now: Surface) -> list[str]:
    """Return what of a kept surface is gone, and what the new one asks for that the kept one did not; a whole new
    command or route may ask for what it likes."""
    found = []
    for part, names in kept.items():
        there = set(now.get(part, ()))
        found += [f"{part}: {name} is gone" for name in names if name not in there and not name.startswith(NEEDS)]
        owners = {name.removeprefix(NEEDS).partition(": ")[0] for name in names}
        found += [
            f"{part}: {name} is new"
            for name in sorted(there - set(names))
            if name.startswith(NEEDS) and name.removeprefix(NEEDS).partition(": ")[0] in owners
        ]
    return found


def _commands(command: Any, path: str) -> Iterator[str]:
    yield path
    for param in command.params:
        names = [param.name] if param.param_type_name == "argument" else param.opts + param.secondary_opts
        yield from (f"{path}: {name}" for name in names)
        if param.required:
            yield f"{NEEDS}{path}: {names[0]}"
    for name, child in getattr(command, "commands", {}).items():
        yield from _commands(child, f"{path} {name}")


def _http(api: Mapping[str, Any]) -> Iterator[str]:
    """Yield each route with its parameters, the fields of its body, and those of its answer at any depth."""
    for path, methods in api["paths"].items():
        for method, about in methods.items():
            route = f"{method.upper()} {path}"
            yield route
            for one in about.get("parameters", ()):
                yield f"{route}: {one['in']} {one['name']}"
                if one.get("required"):
                    yield f"{NEEDS}{route}: {one['in']} {one['name']}"
            for content in about.get("requestBody", {}).get("content", {}).values():
                schema = _resolved(content.get("schema", {}), api)
                yield from (f"{route}: body {name}" for name in schema.get("properties", ()))
                yield from (f"{NEEDS}{route}: body {name}" for name in schema.get("required", ()))
            for content in about["responses"].get("200", {}).get("content", {}).values():
                yield from (f"{route}: {name}" for name in _fields(content.get("schema", {}), api, ()))


def _fields(schema: Mapping[str, Any], api: Mapping[str, Any], above: tuple[str, ...]) -> Iterator[str]:
    """Yield the paths of all fields below a schema; of one that stands within itself, the outer alone."""
    name = schema.get("$ref", "")
    if name in above:
        return
    schema, above = _resolved(schema, api), (*above, name) if name else above
    for key, value in schema.get("properties", {}).items():
        yield key
        yield from (f"{key}.{inner}" for inner in _fields(value, api, above))
    inner = [schema["items"]] if isinstance(schema.get("items"), Mapping) else []
    more = schema.get("additionalProperties")
    inner += [more] if isinstance(more, Mapping) else []
    for one in (*inner, *schema.get("anyOf", ()), *schema.get("oneOf", ()), *schema.get("allOf", ())):
        yield from _fields(one, api, above)


def _resolved(schema: Mapping[str, Any], api: Mapping[str, Any]) -> Mapping[str, Any]:
    name = schema.get("$ref", "").rpartition("/")[2]
    return api["components"]["schemas"][name] if name else schema


def _plugins() -> Iterator[str]:
    """Yield what packages may import, and the members of each description that a feature is made of."""
    for name in plugins.__all__:
        yield name
        found = getattr(plugins, name)
        if isinstance(found, type) and dataclasses.is_dataclass(found):
            for one in dataclasses.fields(found):
                yield f"{name}: {one.name}"
                if one.init and one.default is dataclasses.MISSING and one.default_factory is dataclasses.MISSING:
                    yield f"{NEEDS}{name}: {one.name}"
