"""A walk over past sessions by real workers: its days, account and curve; a stop and killed workers change nothing."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from sqlmodel import col, select

from chordesk.agents.prompting import PROMPTS
from chordesk.agents.role_models import require_roles
from chordesk.models.errors import DeskError, UsageError
from chordesk.models.settings.running_desk import research_account, with_values
from chordesk.models.states import RUN_FINAL, AttemptEnd, RunKind, RunState, StepState
from chordesk.models.tables.orders import Account, Fill, Order, Position
from chordesk.models.tables.runs import Attempt, Candidate, Decision, Run, Step
from chordesk.models.tables.runtime import KeptThread
from chordesk.tasks.measure.backtest import ablated, open_experiment, parsed, require_differences, resume_backtest
from chordesk.tasks.measure.experiment_view import experiment
from chordesk.tasks.worker.control import Stop, stop_runs
from chordesk.tasks.worker.messages import WorkerNotifier
from chordesk.tools.market.clock import exchange_day, exchange_hours
from tests.constants import constants
from tests.stack import processes, wait_for
from tests.tasks.measure.walk.kit import FIRST, LAST, UNIVERSE, WalkingDesk, outline

DAYS = [dt.date(2010, 3, day) for day in (1, 2, 3, 4, 5, 8)]


pytestmark = pytest.mark.long


def stopped(desk: WalkingDesk, run_id: str) -> Stop:
    settings = desk.processes.settings
    (found,) = stop_runs(desk.store, settings, [run_id], WorkerNotifier(settings).stop, 60)
    return found


def test_each_session_is_visited_once_and_marked_at_its_close(desk: WalkingDesk, walked: Run) -> None:
    rows = desk.rows(walked)
    assert walked.state == RunState.DONE, walked.notes
    assert [(row.day, row.state, row.reason) for row in rows] == [(day, "done", None) for day in DAYS]
    assert all(row.equity is not None and row.verdicts for row in rows)
    assert rows[0].equity == 100_000, "what is ordered on the first day is filled on the second"
    assert rows[0].traded == 0
    assert any(row.traded > 0 for row in rows)


def test_nothing_of_the_desks_own_account_is_touched(desk: WalkingDesk, walked: Run) -> None:
    with desk.store.read() as session:
        for table in (Order, Fill, Position):
            assert session.exec(select(table).where(col(table.account) == "paper")).all() == []
        assert session.get(Account, "paper") is None
        assert session.get_one(Account, research_account(walked.account)).cash == 100_000
        assert session.exec(select(KeptThread)).all() == []
    assert not (desk.processes.home / "audit").exists()


def test_orders_fill_at_the_open_of_the_session_after_and_stops_where_they_are_reached_with_slippage(
    desk: WalkingDesk, walked: Run
) -> None:
    fills = desk.fills(walked)
    orders = {order.id: order for order in desk.orders(walked)}
    assert {orders[fill.order_id].order_type for fill in fills} == {"market", "stop"}
    following = dict(zip(DAYS, [*DAYS[1:], dt.date(2010, 3, 9)], strict=True))
    for fill in fills:
        order, day = orders[fill.order_id], exchange_day(fill.filled_at)
        bars = desk.processes.app.desk.market_for(day).bars(fill.symbol, 1)
        price = float(bars.open[-1])
        if order.stop_price is None:
            assert fill.filled_at == exchange_hours().open_of(following[exchange_day(order.market_at)])
        else:
            assert fill.filled_at > order.market_at
            assert float(bars.low[-1]) <= order.stop_price
            price = min(price, order.stop_price)
        assert fill.price == pytest.approx(price * (1.0005 if fill.side == "buy" else 0.9995), rel=1e-4)


def test_the_curve_follows_from_the_fills_and_the_closes(desk: WalkingDesk, walked: Run) -> None:
    fills = desk.fills(walked)
    for row, point in zip(desk.rows(walked), walked.summary["backtest"]["curve"], strict=True):
        known = [fill for fill in fills if exchange_day(fill.filled_at) <= row.day]
        paid = sum(fill.quantity * fill.price * (1 if fill.side == "buy" else -1) for fill in known)
        market, held = desk.processes.app.desk.market_for(row.day), Counter[str]()
        for fill in known:
            held[fill.symbol] += int(fill.quantity) * (1 if fill.side == "buy" else -1)
        worth = sum(shares * market.quote(symbol).price for symbol, shares in held.items())
        assert row.cash == pytest.approx(100_000 - paid)
        assert row.equity == pytest.approx(100_000 - paid + worth)
        assert point["equity"] == row.equity


def test_holdings_are_researched_again_although_screens_know_of_none(desk: WalkingDesk, walked: Run) -> None:
    screens = {run.id: run for run in desk.runs(walked, RunKind.SCREEN)}
    for trade in desk.runs(walked, RunKind.TRADE)[1:]:
        with desk.store.read() as session:
            own = session.exec(select(Candidate.symbol).where(Candidate.run_id == trade.id)).all()
            screened = session.exec(
                select(Candidate.symbol).where(Candidate.run_id == screens[trade.params["source_run"]].id)
            ).all()
        held = Counter[str]()
        for fill in desk.fills(walked):
            if fill.filled_at <= trade.market_now:
                held[fill.symbol] += int(fill.quantity) * (1 if fill.side == "buy" else -1)
        assert {*+held} <= {*own, *screened}


def test_the_result_has_curves_rates_costs_and_one_sentence(desk: WalkingDesk, walked: Run) -> None:
    result: dict[str, Any] = walked.summary["backtest"]
    assert (result["sessions"], result["missing"], result["first"], result["last"]) == (
        6,
        0,
        "2010-03-01",
        "2010-03-08",
    )
    assert set(result["returns"]) == set(result["drawdown"]) == {"desk", "held", "equal_weight"}
    assert {row["group"] for row in result["ratings"]} == set(result["verdicts"])
    assert all(row["low"] is None for row in result["ratings"]), "six dates are too few"
    found = result["performance"]
    assert (found["steps"], found["trials"], found["overfitting"]) == (5, 1, None)
    assert {row["lack"] for row in (*found["differences"], *found["measures"])} == {"too few"}
    assert found["random"]["lots"] > 0
    assert {row["group"].split()[0] for row in result["roles"]} >= {"quick", "risk"}
    assert result["turns"] == walked.summary["turns"] > 50
    assert result["conclusion"].startswith("It cannot be told whether the rulebook")
    assert result["voices"] == []


def test_a_walk_that_was_stopped_goes_on_where_it_ended(desk: WalkingDesk, walked: Run) -> None:
    run = desk.open()
    wait_for(lambda: len(desk.rows(run)) >= 2, "two sessions are done")
    with pytest.raises(UsageError, match="still runs"):
        resume_backtest(desk.processes.app, run.id)
    assert stopped(desk, run.id).over
    with desk.store.read() as session:
        left = session.exec(select(Run.id).where(col(Run.state).in_((RunState.RUNNING, RunState.STOPPING)))).all()
    assert left == [], "its days were stopped with it"
    before = len(desk.rows(run))
    assert 2 <= before < len(DAYS)
    resumed = desk.ended(resume_backtest(desk.processes.app, run.id).id)
    assert (resumed.state, resumed.account) == (RunState.DONE, run.account)
    assert resumed.params["days"] == [day.isoformat() for day in DAYS[before:]]
    assert outline(desk, resumed) == outline(desk, walked)
    with pytest.raises(UsageError, match="has all its sessions"):
        resume_backtest(desk.processes.app, run.id)


def test_a_day_is_missing_when_its_screen_is_stopped_and_the_walk_goes_on(desk: WalkingDesk) -> None:
    run = desk.open()
    wait_for(lambda: len(desk.runs(run, RunKind.SCREEN)) == len(DAYS), "the screens are open")
    victim = desk.runs(run, RunKind.SCREEN)[-1]
    stopped(desk, victim.id)
    done = desk.ended(run.id)
    assert (done.state, len(desk.rows(run))) == (RunState.DONE, len(DAYS))
    assert done.summary["missing"] == [
        {"day": "2010-03-08", "reason": f"its screen {victim.id} stopped: stopped on request"}
    ]


def test_with_memory_the_days_run_in_order_on_one_account(desk: WalkingDesk) -> None:
    run = desk.walk(DAYS[2], memory="on")
    screens = desk.runs(run, RunKind.SCREEN)
    assert desk.runs(run, RunKind.TRADE) == []
    assert [row.state for row in desk.rows(run)] == ["done"] * 3
    assert {one.account for one in screens} == {run.account}
    ends = [one.finished_at for one in screens]
    assert all(end is not None and end <= after.created_at for end, after in zip(ends, screens[1:], strict=False))
    assert desk.fills(run)


def test_arms_of_an_experiment_are_played_on_one_history_with_settings_of_their_own(
    desk: WalkingDesk, walked: Run
) -> None:
    app = desk.processes.app
    arms = [parsed("all:"), parsed("one: DESK_LENSES=technical; DESK_MAX_CANDIDATES=1")]
    opened = open_experiment(app, arms, FIRST, DAYS[2], universe=UNIVERSE)
    runs = [desk.ended(run.id) for run in opened]
    with desk.store.read() as session:
        found = experiment(session, app.desk.settings, [run.id for run in runs], 0.001)
        with pytest.raises(UsageError, match="have other days"):
            experiment(session, app.desk.settings, [runs[0].id, walked.id])
        with pytest.raises(UsageError, match="is named twice"):
            experiment(session, app.desk.settings, [runs[0].id, runs[0].id])
    assert [(arm.arm, arm.changes, arm.sessions) for arm in found.arms] == [
        ("all", {}, 3),
        ("one", {"lenses": "technical", "max_candidates": "1"}, 3),
    ]
    screens = desk.runs(runs[1], RunKind.SCREEN)
    assert {tuple(screen.params["lenses"]) for screen in screens} == {("technical",)}
    assert all(value["candidates"] <= 1 for value in (screen.summary for screen in screens))
    (by_session, _) = found.differences
    assert by_session.found is not None
    assert (by_session.found.n, by_session.found.lack) == (2, "too few")
    for wrong, said in (
        ([parsed("a:"), parsed("b:")], "differ in nothing"),
        ([parsed("a:"), parsed(f"b: DESK_PROMPTS=risk={PROMPTS / 'risk.md'}")], "a and b differ in nothing"),
        ([parsed("a:"), parsed("b: DESK_MODEL=other; DESK_EFFORT=low")], "a and b differ in nothing that rules read"),
        ([parsed("a:"), parsed("b: DESK_VOICES=weaver")], "a and b differ in nothing"),
        ([parsed("a:"), parsed("b: DESK_MAX_CANDIDATES=0")], "arm b"),
        ([parsed("a:")], "two or more"),
    ):
        with pytest.raises(DeskError, match=said):
            open_experiment(app, wrong, FIRST, LAST, universe=UNIVERSE)
    for text in ("b: DESK_BROKER=alpaca", "b: DESK_NOTHING=1", ": DESK_ROUNDS=1", "b DESK_ROUNDS=1"):
        with pytest.raises(UsageError):
            parsed(text)


def test_an_arm_without_a_required_role_requires_the_others(desk: WalkingDesk) -> None:
    settings = desk.processes.app.desk.settings
    arms = ablated("research_roles", settings)
    require_differences(settings, arms)
    for arm in arms:
        require_roles(with_values(settings, arm.settings))
    left_out = {arm.name: arm.settings.get("required_roles") for arm in arms}
    assert {name: value for name, value in left_out.items() if value} == {
        "without quick": "risk",
        "without risk": "quick",
    }


def test_each_tool_is_left_out_in_an_arm_of_its_own(desk: WalkingDesk) -> None:
    settings = with_values(desk.processes.app.desk.settings, {"without_tools": "news_list", "lenses": "technical"})
    arms = ablated("tools", settings)
    require_differences(settings, arms)
    tools = {arm.name.removeprefix("without "): arm.settings["without_tools"] for arm in arms[1:]}
    assert tools["company_get"] == "news_list,company_get"
    assert "orders_preview" in tools
    assert not {"news_list", "chart_render"} & tools.keys(), "left out already, and of a role that is not asked"


WORKERS = ("research-1", "research-2")


@pytest.fixture
def crew() -> Iterator[WalkingDesk]:
    # The rules take their time, so that a kill meets turns.
    with processes(DESK_LEASE_SECONDS="3", **constants(SWEEP_SECONDS=1, ANSWER_SECONDS=0.3)) as found:
        found.rulebook()
        found.workers(*WORKERS, "ops", "trade", concurrency=16)
        yield WalkingDesk(found)


def kill(desk: WalkingDesk, name: str) -> None:
    """SIGKILL to a worker, and a new one in its place."""
    process = desk.processes.running.pop(name)
    process.kill()
    process.wait()
    slots = ("--concurrency", "16") if name.startswith("research") else ()
    desk.processes.desk(name, "worker", name.partition("-")[0], "--name", name, *slots)


def holds(desk: WalkingDesk, name: str) -> bool:
    """Return whether a worker is at work on a step."""
    with desk.store.read() as session:
        held = select(Step.id).where(Step.state == StepState.RUNNING, col(Step.owner).startswith(f"{name}@"))
        return session.exec(held).first() is not None


def test_a_walk_survives_its_workers(crew: WalkingDesk, walked: Run, desk: WalkingDesk) -> None:
    run = crew.open()
    wait_for(lambda: holds(crew, WORKERS[0]), "the first turns are at work")
    kill(crew, WORKERS[0])
    for sessions, victims in enumerate((("trade", WORKERS[1]), ("ops", WORKERS[0])), start=1):
        wait_for(lambda n=sessions: len(crew.rows(run)) >= n, f"{sessions} sessions are done")
        assert crew.run(run.id).state not in RUN_FINAL
        for victim in victims:
            kill(crew, victim)
    done = crew.ended(run.id)
    assert (done.state, done.notes) == (RunState.DONE, [])
    assert outline(crew, done) == outline(desk, walked), "as if nothing had happened"
    with crew.store.read() as session:
        decided = session.exec(select(Decision.account, Run.market_now).join(Run)).all()
        lost = session.exec(select(Attempt).where(Attempt.outcome == AttemptEnd.LOST)).all()
        open_ones = session.exec(select(Step.id).join(Run).where(Run.state == RunState.RUNNING)).all()
    assert set(Counter(decided).values()) == {1}, "one decision a session"
    assert lost, "no kill met a step at work"
    assert open_ones == []
    assert len(crew.runs(done, RunKind.SCREEN)) == len(crew.runs(done, RunKind.TRADE)) == len(crew.rows(done))
