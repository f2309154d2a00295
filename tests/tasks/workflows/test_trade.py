"""`desk trade`: on a research run, on runs it cannot be on, and twice, with live trading off and on."""

from __future__ import annotations

import datetime as dt
import re

import pytest
from sqlmodel import col, select

from chordesk.models.errors import UsageError
from chordesk.models.settings import Settings
from chordesk.models.states import RunState
from chordesk.models.tables.board import Calibration
from chordesk.models.tables.orders import Fill, Order, Position
from chordesk.models.tables.runs import Run, ToolCall, Turn
from chordesk.tasks.workflows.trade import require_same_market
from chordesk.tools.market.factory import build_market
from chordesk.tools.orders.sessions import to_next_session
from tests.builders import a_run, run_row
from tests.tasks.workflows.conftest import Floor
from tests.tasks.workflows.scripted import action


def test_with_live_trading_off_a_preview_is_the_end_and_starts_no_cooldown(floor: Floor) -> None:
    source = floor.research("IBM", "GE")
    floor.model.actions = [action("IBM"), action("GE", "watch"), action("XOM")]
    found = floor.json("trade", source[:20])
    assert (found["kind"], found["state"], found["source_run"]) == ("trade", "done", source)
    assert [(row["symbol"], row["verdict"]) for row in found["candidates"]] == [("IBM", "BUY"), ("GE", "BUY")]
    assert [(row["symbol"], row["state"]) for row in found["actions"]] == [
        ("IBM", "previewed"), ("GE", None), ("XOM", "denied"),
    ]  # fmt: skip
    assert "XOM" in found["actions"][2]["suppressed"]
    assert (found["portfolio"], found["summary"]["orders"]) == (None, {"denied": 1, "previewed": 1})
    assert found["summary"]["denials"] == {"no_verdict": 1}
    with floor.store.read() as session:
        assert session.exec(select(Fill)).all() == []
        calls = select(ToolCall).join(Turn).where(Turn.run_id == found["run_id"], ToolCall.tool == "portfolio_get")
        assert all(call.has_data for call in session.exec(calls).all()), (
            "a full answer of the desk's own books is not called empty"
        )
    shown = floor.desk("trade", source).out
    assert "IBM    open   buy 3,000 notional" not in shown, "a preview says how many shares"
    assert re.search(r"IBM    open   buy \d+ shares, medium confidence, previewed", shown)
    assert f"Verdicts of run {source[:16]}" in shown
    assert "Gate: live trading is off (TRADER_LIVE is not 1); previews are stored, nothing was submitted" in shown
    assert "1 denied, 1 previewed (denied: 1 no_verdict)" in shown
    assert "Portfolio" not in shown


@pytest.mark.parametrize(
    ("values", "error", "remedy"),
    [
        ({"state": RunState.RUNNING}, "is still running", "when it has ended"),
        ({"state": RunState.DONE}, "has no verdicts to trade on", "desk runs show"),
        ({"state": RunState.DONE, "kind": "trade", "params": {"source_run": "abc"}}, "is a trade itself", "trade abc"),
    ],
)
def test_runs_that_cannot_be_traded_on(floor: Floor, values: dict[str, object], error: str, remedy: str) -> None:
    with floor.store.session() as session:
        run_id = a_run(session, **values).id
    try:
        done = floor.desk("trade", run_id)
        assert (done.code, done.out) == (2, "")
        assert f"run {run_id} {error}" in done.err
        assert remedy in done.err
    finally:
        with floor.store.session() as session:
            session.delete(session.get_one(Run, run_id))


