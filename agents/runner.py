"""Run of one role on one subject: prompt, conversation, turn, validation, at most one turn more, and its rows.

The result is an outcome and the rows that document it; nothing is written here.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import hashlib
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from sqlmodel import SQLModel

from chordesk.agents.desk_roles import role_approvals
from chordesk.agents.first_events import events_of
from chordesk.agents.prompting import Fit, Prompt, answers_block, fitted, hits_wanted, own_prompts, render
from chordesk.agents.providers.provider_limits import LIMITS, is_of_plan
from chordesk.agents.role import Role
from chordesk.agents.role_models import (
    APP_SERVERS,
    LOCAL,
    RULES,
    RoleModel,
    keeps,
    limits_of,
    local_url,
    role_models,
    search_hosts,
    substitute_of,
)
from chordesk.agents.roles import TOOLS, offered, toolset_hash
from chordesk.agents.runtime import (
    THREAD_ANSWERS,
    Conversation,
    ConversationSpec,
    Observer,
    Opening,
    RogueCall,
    Runtime,
    Scope,
    TurnResult,
    has_history,
)
from chordesk.agents.thesis_pooling import kept
from chordesk.agents.turn_answers import (
    KEPT_TEXT_CHARS,
    AnswerError,
    RecordedCall,
    judge,
    loaded,
    next_text,
    recorded,
    storable,
)
from chordesk.models.analysis import Depth
from chordesk.models.answers import (
    Completed,
    Failed,
    Interrupted,
    Outcome,
    Refused,
    ReportStatus,
    RogueKind,
    Skipped,
    bounded_schema,
    output_schema,
    plain_name,
)
from chordesk.models.database.blobs import digest_of
from chordesk.models.errors import DeskError, Postponed, kind_of
from chordesk.models.settings import Settings
from chordesk.models.tables.columns import new_id, utcnow
from chordesk.models.tables.runs import Artifact, ToolCall, Turn
from chordesk.models.text import utc
from chordesk.models.thesis import KeptThesis, Thesis
from chordesk.models.urls import without_login
from chordesk.tools.market.protocol import MarketData
from chordesk.tools.registry import ToolAnswer, ToolContext, ToolImage, Toolset, failed
from chordesk.tools.toolsets import KEPT_CHARS, LEFT_OUT, Given, TurnTools, in_letters, lines_of


class Gate(Protocol):
    """Admits the turns of one model. A turn that may not start raises Postponed: nothing was begun or recorded."""

    def wait(self, turn_seconds: float) -> float:
        """Return the seconds that a turn which may take so long can wait for its place."""

    async def check(self) -> None: ...

    def turn(self, ticket: str, until: float) -> AbstractAsyncContextManager[None]:
        """Hold a place among the turns in flight for the length of the block, first come first served. ticket: a
        postponed turn keeps its place in the line with the same ticket. until: loop time to which it waits. Raises
        Postponed."""

    def limited(self, reset_seconds: float | None) -> None: ...

    async def park(self, reset_seconds: float | None, why: str, *, plan: bool = False) -> float | None: ...

    async def tried(self, *, answered: bool) -> None: ...

    async def used(self, run_id: str) -> None:
        """A turn of a run has ended, by which its account's plan may have lost something."""


class OpenGate:
    """A gate that admits every turn."""

    def wait(self, turn_seconds: float) -> float:
        return 0.0

    async def check(self) -> None:
        return None

    def turn(self, ticket: str, until: float) -> AbstractAsyncContextManager[None]:
        return nullcontext()

    def limited(self, reset_seconds: float | None) -> None:
        return None

    async def park(self, reset_seconds: float | None, why: str, *, plan: bool = False) -> float | None:
        return None

    async def tried(self, *, answered: bool) -> None:
        return None

    async def used(self, run_id: str) -> None:
        return None


Witness = Callable[[Turn, ToolCall], None]

# Kept part of a tool's answer and of a turn's text; the whole is in the thread's rollout.
KEPT_OUTPUT_CHARS = 8_000
MOST_NOTE = 300  # characters of a note on rogue calls
# Most model calls of a turn, by the setting `depth`, where the runtime makes the calls itself.
MODEL_CALLS = {"quick": 8, "standard": 12, "deep": 20}


