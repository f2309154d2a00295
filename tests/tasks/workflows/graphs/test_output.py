"""What a graph came to, as JSON; a value that JSON cannot hold is named with its place."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from pydantic import BaseModel

from chordesk.models.errors import GraphState
from chordesk.models.states import RunKind
from chordesk.tasks.workflows.graphs.chapters import MOST_BYTES, json_output


class Answer(BaseModel):
    """A structured answer."""

    at: dt.date
    scores: tuple[float, ...]


@dataclass
class Note:
    """A dataclass of a state."""

    text: str
    kind: RunKind


def test_messages_models_and_dataclasses_are_plain_in_it() -> None:
    calls = [{"name": "get", "args": {"n": 1}, "id": "c", "type": "tool_call"}]
    given = {
        "messages": [
            HumanMessage("hi\x00"),
            AIMessage("", tool_calls=calls),
            ToolMessage("1", tool_call_id="c", name="get"),
        ],
        "answer": Answer(at=dt.date(2026, 1, 2), scores=(0.5, 1)),
        "note": Note("n", RunKind.GRAPH),
        "none": None,
    }
    assert json_output(given) == {
        "messages": [
            {"type": "human", "content": "hi"},
            {"type": "ai", "content": "", "tool_calls": calls},
            {"type": "tool", "content": "1", "name": "get"},
        ],
        "answer": {"at": "2026-01-02", "scores": [0.5, 1.0]},
        "note": {"text": "n", "kind": "graph"},
        "none": None,
    }


def looped() -> list[Any]:
    found: list[Any] = []
    found.append(found)
    return found


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"a": [1, {2}]}, "the output.a[1] is of type set"),
        ({"a": b"x"}, "the output.a is of type bytes"),
        ({"a": float("nan")}, "the output.a is nan"),
        ({"a": 2**70}, "the output.a has more than 64 bits"),
        ({"a": {1: 2}}, "the output.a has the key 1"),
        ({"a": looped()}, "nested more than 60 deep"),
        ({"a": "x" * MOST_BYTES}, "bytes as JSON, more than 4,000,000"),
    ],
)
def test_a_value_that_json_cannot_hold_is_named(given: Any, named: str) -> None:
    with pytest.raises(GraphState) as caught:
        json_output(given)
    assert named in caught.value.args[0]
