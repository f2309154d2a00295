"""A model that does as it is asked: it answers in the schema of the request, and calls a tool until it has a result."""

from __future__ import annotations

import json
import re
from typing import Any

from tests.fakes.responses import Reply, Streamed, Text

_NUMBER = re.compile(r"-?\d+")
_QUOTED = re.compile(r"'([^']+)'|\"([^\"]+)\"")
PIECES = 5


def obedient(body: dict[str, Any]) -> Reply:
    """Return the answer of such a model to a request; in pieces, as a model writes it."""
    schema = (body.get("text") or {}).get("format", {}).get("schema")
    if schema is None:
        return Text("ok")
    items = body.get("input") or []
    answered = bool(items) and items[-1].get("type") == "function_call_output"
    return Streamed(json.dumps(fill(schema, _last_text(items), schema, final=answered), ensure_ascii=False), PIECES)


def fill(node: dict[str, Any], text: str, root: dict[str, Any], *, final: bool) -> Any:
    """Return a value of a schema, with what a text names in it: its numbers, and what stands in quotes."""
    if "$ref" in node:
        return fill(root["$defs"][node["$ref"].removeprefix("#/$defs/")], text, root, final=final)
    if "anyOf" in node:
        branches = node["anyOf"]
        finals = [one for one in branches if one.get("properties", {}).get("mode", {}).get("enum") == ["final"]]
        rest = [one for one in branches if one not in finals]
        return fill((finals if finals and final else rest or branches)[0], text, root, final=final)
    if "enum" in node:
        return node["enum"][0]
    kind = node["type"][0] if isinstance(node["type"], list) else node["type"]
    if kind == "object":
        return {name: fill(child, text, root, final=final) for name, child in node["properties"].items()}
    if kind == "array":
        return [fill(node["items"], text, root, final=final)]
    return {"string": _string, "integer": _number, "number": _number, "boolean": _yes, "null": _nothing}[kind](text)


def _string(text: str) -> str:
    found = _QUOTED.search(text)
    return next(filter(None, found.groups())) if found else f"You wrote: {text[:80]}"


def _number(text: str) -> int:
    found = _NUMBER.search(text)
    return int(found.group()) if found else 3


def _yes(_text: str) -> bool:
    return True


def _nothing(_text: str) -> None:
    return None


def _last_text(items: list[dict[str, Any]]) -> str:
    for item in reversed(items):
        if item.get("type") == "message" and item.get("role") == "user":
            return "".join(part.get("text", "") for part in item["content"])
    return ""