@dataclass(frozen=True, slots=True)
class Assignment:
    """One role's work."""

    run_id: str
    step_id: str
    attempt: int
    role: Role
    subject: str  # names the thread
    brief: Mapping[str, Any]  # data of the prompt's subject block
    opening: Opening = "same"  # how to open a kept thread
    memory: str | None = None  # what the desk remembers (see `question`)
    # model, depth: in place of the role's and the settings' own
    model: RoleModel | None = None
    depth: Depth | None = None
    given: Sequence[Given] = ()  # answers that its tools gave a moment ago: the same is not asked anew


class InterruptSignal:
    """Signal that ends one assignment from outside: its turn as interrupted, or the wait for one. For the loop's
    thread."""

    def __init__(self) -> None:
        self._asked = False
        self._end: Callable[[], object] | None = None

    def ask(self) -> None:
        self._asked = True
        if self._end is not None:
            self._end()

    def by(self, end: Callable[[], object]) -> None:
        self._end = end
        if self._asked:
            end()


@dataclass(slots=True)
class RoleRun:
    """Result of an assignment."""

    outcome: Outcome
    turns: list[Turn] = field(default_factory=list)
    calls: list[ToolCall] = field(default_factory=list)
    has_data: bool = False  # a data tool answered with data; without one the answer counts for nothing
    artifacts: list[Artifact] = field(default_factory=list)  # pictures that the calls gave
    recorded: Sequence[RecordedCall] = ()  # `calls` with their whole answers, in the same order
    question: Mapping[str, Any] = field(default_factory=dict)  # the subject that the model was given
    model: RoleModel | None = None  # the one that was asked, None where no turn was begun
    left_out: Sequence[str] = ()  # a line for each thing that it had no room for
    thesis: KeptThesis | None = None  # of the answer, None where its role states none

    @property
    def rows(self) -> tuple[Sequence[SQLModel], ...]:
        return self.turns, self.calls, self.artifacts

    @property
    def last_turn(self) -> Turn | None:
        return self.turns[-1] if self.turns else None

    @property
    def value(self) -> dict[str, Any]:
        return self.outcome.value if isinstance(self.outcome, Completed) else {}

    @property
    def status(self) -> ReportStatus:
        """Set by code, whatever the model wrote: an answer that rests on no data is `no_data`."""
        return self._status[0]

    @property
    def reason(self) -> str | None:
        """Why its status is not `completed`."""
        return self._status[1]

    @property
    def _status(self) -> tuple[ReportStatus, str | None]:
        outcome = self.outcome
        if isinstance(outcome, Refused):
            return ReportStatus.REFUSED, outcome.text
        if isinstance(outcome, Skipped):
            return (ReportStatus.NO_DATA if outcome.no_data else ReportStatus.SKIPPED), outcome.reason
        if isinstance(outcome, Failed):
            return ReportStatus.FAILED, f"{outcome.kind}: {outcome.message}"
        if isinstance(outcome, Interrupted):
            return ReportStatus.FAILED, "interrupted"
        if not self.has_data:
            return ReportStatus.NO_DATA, self._no_data_reason()
        return ReportStatus.COMPLETED, None

    def _no_data_reason(self) -> str:
        if not self.calls:
            return "no data tool was called"
        without = dict.fromkeys(call.tool for call in self.calls if not call.has_data)
        if without:
            return "no data from " + ", ".join(without)
        return f"nothing to judge by in the answers of {', '.join(dict.fromkeys(call.tool for call in self.calls))}"

    @property
    def rogue_note(self) -> str | None:
        """Which tools it called that it did not have, and how."""
        named = dict.fromkeys(f"{call.tool} ({call.rogue})" for call in self.calls if call.rogue is not None)
        return f"rogue calls: {', '.join(named)}"[:MOST_NOTE] if named else None

    @property
    def left_out_entry(self) -> dict[str, list[str]]:
        """What it had no room for, as an entry of its step's result; empty where it had room for all."""
        return {LEFT_OUT: list(self.left_out)} if self.left_out else {}


async def _unknown(_model: RoleModel) -> None:
    return None


