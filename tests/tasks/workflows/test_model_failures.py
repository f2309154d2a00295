"""Whole runs with a model that refuses or fails: real workers, Redis and app-servers; the far side of the wire is
scripted."""

from __future__ import annotations

import datetime as dt
import io
import json
import math
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from itertools import pairwise
from typing import Any
from zoneinfo import ZoneInfo

import pytest
import redis
from celery import Celery
from rich.console import Console
from sqlmodel import Session, col, select

from chordesk.models.errors import UsageError
from chordesk.models.notice_channels import NoticeKind
from chordesk.models.settings.sources import load_settings
from chordesk.models.states import RUN_FINAL, RunState, StepKind, StepState
from chordesk.models.tables.columns import utcnow
from chordesk.models.tables.runs import Decision, Report, Run, Step, Turn
from chordesk.models.tables.runtime import Notice
from chordesk.tasks.cli.show.run_display import run_report
from chordesk.tasks.engine import policy
from chordesk.tasks.engine.limits import parked_models
from chordesk.tasks.reading.runs import view, waits
from chordesk.tasks.redis_clients import redis_url
from chordesk.tasks.worker.app import create_app
from chordesk.tasks.worker.maintenance import sweep
from chordesk.tasks.workflows.research import open_research
from chordesk.tasks.workflows.screen import open_screen
from chordesk.tasks.workflows.trade import open_trade
from tests.constants import constants
from tests.fakes.responses import Call, Failing, FakeResponses, Reply, Status, Text, answered
from tests.patience import PATIENCE
from tests.stack import Processes, processes, wait_for

SOUND = {"verdict": "CONFIRMED", "confidence": "high", "summary": "Sound.", "keyRisks": []}
VIEW = json.dumps({**SOUND, "thesis": {"direction": "up", "probability": 0.6}})
PICK = {"symbol": "AAPL", "instrument": "equity", "confidence": "high", "thesis": "Strong."}
DATA_TOOLS = ("signals_get", "technicals_get", "company_get", "sp500_movers")


def role_of(body: dict[str, Any]) -> str:
    text = body["input"][0]["content"][0]["text"]
    return str(text.splitlines()[0].removeprefix("Role: "))


def by_rules(body: dict[str, Any]) -> Reply:
    """Asks one data tool, then answers what fits the role."""
    role = role_of(body)
    offered = [tool["name"] for tool in body["tools"]]
    tool = next((name for name in DATA_TOOLS if name in offered), None)
    if tool is not None and not answered(body) and role != "trader":
        return Call(tool, '{"direction":"up"}' if tool == "sp500_movers" else '{"symbols":["AAPL"]}')
    if role.startswith("screener"):
        return Text(json.dumps({"candidates": [PICK]}))
    return Text(json.dumps({"actions": [], "reasoning": "Wait."}) if role == "trader" else VIEW)


@pytest.fixture(scope="module")
def served() -> Iterator[FakeResponses]:
    with FakeResponses(by_rules) as far:
        yield far


@pytest.fixture
def model(served: FakeResponses) -> FakeResponses:
    """Everybody's model, as it was at first."""
    served.policy = by_rules
    served.requests.clear()
    return served


@pytest.fixture(scope="module")
def floor(served: FakeResponses) -> Iterator[Processes]:
    """A desk for research that may run two turns at once."""
    with desk(served, DESK_MODEL_TURNS="2", DESK_LEASE_SECONDS="3") as here:
        here.workers("research", "ops")
        yield here


@pytest.fixture(scope="module")
def trading(served: FakeResponses) -> Iterator[Processes]:
    """A desk for small screens, but for the worker that looks at budgets: `budgeted` starts that."""
    with desk(served, DESK_UNIVERSE="AAPL,IBM", DESK_LENSES="technical") as here:
        here.workers("ops", "trade")
        yield here


@contextmanager
def budgeted(here: Processes, **environ: str) -> Iterator[Celery]:
    """Start the worker that looks at budgets; yield an app whose runs keep the same settings."""
    app = create_app(load_settings({**here.environ, **environ}, here.home), "test")
    here.workers("research", environ=environ)
    yield app
    here.end("research")
    app.desk.close()
    app.close()


