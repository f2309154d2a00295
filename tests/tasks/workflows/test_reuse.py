"""Reports that count again, in whole runs through real workers."""

from __future__ import annotations

import datetime as dt
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest
from sqlmodel import select

from chordesk.models.database.blobs import pack
from chordesk.models.database.store import Store
from chordesk.models.outside import inflated
from chordesk.models.settings import Settings
from chordesk.models.states import StepKind
from chordesk.models.tables.board import VerdictQuestion
from chordesk.models.tables.runs import Report, ReportBasis, Run, Step, Turn, Verdict, VerdictReport
from chordesk.tasks.reading.chain import candidate_table
from chordesk.tasks.workflows.reusing import longest_age
from tests.fakes.responses import FakeResponses
from tests.patience import PATIENCE
from tests.stack import free_port, processes, wait_for
from tests.tasks.telemetry.asking import ask
from tests.tasks.workflows.conftest import Floor
from tests.tasks.workflows.scripted import Scripted, action

KILLED = "tests.tasks.worker.stopping.killed_worker"
PORT = free_port()
ROLES = {"quick", "fundamentals", "risk", "catalyst"}


@pytest.fixture(scope="module")
def floor() -> Iterator[Floor]:
    model = Scripted()
    with (
        FakeResponses(model) as served,
        processes(DESK_PROVIDER="endpoint", DESK_PROVIDER_URL=served.url, DESK_REUSE="near") as running,
    ):
        running.workers("research", environ={"DESK_METRICS_PORT": str(PORT)})
        running.workers("ops", "trade")
        store = Store(running.settings.database)
        yield Floor(running, served, model, store)
        store.close()


def test_a_run_that_trades_uses_no_report_that_is_too_old_for_an_order() -> None:
    week = Settings(reuse_hours=168.0, max_verdict_age_hours=8.0)
    assert longest_age(week, {}) == dt.timedelta(hours=8)
    assert longest_age(week, {"trade": False}) == dt.timedelta(days=7)


def screened(floor: Floor, names: Path, symbol: str = "IBM") -> str:
    floor.model.hits = {"technical": [symbol]}
    floor.model.actions = [action(symbol, "watch")]
    return str(floor.json("screen", "--universe", str(names), "--lens", "technical", "--max", "1")["run_id"])


def steps(floor: Floor, run_id: str) -> dict[str, dict[str, Any]]:
    with floor.store.read() as session:
        found = session.exec(select(Step).where(Step.run_id == run_id, Step.kind == StepKind.REPORT)).all()
    return {step.role: step.result for step in found}


def test_a_second_screen_asks_no_role_whose_answers_are_the_same(floor: Floor, tmp_path: Path) -> None:
    names = tmp_path / "names.txt"
    names.write_text("IBM\n", encoding="utf-8")
    first, second = screened(floor, names), screened(floor, names)
    assert {row["status"] for row in steps(floor, first).values()} == {"completed", "no_data"}
    again = steps(floor, second)
    assert again.keys() == ROLES
    assert {row["status"] for row in again.values()} == {"reused"}
    assert again["risk"]["reason"] == f"reused from run {first[:16]}, 0 h ago; 3 answers looked at, none differed"
    with floor.store.read() as session:
        assert session.exec(select(Report).where(Report.run_id == second)).all() == []
        asked = session.exec(select(Turn.role).where(Turn.run_id == second)).all()
        old, new = (session.exec(select(Verdict).where(Verdict.run_id == run)).one() for run in (first, second))
        links = select(VerdictReport.report_id)
        lent = {session.exec(links.where(VerdictReport.verdict_id == one.id)).all()[0] for one in (old, new)}
        questions = [session.get_one(VerdictQuestion, one.id).question_id for one in (old, new)]
        run = session.get_one(Run, second)
        summary, cells = run.summary, candidate_table(session, run).rows[0].cells
    assert asked == ["trader"]
    assert (new.rating, new.completed, new.missing) == (old.rating, old.completed, [f"{old.missing[0]}, 0 h before"])
    assert len(lent) == 1
    assert questions[0] == questions[1], "what was forecast once is scored once"
    assert {role: cell.reused for role, cell in cells.items()} == {role: row["reason"] for role, row in again.items()}
    assert all(cell.report_id is not None and cell.earlier for cell in cells.values())
    report = floor.desk("report", second, "--format", "md").out
    assert f"{again['risk']['reason']}. " in report
    counted = ask(PORT, "/metrics")[1]
    assert all(f'desk_reused_total{{role="{role}"}} 1.0' in counted for role in ROLES)
    assert 'desk_tokens_not_spent_total{role="risk"} 200.0' in counted
    assert summary["reused"] == {"reports": 4, "shards": 1, "tokens": 1_000}

    # One figure that moved: the role is asked again, and told what is new; the others are not.
    with floor.store.session() as session:
        found = select(ReportBasis).join(Report).where(Report.run_id == first, Report.role == "risk")
        basis = session.exec(found).one()
        calls = orjson.loads(inflated("calls", basis.calls))
        calls[0][2]["signals"][0]["rsi14"] -= 20
        basis.calls = pack(orjson.dumps(calls))
    third = screened(floor, names)
    assert {role: row["status"] for role, row in steps(floor, third).items() if row["status"] != "reused"} == {
        "risk": "completed"
    }
    texts = [str(call.body) for call in floor.served.calls()]
    assert any("New since your last report on it: signals_get.signals.rsi14" in text for text in texts)
    # A person who asks gets a turn of each role.
    own = floor.research("IBM")
    assert {row["status"] for row in steps(floor, own).values()} == {"completed", "no_data"}


def test_a_worker_killed_after_its_look_leaves_no_second_report_and_no_second_question(
    floor: Floor, tmp_path: Path
) -> None:
    names, bomb, running = tmp_path / "names.txt", tmp_path / "bomb", floor.processes
    names.write_text("KO\n", encoding="utf-8")
    first = screened(floor, names, "KO")
    bomb.touch()
    running.end("research")
    worker = ("worker", "research", "--name", "research")
    place = "chordesk.tasks.workflows.reusing:look"
    killed = running.spawn("research", sys.executable, "-m", KILLED, str(bomb), place, *worker)
    asked = floor.popen("screen", "--universe", str(names), "--lens", "technical", "--max", "1", "--json")
    wait_for(lambda: killed.poll() is not None, "the worker is killed")
    assert not bomb.exists()
    del running.running["research"]
    running.workers("research")
    second = str(json.loads(asked.communicate(timeout=PATIENCE)[0])["run_id"])
    assert {row["status"] for row in steps(floor, second).values()} == {"reused"}
    with floor.store.read() as session:
        again = session.exec(select(Step.attempt).where(Step.run_id == second, Step.kind == StepKind.REPORT)).all()
        made = session.exec(select(Report.run_id, Report.role).where(Report.symbol == "KO")).all()
        questions = select(VerdictQuestion.question_id).join(Verdict).where(Verdict.symbol == "KO")
        linked = session.exec(questions).all()
    assert max(again) == 2
    assert sorted(made) == sorted((first, role) for role in ROLES)
    assert len(linked) == 2
    assert len(set(linked)) == 1