class Runner:
    """Runs assignments. runtimes: by name. context: returns the tools' context of a run, with its settings. gate_of:
    returns the gate of a model's turns. size_of: returns the tokens of a model's context, None where they are not
    known. witness: gets a rogue call while its turn still runs, with the turn's row as it is if it never ends.
    observer: gets the events of the calls that code makes before a turn; all others are its runtime's."""

    def __init__(
        self,
        runtimes: Mapping[str, Runtime],
        settings: Settings,
        context: Callable[[str], ToolContext],
        gate_of: Callable[[RoleModel], Gate] = lambda _model: OpenGate(),
        size_of: Callable[[RoleModel], Awaitable[int | None]] = _unknown,
        witness: Witness = lambda _turn, _call: None,
        observer: Observer | None = None,
    ) -> None:
        self._observer = observer
        self._runtimes = runtimes
        self._approvals = role_approvals(settings)
        self._context = context
        self._gate_of = gate_of
        self._size_of = size_of
        self._witness = witness

    async def run(self, job: Assignment, halt: InterruptSignal | None = None) -> RoleRun:
        """Run one assignment. A fault of the model, the runtime or the prompt's data is an outcome; only cancellation
        and Postponed are raised. A halt that comes while the turn runs is an outcome too (Interrupted); one that comes
        earlier cancels."""
        halt = halt or InterruptSignal()
        task = asyncio.current_task()
        assert task is not None
        halt.by(task.cancel)
        context = self._context(job.run_id)
        settings = context.settings
        if job.depth is not None:
            settings = settings.model_copy(update={"depth": job.depth})
        job = replace(job, role=offered(job.role, settings))
        model, gate, instead = await self._open(settings, job)
        record = _Record(job, settings, model, self._witness, search_hosts(settings, job.role.key, context.clock.day))
        record.instead = instead
        shown = Fit(job.brief, job.memory)
        try:
            shown = fit_job(job, settings, model, await self._size_of(model))
            tag, given = cite_tag(job.step_id, job.attempt), job.given
            tools = TurnTools(job.role.tools, context, settings.tool_seconds, record.answered, shown.room, tag, given)
            scope = thread_scope(settings, model, context.market)
            outcome = await self._converse(job, shown, scope, tools, record, halt, gate)
        except Postponed:
            raise
        except DeskError as error:
            outcome = Failed(kind=kind_of(error), retryable=error.retryable, message=str(error))
            record.failed_to_start(outcome)
        has_data = rests_on_data(job, record.answers)
        recorded = record.answers[: len(record.calls)]
        subject = {**shown.brief, "memory": shown.memory}
        left_out = [*shown.left_out, *answers_left_out(recorded)]
        thesis = kept_thesis(outcome, job, recorded)
        return RoleRun(
            outcome, record.turns, record.calls, has_data, record.artifacts, recorded, subject, model, left_out, thesis
        )

    async def _open(self, settings: Settings, job: Assignment) -> tuple[RoleModel, Gate, str | None]:
        """Return the model of a job with its gate; while it rests, the user's substitute for it, and why. Raises
        Postponed."""
        model = job.model or role_models(settings)[job.role.key]
        gate = self._gate_of(model)
        try:
            await gate.check()
        except Postponed as error:
            other = substitute_of(settings, job.role.key, model) if error.until is not None else None
            if other is None or error.until is None:
                raise
            gate = self._gate_of(other)
            try:
                await gate.check()
            except Postponed as also:
                if also.until is None or also.until <= error.until:
                    raise
                raise error from None  # it rests for longer than the first one
            return other, gate, f"in place of {model.label(settings)}, which rests until {utc(error.until)}"
        return model, gate, None

    async def _converse(
        self,
        job: Assignment,
        shown: Fit,
        scope: str,
        tools: Toolset,
        record: _Record,
        halt: InterruptSignal,
        gate: Gate,
    ) -> Outcome:
        seen = replace(job, brief=shown.brief, memory=shown.memory)  # the answer is still checked by all of the job
        prompt = question(seen, record.settings)
        spec = self._spec(job, scope, tools, record, prompt)
        schema = output_schema(job.role.schema)
        metadata = {"run_id": job.run_id, "step_id": job.step_id, "attempt": str(job.attempt), "role": job.role.key}
        limits = limits_of(record.settings, job.role.key, record.model)
        until = asyncio.get_running_loop().time() + gate.wait(limits.turn_seconds)
        opening = self._runtimes[record.model.runtime].conversation(spec, until + limits.turn_seconds)
        # The slot is taken last: a turn that waits for its app-server would keep others from theirs.
        async with opening as conversation, gate.turn(job.step_id, until):
            halt.by(conversation.interrupt)
            record.thread = conversation.thread_id, conversation.reason
            # Only now is it known whether a kept thread was resumed.
            afresh = job.memory is not None and not has_history(conversation.reason)
            started = utcnow()
            first = await first_answers(job, tools)
            asked = (question(seen, record.settings, afresh=True) if afresh else prompt).user
            text = f"{asked.rstrip()}\n\n{answers_block(first)}" if first else asked
            begun: str | None = None
            tell = self._teller(spec.scope, record, conversation)
            for last in (False, True):
                result = await conversation.turn(text, schema, metadata, tell, gate.limited)
                tell = None
                why = result.failure
                if why is not None and why.kind in LIMITS:
                    # Before its place is free: the next turn would meet the same limit.
                    await gate.park(why.reset_seconds, why.message, plan=is_of_plan(why))
                else:
                    await gate.tried(answered=why is None)
                await gate.used(job.run_id)
                judged = judge(result, job.role.schema, begun)
                outcome = completed(judged.outcome, job, record.answers)
                record.turn(conversation, result, outcome, started, judged.done)
                again = next_text(outcome, judged.begun)
                if last or again is None:
                    break
                text, begun, started = again, judged.begun, utcnow()
        return outcome

    def _teller(self, scope: Scope, record: _Record, conversation: Conversation) -> Callable[[str], None] | None:
        """Return what tells of the calls so far, once their turn has an id. Rules tell of no turn."""
        observer, made = self._observer, tuple(record.answers)
        if observer is None or not made or record.model.runtime == RULES.runtime:
            return None

        def tell(turn_id: str) -> None:
            observer.record(scope, *events_of(scope, conversation.thread_id, turn_id, made))

        return tell

    def _spec(self, job: Assignment, scope: str, tools: Toolset, record: _Record, prompt: Prompt) -> ConversationSpec:
        model = record.model
        approvals = job.role.approvals | self._approvals.get(job.role.key, frozenset())
        return ConversationSpec(
            role=job.role.key,
            subject=f"{scope}/{job.subject}",
            keep=keeps(job.role, record.settings),
            base_instructions=prompt.base_instructions,
            tools=tools,
            model=model.model,
            effort=model.effort,
            toolset_hash=toolset_hash(
                tools.specs(), approvals, record.web_search, own_prompts(record.settings).get(job.role.key)
            ),
            opening=job.opening,
            scope=Scope(job.run_id, job.step_id, job.attempt, job.role.key, job.subject),
            approvals=approvals,
            mode=job.role.mode,
            fallbacks=model.fallbacks,
            model_calls=MODEL_CALLS[record.settings.depth],
            web_search=record.web_search,
            limits=limits_of(record.settings, job.role.key, model),
            mask=record.settings.mask,
            tools_first=not rests_on_data(job, ()) and not first_calls(job),
            bounded=bounded_schema(job.role.schema, known_choices(job, record.settings)),
            on_rogue=record.rogue,
        )


