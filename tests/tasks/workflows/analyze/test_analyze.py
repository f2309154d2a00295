"""Analyses through real workers, by the rulebook on the replay with modelled option chains."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from sqlalchemy import delete
from sqlmodel import select

from chordesk.models.analysis import AnalysisRequest
from chordesk.models.database.store import Store
from chordesk.models.states import RUN_FINAL, OrderState
from chordesk.models.tables.board import Question, VerdictQuestion
from chordesk.models.tables.orders import Account, Fill, Order, Position
from chordesk.models.tables.runs import Analysis, Run, Step, Verdict
from chordesk.tasks.workflows.analyze import open_analysis
from chordesk.tools.ledger import ensure_account
from tests import zygote
from tests.builders import MARKET_NOW
from tests.stack import REPOSITORY, Processes, processes, wait_for
from tests.tasks.views.chain import parts
from tests.tasks.worker.steps import get_run

# By the rulebook on the replay's day: the chart rejects BBT, no contract on CAT fits, HAL has a put; MSFT has no bar of
# that day.
REJECTED_BY_CHART, REJECTED_BY_OPTIONS, SELECTED, UNPRICED = "BBT", "CAT", "HAL", "MSFT"
SYMBOLS = (REJECTED_BY_CHART, REJECTED_BY_OPTIONS, SELECTED, UNPRICED)
PUT = ("--no-research", "--across-earnings")  # the replay has neither headlines nor dates of earnings
OPTIONS = {
    "DESK_REPLAY_OPTIONS": "modelled",
    "AUTONOMOUS_STOCK_ONLY": "false",
    "AUTONOMOUS_TRADER_OPTIONS_MODE": "both",
    "DESK_COOLDOWN_HOURS": "0",
}


@pytest.fixture(scope="module")
def desk() -> Iterator[Processes]:
    with processes(**OPTIONS) as found:
        found.rulebook()
        found.workers("research", "ops", "trade")
        yield found


@pytest.fixture
def store(desk: Processes) -> Iterator[Store]:
    """The database of the desk; the account holds nothing afterwards."""
    found = desk.app.desk.store
    yield found
    with found.session() as session:
        for table in (Position, Fill):
            session.execute(delete(table))
        session.execute(Account.__table__.update().values(cash=Account.opening_cash))  # type: ignore[attr-defined]


def command(desk: Processes, *arguments: str, **environ: str) -> Any:
    return zygote.run(arguments, {**desk.environ, **environ}, REPOSITORY)


def printed(desk: Processes, *arguments: str, **environ: str) -> Any:
    """The JSON that a command prints."""
    done = command(desk, *arguments, "--json", **environ)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    return json.loads(done.stdout)


def analyses(run: Any) -> list[dict[str, Any]]:
    """Each analysis with what was read beside it."""
    return [{**row["analysis"], **row} for row in run["analyses"]]


def by_symbol(run: Any) -> dict[str, Any]:
    return {row["symbol"]: row for row in analyses(run)}


def hold(store: Store, symbol: str, quantity: float) -> None:
    with store.session() as session:
        ensure_account(session, "paper", 100_000.0)
        row = Position(account="paper", symbol=symbol, quantity=quantity, average_cost=25.0, filled_at=MARKET_NOW)
        session.add(row)


def test_puts_are_analysed_rejected_early_and_proposed(desk: Processes, store: Store) -> None:
    found = printed(desk, "analyze", *SYMBOLS, *PUT)
    assert (found["kind"], found["state"]) == ("analyze", "done")
    rows = by_symbol(found)
    assert {symbol: row["recommendation"] for symbol, row in rows.items()} == {
        REJECTED_BY_CHART: "reject", REJECTED_BY_OPTIONS: "reject", SELECTED: "select", UNPRICED: "incomplete",
    }  # fmt: skip
    assert {row["symbol"]: row["verdict"] for row in found["candidates"]} == {
        REJECTED_BY_CHART: "PASS", REJECTED_BY_OPTIONS: "CAUTION", SELECTED: "CAUTION", UNPRICED: "INSUFFICIENT",
    }  # fmt: skip
    ran = {symbol: sorted(text["role"] for text in row["texts"]) for symbol, row in rows.items()}
    assert ran == {
        REJECTED_BY_CHART: ["chart", "risk"],
        REJECTED_BY_OPTIONS: ["chart", "options", "risk"],
        SELECTED: ["chart", "options", "risk"],
        UNPRICED: ["chart", "risk"],
    }
    assert rows[UNPRICED]["reasons"][0].startswith("chart: no_data (no bar of 2010-08-12")
    assert rows[UNPRICED]["reasons"][-1] == "options: did not run"
    row = rows[SELECTED]
    contract = row["figures"]["contract"]
    assert (contract["contract"], contract["source"]) == (row["contract"], "modelled")
    assert "Rule, not a model: select HAL" in row["headline"]
    (action,) = found["actions"]
    assert (action["side"], action["quantity"], action["contract"]) == ("sell", 1.0, row["contract"])
    assert f"at the middle of bid {contract['bid']:.2f}" in action["reasoning"]
    assert found["summary"]["analyses"] == {"incomplete": 1, "reject": 2, "select": 1}
    assert "modelled, which no market gave" in action["reasoning"]
    assert (row["order"]["state"], row["order"]["limit_price"]) == ("previewed", contract["bid"])
    assert (desk.home / row["picture"]).read_bytes().startswith(b"\x89PNG")
    assert found["decided_by"] == "code: analyze"
    with store.read() as session:
        steps = session.exec(select(Step).where(Step.run_id == found["run_id"])).all()
        texts = session.exec(select(Analysis.grounding).where(Analysis.run_id == found["run_id"])).all()
        asked = session.exec(select(Question).join(VerdictQuestion).join(Verdict)).all()
    assert {one.subjects[0] for one in asked} == {REJECTED_BY_CHART}
    (text,) = [one for one in texts if one is not None]
    assert text["figures"] == text["supported"] > 5
    assert {one["source"] for one in text["citations"]} == {"question"}
    assert found["summary"]["grounding"]["share"] == 1.0
    kinds = Counter(step.kind for step in steps)
    assert kinds == {"report": 10, "synthesize": 4, "describe": 1, "propose": 1, "submit": 1, "finish": 1}
    assert {(step.state, step.attempt, step.sends) for step in steps} == {("done", 1, 1)}


def test_the_order_leads_to_its_analysis_reports_calls_picture_and_chain(desk: Processes, store: Store) -> None:
    found = printed(desk, "analyze", SELECTED, *PUT)
    (row,) = analyses(found)
    chain = printed(desk, "runs", "show", found["run_id"], "--lineage", SELECTED)
    (order,), (decision,), (made,) = (parts(chain, kind) for kind in ("order", "decision", "analysis"))
    assert (order["id"], decision["author"], decision["turn_id"]) == (row["order"]["id"], "code: analyze", None)
    assert order["verdict_id"] == parts(chain, "verdict")[0]["id"]
    assert (made["id"], made["quotes"]) == (row["id"], "modelled")
    assert made["turn_id"] is not None
    reports = {report["role"]: report for report in parts(chain, "report")}
    assert sorted(reports) == ["chart", "options", "risk"]
    assert row["picture"] in reports["chart"]["pictures"]
    assert {"chart_study_get", "chart_render"} <= {call["tool"] for call in reports["chart"]["calls"]}
    assert "option_chain_get" in {call["tool"] for call in reports["options"]["calls"]}
    shown = printed(desk, "orders", "show", order["id"])
    assert [one["id"] for one in parts(shown["chain"], "analysis")] == [row["id"]]
    text = command(desk, "orders", "show", order["id"]).stdout
    assert f"analysis {row['id']}: csp: select {row['contract']}, quotes modelled" in text
    assert row["picture"] in text
    text = command(desk, "runs", "show", found["run_id"], "--lineage", SELECTED).stdout
    assert "decided by code" in text
    assert f"analysis {row['id']}: csp: select {row['contract']}, quotes modelled" in text


def test_what_has_no_source_is_left_out_before_any_turn_and_the_share_is_rated_alike_for_each_instrument(
    desk: Processes, store: Store
) -> None:
    """The replay has no headlines and no dates of earnings: what is missing is never in order."""
    for more, strategy in (
        ((), "equity"), (("--strategy", "equity"), "equity"), (("--strategy", "csp", "--across-earnings"), "csp"),
        (("--strategy", "covered_call"), "covered_call"),
    ):  # fmt: skip
        found = printed(desk, "analyze", SELECTED, *more)
        (row,) = analyses(found)
        assert (row["rating"], row["strategy"]) == ("CAUTION", strategy)
        roles = ["chart", "options", "risk"] if strategy == "csp" else ["chart", "risk"]
        assert sorted(text["role"] for text in row["texts"]) == roles
        with store.read() as session:
            lacks = session.get_one(Run, found["run_id"]).params["lacks"]
        assert lacks[-1].startswith("the replay market has no headlines, earnings")
        assert any("a day of earnings" in lack for lack in lacks) is (more == ())
    bare = printed(desk, "analyze", SELECTED, DESK_REPLAY_OPTIONS="none")
    assert sorted(text["role"] for text in analyses(bare)[0]["texts"]) == ["chart", "risk"]


def test_a_covered_call_is_written_on_shares_that_are_held_and_free(desk: Processes, store: Store) -> None:
    bare = printed(desk, "analyze", SELECTED, "--strategy", "covered_call", "--no-research")
    (row,) = analyses(bare)
    assert (row["recommendation"], bare["actions"]) == ("reject", [])
    assert sorted(text["role"] for text in row["texts"]) == ["chart", "risk"]
    assert row["reasons"] == ["0 shares are free to cover calls, 100 are needed"]
    hold(store, SELECTED, 100.0)
    found = printed(desk, "analyze", SELECTED, "--strategy", "covered_call", "--no-research", "--max-delta", "0.6")
    (row,) = analyses(found)
    assert row["recommendation"] == "select", row["reasons"]
    assert row["contract"][9] == "C"
    assert (row["order"]["side"], row["order"]["state"]) == ("sell", "previewed"), row["order"]
    two = printed(desk, "analyze", SELECTED, "--strategy", "covered_call", "--no-research", "--contracts", "2")
    assert analyses(two)[0]["reasons"] == ["100 shares are free to cover calls, 200 are needed"]


def test_the_trader_does_not_decide_on_analyses_that_code_makes_orders_of(desk: Processes, store: Store) -> None:
    puts = printed(desk, "analyze", SELECTED, *PUT, "--no-orders")["run_id"]
    done = command(desk, "trade", puts)
    assert done.returncode == 2
    assert f"run {puts} analysed for csp: code makes its orders" in done.stderr
    shares = printed(desk, "analyze", SELECTED, "--strategy", "equity")["run_id"]
    assert printed(desk, "trade", shares)["state"] == "done"


def runs(store: Store) -> int:
    with store.read() as session:
        return len(session.exec(select(Run.id)).all())


def test_a_default_desk_denies_options_and_limits_hold_for_what_is_proposed(desk: Processes, store: Store) -> None:
    denied = by_code(store, opened(desk, AUTONOMOUS_STOCK_ONLY="true"))
    assert denied == {"stocks_only"}
    assert by_code(store, opened(desk, DESK_MAX_ORDER_NOTIONAL="2000")) == {"notional_per_order"}
    assert by_code(store, opened(desk)) == {None}


def opened(desk: Processes, **changes: str) -> Run:
    """Run an analysis with a trade worker of these settings to its end."""
    before = dict(desk.environ)
    desk.end("trade")
    desk.environ.update(changes)
    desk.workers("trade")
    try:
        run = open_analysis(desk.app, [SELECTED], AnalysisRequest(research=False, across_earnings=True), "quick")
        found = desk.app.desk.store
        wait_for(lambda: get_run(found, run.id).state in RUN_FINAL, "the run ends")
        return run
    finally:
        desk.environ.clear()
        desk.environ.update(before)
        desk.end("trade")
        desk.workers("trade")


def by_code(store: Store, run: Run) -> set[str | None]:
    with store.read() as session:
        return set(session.exec(select(Order.denial_code).where(Order.run_id == run.id)).all())


def test_a_put_that_only_a_caution_carries_is_previewed_and_never_sent_when_trading_is_live(
    desk: Processes, store: Store
) -> None:
    for name in ("ops", "trade"):
        desk.end(name)
    desk.environ["TRADER_LIVE"] = "1"
    desk.workers("ops", "trade")
    found = printed(desk, "analyze", SELECTED, *PUT)
    (row,) = analyses(found)
    with store.read() as session:
        order = session.exec(select(Order).where(Order.run_id == found["run_id"])).one()
        assert session.exec(select(Fill).where(Fill.order_id == order.id)).all() == []
    assert (row["rating"], row["recommendation"], order.state) == ("CAUTION", "select", OrderState.PREVIEWED)
    assert "`desk arm --caution`" in (order.message or "")
    assert found["summary"]["live"] is True
