"""The library LiteLLM, loaded late: it takes seconds and as much memory as the desk itself."""

from __future__ import annotations

import logging
import os
import sys
import warnings
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing
from contextvars import ContextVar
from functools import cache, lru_cache
from typing import Any

from chordesk.agents.role_models import PROVIDER_KEYS
from chordesk.models.settings.secret_files import SUFFIX, from_files

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
    for name in _CHATTY:
        logging.getLogger(name).setLevel(logging.CRITICAL)
    return litellm


def listen(heard: Callable[[], None]) -> None:
    """Call `heard` for each piece of an answer's body that this task reads from now on."""
    _listener.set(heard)


def _hear_bytes() -> None:
    """Let the body of an answer tell its listener of each piece. The library passes on what it makes of tokens alone:
    a provider that sends comments while its model reasons would be silent. Can go when it passes on all events."""
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


@lru_cache(maxsize=64)
def provider_of(model: str) -> str:
    """Return the library's name of a model's provider; empty for a model that it does not know."""
    try:
        return str(library().get_llm_provider(model)[1])
    except Exception:
        return ""


@lru_cache(maxsize=64)
def known_parameters(model: str) -> frozenset[str]:
    """Return the names of the parameters that the library knows of a model; none of one that it does not know."""
    try:
        return frozenset(library().get_supported_openai_params(model) or ())
    except Exception:
        return frozenset()


async def close_clients() -> None:
    """Close the library's connections and end its own task, which belong to the running loop."""
    from litellm.litellm_core_utils.logging_worker import GLOBAL_LOGGING_WORKER
    from litellm.llms.custom_httpx.async_client_cleanup import close_litellm_async_clients

    await GLOBAL_LOGGING_WORKER.stop()
    await close_litellm_async_clients()