@dataclass(slots=True)
class _Record:
    """Turns and tool calls as rows, in the order in which they happened; the model's own searches are calls too."""

    job: Assignment
    settings: Settings
    model: RoleModel
    witness: Witness
    web_search: tuple[str, ...] | None = None
    instead: str | None = None  # why another model than the role's is asked
    thread: tuple[str, str] | None = None  # of the turn that runs, and why it is this one
    turns: list[Turn] = field(default_factory=list)
    calls: list[ToolCall] = field(default_factory=list)
    answers: list[RecordedCall] = field(default_factory=list)
    artifacts: list[Artifact] = field(default_factory=list)
    _turn_id: str = field(default_factory=new_id)  # of the turn that runs
    _witnessed: dict[tuple[dt.datetime, str], str] = field(default_factory=dict)  # ids of rows, by time and tool

    def answered(self, arguments: Mapping[str, Any], answer: ToolAnswer) -> None:
        if answer.rogue is RogueKind.UNKNOWN and answer.tool in TOOLS:
            answer = replace(answer, rogue=RogueKind.FOREIGN)
        self.answers.append(call := RecordedCall(arguments, answer, utcnow()))
        if answer.rogue is not None:
            self._witness(call)

    def rogue(self, call: RogueCall) -> None:
        """Take a rogue call of the turn that runs: where its worker is killed, no result has it."""
        self._witness(rogue_call(call, self._own))

    def _witness(self, call: RecordedCall) -> None:
        row = self._call(call, len(self.calls) + len(self._witnessed))
        self._witnessed[call.at, call.answer.tool] = row.id
        thread_id, reason = self.thread or (None, None)
        self.witness(self._row(call.at, "interrupted", Interrupted(), thread_id=thread_id, thread_reason=reason), row)

    @property
    def _own(self) -> set[str]:
        return {tool.name for tool in self.job.role.tools}

    def turn(
        self, conversation: Conversation, result: TurnResult, outcome: Outcome, started: Any, done: Sequence[str] = ()
    ) -> None:
        row = self._row(
            started,
            result.status,
            outcome,
            thread_id=result.thread_id,
            thread_reason=conversation.reason,
            codex_turn_id=result.turn_id,
            text=storable(result.text[:KEPT_TEXT_CHARS]),
            answered_by=self.model.answered_by(result.model),
            cost_usd=result.cost_usd,
            way="; ".join(filter(None, (result.way, *done, self.instead))) or None,
            **result.usage.model_dump(),
        )
        self.turns.append(row)
        self._turn_id = new_id()
        seen = len(self.calls)
        searches = [recorded(search, self.web_search) for search in result.searches]
        rogue = [rogue_call(call, self._own) for call in result.rogue]
        self.answers[seen:] = sorted([*self.answers[seen:], *searches, *rogue], key=lambda call: call.at)
        for ordinal, call in enumerate(self.answers[seen:], start=seen):
            self.calls.append(self._call(call, ordinal, row.id))
            if call.answer.image is not None:
                self.artifacts.append(self._artifact(self.calls[-1], call.answer.image))

    def _call(self, call: RecordedCall, ordinal: int, turn_id: str | None = None) -> ToolCall:
        arguments, answer, at = call
        return ToolCall(
            id=self._witnessed.get((at, answer.tool)) or new_id(),
            turn_id=turn_id or self._turn_id,
            ordinal=ordinal,
            tool=plain_name(answer.tool) if answer.rogue is not None else storable(answer.tool),
            arguments=storable(dict(arguments)),
            output=answer.text()[:KEPT_OUTPUT_CHARS],
            success=answer.success,
            has_data=answer.success and answer.payload.get("available") is True,
            seconds=round(answer.seconds, 6),
            rogue=answer.rogue,
        )

    def _artifact(self, call: ToolCall, image: ToolImage) -> Artifact:
        return Artifact(
            run_id=self.job.run_id,
            turn_id=call.turn_id,
            call_id=call.id,
            kind=image.mime_type,
            digest=digest_of(image.data),
            size=len(image.data),
        )

    def failed_to_start(self, outcome: Outcome) -> None:
        self.turns.append(self._row(utcnow(), "failed", outcome))

    def _row(
        self, started: Any, status: str, outcome: Outcome, answered_by: RoleModel | None = None, **more: Any
    ) -> Turn:
        return Turn(
            id=self._turn_id,
            run_id=self.job.run_id,
            step_id=self.job.step_id,
            attempt=self.job.attempt,
            ordinal=len(self.turns),
            role=self.job.role.key,
            subject=self.job.subject,
            kept=keeps(self.job.role, self.settings) and self.model.runtime in APP_SERVERS,
            provider=self.model.provider(self.settings),
            model=(answered_by or self.model).label(self.settings),
            status=status,
            outcome=outcome.outcome,
            failure_kind=outcome.kind if isinstance(outcome, Failed) else None,
            started_at=started,
            finished_at=utcnow(),
            **more,
        )


