"""What people do with kept threads: reset one, fork it, and ask in a fork."""

from __future__ import annotations

import contextlib
import datetime as dt
import uuid
from collections.abc import Coroutine, Mapping
from dataclasses import replace
from typing import Any, TypeVar

from sqlmodel import Session, col, select

from chordesk.agents.desk_roles import role_of
from chordesk.agents.prompting import instructions
from chordesk.agents.role import Role
from chordesk.agents.role_models import DEFAULT_RUNTIME, LOCAL, RoleModel, models_in_use
from chordesk.agents.roles import offered, toolset_hash
from chordesk.agents.runtime import ConversationSpec, Registered, Scope, ThreadRecord, ThreadRuntime, TurnResult
from chordesk.agents.turn_answers import KEPT_TEXT_CHARS, storable
from chordesk.models import event_log
from chordesk.models.answers import Frozen, output_schema
from chordesk.models.errors import CodexError, UsageError
from chordesk.models.events import DESK, EventType, event
from chordesk.models.tables.columns import utcnow
from chordesk.models.tables.runs import Turn
from chordesk.models.tables.runtime import KeptThread
from chordesk.tasks.bootstrap import Desk
from chordesk.tasks.engine import budgets
from chordesk.tasks.reading.thread_history import newest_copy, transcript_of
from chordesk.tools.market.protocol import MarketData
from chordesk.tools.registry import ToolAnswer
from chordesk.tools.toolsets import TurnTools

T = TypeVar("T")
FORK = "#fork-"
ASKED = 0  # the attempt of a question's turn; those of a step begin at 1


class Forked(Frozen):
    """A fork: its thread, the subject that it is kept under, and the number of turns it has of its parent."""

    thread_id: str
    parent_id: str
    role: str
    subject: str
    model: str
    turns: int


def registered(desk: Desk) -> list[Registered]:
    """Return every record of the registry, the last used first. Raises RedisDown."""

    async def read() -> list[Registered]:
        async with desk.thread_records() as registry:
            return await registry.records()

    return _run(desk, read())


def reset(desk: Desk, thread_id: str) -> Registered:
    async def drop() -> Registered:
        async with desk.thread_records() as registry:
            one = next((row for row in await registry.records() if row.record.thread_id == thread_id), None)
            if one is None or one.record.dropped is not None:
                raise UsageError(f"thread {thread_id} is not current", remedy="see `desk threads list`")
            async with registry.hold(one.role, one.subject, lambda: 0.0) as lease:
                if not lease.held:
                    raise UsageError(f"thread {thread_id} has a turn now", remedy="try again when it has ended")
                record = lease.record
                if record is None or record.thread_id != thread_id:
                    raise UsageError(f"{one.role}/{one.subject} has another thread by now")
                if not await lease.drop("manual"):
                    raise UsageError(f"thread {thread_id} was used meanwhile", remedy="reset it again")
                return one

    one = _run(desk, drop())
    _publish(desk, EventType.THREAD_CLOSED, thread_id, one.role, subject=one.subject, reason="manual")
    return one


