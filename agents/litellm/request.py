"""The request of one model call, in the library's parameters."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import orjson

from chordesk.agents.failures import failure
from chordesk.agents.litellm.config import LitellmConfig, is_rules
from chordesk.agents.litellm.failures import ModelError
from chordesk.agents.litellm.library import known_parameters, library, provider_of
from chordesk.agents.litellm.messages import ChatHistory, Message
from chordesk.agents.litellm.ways import Way, closing_words, way_parameters
from chordesk.agents.pulse import TurnLimits
from chordesk.models.research import Failure

METADATA_HEADER = "x-desk-turn"
VERBOSITY = "verbosity"
# Tokens of output that a model gets for its reasoning, which providers count as output. Of the desk's limits only that
# of time ends reasoning; this is so that the provider ends it, too.
REASONING_TOKENS = 32_768
# Providers that take an image in a tool's answer; for all others it follows in a message of its own.
_IMAGES_IN_RESULTS = frozenset({"anthropic"})
_LATE_SECONDS = 5.0  # the library's own limit lies so much behind the turn's, which says why
_LEAST_BOUND = 256  # tokens; a smaller bound is another figure of the message
_BOUND = re.compile(r"(?i)max_(completion_|output_|new_)?tokens|output tokens|in the completion|maximum context length")
_CONTEXT = re.compile(r"(?i)maximum context length is (\d+)")
_READ = re.compile(r"(?i)(\d+) (?:in the messages|input tokens|of text input)")
_SUM = re.compile(r"(\d+) \+ \d+ > (\d+)")


@dataclass(frozen=True, slots=True)
class Request:
    """A call to make. way: in which it has to answer; None: it may call tools. schema: of the answer. on: it goes on
    with an answer that was cut off, as text. metadata: of the turn, in a header."""

    history: ChatHistory
    tools: Sequence[Message]
    effort: str | None
    way: Way | None
    schema: Mapping[str, Any]
    metadata: Mapping[str, str]
    on: bool = False


def parameters(
    model: str, request: Request, config: LitellmConfig, limits: TurnLimits, bound: int, *, stream: bool
) -> dict[str, Any]:
    """Return a call's parameters. bound: most tokens of its output. Raises ModelError."""
    way: Way | None = "words" if request.on else request.way
    closing = None if request.on or way in (None, "forced_tool") else closing_words(request.schema)
    images = provider_of(model) in _IMAGES_IN_RESULTS
    found: dict[str, Any] = {
        "model": model,
        "messages": request.history.render(model, images_in_results=images, closing=closing),
        "tools": list(request.tools),
        "max_tokens": bound,
        # Of reading, from one byte to the next: a call that goes on is not ended by it.
        "timeout": limits.turn_seconds + _LATE_SECONDS,
        "num_retries": 0,
        "max_retries": 0,
        "extra_headers": {METADATA_HEADER: orjson.dumps(dict(request.metadata)).decode()},
    } | way_parameters(model, way, request.schema)
    if stream:
        found |= {"stream": True, "stream_options": {"include_usage": True}}
    if request.effort is not None and way is None:
        found["reasoning_effort"] = request.effort  # a forced call and reasoning exclude each other
    if config.verbosity is not None and VERBOSITY in known_parameters(model):
        found[VERBOSITY] = config.verbosity
    if is_rules(model):
        if config.rulebook_url is None:
            raise ModelError(failure("unreachable", "the rulebook is not served: rulebook_url is not set"))
        found |= {"model": f"openai/{model}", "api_base": config.rulebook_url, "api_key": "none"}
    return found


def output_bound(model: str, limits: TurnLimits) -> int:
    """Return the most tokens that a call of this model may write: the limit's, what a model that reasons needs for
    that, and no more than the model can."""
    reasons, most = _output_of(model)
    bound = limits.output_tokens + (REASONING_TOKENS if reasons else 0)
    return min(bound, most) if most else bound


@lru_cache(maxsize=64)
def _output_of(model: str) -> tuple[bool, int | None]:
    """Return whether a model reasons, and its most output tokens; one that the library does not know may reason."""
    try:
        info = library().get_model_info(model)
    except Exception:
        return True, None
    most = info.get("max_output_tokens")
    return bool(info.get("supports_reasoning")), most if type(most) is int and most > 0 else None


def smaller_bound(why: Failure, bound: int) -> int | None:
    """Return the bound that a server takes, which refused a larger one: because the model cannot write more, or because
    its context has no room for it beside the request. None: the call failed for another reason."""
    text = why.message
    if why.kind not in ("bad_request", "context_window") or not _BOUND.search(text):
        return None
    if found := _SUM.search(text):
        room = int(found[2]) - int(found[1])
    elif context := _CONTEXT.search(text):
        read = _READ.search(text)
        room = int(context[1]) - int(read[1]) if read else 0
    else:
        room = max((number for number in map(int, re.findall(r"\d+", text)) if number < bound), default=0)
    return room if _LEAST_BOUND <= room < bound else None
