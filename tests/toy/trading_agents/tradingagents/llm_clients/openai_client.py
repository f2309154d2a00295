"""Its registry of providers, and the client that makes chat models from it."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any


class PlainChat:
    """Chat model of its other providers."""


@dataclass(frozen=True)
class ProviderSpec:
    """A row of the registry."""

    chat_class: type = PlainChat
    base_url: str | None = None
    base_url_env: str | None = None
    key_optional: bool = False
    placeholder_key: str = "EMPTY"
    require_base_url: bool = False
    use_responses_api: bool = False


OPENAI_COMPATIBLE_PROVIDERS: dict[str, ProviderSpec] = {"openai": ProviderSpec(use_responses_api=True)}
PASSED_ON = ("timeout", "max_retries", "temperature", "callbacks")


class OpenAIClient:
    """Makes the chat model of one provider and model."""

    def __init__(self, model: str, base_url: str | None = None, provider: str = "openai", **kwargs: Any) -> None:
        self.model, self.base_url, self.provider, self.kwargs = model, base_url, provider, kwargs

    def get_llm(self) -> Any:
        spec = OPENAI_COMPATIBLE_PROVIDERS[self.provider]
        given: dict[str, Any] = {"model": self.model}
        if url := self.base_url or os.environ.get(spec.base_url_env or "") or spec.base_url:
            given["base_url"] = url
        if spec.key_optional:
            given["api_key"] = spec.placeholder_key
        return spec.chat_class(**given, **{name: self.kwargs[name] for name in PASSED_ON if name in self.kwargs})
