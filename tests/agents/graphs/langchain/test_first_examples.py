"""The first examples of LangChain's and LangGraph's documents, with nothing changed but the model's string."""

from __future__ import annotations

import importlib
import json
import operator
import re
from collections.abc import Iterator
from typing import Annotated, Any, Literal, TypedDict

import pytest
from langchain.agents import create_agent
from langchain.chat_models import init_chat_model
from langchain.messages import AnyMessage, HumanMessage, SystemMessage, ToolMessage
from langchain.tools import tool
from langgraph.graph import END, START, MessagesState, StateGraph
from pydantic import BaseModel

from chordesk.langchain import close_bridges, register
from tests.fakes.chat import FakeChat, answer
from tests.fakes.obedient import fill
from tests.parts import of_feature
from tests.stack import REPOSITORY

served = of_feature("tests.agents.litellm.kit:served")

pytestmark = pytest.mark.process
MODEL = "codex:openai:gpt-5.5"


class State(TypedDict):
    """Messages, and how often the model was called."""

    messages: Annotated[list[AnyMessage], operator.add]
    llm_calls: int


@pytest.fixture(autouse=True)
def model(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeChat]:
    """A stand-in that calls the first tool once, and then answers."""
    register()
    with served(monkeypatch) as found:
        found.policy = lambda body: answer(_reply(dict(body)))
        yield found
    close_bridges()


def _reply(body: dict[str, Any]) -> Any:
    (asked,) = body["tools"]
    schema = asked["function"]["parameters"]
    text = " ".join(str(one["content"]) for one in body["messages"] if one["role"] == "user")
    return fill(schema, text, schema, final=body["messages"][-1]["role"] == "tool")


def test_langgraph_json_of_the_page_names_graphs_that_compile(monkeypatch: pytest.MonkeyPatch) -> None:
    """LangGraph's server builds a graph on its event loop, where it refuses to read files: settings come later."""
    page = (REPOSITORY / "docs" / "langchain.md").read_text(encoding="utf-8")
    (block,) = [one for one in re.findall(r"```json\n(.*?)```", page, re.DOTALL) if '"graphs"' in one]
    monkeypatch.setenv("DESK_MARKET", "none: settings that are read raise")
    found = json.loads(block)
    assert found["dependencies"]
    for path in found["graphs"].values():
        module, _, factory = path.partition(":")  # as LangGraph's server reads one without a slash
        assert getattr(importlib.import_module(module), factory)().compile().get_graph().nodes


def test_the_first_agent_of_langchain() -> None:
    def get_weather(city: str) -> str:
        """Get weather for a given city."""
        return f"It's always sunny in {city}!"

    agent = create_agent(model=MODEL, tools=[get_weather], system_prompt="You are a helpful assistant")
    said = agent.invoke({"messages": [{"role": "user", "content": "what is the weather in 'sf'"}]})["messages"]
    assert [one.type for one in said] == ["human", "ai", "tool", "ai"]
    assert said[2].content == "It's always sunny in sf!"
    assert said[3].content


def test_the_first_structured_answer_of_langchain() -> None:
    class ContactInfo(BaseModel):
        """Contact information of a person."""

        name: str
        email: str

    agent = create_agent(model=MODEL, tools=[], response_format=ContactInfo)
    found = agent.invoke({"messages": [{"role": "user", "content": "Extract contact info from: 'John Doe'"}]})
    assert found["structured_response"] == ContactInfo(name="John Doe", email="John Doe")


def test_the_first_graph_of_langgraph() -> None:
    def mock_llm(state: MessagesState) -> dict[str, Any]:
        return {"messages": [init_chat_model(MODEL).invoke(state["messages"])]}

    graph = StateGraph(MessagesState)
    graph.add_node(mock_llm)
    graph.add_edge(START, "mock_llm")
    graph.add_edge("mock_llm", END)
    found = graph.compile().invoke({"messages": [{"role": "user", "content": "hi 'there'"}]})
    assert found["messages"][-1].content == "there"


def test_the_quickstart_of_langgraph() -> None:
    @tool
    def multiply(a: int, b: int) -> int:
        """Multiply `a` and `b`."""
        return a * b

    with pytest.warns(UserWarning, match="temperature"):
        model_with_tools = init_chat_model(MODEL, temperature=0).bind_tools([multiply])

    def llm_call(state: dict[str, Any]) -> dict[str, Any]:
        system = SystemMessage(content="You are a helpful assistant tasked with performing arithmetic.")
        asked = model_with_tools.invoke([system, *state["messages"]])
        return {"messages": [asked], "llm_calls": state.get("llm_calls", 0) + 1}

    def tool_node(state: dict[str, Any]) -> dict[str, Any]:
        calls = state["messages"][-1].tool_calls
        return {
            "messages": [
                ToolMessage(content=str(multiply.invoke(one["args"])), tool_call_id=one["id"]) for one in calls
            ]
        }

    def should_continue(state: State) -> Literal["tool_node", "__end__"]:
        return "tool_node" if state["messages"][-1].tool_calls else END

    builder = StateGraph(State)
    builder.add_node("llm_call", llm_call)
    builder.add_node("tool_node", tool_node)
    builder.add_edge(START, "llm_call")
    builder.add_conditional_edges("llm_call", should_continue, ["tool_node", END])
    builder.add_edge("tool_node", "llm_call")
    found = builder.compile().invoke({"messages": [HumanMessage(content="Multiply 3 by itself.")]})
    assert [one.type for one in found["messages"]] == ["human", "ai", "tool", "ai"]
    assert json.loads(found["messages"][2].content) == 9
    assert found["llm_calls"] == 2
