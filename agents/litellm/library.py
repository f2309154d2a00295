"""The library LiteLLM, loaded late: its settings, the price of a call, and its errors as the desk's failures."""

from __future__ import annotations

import json
import logging
import os
import re
import sys
import warnings
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from contextlib import aclosing, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import cache, lru_cache, partial
from typing import Any
from urllib.parse import urlsplit

import structlog

from chordesk.agents.gateway.server_requests import is_proxy, proxy_of
from chordesk.agents.providers.completions import OVERFLOW, count, kind_of_status
from chordesk.agents.providers.liveness import TurnLimits, failure
from chordesk.agents.providers.provider_limits import Limit, limit_of
from chordesk.agents.role_models import PROVIDER_KEYS, RULES_MODEL, general_limits
from chordesk.models.answers import Failure, Usage
from chordesk.models.settings import Settings
from chordesk.models.settings.variables import SUFFIX, from_files
from chordesk.models.urls import is_loopback

# Read by the library as it is imported. Without them it fetches price lists and headers, and loads a .env of its own.
ENVIRONMENT = {
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    "LITELLM_LOCAL_ANTHROPIC_BETA_HEADERS": "True",
    "LITELLM_MODE": "PRODUCTION",
}
_listener: ContextVar[Callable[[], None] | None] = ContextVar("listener", default=None)

# Their lines repeat what the turn's own failure says, and some have a key in a URL.
_CHATTY = ("LiteLLM", "httpx", "httpcore", "openai", "openai._base_client")


@cache
def library() -> Any:
    """Return the library, set so that nothing but a model's call goes out and a call is sent once. It reads the
    providers' keys from the environment alone, so those in files are put there. Raises SettingError."""
    keys = [name for names in PROVIDER_KEYS.values() for name in names]
    files = from_files(os.environ, keys)
    os.environ.update(ENVIRONMENT | files)
    for name in files:
        del os.environ[name + SUFFIX]  # both would contradict each other from here on
    import litellm

    litellm.suppress_debug_info = True
    litellm.telemetry = False
    litellm.drop_params = True  # an effort that a model does not know, for instance
    litellm.num_retries = 0
    litellm.disable_hf_tokenizer_download = True
    litellm.REPEATED_STREAMING_CHUNK_LIMIT = sys.maxsize  # the desk has a bound of its own, and says so
    warnings.filterwarnings("ignore", "Pydantic serializer warnings", UserWarning)  # of its own objects
    _hear_bytes()
    _pass_by_proxies()
    for name in _CHATTY:
        logging.getLogger(name).setLevel(logging.CRITICAL)
    return litellm


def listen(heard: Callable[[], None]) -> None:
    """Call `heard` for each piece of an answer's body that this task reads from now on."""
    _listener.set(heard)


def _hear_bytes() -> None:
    """The library passes on tokens alone: comments of a reasoning provider would be silence. Can go when it passes all
    events."""
    from litellm.llms.custom_httpx.aiohttp_transport import AiohttpResponseStream as Body

    read = Body.__aiter__
    if read.__name__ == "heard":
        return  # done already

    async def heard(self: Any) -> AsyncIterator[bytes]:
        tell = _listener.get()
        async with aclosing(read(self)) as pieces:
            async for piece in pieces:
                if tell is not None:
                    tell()
                yield piece

    Body.__aiter__ = heard


def _pass_by_proxies() -> None:
    """The library sends what is on loopback to the proxy of the environment too, and with a proxy that is no URL it
    makes no client at all. Can go when it does neither."""
    from litellm.llms.custom_httpx import http_handler
    from litellm.llms.custom_httpx.aiohttp_transport import LiteLLMAiohttpTransport as Transport

    given = http_handler.get_environment_proxies
    if isinstance(given, partial):
        return  # done already
    http_handler.get_environment_proxies = partial(_proxies, given)
    Transport._proxy_from_env = lambda self, url: proxy_of(str(url))


def _proxies(given: Callable[[], dict[str, str | None]]) -> dict[str, str | None]:
    """Return the proxies of the environment by pattern of a URL, None for no proxy: those that can be used, and none
    for loopback."""
    import httpx

    bases = [urlsplit(url).hostname or "" for url in os.environ.values() if url.startswith(("http://", "https://"))]
    hosts = {"127.0.0.1", "localhost", "::1", *filter(is_loopback, bases)}
    found: dict[str, str | None] = {}
    for pattern, url in given().items():
        with suppress(httpx.InvalidURL, ValueError):
            httpx.URL(pattern)
            if url is None or is_proxy(url):
                found[pattern] = url
    return found | {f"all://{f'[{host}]' if ':' in host else host}": None for host in hosts}


@lru_cache(maxsize=64)
def provider_of(model: str) -> str:
    try:
        return str(library().get_llm_provider(model)[1])
    except Exception:
        return ""


