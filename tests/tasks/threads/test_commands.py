"""`desk threads` on a desk at work: what runs leave behind is listed, shown, let go, forked and asked on."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
import redis
from sqlmodel import select

from chordesk.models import event_log
from chordesk.models.events import DESK, Envelope, EventType
from chordesk.models.states import RUN_FINAL
from chordesk.models.tables.runs import Run, Turn
from chordesk.tasks.redis_clients import redis_url
from chordesk.tasks.workflows.research import open_research
from tests import zygote
from tests.stack import REPOSITORY, Processes, processes, wait_for


@pytest.fixture(scope="module")
def desk() -> Iterator[Processes]:
    """Two runs on one name, so that its kept threads have two turns."""
    with processes() as running:
        running.rulebook()
        running.workers("research", "ops", concurrency=8)
        for _ in range(2):
            run = open_research(running.app, ["IBM"])
            wait_for(lambda run_id=run.id: _state(running, run_id) in RUN_FINAL, "the run ends")
            assert _state(running, run.id) == "done"
        yield running


def _state(desk: Processes, run_id: str) -> str:
    with desk.app.desk.store.read() as session:
        return session.get_one(Run, run_id).state


def command(desk: Processes, *arguments: str, **environ: str) -> tuple[int, str, str]:
    done = zygote.run(("threads", *arguments), {**desk.environ, **environ}, REPOSITORY)
    return done.returncode, done.stdout, done.stderr


def result_of(desk: Processes, *arguments: str) -> Any:
    code, out, err = command(desk, *arguments, "--json")
    assert code == 0, err
    return json.loads(out)


def thread_of(desk: Processes, role: str) -> str:
    rows = [row["thread"] for row in result_of(desk, "list", "--role", role) if row["current"]]
    (thread,) = [one for one in rows if "#fork-" not in one["subject"]]
    return str(thread["thread_id"])


def current(desk: Processes) -> set[str]:
    return {row["thread"]["thread_id"] for row in result_of(desk, "list") if row["current"]}


def test_a_thread_of_one_conversation_is_shown_without_its_prompt(desk: Processes) -> None:
    with desk.app.desk.store.read() as session:
        from_run = session.connection().exec_driver_sql("select thread_id from turn where role = 'quick'").first()
    assert from_run is not None
    seen = result_of(desk, "show", from_run[0])
    assert seen["missing"] == "it is a thread of one conversation"
    assert [turn["prompt"] for turn in seen["lines"]] == [None]
    assert "(prompt not kept)" in command(desk, "show", from_run[0])[1]


def events_of(desk: Processes, type_: EventType) -> list[Envelope]:
    """Return the events of a type on the desk's own stream."""
    with desk.app.desk.store.read() as session:
        return [one for one in event_log.read(session, DESK, 0, 1000) if one.type == type_]


def test_a_fork_is_asked_on_and_its_parent_stays_as_it_was(desk: Processes) -> None:
    parent = thread_of(desk, "fundamentals")
    before = result_of(desk, "show", parent)
    made = result_of(desk, "fork", parent, "--before-turn", "2")
    assert (made["parent_id"], made["role"], made["turns"]) == (parent, "fundamentals", 1)
    (forked,) = events_of(desk, EventType.THREAD_FORKED)
    assert (forked.thread_id, forked.payload["parent_id"]) == (made["thread_id"], parent)
    assert forked.payload["before_turn"] == before["lines"][1]["turn_id"]
    assert (forked.payload["role"], forked.payload["reason"]) == ("fundamentals", "forked:manual")
    prompt = "The same once more, as a pessimist."
    answer = result_of(desk, "ask", made["thread_id"], prompt)
    assert json.loads(answer["text"])["verdict"] in ("CONFIRMED", "CAUTION", "REJECT")
    assert answer["tokens"] > 0
    with desk.app.desk.store.read() as session:
        row = session.exec(select(Turn).where(Turn.codex_turn_id == answer["turn_id"])).one()
    assert (row.run_id, row.total_tokens) == (before["lines"][0]["run_id"], answer["tokens"])
    assert (row.role, row.provider, row.outcome, row.attempt) == ("fundamentals", "rulebook", "completed", 0)
    code, _, err = command(desk, "ask", made["thread_id"], prompt, DESK_BUDGET_DAY_TOKENS="1")
    assert (code, "nothing was asked: budget: the UTC day has used" in err) == (2, True), err
    seen = result_of(desk, "show", made["thread_id"])
    assert seen["thread"]["parent_id"] == parent
    assert seen["lines"][0]["turn_id"] == before["lines"][0]["turn_id"]
    assert seen["lines"][0]["run_id"] == before["lines"][0]["run_id"] is not None
    assert [turn["prompt"] for turn in seen["lines"]][1:] == [prompt]
    after = result_of(desk, "show", parent)
    assert after["forks"] == [made["thread_id"]]
    assert after["lines"] == before["lines"]
    few, _, error = command(desk, "fork", made["thread_id"], "--before-turn", "1")
    assert (few, "--before-turn 1: allowed are 2 to 3" in error) == (2, True), error
    whole = result_of(desk, "fork", parent[-10:], "--before-turn", "3", "--model", "gpt-5.4")
    assert (whole["turns"], whole["model"]) == (2, "gpt-5.4")
    code, out, _ = command(desk, "fork", parent, "--before-turn", "2")
    assert (code, f": 1 turn of {parent}," in out) == (0, True), out


def test_a_reset_thread_is_gone_on_with_no_more(desk: Processes) -> None:
    old = thread_of(desk, "catalyst")
    code, out, _ = command(desk, "reset", old)
    assert code == 0
    assert "catalyst starts a new thread on" in out
    assert command(desk, "reset", old)[0] == 2
    (closed,) = [one for one in events_of(desk, EventType.THREAD_CLOSED) if one.thread_id == old]
    assert (closed.payload["role"], closed.payload["reason"]) == ("catalyst", "manual")
    run = open_research(desk.app, ["IBM"])
    wait_for(lambda: _state(desk, run.id) in RUN_FINAL, "the run ends")
    assert _state(desk, run.id) == "done"
    new = thread_of(desk, "catalyst")
    assert new != old
    before = current(desk)
    with redis.Redis.from_url(redis_url(desk.settings)) as client:
        client.flushall()
    # Record by record: the first one that is back does not say that all are.
    wait_for(lambda: current(desk) == before, "the sweep finds a Redis that forgot")
    assert result_of(desk, "show", new)["thread"]["reason"] == "manual"
    assert result_of(desk, "show", old)["current"] is False


def test_impossible_input_is_refused_with_a_remedy(desk: Processes) -> None:
    parent = thread_of(desk, "risk")
    for arguments, error in (
        (("show", "abc"), "too short for a thread's id"),
        (("fork", parent, "--before-turn", "99"), "allowed are 2 to"),
        (("ask", parent, "hello"), "is not a fork"),
    ):
        code, _, err = command(desk, *arguments)
        assert (code, error in err) == (2, True), (arguments, err)
        assert "remedy" in err or "allowed" in err
