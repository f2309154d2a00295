"""The checkpointer on SQLite and on PostgreSQL: the latest checkpoint, the fence, and rows that go with it."""

from __future__ import annotations

import asyncio
import operator
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any, TypedDict

import pytest
from langchain_core.runnables import RunnableConfig
from langgraph.graph import END, START, StateGraph
from sqlmodel import select

from chordesk.models.database.store import Store
from chordesk.models.errors import DeskError, LeaseLost
from chordesk.models.states import StepState
from chordesk.models.tables.columns import new_id, utcnow
from chordesk.models.tables.orders import Account
from chordesk.models.tables.runs import GraphCheckpoint, GraphPart, GraphWrite, Step, ToolCall, Turn
from chordesk.tasks.engine import graph
from chordesk.tasks.engine.steps import ClaimedStep, NewStep
from chordesk.tasks.graphs.bridge import Record
from chordesk.tasks.graphs.checkpoints import StepSaver
from tests.databases import make_database
from tests.tasks.engine.steps import change, get, opened

pytestmark = pytest.mark.process  # one of the two databases is a server's, which is asked for by name


class Calls:
    """Calls of a chapter that go on until they are ended: all that a saver asks of a bridge."""

    def __init__(self) -> None:
        self.record, self.ended = Record(), None

    def end(self, why: DeskError) -> None:
        self.ended = why

    def require_going(self) -> None:
        if self.ended is not None:
            raise self.ended


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    if request.param == "sqlite":
        url = f"sqlite:///{tmp_path / 'desk.db'}"
        make_database(url)
        made = Store(url)
        yield made
        made.close()
        return
    yield request.getfixturevalue("postgres_store")


@pytest.fixture
def step(store: Store) -> ClaimedStep:
    with store.session() as session:
        session.add(Account(name="paper", cash=1.0))
    new = NewStep("graph", "", "IBM", payload={"graph": "IBM", "chapter": 1})
    opened(store, new)
    with store.session() as session:
        claimed = graph.claim(session, new.id, "me", 60)
    assert claimed is not None
    return claimed


class State(TypedDict):
    """A number that nodes add to."""

    n: Annotated[int, operator.add]
    kept: Any


def a_graph(*nodes: Callable[[State], dict[str, Any]]) -> StateGraph:
    made = StateGraph(State)
    for number, node in enumerate(nodes):
        made.add_node(str(number), node)
        made.add_edge(str(number - 1) if number else START, str(number))
    made.add_edge(str(len(nodes) - 1), END)
    return made


def saver_of(
    store: Store, step: ClaimedStep, saved: Callable[[int], None] = lambda _number: None, thread: str = "IBM"
) -> StepSaver:
    return StepSaver(store, step, thread, Calls(), 1.0, saved)


CONFIG: RunnableConfig = {"configurable": {"thread_id": "IBM"}}


def kept(store: Store) -> tuple[list[GraphCheckpoint], list[GraphWrite]]:
    with store.read() as session:
        return list(session.exec(select(GraphCheckpoint)).all()), list(session.exec(select(GraphWrite)).all())


def failing(state: State) -> dict[str, Any]:
    raise RuntimeError("not yet")


def test_a_graph_goes_on_at_its_node_with_another_saver(store: Store, step: ClaimedStep) -> None:
    seen: list[str] = []

    def node(name: str) -> Callable[[State], dict[str, Any]]:
        def run(state: State) -> dict[str, Any]:
            seen.append(name)
            return {"n": 1, "kept": {"at": utcnow(), "raw": b"\x00"}}

        return run

    first = a_graph(node("a"), node("b"), failing).compile(checkpointer=saver_of(store, step))
    with pytest.raises(RuntimeError, match="not yet"):
        first.invoke({"n": 10}, CONFIG, durability="sync")
    second = a_graph(node("a"), node("b"), node("c")).compile(checkpointer=saver_of(store, step))
    assert second.invoke(None, CONFIG, durability="sync")["n"] == 13
    assert seen == ["a", "b", "c"]
    checkpoints, writes = kept(store)
    assert writes == []
    history = list(second.get_state_history(CONFIG))
    assert [one.values.get("n") for one in history] == [13, 12, 11, 10, 0]
    assert len(checkpoints) == len(history)
    assert [one.next for one in second.get_state_history(CONFIG, before=history[2].config, limit=1)] == [("0",)]


class Talk(TypedDict):
    """A list that grows."""

    said: Annotated[list[str], operator.add]