@lru_cache(maxsize=64)
def known_parameters(model: str) -> frozenset[str]:
    try:
        return frozenset(library().get_supported_openai_params(model) or ())
    except Exception:
        return frozenset()


async def close_clients() -> None:
    from litellm.litellm_core_utils.logging_worker import GLOBAL_LOGGING_WORKER
    from litellm.llms.custom_httpx.async_client_cleanup import close_litellm_async_clients

    await GLOBAL_LOGGING_WORKER.stop()
    await close_litellm_async_clients()


@dataclass(frozen=True, slots=True)
class LitellmConfig:
    """Settings of one worker's runtime."""

    worker: str
    rulebook_url: str | None = None  # base URL of the rulebook's chat completions, for the model `rulebook`
    limits: TurnLimits = field(default_factory=TurnLimits)  # of turns without their own


def litellm_config(settings: Settings, worker: str) -> LitellmConfig:
    """Without keys and base URLs: the library reads each provider's own variables."""
    return LitellmConfig(worker, settings.rulebook_url, general_limits(settings))


def is_rules(model: str) -> bool:
    return model == RULES_MODEL


log = structlog.get_logger(__name__)

MOST_TOKENS = 100_000_000  # of one call: more is not a count of tokens


def total_of(counted: Iterable[Any]) -> Any:
    """Some providers count input at the beginning and output at the end. None if either is missing."""
    read = made = None
    for usage in counted:
        read = usage if _count(usage, "prompt_tokens") else read
        made = usage if _count(usage, "completion_tokens") else made
    if read is None or made is None or made is read:
        return made if read is not None else None
    output = {name: getattr(made, name, None) for name in ("completion_tokens", "completion_tokens_details")}
    return read.model_copy(update=output)


def usage_of(counted: Any) -> Usage:
    """Unknown where a figure cannot be: the library fills in zeros for a provider that gives no figures."""
    read, made = _count(counted, "prompt_tokens"), _count(counted, "completion_tokens")
    if not read or not made:
        return Usage.unknown()
    cached = _count(getattr(counted, "prompt_tokens_details", None), "cached_tokens") or 0
    reasoning = _count(getattr(counted, "completion_tokens_details", None), "reasoning_tokens") or 0
    return Usage(
        input_tokens=read,
        cached_input_tokens=cached if cached <= read else None,
        output_tokens=made,
        reasoning_tokens=reasoning if reasoning <= made else None,
        total_tokens=read + made,
    )


def _count(counted: Any, name: str) -> int | None:
    return count(getattr(counted, name, None), MOST_TOKENS)


def cost_of(model: str, counted: Any, usage: Usage) -> float | None:
    """Return the price of a call in USD: None for a model that the library has no price of, which it prices at 0."""
    if usage.missing or is_rules(model) or not _is_priced(model):
        return None
    try:
        known = counted if isinstance(counted, library().Usage) else library().Usage(**counted.model_dump())
        return float(sum(library().cost_per_token(model=model, usage_object=known)))
    except Exception as error:
        log.warning("model.no_cost", model=model, error=str(error))
        return None


@lru_cache(maxsize=64)
def _is_priced(model: str) -> bool:
    try:
        info = library().get_model_info(model)
    except Exception:
        return False
    return bool(info.get("input_cost_per_token")) and info.get("output_cost_per_token") is not None


# Mapping of the library's errors to the desk's failure kinds.
#
# Its classes are not enough (measured, 1.105): a refused or dropped connection, half a JSON and a missing key of
# OpenAI's are all `InternalServerError`, a 403 of OpenAI's is a bare `APIError`, and 529 is either. So the causes are
# looked at.

# Another model may well serve a call that failed so. A refused key is not among them: it would never be noticed.
ELSEWHERE = frozenset(
    {
        "rate_limited", "usage_limit", "no_credit", "overloaded", "server_error", "unreachable", "stream_cut",
        "no_first_token", "silent", "not_found", "context_window",
    }
)  # fmt: skip
POLICY = "policy"  # the provider's safety system stopped the call: a refusal, not a fault

_FILTER = re.compile(r"(?i)content_policy_violation|content_filter|responsibleaipolicy|content management policy")
_OVERLOADED = re.compile(r"(?i)overloaded_error|\boverloaded\b")
_RATE = re.compile(r"(?i)rate_limit")
_SERVER = re.compile(r"(?i)server_error|internal error|api_error")
_NO_TOOLS = re.compile(
    r"(?i)does not support (?:tools|function calling)|tools? (?:use|calling|calls) (?:is|are) not supported"
)
_BY_SCHEMA = "give this role local:MODEL and set DESK_LOCAL_URL: there tools are put to such a model by a schema"
_REFUSED = frozenset(
    {"ConnectError", "ConnectTimeout", "ConnectionRefusedError", "ClientConnectorError", "gaierror", "PoolTimeout"}
)
_CUT = frozenset(
    {
        "ReadError", "WriteError", "RemoteProtocolError", "ClientPayloadError", "ServerDisconnectedError",
        "ConnectionResetError", "BrokenPipeError", "JSONDecodeError", "CloseError", "ClientOSError",
    }
)  # fmt: skip
_FRAME = re.compile(r"\s*Traceback \(most recent call last\).*", re.DOTALL)