def desk(model: FakeResponses, **environ: str) -> AbstractContextManager[Processes]:
    return processes(DESK_PROVIDER="endpoint", DESK_PROVIDER_URL=model.url, **constants(SWEEP_SECONDS=600), **environ)


def ended(here: Processes, run: Run, seconds: float = PATIENCE) -> Run:
    """The run when it has ended; the sweep is this test's own."""
    store, until = here.app.desk.store, time.monotonic() + seconds
    while True:
        sweep(here.app)
        with store.read() as session:
            row = session.get_one(Run, run.id)
        if row.state in RUN_FINAL:
            return row
        if time.monotonic() >= until:
            rows = read(here, lambda session: session.exec(select(Step).where(Step.run_id == run.id)).all())
            left = [f"{one.role or one.kind}: {one.state}, {one.due_at}, {one.error}" for one in rows]
            raise AssertionError("\n".join(["the run did not end:", *left, here.log("research")[-3000:]]))
        time.sleep(0.3)


def read(here: Processes, ask: Callable[[Session], Any]) -> Any:
    with here.app.desk.store.read() as session:
        return ask(session)


def reports(here: Processes, run: Run) -> list[Report]:
    return list(read(here, lambda s: s.exec(select(Report).where(Report.run_id == run.id)).all()))


def steps(here: Processes, run: Run, kind: StepKind) -> list[Step]:
    return list(read(here, lambda s: s.exec(select(Step).where(Step.run_id == run.id, Step.kind == kind)).all()))


def noticed(here: Processes, kind: NoticeKind) -> list[Notice]:
    return list(read(here, lambda s: s.exec(select(Notice).where(Notice.kind == kind)).all()))


def test_a_limited_model_is_parked_and_costs_no_step_its_attempts(model: FakeResponses, floor: Processes) -> None:
    refused: list[float] = []
    lock = threading.Lock()

    def limited(body: dict[str, Any]) -> Reply:
        with lock:
            if len(refused) < 4:
                refused.append(time.monotonic())
                return Status(429, {"error": {"message": "slow down"}}, {"Retry-After": "1"})
        return by_rules(body)

    model.policy = limited
    run = open_research(floor.app, ["AAPL", "IBM"])
    parked = []
    with redis.Redis.from_url(redis_url(floor.settings)) as client:
        until = time.monotonic() + PATIENCE
        while not parked and time.monotonic() < until:
            parked = parked_models(client)
            time.sleep(0.05)
    assert [one.model for one in parked] == ["gpt-5.5"]
    row = ended(floor, run)
    assert row.state == RunState.DONE, row.notes
    assert {report.status for report in reports(floor, run)} == {"completed"}
    assert len(reports(floor, run)) == 8
    made = steps(floor, run, StepKind.REPORT)
    assert max(step.attempt for step in made) > 1
    assert {step.max_attempts - step.attempt for step in made} == {policy.STEP_ATTEMPTS - 1}
    kinds = read(floor, lambda s: s.exec(select(Turn.failure_kind).where(Turn.run_id == run.id)).all())
    assert kinds.count("rate_limited") >= 1
    assert set(kinds) == {"rate_limited", None}
    asked = sorted(seen.at for seen in model.calls() if seen.at >= refused[0])  # one may be on its way meanwhile
    assert max(after - before for before, after in pairwise(asked)) > 1, "the model was left alone"
    assert {one.subject for one in noticed(floor, NoticeKind.MODEL_PARKED)} == {"gpt-5.5"}


def limits_of_plan(after: int, seconds: float) -> tuple[Callable[[dict[str, Any]], Reply], list[float], list[float]]:
    """Return a model whose plan is used up after so many calls and begins anew after seconds, with the times at which
    it served and refused. It tells the time by its text alone, in a zone."""
    served: list[float] = []
    refused: list[float] = []
    lock = threading.Lock()
    zone = ZoneInfo("Asia/Tokyo")
    ends = math.inf

    def answer(body: dict[str, Any]) -> Reply:
        nonlocal ends
        with lock:
            now = time.time()
            if len(served) >= after and now < ends:
                ends = ends if math.isfinite(ends) else math.ceil(now + seconds)
                refused.append(now)
                told = f"{dt.datetime.fromtimestamp(ends, zone):%b %d, %Y at %H:%M:%S} (Asia/Tokyo)"
                return Status(429, {"error": {"message": f"You've hit your limit. It resets {told}"}})
            served.append(now)
        return by_rules(body)

    return answer, served, refused


