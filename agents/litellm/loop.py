"""The agentic loop of one turn: model calls and tool calls in turn, until the model calls the answer tool."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import orjson
import structlog

from agents.failures import declines
from agents.litellm.client import ModelClient, Reply, Request
from agents.litellm.events import ConversationEvents
from agents.litellm.failures import ELSEWHERE, POLICY, ModelError
from agents.litellm.messages import ANSWER, ChatHistory, ModelCall, ToolResults
from agents.runtime import ConversationSpec
from models.research import Usage
from tools.registry import ToolAnswer, failed

log = structlog.get_logger(__name__)

_FENCE = re.compile(r"\s*```(?:json)?\s*(\{.*\})\s*```\s*", re.DOTALL)
_EARLY = b'{"error":"not taken: first look at the answers of the other tools, then answer alone","success":false}'
_BESIDE = b'{"error":"not called: the turn ends with the answer","success":false}'

Limited = Callable[[float | None], None]


class Ended(NamedTuple):
    """End of a loop: the answer, or the words with which the model declined."""

    text: str
    refusal: str | None = None


class ModelLimits:
    """Models of one worker that their providers limit now, by loop time: others are asked first for so long."""

    _UNKNOWN_SECONDS = 5.0

    def __init__(self) -> None:
        self._until: dict[str, float] = {}

    def note(self, model: str, seconds: float | None) -> None:
        self._until[model] = asyncio.get_running_loop().time() + (seconds or self._UNKNOWN_SECONDS)

    def order(self, models: Sequence[str], first: str | None) -> list[str]:
        """Return the models: `first`, then the others, and at the end those that are limited."""
        now = asyncio.get_running_loop().time()
        return sorted(models, key=lambda model: (self._until.get(model, 0.0) > now, model != first))


@dataclass(slots=True)
class TurnLoop:
    """Loop of one turn. It adds to the conversation's history; usage, cost and model are those of its calls so far.

    forced: the first call must answer already. quiet_seconds: limit of one model call. calls: most of them.
    """

    client: ModelClient
    spec: ConversationSpec
    history: ChatHistory
    tools: Sequence[dict[str, Any]]
    metadata: dict[str, str]
    events: ConversationEvents
    limits: ModelLimits
    quiet_seconds: float
    forced: bool = False
    on_limited: Limited | None = None
    usage: Usage = field(default_factory=Usage)
    cost_usd: float | None = 0.0
    context_tokens: int | None = None
    model: str | None = None

    async def run(self) -> Ended:
        """Run to the answer, at the latest in the last call. Raises ModelError."""
        most = self.spec.model_calls
        for number in range(1, most + 1):
            last = self.forced or number == most
            reply = await self._ask(forced=last)
            self.history.add(reply.message)
            ended = self._ended(reply, last)
            results = await self._answers(reply.message.calls, last)
            if results:
                self.history.add(ToolResults(results))
            if ended is not None:
                return ended
        raise AssertionError("the last call ends the loop")

    async def _ask(self, *, forced: bool) -> Reply:
        """Make one model call, by the next model where one cannot serve it, and once more with less where the context
        is full."""
        request = Request(self.history, self.tools, self.spec.effort, forced, self.metadata)
        # A turn stays with the model that answered last.
        models = self.limits.order((self.spec.model, *self.spec.fallbacks), self.model)
        while True:
            model = models[0]
            try:
                reply = await self.client.ask(model, request, self.quiet_seconds)
            except ModelError as error:
                why = error.failure
                if why.kind == "rate_limited":
                    self.limits.note(model, why.reset_seconds)
                elsewhere = len(models) > 1 and why.kind in ELSEWHERE
                shorter = not elsewhere and why.kind == "context_window" and self.history.shorten()
                self.events.call_failed(model, why, will_retry=elsewhere or shorter)
                if elsewhere:
                    models = models[1:]
                elif not shorter:
                    if why.kind == "rate_limited" and self.on_limited is not None:
                        self.on_limited(why.reset_seconds)
                    raise
                continue
            self._count(model, reply)
            return reply

    def _count(self, model: str, reply: Reply) -> None:
        self.usage += reply.usage
        self.context_tokens, self.model = reply.usage.input_tokens, model
        known = self.cost_usd is not None and reply.cost_usd is not None
        self.cost_usd = (self.cost_usd or 0.0) + (reply.cost_usd or 0.0) if known else None
        self.events.replied(reply.message.text, reply.usage)

    def _ended(self, reply: Reply, last: bool) -> Ended | None:
        """Return the end that a reply makes; None when the loop goes on. An answer beside other calls rests on nothing
        of theirs, so that it counts only in the last call."""
        calls, text = reply.message.calls, reply.message.text
        if reply.refusal is not None:
            return Ended(text, reply.refusal)
        answers = [call for call in calls if call.name == ANSWER]
        if answers and (last or len(answers) == len(calls)):
            return Ended(answers[-1].arguments)
        if calls and not last:
            return None
        if fenced := _FENCE.fullmatch(text):
            text = fenced.group(1)
        return Ended(text, text if text and declines(text) else None)

    async def _answers(self, calls: Sequence[ModelCall], last: bool) -> dict[str, ToolAnswer | bytes]:
        """Return the answers to the calls of one message; tools run beside each other."""
        if last or all(call.name == ANSWER for call in calls):
            return {call.id: b'{"success":true}' if call.name == ANSWER else _BESIDE for call in calls}
        early = {call.id: _EARLY for call in calls if call.name == ANSWER}
        tools = [call for call in calls if call.name != ANSWER]
        answers = await asyncio.gather(*(self._call(call) for call in tools))
        found = {call.id: answer for call, answer in zip(tools, answers, strict=True)}
        return {call.id: early[call.id] if call.id in early else found[call.id] for call in calls}

    async def _call(self, call: ModelCall) -> ToolAnswer:
        """Return a tool's answer. Any error becomes one, so that the turn continues; the toolset times the call out."""
        self.events.tool_started(call)
        answer = await self._answer(call)
        self.events.tool_completed(call, answer)
        return answer

    async def _answer(self, call: ModelCall) -> ToolAnswer:
        try:
            arguments = orjson.loads(call.arguments or "{}")
        except orjson.JSONDecodeError as error:
            return failed(call.name, f"the arguments of {call.name} are no JSON: {error}")
        if not isinstance(arguments, dict):
            return failed(call.name, f"the arguments of {call.name} are not a JSON object")
        try:
            return await self.spec.tools.call(call.name, arguments)
        except Exception as error:
            log.exception("tool.raised", tool=call.name)
            return failed(call.name, f"{call.name} failed: {error}")


def is_policy(error: ModelError) -> bool:
    """Return whether the provider's safety system stopped the call."""
    return error.failure.kind == POLICY
