"""Graphs that wait for a person: what they ask is a request of the desk, and its answer goes on at the node."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import pytest
from sqlmodel import col, select

from chordesk.models.errors import NotWaiting, UsageError
from chordesk.models.states import ApprovalState, RunState, StepState
from chordesk.models.tables.columns import utcnow
from chordesk.models.tables.runs import Run, Step
from chordesk.models.tables.runtime import RuntimeApproval
from chordesk.tasks import approval_requests
from chordesk.tasks.graphs import chapters
from chordesk.tasks.graphs.workflow import fork_graph, history_of, play_chapter, resume_graphs
from chordesk.tasks.worker.maintenance import close_overdue, sweep
from chordesk.tasks.worker.work import work
from chordesk.tasks.workflows.runs import close_run_step
from tests.tasks.engine.steps import ago, change
from tests.tasks.graphs.kit import Graphs

pytestmark = pytest.mark.process


def asked(desk: Graphs, run_id: str) -> list[RuntimeApproval]:
    """What waits of a run, the oldest first."""
    with desk.store.read() as session:
        which = (RuntimeApproval.run_id == run_id, RuntimeApproval.state == ApprovalState.PENDING.value)
        rows = session.exec(select(RuntimeApproval).where(*which).order_by(col(RuntimeApproval.asked_at)))
        return sorted(rows, key=lambda row: str(row.detail["node"]))


def answer(desk: Graphs, row: RuntimeApproval, text: str | None = None, *, yes: bool = True) -> str:
    given = {"answer": [text]} if text is not None else None
    found = approval_requests.answer(
        desk.store, desk.app.desk.settings, lambda: False, row.id, approve=yes, by="ann", why="so", answers=given
    )
    return str(found.state)


def test_the_answer_goes_on_at_the_node_days_later(desk: Graphs) -> None:
    run_id = desk.open("waiting", {"n": 0})
    step = desk.play(run_id)
    assert (step.state, step.error) == (StepState.READY, "waiting: a person's answer")
    (row,) = asked(desk, run_id)
    assert approval_requests.request_line(row) == "first: may I?"
    change(desk.store, Run, run_id, deadline_at=ago(3600))
    change(desk.store, RuntimeApproval, row.id, asked_at=utcnow() - dt.timedelta(days=20))
    close_overdue(desk.app.desk)
    assert desk.run(run_id).state == RunState.RUNNING
    work(desk.app, step.id, play_chapter)  # a message that came twice asks nothing again
    assert len(asked(desk, run_id)) == 1
    assert answer(desk, row, '{"yes": 1}') == ApprovalState.APPROVED
    assert desk.run(run_id).deadline_at > utcnow() + dt.timedelta(days=19)
    with pytest.raises(NotWaiting):
        answer(desk, row)
    desk.lose_workers(step)  # the next chapter has the answer, and asks nothing again
    step = desk.play(run_id)
    assert len(desk.steps(run_id)) == 2
    assert (step.state, step.error) == (StepState.DONE, None)
    assert step.result["output"] == {"n": 2, "kept": {"yes": 1}}


@pytest.mark.parametrize("cut", [False, True])
def test_questions_beside_each_other_and_one_after_another_keep_their_answers(
    desk: Graphs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cut: bool
) -> None:
    monkeypatch.setenv("TOY_FOLDER", str(tmp_path))
    run_id = desk.open("waiting_twice", {"n": 0})
    step = desk.play(run_id)
    twice, within = asked(desk, run_id)
    assert within.detail["asks"] == '{"how":"many"}'
    answer(desk, twice, "Ann")
    assert desk.play(run_id).attempt == step.attempt, "one of two is still open"
    answer(desk, within, "5")
    if cut:  # the worker is lost between the node's next question and its request

        def lost(*_: Any) -> None:
            raise ConnectionError("lost")

        with monkeypatch.context() as broken:
            broken.setattr(chapters, "ask", lost)
            work(desk.app, step.id, play_chapter)
        change(desk.store, Step, step.id, state=StepState.READY, owner=None, lease_until=None, due_at=ago(1))
    desk.play(run_id)
    (again,) = asked(desk, run_id)
    answer(desk, again, "Lee")
    step = desk.play(run_id)
    assert step.error is None, step.error
    assert step.result["output"] == {"n": 5, "kept": ["Ann", "Lee"]}


def test_a_breakpoint_is_asked_before_and_after_nodes_also_by_a_chapter_that_begins_there(
    desk: Graphs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(chapters, "CHAPTER", 0.0)
    run_id = desk.open("stopping", {"n": 0})
    for nodes in ("middle", "last"):
        desk.play(run_id)
        (row,) = asked(desk, run_id)
        assert (row.detail["node"], row.detail["questions"]) == (nodes, [])
        answer(desk, row)
    step = desk.play(run_id)
    assert step.result["output"]["n"] == 3


def test_a_refusal_is_false_and_ends_a_graph_at_its_breakpoint(desk: Graphs) -> None:
    run_id = desk.open("waiting", {"n": 0})
    desk.play(run_id)
    answer(desk, asked(desk, run_id)[0], yes=False)
    assert desk.play(run_id).result["output"]["kept"] is False
    run_id = desk.open("stopping", {"n": 0})
    desk.play(run_id)
    answer(desk, asked(desk, run_id)[0], yes=False)
    assert str(desk.play(run_id).error).startswith("graph_waits: ann refused to go on before middle: so")


def test_a_question_that_nobody_answers_ends_the_graph(desk: Graphs) -> None:
    run_id = desk.open("waiting", {"n": 0})
    desk.play(run_id)
    change(desk.store, RuntimeApproval, asked(desk, run_id)[0].id, expires_at=ago(1))
    sweep(desk.app)
    assert "nobody answered within 30 days what the node first asked" in str(desk.play(run_id).error)


def test_code_that_changed_since_the_question_refuses_its_answer(desk: Graphs, monkeypatch: pytest.MonkeyPatch) -> None:
    run_id = desk.open("waiting", {"n": 0})
    desk.play(run_id)
    answer(desk, asked(desk, run_id)[0])
    monkeypatch.setattr(chapters, "_source", lambda name: "other")
    changed = "graph_changed: the module tests.toy.graphs changed since the node first asked (desk graph --resume"
    assert str(desk.play(run_id).error).startswith(changed)


def test_the_questions_of_langchain_s_middleware_get_a_decision_for_each_action() -> None:
    value = {"action_requests": [{"name": "buy"}, {"name": "sell"}], "review_configs": []}
    row = RuntimeApproval(state=ApprovalState.DENIED, why="no", answers={})
    reject = {"type": "reject", "message": "no"}
    assert chapters._resume_value(value, row) == {"decisions": [reject, reject]}


def test_a_graph_that_ended_goes_on_from_a_step_of_its_past_with_another_state(desk: Graphs) -> None:
    run_id = desk.open("waiting", {"n": 5})
    desk.play(run_id)
    with pytest.raises(UsageError, match="is still running"):
        resume_graphs(desk.app, run_id)
    answer(desk, asked(desk, run_id)[0], "first")
    step = desk.play(run_id)
    work(desk.app, str(step.parent_id), close_run_step)
    history = history_of(desk.store, desk.app.desk.settings, run_id)
    assert [(one.step, one.next) for one in history] == [
        (-1, ["__start__"]), (0, ["first"]), (1, ["last"]), (2, []),
    ]  # fmt: skip
    assert history[1].values["n"] == 5
    for number, node, error in ((9, None, "no step 9"), (0, "nowhere", "no node nowhere")):
        with pytest.raises(UsageError, match=error):
            fork_graph(desk.app, run_id, None, number, {}, node)
    updated = fork_graph(desk.app, run_id, None, 0, {"n": 10, "kept": "mine"}, "first")
    assert desk.play(updated.id).result["output"] == {"n": 16, "kept": "mine"}
    again = fork_graph(desk.app, run_id, "1", 0, None, None)
    desk.play(again.id)
    answer(desk, asked(desk, again.id)[0], "second")
    assert desk.play(again.id).result["output"] == {"n": 7, "kept": "second"}
    assert [one.step for one in history_of(desk.store, desk.app.desk.settings, updated.id)] == [0, 1, 2]
