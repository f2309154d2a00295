"""The provider `codex` of TradingAgents: the chat model with the desk's settings, and its row in the registry."""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, get_args

import orjson
from langchain_core.callbacks import AsyncCallbackManagerForLLMRun, CallbackManagerForLLMRun
from langchain_core.messages import BaseMessage
from langchain_core.outputs import ChatResult
from pydantic import PrivateAttr

from chordesk.agents.langchain.bridge import ChatCall
from chordesk.agents.langchain.chat import ChatCodex
from chordesk.agents.langchain.codec import items_of
from chordesk.agents.langchain.errors import (
    CallInterrupted,
    ChatError,
    LoginError,
    ModelUnavailable,
    RateLimited,
    RefusalError,
)
from chordesk.agents.role_models import LOCAL
from chordesk.agents.tradingagents.project import TESTED, Project, find_project
from chordesk.models.errors import UsageError
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
    """The desk's part of a chat model. url, key: of an endpoint or, with `local`, a model server; None for the Codex
    login. seconds: limit of a call."""

    home: Path
    seconds: float
    binary: Path | None = None
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
    """Return the options of the desk's settings, with what was given in place of theirs. Raises UsageError for a value
    that is none. A desk on the rulebook has the Codex login here: rules cannot hold a debate."""
    served = settings.provider in ("endpoint", LOCAL)
    return Options(
        settings.home,
        settings.turn_seconds,
        settings.codex_binary,
        str(settings.provider_url) if served else None,
        settings.provider_key.get_secret_value() if served and settings.provider_key else None,
        _chosen("effort", effort) or settings.effort,
        _chosen("verbosity", verbosity) or settings.verbosity,
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
        """Return the error of these messages and forget it; None without one."""
        with self._lock:
            return self._errors.pop(_digest(items), None)


def _digest(items: Sequence[Mapping[str, Any]]) -> bytes:
    return hashlib.sha256(orjson.dumps(list(items))).digest()


class ProviderChat(ChatCodex):
    """The chat model as TradingAgents makes it: with a model, perhaps an address, and a placeholder of a key. What it
    does not give is of the options of the class."""

    options: ClassVar[Options]
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

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        try:
            return super()._generate(messages, stop, run_manager, **kwargs)
        except FINAL as error:
            self._hold(messages, kwargs, error)
            raise

    async def _agenerate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        try:
            return await super()._agenerate(messages, stop, run_manager, **kwargs)
        except FINAL as error:
            self._hold(messages, kwargs, error)
            raise

    def _hold(self, messages: Sequence[BaseMessage], given: Mapping[str, Any], error: ChatError) -> None:
        if given.get("answer_schema") is not None:
            self._held.hold(items_of(messages), error)

    def _call(self, messages: Sequence[BaseMessage], run_manager: Any, given: Mapping[str, Any]) -> ChatCall:
        """Return the call of these messages. Raises ChatError: also that of a structured call before, in place of a
        second call that would end as it did."""
        call = super()._call(messages, run_manager, given)
        if given.get("tools"):
            return call
        held = self._held.take(call.items)
        if held is not None and given.get("answer_schema") is None:
            raise held
        return call


def _without_placeholder(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of a chat model without the key that stands for none."""
    return {name: value for name, value in given.items() if (name, value) != ("api_key", PLACEHOLDER)}


def enter(options: Options) -> Project:
    """Register the provider in the installed TradingAgents and return that. A second time replaces the first.

    Raises UsageError where there is no TradingAgents, or one whose registry takes other rows.
    """
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
