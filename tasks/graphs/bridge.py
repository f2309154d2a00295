"""The way from a graph's chat models to this worker's runtime: each call is a turn of the run, behind its gate and its
budgets, and ends with the step."""

from __future__ import annotations

import asyncio
import concurrent.futures
import datetime as dt
import itertools
import threading
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

import orjson
from sqlmodel import Session, col, select

from chordesk.agents.graphs.langchain.ephemeral_turns import (
    ChatAnswer,
    ChatCall,
    ChatError,
    Exchange,
    InvalidReply,
    ModelUnavailable,
    OnText,
    RateLimited,
    error_from,
    spec_of,
)
from chordesk.agents.graphs.tradingagents.data import EMPTY
from chordesk.agents.role_models import RULES, RoleModel, default_model, limits_of, models_in_use
from chordesk.agents.runner import KEPT_OUTPUT_CHARS, RoleRun, rogue_call
from chordesk.agents.runtime import Conversation, RogueCall, Scope, TurnResult
from chordesk.agents.turn_answers import KEPT_TEXT_CHARS, answer_in, cut_off, storable
from chordesk.models import event_log
from chordesk.models.answers import Completed, Failed, Interrupted, Outcome, Refused, RogueKind, plain_name
from chordesk.models.database.store import insert_rows
from chordesk.models.errors import BudgetUsed, DeskError, Postponed
from chordesk.models.events import stored
from chordesk.models.tables.columns import utcnow
from chordesk.models.tables.runs import ToolCall, Turn
from chordesk.tasks.bootstrap import Desk
from chordesk.tasks.engine import budgets
from chordesk.tasks.engine.steps import ClaimedStep
from chordesk.tasks.worker.step_turns import note_once

_LENIENT = orjson.OPT_NON_STR_KEYS


@dataclass(slots=True)
class Record:
    """Rows that are not in the database yet. Threads of a graph share it. last: the turn that a tool's call counts to
    when it names none."""

    last: str | None = None
    turns: list[Turn] = field(default_factory=list)
    calls: list[ToolCall] = field(default_factory=list)
    begun: int = 0  # turns of this attempt
    _asked: dict[str, str] = field(default_factory=dict)
    _counts: dict[str, int] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)  # held for no longer than a look
    _writing: threading.Lock = field(default_factory=threading.Lock)

    @property
    def tokens(self) -> int:
        with self._lock:
            return sum(turn.total_tokens or 0 for turn in self.turns)

    def turn(self, make: Callable[[int], Turn]) -> Turn:
        """Add the row of a turn that has ended. make: is given its place in the attempt."""
        with self._lock:
            row = make(self.begun)
            self.begun += 1
            self.turns.append(row)
            self.last = row.id
            return row

    def asks(self, turn: Turn, call_ids: Sequence[str]) -> None:
        """Note that a turn asked for these calls."""
        with self._lock:
            self._asked.update(dict.fromkeys(call_ids, turn.id))

    def called(
        self, tool: str, arguments: Mapping[str, Any], output: str, *, success: bool, began: dt.datetime,
        ended: dt.datetime, call_id: str = "", rogue: RogueKind | None = None,
    ) -> ToolCall | None:  # fmt: skip
        """None for a call before any turn: it has no row."""
        with self._lock:
            turn_id = self._asked.get(call_id, self.last)
            if turn_id is None:
                return None
            ordinal = self._counts.get(turn_id, 0)
            self._counts[turn_id] = ordinal + 1
            row = ToolCall(
                turn_id=turn_id,
                ordinal=ordinal,
                tool=plain_name(tool) if rogue is not None else storable(tool),
                arguments=storable(orjson.loads(orjson.dumps(dict(arguments), default=str, option=_LENIENT))),
                output=storable(output)[:KEPT_OUTPUT_CHARS],
                success=success,
                has_data=success and bool(output.strip()) and not output.startswith(EMPTY),
                seconds=round((ended - began).total_seconds(), 6),
                rogue=rogue,
            )
            self.calls.append(row)
            return row

    @contextmanager
    def written(self) -> Iterator[Callable[[Session], bool]]:
        """Rows are gone from here when the block ends well; False when an earlier try has written them."""
        with self._writing:
            turns, calls = self.rows()
            tries = itertools.count()
            yield lambda session: _insert(session, turns, calls, again=next(tries) > 0)
            with self._lock:
                self.turns = self.turns[len(turns) :]
                self.calls = self.calls[len(calls) :]

    def rows(self) -> tuple[list[Turn], list[ToolCall]]:
        """Return the rows that are left, each group before the next (foreign keys)."""
        with self._lock:
            return list(self.turns), list(self.calls)


