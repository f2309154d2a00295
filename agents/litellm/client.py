"""One call of a model through the library: streamed, watched, and put together in the desk's form."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import Any

import structlog

from chordesk.agents.failures import failure
from chordesk.agents.litellm.config import LitellmConfig, is_rules
from chordesk.agents.litellm.failures import POLICY, ModelError, failure_of_call, no_key
from chordesk.agents.litellm.library import library, listen
from chordesk.agents.litellm.messages import ModelMessage
from chordesk.agents.litellm.request import Request, output_bound, parameters, smaller_bound
from chordesk.agents.litellm.stream import Reply, refusals_to
from chordesk.agents.litellm.usage import cost_of, total_of, usage_of
from chordesk.agents.pulse import Pulse
from chordesk.agents.role_models import missing_keys
from chordesk.models.masking import environment_secrets
from chordesk.models.research import Usage

log = structlog.get_logger(__name__)

LOOK_SECONDS = 1.0  # between two looks at a call: with the first token its limit is another one
STOOD_STILL_SECONDS = 10.0  # later than a timer was due: the process stood still, and has not read what came
ENDED_SECONDS = 0.4  # a cancelled call ends within milliseconds
_FILTERED = "content_filter"
_WRONG_URL = "this is no model's API; look at the variable with its base URL, such as OPENAI_API_BASE"


@dataclass(frozen=True, slots=True)
class Answered:
    """A model's reply. text: with the reasoning that the model wrote into it. cut: it ended at the bound of its length.
    cost_usd: None where its price or its tokens are not known."""

    message: ModelMessage
    text: str
    refusal: str | None
    cut: bool
    usage: Usage
    cost_usd: float | None


class ModelClient:
    """Client of all models of one worker; its methods belong to one loop.

    Calls are streamed. A call lives while its provider sends anything, also what is no token: comments, pings and
    heartbeats are seen where the library reads with aiohttp, which it does unless DISABLE_AIOHTTP_TRANSPORT is set (of
    Bedrock's older APIs they are not); there the first token has to come within its limit. A server that does not
    stream is asked for the whole answer, which has to come within the limit of the first token.
    """

    def __init__(self, config: LitellmConfig) -> None:
        self._config = config
        self._unstreamed: set[str] = set()  # models whose servers answer with one JSON
        self._bounds: dict[str, int] = {}  # most output tokens, of models whose servers refused more

    async def ask(self, model: str, request: Request, pulse: Pulse) -> Answered:
        """Return a model's reply. pulse gets its life signs and ends the call. Raises ModelError."""
        if names := missing_keys(model, os.environ):
            raise ModelError(failure("unauthorized", no_key(names)))  # the library may send a request without one
        bound = min(output_bound(model, pulse.limits), self._bounds.get(model, sys.maxsize))
        try:
            return await self._watched(model, request, pulse, bound)
        except ModelError as error:
            smaller = smaller_bound(error.failure, bound)
            if smaller is None:
                raise
            if error.failure.kind == "bad_request":
                self._bounds[model] = smaller
            return await self._watched(model, request, pulse, smaller)

    async def _watched(self, model: str, request: Request, pulse: Pulse, bound: int) -> Answered:
        pulse.requested()
        stream = model not in self._unstreamed
        reading = asyncio.ensure_future(self._read(model, request, pulse, bound, stream=stream))
        try:
            await _while_alive(reading, pulse)
            return reading.result()
        finally:
            if not reading.done():
                reading.cancel()
                await asyncio.wait((reading,), timeout=ENDED_SECONDS)

    async def _read(self, model: str, request: Request, pulse: Pulse, bound: int, *, stream: bool) -> Answered:
        listen(pulse.heard)
        given = parameters(model, request, self._config, pulse.limits, bound, stream=stream)
        try:
            answer = await library().acompletion(**given)
            streamed = stream and hasattr(answer, "__aiter__")
            found = await _streamed(model, answer, pulse) if streamed else _whole(model, answer, pulse)
        except ModelError:
            raise
        except Exception as error:
            secrets = environment_secrets(os.environ)
            raise ModelError(failure_of_call(error, _missing_keys(model), secrets)) from None
        if found is not None:
            return found
        pulse.requested()
        found = await self._read(model, request, pulse, bound, stream=False)
        log.warning("model.not_streamed", model=model)
        self._unstreamed.add(model)
        return replace(found, usage=Usage.unknown(), cost_usd=None)  # the first answer was paid for as well


async def _while_alive(reading: asyncio.Future[Answered], pulse: Pulse) -> None:
    """Wait for the end of a call. Raises ModelError when its provider is silent for too long."""
    while not reading.done():
        looked = time.monotonic()
        left = max(min(pulse.due - looked, LOOK_SECONDS), 0.0)
        await asyncio.wait((reading,), timeout=left)
        if time.monotonic() - looked > left + STOOD_STILL_SECONDS:
            pulse.heard()
        elif not reading.done() and time.monotonic() >= pulse.due and (why := pulse.overdue()) is not None:
            raise ModelError(why)


async def _streamed(model: str, stream: Any, pulse: Pulse) -> Answered | None:
    """Return the reply of a stream; None where the server sent one JSON in place of it. Raises ModelError and the
    library's errors."""
    reply = Reply(pulse)
    counted: list[Any] = []
    try:
        async with aclosing(stream):
            await _take_all(stream, reply, pulse, counted)
    except Exception:
        if not _ended(stream):
            raise
        # The answer is whole: the library stumbled over what follows it, such as tokens that are no numbers.
    if not (reply.cut or _ended(stream)):
        if not reply.begun and (kind := _content_type(stream)):
            if "json" in kind:
                return None
            if "event-stream" not in kind:
                raise ModelError(failure("not_found", f"{model} answered with {kind}: {_WRONG_URL}"))
        if not reply.whole:
            raise ModelError(failure("stream_cut", f"the stream of {model} ended before its answer did"))
    passed_on = [getattr(chunk, "usage", None) for chunk in getattr(stream, "chunks", ())]
    return _answered(model, reply, None if pulse.too_long else total_of([*passed_on, *counted]))


async def _take_all(stream: Any, reply: Reply, pulse: Pulse, counted: list[Any]) -> None:
    """Take the reply, and after it what the provider says of its tokens. The library is not asked for the end of a
    stream: it would put all chunks together twice, and estimate tokens that the provider did not count."""
    source = getattr(stream, "completion_stream", None)
    if hasattr(source, "__aiter__"):
        source = stream.completion_stream = refusals_to(reply, source)
    else:
        source = None
    async for chunk in stream:
        choice = next((one for one in chunk.choices if not one.index), None)  # of several answers the first
        if choice is None:
            continue
        reply.take(choice.delta)
        reply.finish = choice.finish_reason or reply.finish
        if pulse.too_long:
            reply.finish = "length"
            return
        if choice.finish_reason and source is not None and _ended(stream):
            async for rest in source:
                counted.append(rest.get("usage") if isinstance(rest, dict) else getattr(rest, "usage", None))
            return


def _ended(stream: Any) -> bool:
    """Return whether the provider said why its stream ended; the library says `stop` for one that did not."""
    return bool(getattr(stream, "received_finish_reason", None) or getattr(stream, "intermittent_finish_reason", None))


def _content_type(stream: Any) -> str:
    hidden = getattr(stream, "_hidden_params", None) or {}
    return str((hidden.get("additional_headers") or {}).get("llm_provider-content-type") or "")


def _whole(model: str, answer: Any, pulse: Pulse) -> Answered:
    if not getattr(answer, "choices", None):
        raise ModelError(failure("stream_cut", f"the answer of {model} has no message in it"))
    choice, reply = answer.choices[0], Reply(pulse)
    reply.take(choice.message)
    fields = getattr(choice.message, "provider_specific_fields", None) or {}
    if refusal := fields.get("refusal") or getattr(choice.message, "refusal", None):
        reply.refuse(str(refusal))
    reply.finish = choice.finish_reason
    return _answered(model, reply, total_of([getattr(answer, "usage", None)]))


def _answered(model: str, reply: Reply, counted: Any) -> Answered:
    refusal, usage = reply.refusal, usage_of(counted)
    if refusal is None and reply.finish == _FILTERED:
        refusal = reply.bare_text or f"the content filter of the provider ({POLICY}) stopped the answer"
    message = ModelMessage(model, reply.bare_text, reply.calls, tuple(reply.thinking))
    return Answered(message, reply.text, refusal, reply.cut, usage, cost_of(model, counted, usage))


def _missing_keys(model: str) -> list[str]:
    """Return the variables with keys of a model's provider that are not set."""
    try:
        found = library().validate_environment(model)
    except Exception:
        return []
    missing = [] if found.get("keys_in_environment") else found.get("missing_keys") or []
    return [str(name) for name in missing if str(name).endswith("KEY")] if not is_rules(model) else []