def test_what_was_said_is_stored_once_and_read_in_its_order(store: Store, step: ClaimedStep) -> None:
    hello = "hello" * 100
    made = StateGraph(Talk)
    made.add_node("says", lambda state: {"said": [f"word {len(state['said'])}" * 100]})
    made.add_node("repeats", lambda state: {"said": state["said"][:1]})
    made.add_node("fails", failing)
    for one, other in ((START, "says"), ("says", "repeats"), ("repeats", "fails")):
        made.add_edge(one, other)
    first = made.compile(checkpointer=saver_of(store, step))
    with pytest.raises(RuntimeError, match="not yet"):
        first.invoke({"said": [hello]}, CONFIG, durability="sync")
    with store.read() as session:
        assert len(session.exec(select(GraphPart)).all()) == 2
    again = made.compile(checkpointer=saver_of(store, step))
    assert again.get_state(CONFIG).values["said"] == [hello, "word 1" * 100, hello]


def test_rows_of_turns_are_written_with_the_checkpoint_and_once(store: Store, step: ClaimedStep) -> None:
    saver = saver_of(store, step)
    record = saver._bridge.record

    def node(state: State) -> dict[str, Any]:
        turn = record.turn(lambda ordinal: _turn(step, ordinal))
        record.asks(turn, ["call-1"])
        now = utcnow()
        record.called("get", {"a": 1}, "data\x00", success=True, began=now, ended=now, call_id="call-1")
        return {"n": 1}

    a_graph(node, node).compile(checkpointer=saver).invoke({"n": 0}, CONFIG, durability="sync")
    assert record.rows() == ([], [])
    with store.read() as session:
        turns = session.exec(select(Turn).order_by(Turn.ordinal)).all()
        assert [turn.ordinal for turn in turns] == [0, 1]
        calls = session.exec(select(ToolCall)).all()
        assert {(call.turn_id, call.tool, call.output) for call in calls} == {
            (turn.id, "get", "data") for turn in turns
        }


def _turn(step: ClaimedStep, ordinal: int) -> Turn:
    now = utcnow()
    return Turn(
        id=new_id(), run_id=step.run_id, step_id=step.id, attempt=1, ordinal=ordinal, role="n", subject="IBM",
        kept=False, provider="endpoint", model="m", status="completed", outcome="completed", started_at=now,
        finished_at=now, total_tokens=5,
    )  # fmt: skip


@pytest.mark.parametrize("lost", [{"owner": "another"}, {"attempt": 2}, {"state": StepState.STOPPED}])
def test_a_step_that_is_held_no_more_writes_neither_checkpoint_nor_rows(
    store: Store, step: ClaimedStep, lost: dict[str, Any]
) -> None:
    saver = saver_of(store, step)
    saver._bridge.record.turn(lambda ordinal: _turn(step, ordinal))
    change(store, Step, step.id, **lost)
    with pytest.raises(LeaseLost):
        a_graph(lambda state: {"n": 1}).compile(checkpointer=saver).invoke({"n": 0}, CONFIG, durability="sync")
    assert isinstance(saver._bridge.ended, LeaseLost)
    assert kept(store) == ([], [])
    with store.read() as session:
        assert session.exec(select(Turn)).all() == []
    assert get(store, step.id).result == {}


def test_checkpoints_of_a_graph_within_a_node_go_with_the_node(store: Store, step: ClaimedStep) -> None:
    places: list[int] = []

    def inner(state: State) -> dict[str, Any]:
        return {"n": 1}

    def look(state: State) -> dict[str, Any]:
        places.append(len([row for row in kept(store)[0] if row.place]))
        return {"n": 1}

    within = a_graph(inner, look).compile()
    outer = StateGraph(State)
    outer.add_node("within", within)
    outer.add_node("after", look)
    outer.add_edge(START, "within")
    outer.add_edge("within", "after")
    outer.add_edge("after", END)
    outer.compile(checkpointer=saver_of(store, step)).invoke({"n": 0}, CONFIG, durability="sync")
    assert places == [1, 0]


def test_a_thread_that_is_deleted_has_nothing_left(store: Store, step: ClaimedStep) -> None:
    saver = saver_of(store, step)
    a_graph(lambda state: {"n": 1}).compile(checkpointer=saver).invoke({"n": 0}, CONFIG, durability="sync")
    saver.delete_thread("IBM")
    assert kept(store) == ([], [])
    assert saver.get_tuple(CONFIG) is None
    assert list(saver.list(None)) == []
    assert asyncio.run(saver.aget_tuple(CONFIG)) is None
