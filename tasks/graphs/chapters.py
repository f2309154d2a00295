"""A chapter of a graph: its nodes run in this thread until the graph ends, the chapter's time is over or the worker is
to end; then the next chapter is a step of its own, which goes on from the checkpoint."""

from __future__ import annotations

import ast
import asyncio
import dataclasses
import datetime as dt
import hashlib
import importlib
import inspect
import math
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import PurePath
from typing import TYPE_CHECKING, Any
from uuid import UUID

import orjson
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.messages import BaseMessage, ToolMessage
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import CheckpointTuple
from langgraph.constants import START
from langgraph.errors import GraphDrained, GraphRecursionError
from langgraph.pregel import Pregel
from langgraph.runtime import RunControl
from langgraph.store.memory import InMemoryStore
from langgraph.types import Command
from pydantic import BaseModel
from sqlmodel import Session, col, func, select

from chordesk.agents.graphs.langchain.ephemeral_turns import CallInterrupted, ChatError, RateLimited, using
from chordesk.agents.graphs.langchain.graph_store import DeskStore
from chordesk.agents.graphs.tradingagents.project import ROLE
from chordesk.agents.providers.liveness import failure
from chordesk.agents.role_models import RoleModel
from chordesk.agents.runtime import ApprovalRequest, Scope
from chordesk.agents.turn_answers import storable
from chordesk.models.errors import (
    BudgetUsed,
    DeskError,
    GraphChanged,
    GraphEndless,
    GraphRaised,
    GraphState,
    GraphWaits,
    LeaseLost,
    Postponed,
)
from chordesk.models.states import ApprovalState, AttemptEnd, StepKind
from chordesk.models.tables.columns import new_id, utcnow
from chordesk.models.tables.runs import Attempt, GraphCheckpoint, Run, Step, Turn
from chordesk.models.tables.runtime import RuntimeApproval
from chordesk.tasks import approval_requests
from chordesk.tasks.approval_requests import INTERRUPT, INTERRUPT_SECONDS
from chordesk.tasks.bootstrap import Desk
from chordesk.tasks.engine import limit_waits, policy
from chordesk.tasks.engine.leases import EndReason, HeldStep, StepEnded
from chordesk.tasks.engine.steps import ClaimedStep, NewStep
from chordesk.tasks.engine.summary import GOES_ON
from chordesk.tasks.graphs.bridge import Record, StepBridge
from chordesk.tasks.graphs.checkpoints import GraphReader, StepSaver
from chordesk.tasks.graphs.graph_factory import load_graph, names_of, only_async
from chordesk.tasks.worker.endings import Done, Ending, RetryLater, attempts_of, postponed
from chordesk.tasks.worker.step_turns import park, rests, why_not_wait

if TYPE_CHECKING:
    from chordesk.models.database.store import Store


ANSWER = "answer"  # id of the question that a person may answer with text
_LIBRARIES = frozenset({"langchain", "langchain_core", "langgraph", "chordesk"})


@dataclass(frozen=True, slots=True)
class Question:
    """What a graph asks. key: of this question alone, also where a node asks several, one after another. interrupt:
    LangGraph's id, None at a breakpoint."""

    key: str
    node: str
    value: Any
    interrupt: str | None = None


class GraphAsks(Exception):
    """The graph waits for the answers to these questions."""

    def __init__(self, questions: Sequence[Question]) -> None:
        super().__init__(f"the graph asks {len(questions)} questions")
        self.questions = questions


def questions_of(graph: Pregel[Any, Any, Any, Any], config: RunnableConfig, saver: GraphReader) -> list[Question]:
    """Return what the graph asks now; empty when it has ended or may go on."""
    state, saved = graph.get_state(config), saver.get_tuple(config)
    if state.interrupts:
        given = saver.answers_given()
        nodes_of = {one.id: task.name for task in state.tasks for one in task.interrupts}
        return [
            Question(f"{one.id}:{given.get(one.id, 0)}", nodes_of.get(one.id, ""), one.value, one.id)
            for one in state.interrupts
        ]
    if saved is None or not state.next:
        return []
    seen = {
        node: max(versions.values())
        for node, versions in saved.checkpoint["versions_seen"].items()
        if node in graph.nodes and versions
    }
    last = [node for node, version in seen.items() if version == max(seen.values()) and node != START]
    before = [*_at(graph.interrupt_before_nodes, state.next), *_at(graph.interrupt_after_nodes, last)]
    if not before:
        return []
    nodes = ", ".join(state.next)
    value = f"The graph stopped at a breakpoint before {nodes}. May it go on?"
    return [Question(f"breakpoint:{saved.checkpoint['id']}", nodes, value)]


