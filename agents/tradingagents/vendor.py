"""The data vendor `desk` in TradingAgents' registry of vendors, and the desk's answers in place of what TradingAgents
fetches around them.

Its registry and its functions are of the whole process; which market they answer from is of the context, so that many
graphs can run side by side. Nothing else of it reaches a network: where a place that fetches is not as it was in the
tested version, it is refused.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from importlib import import_module
from typing import Any, NoReturn

from chordesk.agents.tradingagents.data import DeskData
from chordesk.agents.tradingagents.project import PACKAGE, TESTED, Project, find_project
from chordesk.agents.tradingagents.provider import NAME as PROVIDER
from chordesk.agents.tradingagents.provider import Options, enter
from chordesk.models.errors import MarketError, UsageError

VENDOR = "desk"
_current: ContextVar[DeskData | None] = ContextVar("tradingagents_data", default=None)
_lock = threading.Lock()
# Names by which its modules reach a network. What is not replaced below is closed by these.
_FETCHERS = ("yf", "requests", "urlopen", "httpx", "aiohttp")
_UTILS = f"{PACKAGE}.agents.utils"
_FLOWS = f"{PACKAGE}.dataflows"
_GRAPH = f"{PACKAGE}.graph.trading_graph"


@contextmanager
def answering(data: DeskData) -> Iterator[None]:
    """Let the graphs of this context have their data from here until the block ends."""
    token = _current.set(data)
    try:
        yield
    finally:
        _current.reset(token)


def data_here() -> DeskData:
    """Return the data of this context. Raises UsageError outside of a graph of the desk."""
    if (found := _current.get()) is None:
        raise UsageError("the data vendor `desk` answers within a run alone", remedy="start it by `desk tradingagents`")
    return found


def install(options: Options) -> Project:
    """Register the provider and the vendor in this process and close what fetches around them; once, however often it
    is asked for. Raises UsageError where TradingAgents is not there or not as it was in the tested version."""
    with _lock:
        found = sys.modules.get(f"{_FLOWS}.interface")
        if found is not None and VENDOR in next(iter(getattr(found, "VENDOR_METHODS", {"": {}}).values())):
            return find_project()
        project = enter(options)
        _replace(project)
        _close()
        return project


def config_of(model: str, depth: int, home: str) -> dict[str, Any]:
    """Return the configuration of a graph. No graph keeps a memory log of its own: the desk's database has it."""
    defaults: Mapping[str, Any] = import_module(f"{PACKAGE}.default_config").DEFAULT_CONFIG
    return {
        **defaults,
        "llm_provider": PROVIDER,
        "deep_think_llm": model,
        "quick_think_llm": model,
        "backend_url": None,
        "temperature": None,
        "checkpoint_enabled": False,
        "max_debate_rounds": depth,
        "max_risk_discuss_rounds": depth,
        "memory_log_path": None,
        "data_cache_dir": f"{home}/tradingagents/cache",
        "results_dir": f"{home}/tradingagents/results",
        "data_vendors": dict.fromkeys(defaults["data_vendors"], VENDOR),
        "tool_vendors": {},
    }


def _replace(project: Project) -> None:
    """Put the desk's answers in their places. Raises UsageError for a place that is not there."""
    places = [(_module(project, name), place, made) for name, place, made in _REPLACED]
    graph = _module(project, _GRAPH).TradingAgentsGraph
    vendors = _of(project, _module(project, f"{_FLOWS}.interface"), "VENDOR_METHODS")
    for module, place, _ in places:
        _of(project, module, place)
    _of(project, graph, "_fetch_returns")
    configure = _of(project, _module(project, f"{_FLOWS}.config"), "set_config")
    for method, by_vendor in vendors.items():
        by_vendor[VENDOR] = partial(_answer, method)
    configure({"data_vendors": dict.fromkeys(_defaults()["data_vendors"], VENDOR), "tool_vendors": {}})
    for module, place, made in places:
        setattr(module, place, made)
    graph._fetch_returns = _no_returns


