"""Requests of a model to a person, from the turn that waits to the answer: rows, events, commands, and answers that
come too late."""

from __future__ import annotations

import asyncio
import datetime as dt
import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import redis.asyncio
from sqlmodel import col, select

from chordesk.agents.codex.runtime import CodexRuntime
from chordesk.agents.runtime import ApprovalDecision, ApprovalKind, ApprovalRequest, Scope
from chordesk.models import event_log
from chordesk.models.database.store import Store
from chordesk.models.errors import NotFound, NotWaiting, UsageError
from chordesk.models.events import Envelope
from chordesk.models.settings import Settings
from chordesk.models.states import ApprovalState, StepState
from chordesk.models.tables.columns import utcnow
from chordesk.models.tables.runs import Step
from chordesk.models.tables.runtime import RuntimeApproval
from chordesk.tasks import approval_requests
from chordesk.tasks.approval_requests import ApprovalAsker, WaitingRequest, answer, waiting
from chordesk.tasks.worker.messages import WorkerNotifier
from tests.agents.codex.kit import FINAL, config, one_turn, run, spec, until
from tests.builders import a_run, a_step
from tests.databases import make_database
from tests.fakes.responses import Call, FakeResponses, Text
from tests.patience import PATIENCE
from tests.tasks.cli.running import desk

COMMAND = {
    "action": "command", "command": "rm -r notes", "cwd": "/work", "reason": None, "permissions": None, "network": None,
}  # fmt: skip
QUESTION = {"id": "size", "header": "Size", "question": "How large?", "options": ["small", "large"]}
QUESTIONS = {"questions": [{**QUESTION, "other": False, "secret": False}]}


@dataclass(frozen=True, slots=True)
class Floor:
    """Data folder with a running step and a turn that may ask."""

    settings: Settings
    store: Store
    scope: Scope

    def ask(self, kind: ApprovalKind = "command", seconds: float = PATIENCE, **changes: Any) -> str:
        """A request that waits from now on; its id."""
        id_ = f"request-{len(self.rows())}"
        detail = QUESTIONS if kind == "user_input" else COMMAND
        request = replace(ApprovalRequest(kind, "thread-1", "turn-1", "item-1", None, detail), **changes)
        with self.store.session() as session:
            approval_requests.add_request(session, id_, request, self.scope, seconds)
        return id_

    def answer(self, id_: str, yes: bool = True, **given: Any) -> str:
        messenger = WorkerNotifier(self.settings)
        found = answer(self.store, self.settings, messenger.trade, id_, approve=yes, by="ann@desk", why="so", **given)
        assert found.order is None
        return found.state

    def rows(self) -> list[RuntimeApproval]:
        with self.store.read() as session:
            return list(session.exec(select(RuntimeApproval).order_by(col(RuntimeApproval.asked_at))).all())

    def waiting(self) -> list[str]:
        with self.store.read() as session:
            return [row.approval.id for row in waiting(session)]

    def events(self) -> list[Envelope]:
        with self.store.read() as session:
            return event_log.read(session, self.scope.run_id, 0, 100)


@pytest.fixture
def floor(tmp_path: Path) -> Iterator[Floor]:
    settings = Settings(home=tmp_path)
    make_database(settings.database)
    store = Store(settings.database)
    with store.session() as session:
        run_ = a_run(session)
        step = a_step(session, run_, state=StepState.RUNNING, attempt=2, role="quick")
    yield Floor(settings, store, Scope(run_.id, step.id, 2, "quick", "ACME"))
    store.close()