def fit_job(job: Assignment, settings: Settings, model: RoleModel, context: int | None) -> Fit:
    if context is None:
        return Fit(job.brief, job.memory)

    def asked(brief: Mapping[str, Any], memory: str | None) -> str:
        return question(replace(job, brief=brief, memory=memory), settings, afresh=True).user

    answers = THREAD_ANSWERS if keeps(job.role, settings) else 0
    limits = limits_of(settings, job.role.key, model)
    return fitted(job.role, model, settings, job.brief, job.memory, asked, context, limits, answers)


def first_calls(job: Assignment) -> list[tuple[str, Mapping[str, Any]]]:
    """Return what the role's first calls are for this job, by the tools that it has."""
    asked = job.role.first(job.brief) if job.role.first is not None else ()
    own = {tool.name for tool in job.role.tools}
    return [(name, arguments) for name, arguments in asked if name in own]


async def first_answers(job: Assignment, tools: Toolset) -> list[tuple[str, Mapping[str, Any], Mapping[str, Any]]]:
    """One after another: the ids of the answers are in their order, whatever the sources' speed."""
    return [(name, asked, (await tools.call(name, asked)).payload) for name, asked in first_calls(job)]


def answers_left_out(calls: Sequence[RecordedCall]) -> list[str]:
    """Return a line for each list of a tool's answer that was cut short to fit the model's context."""
    cut = [(call.answer.tool, call.answer.payload.get(LEFT_OUT)) for call in calls]
    return [f"{tool} {line}" for tool, left in cut if isinstance(left, Mapping) for line in lines_of(left)]


