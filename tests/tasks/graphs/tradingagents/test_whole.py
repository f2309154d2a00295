"""TradingAgents through real workers: the command, its output, a kill, and the verdict of a research run."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from sqlmodel import select

from chordesk.models.states import RUN_FINAL
from chordesk.models.tables.runs import Report, Run, Turn, Verdict
from chordesk.tasks.graphs.tradingagents.ticker_opening import open_tradingagents
from tests.agents.graphs.tradingagents.conftest import TOY
from tests.constants import constants
from tests.fakes.responses import FakeResponses, Refusal, Reply
from tests.patience import PATIENCE
from tests.stack import REPOSITORY, Processes, processes, wait_for
from tests.tasks.graphs.tradingagents.kit import DAY, TURNS, installed
from tests.tasks.views.chain import parts
from tests.tasks.workflows.scripted import Scripted
from tests.toy.analyst import analyst

pytestmark = pytest.mark.process
PATHS = f"{TOY}{os.pathsep}{REPOSITORY}"
SECONDS = 240.0


@pytest.fixture
def model() -> Iterator[FakeResponses]:
    with FakeResponses(analyst(), latency=0.2) as found:
        yield found


def command(desk: Processes, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "chordesk.tasks.cli.main", *arguments],
        cwd=REPOSITORY, env=desk.environ, capture_output=True, text=True, timeout=PATIENCE,
    )  # fmt: skip


def on(model: FakeResponses, **environ: str) -> dict[str, str]:
    return {
        "DESK_PROVIDER": "endpoint", "DESK_PROVIDER_URL": model.url, "DESK_REPLAY_DATE": DAY,
        "DESK_LEASE_SECONDS": "3", **constants({"PYTHONPATH": PATHS}, SWEEP_SECONDS=1), **environ,
    }  # fmt: skip


def ended(desk: Processes, run_id: str) -> Run:
    with desk.app.desk.store.read() as session:
        return session.get_one(Run, run_id)


def test_the_command_plays_tickers_and_a_killed_worker_costs_at_most_what_ran(model: FakeResponses) -> None:
    with installed(TOY), processes(forked=False, **on(model)) as desk:
        desk.workers("research-1", "ops", concurrency=4)
        run_id = open_tradingagents(desk.app, ("IBM", "KO", "GE")).id
        wait_for(lambda: len(list(model.calls())) >= 12, "12 calls", SECONDS)
        desk.end("research-1", signal.SIGKILL)
        desk.workers("research-2", concurrency=4)
        wait_for(lambda: ended(desk, run_id).state in RUN_FINAL, "the run ends", SECONDS)
        run = ended(desk, run_id)
        assert (run.state, run.notes) == ("done", [])
        with desk.app.desk.store.read() as session:
            reports = session.exec(select(Report).where(Report.run_id == run_id)).all()
            turns = session.exec(select(Turn).where(Turn.run_id == run_id)).all()
        assert {row.symbol: row.status for row in reports} == dict.fromkeys(("IBM", "KO", "GE"), "completed")
        for symbol in ("IBM", "KO", "GE"):
            assert [turn.role for turn in turns if turn.subject == symbol] == TURNS
        assert len(list(model.calls())) <= 3 * len(TURNS) + 3
        shown = command(desk, "runs", "show", run_id)
        assert "graph IBM: done, 1 chapter, 15 turns" in shown.stdout
        assert "Buy: CONFIRMED, confidence medium" in shown.stdout
        assert "Verdicts" not in shown.stdout
        chain = json.loads(command(desk, "runs", "show", run_id, "--lineage", "KO", "--json").stdout)
        (report,) = parts(chain, "report")
        assert (report["role"], report["answer"]["rating"]) == ("tradingagents", "Buy")
        assert (parts(chain, "verdict"), len(report["calls"])) == ([], 9)
        assert report["tokens"] == 120 * len(TURNS)
        done = command(desk, "tradingagents", "IBM", "--analysts", "market", "--json")
        assert done.returncode == 0, done.stderr[-2000:]
        found = json.loads(done.stdout)
        assert (found["kind"], found["graphs"][0]["output"]["rating"]) == ("graph", "Buy")
        traded = command(desk, "trade", run_id)
        assert traded.returncode != 0
        assert "verdict" in (traded.stdout + traded.stderr)


def test_the_role_takes_part_in_verdicts_and_no_order_rests_on_it_alone(model: FakeResponses) -> None:
    roles = {"DESK_RESEARCH_ROLES": "quick,fundamentals,risk,catalyst,tradingagents", "DESK_REQUIRED_ROLES": "none"}
    desks = Scripted(stances={("GE", "quick"): "REJECT"})
    ratings = {"KO": analyst("Sell"), "IBM": analyst("Buy")}

    def policy(body: dict[str, Any]) -> Reply:
        text = json.dumps(body["input"])
        if "Role: " in text and "Role: program" not in text:  # a graph's calls are a program's
            return desks(body)
        return ratings["KO" if "'KO'" in text or '"KO"' in text else "IBM"](body)

    model.policy = policy
    with installed(TOY), processes(forked=False, **on(model, **roles)) as desk:
        desk.workers("research-1", "ops", concurrency=4)
        done = command(desk, "research", "IBM", "KO", "GE", "--json")
        assert done.returncode == 0, done.stderr[-2000:]
        found = json.loads(done.stdout)
        assert {row["symbol"]: row["verdict"] for row in found["candidates"]} == {
            "IBM": "BUY", "KO": "HOLD", "GE": "PASS",
        }  # fmt: skip
        assert [row["graph"] for row in found["graphs"]] == ["IBM", "KO"]  # none where quick rejects
        assert found["candidates"][0]["tools"]["get_stock_data"] == 1
        verdict = verdicts(desk, found["run_id"])["IBM"]
        assert verdict.completed == ["quick", "risk", "catalyst", "tradingagents"]  # this market has no fundamentals
        assert verdict.confidence == "medium"
        desks.instead |= {"risk": Refusal("no"), "catalyst": Refusal("no")}
        done = command(desk, "research", "IBM", "--json")
        found = json.loads(done.stdout)
        verdict = verdicts(desk, found["run_id"])["IBM"]
        assert verdict.completed == ["quick", "tradingagents"]
        assert verdict.rating == "INSUFFICIENT"
        assert "No order rests on tradingagents: 2 reports of other roles are needed." in verdict.summary


def verdicts(desk: Processes, run_id: str) -> dict[str, Verdict]:
    with desk.app.desk.store.read() as session:
        return {row.symbol: row for row in session.exec(select(Verdict).where(Verdict.run_id == run_id)).all()}
