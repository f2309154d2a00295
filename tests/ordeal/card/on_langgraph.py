"""The loop on LangGraph with its checkpointer for PostgreSQL, as its pages have it. A restart is the same command."""

import os

from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from langgraph.checkpoint.postgres import PostgresSaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition

from tests.ordeal.card.material import text


@tool
def look(number: int) -> str:
    """Return a part of the material."""
    return text(number)


model = ChatOpenAI(model="gpt-5.5").bind_tools([look])
builder = StateGraph(MessagesState)
builder.add_node("model", lambda state: {"messages": [model.invoke(state["messages"])]})
builder.add_node("tools", ToolNode([look]))
builder.add_edge(START, "model")
builder.add_conditional_edges("model", tools_condition)
builder.add_edge("tools", "model")
config = {"configurable": {"thread_id": "card"}, "recursion_limit": 500}
with PostgresSaver.from_conn_string(os.environ["DATABASE"]) as saver:
    saver.setup()
    graph = builder.compile(checkpointer=saver)
    given = None if graph.get_state(config).next else {"messages": [("user", "Begin.")]}
    graph.invoke(given, config, durability="sync")
