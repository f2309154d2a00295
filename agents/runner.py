"""Runs one role on one subject: prompt, conversation, turn, validation, at most one repair turn, and the record of it.

What comes back is an outcome and the rows that tell how it came about; nothing is written here.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import orjson
from pydantic import BaseModel, ValidationError

from agents.codex.conversation import Conversation, TurnResult
from agents.codex.runtime import CodexRuntime
from agents.codex.spec import ApprovalKind, ConversationSpec, Opening, Scope, goes_on
from agents.gate import Gate, OpenGate
from agents.roles import Prompt, Role, render, role_approvals
from models.columns import utcnow
from models.errors import DeskError, Postponed, kind_of
from models.research import Completed, Failed, Interrupted, Outcome, Refused, output_schema
from models.settings import Settings
from models.tables import ToolCall, Turn
from models.urls import without_login
from tools.registry import ToolAnswer, ToolContext, ToolSpec
from tools.toolsets import Toolset, toolset_for

# What is kept of a tool's answer and of a turn's text; the whole is in the thread's rollout.
KEPT_OUTPUT_CHARS = 8_000
KEPT_TEXT_CHARS = 16_000
_EXCERPT_CHARS = 300
# Between what is wrong with an answer and how it began.
_BEGAN = "; the answer began: "


@dataclass(frozen=True, slots=True)
class Assignment:
    """One role's work: `subject` names the thread, `brief` is the data of the prompt's subject block, `opening` says
    what to do with a thread that is kept, `memory` what came before (see `question`)."""

    run_id: str
    step_id: str
    attempt: int
    role: Role
    subject: str
    brief: Mapping[str, Any]
    opening: Opening = "same"
    memory: str | None = None


class Halt:
    """Ends one assignment from outside: its turn as interrupted, or the wait for one. For the loop's thread alone."""

    def __init__(self) -> None:
        self._asked = False
        self._end: Callable[[], object] | None = None

    def ask(self) -> None:
        self._asked = True
        if self._end is not None:
            self._end()

    def by(self, end: Callable[[], object]) -> None:
        """What ends the assignment from now on; called at once when that was asked for before."""
        self._end = end
        if self._asked:
            end()


@dataclass(slots=True)
class RoleRun:
    """How an assignment ended. `has_data` is False when no data tool answered with data: then the words rest on
    nothing, whatever they say. called_at: when each of `calls` was answered."""

    outcome: Outcome
    turns: list[Turn] = field(default_factory=list)
    calls: list[ToolCall] = field(default_factory=list)
    has_data: bool = False
    called_at: list[dt.datetime] = field(default_factory=list)


class Answered(NamedTuple):
    """One tool call of the model's."""

    arguments: Mapping[str, Any]
    answer: ToolAnswer
    at: dt.datetime


class Runner:
    def __init__(
        self,
        runtime: CodexRuntime,
        settings: Settings,
        context: Callable[[str], ToolContext],
        gate: Gate | None = None,
    ) -> None:
        self._gate: Gate = gate or OpenGate()
        self._runtime = runtime
        self._settings = settings
        self._approvals = role_approvals(settings)
        self._context = context

    async def run(self, job: Assignment, halt: Halt | None = None) -> RoleRun:
        """What the model, the runtime or the prompt's data do wrong is an outcome; only cancellation
        and Postponed are raised.

        A halt that comes while the turn runs is an outcome too (Interrupted); one that comes earlier cancels.
        """
        halt = halt or Halt()
        task = asyncio.current_task()
        assert task is not None
        halt.by(task.cancel)
        await self._gate.check()
        answers: list[Answered] = []
        tools = toolset_for(
            job.role.tools,
            self._context(job.run_id),
            seconds=self._settings.tool_seconds,
            sink=lambda arguments, answer: answers.append(Answered(arguments, answer, utcnow())),
        )
        record = _Record(job, self._settings)
        try:
            outcome = await self._converse(job, tools, record, answers, halt)
        except Postponed:
            raise
        except DeskError as error:
            outcome = Failed(kind=kind_of(error), retryable=error.retryable, message=str(error))
            record.failed_to_start(outcome)
        has_data = any(one.answer.has_data for one in answers)
        return RoleRun(outcome, record.turns, record.calls, has_data, record.called_at)

    async def _converse(
        self,
        job: Assignment,
        tools: Toolset,
        record: _Record,
        answers: list[Answered],
        halt: Halt,
    ) -> Outcome:
        prompt = question(job, self._settings)
        approvals = job.role.approvals | self._approvals.get(job.role.key, frozenset())
        spec = ConversationSpec(
            role=job.role.key,
            subject=f"{thread_scope(self._settings)}/{job.subject}",
            keep=job.role.keeps_thread,
            base_instructions=prompt.base_instructions,
            tools=tools,
            model=self._settings.model,
            toolset_hash=toolset_hash(tools.specs(), approvals),
            opening=job.opening,
            scope=Scope(job.run_id, job.step_id, job.attempt, job.role.key, job.subject),
            approvals=approvals,
            mode=job.role.mode,
        )
        schema = output_schema(job.role.output)
        metadata = {"run_id": job.run_id, "step_id": job.step_id, "attempt": str(job.attempt), "role": job.role.key}
        deadline = asyncio.get_running_loop().time() + self._gate.wait_seconds + self._settings.turn_seconds
        # The place is taken last: one that waited for its app-server would keep others from theirs.
        async with self._runtime.conversation(spec, deadline) as conversation, self._gate.turn():
            halt.by(conversation.interrupt)
            # Whether a kept thread could be gone on with is known only now.
            afresh = job.memory is not None and not goes_on(conversation.reason)
            text = (question(job, self._settings, afresh=True) if afresh else prompt).user
            for repair in (False, True):
                started = utcnow()
                result = await conversation.turn(text, schema, metadata, on_limited=self._gate.limited)
                outcome = judge(result, job.role.output)
                record.turn(conversation, result, outcome, started, answers)
                if repair or not (isinstance(outcome, Failed) and outcome.kind == "invalid_output"):
                    break
                text = repair_text(outcome.message)
        return outcome


