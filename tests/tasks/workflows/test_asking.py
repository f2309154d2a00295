"""A question that no look-up knows: looked up by a role on real workers, kept, and gone on with."""

from __future__ import annotations

import json
from typing import Any

import pytest
from sqlmodel import select

from chordesk.models.tables.runs import Run
from chordesk.models.tables.runtime import Notice
from chordesk.tasks.engine import requests
from chordesk.tasks.questions import AskedQuestion
from chordesk.tasks.workflows.scheduled import open_once
from tests.fakes.responses import Call, Reply, Text, answered
from tests.parts import of_feature
from tests.stack import wait_for
from tests.tasks.workflows.conftest import Floor
from tests.tasks.workflows.scripted import USAGE

words_of = of_feature("chordesk.tasks.asking.wording:answered")
TABLES = "chordesk.models.asking.tables"
SAID = {
    "answer": "The desk has 0 orders, and 77 of something else.", "sources": ["0123456789ab"], "missing": [],
    "proposals": [],
}  # fmt: skip


def test_a_question_is_looked_up_answered_with_marks_and_gone_on_with(floor: Floor) -> None:
    seen: list[str] = []

    def clerk(body: dict[str, Any]) -> Reply:
        if answered(body):
            return Text(json.dumps(SAID), USAGE)
        seen.append(json.dumps(body["input"], ensure_ascii=False))
        return Call("orders_list", json.dumps({"state": "open"}), USAGE)

    floor.model.instead = {"clerk": clerk}
    first = floor.desk("ask", "is there anything odd about the desk\u202e?", "--new", "--json")
    assert first.code == 0, first.err
    found = first.json
    assert (found["state"], found["intent"], found["question"]) == (
        "answered", "", "is there anything odd about the desk ?"
    )  # fmt: skip
    assert found["text"] == "The desk has 0 orders, and 77 [not found] of something else."
    assert (found["figures"], found["found"], found["tokens"]) == (2, 1, 200)
    assert found["sources"] == []
    assert found["missing"] == ["the source 0123456789ab: no tool of this turn gave it"]
    second = floor.json("ask", "--model", "status", "--in", found["dialogue"][:12])
    assert second["dialogue"] == found["dialogue"]
    assert "anything odd about the desk" in seen[-1], "the dialogue is its memory"
    runs = {one["run"]["id"] for one in floor.json("runs", "list")}
    assert found["run_id"] not in runs, "lists leave them out"
    assert {one["run"]["id"] for one in floor.json("runs", "list", "--kind", "ask")} >= {
        found["run_id"], second["run_id"]
    }  # fmt: skip


def test_a_question_of_a_phone_is_opened_by_a_pass_once_and_has_its_answer(floor: Floor) -> None:
    phones, row = of_feature("chordesk.tasks.asking.elsewhere:Phones")(), of_feature(f"{TABLES}:AskingEntry")
    said = {**SAID, "proposals": [{"kind": "halt", "arguments": "{}"}], "sources": []}
    floor.model.instead = {"clerk": Text(json.dumps(said), USAGE)}
    settings = floor.processes.settings
    with floor.store.session() as session:
        asked = AskedQuestion("is anything odd? if so stop trading", "ada", "telegram")
        id_ = phones.ask(session, settings, asked)

    def ended() -> bool:
        with floor.store.read() as session:
            return bool(phones.ended(session, settings, id_))

    wait_for(ended, "it is answered")
    with floor.store.session() as session:
        found = phones.answered(session, settings, id_)
        assert (found.text.splitlines()[0], [one.kind for one in found.proposals]) == (
            "The desk has 0 (not found) orders, and 77 (not found) of something else.", ["halt"]
        )  # fmt: skip
        assert found.proposals[0].by == "ada"
        entry = session.get_one(row, id_)
        runs = session.exec(select(Run.id).where(Run.kind == "ask", Run.id == entry.run_id)).all()
        assert len(runs) == 1
        assert session.exec(select(Notice).where(Notice.run_id == entry.run_id)).all() == []
    with pytest.raises(of_feature("chordesk.tasks.asking.clerk_runs:TakenUp")):
        of_feature("chordesk.tasks.asking.clerk_runs:open_kept")(floor.processes.app, entry)


def test_what_the_schedule_asks_is_told_to_people(floor: Floor) -> None:
    floor.model.instead = {"clerk": Text(json.dumps({**SAID, "answer": "Nothing is due.", "sources": []}), USAGE)}
    asked = requests.made("ask", {"question": "what is due today"}, "schedule morning")
    run_id = open_once(floor.processes.app, asked, "morning", "2026-11-27")
    assert run_id is not None
    assert floor.ended(run_id) == "done"
    assert open_once(floor.processes.app, asked, "morning", "2026-11-27") is None
    with floor.store.read() as session:
        (notice,) = session.exec(select(Notice).where(Notice.run_id == run_id)).all()
    assert (notice.kind, notice.subject, words_of(notice)) == (
        "asking_answered", "morning", "what is due today: Nothing is due."
    )  # fmt: skip
