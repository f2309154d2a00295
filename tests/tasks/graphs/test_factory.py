"""A factory that gives no graph and an output that is no JSON: clear errors, with a remedy and a place."""

from __future__ import annotations

import datetime as dt
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from pydantic import BaseModel

from chordesk.models.errors import GraphState, UsageError
from chordesk.models.settings import Settings
from chordesk.models.states import RunKind
from chordesk.tasks.bootstrap import Desk
from chordesk.tasks.engine import requests
from chordesk.tasks.graphs.chapters import MOST_BYTES, json_output
from chordesk.tasks.graphs.graph_factory import load_graph
from chordesk.tasks.worker.messages import DeskApp
from chordesk.tasks.workflows.runs import planned

MODULE = "tests.toy.graphs"


LISTED = (MODULE, "no_such_module_here", "tests.toy.checkout")


@pytest.mark.parametrize(
    ("factory", "named"),
    [
        ("nonsense", "'nonsense' is no MODULE:FACTORY"),
        (":build", "':build' is no MODULE:FACTORY"),
        ("a b:build", "'a b:build' is no MODULE:FACTORY"),
        ("os:getcwd", "the module os is not listed in DESK_GRAPHS"),
        ("no_such_module_here:build", "the module no_such_module_here does not import: ModuleNotFoundError"),
        (f"{MODULE}:absent", "the module has no such name"),
        (f"{MODULE}:no_graph", "returns no graph but int"),
        (f"{MODULE}:broken", "raised RuntimeError: no key"),
        (f"{MODULE}:dangling", "does not compile: "),
        (f"{MODULE}:MODEL", "returns no graph but str"),
    ],
)
def test_a_factory_without_a_graph_is_named(factory: str, named: str) -> None:
    with pytest.raises(UsageError) as caught:
        load_graph(factory, LISTED)
    assert named in caught.value.args[0]
    assert caught.value.remedy


def test_a_module_of_the_current_folder_is_found_after_all_packages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "from tests.toy.graphs import endless as build\ngraph = build().compile()\n"
    (tmp_path / "own_graphs_of_a_test.py").write_text(text, encoding="utf-8")
    (tmp_path / "orjson.py").write_text("raise ValueError", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    for name in ("build", "graph"):
        assert "again" in load_graph(f"own_graphs_of_a_test:{name}", ("own_graphs_of_a_test",)).nodes


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


def test_the_schedule_starts_a_graph_that_is_listed(tmp_path: Path) -> None:
    app = DeskApp("planned", broker="memory://", set_as_current=False)
    app.desk = Desk(Settings(home=tmp_path, graphs=("tests.toy.graphs",)), "cli")
    given = requests.from_texts("graph", ["factory=tests.toy.graphs:answers", 'inputs={"one": {"question": "?"}}'])
    run = planned(app, requests.made("graph", given, "schedule nightly"))
    assert (run.kind, run.params) == ("graph", given)
    for factory, inputs, says in (("os:system", {"a": {}}, "not listed"), ("tests.toy.graphs:answers", {}, "inputs")):
        with pytest.raises(UsageError, match=says):
            planned(app, requests.made("graph", {"factory": factory, "inputs": inputs}, "schedule nightly"))