def test_with_live_trading_on_an_order_fills_at_the_next_open_and_the_next_one_waits(floor: Floor) -> None:
    live = floor
    live.live(True)
    source = live.research("CVX", "GE")
    live.model.actions = [action("CVX", quantity=10, notional=None)]
    first = live.desk("trade", source, "--json")
    assert first.code == 0, first.err
    found = first.json
    assert [(row["symbol"], row["state"], row["suppressed"]) for row in found["actions"]] == [
        ("CVX", "submitted", None)
    ]
    with live.store.read() as session:
        assert session.get(Position, ("paper", "CVX")) is None
    live.model.actions = [action("CVX", "add", quantity=1, notional=None), action("GE", quantity=1, notional=None)]
    second = live.desk("trade", source)
    assert second.code == 0, second.err
    entry = second.out[second.out.index("\nEntry\n") :]
    assert "CVX    add    buy 1 share, medium confidence, denied" in entry
    assert entry.splitlines()[3].strip().startswith("suppressed: ")
    assert "cooldown" in entry.splitlines()[3] or "CVX" in entry.splitlines()[3]
    assert "GE     open   buy 1 share, medium confidence, submitted" in entry
    assert "Gate: TRADER_LIVE=1, cleared orders go to the paper account: 1 denied, 1 submitted" in entry
    to_next_session(live.store, live.processes.settings)
    with live.store.read() as session:
        codes = session.exec(select(Order.denial_code).where(Order.symbol == "CVX").order_by(col(Order.created_at)))
        assert codes.all() == [None, "cooldown", None], "the last is the stop of its plan"
        assert session.get_one(Position, ("paper", "CVX")).quantity == 10
    closed = live.desk("close", "CVX", "--yes", "--why", "enough", "--json")
    assert (closed.code, closed.json["kind"], closed.json["state"]) == (0, "close", "done"), closed.err
    (sold,) = closed.json["actions"]
    assert (sold["symbol"], sold["side"], sold["quantity"], sold["state"]) == ("CVX", "sell", 10, "denied")
    assert "2010-08-12 is over for it" in sold["suppressed"], "a person's order passes the same checks"


def test_the_next_prompts_have_the_outcome_of_a_decision(floor: Floor) -> None:
    source = floor.research("HAL")
    floor.model.actions = [action("HAL", quantity=10, notional=None)]
    assert floor.desk("trade", source).code == 0
    assert floor.model.subjects["trader"]["notes"] == {}
    floor.model.actions = [action("HAL", quantity=1_000_000, notional=None)]
    assert floor.desk("trade", source).code == 0
    (first,) = floor.model.subjects["trader"]["notes"]["HAL"]
    assert re.fullmatch(r"2010-08-12 open HAL: buy 10 at [\d.]+: checked, not sent", first)
    floor.research("HAL")
    for role in ("quick", "risk"):
        last = floor.model.subjects[role]["memory"].splitlines()[-1]
        assert last.startswith("last trade note: 2010-08-12 open HAL: buy ")


def test_the_trader_reads_a_probability_once_verdicts_like_it_have_one(floor: Floor) -> None:
    source = floor.research("IBM")
    floor.model.actions = [action("IBM", "watch")]
    assert floor.desk("trade", source).code == 0
    (before,) = floor.model.subjects["trader"]["verdicts"]
    assert "probability" not in before
    assert list(before["theses"]) == sorted(before["theses"]), "a prompt does not depend on which report was faster"
    assert len(before["theses"]) > 1
    with floor.store.session() as session:
        run = session.get_one(Run, source)
        detail = {"account": "paper", "author": run.model, "until": "2010-08-01T20:00:00+00:00"}
        row = Calibration(
            rating=before["rating"], confidence=before["confidence"], probability=0.58123, low=0.5, high=0.66,
            resolved=40, dates=35, detail=detail,
        )  # fmt: skip
        session.add(row)
    try:
        assert floor.desk("trade", source).code == 0
        (after,) = floor.model.subjects["trader"]["verdicts"]
        assert after == {**before, "probability": 0.5812}
    finally:
        with floor.store.session() as session:
            session.delete(session.get_one(Calibration, row.id))


@pytest.mark.parametrize(
    ("market", "later"),
    [("yahoo", dt.timedelta(0)), ("replay", dt.timedelta(days=1)), ("replay", dt.timedelta(hours=1))],
)
def test_verdicts_of_another_market_or_a_later_day_are_not_traded_on(market: str, later: dt.timedelta) -> None:
    here = build_market(Settings(replay_date=dt.date(2010, 8, 12)))
    now = here.clock.now()
    require_same_market(run_row(market="replay", market_now=now), here)
    require_same_market(run_row(market="replay", market_now=now - dt.timedelta(days=30)), here)
    with pytest.raises(UsageError, match="trade on the same market and day"):
        require_same_market(run_row(market=market, market_now=now + later), here)