def _at(breakpoints: Sequence[str] | str, nodes: Sequence[str]) -> list[str]:
    return [one for one in nodes if breakpoints == "*" or one in breakpoints]


def answered(store: Store, step: ClaimedStep, code: Mapping[str, str], questions: Sequence[Question]) -> Any:
    """Return LangGraph's input that carries the answers to all questions on. Raises GraphAsks for those that have none
    yet, GraphChanged, and GraphWaits for one that a person refused or nobody answered in time."""
    with store.read() as session:
        rows = {row.detail["key"]: row for row in _asked(session, step)}
    if missing := [one for one in questions if one.key not in rows or _waits(rows[one.key])]:
        raise GraphAsks(missing)
    resume = {}
    for one in questions:
        row = rows[one.key]
        if row.state in (ApprovalState.EXPIRED, ApprovalState.PENDING):
            days = INTERRUPT_SECONDS / 86400
            raise GraphWaits(f"nobody answered within {days:g} days what the node {one.node} asked")
        _require_unchanged(row.detail["code"], code, one.node)
        if one.interrupt is not None:
            resume[one.interrupt] = _resume_value(one.value, row)
        elif row.state == ApprovalState.DENIED:
            raise GraphWaits(f"{row.decided_by} refused to go on before {one.node}: {row.why}")
    return Command(resume=resume) if resume else None


def ask(session: Session, step: ClaimedStep, asked: Mapping[str, Question], code: Mapping[str, str]) -> None:
    """Write what has not been asked before, by the id of its request. Values are JSON by now."""
    known = {row.detail["key"] for row in _asked(session, step)}
    scope = Scope(step.run_id, step.id, step.attempt, "graph", step.subject)
    for id_, one in asked.items():
        if one.key in known:
            continue
        text = one.value if isinstance(one.value, str) else orjson.dumps(one.value).decode()
        question = {"id": ANSWER, "header": one.node, "question": "Answer (text or JSON)", "options": [], "other": True}
        detail = {
            "graph": step.payload["graph"], "node": one.node, "asks": text, "key": one.key, "code": dict(code),
            "questions": [{**question, "secret": False, "optional": True}] if one.interrupt is not None else [],
        }  # fmt: skip
        request = ApprovalRequest(INTERRUPT, "", "", "", None, detail)
        approval_requests.add_request(session, id_, request, scope, INTERRUPT_SECONDS)
    approval_requests.wake(session, step.id)  # what was answered meanwhile


def _asked(session: Session, step: ClaimedStep) -> Sequence[RuntimeApproval]:
    """Return what the graph has asked, in earlier chapters too."""
    which = (RuntimeApproval.run_id == step.run_id, RuntimeApproval.kind == INTERRUPT)
    rows = session.exec(select(RuntimeApproval).where(*which).order_by(col(RuntimeApproval.asked_at)))
    return [row for row in rows if row.detail["graph"] == step.payload["graph"]]


def _waits(row: RuntimeApproval) -> bool:
    return row.state == ApprovalState.PENDING and row.expires_at > utcnow()


def _resume_value(asked: Any, row: RuntimeApproval) -> Any:
    """Return what interrupt() returns: the answer's JSON or text, True or False without one. A request of LangChain's
    HumanInTheLoopMiddleware gets a decision for each of its actions."""
    yes = row.state == ApprovalState.APPROVED
    if given := row.answers.get(ANSWER):
        try:
            return orjson.loads(given[0])
        except orjson.JSONDecodeError:
            return given[0]
    if isinstance(asked, Mapping) and "action_requests" in asked:
        decision = {"type": "approve"} if yes else {"type": "reject", "message": row.why or "a person refused"}
        return {"decisions": [decision] * len(asked["action_requests"])}
    return yes