class ModelError(Exception):
    """A model call that failed, with the failure that a turn ends with."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.message)
        self.failure = failure


def failure_of_call(error: BaseException, missing_keys: Sequence[str] = (), secrets: Iterable[str] = ()) -> Failure:
    """missing_keys: variables of its provider that are not set; secrets: hidden in the message."""
    chain = list(_chain(error))
    text = _FRAME.sub("", str(error)).strip() or type(error).__name__
    limit = _limit(chain)
    kind = limit.kind if limit is not None else _kind(error, chain, list(missing_keys))
    if kind == "unauthorized" and missing_keys:
        text = no_key(missing_keys)
    if kind == "bad_request" and _NO_TOOLS.search(text):
        text = f"{text}; {_BY_SCHEMA}"
    return failure(kind, text, limit.reset_seconds if limit is not None else None, secrets)


def no_key(variables: Iterable[str]) -> str:
    return f"no key for this model's provider: set {' or '.join(variables)} in the environment of the workers"


def _kind(error: BaseException, chain: list[BaseException], missing_keys: list[str]) -> str:
    names = {cls.__name__ for one in chain for cls in type(one).__mro__}
    text = _told(chain)
    status = next((code for code in map(_status, chain) if code is not None), None)
    if "ContextWindowExceededError" in names or (status in (None, 400, 413) and OVERFLOW.search(text)):
        return "context_window"
    if "ContentPolicyViolationError" in names or (status == 400 and _FILTER.search(text)):
        return POLICY
    if status is not None:
        if status >= 500 and _OVERLOADED.search(text):
            return "overloaded"
        return kind_of_status(status)
    if names & _REFUSED:
        return "unreachable"
    if names & _CUT:
        return "stream_cut"
    if names & {"Timeout", "TimeoutError", "TimeoutException"}:
        return "no_first_token"
    if (kind := _told_in_the_stream(names, text)) is not None:
        return kind
    if "AuthenticationError" in names or missing_keys:
        return "unauthorized"
    if "BadRequestError" in names:
        return "bad_request"
    # The body was not an answer at all: the library stumbles over what is not there.
    return "stream_cut" if names & {"KeyError", "IndexError", "TypeError", "APIError"} else "unknown"


def _told_in_the_stream(names: set[str], text: str) -> str | None:
    if not names & {"APIError", "InternalServerError"}:
        return None
    kinds = {"overloaded": _OVERLOADED, "rate_limited": _RATE, "server_error": _SERVER}
    return next((kind for kind, pattern in kinds.items() if pattern.search(text)), None)


def _chain(error: BaseException) -> Iterator[BaseException]:
    seen: set[int] = set()
    found: BaseException | None = error
    while found is not None and id(found) not in seen:
        seen.add(id(found))
        yield found
        found = found.__cause__ or found.__context__


def _status(error: BaseException) -> int | None:
    response: Any = getattr(error, "response", None)
    answered = type(error).__name__.endswith("HTTPStatusError") or type(error).__module__.startswith("openai")
    status = getattr(response, "status_code", None)
    return status if answered and isinstance(status, int) else None


def _limit(chain: Sequence[BaseException]) -> Limit | None:
    """Return the limit that an error tells of: the library wraps the provider's answer, and may lose its status."""
    names = {cls.__name__ for one in chain for cls in type(one).__mro__}
    status = next((code for code in map(_status, chain) if code is not None), None)
    if "RateLimitError" in names or (status is None and _told_in_the_stream(names, _told(chain)) == "rate_limited"):
        status = 429
    headers: dict[str, str] = {}
    for one in reversed(chain):
        for found in (getattr(one, "litellm_response_headers", None), _headers_of(one)):
            headers |= {str(name): str(value) for name, value in (found or {}).items()}
    bodies = [body for one in chain if (body := getattr(one, "body", None)) is not None]
    texts = [*_jsons(chain), *bodies]
    return limit_of(status or 0, _told(chain), texts, headers)


def _told(chain: Iterable[BaseException]) -> str:
    return " ".join(f"{one} {getattr(one, 'code', '')} {getattr(one, 'body', '')}" for one in chain)


def _jsons(chain: Iterable[BaseException]) -> Iterator[Any]:
    """Yield the JSON that some messages end with: of most providers the library keeps the body there alone."""
    for one in chain:
        start = str(one).find("{")
        with suppress(ValueError):
            yield json.JSONDecoder().raw_decode(str(one)[start:])[0] if start >= 0 else None


def _headers_of(error: BaseException) -> Any:
    return getattr(getattr(error, "response", None), "headers", None)