def _defaults() -> Mapping[str, Any]:
    found: Mapping[str, Any] = import_module(f"{PACKAGE}.default_config").DEFAULT_CONFIG
    return found


def _answer(method: str, *given: Any, **named: Any) -> str:
    return data_here().answer(method, *given, **named)


def _snapshot(symbol: str, curr_date: str, look_back_days: int = 30, *_: Any) -> str:
    return data_here().answer("get_snapshot", symbol, curr_date, look_back_days)


def _identity(ticker: str) -> dict[str, str]:
    return data_here().identity(ticker)


def _no_posts(source: str) -> Callable[..., str]:
    return lambda *_given, **_named: f"<{source} unavailable: the desk has no posts of it. Say so; make none up.>"


def _no_returns(*_given: Any, **_named: Any) -> tuple[None, None, None]:
    """Return that no outcome is known: the desk takes its outcomes from its own market."""
    return None, None, None


def _no_prices(*_given: Any, **_named: Any) -> NoReturn:
    raise MarketError("TradingAgents' own prices are off: the desk's vendor has those of the run's market")


def _configured(_config: Any) -> None:
    """Leave the configuration of the process as it is: all graphs share it, and threads read it at any time."""


# Module, name, and what stands there instead.
_REPLACED: tuple[tuple[str, str, Callable[..., Any]], ...] = (
    (_GRAPH, "set_config", _configured),
    (_GRAPH, "resolve_instrument_identity", _identity),
    (f"{_UTILS}.agent_utils", "resolve_instrument_identity", _identity),
    (f"{_UTILS}.market_data_validation_tools", "build_verified_market_snapshot", _snapshot),
    (f"{_FLOWS}.stockstats_utils", "load_ohlcv", _no_prices),
    (f"{_FLOWS}.market_data_validator", "load_ohlcv", _no_prices),
    (f"{PACKAGE}.agents.analysts.sentiment_analyst", "fetch_stocktwits_messages", _no_posts("StockTwits")),
    (f"{PACKAGE}.agents.analysts.sentiment_analyst", "fetch_reddit_posts", _no_posts("Reddit")),
)


def _module(project: Project, name: str) -> Any:
    try:
        return import_module(name)
    except (ImportError, ValueError) as error:  # the second: its own variables, which it reads when it is loaded
        if isinstance(error, ModuleNotFoundError) and error.name is not None and name.startswith(error.name):
            raise _other(project, name) from None
        remedy = "install it with all it needs where the workers are, and look at the variables TRADINGAGENTS_*"
        raise UsageError(f"TradingAgents does not load: {error}", remedy=remedy) from error


def _of(project: Project, owner: Any, name: str) -> Any:
    try:
        return getattr(owner, name)
    except AttributeError:
        raise _other(project, f"{owner.__name__}.{name}") from None


def _other(project: Project, what: str) -> UsageError:
    problem = f"TradingAgents of {project.root} has no {what}: what it fetches past the desk's market is not known"
    return UsageError(problem, remedy=f"install {TESTED}, with which the desk was tested")


class _Closed:
    """Stand-in of a library or function that fetches: each use raises."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> NoReturn:
        raise MarketError(f"TradingAgents reaches for {self._name}.{name} past the desk's market, which is off")

    def __call__(self, *_given: Any, **_named: Any) -> NoReturn:
        raise MarketError(f"TradingAgents reaches for {self._name} past the desk's market, which is off")


def _close() -> None:
    """Close the names by which the loaded modules of TradingAgents fetch."""
    for name, module in list(sys.modules.items()):
        if name == PACKAGE or name.startswith(f"{PACKAGE}."):
            for fetcher in _FETCHERS:
                if fetcher in vars(module):
                    setattr(module, fetcher, _Closed(fetcher))
