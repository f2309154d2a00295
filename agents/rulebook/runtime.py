"""The runtime of rules that answer in the worker itself: the policies behind the wire, without a process or a request
between them and the desk. A backtest of the rulebook is thousands of turns, most of whose time would be the wire.

Its conversations leave no events: a turn is over within milliseconds, and its row has the calls and the answer.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import orjson

from chordesk.agents.pulse import failure, interrupted
from chordesk.agents.rulebook.cases import BadRequest, Call, Case, Output, Payload, case_of, fill, usage
from chordesk.agents.rulebook.policies import POLICIES
from chordesk.agents.runtime import ActiveRuntime, ConversationSpec, TurnResult, TurnStatus
from chordesk.models.answers import Failure, Usage
from chordesk.models.tables.columns import new_id

ANSWER_SECONDS = 0.0  # of each answer, in place of a model's time


class RulesRuntime(ActiveRuntime):
    """Implements agents.runtime.Runtime, one a worker process."""

    def __init__(self) -> None:
        super().__init__("runtime of the rules")

    @asynccontextmanager
    async def conversation(self, spec: ConversationSpec, deadline: float) -> AsyncIterator[RulesConversation]:
        self._require_open()
        conversation = RulesConversation(spec, deadline)
        with self._active.holding(conversation):
            yield conversation


class RulesConversation:
    """Implements agents.runtime.Conversation: each turn asks the role's policy until it answers."""

    def __init__(self, spec: ConversationSpec, deadline: float) -> None:
        self.thread_id, self.reason = new_id(), "stateless" if spec.keep else "initial"
        self.running_turn_id: str | None = None
        self._spec, self._deadline = spec, deadline
        self._stop = asyncio.Event()

    def interrupt(self) -> None:
        self._stop.set()

    async def turn(
        self,
        text: str,
        output_schema: dict[str, Any],
        metadata: Mapping[str, str],
        on_started: Callable[[str], None] | None = None,
        on_limited: Callable[[float | None], None] | None = None,
    ) -> TurnResult:
        """Run one turn and return its end; a failure is a result, not an exception."""
        turn_id = self.running_turn_id = new_id()
        if on_started is not None:
            on_started(turn_id)
        asked = asyncio.ensure_future(self._asked(text, output_schema))
        stopped = asyncio.ensure_future(self._stop.wait())
        left = max(self._deadline - asyncio.get_running_loop().time(), 0.0)
        try:
            await asyncio.wait((asked, stopped), timeout=left, return_when=asyncio.FIRST_COMPLETED)
            return self._ended(turn_id, asked)
        finally:
            self.running_turn_id = None
            asked.cancel()
            stopped.cancel()

    def _ended(self, turn_id: str, asked: asyncio.Future[tuple[str, Usage]]) -> TurnResult:
        if asked.done() and not self._stop.is_set():
            try:
                return self._result(turn_id, "completed", *asked.result())
            except BadRequest as error:
                return self._result(turn_id, "failed", why=failure("bad_request", f"{error.code}: {error}"))
        if self._stop.is_set():
            return self._result(turn_id, "interrupted", why=interrupted())
        return self._result(turn_id, "failed", why=failure("timeout", "the turn did not end before its deadline"))

    def _result(
        self, turn_id: str, status: TurnStatus, text: str = "", spent: Usage | None = None, why: Failure | None = None
    ) -> TurnResult:
        return TurnResult(self.thread_id, turn_id, status, text, spent or Usage(), why, None)

    async def _asked(self, text: str, schema: Mapping[str, Any]) -> tuple[str, Usage]:
        spec, outputs, read = self._spec, list[Output](), 0
        tools = [{"name": one.name} for one in spec.tools.specs()]
        case = case_of(spec.base_instructions, [{"role": "user", "content": text}], tools)
        if (policy := POLICIES.get(case.role)) is None:
            raise BadRequest("unknown_role", f"no rule for the role {case.role!r}")
        size = len(spec.base_instructions) + len(text)
        while True:
            if ANSWER_SECONDS:
                await asyncio.sleep(ANSWER_SECONDS)
            read += size
            move = policy(Case(case.role, case.subject, case.tools, outputs))
            if not isinstance(move, Call):
                answer = orjson.dumps(fill(schema, move))
                counted = usage(read, len(answer))
                return answer.decode(), Usage(**{name: counted[name] for name in _COUNTS})
            given = await spec.tools.call(move.tool, move.arguments)
            written = orjson.dumps(given.payload)
            # As the wire would give it: a value that JSON does not have, such as a date, is text.
            payload: Payload = orjson.loads(written)
            outputs.append(Output(move.tool, payload))
            size += len(written)


_COUNTS = ("input_tokens", "output_tokens", "total_tokens")
