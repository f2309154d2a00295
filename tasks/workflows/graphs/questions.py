"""What a graph asks a person: each interrupt() and each breakpoint is a request of the desk. The graph's step waits for
the answers, held by no worker, and goes on at the node that asked."""

from __future__ import annotations

import ast
import hashlib
import importlib
import inspect
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import orjson
from langgraph.constants import START
from langgraph.pregel import Pregel
from langgraph.types import Command
from sqlmodel import Session, col, select

from chordesk.agents.runtime import ApprovalRequest, Scope
from chordesk.models.errors import GraphChanged, GraphWaits
from chordesk.models.states import ApprovalState
from chordesk.models.tables.columns import new_id, utcnow
from chordesk.models.tables.runtime import RuntimeApproval
from chordesk.tasks import approvals
from chordesk.tasks.approvals import INTERRUPT, INTERRUPT_SECONDS
from chordesk.tasks.engine.steps import ClaimedStep
from chordesk.tasks.workflows.graphs.checkpoints import GraphReader

if TYPE_CHECKING:
    from langchain_core.runnables import RunnableConfig

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
        approvals.add_request(session, id_, request, scope, INTERRUPT_SECONDS)
    approvals.wake(session, step.id)  # what was answered meanwhile


def request_ids(questions: Sequence[Question]) -> dict[str, Question]:
    return {new_id(): one for one in questions}


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