def _insert(session: Session, turns: Sequence[Turn], calls: Sequence[ToolCall], *, again: bool) -> bool:
    for table, rows in ((Turn, turns), (ToolCall, calls)) if again else ():
        ids = [row.id for row in rows]
        if ids and session.exec(select(col(table.id)).where(col(table.id).in_(ids)).limit(1)).first() is not None:
            return False  # the commit was made, its answer was lost
    insert_rows(session, turns)
    insert_rows(session, calls)
    event_log.append(session, stored((turns, calls)))
    return True


T = TypeVar("T")
ROLE = "graph"  # of calls outside of any node


class StepBridge:
    """Bridge of one attempt at a chapter. ended: why no further call begins and nothing more is stored. model: of the
    last call. runs: what telemetry is given of each turn."""

    def __init__(self, desk: Desk, step: ClaimedStep, thread: str, record: Record) -> None:
        self._desk, self._step, self._thread = desk, step, thread
        self._settings = desk.settings_of(step.run_id)
        self._models = has = desk.serving(step.run_id)
        self._served = {one.model: one for one in models_in_use(has.settings) if one != RULES}
        self._served.setdefault(has.settings.model, default_model(has.settings))  # by its name, whatever serves it
        self._calls: dict[asyncio.Task[Any], Conversation | None] = {}
        self.record = record
        self.ended: DeskError | None = None
        self.model: RoleModel | None = None
        self._asked = 0
        self.runs: list[RoleRun] = []
        # The first use of a runtime waits for the loop.
        _ = has.admission, [has.runtime_named(one.runtime) for one in self._served.values()]

    def submit(self, work: Coroutine[Any, Any, T]) -> concurrent.futures.Future[T]:
        return self._desk.loop.submit(work)

    def end(self, why: DeskError) -> None:
        if self.ended is None:
            self.ended = why

    def halt(self, why: DeskError, *, waits: bool) -> None:
        """As interrupted where the step waits for that. For any thread; waits for nothing."""
        self.end(why)
        self._desk.loop.loop.call_soon_threadsafe(self._halt, waits)

    def _halt(self, waits: bool) -> None:
        for task, conversation in list(self._calls.items()):
            if waits and conversation is not None:
                conversation.interrupt()
            else:
                task.cancel()

    def require_going(self) -> None:
        if self.ended is not None:
            raise self.ended

    async def answer(self, call: ChatCall, on_text: OnText | None = None) -> ChatAnswer:
        """Raises ChatError, Postponed and BudgetUsed; the latter two and a rate limit end the step's calls."""
        task = asyncio.current_task()
        assert task is not None
        self.require_going()
        self._calls[task] = None
        try:
            return await self._answer(call, task)
        except asyncio.CancelledError:
            self.require_going()
            raise
        except (RateLimited, Postponed, BudgetUsed) as error:
            self.end(error)
            raise
        except ChatError:
            raise
        except DeskError as error:
            raise error_from(error) from error
        finally:
            del self._calls[task]

    async def _answer(self, call: ChatCall, task: asyncio.Task[Any]) -> ChatAnswer:
        if (why := await asyncio.to_thread(self._used_up)) is not None:
            raise BudgetUsed(why)
        model, node = self._model_of(call), storable(call.node) or ROLE
        gate = self._models.admission.of(model)
        await gate.check()
        limits = limits_of(self._settings, node, model)
        seconds = min(call.seconds, limits.turn_seconds)
        until = asyncio.get_running_loop().time() + gate.wait(limits.turn_seconds)
        step, self._asked = self._step, self._asked + 1
        scope = Scope(step.run_id, step.id, step.attempt, node, step.subject)
        spec = spec_of(
            call, role=node, subject=self._thread, model=model.model, effort=call.effort or model.effort, scope=scope,
            limits=limits,
        )  # fmt: skip
        metadata = {"run_id": step.run_id, "step_id": step.id, "attempt": str(step.attempt), "role": node}
        opening = self._models.runtime_named(model.runtime).conversation(spec, until + seconds)
        async with opening as conversation, gate.turn(f"{step.id}:{self._asked}", until):
            self._calls[task] = conversation
            self.require_going()
            recorded = _Recorded(conversation, partial(self._record, call, model, node))
            answer = await Exchange(call).run(recorded, metadata, gate.limited)
            await gate.tried(answered=True)
            await gate.used(step.run_id)
        self.record.asks(recorded.turns[-1], [str(one["id"]) for one in answer.reply.calls])
        return answer

    def _used_up(self) -> str | None:
        with self._desk.store.read() as session:
            spent = budgets.used_up(session, self._settings, self._step.run_id, self.record.tokens)
        if spent is None:
            return None
        note_once(self._desk, budgets.notice_of(spent, self._step.run_id))
        return spent.reason

    def serving(self, model: str) -> tuple[str, str] | None:
        found = self._served.get(model)
        return (found.provider(self._settings), found.model) if found is not None else None

    def _model_of(self, call: ChatCall) -> RoleModel:
        """Return the model that a call names. Raises ModelUnavailable for one that the desk does not serve."""
        self.model = found = self._served.get(call.model)
        if found is None:
            served = ", ".join(self._served)
            remedy = f"add it to DESK_GRAPH_MODELS where the desk is started, or ask one of {served}"
            raise ModelUnavailable(
                f"this desk does not serve the model {call.model}, which the graph asks", remedy=remedy
            )
        return found

    def _record(
        self, call: ChatCall, model: RoleModel, node: str, conversation: Conversation, result: TurnResult,
        started: dt.datetime, begun: str | None,
    ) -> Turn:  # fmt: skip
        outcome, strange = _judged(call, result, begun)
        step, settings = self._step, self._settings
        turn = self.record.turn(
            lambda ordinal: Turn(
                run_id=step.run_id,
                step_id=step.id,
                attempt=step.attempt,
                ordinal=ordinal,
                role=node,
                subject=self._thread,
                thread_id=result.thread_id,
                thread_reason=conversation.reason,
                codex_turn_id=result.turn_id,
                kept=False,
                provider=model.provider(settings),
                model=model.answered_by(result.model).label(settings),
                status=result.status,
                outcome=outcome.outcome,
                failure_kind=outcome.kind if isinstance(outcome, Failed) else None,
                text=storable(result.text[:KEPT_TEXT_CHARS]),
                cost_usd=result.cost_usd,
                started_at=started,
                finished_at=utcnow(),
                **result.usage.model_dump(),
            )
        )
        made = [*(one for one in result.rogue if one.tool not in call.format.tools), *strange]
        recorded = [rogue_call(one, ()) for one in made]
        rows = [
            self.record.called(
                one.answer.tool, one.arguments, one.answer.text(), success=False, began=one.at, ended=one.at,
                rogue=one.answer.rogue,
            )
            for one in recorded
        ]  # fmt: skip
        self.runs.append(RoleRun(outcome, [turn], [row for row in rows if row], recorded=recorded, model=model))
        return turn


