"""Graphs that are cut short: chapters, limits of rate and tokens, a stop, a lost lease. Each goes on at its node."""

from __future__ import annotations

import threading
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from chordesk.models.errors import UsageError
from chordesk.models.states import StepState
from chordesk.models.tables.runs import Step
from chordesk.tasks.engine import policy
from chordesk.tasks.graphs import chapters
from chordesk.tasks.graphs.workflow import play_chapter, resume_graphs
from chordesk.tasks.worker.work import work
from chordesk.tasks.workflows.runs import close_run_step
from tests.fakes.chat import answer
from tests.fakes.obedient import obedient
from tests.fakes.responses import Reply, Silence, Status
from tests.parts import of_feature
from tests.patience import PATIENCE
from tests.stack import wait_for
from tests.tasks.engine.steps import ago, change, get
from tests.tasks.graphs.kit import Graphs, graphs
from tests.toy.nodes import NODES, TURNS

served = of_feature("tests.agents.litellm.kit:served")

pytestmark = pytest.mark.process
IBM: dict[str, Any] = {"ticker": "IBM", "messages": [["user", "IBM"]]}
LIMITED = Status(429, {"error": {"message": "slow"}}, {"Retry-After": "1"})


def at_call(number: int, reply: Reply) -> Any:
    """Policy that gives this reply to one call, and obeys in all others."""
    seen = Counter[str]()

    def policy(body: dict[str, Any]) -> Reply:
        seen["calls"] += 1
        return reply if seen["calls"] == number else obedient(body)

    return policy


def from_call(number: int, reply: Reply) -> Any:
    """Policy that gives this reply to a call and all after it."""
    seen = Counter[str]()

    def policy(body: dict[str, Any]) -> Reply:
        seen["calls"] += 1
        return reply if seen["calls"] >= number else obedient(body)

    return policy


def drained(desk: Graphs, run_id: str) -> Step:
    """Begin a graph, and have its worker end at the third call; the step that is given back."""
    desk.model.policy = at_call(3, Silence(60.0))
    step = desk.steps(run_id)[0]
    thread = threading.Thread(target=work, args=(desk.app, step.id, play_chapter))
    thread.start()
    try:
        wait_for(lambda: len(list(desk.model.calls())) == 3, "the third call")
        desk.app.desk.leases.end_all()
    finally:
        thread.join(PATIENCE)
    return get(desk.store, step.id)


def assert_whole(desk: Graphs, run_id: str, step: Step) -> None:
    assert (step.state, step.error) == (StepState.DONE, None)
    assert step.result["output"]["nodes"] == list(NODES)
    assert [turn.role for turn in desk.turns(run_id) if turn.outcome == "completed"] == TURNS


def test_chapters_end_at_a_node_and_the_next_goes_on(desk: Graphs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chapters, "CHAPTER", 0.0)
    run_id = desk.open("research", IBM)
    step = desk.play(run_id)
    assert_whole(desk, run_id, step)
    steps = desk.steps(run_id)
    assert len(steps) == len(NODES) + 1  # the first one ends before its first node
    assert [one.subject for one in steps][:3] == ["1", "1 (2)", "1 (3)"]
    assert {one.state for one in steps} == {StepState.DONE}
    assert len(list(desk.model.calls())) == 16
    assert desk.kept(run_id)[1] == []


def test_a_limit_of_the_rate_puts_the_graph_off_and_it_goes_on_at_its_node(desk: Graphs) -> None:
    desk.model.policy = from_call(6, LIMITED)
    run_id = desk.open("research", IBM)
    step = desk.play(run_id)
    assert (step.state, step.max_attempts) == (StepState.READY, policy.STEP_ATTEMPTS + 1)
    assert str(step.error).startswith("rate_limited: ")
    assert [turn.outcome for turn in desk.turns(run_id)] == ["completed"] * 5 + ["failed"]
    desk.model.policy = obedient
    desk.model.requests.clear()
    wait_for(lambda: _unparked(desk, step.id), "the model is no longer parked")
    assert_whole(desk, run_id, desk.steps(run_id)[-1])
    assert len(list(desk.model.calls())) == 11


def _unparked(desk: Graphs, step_id: str) -> bool:
    change(desk.store, Step, step_id, due_at=ago(1))
    work(desk.app, step_id, play_chapter)
    return get(desk.store, step_id).state == StepState.DONE


