"""The loop as a graph of the desk: `desk graph tests.ordeal.card.on_desk:build`."""

from __future__ import annotations

from typing import Any

from langchain_core.tools import tool
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition

from chordesk.langchain import ChatCodex
from tests.ordeal.card.material import text


@tool
def look(number: int) -> str:
    """Return a part of the material."""
    return text(number)


def build() -> StateGraph[Any, Any, Any, Any]:
    model = ChatCodex(model="gpt-5.5").bind_tools([look])
    graph = StateGraph(MessagesState)
    graph.add_node("model", lambda state: {"messages": [model.invoke(state["messages"])]})
    graph.add_node("tools", ToolNode([look]))
    graph.add_edge(START, "model")
    graph.add_conditional_edges("model", tools_condition)
    graph.add_edge("tools", "model")
    return graph
