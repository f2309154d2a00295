"""Runtimes of a program that is not a desk's worker: one for each model and provider, on an event loop in a thread."""

from __future__ import annotations

import asyncio
import atexit
import concurrent.futures
import os
import threading
from collections.abc import Coroutine, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal, TypeVar
from urllib.parse import urlsplit

from chordesk.agents.codex.launch import RuntimeConfig
from chordesk.agents.codex.runtime import CodexRuntime
from chordesk.agents.graphs.langchain.ephemeral_turns import (
    ChatAnswer,
    ChatCall,
    ChatError,
    ModelUnavailable,
    OnText,
    TimedOut,
    error_from,
    exchange,
    in_arguments,
)
from chordesk.agents.providers.liveness import TurnLimits
from chordesk.agents.role_models import LOCAL, PROVIDER_KEYS, RUNTIMES
from chordesk.agents.runtime import Conversation, Lifecycle, Runtime, Scope
from chordesk.models import features
from chordesk.models.errors import DeskError, SettingError, UsageError
from chordesk.models.events import Envelope, EventType
from chordesk.models.settings import Settings

Provider = Literal["codex", "endpoint", "local", "litellm"]
LITELLM: Provider = "litellm"
# Model servers, where each listens unless told otherwise.
SERVERS = {
    "ollama": "http://127.0.0.1:11434/v1",
    "llamacpp": "http://127.0.0.1:8080/v1",
    "vllm": "http://127.0.0.1:8000/v1",
    "lmstudio": "http://127.0.0.1:1234/v1",
}
# LiteLLM's names, and LangChain's where those are others.
_HOSTED = {name: name for name in PROVIDER_KEYS} | {"google_genai": "gemini", "mistralai": "mistral"}
_PLAIN: tuple[Provider, ...] = ("codex", "endpoint", "local", LITELLM)
KNOWN = (*_PLAIN, *SERVERS, *_HOSTED)