def test_a_request_is_listed_decided_and_published(floor: Floor) -> None:
    id_ = floor.ask(approval_id="upstream-1")
    with floor.store.read() as session:
        (row,) = waiting(session)
    assert isinstance(row, WaitingRequest)
    asked = row.approval
    assert (asked.kind, asked.role, row.what) == ("command", "quick", "rm -r notes in /work")
    assert asked.detail == COMMAND
    ids = (asked.approval_id, asked.thread_id, asked.turn_id, asked.item_id)
    assert ids == ("upstream-1", "thread-1", "turn-1", "item-1")
    assert floor.answer("upstream-1") == ApprovalState.APPROVED
    assert floor.waiting() == []
    (kept,) = floor.rows()
    assert (kept.state, kept.decided_by, kept.why) == ("approved", "ann@desk", "so")
    asked, decided = floor.events()
    assert [(one.sequence, one.type, one.payload["request"]) for one in (asked, decided)] == [
        (1, "approval.asked", id_), (2, "approval.decided", id_),
    ]  # fmt: skip
    for one in (asked, decided):
        assert (one.thread_id, one.turn_id, one.item_id, one.approval_id) == (
            "thread-1", "turn-1", "item-1", "upstream-1",
        )  # fmt: skip
    assert asked.payload["what"] == "rm -r notes in /work"
    assert {"decision": "approved", "by": "ann@desk", "why": "so"}.items() <= decided.payload.items()


def test_an_answer_to_what_is_unknown_or_over_is_refused(floor: Floor) -> None:
    with pytest.raises(NotFound, match="'nothing'"):
        floor.answer("nothing")
    id_ = floor.ask()
    floor.ask()
    with pytest.raises(UsageError, match="more than one"):
        floor.answer("request-")
    assert floor.answer(id_, yes=False) == ApprovalState.DENIED
    with pytest.raises(NotWaiting, match=rf"{id_} does not wait for an answer: it is denied"):
        floor.answer(id_)
    assert floor.rows()[0].state == "denied"


def test_an_answer_after_the_time_or_after_the_turn_changes_nothing_but_the_state(floor: Floor) -> None:
    late = floor.ask(seconds=0)
    assert floor.waiting() == []
    assert floor.answer(late) == ApprovalState.EXPIRED
    taken_over = floor.ask()
    with floor.store.session() as session:
        session.get_one(Step, floor.scope.step_id).attempt = 3
    assert floor.answer(taken_over) == ApprovalState.EXPIRED
    assert [row.state for row in floor.rows()] == ["expired", "expired"]
    assert [one.type for one in floor.events()][-1] == "approval.expired"


def test_the_sweep_closes_the_requests_of_a_lost_worker(floor: Floor) -> None:
    floor.ask(seconds=0)
    open_ = floor.ask()
    with floor.store.session() as session:
        assert approval_requests.expire_overdue_requests(session) == 1
        assert approval_requests.expire_overdue_requests(session) == 0
    assert [row.state for row in floor.rows()] == ["expired", "pending"]
    assert floor.waiting() == [open_]


def test_answers_fit_the_questions(floor: Floor) -> None:
    id_ = floor.ask("user_input")
    for wrong, message in (
        ({}, "question 'size' has no answer"),
        ({"size": ["small"], "colour": ["red"]}, "there is no question 'colour'"),
        ({"size": ["huge"]}, "'huge' is no answer to 'size'"),
    ):
        with pytest.raises(UsageError, match=message):
            floor.answer(id_, answers=wrong)
    with pytest.raises(UsageError, match="a refusal has no answers"):
        floor.answer(id_, yes=False, answers={"size": ["small"]})
    assert floor.waiting() == [id_]
    assert floor.answer(id_, answers={"size": ["small"]}) == ApprovalState.APPROVED
    assert floor.rows()[0].answers == {"size": ["small"]}
    with pytest.raises(UsageError, match="there is no question 'size'"):
        floor.answer(floor.ask(), answers={"size": ["small"]})


def test_the_asking_worker_gets_the_answer_and_closes_what_it_no_longer_waits_for(floor: Floor) -> None:
    request = ApprovalRequest("user_input", "thread-1", "turn-1", "item-1", None, QUESTIONS)

    async def work() -> None:
        asking = ApprovalAsker(floor.store)
        answered = asyncio.create_task(asking.ask(request, floor.scope, 60))
        await until(lambda: len(floor.waiting()) == 1)
        await asyncio.to_thread(floor.answer, floor.waiting()[0], answers={"size": ["large"]})
        assert await answered == ApprovalDecision(approved=True, answers={"size": ["large"]})

        assert not (await asking.ask(request, floor.scope, 0.2)).approved

        ended = asyncio.create_task(asking.ask(request, floor.scope, 60))
        await until(lambda: len(floor.waiting()) == 1)
        ended.cancel()
        await until(lambda: not floor.waiting())

        at_once = asyncio.create_task(asking.ask(request, floor.scope, 60))
        await asyncio.sleep(0)  # its row is being written
        at_once.cancel()
        await until(lambda: [row.state for row in floor.rows()] == ["approved", "expired", "expired", "expired"])

    run(work())