def code_of(graph: Pregel[Any, Any, Any, Any], module: str) -> dict[str, str]:
    """Return digests of the modules that the graph's code is in, without their comments and layout, and of its nodes'
    names. What those modules import is not looked at. module: of its factory."""
    own = {module, *(one for one in _modules(graph) if one.partition(".")[0] not in _LIBRARIES)}
    found = {f"the module {one}": _digest(_source(one)) for one in own}
    return {**found, "the names of its nodes": _digest(" ".join(sorted(graph.nodes)))}


def _modules(graph: Pregel[Any, Any, Any, Any]) -> Iterator[str]:
    for node in graph.nodes.values():
        bound: Any = node.bound
        if isinstance(bound, Pregel):
            yield from _modules(bound)
            continue
        function = getattr(bound, "func", None) or getattr(bound, "afunc", None) or type(bound)
        if name := getattr(inspect.unwrap(function) if callable(function) else function, "__module__", None):
            yield name


def _source(module: str) -> str:
    try:
        return ast.dump(ast.parse(inspect.getsource(importlib.import_module(module))))
    except (ImportError, OSError, TypeError, SyntaxError):
        return ""


def _digest(text: str) -> str:
    return hashlib.blake2b(text.encode(), digest_size=12).hexdigest()


def _require_unchanged(then: Mapping[str, str], now: Mapping[str, str], node: str) -> None:
    changed = sorted(name for name in {*then, *now} if then.get(name) != now.get(name))
    if changed:
        raise GraphChanged(f"{', '.join(changed)} changed since the node {node} asked")


GRAPH_STEPS = 500  # its recursion limit, where it has none of its own
MOST_BYTES = 4_000_000
_DEEPEST = 60


def json_output(value: Any) -> Any:
    """Messages become type, text, calls and name. Raises GraphState, with the place, and for more than MOST_BYTES."""
    found = storable(_plain(value, "the output", 0))
    size = len(orjson.dumps(found))
    if size > MOST_BYTES:
        raise GraphState(f"the output has {size:,} bytes as JSON, more than {MOST_BYTES:,}")
    return found


def _plain(value: Any, place: str, depth: int) -> Any:
    if depth > _DEEPEST:
        raise GraphState(f"{place[:200]} is nested more than {_DEEPEST} deep, or holds itself")
    if value is None or (isinstance(value, bool | str) and not isinstance(value, Enum)):
        return value
    if isinstance(value, Enum):
        return _plain(value.value, place, depth + 1)
    if isinstance(value, int | float):
        return _number(value, place)
    if isinstance(value, dt.datetime | dt.date | dt.time):
        return value.isoformat()
    if isinstance(value, UUID | PurePath):
        return str(value)
    if isinstance(value, BaseMessage):
        return _message(value, place, depth)
    if isinstance(value, BaseModel):
        value = {name: getattr(value, name) for name in type(value).model_fields}
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        value = {one.name: getattr(value, one.name) for one in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {_key(key, place): _plain(item, f"{place}.{key}", depth + 1) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item, f"{place}[{index}]", depth + 1) for index, item in enumerate(value)]
    raise GraphState(f"{place[:200]} is of type {type(value).__name__}, which JSON cannot hold")


def _number(value: float, place: str) -> float:
    if isinstance(value, float) and not math.isfinite(value):
        raise GraphState(f"{place[:200]} is {value}, which JSON cannot hold")
    if isinstance(value, int) and not -(2**63) <= value < 2**64:
        raise GraphState(f"{place[:200]} has more than 64 bits, which JSON here cannot hold")
    return value


def _key(key: Any, place: str) -> str:
    if not isinstance(key, str):
        raise GraphState(f"{place[:200]} has the key {key!r}, which JSON cannot hold")
    return key


def _message(message: BaseMessage, place: str, depth: int) -> dict[str, Any]:
    found = {"type": message.type, "content": _plain(message.content, f"{place}.content", depth + 1)}
    calls = getattr(message, "tool_calls", None)
    if calls:
        found["tool_calls"] = _plain(calls, f"{place}.tool_calls", depth + 1)
    return {**found, **({"name": message.name} if message.name else {})}


if TYPE_CHECKING:
    from langgraph.pregel import Pregel