def fork(desk: Desk, thread_id: str, before_turn: int, model: str | None = None) -> Forked:
    """Return a new thread with the history of another one before its turn of that number, as `view` counts them; one
    more than the last copies all of it. The fork's turns use `model`, the parent's by default.

    The tools of a thread that is no longer current are not recorded: those of its role are assumed. Raises UsageError,
    CodexError, RedisDown.
    """
    records = {one.record.thread_id: one for one in registered(desk)}
    with desk.store.read() as session:
        kept = session.get(KeptThread, thread_id)
        copy = newest_copy(session, thread_id)
        turns, missing = transcript_of(session, desk.vault, thread_id)
    if kept is None or copy is None or missing is not None:
        raise UsageError(f"thread {thread_id} cannot be forked: {missing or 'it was not kept'}")
    if not 2 <= before_turn <= len(turns) + 1:
        most = len(turns) + 1
        one = "allowed is 2, which copies its only turn" if turns else "it has no turn yet"
        raise UsageError(f"--before-turn {before_turn}: {f'allowed are 2 to {most}' if most > 2 else one}")
    role = role_of(kept.role, desk.settings)
    source = records[thread_id].record if thread_id in records else _record_of(kept)
    ids = tuple(one.turn_id for one in turns)
    where = {"turn_ids": ids, "rollout_digest": copy.digest, "rollout_path": copy.path, "rollout_size": copy.size}
    subject = f"{kept.subject}{FORK}{uuid.uuid4().hex[:8]}"
    at = ids[before_turn - 1] if before_turn <= len(ids) else None
    market = market_of_thread(desk, thread_id, at)
    spec = _spec(desk, role, subject, model or kept.model, source.toolset_hash, market)
    work = _runtime(desk, subject).fork(spec, source.model_copy(update=where), at, _deadline(desk))
    made = _run(desk, work)
    _publish(
        desk, EventType.THREAD_FORKED, made.thread_id, kept.role, subject=subject, reason=made.reason, kept=True,
        parent_id=thread_id, before_turn=at,
    )  # fmt: skip
    return Forked(
        thread_id=made.thread_id,
        parent_id=thread_id,
        role=kept.role,
        subject=subject,
        model=made.model,
        turns=made.turns,
    )


def ask(desk: Desk, thread_id: str, text: str) -> TurnResult:
    """Its turn leads to nothing, and its tokens count in the budgets of the day and of the run that the thread's
    history is from. Raises UsageError, also where a budget is used up, CodexError, RedisDown."""
    one = next((row for row in registered(desk) if row.record.thread_id == thread_id), None)
    if one is None or FORK not in one.subject:
        raise UsageError(
            f"thread {thread_id} is not a fork: a question in it would become part of its role's memory",
            remedy=f"`desk threads fork {thread_id} --before-turn N` makes one",
        )
    if one.record.model in {desk.settings.model, *(used.model for used in models_in_use(desk.settings))}:
        return _ask(desk, one, text)
    # An app-server serves the tools in the form of the models of its settings alone.
    other = Desk(desk.settings.model_copy(update={"model": one.record.model}), desk.name)
    with contextlib.closing(other):
        return _ask(other, one, text)


def _publish(desk: Desk, type_: EventType, thread_id: str, role: str, **payload: Any) -> None:
    with desk.store.session() as session:
        event_log.append(session, [event(type_, DESK, thread_id=thread_id, role=role, **payload)])


def _ask(desk: Desk, one: Registered, text: str) -> TurnResult:
    thread_id = one.record.thread_id
    with desk.store.read() as session:
        last = _last_turn(session, thread_id, None)
        spent = budgets.used_up(session, desk.settings, last.run_id) if last is not None else None
    if last is None:
        raise UsageError(
            f"thread {thread_id} cannot be asked: the runs of its history were deleted, so no budget would count it",
            remedy="fork a thread of a later run; `desk threads list` has them",
        )
    if spent is not None:
        remedy = f"raise {spent.setting}" + ("" if spent.scope == budgets.RUN else ", or ask tomorrow")
        raise UsageError(f"nothing was asked: {spent.reason}", remedy=remedy)
    role = role_of(one.role, desk.settings_of(last.run_id))
    spec = _spec(desk, role, one.subject, one.record.model, one.record.toolset_hash, desk.market_of(last.run_id))
    metadata = {"role": role.key, "thread_id": thread_id}
    runtime = _runtime(desk, one.subject)  # created here, because its creation waits for the loop

    async def turn() -> TurnResult:
        async with runtime.conversation(spec, _deadline(desk)) as conversation:
            if conversation.reason != "resumed":
                raise CodexError(f"the fork cannot be continued: {conversation.reason}", remedy="fork once more")
            return await conversation.turn(text, output_schema(role.schema), metadata)

    started = utcnow()
    result = _run(desk, turn())
    with desk.store.session() as session:
        session.add(_row(desk, one, last, result, started))
    return result


