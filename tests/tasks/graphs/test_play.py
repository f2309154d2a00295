"""Graphs through the real app-server: their calls are turns, their ends are typed."""

from __future__ import annotations

import pytest

from chordesk.models.states import StepState
from chordesk.tasks.engine import policy
from chordesk.tasks.graphs import chapters
from tests.tasks.graphs.kit import Graphs, graphs
from tests.toy.nodes import NODES, TURNS

pytestmark = pytest.mark.process


def test_a_graph_runs_to_its_end_and_each_call_is_a_turn_of_its_node(desk: Graphs) -> None:
    run_id = desk.open("research", {"ticker": "IBM", "messages": [["user", "IBM"]]})
    step = desk.play(run_id)
    assert (step.state, step.error) == (StepState.DONE, None)
    assert step.result["status"] == "completed"
    assert step.result["output"]["nodes"] == list(NODES)
    turns = desk.turns(run_id)
    assert [turn.role for turn in turns] == TURNS
    assert len(turns) == len(list(desk.model.calls())) == 16
    assert {(turn.step_id, turn.subject, turn.kept, turn.status) for turn in turns} == {
        (step.id, "1", False, "completed")
    }
    assert [turn.ordinal for turn in turns] == list(range(16))
    assert {turn.total_tokens for turn in turns} == {120}
    calls = desk.calls(run_id)
    assert [(call.tool, call.success) for call in calls] == [("get_prices", True)] * 4
    by_role = {turn.id: turn.role for turn in turns}
    assert sorted(by_role[call.turn_id] for call in calls) == ["fundamentals", "market", "news", "social"]
    assert desk.kept(run_id)[1] == []


def test_nodes_that_are_only_async_are_played_and_go_on_where_they_were(
    desk: Graphs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chapters, "CHAPTER", 0.0)
    run_id = desk.open("awaiting", {"n": 10})
    step = desk.play(run_id)
    assert (step.state, step.error) == (StepState.DONE, None)
    assert step.result["output"] == {"n": 13, "kept": "You wrote: hi"}
    assert [turn.role for turn in desk.turns(run_id)] == ["ask"]
    assert len(desk.steps(run_id)) == 4


def test_a_node_that_asks_for_ever_ends_with_the_time_of_its_step(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(policy, "STEP_ATTEMPTS", 1)
    shorter = (
        "DESK_TURN_SECONDS",
        "DESK_TOOL_SECONDS",
        "DESK_FIRST_TOKEN_SECONDS",
        "DESK_SILENCE_SECONDS",
    )
    limits = dict.fromkeys(shorter, "2")
    with graphs(DESK_STEP_DEADLINE_SECONDS="4", **limits) as desk:
        run_id = desk.open("asking_for_ever", {"n": 1})
        step = desk.play(run_id)
        assert step.state == StepState.FAILED
        assert str(step.error).startswith("deadline: a node did not end within the step's time")


@pytest.mark.parametrize(
    ("factory", "reason"),
    [
        ("raising", "graph_raised: in the node second: ZeroDivisionError: "),
        ("unstorable", "graph_state: "),
        ("not_json", "graph_state: the output.kept is of type set, which JSON cannot hold"),
        ("other_model", "not_found: in the node ask: this desk does not serve the model gpt-9"),
        ("endless", "graph_endless: no end after as many steps as its recursion limit allows"),
    ],
)
def test_a_graph_that_cannot_go_on_ends_with_its_reason(desk: Graphs, factory: str, reason: str) -> None:
    run_id = desk.open(factory, {"n": 1})
    step = desk.play(run_id)
    assert (step.state, step.attempt) == (StepState.FAILED, 1)
    assert str(step.error).startswith(reason), step.error
    assert list(desk.model.calls()) == []