def test_nothing_that_a_node_makes_of_a_limited_call_is_kept(desk: Graphs) -> None:
    desk.model.policy = from_call(1, LIMITED)
    run_id = desk.open("swallowing", {"n": 1})
    step = desk.play(run_id)
    assert step.state == StepState.READY
    desk.model.policy = obedient
    wait_for(lambda: _unparked(desk, step.id), "the model is no longer parked")
    assert desk.steps(run_id)[-1].result["output"]["kept"] != "no answer"


def test_a_drained_worker_gives_the_graph_to_another_one(desk: Graphs) -> None:
    run_id = desk.open("research", IBM)
    found = drained(desk, run_id)
    assert found.state == StepState.READY
    assert str(found.error).startswith("drained: ")
    assert_whole(desk, run_id, desk.play(run_id))
    assert len(list(desk.model.calls())) == 17


def test_a_chapter_that_got_on_while_workers_were_lost_gives_way_to_one_that_has_lost_none(desk: Graphs) -> None:
    run_id = desk.open("research", IBM)
    desk.lose_workers(drained(desk, run_id))
    work(desk.app, desk.steps(run_id)[0].id, play_chapter)
    first, second = desk.steps(run_id)
    assert (first.state, first.result["goes_on"]) == (StepState.DONE, True)
    desk.lose_workers(second)
    assert_whole(desk, run_id, desk.play(run_id))
    assert len(desk.steps(run_id)) == 2  # the second one had not got on: its losses go on counting


def test_a_graph_is_tried_again_after_an_error_of_the_interpreter(
    desk: Graphs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOY_FOLDER", str(tmp_path))
    (tmp_path / "interpreter").touch()
    run_id = desk.open("mending", {"n": 10})
    step = desk.play(run_id)
    assert step.state == StepState.READY
    assert str(step.error).startswith("crashed: in the node mend: SystemError: ")
    (tmp_path / "interpreter").unlink()
    (tmp_path / "mended").touch()
    wait_for(lambda: desk.play(run_id).state == StepState.DONE, "the second attempt ends")
    assert (len(list(desk.model.calls())), desk.steps(run_id)[0].attempt) == (1, 2)


def test_a_failed_graph_goes_on_at_its_node_in_a_run_of_its_own(
    desk: Graphs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOY_FOLDER", str(tmp_path))
    failed = desk.open("mending", {"n": 10})
    with pytest.raises(UsageError, match="is still running"):
        resume_graphs(desk.app, failed)
    step = desk.play(failed)
    assert str(step.error).startswith("graph_raised: in the node mend: OSError: the disk is full")
    work(desk.app, str(step.parent_id), close_run_step)
    (tmp_path / "mended").touch()
    run = resume_graphs(desk.app, failed)
    step = desk.play(run.id)
    assert (step.state, step.result["output"]) == (StepState.DONE, {"n": 12, "kept": "You wrote: hi"})
    assert (run.params["resumes"], len(list(desk.model.calls()))) == (failed, 1)
    assert desk.kept(run.id)[1] == []
    work(desk.app, str(step.parent_id), close_run_step)
    with pytest.raises(UsageError, match="ended well"):
        resume_graphs(desk.app, run.id)


def test_a_used_up_budget_ends_the_graph_with_its_reason() -> None:
    with graphs(DESK_BUDGET_RUN_TOKENS="300") as desk:
        run_id = desk.open("research", IBM)
        step = desk.play(run_id)
        assert (step.state, step.result["status"]) == (StepState.FAILED, "skipped")
        assert step.error == "budget: the run has used 360 of 300 tokens (DESK_BUDGET_RUN_TOKENS)"
        assert len(desk.turns(run_id)) == 3


def test_a_model_of_a_hosted_provider_serves_a_graph(monkeypatch: pytest.MonkeyPatch) -> None:
    with served(monkeypatch) as model, graphs(DESK_GRAPH_MODELS="litellm:openai/gpt-5.5-mini") as desk:
        model.policy = lambda _body: answer({"answer": "Buy"})
        run_id = desk.open("hosted", IBM)
        step = desk.play(run_id)
        assert (step.state, step.result["output"]["signal"]) == (StepState.DONE, "Buy")
        (turn,) = desk.turns(run_id)
        assert (turn.model, turn.role) == ("litellm:openai/gpt-5.5-mini", "ask")
