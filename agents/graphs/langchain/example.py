"""A small graph to begin with: figures of a symbol, an argument for it and one against it side by side, and a rating.

`desk graph chordesk.agents.graphs.langchain.example:build --input '{"symbol": "IBM"}'`
"""

from __future__ import annotations

from typing import Any, Literal, TypedDict

from langgraph.graph import END, START, StateGraph
from pydantic import BaseModel

from chordesk.agents.graphs.langchain.chat_codex import ChatCodex
from chordesk.agents.graphs.langchain.desk_tools import desk_tools
from chordesk.models.settings.sources import load_settings


class View(TypedDict, total=False):
    """What the nodes share. A graph is given `symbol` and fills in the rest."""

    symbol: str
    figures: str
    bull: str
    bear: str
    rating: dict[str, Any]


class SymbolRating(BaseModel):
    """The structured answer at the end."""

    rating: Literal["buy", "hold", "sell"]
    reason: str


def _model() -> ChatCodex:
    return ChatCodex(model=load_settings().model)


def build() -> StateGraph[Any, Any, Any, Any]:
    """Reads nothing: LangGraph's own server calls it on its event loop, where reading a file is refused."""

    def look(view: View) -> View:
        (signals,) = desk_tools(names=["signals_get"])
        return {"figures": str(signals.invoke({"symbols": [view["symbol"]]}))}

    def argue(side: Literal["bull", "bear"]) -> Any:
        def node(view: View) -> View:
            found = _model().invoke(f"Argue as a {side} on '{view['symbol']}' in three sentences, by {view['figures']}")
            return {"bull": str(found.content)} if side == "bull" else {"bear": str(found.content)}

        return node

    def judge(view: View) -> View:
        asked = f"Rate '{view['symbol']}'. For it: {view['bull']}\nAgainst it: {view['bear']}"
        found = _model().with_structured_output(SymbolRating).invoke(asked)
        return {"rating": found.model_dump()}

    graph: StateGraph[Any, Any, Any, Any] = StateGraph(View)
    nodes: dict[str, Any] = {"look": look, "bull": argue("bull"), "bear": argue("bear"), "judge": judge}
    for name, node in nodes.items():
        graph.add_node(name, node)
    graph.add_edge(START, "look")
    for side in ("bull", "bear"):
        graph.add_edge("look", side)
        graph.add_edge(side, "judge")
    graph.add_edge("judge", END)
    return graph