# Of the step's deadline: a node that begins within it has as long again.
CHAPTER = 0.5
# Workers that a chapter may lose while it gets on. Then the next one begins, which has lost none: a graph of hours
# outlives any number of restarts, and one that kills its workers at the same node still fails (`policy.LOSSES`).
MOST_LOSSES = 3
_NODE_TAG, _WITHIN = "graph:step:", "|"  # of LangGraph: on a node's run; between a node and a graph within it
_NODE = re.compile(r"During task with name '(.+?)' and id")


class Chapter:
    """One attempt at a chapter of a graph."""

    def __init__(self, desk: Desk, step: ClaimedStep, held: HeldStep) -> None:
        self._desk, self._step, self._held = desk, step, held
        self._thread: str = step.payload["graph"]
        with desk.store.read() as session:
            self._run = session.get_one(Run, step.run_id)
            steps = select(Step.id).where(Step.run_id == step.run_id, Step.kind == step.kind)
            own = (col(Turn.step_id).in_(steps), Turn.subject == self._thread)
            last = session.exec(select(Turn.id).where(*own).order_by(col(Turn.id).desc()).limit(1)).first()
            self._worn = _worn(session, step, self._thread)
        self._until = time.monotonic() + desk.settings.step_deadline_seconds * CHAPTER
        self._control = RunControl()
        self._record = Record(last)
        self._code: dict[str, str] = {}  # of the graph when it asks a person
        self._bridge = StepBridge(desk, step, self._thread, self._record)
        patience = desk.settings.step_deadline_seconds
        self._saver = StepSaver(desk.store, step, self._thread, self._bridge, patience, self._saved)

    def play(self) -> Ending:
        if self._worn:
            return self._next()
        self._held.on_end(self._halt)
        try:
            output = self._output()
        except GraphDrained:
            return self._next()
        except GraphAsks as asks:
            return self._ask(asks.questions)
        except Exception as error:
            return self._failed(error)
        finally:
            for run in self._bridge.runs:
                self._desk.telemetry.record_turns(self._step, run.turns[0].role, self._thread, run)
        if self._bridge.ended is not None or self._held.ended is not None:
            return self._failed(self._bridge.ended or LeaseLost("the step has ended"))
        try:
            return self._done(output)
        except GraphState as error:
            return self._failed(error)

    def _done(self, values: Any) -> Done:
        found = {"status": "completed", **self._place, "output": json_output(values)}
        return Done(found, self._record.rows(), also=self._saver.settle)

    def _ask(self, questions: Sequence[Question]) -> Ending:
        """Wait for a person, held by no worker. Its deadline does not count meanwhile (`approvals.decide_request`)."""
        try:
            shown = {
                id_: dataclasses.replace(one, value=json_output(one.value))
                for id_, one in {new_id(): one for one in questions}.items()
            }
        except GraphState as error:
            return self._failed(error)
        why = policy.waiting(self._step.error, policy.A_PERSON)
        return RetryLater(
            INTERRUPT_SECONDS, why, self._record.rows(), counts=False,
            also=lambda session: ask(session, self._step, shown, self._code),
        )  # fmt: skip

    def _graph(self) -> Pregel[Any, Any, Any, Any]:
        return load_graph(self._run.params["factory"], self._desk.settings.graphs)

    def _given(self) -> Any:
        return self._run.params["inputs"][self._thread]

    @property
    def _place(self) -> dict[str, Any]:
        return {"graph": self._thread, "chapter": self._step.payload["chapter"]}

    def _output(self) -> Any:
        graph = self._graph()
        with using(self._bridge):
            return self._values(graph)

    def _values(self, graph: Pregel[Any, Any, Any, Any]) -> Any:
        graph.checkpointer = self._saver
        if graph.store is None or isinstance(graph.store, InMemoryStore):  # which would end with this worker
            graph.store = DeskStore(self._desk.store)
        config: RunnableConfig = {
            "configurable": {"thread_id": self._thread},
            "callbacks": [_Nodes(self._saver), _ToolCalls(self._record)],
            "run_name": self._thread,
        }
        saved = self._updated(graph, config)
        done = max(saved.metadata.get("step", 0), 0) if saved is not None else 0
        most = (graph.config or {}).get("recursion_limit", GRAPH_STEPS)
        config["recursion_limit"] = max(most - done, 1)
        given = self._given() if saved is None else self._answers(graph, config)
        if only_async(graph):
            values = asyncio.run(graph.ainvoke(given, config, durability="sync", control=self._control))
        else:
            values = graph.invoke(given, config, durability="sync", control=self._control)
        if asked := questions_of(graph, config, self._saver):
            self._code = code_of(graph, self._module)
            raise GraphAsks(asked)
        if waiting := graph.get_state(config).next:
            where = f"a breakpoint of the graph within {', '.join(waiting)}"
            raise GraphWaits(f"{where} asks nobody: call interrupt() in its node, or give it to the graph itself")
        return values

    def _updated(self, graph: Pregel[Any, Any, Any, Any], config: RunnableConfig) -> CheckpointTuple | None:
        """Return the newest checkpoint, with the update that a person asked for: once, whatever attempts there were."""
        saved, given = self._saver.get_tuple(config), self._step.payload
        if saved is None or saved.checkpoint["id"] != given.get("at"):
            return saved
        graph.update_state(config, given["update"], as_node=given["node"])
        return self._saver.get_tuple(config)

    def _answers(self, graph: Pregel[Any, Any, Any, Any], config: RunnableConfig) -> Any:
        """Return the input that goes on with what people answered, None where the graph asked nothing. Raises as
        `answered`."""
        asked = questions_of(graph, config, self._saver)
        if not asked:
            return None
        self._code = code_of(graph, self._module)
        return answered(self._desk.store, self._step, self._code, asked)

    @property
    def _module(self) -> str:
        factory = self._run.params.get("factory")
        return names_of(factory)[0] if factory else ROLE

    def _saved(self, number: int) -> None:
        """That of the input, -1, is written while the graph begins."""
        if number < 0:
            return
        if time.monotonic() >= self._until or self._desk.drain.requested:
            self._control.request_drain("the chapter's end")

    def _halt(self) -> None:
        reason = self._held.ended or EndReason.STOPPED
        self._bridge.halt(CallInterrupted(f"the step was ended: {reason}"), waits=self._held.interrupted)

    def _next(self) -> Ending:
        chapter = self._step.payload["chapter"] + 1
        payload = {**self._step.payload, "chapter": chapter}
        subject = f"{self._thread} ({chapter})"
        step = NewStep(StepKind.GRAPH, str(self._step.parent_id), subject, self._step.role, payload)
        return Done({GOES_ON: True, **self._place}, self._record.rows(), [step])

    def _failed(self, error: Exception) -> Ending:
        """What ended the calls counts, whatever the graph made of it. Raises LeaseLost, StepEnded."""
        cause, rows = self._bridge.ended or error, self._record.rows()
        if isinstance(cause, LeaseLost) or self._held.ended is EndReason.LEASE_LOST:
            raise LeaseLost(f"step {self._step.id}: another has it") from error
        if self._held.interrupted:
            raise StepEnded(self._held.ended or EndReason.STOPPED, *rows) from error
        if self._held.ended is EndReason.DEADLINE:
            return self._again("deadline", f"a node did not end within the step's time ({_text_of(error)})")
        if isinstance(cause, Postponed):
            why = why_not_wait(self._desk, self._step, cause.until, str(cause))
            return postponed(self._step, cause, rows) if why is None else self._again(limit_waits.KIND, why)
        if isinstance(cause, BudgetUsed):
            why = cause.args[0]
            return Done({"status": "skipped", "reason": why, **self._place}, rows, error=why)
        if isinstance(cause, RateLimited) and policy.retry(cause.kind).parks and self._bridge.model is not None:
            return self._rests(cause, self._bridge.model)
        return self._again(*_kind_of(cause))

    def _rests(self, cause: RateLimited, model: RoleModel) -> Ending:
        met = failure(cause.kind, str(cause.args[0]), cause.reset_seconds)
        rest = park(self._desk.serving(self._step.run_id), model, met)
        if (why := why_not_wait(self._desk, self._step, rest.until, rest.why)) is not None:
            return self._again(limit_waits.KIND, f"{why} ({cause})")
        reason = policy.waiting(policy.reason(cause.kind, str(cause)), rest.why)
        return rests(self._step, rest, reason, self._record.rows())

    def _again(self, kind: str, message: str) -> Ending:
        reason, rows = policy.reason(kind, message), self._record.rows()
        wait = policy.next_attempt(kind, *attempts_of(self._step))
        if wait is None:
            return Done({"status": "failed", **self._place}, rows, error=reason)
        return RetryLater(wait.seconds, reason, rows, counts=wait.counts)


