"""The desk's tools in LangChain: called both ways, by hostile arguments, and by a graph whose model is ChatCodex."""

from __future__ import annotations

import asyncio
import base64
import json
import re
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import settings as limits
from hypothesis import strategies as st
from langchain_core.messages import HumanMessage, ToolMessage
from langchain_core.tools import BaseTool
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition

from chordesk.langchain import ChatCodex, close_bridges, desk_tools
from chordesk.models.errors import UsageError
from chordesk.models.settings import Settings
from tests.examples import examples
from tests.fakes.obedient import obedient
from tests.fakes.responses import FakeResponses
from tests.patience import PATIENCE
from tests.stack import REPOSITORY


@pytest.fixture(scope="module")
def tools(tmp_path_factory: pytest.TempPathFactory) -> dict[str, BaseTool]:
    settings = Settings(home=tmp_path_factory.mktemp("tools"))
    return {tool.name: tool for tool in desk_tools(settings=settings)}


def asked(tool: BaseTool, arguments: Any) -> ToolMessage:
    found = tool.invoke({"name": tool.name, "args": arguments, "id": "1", "type": "tool_call"})
    assert isinstance(found, ToolMessage)
    return found


def test_a_tool_answers_both_ways(tools: dict[str, BaseTool]) -> None:
    tool = tools["price_history_get"]
    message = asked(tool, {"symbols": ["ibm"], "sessions": 20})
    assert message.status == "success"
    assert json.loads(str(message.content)) == message.artifact
    assert json.loads(tool.invoke({"symbols": ["IBM"], "sessions": 20})) == message.artifact
    assert json.loads(asyncio.run(tool.ainvoke({"symbols": ["IBM"], "sessions": 20}))) == message.artifact

    async def within_a_loop() -> Any:
        return tool.invoke({"symbols": ["IBM"], "sessions": 20})

    assert json.loads(asyncio.run(within_a_loop())) == message.artifact


def test_a_picture_is_a_block_beside_the_json(tools: dict[str, BaseTool]) -> None:
    message = asked(tools["chart_render"], {"symbols": ["IBM"]})
    text, picture = message.content
    assert json.loads(text["text"])["charts"][0]["symbol"] == "IBM"  # type: ignore[index]
    assert base64.b64decode(picture["base64"]).startswith(b"\x89PNG")  # type: ignore[index]


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({}, "'symbols' is needed"),
        ({"symbols": ["$(rm)"]}, "a symbol is"),
        ({"symbols": ["IBM"], "self": 1, "config": {}, "run_manager": 2, "callbacks": 3}, "unknown argument 'self'"),
        ({"symbols": ["IBM"], "given": {"symbols": ["KO"]}}, "unknown argument 'given'"),
        ({"symbols": [["A"] * 9] * 999}, "at most 150"),
    ],
)
def test_wrong_arguments_are_a_message(tools: dict[str, BaseTool], arguments: dict[str, Any], named: str) -> None:
    message = asked(tools["technicals_get"], arguments)
    assert message.status == "error"
    assert named in json.loads(str(message.content))["error"]


_JSON = st.recursive(st.none() | st.booleans() | st.integers() | st.floats() | st.text(), st.lists, max_leaves=5)


@limits(max_examples=examples(60), deadline=None)
@given(
    st.sampled_from(["technicals_get", "option_chain_get", "universe_list", "news_list"]),
    st.dictionaries(st.sampled_from(["symbols", "limit", "offset", "min_dte", "args", "tool_call_id"]), _JSON),
)
def test_nothing_that_a_model_writes_is_raised(tools: dict[str, BaseTool], name: str, arguments: Any) -> None:
    message = asked(tools[name], arguments)
    assert isinstance(json.loads(str(message.content)), dict)


def test_settings_come_from_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("DESK_HOME", str(tmp_path))
    monkeypatch.setenv("DESK_REPLAY_DATE", "2010-03-10")
    (tool,) = desk_tools(names=["company_get"])
    assert asked(tool, {"symbols": ["IBM"]}).artifact["asOf"].startswith("2010-03-10")
    with pytest.raises(UsageError, match="no tool named quote"):
        desk_tools(names=["quote"])


@pytest.fixture
def model() -> Iterator[FakeResponses]:
    with FakeResponses(obedient) as far_side:
        yield far_side
    close_bridges()


@pytest.mark.process
def test_a_graph_calls_a_tool_and_goes_on_after_a_failed_one(
    tools: dict[str, BaseTool], model: FakeResponses, tmp_path: Path
) -> None:
    chat = ChatCodex(model="gpt-5.5", base_url=model.url, home=tmp_path, timeout=PATIENCE)
    found = _graph(chat, [tools["technicals_get"]]).invoke({"messages": [HumanMessage("How is 'IBM'?")]})["messages"]
    assert [message.type for message in found] == ["human", "ai", "tool", "ai"]
    assert found[2].artifact["technicals"][0]["symbol"] == "IBM"
    failed = _graph(chat, [tools["technicals_get"]]).invoke({"messages": [HumanMessage("How is '../x'?")]})["messages"]
    assert [message.type for message in failed] == ["human", "ai", "tool", "ai"]
    assert failed[2].status == "error"


def _graph(chat: ChatCodex, tools: list[BaseTool]) -> Any:
    bound = chat.bind_tools(tools)
    graph = StateGraph(MessagesState)
    graph.add_node("model", lambda state: {"messages": [bound.invoke(state["messages"])]})
    graph.add_node("tools", ToolNode(tools, handle_tool_errors=False))
    graph.add_edge(START, "model")
    graph.add_conditional_edges("model", tools_condition, {"tools": "tools", END: END})
    graph.add_edge("tools", "model")
    return graph.compile()


@pytest.mark.process
def test_the_example_of_the_page_runs(model: FakeResponses, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = (REPOSITORY / "docs" / "langchain.md").read_text(encoding="utf-8")
    (code,) = [one for one in re.findall(r"```python\n(.*?)```", page, re.DOTALL) if "desk_tools" in one]
    monkeypatch.setenv("DESK_HOME", str(tmp_path))
    chat = ChatCodex(model="gpt-5.5", base_url=model.url, home=tmp_path, timeout=PATIENCE)
    names: dict[str, Any] = {"model": chat}
    exec(textwrap.dedent(code), names)
    kinds = [message.type for message in names["answer"]["messages"]]
    assert kinds == ["human", "ai", "tool", "ai"]
    assert names["answer"]["messages"][2].artifact["asOf"].startswith("2010-03-10")
