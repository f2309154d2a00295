"""Its graph: analysts with their tools, a debate, a manager, a trader, a debate on risk and the decision."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Annotated, Any, Literal, TypedDict

from langchain_core.messages import AnyMessage, HumanMessage, RemoveMessage
from langchain_core.prompts import ChatPromptTemplate, MessagesPlaceholder
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import add_messages
from langgraph.prebuilt import ToolNode
from pydantic import BaseModel

from tradingagents.agents.analysts.sentiment_analyst import sentiment_analyst
from tradingagents.agents.utils.agent_utils import (
    get_balance_sheet,
    get_fundamentals,
    get_global_news,
    get_indicators,
    get_macro_indicators,
    get_news,
    get_prediction_markets,
    get_stock_data,
    resolve_instrument_identity,
)
from tradingagents.agents.utils.market_data_validation_tools import get_verified_market_snapshot
from tradingagents.dataflows.config import set_config
from tradingagents.dataflows.live import fetch
from tradingagents.llm_clients.openai_client import OpenAIClient

TOOLS = {
    "market": [get_stock_data, get_indicators, get_verified_market_snapshot],
    "news": [get_news, get_global_news, get_macro_indicators, get_prediction_markets],
    "fundamentals": [get_fundamentals, get_balance_sheet],
}
PROMPT = ChatPromptTemplate.from_messages(
    [("system", "You are the {role} analyst. {context} It is '{day}'."), MessagesPlaceholder("messages")]
)


class State(TypedDict):
    """What the nodes share."""

    messages: Annotated[list[AnyMessage], add_messages]
    company_of_interest: str
    instrument_context: str
    trade_date: str
    past_context: str
    market_report: str
    sentiment_report: str
    news_report: str
    fundamentals_report: str
    investment_debate_state: dict[str, str]
    investment_plan: str
    trader_investment_plan: str
    risk_debate_state: dict[str, str]
    final_trade_decision: str


class Plan(BaseModel):
    """Answer of the deciding agents."""

    rating: Literal["Buy", "Overweight", "Hold", "Underweight", "Sell"]
    reason: str
    target: float | None = None


class Mood(BaseModel):
    """Answer of the sentiment analyst."""

    band: Literal["Bullish", "Bearish"]
    narrative: str


def _ask(model: Any, schema: type[BaseModel], prompt: Any, label: str = "Rating") -> str:
    """Return a structured answer as text, or what the model writes freely where that fails."""
    try:
        found = model.with_structured_output(schema).invoke(prompt)
    except Exception:
        return str(model.invoke(prompt).content)
    first, second, *_ = found.model_dump().values()
    return f"**{label}**: {first}\n\n**Executive Summary**: {second}"


class Reflector:
    """What it makes of outcomes."""

    def __init__(self, quick: Any) -> None:
        self.quick = quick

    def reflect_on_final_decision(
        self, final_decision: str, raw_return: float, alpha_return: float, benchmark_name: str
    ) -> str:
        asked = [
            ("system", "Reflect."),
            ("human", f"{raw_return:+.1%} {alpha_return:+.1%} {benchmark_name}\n{final_decision}"),
        ]
        return str(self.quick.invoke(asked).content)


class Propagator:
    """The state that a graph begins with."""

    def create_initial_state(
        self, company_name: str, trade_date: str, asset_type: str, past_context: str, instrument_context: str
    ) -> dict[str, Any]:
        return {
            "messages": [("human", company_name)],
            "company_of_interest": company_name,
            "instrument_context": f"{asset_type}: {instrument_context}",
            "trade_date": trade_date,
            "past_context": past_context,
            "investment_debate_state": {},
            "risk_debate_state": {},
        }


class TradingAgentsGraph:
    """A graph of one configuration."""

    def __init__(self, selected_analysts: Sequence[str] = ("market",), config: dict[str, Any] | None = None) -> None:
        self.config = config or {}
        set_config(self.config)
        for folder in ("data_cache_dir", "results_dir"):
            os.makedirs(self.config[folder], exist_ok=True)
        self.quick, self.deep = (self._model(name) for name in ("quick_think_llm", "deep_think_llm"))
        self.propagator, self.reflector = Propagator(), Reflector(self.quick)
        self.workflow = self._workflow(selected_analysts)
        self.graph = self.workflow.compile()

    def resolve_instrument_context(self, ticker: str) -> str:
        return f"The instrument is '{ticker}': {resolve_instrument_identity(ticker)}."

    def _fetch_returns(self, ticker: str, trade_date: str) -> tuple[float | None, float | None, int | None]:
        return float(fetch("returns", ticker, trade_date)), None, None

    def _model(self, name: str) -> Any:
        return OpenAIClient(self.config[name], self.config["backend_url"], self.config["llm_provider"]).get_llm()

    def _workflow(self, analysts: Sequence[str]) -> StateGraph:
        flow, names = StateGraph(State), list[str]()
        for key in analysts:
            name = "Sentiment Analyst" if key == "social" else f"{key.title()} Analyst"
            clear = f"Msg Clear {key.title()}"
            flow.add_node(clear, _clear)
            names += [name, clear]
            if key == "social":
                flow.add_node(name, sentiment_analyst(self.quick, _ask, Mood))
                flow.add_edge(name, clear)
                continue
            flow.add_node(name, self._analyst(key))
            flow.add_node(f"tools_{key}", ToolNode(TOOLS[key]))
            flow.add_edge(f"tools_{key}", name)
            flow.add_conditional_edges(name, _route(key, clear), [f"tools_{key}", clear])
        for name, node in self._deciders():
            flow.add_node(name, node)
            names.append(name)
        for before, after in pairwise([START, *names, END]):
            if not before.endswith("Analyst") or before.split()[0] in ("Aggressive", "Conservative", "Neutral"):
                flow.add_edge(before, after)
        return flow

    def _analyst(self, key: str) -> Callable[[State], dict[str, Any]]:
        def node(state: State) -> dict[str, Any]:
            prompt = PROMPT.partial(role=key, context=state["instrument_context"], day=state["trade_date"])
            answer = (prompt | self.quick.bind_tools(TOOLS[key])).invoke(state["messages"])
            return {"messages": [answer], f"{key}_report": "" if answer.tool_calls else str(answer.content)}

        return node

    def _deciders(self) -> list[tuple[str, Callable[[State], dict[str, Any]]]]:
        def argues(side: str, place: str) -> Callable[[State], dict[str, Any]]:
            def node(state: State) -> dict[str, Any]:
                text = self.quick.invoke(f"As {side}: argue on '{state['company_of_interest']}'").content
                held: dict[str, str] = state[place]  # type: ignore[literal-required]
                return {place: {**held, side: f"{text}"}}

            return node

        def manager(state: State) -> dict[str, Any]:
            plan = _ask(self.deep, Plan, f"Judge the debate on '{state['company_of_interest']}'", "Recommendation")
            held = state["investment_debate_state"]
            ends = {"bull_history": held["bull"], "bear_history": held["bear"], "judge_decision": plan}
            return {"investment_plan": plan, "investment_debate_state": {**held, **ends}}

        def trader(state: State) -> dict[str, Any]:
            asked = [{"role": "system", "content": "You trade."}, {"role": "user", "content": state["investment_plan"]}]
            return {"trader_investment_plan": _ask(self.quick, Plan, asked, "Action")}

        def portfolio(state: State) -> dict[str, Any]:
            past = state["past_context"]
            text = _ask(self.deep, Plan, f"Decide on '{state['company_of_interest']}'.\n{past}")
            held = state["risk_debate_state"]
            ends = {f"current_{side}_response": held[side] for side in ("aggressive", "conservative", "neutral")}
            return {"final_trade_decision": text, "risk_debate_state": {**ends, "judge_decision": text}}

        return [
            ("Bull Researcher", argues("bull", "investment_debate_state")),
            ("Bear Researcher", argues("bear", "investment_debate_state")),
            ("Research Manager", manager),
            ("Trader", trader),
            ("Aggressive Analyst", argues("aggressive", "risk_debate_state")),
            ("Conservative Analyst", argues("conservative", "risk_debate_state")),
            ("Neutral Analyst", argues("neutral", "risk_debate_state")),
            ("Portfolio Manager", portfolio),
        ]


def _clear(state: State) -> dict[str, Any]:
    removed = [RemoveMessage(id=str(one.id)) for one in state["messages"]]
    return {
        "messages": [*removed, HumanMessage(f"Proceed. {state['instrument_context']} It is '{state['trade_date']}'.")]
    }


def _route(key: str, clear: str) -> Callable[[State], str]:
    return lambda state: f"tools_{key}" if getattr(state["messages"][-1], "tool_calls", None) else clear
