"""Sizes measured on a database: rows, bytes of content, and one of each kind."""

from __future__ import annotations

from chordesk.models.database.artifacts import keep
from chordesk.models.database.store import Store
from chordesk.models.settings import Settings
from chordesk.models.states import StepState
from chordesk.models.tables.runs import ToolCall
from chordesk.models.tables.runtime import Blob
from chordesk.tasks.retention.amounts import measure
from tests.builders import a_run, a_step, a_turn
from tests.tasks.events.kit import a_note, opened, write


def test_an_empty_database_has_nothing_to_measure(store: Store, settings: Settings) -> None:
    found = measure(store, settings.home)
    assert {one.each for one in found.units} == {None}
    assert found.database is None or found.database > 0


def test_a_kind_is_measured_over_all_there_are(store: Store, settings: Settings) -> None:
    with store.session() as session:
        run = a_run(session)
        turn = a_turn(session, a_step(session, run, state=StepState.DONE), text="t" * 5000)
        call = {"tool": "quote", "success": True, "has_data": True, "seconds": 0.1}
        session.add_all(ToolCall(turn_id=turn.id, ordinal=size, output="o" * 1000 * size, **call) for size in (1, 3))
        session.add(Blob(digest="d" * 64, data=b"b" * 7000))
    keep(settings.home, b"p" * 400, "image/png")
    keep(settings.home, b"q" * 600, "image/png")
    found = measure(store, settings.home)
    units = {one.name: one for one in found.units}
    calls = units["tool call"]
    assert (calls.count, 2000 < (calls.each or 0) < 2300) == (2, True)
    assert 9000 < (units["turn"].each or 0) < 10_000, "with its tool calls"
    assert 7000 < (units["rollout"].each or 0) < 7200
    assert (units["picture"].count, units["picture"].each) == (2, 500)
    assert (units["screen run"].count, 9000 < (units["screen run"].each or 0) < 12_000) == (1, True)
    assert found.tables[0].name == "turn" or found.tables[0].bytes >= found.tables[1].bytes


def test_events_are_counted_one_by_one(store: Store, settings: Settings) -> None:
    run_id = opened(store)
    write(store, *(a_note(run_id, number) for number in range(99)))
    event = next(one for one in measure(store, settings.home).units if one.name == "event")
    assert event.count == 100
    assert 50 < (event.each or 0) < 1000