def arguments_of(name: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the chat model's arguments that a name with a provider stands for. given: its other arguments, which go
    before; with a provider among them the whole is the model's name."""
    prefix, colon, model = name.partition(":")
    if not (colon and model) or given.get("provider") is not None or prefix not in KNOWN:
        return {"model": name}
    if prefix in SERVERS:
        return {"model": model, "provider": "local", "base_url": given.get("base_url") or SERVERS[prefix]}
    if prefix in _PLAIN:
        return {"model": model, "provider": prefix}
    return {"model": f"{_HOSTED[prefix]}/{model}", "provider": LITELLM}


def answering(provider: str, model: str, url: str | None) -> str:
    """Return the name of who answers a model's calls, as LangSmith has it: a login is OpenAI's."""
    if url is not None:
        known = {address: name for name, address in SERVERS.items()}
        return known.get(url) or urlsplit(url).netloc.rpartition("@")[2]
    return model.partition("/")[0] if provider == LITELLM else "openai" if provider == "codex" else provider


def require_known(name: str, provider: Provider) -> None:
    """Raise ModelUnavailable for a name that begins with a provider there is not: the login has no such model."""
    prefix, colon, model = name.partition(":")
    if provider == "codex" and colon and not model and prefix in KNOWN:
        remedy = "write the model behind it, as in codex:gpt-5.5 or ollama:qwen3:8b"
        raise ModelUnavailable(f"the model {name!r} names the provider {prefix!r} and no model", remedy=remedy)
    if provider == "codex" and colon:
        raise ModelUnavailable(
            f"the model {name!r} names the provider {prefix!r}, which there is not",
            remedy=f"write PROVIDER:MODEL with one of {', '.join(KNOWN)}, or give base_url as well",
        )


def register() -> None:
    """Let LangChain find the chat model by name, where it takes a string: `init_chat_model("codex:gpt-5.5")`,
    `create_agent("codex:ollama:qwen3")`. Raises UsageError without LangChain, or for one that looks elsewhere."""
    try:
        from langchain.chat_models import base
    except ModuleNotFoundError:
        raise UsageError("the package langchain is not installed", remedy="pip install langchain") from None
    try:
        base._BUILTIN_PROVIDERS["codex"] = ("chordesk.langchain", "ChatCodex", base._call)
    except (AttributeError, TypeError):
        raise UsageError("this langchain looks its providers up elsewhere", remedy="make a ChatCodex") from None


T = TypeVar("T")
CLOSE_SECONDS = 5.0
# The chat model tries again by itself, as often as its caller wants.
NO_RETRIES = {"model_providers.desk.request_max_retries": 0}
WORKER = "chat"  # name of the homes of such runtimes


@dataclass(frozen=True, slots=True)
class Connection:
    """What a runtime is made for. binary: None for that of the pinned wheel. ca_file: PEM of trust roots. by_settings:
    errors name the desk's settings, and not the chat model's arguments."""

    model: str
    provider: str
    url: str | None
    key: str | None
    home: Path
    binary: Path | None = None
    ca_file: Path | None = None
    by_settings: bool = False


class _Deltas:
    """Listener to growing answers, by thread."""

    def __init__(self) -> None:
        self._listeners: dict[str, OnText] = {}
        self._texts: dict[tuple[str, str], str] = {}

    def listen(self, thread_id: str, on_text: OnText) -> None:
        self._listeners[thread_id] = on_text

    def forget(self, thread_id: str) -> None:
        self._listeners.pop(thread_id, None)
        for key in [key for key in self._texts if key[0] == thread_id]:
            del self._texts[key]

    def record(self, scope: Scope, events: Sequence[Envelope], lifecycles: Sequence[Lifecycle] = ()) -> None:
        for event in events:
            thread = event.thread_id or ""
            if event.type != EventType.ITEM_DELTA or thread not in self._listeners:
                continue
            key = (thread, event.item_id or "")
            text = self._texts[key] = self._texts.get(key, "") + str(event.payload["text"])
            if text.lstrip()[:1] == "{":  # a summary of the reasoning is prose
                self._listeners[thread](text)


class OwnBridge:
    """A runtime on an event loop in a thread of this process. It starts with its first call."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._loop = asyncio.new_event_loop()
        self._starting: asyncio.Task[Runtime] | None = None
        self._deltas = _Deltas()
        self._thread = threading.Thread(target=self._loop.run_forever, name="chat-loop", daemon=True)
        self._thread.start()

    def submit(self, work: Coroutine[Any, Any, T]) -> concurrent.futures.Future[T]:
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def serving(self, model: str) -> None:
        return None

    async def answer(self, call: ChatCall, on_text: OnText | None = None) -> ChatAnswer:
        threads: list[str] = []

        def opened(conversation: Conversation) -> None:
            threads.append(conversation.thread_id)
            if on_text is not None:
                self._deltas.listen(conversation.thread_id, on_text)

        began = self._loop.time()
        try:
            runtime = await self._runtime(call.seconds)
            left = call.seconds - (self._loop.time() - began)
            metadata = {"caller": "langchain", "node": call.node}
            return await exchange(runtime, replace(call, seconds=left), metadata, opened)
        except ChatError as error:
            raise error if self._connection.by_settings else in_arguments(error, self._connection.provider) from None
        finally:
            for thread in threads:
                self._deltas.forget(thread)

    def close(self) -> None:
        self.submit(self._end()).result(CLOSE_SECONDS * 3)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(CLOSE_SECONDS)

    async def _runtime(self, seconds: float) -> Runtime:
        """Return the runtime, for which several callers may wait. A start that failed is forgotten, for what it failed
        of may be mended."""
        if self._starting is None:
            self._starting = asyncio.ensure_future(self._start())
            self._starting.add_done_callback(self._ended)
        starting = self._starting
        try:
            async with asyncio.timeout(seconds):
                return await asyncio.shield(starting)
        except TimeoutError:
            raise TimedOut(f"the model's runtime was not ready within {seconds:g} s") from None
        except DeskError as error:
            raise error_from(error) from error
        except OSError as error:
            raise ChatError(
                f"the Codex runtime does not start: {error}", kind="not_started",
                remedy=f"make {self._connection.home} a folder that can be written, or give another home",
            ) from error  # fmt: skip

    def _ended(self, starting: asyncio.Task[Runtime]) -> None:
        if starting.cancelled() or starting.exception() is not None:
            self._starting = None

    async def _start(self) -> Runtime:
        runtime: Runtime = self._of_litellm() if self._connection.provider == LITELLM else self._of_codex()
        try:
            await runtime.start()
        except BaseException:
            await runtime.close(0)  # what it began: its home's lock, its gateway
            raise
        return runtime

    def _of_litellm(self) -> Runtime:
        known = RUNTIMES.get(LITELLM)
        if known is None or find_spec(known.package) is None:
            remedy = known.install if known is not None else features.remedy_for("runtimes", LITELLM)
            raise SettingError(f"LiteLLM, which serves {self._connection.model}, is not installed", remedy=remedy)
        build = features.part("runtimes", LITELLM, known.build)
        made: Runtime = build(Settings(home=self._connection.home), WORKER, self._deltas)
        return made

    def _of_codex(self) -> CodexRuntime:
        one = self._connection
        if one.ca_file is not None and not one.ca_file.is_file():
            raise SettingError(
                f"the trust roots {one.ca_file} are no file", remedy="correct ca_file, or DESK_CODEX_CA_FILE"
            )
        config = RuntimeConfig(
            one.home, WORKER, one.provider, one.model, one.url, one.key, binary=one.binary, deltas=True,
            ca_file=one.ca_file, limits=TurnLimits(turn_seconds=3600.0), kept_processes=1,
            flags={} if one.provider == "codex" else NO_RETRIES,
        )  # fmt: skip
        if one.provider == LOCAL and one.url is not None:
            from chordesk.agents.gateway.probe import KnownServer  # its library is for model servers alone

            config = replace(config, facts=KnownServer(one.home, one.url, one.key))
        return CodexRuntime(config, observer=self._deltas)

    async def _end(self) -> None:
        if self._starting is None:
            return
        if not self._starting.done():
            self._starting.cancel()
            await asyncio.wait((self._starting,))
            return
        await self._starting.result().close(CLOSE_SECONDS)


_lock = threading.Lock()
_bridges: dict[Connection, OwnBridge] = {}


def own_bridge(connection: Connection) -> OwnBridge:
    with _lock:
        if connection not in _bridges:
            _bridges[connection] = OwnBridge(connection)
        return _bridges[connection]


def close_bridges() -> None:
    with _lock:
        bridges = list(_bridges.values())
        _bridges.clear()
    for bridge in bridges:
        bridge.close()


atexit.register(close_bridges)
os.register_at_fork(after_in_child=_bridges.clear)  # threads do not come along