def question(job: Assignment, settings: Settings, *, afresh: bool = False) -> Prompt:
    reports = job.role.mode == "research" and job.role.reports
    memory = job.memory if afresh or reports else None
    remembers = memory is not None or reports
    subject = {**job.brief, "memory": memory} if remembers else job.brief
    return render(job.role, subject, settings, afresh=afresh and memory is not None and job.role.keeps_thread)


def completed(outcome: Outcome, job: Assignment, calls: Sequence[RecordedCall]) -> Outcome:
    """With the fields that code adds; an answer that contradicts the turn's tool answers is invalid."""
    complete = job.role.complete
    if not isinstance(outcome, Completed):
        return outcome
    try:
        kept_thesis(outcome, job, calls)
        return outcome if complete is None else Completed(value=storable(complete(outcome.value, job.brief, calls)))
    except AnswerError as error:
        return Failed(kind="invalid_output", retryable=False, message=str(error))


def kept_thesis(outcome: Outcome, job: Assignment, calls: Sequence[RecordedCall]) -> KeptThesis | None:
    """Return the thesis of an answer, None where it has none. Raises AnswerError."""
    stated = outcome.value.get("thesis") if isinstance(outcome, Completed) else None
    return kept(Thesis.model_validate(stated), job.brief, calls) if stated is not None else None


FOUR_LETTERS = 1 + 26 + 26**2 + 26**3  # the first number that has four: a prompt's length is no matter of luck


def cite_tag(step_id: str, attempt: int) -> str:
    """Return the four letters that begin the ids of a turn's tool answers: other turns of a thread have others."""
    digest = hashlib.sha256(f"{step_id}/{attempt}".encode()).digest()
    return in_letters(FOUR_LETTERS + int.from_bytes(digest[:3]) % 26**4)


def rogue_call(call: RogueCall, own: Collection[str]) -> RecordedCall:
    if call.tool in own:
        from chordesk.agents.calls.call_arguments import problem_in  # few calls are malformed

        kind, why = RogueKind.MALFORMED, problem_in(call.arguments)
    elif call.tool in TOOLS:
        kind, why = RogueKind.FOREIGN, "this turn does not have the tool"
    else:
        kind, why = RogueKind.UNKNOWN, "there is no such tool"
    given = loaded(call.arguments)
    arguments = given if given is not None else {"text": call.arguments[:KEPT_CHARS]}
    return RecordedCall(arguments, failed(call.tool, f"not called: {why}", rogue=kind), call.at)


def rests_on_data(job: Assignment, calls: Sequence[RecordedCall]) -> bool:
    if job.role.evidence is not None:
        return job.role.evidence(job.brief, calls)
    return not job.role.tools or any(call.answer.has_data for call in calls)


def thread_scope(settings: Settings, model: RoleModel, market: MarketData) -> str:
    """Return the part of a kept thread's key beside role and subject: provider, market and account. A replay's day is
    part of it, or an earlier day would be shown what a later one has left in the history. Of the provider's URL it is
    what leads to the endpoint: the scope is shown, and outlives a password or key that is changed."""
    provider = model.provider(settings)
    url = {LOCAL: local_url(settings), "endpoint": settings.provider_url}.get(provider)
    provider = provider if url is None else f"{provider}@{without_login(url)}"
    day = market.clock.day
    place = market.name if day is None else f"{market.name}-{day}"
    return f"{provider}/{place}/{settings.account}"


def known_choices(job: Assignment, settings: Settings) -> dict[str, Any]:
    """Return what an answer's fields may be, as far as the subject says it: its symbols, unless they are hidden from
    the model, and the beginning of the turn's cites."""
    symbols = job.brief.get("symbols")
    hidden = bool(settings.mask) or not isinstance(symbols, list)
    return {
        "symbols": [] if hidden else [str(one) for one in symbols or ()],
        "candidates": hits_wanted(job.role),
        "cites": cite_tag(job.step_id, job.attempt),
    }