def _worn(session: Session, step: ClaimedStep, thread: str) -> bool:
    lost = select(func.count()).where(Attempt.step_id == step.id, Attempt.outcome == AttemptEnd.LOST)
    if session.exec(lost).one() < MOST_LOSSES:
        return False
    own = (GraphCheckpoint.run_id == step.run_id, GraphCheckpoint.thread == thread, GraphCheckpoint.place == "")
    newest = select(GraphCheckpoint.step_id).where(*own).order_by(col(GraphCheckpoint.checkpoint_id).desc())
    return session.exec(newest.limit(1)).first() == step.id


def _kind_of(error: Exception) -> tuple[str, str]:
    if isinstance(error, ChatError):
        return error.kind, f"{_where(error)}{error}"
    if isinstance(error, GraphRecursionError):
        error = GraphEndless(f"no end after as many steps as its recursion limit allows: {str(error).splitlines()[0]}")
    kind = policy.kind_of_exception(error)
    # SystemError is of the interpreter: CPython 3.11 counts the depth of all syntax trees that threads build as one.
    if kind != "crashed" or isinstance(error, SystemError):
        return kind, f"{_where(error)}{error if isinstance(error, DeskError) else _text_of(error)}"
    return "graph_raised", str(GraphRaised(f"{_where(error)}{_text_of(error)}"))


