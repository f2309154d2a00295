"""Threads over HTTP: whole turns, a fork, a question in it with a real app-server, a reset, and a turn that runs."""

from __future__ import annotations

import json
from typing import Any

import pytest

from chordesk.models.tables.columns import utcnow
from chordesk.models.tables.runtime import RuntimeApproval, RuntimeItem, RuntimeTurn
from tests.stack import wait_for
from tests.tasks.web.routes.history.conftest import BY, Screened, finished
from tests.tasks.web.test_security import problem


# As long as its desk: a second one would find a thread of four turns.
@pytest.fixture(scope="package")
def parent(screened: Screened) -> str:
    """A thread that a role used in two runs."""
    for _ in range(2):
        finished(screened.client, {"kind": "research", "symbols": ["JPM"], **BY})
    (thread,) = [
        row
        for row in screened.get("/threads", role="risk")
        if row["thread"]["subject"].endswith("/JPM") and row["current"]
    ]
    assert thread["turns"] == 2
    thread_id: str = thread["thread"]["thread_id"]

    def recorded() -> bool:
        turns = screened.get(f"/threads/{thread_id}/turns")["turns"]
        return all("agentMessage" in {item["type"] for item in turn["items"]} for turn in turns)

    # The worker's recorder writes them beside the steps: on a busy machine the run may have ended before.
    wait_for(recorded, "the last items of the turns are written")
    return thread_id


def test_a_turn_is_shown_with_its_prompt_items_calls_and_tokens(screened: Screened, parent: str) -> None:
    found = screened.get(f"/threads/{parent}/turns")
    lines = screened.get(f"/threads/{parent}")["lines"]
    assert (found["total"], found["missing"]) == (2, None)
    for turn, line in zip(found["turns"], lines, strict=True):
        assert (turn["turn_id"], turn["ordinal"], turn["outcome"]) == (line["turn_id"], line["ordinal"], "completed")
        assert turn["prompt"].strip().startswith(line["prompt"])
        assert "JPM" in turn["prompt"]
        assert json.loads(turn["answer"])["verdict"]
        assert turn["row"]["total_tokens"] == turn["tokens"] == line["tokens"]
        row = screened.get(f"/turns/{turn['row']['id']}")
        assert [call["id"] for call in turn["calls"]] == [call["id"] for call in row["tool_calls"]]
        assert all(json.loads(call["output"]) and call["arguments"] for call in turn["calls"])
        assert {"userMessage", "agentMessage"} <= {item["type"] for item in turn["items"]}  # code asked its tools
        assert (turn["approvals"], turn["running"]) == ([], False)
    page = screened.get(f"/threads/{parent[-8:]}/turns", limit=1, offset=1)
    assert [turn["ordinal"] for turn in page["turns"]] == [2]


def test_a_turn_that_runs_shows_its_items_and_its_request(screened: Screened, parent: str) -> None:
    now = utcnow()
    with screened.service.store.session() as session:
        session.add(
            RuntimeTurn(
                thread_id=parent, turn_id="live", run_id=screened.run_id, status="in_progress", started_at=now
            )
        )  # fmt: skip
        session.add(
            RuntimeItem(
                turn_id="live", item_id="i", thread_id=parent, run_id=screened.run_id, type="commandExecution",
                status="in_progress", started_at=now,
            )
        )  # fmt: skip
        asked = RuntimeApproval(
            run_id=screened.run_id, step_id="s", attempt=1, role="risk", kind="command", thread_id=parent,
            turn_id="live", item_id="i", state="pending", expires_at=now, detail={"command": "ls"},
        )  # fmt: skip
        session.add(asked)
        session.flush()
        asked_id = asked.id
    try:
        last = screened.get(f"/threads/{parent}/turns")["turns"][-1]
        assert (last["turn_id"], last["running"], last["outcome"]) == ("live", True, "in_progress")
        assert [item["type"] for item in last["items"]] == ["commandExecution"]
        assert [(one["id"], one["detail"]) for one in last["approvals"]] == [(asked_id, {"command": "ls"})]
    finally:
        with screened.service.store.session() as session:
            for row in (
                session.get_one(RuntimeTurn, (parent, "live")),
                session.get_one(RuntimeItem, ("live", "i")),
                session.get_one(RuntimeApproval, asked_id),
            ):
                session.delete(row)


def test_a_role_starts_afresh_after_a_reset(screened: Screened, parent: str) -> None:
    thread = next(row["thread"] for row in screened.get("/threads", role="catalyst") if row["current"])
    found = post(screened, f"/threads/{thread['thread_id']}/reset", 200)
    assert found == {"thread_id": thread["thread_id"], "role": "catalyst", "subject": thread["subject"]}
    assert screened.get(f"/threads/{thread['thread_id']}")["current"] is False
    again = screened.client.post(f"/threads/{thread['thread_id']}/reset", json=BY)
    assert problem(again, 409) == "usage_error"
    assert problem(screened.client.post("/threads/ffffffff/reset", json=BY), 404) == "not_found"


def post(screened: Screened, path: str, status: int, **body: Any) -> Any:
    response = screened.client.post(path, json={**body, **BY})
    assert response.status_code == status, response.text
    return response.json()