def test_a_used_up_plan_is_waited_for_by_all_workers_and_a_killed_one_repeats_nothing(
    model: FakeResponses, floor: Processes
) -> None:
    floor.workers("research-2")
    model.policy, served, refused = limits_of_plan(after=7, seconds=8.0)
    run = open_research(floor.app, ["AAPL", "IBM"])
    wait_for(lambda: bool(refused), "the plan is used up")
    deadline = run.deadline_at
    wait_for(lambda: read(floor, lambda s: s.get_one(Run, run.id).deadline_at) > deadline, "its deadline moves on")
    shown = read(floor, lambda s: [str(one) for one in waits(s, s.get_one(Run, run.id))])
    assert any(one.startswith("waits for the plan's limit of the account at 127.0.0.1 until ") for one in shown), shown
    floor.end("research-2", signal.SIGKILL)
    row = ended(floor, run)
    assert row.state == RunState.DONE, row.notes
    assert {report.status for report in reports(floor, run)} == {"completed"}
    made = steps(floor, run, StepKind.REPORT)
    assert {step.max_attempts - step.attempt for step in made} == {policy.STEP_ATTEMPTS - 1}, "none is used up"
    assert len(refused) <= 4, "no turn but those in flight met the limit, and none met it again"
    again = len(served) - 2 * len(made)  # a call and an answer of each
    assert 0 <= again <= len(refused), "only the first call of a turn that the limit cut is made again"
    (notice,) = [one for one in noticed(floor, NoticeKind.MODEL_PARKED) if "account" in one.subject]
    assert notice.facts["until"].endswith("UTC")


def test_a_person_may_ask_a_parked_plan_again(model: FakeResponses, floor: Processes) -> None:
    model.policy = lambda _body: Status(429, {"error": {"type": "usage_limit_reached", "resets_in_seconds": 90_000}})
    run = open_research(floor.app, ["AAPL"])
    waiting = select(Step).where(Step.run_id == run.id, Step.state == StepState.READY, Step.due_at > utcnow())
    wait_for(lambda: bool(read(floor, lambda s: s.exec(waiting).all())), "a report waits for the plan", PATIENCE)
    model.policy = by_rules
    floor.desk("unpark", "unpark").wait(PATIENCE)
    assert "the account at 127.0.0.1: asked again, by one of" in floor.log("unpark")
    floor.running.pop("unpark")
    assert ended(floor, run).state == RunState.DONE


def test_a_limit_that_lasts_too_long_ends_a_step_and_one_without_an_end_is_not_waited_for(
    model: FakeResponses, floor: Processes
) -> None:
    error = {"error": {"type": "usage_limit_reached", "resets_in_seconds": 9 * 86_400}}
    for body, kind in ((error, "limit_wait"), ({"error": {"code": "insufficient_quota"}}, "no_credit")):
        model.policy = lambda _body, body=body: Status(429, body)
        run = open_research(floor.app, ["AAPL"])
        row = ended(floor, run)
        assert row.state == RunState.FAILED
        errors = [step.error or "" for step in steps(floor, run, StepKind.REPORT)]
        assert all(one.startswith(f"{kind}: ") for one in errors), errors
        if kind == "limit_wait":
            assert "longer than the 8 d of DESK_LIMIT_WAIT_HOURS" in errors[0]
        with redis.Redis.from_url(redis_url(floor.settings)) as client:
            for key in client.scan_iter("desk:par*"):
                client.delete(key)
            for key in client.scan_iter("desk:tr*"):
                client.delete(key)