def _text_of(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"[:1000]


def _where(error: BaseException) -> str:
    """Return the node whose code raised, as LangGraph notes it."""
    notes = getattr(error, "__notes__", ())
    found = next((match for note in reversed(notes) if (match := _NODE.search(note))), None)
    return f"in the node {found.group(1)}: " if found is not None else ""


class _Nodes(BaseCallbackHandler):
    """Listener to the nodes of the graph itself: the saver has to know whether others run beside one."""

    def __init__(self, saver: StepSaver) -> None:
        self._saver = saver

    def on_chain_start(self, serialized: Any, inputs: Any, *, run_id: UUID, **given: Any) -> None:
        is_node = any(tag.startswith(_NODE_TAG) for tag in given.get("tags") or ())
        if is_node and _WITHIN not in str((given.get("metadata") or {}).get("langgraph_checkpoint_ns")):
            self._saver.begins(run_id)

    def on_chain_end(self, outputs: Any, *, run_id: UUID, **_: Any) -> None:
        self._saver.ends(run_id)

    def on_chain_error(self, error: BaseException, *, run_id: UUID, **_: Any) -> None:
        self._saver.ends(run_id)


class _ToolCalls(BaseCallbackHandler):
    """Listener to the tools that the graph's own code calls."""

    def __init__(self, record: Record) -> None:
        self._record = record
        self._begun: dict[UUID, tuple[str, dict[str, Any], dt.datetime]] = {}

    def on_tool_start(self, serialized: Any, input_str: str, *, run_id: UUID, **given: Any) -> None:
        inputs = given.get("inputs")
        arguments = inputs if isinstance(inputs, dict) else {"input": input_str}
        self._begun[run_id] = (str((serialized or {}).get("name") or "tool"), arguments, utcnow())

    def on_tool_end(self, output: Any, *, run_id: UUID, **_: Any) -> None:
        is_message = isinstance(output, ToolMessage)
        text = str(output.content) if is_message else str(output)
        success = not is_message or output.status != "error"
        self._ended(run_id, text, success=success, call_id=str(output.tool_call_id) if is_message else "")

    def on_tool_error(self, error: BaseException, *, run_id: UUID, **given: Any) -> None:
        self._ended(run_id, f"{type(error).__name__}: {error}", success=False, call_id=str(given.get("tool_call_id")))

    def _ended(self, run_id: UUID, text: str, *, success: bool, call_id: str) -> None:
        if (begun := self._begun.pop(run_id, None)) is None:
            return
        tool, arguments, began = begun
        self._record.called(tool, arguments, text, success=success, began=began, ended=utcnow(), call_id=call_id)
