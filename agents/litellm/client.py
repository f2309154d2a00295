"""One call of a model through the library: the request, and its reply in the desk's form."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import orjson
import structlog

from agents.failures import failure
from agents.litellm.config import LitellmConfig, is_rules
from agents.litellm.failures import POLICY, ModelError, failure_of_call, no_key
from agents.litellm.library import library
from agents.litellm.messages import ANSWER, ChatHistory, Message, ModelCall, ModelMessage
from agents.role_models import missing_keys
from models.masking import environment_secrets
from models.research import Usage
from models.tables.columns import new_id

log = structlog.get_logger(__name__)

VERBOSITY = "verbosity"
METADATA_HEADER = "x-desk-turn"
# Providers that take an image in a tool's answer; for all others it follows in a message of its own.
_IMAGES_IN_RESULTS = frozenset({"anthropic"})
_FILTERED = "content_filter"
_LATE_SECONDS = 5.0  # the library's own limit lies so much behind ours, which says why


@dataclass(frozen=True, slots=True)
class Reply:
    """A model's reply. cost_usd: None where its price or its tokens are not known."""

    message: ModelMessage
    refusal: str | None
    usage: Usage
    cost_usd: float | None


@dataclass(frozen=True, slots=True)
class Request:
    """A call to make. forced: the model has to call the answer tool. metadata: of the turn, in a header."""

    history: ChatHistory
    tools: Sequence[Message]
    effort: str | None
    forced: bool
    metadata: Mapping[str, str]


class ModelClient:
    """Client of all models of one worker; its methods belong to one loop."""

    def __init__(self, config: LitellmConfig) -> None:
        self._config = config

    async def ask(self, model: str, request: Request, seconds: float) -> Reply:
        """Return a model's reply, which comes within so many seconds. Raises ModelError."""
        if names := missing_keys(model, os.environ):
            raise ModelError(failure("unauthorized", no_key(names)))  # the library may send a request without one
        try:
            async with asyncio.timeout(seconds):
                answer = await library().acompletion(**self._parameters(model, request, seconds))
        except ModelError:
            raise
        except TimeoutError:
            raise ModelError(failure("no_progress", f"{model} did not answer within {seconds:g} s")) from None
        except Exception as error:
            secrets = environment_secrets(os.environ)
            raise ModelError(failure_of_call(error, _missing_keys(model), secrets)) from None
        return _reply(model, answer)

    def _parameters(self, model: str, request: Request, seconds: float) -> dict[str, Any]:
        parameters: dict[str, Any] = {
            "model": model,
            "messages": request.history.render(model, images_in_results=provider_of(model) in _IMAGES_IN_RESULTS),
            "tools": list(request.tools),
            "tool_choice": {"type": "function", "function": {"name": ANSWER}} if request.forced else "auto",
            "timeout": seconds + _LATE_SECONDS,
            "num_retries": 0,
            "max_retries": 0,
            "extra_headers": {METADATA_HEADER: orjson.dumps(dict(request.metadata)).decode()},
        }
        if request.effort is not None and not request.forced:
            parameters["reasoning_effort"] = request.effort  # a forced call and reasoning exclude each other
        if self._config.verbosity is not None and VERBOSITY in _known(model):
            parameters[VERBOSITY] = self._config.verbosity
        if is_rules(model):
            if self._config.rulebook_url is None:
                raise ModelError(failure("unreachable", "the rulebook is not served: rulebook_url is not set"))
            rules = {"model": f"openai/{model}", "api_base": self._config.rulebook_url, "api_key": "none"}
            parameters |= rules
        return parameters


@lru_cache(maxsize=64)
def provider_of(model: str) -> str:
    """Return the library's name of a model's provider; empty for a model that it does not know."""
    try:
        return str(library().get_llm_provider(model)[1])
    except Exception:
        return ""


@lru_cache(maxsize=64)
def _known(model: str) -> frozenset[str]:
    """Return the names of the parameters that the library knows of a model; none of one that it does not know."""
    try:
        return frozenset(library().get_supported_openai_params(model) or ())
    except Exception:
        return frozenset()


def _missing_keys(model: str) -> list[str]:
    """Return the variables with keys of a model's provider that are not set."""
    try:
        found = library().validate_environment(model)
    except Exception:
        return []
    missing = [] if found.get("keys_in_environment") else found.get("missing_keys") or []
    return [str(name) for name in missing if str(name).endswith("KEY")] if not is_rules(model) else []


def _reply(model: str, answer: Any) -> Reply:
    if not getattr(answer, "choices", None):
        raise ModelError(failure("stream_cut", f"the answer of {model} has no message in it"))
    choice = answer.choices[0]
    message, usage = choice.message, usage_of(getattr(answer, "usage", None))
    calls = _calls(message.tool_calls or ())
    written = ModelMessage(model, message.content or "", calls, tuple(getattr(message, "thinking_blocks", None) or ()))
    fields = getattr(message, "provider_specific_fields", None) or {}
    refusal = fields.get("refusal") or getattr(message, "refusal", None)
    if refusal is None and choice.finish_reason == _FILTERED:
        refusal = written.text or f"the content filter of the provider ({POLICY}) stopped the answer"
    return Reply(written, str(refusal) if refusal else None, usage, _cost(model, answer, usage))


def _calls(made: Sequence[Any]) -> tuple[ModelCall, ...]:
    """Return the tool calls of a message. Some providers give no ids, or one id to several."""
    found: dict[str, ModelCall] = {}
    for call in made:
        id_ = str(call.id) if call.id and call.id not in found else new_id()
        found[id_] = ModelCall(id_, str(call.function.name or ""), str(call.function.arguments or "{}"))
    return tuple(found.values())


def usage_of(counted: Any) -> Usage:
    """Return the tokens of one call. The library fills in zeros for a provider that gives no figures, but no call is
    without input."""
    read, made = _count(counted, "prompt_tokens"), _count(counted, "completion_tokens")
    if not read or made is None:
        return Usage.unknown()
    cached = _count(getattr(counted, "prompt_tokens_details", None), "cached_tokens") or 0
    reasoning = _count(getattr(counted, "completion_tokens_details", None), "reasoning_tokens") or 0
    return Usage(
        input_tokens=read,
        cached_input_tokens=cached,
        output_tokens=made,
        reasoning_tokens=reasoning,
        total_tokens=read + made,
    )


def _count(counted: Any, name: str) -> int | None:
    value = getattr(counted, name, None)
    return value if type(value) is int and value >= 0 else None


def _cost(model: str, answer: Any, usage: Usage) -> float | None:
    """Return the price of a call in USD: None for a model that the library has no price of, which it prices at 0."""
    if usage.missing or is_rules(model) or not _is_priced(model):
        return None
    try:
        return float(library().completion_cost(completion_response=answer, model=model))
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