@dataclass(slots=True)
class _Record:
    """Turns and tool calls as rows, in the order in which they happened."""

    job: Assignment
    settings: Settings
    turns: list[Turn] = field(default_factory=list)
    calls: list[ToolCall] = field(default_factory=list)
    called_at: list[dt.datetime] = field(default_factory=list)
    seen: int = 0

    def turn(
        self,
        conversation: Conversation,
        result: TurnResult,
        outcome: Outcome,
        started: Any,
        answers: Sequence[Answered],
    ) -> None:
        row = self._row(started, result.status, outcome)
        row.thread_id, row.thread_reason, row.codex_turn_id = result.thread_id, conversation.reason, result.turn_id
        row.text = storable(result.text[:KEPT_TEXT_CHARS])
        for name, value in result.usage.model_dump().items():
            setattr(row, name, value)
        self.turns.append(row)
        for ordinal, (arguments, answer, at) in enumerate(answers[self.seen :], start=self.seen):
            self.called_at.append(at)
            self.calls.append(
                ToolCall(
                    turn_id=row.id,
                    ordinal=ordinal,
                    tool=storable(answer.tool),
                    arguments=dict(arguments),
                    output=answer.text()[:KEPT_OUTPUT_CHARS],
                    success=answer.success,
                    has_data=answer.has_data,
                    seconds=round(answer.seconds, 6),
                )
            )
        self.seen = len(answers)

    def failed_to_start(self, outcome: Outcome) -> None:
        """A turn that never began is a row too: a report must rest on something."""
        self.turns.append(self._row(utcnow(), "failed", outcome))

    def _row(self, started: Any, status: str, outcome: Outcome) -> Turn:
        return Turn(
            run_id=self.job.run_id,
            step_id=self.job.step_id,
            attempt=self.job.attempt,
            ordinal=len(self.turns),
            role=self.job.role.key,
            subject=self.job.subject,
            kept=self.job.role.keeps_thread,
            provider=self.settings.provider,
            model=self.settings.spoken_by,
            status=status,
            outcome=outcome.outcome,
            failure_kind=outcome.kind if isinstance(outcome, Failed) else None,
            started_at=started,
            finished_at=utcnow(),
        )


def question(job: Assignment, settings: Settings, *, afresh: bool = False) -> Prompt:
    """What a role is asked. A validator is told in each question what the desk remembers of its symbol; others are told
    of the past only in a thread that has no history of its own, `afresh`."""
    told = job.memory if afresh or job.role.kind == "validator" else None
    remembers = told is not None or job.role.kind == "validator"
    subject = {**job.brief, "memory": told} if remembers else job.brief
    return render(job.role, subject, settings, afresh=afresh and told is not None and job.role.keeps_thread)


def judge(result: TurnResult, output: type[BaseModel]) -> Outcome:
    """The outcome of one turn: what the model said counts only when it fits the role's schema."""
    if result.status == "interrupted":
        return Interrupted()
    if result.failure is not None:
        return Failed(**storable(result.failure.model_dump()))
    if result.refusal is not None:
        return Refused(text=storable(result.refusal))
    try:
        value = output.model_validate_json(result.text)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False)[0]
        where = ".".join(str(part) for part in first["loc"]) or "the answer"
        excerpt = result.text[:_EXCERPT_CHARS]
        message = f"{where}: {first['msg']}{_BEGAN}{excerpt!r}"
        return Failed(kind="invalid_output", retryable=False, message=message)
    return Completed(value=storable(value.model_dump(mode="json")))


def fault(outcome: Failed) -> str:
    """Why a turn failed, without the words of its answer."""
    return outcome.message.partition(_BEGAN)[0] if outcome.kind == "invalid_output" else outcome.message


def storable(value: Any) -> Any:
    """The same without NUL characters, which a model may write and Postgres cannot hold in text."""
    if isinstance(value, str):
        return value.replace("\x00", "")
    if isinstance(value, list):
        return [storable(item) for item in value]
    if isinstance(value, dict):
        return {key: storable(item) for key, item in value.items()}
    return value


def repair_text(problem: str) -> str:
    return (
        "Your last answer does not fit the required schema. Answer again with JSON that fits it and nothing else; "
        f"change only what is wrong. The problem: {problem}"
    )


def thread_scope(settings: Settings) -> str:
    """What a kept thread belongs to beside its role and subject: provider, market and account. A replay's day is part
    of it, or an earlier day would be shown what a later one has left in the history. Of the provider's URL it is what
    leads to the endpoint: the scope is shown, and outlives a password or key that is changed."""
    url = settings.provider_url
    provider = settings.provider if url is None else f"{settings.provider}@{without_login(url)}"
    market = f"replay-{settings.replay_date}" if settings.market == "replay" else settings.market
    return f"{provider}/{market}/{settings.account}"


def toolset_hash(specs: Sequence[ToolSpec], approvals: frozenset[ApprovalKind] = frozenset()) -> str:
    """SHA-256 over names, descriptions and schemas, and what may be asked of a person: a thread keeps the tools it was
    started with, so a change of these needs a new thread."""
    table: list[Any] = [[spec.name, spec.description, spec.input_schema] for spec in specs]
    table += sorted(approvals)
    return hashlib.sha256(orjson.dumps(table, option=orjson.OPT_SORT_KEYS)).hexdigest()
