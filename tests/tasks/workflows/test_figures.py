"""A run's closing figures are what its tables say, whatever happened in it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlmodel import Session, select

from chordesk.models.answers import Rating
from chordesk.models.database.store import Store
from chordesk.models.settings import Settings
from chordesk.models.states import RUN_FINAL, StepState
from chordesk.models.tables.orders import Order
from chordesk.models.tables.runs import Candidate, Report, Run, ScreenHit, Step, ToolCall, Turn, Verdict
from chordesk.tasks.engine.summary import summarise
from chordesk.tasks.reading.runs import progress, view
from tests.builders import a_candidate, a_run, a_step, a_turn
from tests.databases import make_database
from tests.examples import examples
from tests.fakes.responses import Status, Text
from tests.tasks.workflows.conftest import Floor
from tests.tasks.workflows.scripted import action


def rows_of(session: Session, table: Any, run_id: str) -> list[Any]:
    return [row for row in session.exec(select(table)).all() if row.run_id == run_id]


def check_figures(session: Session, run: Run, summary: dict[str, Any]) -> None:
    """Every figure against the rows, counted here one by one."""
    turns = rows_of(session, Turn, run.id)
    ratings = Counter(row.rating for row in rows_of(session, Verdict, run.id))
    assert summary["turns"] == len(turns)
    assert summary["tokens"] == sum(turn.total_tokens for turn in turns)
    ids = {turn.id for turn in turns}
    called = Counter(call.tool for call in session.exec(select(ToolCall)).all() if call.turn_id in ids)
    assert summary["tools"] == called
    hits = Counter(row.lens for row in rows_of(session, ScreenHit, run.id))
    assert summary["lenses"] == dict.fromkeys(run.params.get("lenses", ()), 0) | hits
    assert summary["budgets"][0]["used"] == summary["tokens"]
    assert summary["verdicts"] == dict(ratings)
    assert summary["candidates"] == len(rows_of(session, Candidate, run.id))
    assert summary["reports"] == dict(Counter(row.status for row in rows_of(session, Report, run.id)))
    assert summary["orders"] == dict(Counter(row.state for row in rows_of(session, Order, run.id)))
    seen = progress(session, run.id)
    assert (seen.turns, seen.tokens) == (summary["turns"], summary["tokens"])
    assert sum(seen.candidates.values()) == summary["candidates"]
    assert {name: count for name, count in seen.candidates.items() if name in set(Rating)} == dict(ratings)
    steps = {step.id: step for step in rows_of(session, Step, run.id)}
    for row in view(session, run).candidates if not run.params.get("source_run") else ():
        mine = [turn for turn in turns if steps[turn.step_id].kind == "report" and turn.subject == row.symbol]
        assert row.tokens == sum(turn.total_tokens for turn in mine)
        ids = {turn.id for turn in mine}
        assert row.tools == Counter(call.tool for call in session.exec(select(ToolCall)).all() if call.turn_id in ids)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    url = f"sqlite:///{tmp_path_factory.mktemp('figures') / 'desk.db'}"
    make_database(url)
    made = Store(url)
    yield made
    made.close()


# Of one candidate: its rating or None, and of each of its turns the tokens and how many tools it called.
CANDIDATES = st.lists(
    st.tuples(
        st.sampled_from([*Rating, None]), st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 3)), max_size=3)
    ),
    max_size=5,
)


@settings(max_examples=examples(25), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(found=CANDIDATES)
def test_any_run_adds_up(store: Store, found: list[tuple[Rating | None, list[tuple[int, int]]]]) -> None:
    """The runs of earlier examples stay in the tables and must not count."""
    with store.session() as session:
        run = a_run(session)
        for place, (rating, turns) in enumerate(found):
            _judge(session, run, f"S{place}", rating, turns)
        session.flush()
        check_figures(session, run, summarise(session, run, Settings(home=Path("/nonexistent"))))


def _judge(session: Session, run: Run, symbol: str, rating: Rating | None, turns: list[tuple[int, int]]) -> None:
    candidate = a_candidate(session, run, symbol)
    step = a_step(session, run, subject=symbol, role="quick", state=StepState.DONE)
    for ordinal, (tokens, calls) in enumerate(turns):
        turn = a_turn(session, step, ordinal=ordinal, total_tokens=tokens)
        for number in range(calls):
            call = {"turn_id": turn.id, "ordinal": number, "tool": "signals_get", "output": ""}
            session.add(ToolCall(**call, success=True, has_data=True, seconds=0.0))
    if rating is not None:
        verdict = {"run_id": run.id, "candidate_id": candidate.id, "symbol": symbol, "rating": rating}
        session.add(Verdict(**verdict, confidence="low", summary="", market_at=run.market_now))


def test_every_real_run_adds_up(floor: Floor) -> None:
    """With a lens that fails, an answer that is repaired, a turn that is tried again, a rejection and a trade."""
    floor.model.hits = {"technical": ["IBM", "MMM"], "catalyst": ["GE"]}
    floor.model.stances = {("MMM", "quick"): "REJECT", ("GE", "risk"): "CAUTION"}
    floor.model.once = {"risk": Text('{"verdict":"PERHAPS"}'), "catalyst": Status(500)}
    floor.model.instead = {"screener_fundamental": Status(401)}
    floor.model.actions = [action("IBM"), action("XOM")]
    found = floor.json("screen", "--universe", "IBM,MMM,GE")
    assert found["state"] == "partial"
    floor.json("trade", found["run_id"])
    with floor.store.read() as session:
        runs = [run for run in session.exec(select(Run)).all() if run.state in RUN_FINAL and run.summary]
        assert len(runs) >= 2
        for run in runs:
            check_figures(session, run, run.summary)
        turns = rows_of(session, Turn, found["run_id"])
    assert {"invalid_output", "unauthorized"} <= {turn.failure_kind for turn in turns}
    assert any(turn.ordinal == 1 and turn.outcome == "completed" for turn in turns), "the repair turn is on record"
