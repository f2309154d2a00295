"""Whole runs in which some roles are Codex's and some LiteLLM's, with real workers: the rulebook answers both wires."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from celery import Celery
from sqlmodel import select

from chordesk.models.database.store import Store
from chordesk.models.states import RUN_FINAL, RunState
from chordesk.models.tables.runs import Report, Run, Turn
from chordesk.tasks.worker.app import create_app
from chordesk.tasks.workflows.screen import open_screen
from tests.stack import Processes, processes, wait_for
from tests.tasks.worker.steps import get_run

SYMBOLS = "AAPL,IBM,TGT,GOOG,XOM,GE,JPM,BAC,WMT,PG,JNJ,KO,PEP,MRK,PFE,INTC,CSCO,ORCL,HPQ,T,VZ,CVX,C,WFC,MMM,CAT,BA,DIS"
BY_LITELLM = ("screener_technical", "quick", "risk")
MODELS = ";".join(f"{role}=litellm:rulebook" for role in BY_LITELLM)
CANDIDATES = 4


@pytest.fixture(scope="module")
def desk() -> Iterator[Processes]:
    with processes(DESK_ROLE_MODELS=MODELS, DESK_LEASE_SECONDS="3") as found:
        found.rulebook()
        found.workers("research", "ops", "trade")
        yield found


@pytest.fixture
def store(desk: Processes) -> Store:
    return desk.app.desk.store


def screened(app: Celery) -> Run:
    run = open_screen(app, SYMBOLS, max_candidates=CANDIDATES)
    assert run is not None
    return run


def ended(store: Store, run: Run) -> Run:
    wait_for(lambda: get_run(store, run.id).state in RUN_FINAL, "the run ends")
    return get_run(store, run.id)


def rows(store: Store, table: Any, run: Run) -> list[Any]:
    with store.read() as session:
        return list(session.exec(select(table).where(table.run_id == run.id)).all())


def answers(store: Store, run: Run) -> dict[tuple[str, str], str]:
    """What each report answered, without the letters by which its turn's tool answers are cited."""
    return {
        (one.role, one.symbol): re.sub(r'"[a-z]{4}-([a-z]+)"', r'"\1"', json.dumps(one.answer))
        for one in rows(store, Report, run)
    }


def test_a_screen_on_both_runtimes_ends_as_one_on_codex_alone(desk: Processes, store: Store) -> None:
    """The same worker does a run in which each role is Codex's; the rules answer alike through both wires."""
    mixed = ended(store, screened(desk.app))
    app = create_app(desk.settings.model_copy(update={"role_models": ""}), "codex-alone")
    alone = ended(store, screened(app))
    app.desk.close()
    assert (mixed.state, alone.state) == (RunState.DONE, RunState.DONE)
    assert answers(store, mixed) == answers(store, alone)
    assert mixed.summary["verdicts"] == alone.summary["verdicts"]
    assert len(answers(store, mixed)) == 4 * CANDIDATES
    turns = rows(store, Turn, mixed)
    assert {one.status for one in turns} == {"completed"}
    assert all(one.total_tokens and one.thread_id and one.codex_turn_id for one in turns)
    assert {one.kept for one in turns if one.role in BY_LITELLM} == {False}
    assert {one.thread_reason for one in turns if one.role == "risk"} == {"stateless"}
    assert {one.model for one in turns} == {"rulebook (rules, no model)"}
