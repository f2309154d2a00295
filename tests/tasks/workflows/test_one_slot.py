"""Research on a local server that has one slot as far as is known, and a small context: one turn at a time, and none
that does not fit."""

from __future__ import annotations

import json
import time

from sqlmodel import select

from chordesk.agents.gateway.facts import known_facts
from chordesk.models.states import RUN_FINAL
from chordesk.models.tables.runs import Report, Run, Step, Turn
from chordesk.tasks.engine import policy
from chordesk.tasks.workflows.research import open_research
from chordesk.tools.shortening import tokens_of
from tests.fakes.local_server import LocalServer, Pace
from tests.patience import PATIENCE
from tests.stack import processes

CONTEXT = 8_192


def test_turns_wait_for_the_slot_and_use_no_attempt_up() -> None:
    with (
        LocalServer(kind="ollama", model="small", context=CONTEXT, slots=8, pace=Pace(first=0.1)) as server,
        processes(DESK_PROVIDER="local", DESK_PROVIDER_URL=server.url, DESK_MODEL="small") as desk,
    ):
        desk.workers("research", "ops")
        run = open_research(desk.app, ["IBM", "GE", "XOM"])
        store, until = desk.app.desk.store, time.monotonic() + PATIENCE
        while True:
            with store.read() as session:
                row = session.get_one(Run, run.id)
            if row.state in RUN_FINAL:
                break
            assert time.monotonic() < until, desk.log("research")[-3000:]
            time.sleep(0.3)
        with store.read() as session:
            reports = session.exec(select(Report).where(Report.run_id == run.id)).all()
            turns = session.exec(select(Turn).where(Turn.run_id == run.id)).all()
            steps = session.exec(select(Step).where(Step.run_id == run.id)).all()
        facts = known_facts(desk.home, server.url, "small")
    assert facts is not None
    assert (facts.slots, facts.context) == (None, CONTEXT)
    assert reports
    assert server.most_open == 1
    assert {step.max_attempts - step.attempt for step in steps if step.role} == {policy.STEP_ATTEMPTS - 1}
    asked = [seen.body["messages"] for seen in server.chats() if "Constraints:" in json.dumps(seen.body)]
    assert max(tokens_of(json.dumps(messages)) for messages in asked) < CONTEXT
    assert not [turn for turn in turns if turn.failure_kind == "context_window"]
    assert {turn.model for turn in turns} == {"local:small"}