class _Recorded:
    """A conversation whose turns are recorded. turns: their rows."""

    def __init__(
        self, inner: Conversation, record: Callable[[Conversation, TurnResult, dt.datetime, str | None], Turn]
    ) -> None:
        self.thread_id, self.reason = inner.thread_id, inner.reason
        self.turns: list[Turn] = []
        self._inner, self._record = inner, record
        self._begun: str | None = None  # of an answer that was cut off

    async def turn(
        self,
        text: str,
        output_schema: dict[str, Any],
        metadata: Mapping[str, str],
        on_started: Callable[[str], None] | None = None,
        on_limited: Callable[[float | None], None] | None = None,
    ) -> TurnResult:
        started = utcnow()
        result = await self._inner.turn(text, output_schema, metadata, on_started, on_limited)
        turn = self._record(self._inner, result, started, self._begun)
        self._begun = answer_in(result.text).text if turn.failure_kind == "length" else None
        self.turns.append(turn)
        return result

    def interrupt(self) -> None:
        self._inner.interrupt()


def _judged(call: ChatCall, result: TurnResult, begun: str | None) -> tuple[Outcome, Sequence[RogueCall]]:
    """begun: the beginning of its answer, where the turn before was cut off."""
    if result.refusal is not None:
        return Refused(text=storable(result.refusal)), ()
    if result.status == "interrupted":
        return Interrupted(), ()
    if result.failure is not None:
        return Failed(**storable(result.failure.model_dump())), ()
    try:
        call.format.read(result.text, begun)
    except InvalidReply as error:
        if begun is not None or result.cut or error.begun is not None:
            return cut_off(result, begun, str(error)), ()
        strange = [RogueCall(utcnow(), error.tool, result.text)] if error.tool is not None else []
        return Failed(kind="invalid_output", retryable=False, message=storable(str(error))), strange
    return Completed(value={}), ()
