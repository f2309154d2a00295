"""Ways in which a model gives an answer that fits a schema, the surest first.

Hosted models keep to a forced tool. Many servers take `tool_choice` and ignore it, refuse it, or have a template that
cannot say tools: their models write prose. Of those, most constrain the answer to a JSON schema.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Literal

import orjson

from chordesk.agents.litellm.library import known_parameters, provider_of
from chordesk.agents.litellm.messages import ANSWER
from chordesk.models.research import Failure

Way = Literal["forced_tool", "json_schema", "json_object", "words"]
FORMAT = "response_format"
_ABOUT_THE_WAY = re.compile(
    r"(?i)tool_choice|response_format|json_schema|json_object|grammar|schema|mime type|\btools?\b"
)


class AnswerWays:
    """The way of each model, as the calls so far have shown it; of one worker."""

    def __init__(self) -> None:
        self._found: dict[str, Way] = {}

    def of(self, model: str) -> Way:
        return self._found.get(model, "forced_tool")

    def failed(self, model: str, way: Way) -> bool:
        """Note that a model's answer did not come in this way; return whether another is left."""
        ways = _ways(model)
        rest = ways[ways.index(way) + 1 :]
        if rest and self.of(model) == way:
            self._found[model] = rest[0]
        return bool(rest)


def _ways(model: str) -> tuple[Way, ...]:
    """Return the ways to try. A model that the library does not know may take any of them."""
    known = known_parameters(model)
    if known and FORMAT not in known:
        return ("forced_tool", "words")
    return ("forced_tool", "json_schema", "json_object", "words")


def refuses_way(why: Failure) -> bool:
    """Return whether a server refused a call for the way in which it was to answer."""
    return why.kind == "bad_request" and _ABOUT_THE_WAY.search(why.message) is not None


def way_parameters(model: str, way: Way | None, schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return what makes a call answer in this way; None: it may call any tool."""
    if way is None:
        return {"tool_choice": "auto"}
    if way == "forced_tool":
        return {"tool_choice": {"type": "function", "function": {"name": ANSWER}}}
    found: dict[str, Any] = {}
    if way == "words" or provider_of(model) != "anthropic":  # there a format is a forced tool of the library's own
        found["tool_choice"] = "none"
    if way == "json_schema":
        found[FORMAT] = {"type": way, way: {"name": ANSWER, "strict": True, "schema": dict(schema)}}
    elif way == "json_object":
        found[FORMAT] = {"type": way}
    return found


def closing_words(schema: Mapping[str, Any]) -> str:
    """Return what a request for an answer as text ends with: not every server tells the model the schema."""
    text = orjson.dumps(schema).decode()
    return f"Answer now with one JSON object that fits this JSON schema, and with nothing else; call no tool:\n{text}"
