"""The desk in TradingAgents' registries, as provider `codex` and vendor `desk`, and one graph played on them."""

from __future__ import annotations

import hashlib
import sys
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar, NoReturn, get_args

import orjson
from langchain_core.messages import BaseMessage
from pydantic import PrivateAttr

from chordesk.agents.graphs.langchain.chat_codex import ChatCodex
from chordesk.agents.graphs.langchain.ephemeral_turns import (
    CallInterrupted,
    ChatCall,
    ChatError,
    LoginError,
    ModelUnavailable,
    RateLimited,
    RefusalError,
)
from chordesk.agents.graphs.tradingagents.data import DeskData
from chordesk.agents.graphs.tradingagents.project import PACKAGE, TESTED, Project, find_project
from chordesk.agents.role_models import LOCAL
from chordesk.models.errors import MarketError, UsageError
from chordesk.models.settings import Effort, Settings

NAME = "codex"
PLACEHOLDER = "EMPTY"  # key that TradingAgents sends where none is needed
CHOICES: Mapping[str, tuple[str, ...]] = {
    "effort": get_args(Effort),
    "verbosity": ("low", "medium", "high"),
    "summary": ("auto", "concise", "detailed", "none"),
}
# A call in free text would meet these again.
FINAL = (RefusalError, LoginError, ModelUnavailable, RateLimited, CallInterrupted)
MOST_HELD = 256


@dataclass(frozen=True, slots=True)
class Options:
    """The desk's part of a chat model."""

    home: Path
    seconds: float  # limit of a call
    binary: Path | None = None
    # url, key: of an endpoint or, with `local`, a model server; None for the Codex login
    url: str | None = None
    key: str | None = None
    effort: str | None = None
    verbosity: str | None = None
    summary: str | None = None
    local: bool = False

    @property
    def provider(self) -> str:
        return LOCAL if self.local else "endpoint" if self.url else "codex"


def options_of(
    settings: Settings, *, effort: str | None = None, verbosity: str | None = None, summary: str | None = None
) -> Options:
    """Raises UsageError for an invalid value. A desk on the rulebook gets the Codex login: rules cannot hold a
    debate."""
    served = settings.provider in ("endpoint", LOCAL)
    return Options(
        settings.home,
        settings.turn_seconds,
        settings.codex_binary,
        str(settings.provider_url) if served else None,
        settings.provider_key.get_secret_value() if served and settings.provider_key else None,
        _chosen("effort", effort) or settings.effort,
        _chosen("verbosity", verbosity),
        _chosen("summary", summary) or settings.summary,
        local=settings.provider == LOCAL,
    )


def _chosen(name: str, value: str | None) -> str | None:
    if value is not None and value not in CHOICES[name]:
        raise UsageError(f"{name} {value!r} is none of {', '.join(CHOICES[name])}", remedy="choose one of them")
    return value


class HeldErrors:
    """Errors of structured calls that the same messages in free text would meet again, until that call comes.

    TradingAgents asks again in free text after any failure of a structured call, and a refusal is final.
    """

    def __init__(self) -> None:
        self._errors: OrderedDict[bytes, ChatError] = OrderedDict()
        self._lock = threading.Lock()

    def hold(self, items: Sequence[Mapping[str, Any]], error: ChatError) -> None:
        with self._lock:
            self._errors[_digest(items)] = error
            if len(self._errors) > MOST_HELD:
                self._errors.popitem(last=False)

    def take(self, items: Sequence[Mapping[str, Any]]) -> ChatError | None:
        with self._lock:
            return self._errors.pop(_digest(items), None)


def _digest(items: Sequence[Mapping[str, Any]]) -> bytes:
    return hashlib.sha256(orjson.dumps(list(items))).digest()