def test_it_waits_no_longer_than_it_may(floor: Floor) -> None:
    request = ApprovalRequest("command", "thread-1", "turn-1", "item-1", None, COMMAND)

    async def work() -> None:
        asking = asyncio.create_task(ApprovalAsker(floor.store, 30.0).ask(request, floor.scope, 600))
        await until(lambda: len(floor.waiting()) == 1)
        (row,) = floor.rows()
        assert dt.timedelta(0) < row.expires_at - utcnow() <= dt.timedelta(seconds=30)
        asking.cancel()
        await until(lambda: not floor.waiting())

    run(work())


def test_a_turn_goes_on_with_an_answer_given_in_another_process(
    floor: Floor, tmp_path: Path, redis_server: str
) -> None:
    """The real app-server asks, `desk approvals` shows all of it, and `desk approve` and `desk deny` decide."""

    async def work(model: FakeResponses) -> None:
        client = redis.asyncio.Redis.from_url(redis_server)
        asker = ApprovalAsker(floor.store)
        runtime = CodexRuntime(config(model, tmp_path / "runtime"), client, asker=asker)
        await runtime.start()
        asked = replace(spec(), scope=floor.scope, approvals=frozenset({"command"}))
        for command, verb in (("touch yes.txt", "approve"), ("touch no.txt", "deny")):
            model.script(Call("exec_command", json.dumps({"cmd": command})), Text(FINAL))
            turn = asyncio.create_task(one_turn(runtime, asked))
            await until(lambda: len(floor.waiting()) == 1)
            (id_,) = floor.waiting()
            shown = await asyncio.to_thread(desk, tmp_path, "approvals")
            assert f"request {id_}  quick asks for command" in shown.stdout, shown
            assert f"  | /bin/bash -lc '{command}'" in shown.stdout
            done = await asyncio.to_thread(desk, tmp_path, verb, id_, "--why", "so")
            assert done.returncode == 0, done.stderr
            assert f"request {id_} {'approved' if verb == 'approve' else 'denied'} by " in done.stdout
            assert (await turn).text == FINAL
        await runtime.close(1)
        await client.aclose()

    # On this thread first: what serves the tests' commands lives no longer than the thread that started it.
    assert desk(tmp_path, "approvals").stdout == "nothing waits for approval\n"
    with FakeResponses() as model:
        run(work(model))
    folder = tmp_path / "runtime" / "codex" / "w" / "ephemeral" / "work"
    assert (folder / "yes.txt").exists()
    assert not (folder / "no.txt").exists()


def test_the_commands_show_a_request_as_it_is_and_answer_questions(floor: Floor, tmp_path: Path) -> None:
    floor.ask(detail={**COMMAND, "command": "cat \x1b[2Ka\nrequest approved by ann\x00"})
    question = floor.ask("user_input")
    shown = desk(tmp_path, "approvals").stdout
    assert "  | cat  [2Ka\n  | request approved by ann\n" in shown
    assert "  | size: How large? (small, large)" in shown
    listed = json.loads(desk(tmp_path, "approvals", "--json").stdout)
    assert [row["approval"]["kind"] for row in listed] == ["command", "user_input"]
    wrong = desk(tmp_path, "approve", question, "--answer", "small")
    assert wrong.returncode != 0
    assert "give ID=TEXT" in wrong.stderr
    done = desk(tmp_path, "approve", question, "--answer", "size=small")
    assert done.returncode == 0, done.stderr
    again = desk(tmp_path, "deny", question, "--why", "so")
    assert again.returncode != 0
    assert f"request {question} does not wait for an answer: it is approved" in again.stderr
    late = floor.ask(seconds=0)
    too_late = desk(tmp_path, "approve", late)
    assert too_late.returncode == 1
    assert "too late" in too_late.stdout
