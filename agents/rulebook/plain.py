"""Answers to programs that bring their own schema and no role, such as graphs of LangGraph: rules know nothing of what
these ask, and say so. A graph can so be tried without a model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from chordesk.agents.rulebook.case import PREFIX, Payload, clip

PROGRAM = "program"  # the role in the instructions of such a call
# What an answer that has to choose chooses, where the schema offers it; else the first value.
_RESERVED = frozenset({"hold", "neutral", "none", "unknown", "no_data", "pass", "low"})


def plain(schema: Mapping[str, Any], items: Sequence[Payload], text_of: Any) -> Payload:
    """Return a value of a schema: texts that name what was asked, null where it is allowed, and a call of the first
    tool until one has answered. text_of: gives the text of an item's content."""
    asked = next((text_of(one.get("content")) for one in reversed(items) if one.get("role") == "user"), "")
    outputs = [text_of(one.get("output")) for one in items if one.get("type") == "function_call_output"]
    answered = bool(items) and items[-1].get("type") == "function_call_output"
    text = f"{PREFIX} no model has read this. Asked: {clip(asked)}"
    if outputs:
        text += f" The last tool answered: {clip(outputs[-1])}"
    found: Payload = _Filler(schema.get("$defs") or {}, text, answered).value(schema)
    return found


class _Filler:
    """Maker of values of one schema."""

    def __init__(self, definitions: Mapping[str, Any], text: str, answered: bool) -> None:
        self._definitions, self._text, self._answered = definitions, text, answered

    def value(self, node: Mapping[str, Any]) -> Any:
        if "$ref" in node:
            return self.value(self._definitions[str(node["$ref"]).rpartition("/")[2]])
        if "anyOf" in node:
            return self.value(self._branch(node["anyOf"]))
        if "enum" in node:
            reserved = (one for one in node["enum"] if str(one).lower() in _RESERVED)
            return next(reserved, node["enum"][0])
        kinds = node.get("type")
        kind = ("null" if "null" in kinds else kinds[0]) if isinstance(kinds, list) else kinds
        if kind == "object":
            return {name: self.value(one) for name, one in node.get("properties", {}).items()}
        if kind == "array":
            return [self.value(node["items"])] * int(node.get("minItems", 0))
        if kind in ("integer", "number"):
            return node.get("minimum", 0)
        return {"string": self._text, "boolean": False}.get(str(kind))

    def _branch(self, branches: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
        """Return the branch to take: null, the final answer after a tool's, else the one that calls; the first of any
        others."""
        for one in branches:
            if one.get("type") == "null":
                return one
        calls = [one for one in branches if "tool_calls" in one.get("properties", {})]
        rest = [one for one in branches if one not in calls]
        return (calls or rest)[0] if not self._answered else (rest or calls)[0]
