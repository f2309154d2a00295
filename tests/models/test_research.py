"""The schema that goes to the model, and the symbols that come back."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from pydantic import BaseModel, ValidationError

from chordesk.models.analysis import ValidatorOutput
from chordesk.models.answers import ScreenOutput, TraderAction, TraderOutput, bounded_schema, output_schema

# What strict json_schema takes.
KEYWORDS = {
    *("type", "enum", "const", "description", "anyOf", "items", "pattern"),
    *("properties", "required", "additionalProperties"),
}
ACTION: dict[str, Any] = {
    "symbol": "IBM", "action": "hold", "side": None, "quantity": None, "notional": None, "orderType": None,
    "limitPrice": None, "confidence": "low", "reasoning": "",
}  # fmt: skip


def _nodes(node: Any) -> Iterator[dict[str, Any]]:
    """The schema and all that lie in it; the names of properties are not keywords."""
    if isinstance(node, list):
        for item in node:
            yield from _nodes(item)
    elif isinstance(node, dict):
        yield node
        for key, value in node.items():
            yield from _nodes(list(value.values()) if key == "properties" else value)


@pytest.mark.parametrize("model", [ScreenOutput, ValidatorOutput, TraderOutput])
def test_a_schema_keeps_to_what_strict_mode_takes(model: type[BaseModel]) -> None:
    for node in _nodes(output_schema(model)):
        assert set(node) <= KEYWORDS
        if node.get("type") == "object":
            assert node["required"] == list(node["properties"])
            assert node["additionalProperties"] is False
        # No look-around and no classes of letters by name: a decoder compiles it into a grammar.
        assert not re.search(r"\(\?|\\", node.get("pattern", ""))


def test_the_schema_describes_a_symbol() -> None:
    pattern = output_schema(TraderOutput)["properties"]["actions"]["items"]["properties"]["symbol"]["pattern"]
    assert all(re.search(pattern, symbol) for symbol in ("A", "BRK.B", "BF-B", "0700.HK", "M&M.NS", "A" * 20))
    assert not any(re.search(pattern, text) for text in ("the best of them", "..", "A\x1b[31m", "aapl", "A" * 21))


@pytest.mark.parametrize("symbol", ["A\x1b[31m", "buy IBM", "", "..", "A\nB", "\u202eMBI", "A" * 21, None, 7])
def test_an_action_needs_a_valid_symbol(symbol: Any) -> None:
    with pytest.raises(ValidationError, match="symbol"):
        TraderAction.model_validate({**ACTION, "symbol": symbol})


def test_a_symbol_may_be_written_small() -> None:
    assert TraderAction.model_validate({**ACTION, "symbol": " brk.b\n"}).symbol == "BRK.B"


def test_the_bounded_schema_says_all_that_a_server_may_enforce() -> None:
    """With what the subject knows; the schema that goes to hosted providers stays as it is."""
    known = {"symbols": ["IBM", "GE"], "candidates": 6, "cites": "abcd"}
    found = bounded_schema(ScreenOutput, known)["properties"]["candidates"]
    symbol = found["items"]["properties"]["symbol"]
    assert (found["maxItems"], symbol["choices"], symbol["maxLength"]) == (6, ["IBM", "GE"], 21)
    unknown = bounded_schema(ScreenOutput, {})["properties"]["candidates"]
    assert not {"choices", "maxItems"} & {*unknown, *unknown["items"]["properties"]["symbol"]}
    thesis = bounded_schema(ValidatorOutput, known)["properties"]["thesis"]["properties"]
    assert thesis["pointsFor"]["items"]["properties"]["source"]["choices"] == "abcd"
    assert (thesis["pointsFor"]["maxItems"], thesis["probability"]["maximum"]) == (3, 1)
    assert set(output_schema(ScreenOutput)["properties"]["candidates"]["items"]["properties"]["symbol"]) == {"type"}
