"""Its pattern of calls: an analyst with a tool, a debate in prose, and a decision with a second call in free text."""

from __future__ import annotations

import os
from typing import Annotated, Any, TypedDict

from langchain_core.prompts import ChatPromptTemplate, MessagesPlaceholder
from langchain_core.tools import tool
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import add_messages
from langgraph.prebuilt import ToolNode
from pydantic import BaseModel

from tradingagents.llm_clients.openai_client import OpenAIClient


class Decision(BaseModel):
    """Answer of the manager."""

    rating: str
    reason: str


class State(TypedDict):
    """What the nodes share."""

    messages: Annotated[list[Any], add_messages]
    report: str
    debate: str
    decision: str


@tool
def get_stock_data(symbol: str) -> str:
    """Return prices of a symbol."""
    return f"{symbol}: 10, 11, 12"


def model(variable: str) -> Any:
    name, url = os.environ[variable], os.environ.get("TRADINGAGENTS_LLM_BACKEND_URL")
    return OpenAIClient(name, url, provider=os.environ["TRADINGAGENTS_LLM_PROVIDER"], temperature=0.2).get_llm()


def structured_or_free_text(model: Any, prompt: Any) -> str:
    try:
        return str(model.with_structured_output(Decision).invoke(prompt).rating)
    except Exception:
        return str(model.invoke(prompt).content)


def graph(quick: Any, deep: Any) -> Any:
    """Return the compiled graph."""
    prompt = ChatPromptTemplate.from_messages([("system", "You analyse."), MessagesPlaceholder("messages")])

    def analyst(state: State) -> dict[str, Any]:
        result = (prompt | quick.bind_tools([get_stock_data])).invoke(state["messages"])
        return {"messages": [result], "report": "" if result.tool_calls else result.content}

    def bull(state: State) -> dict[str, Any]:
        return {"debate": quick.invoke(f"Argue for it: {state['report']}").content}

    def manager(state: State) -> dict[str, Any]:
        prompt = [{"role": "system", "content": "Decide."}, {"role": "user", "content": state["debate"]}]
        return {"decision": structured_or_free_text(deep, prompt)}

    flow = StateGraph(State)
    for name, node in (("analyst", analyst), ("bull", bull), ("manager", manager)):
        flow.add_node(name, node)
    flow.add_node("tools", ToolNode([get_stock_data]))
    flow.add_edge(START, "analyst")
    flow.add_conditional_edges("analyst", lambda state: "tools" if state["messages"][-1].tool_calls else "bull")
    flow.add_edge("tools", "analyst")
    flow.add_edge("bull", "manager")
    flow.add_edge("manager", END)
    return flow.compile()


def play(symbol: str) -> str:
    """Return the decision about a symbol."""
    found = graph(model("TRADINGAGENTS_QUICK_THINK_LLM"), model("TRADINGAGENTS_DEEP_THINK_LLM"))
    return str(found.invoke({"messages": [("user", f"Analyse '{symbol}'")]})["decision"])