class ProviderChat(ChatCodex):
    """The chat model as TradingAgents makes it: with a model, perhaps an address, and a placeholder of a key. What it
    does not give is of the options of the class."""

    options: ClassVar[Options]
    _by_settings: ClassVar[bool] = True
    _held: HeldErrors = PrivateAttr(default_factory=HeldErrors)

    def __init__(self, **given: Any) -> None:
        super().__init__(**{**self._of_options(given), **_without_placeholder(given)})

    @classmethod
    def _of_options(cls, given: Mapping[str, Any]) -> dict[str, Any]:
        options = cls.options
        url = given.get("base_url") or options.url
        found: dict[str, Any] = {
            "home": options.home,
            "binary": options.binary,
            "timeout": options.seconds,
            "effort": options.effort,
            "verbosity": options.verbosity,
            "summary": options.summary,
            "base_url": url,
            "provider": LOCAL if options.local and url == options.url else None,
        }
        if url and url == options.url and options.key is not None:
            found["api_key"] = options.key  # no other address gets it
        return {name: value for name, value in found.items() if value is not None}

    def _again(self, error: ChatError, left: int, call: ChatCall) -> bool:
        again = super()._again(error, left, call)
        if not again and isinstance(error, FINAL) and call.format.structured is not None:
            self._held.hold(call.items, error)
        return again

    def _call(self, messages: Sequence[BaseMessage], run_manager: Any, given: Mapping[str, Any]) -> ChatCall:
        call = super()._call(messages, run_manager, given)
        held = None if given.get("tools") else self._held.take(call.items)
        if held is not None and given.get("response_format") is None:
            raise held
        return call


def _without_placeholder(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return what is of use here of the arguments that TradingAgents has for other providers."""
    known = ChatCodex.arguments()
    return {name: value for name, value in given.items() if name in known and (name, value) != ("api_key", PLACEHOLDER)}


def enter(options: Options) -> Project:
    """Register the provider in the installed TradingAgents and return that. A second time replaces the first. Raises
    UsageError where there is no TradingAgents, or one whose registry takes other rows."""
    project = find_project()
    chat = type("CodexChat", (ProviderChat,), {"options": options, "__module__": __name__})
    try:
        row = project.spec(chat_class=chat, key_optional=True)
    except TypeError as error:
        problem = f"TradingAgents of {project.root} takes other providers than {TESTED}: {error}"
        raise UsageError(problem, remedy=f"install {TESTED}") from None
    project.providers[NAME] = row
    if project.menus is not None:
        project.menus[NAME] = _menus(project.menus)
    return project


def _menus(menus: Mapping[str, Any]) -> dict[str, Any]:
    """Return the models that its command line offers: OpenAI's, and any other by name."""
    other = ("Custom model ID", "custom")
    return {mode: [*rows, other] for mode, rows in dict(menus.get("openai") or {"quick": [], "deep": []}).items()}


# The data vendor `desk` in TradingAgents' registry of vendors, and the desk's answers in place of what TradingAgents
# fetches around them.
#
# Its registry and its functions are of the whole process; which market they answer from is of the context, so that many
# graphs can run side by side. Nothing else of it reaches a network: where a place that fetches is not as it was in the
# tested version, it is refused.

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
    """Register provider and vendor and close what fetches around them, once. Raises UsageError for another version."""
    with _lock:
        found = sys.modules.get(f"{_FLOWS}.interface")
        if found is not None and VENDOR in next(iter(getattr(found, "VENDOR_METHODS", {"": {}}).values())):
            return find_project()
        project = enter(options)
        _replace(project)
        _close()
        return project


def _default_config() -> Mapping[str, Any]:
    found: Mapping[str, Any] = import_module(f"{PACKAGE}.default_config").DEFAULT_CONFIG
    return found


def config_of(model: str, depth: int, home: str) -> dict[str, Any]:
    """No graph keeps a memory log of its own: the desk's database has it."""
    defaults = _default_config()
    return {
        **defaults,
        "llm_provider": NAME,
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
    configure({"data_vendors": dict.fromkeys(_default_config()["data_vendors"], VENDOR), "tool_vendors": {}})
    for module, place, made in places:
        setattr(module, place, made)
    graph._fetch_returns = _no_returns


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


def _configured(_config: Any) -> None: ...


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
    install(Options(settings.home, settings.turn_seconds, summary=settings.summary))
    made = import_module(f"{PACKAGE}.graph.trading_graph").TradingAgentsGraph
    return TickerGraph(ticker, made(tuple(analysts), config=config_of(model, depth, str(settings.home))))