def test_a_lost_login_is_not_tried_again_and_a_run_without_a_report_says_so_first(
    model: FakeResponses, floor: Processes
) -> None:
    model.policy = lambda _body: Status(401, {"error": {"message": "bad key"}})
    run = open_research(floor.app, ["AAPL"])
    row = ended(floor, run)
    assert [step.attempt for step in steps(floor, run, StepKind.REPORT)] == [1, 1, 1, 1]
    assert {step.state for step in steps(floor, run, StepKind.REPORT)} == {StepState.FAILED}
    assert row.state == RunState.FAILED
    shown = io.StringIO()
    Console(file=shown, width=200).print(
        read(floor, lambda session: run_report(view(session, session.get_one(Run, run.id))))
    )
    first = shown.getvalue().splitlines()[0]
    assert first.startswith("every report failed: unauthorized: ")
    assert first.endswith("(4 of 4)")


def test_a_full_context_goes_on_in_a_fresh_thread_with_a_summary(model: FakeResponses, floor: Processes) -> None:
    """The first turn of a kept thread goes well; in the next run its context is full."""
    full: list[str] = []

    def bounded(body: dict[str, Any]) -> Reply:
        users = [item for item in body["input"] if item.get("role") == "user"]
        if role_of(body) == "risk" and len(users) > 1:
            full.append(body["input"][-1]["type"])
            return Failing("context_length_exceeded")
        return by_rules(body)

    model.policy = bounded
    first = ended(floor, open_research(floor.app, ["KO"]))
    run = open_research(floor.app, ["KO"])
    row = ended(floor, run)
    assert (first.state, row.state) == (RunState.DONE, RunState.DONE), row.notes
    assert len(full) == 1
    (step,) = [step for step in steps(floor, run, StepKind.REPORT) if step.role == "risk"]
    assert step.attempt == 2
    turns = read(floor, lambda s: s.exec(select(Turn).where(Turn.step_id == step.id).order_by(col(Turn.id))).all())
    assert (turns[0].thread_reason, turns[0].failure_kind) == ("resumed", "context_window")
    assert turns[-1].outcome == "completed"
    assert turns[-1].thread_id != turns[0].thread_id
    asked = [subject(seen.body) for seen in model.calls() if role_of(seen.body) == "risk"]
    memory = asked[-1]["memory"]
    assert "risk CONFIRMED (high): Sound." in memory
    assert memory.startswith("2010-08-12 verdict on the share HOLD (high)\n")
    assert asked[0]["memory"] is None


def subject(body: dict[str, Any]) -> dict[str, Any]:
    """The subject of the last question."""
    texts = [item["content"][0]["text"] for item in body["input"] if item.get("role") == "user"]
    found: dict[str, Any] = json.loads(texts[-1].split("```subject\n")[1].split("\n```")[0])
    return found


def test_a_used_up_budget_ends_the_run_as_partial_and_nothing_is_traded(
    model: FakeResponses, trading: Processes
) -> None:
    """A turn costs 240 tokens here: one lens, then the quick report, and no more."""
    with budgeted(trading, DESK_BUDGET_RUN_TOKENS="400") as app:
        run = open_screen(app)
        assert run is not None
        row = ended(trading, run)
    assert row.state == RunState.PARTIAL
    found = reports(trading, run)
    skipped = [report for report in found if report.status == "skipped"]
    assert {report.role for report in skipped} == {"fundamentals", "risk", "catalyst"}
    assert {report.status for report in found if report.role == "quick"} == {"completed"}
    reason = "budget: the run has used 480 of 400 tokens (DESK_BUDGET_RUN_TOKENS)"
    assert {report.reason for report in skipped} == {reason}
    assert any(reason in note for note in row.notes)
    assert (row.summary["turns"], row.summary["tokens"]) == (2, 480)
    (notice,) = noticed(trading, NoticeKind.BUDGET_REACHED)
    assert (notice.run_id, notice.facts) == (run.id, {"scope": "run", "used": 480, "limit": 400})
    assert run.id in {one.run_id for one in noticed(trading, NoticeKind.RUN_PARTIAL)}
    (trader,) = steps(trading, run, StepKind.DECIDE)
    assert (trader.state, trader.result) == (StepState.DONE, {"status": "skipped", "reason": reason})
    assert read(trading, lambda s: s.exec(select(Decision)).all()) == []
    assert "trader" not in {role_of(seen.body) for seen in model.calls()}
    with pytest.raises(UsageError, match="DESK_TRADE_ON_PARTIAL"):
        open_trade(trading.app, run.id)
