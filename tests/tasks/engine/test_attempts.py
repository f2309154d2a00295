"""Every attempt that has ended is written, by the process that ends it, and shown."""

from __future__ import annotations

import pytest
from rich.console import Console

from chordesk.models.database.store import Store
from chordesk.models.states import StepState
from chordesk.models.tables.runs import Run
from chordesk.tasks.cli.show.run_display import attempts_report
from chordesk.tasks.engine import graph, step_queries
from chordesk.tasks.engine.policy import ALONE_AFTER, LOSSES, MOST_LOSSES
from chordesk.tasks.reading.run_details import steps_of
from tests.tasks.engine.steps import claimed, get, lose, opened, report, tried

LOST = "its worker was lost"


def test_a_step_that_breaks_its_workers_fails_with_the_last_and_leaves_that_to_the_sweep(store: Store) -> None:
    step = report("IBM")
    _, finish = opened(store, step, attempts=1)
    lose(store, step.id)
    with store.session() as session:
        assert graph.claim(session, step.id, "new", 60) is None
        assert step_queries.resend(session) == []
    assert len(tried(store, step.id)) == LOSSES - 1
    with store.session() as session:
        assert [one.id for one in step_queries.fail_exhausted(session)] == [finish]
    assert [row[2:] for row in tried(store, step.id)] == [("lost", LOST)] * LOSSES
    assert get(store, step.id).error == f"gave up: {LOSSES} workers were lost while they had it"


@pytest.mark.parametrize("without", [0, 1, 5, MOST_LOSSES])
def test_workers_lost_elsewhere_raise_the_number_that_a_step_may_lose(store: Store, without: int) -> None:
    step, others = report("IBM"), [report(f"N{number}") for number in range(without)]
    _, finish = opened(store, step, *others)
    lose(store, step.id, 1)
    for other in others:
        lose(store, other.id, 1, f"had {other.subject}")
        claimed(store, other.id, "next")
    last = min(LOSSES + without, MOST_LOSSES)
    lose(store, step.id, last - 2)
    with store.session() as session:
        assert step_queries.fail_exhausted(session) == []
    lose(store, step.id, 1)
    with store.session() as session:
        assert step_queries.resend(session) == []
        ready = step_queries.fail_exhausted(session)
    assert [one.id for one in ready] == ([] if without else [finish]), "the others are held"
    assert get(store, step.id).error == f"gave up: {last} workers were lost while they had it"


def test_a_worker_has_one_suspect_at_a_time_and_any_number_of_others(store: Store) -> None:
    breaks, beside, fresh = report("IBM"), report("AAPL"), report("MSFT")
    opened(store, breaks, beside, fresh)
    for step in (breaks, beside):
        lose(store, step.id, ALONE_AFTER)
    assert claimed(store, breaks.id, "new").attempt == ALONE_AFTER + 1
    with store.session() as session:
        assert graph.claim(session, beside.id, "new", 60) is None
    with store.session() as session:
        assert [one.id for one in step_queries.resend(session)] == [beside.id], "it is not forgotten"
    claimed(store, fresh.id, "new")
    claimed(store, beside.id, "other")


def test_one_that_is_held_when_its_run_is_closed(store: Store) -> None:
    held, waiting = report("IBM"), report("AAPL")
    run, _ = opened(store, held, waiting)
    claimed(store, held.id)
    with store.session() as session:
        graph.fail_open_steps(session, run.id, "the run's deadline passed")
    assert tried(store, held.id) == [(1, "a", "failed", "the run's deadline passed")]
    assert tried(store, waiting.id) == []


def shown(store: Store, run: Run) -> str:
    with store.read() as session:
        found = attempts_report(steps_of(session, run))
    if found is None:
        return ""
    console = Console(width=200, no_color=True)
    with console.capture() as capture:
        console.print(found)
    return capture.get()


def test_the_report_shows_what_went_wrong_and_what_runs(store: Store) -> None:
    fine, broken = report("IBM"), report("AAPL")
    run, _ = opened(store, fine, broken)
    held = claimed(store, fine.id)
    with store.session() as session:
        graph.finish(session, held, StepState.DONE)
    assert shown(store, run) == ""
    held = claimed(store, broken.id, "research@host:12:ab")
    with store.session() as session:
        graph.give_back(session, held, 0, "server_error: 500")
    claimed(store, broken.id)
    text = shown(store, run)
    assert "1 again, 1 done, 1 running" in text
    assert "report quick AAPL" in text
    assert "IBM" not in text
    assert "1 of 2  again after 0.0 s on research@host: server_error: 500" in text
    assert "2 of 2  running" in text
