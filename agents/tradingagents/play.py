"""One graph of TradingAgents on one ticker, with the desk's model and data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from chordesk.agents.tradingagents.project import PACKAGE
from chordesk.agents.tradingagents.provider import Options
from chordesk.agents.tradingagents.vendor import config_of, install
from chordesk.models.settings import Settings


@dataclass(frozen=True, slots=True)
class TickerGraph:
    """A graph of its own: nothing of it is shared with another ticker's but the registries of the process."""

    ticker: str
    _made: Any

    @property
    def compiled(self) -> Any:
        return self._made.graph

    def begin(self, day: str, past: str) -> dict[str, Any]:
        """Return the state that the graph begins with. past: what is known of earlier signals."""
        state: dict[str, Any] = self._made.propagator.create_initial_state(
            self.ticker,
            day,
            asset_type="stock",
            past_context=past,
            instrument_context=self._made.resolve_instrument_context(self.ticker),
        )
        return state

    def reflect(self, decision: str, raw: float, alpha: float, benchmark: str) -> str:
        """Return what the model makes of the outcome of an earlier decision. Raises ChatError."""
        return str(
            self._made.reflector.reflect_on_final_decision(
                final_decision=decision, raw_return=raw, alpha_return=alpha, benchmark_name=benchmark
            )
        )


def graph_of(ticker: str, settings: Settings, model: str, analysts: Sequence[str], depth: int) -> TickerGraph:
    """Return a graph for a ticker; its data and its calls are those of the context it runs in. Raises UsageError."""
    install(Options(settings.home, settings.turn_seconds, verbosity=settings.verbosity, summary=settings.summary))
    made = import_module(f"{PACKAGE}.graph.trading_graph").TradingAgentsGraph
    return TickerGraph(ticker, made(tuple(analysts), config=config_of(model, depth, str(settings.home))))