def _row(desk: Desk, one: Registered, last: Turn, result: TurnResult, started: dt.datetime) -> Turn:
    """Return the turn of a question, beside those of the step that the history ends with: of no attempt, so that it is
    not among what the step's report was made from."""
    runtime = LOCAL if one.subject.startswith(f"{LOCAL}@") else DEFAULT_RUNTIME
    model = RoleModel(runtime, one.record.model)
    refused = "refused" if result.refusal is not None else "completed"
    return Turn(
        run_id=last.run_id,
        step_id=last.step_id,
        attempt=ASKED,
        ordinal=0,
        role=one.role,
        subject=one.subject,
        thread_id=result.thread_id,
        thread_reason="resumed",
        codex_turn_id=result.turn_id,
        kept=True,
        provider=model.provider(desk.settings),
        model=model.answered_by(result.model).label(desk.settings),
        status=result.status,
        outcome=refused if result.failure is None else "failed",
        failure_kind=result.failure.kind if result.failure is not None else None,
        text=storable(result.text[:KEPT_TEXT_CHARS]),
        cost_usd=result.cost_usd,
        way=result.way,
        started_at=started,
        finished_at=utcnow(),
        **result.usage.model_dump(),
    )


def market_of_thread(desk: Desk, thread_id: str, before_turn: str | None = None) -> MarketData:
    with desk.store.read() as session:
        last = _last_turn(session, thread_id, before_turn)
    return desk.market if last is None else desk.market_of(last.run_id)


def _last_turn(session: Session, thread_id: str, before_turn: str | None) -> Turn | None:
    """Return the last turn of a thread, or of the history that it was forked from."""
    wanted = select(Turn).where(Turn.thread_id == thread_id).order_by(col(Turn.started_at).desc())
    if before_turn is not None:
        end = select(Turn.started_at).where(Turn.codex_turn_id == before_turn, Turn.thread_id == thread_id)
        if (started_at := session.exec(end).first()) is not None:
            wanted = wanted.where(col(Turn.started_at) < started_at)
    last = session.exec(wanted.limit(1)).first()
    kept = session.get(KeptThread, thread_id)
    if last is not None or kept is None or kept.parent_id is None:
        return last
    return _last_turn(session, kept.parent_id, kept.before_turn)


def _spec(desk: Desk, role: Role, subject: str, model: str, tools_hash: str, market: MarketData) -> ConversationSpec:
    role = offered(role, desk.settings)
    context = replace(desk.tool_context(), market=market, clock=market.clock)
    tools = TurnTools(role.tools, context, seconds=desk.settings.tool_seconds, sink=_unrecorded)
    return ConversationSpec(
        role=role.key,
        subject=subject,
        keep=True,
        base_instructions=instructions(role, desk.settings),
        tools=tools,
        model=model,
        toolset_hash=tools_hash or toolset_hash(tools.specs()),
        scope=Scope(role=role.key, subject=subject),
        mode=role.mode,
        whole=True,
    )


def _unrecorded(arguments: Mapping[str, Any], answer: ToolAnswer) -> None:
    """Ignore a tool call: a recorded one is evidence of its step's report, which was written before. Its events are
    stored."""


def _record_of(kept: KeptThread) -> ThreadRecord:
    at = kept.created_at.timestamp()
    return ThreadRecord(
        thread_id=kept.thread_id, turns=0, last_turn_id=None, created_at=at, updated_at=at, reason=kept.reason,
        toolset_hash="", binary_version="", home="", model=kept.model,
    )  # fmt: skip


def _deadline(desk: Desk) -> float:
    return desk.loop.loop.time() + desk.settings.turn_seconds


def _runtime(desk: Desk, subject: str) -> ThreadRuntime:
    """Return the runtime of a thread: its subject begins with its provider."""
    return desk.runtime_of(LOCAL if subject.startswith(f"{LOCAL}@") else DEFAULT_RUNTIME)


def _run(desk: Desk, work: Coroutine[Any, Any, T]) -> T:
    return desk.loop.submit(work).result()
