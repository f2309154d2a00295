"""The provider in a model's name: `ollama:qwen3` is the model qwen3 of the Ollama on this host."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal
from urllib.parse import urlsplit

from chordesk.agents.langchain.bridge import ModelUnavailable
from chordesk.agents.role_models import PROVIDER_KEYS
from chordesk.models.errors import UsageError

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
    prefix, colon, _ = name.partition(":")
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
