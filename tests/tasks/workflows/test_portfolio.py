"""`desk research --portfolio` on real workers: which roles run, why, and what the verdict rests on."""

from __future__ import annotations

import datetime as dt
import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal
from typing import Any

import pytest
from sqlmodel import col, delete, select

from chordesk.models.statements import Holding, Statement
from chordesk.models.states import StepKind
from chordesk.models.tables.orders import Order, Position
from chordesk.models.tables.runs import Report, Run, Step, Verdict, VerdictReport
from chordesk.models.tables.runtime import RoleSchedule
from chordesk.tasks.reading.runs import view
from chordesk.tasks.workflows.research import open_portfolio
from chordesk.tools.ledger import ensure_account
from chordesk.tools.portfolio.holdings import ELSEWHERE
from tests.builders import MARKET_NOW
from tests.fakes.responses import Status
from tests.parts import of_feature
from tests.tasks.workflows.conftest import Floor, plain
from tests.tasks.workflows.scripted import action

ROLES = ["quick", "fundamentals", "risk", "catalyst"]
TOMORROW = "due 2010-08-13 15:55 EDT"


@pytest.fixture(autouse=True)
def _account_without_reviews(floor: Floor) -> None:
    with floor.store.session() as session:
        ensure_account(session, "paper", floor.processes.app.desk.settings.starting_cash)
        session.execute(delete(RoleSchedule))


def hold(floor: Floor, *symbols: str, cost: float = 100.0) -> None:
    with floor.store.session() as session:
        session.add_all(
            Position(account="paper", symbol=symbol, quantity=10, average_cost=cost, filled_at=MARKET_NOW)
            for symbol in symbols
        )


def rows(floor: Floor) -> dict[tuple[str, str], RoleSchedule]:
    with floor.store.read() as session:
        return {(row.symbol, row.role): row for row in session.exec(select(RoleSchedule)).all()}


def change(floor: Floor, role: str, **values: Any) -> None:
    """Change the schedule's row of a role's last look at IBM."""
    with floor.store.session() as session:
        row = session.get_one(RoleSchedule, ("paper", "replay", "IBM", role))
        for name, value in values.items():
            setattr(row, name, value)


def holding(found: dict[str, Any]) -> dict[str, Any]:
    """The only one of a run."""
    (row,) = found["portfolio_research"]["holdings"]
    return dict(row)


def ran(found: dict[str, Any]) -> dict[str, str]:
    return {row["role"]: row["why"] for row in holding(found)["executed_roles_with_reasons"]}


def skipped(found: dict[str, Any]) -> dict[str, str]:
    return {row["role"]: without_time(row["why"]) for row in holding(found)["skipped_roles"]}


def without_time(why: str) -> str:
    """How long ago a look was depends on the machine."""
    return re.sub(r"looked [0-9.]+ s ago", "looked now", why)


def researched(floor: Floor, *, force: bool = False) -> dict[str, Any]:
    """A run over the portfolio to its end, without the command; as `--json` shows it."""
    run = open_portfolio(floor.processes.app, force=force)
    floor.ended(run.id)
    with floor.store.read() as session:
        return view(session, session.get_one(Run, run.id)).model_dump(mode="json")


def steps_of(floor: Floor, run_id: str) -> list[Step]:
    with floor.store.read() as session:
        return list(session.exec(select(Step).where(Step.run_id == run_id)).all())


def rests_on(floor: Floor, run_id: str) -> dict[str, str]:
    """By role the run of each report that the run's only verdict rests on."""
    with floor.store.read() as session:
        found = session.exec(
            select(Report.role, Report.run_id)
            .join(VerdictReport, col(VerdictReport.report_id) == col(Report.id))
            .join(Verdict, col(Verdict.id) == col(VerdictReport.verdict_id))
            .where(Verdict.run_id == run_id)
        ).all()
    return dict(found)


def verdict_of(floor: Floor, run_id: str) -> Verdict:
    with floor.store.read() as session:
        return session.exec(select(Verdict).where(Verdict.run_id == run_id)).one()


@contextmanager
def day(floor: Floor, date: str) -> Iterator[None]:
    """The desk on another day of the replay, with live trading on."""
    names = ("research", "ops", "trade")
    changed = {"DESK_REPLAY_DATE": date, "TRADER_LIVE": "1"}
    for name in names:
        floor.processes.end(name)
    floor.processes.environ.update(changed)
    floor.processes.workers(*names)
    try:
        yield
    finally:
        for name in names:
            floor.processes.end(name)
        for name in changed:
            floor.processes.environ.pop(name)
        floor.processes.workers(*names)


def test_from_a_fill_to_the_price_move_that_makes_its_roles_due(floor: Floor) -> None:
    """JNPR is bought on a screen of the 10th and filled at the next open; on the 12th it loses a fifteenth."""
    floor.model.hits = {"technical": ["JNPR"]}
    floor.model.actions = [action("JNPR")]
    with day(floor, "2010-08-10"):
        screen = floor.json("screen", "--universe", "JNPR", "--lens", "technical")
        assert [row["state"] for row in screen["actions"]] == ["submitted"]
        assert rows(floor) == {}, "it is not held yet"
    with day(floor, "2010-08-11"):
        first = floor.json("research", "--portfolio")
        assert ran(first) == dict.fromkeys(ROLES, "initial run")
        one = holding(first)
        assert one["symbol"] == "JNPR"
        assert one["unrealized"] is not None
        assert first["candidates"][0]["origin"] == "position"
        again = floor.desk("research", "--portfolio").out
        assert "ran " not in again
    second = floor.json("research", "--portfolio")
    assert ran(second) == dict.fromkeys(ROLES, "unrealized -6.65%")
    assert holding(second)["unrealized"] < -0.05
    statuses = {row["role"]: row["status"] for row in holding(second)["executed_roles_with_reasons"]}
    assert statuses == {"quick": "completed", "fundamentals": "no_data", "risk": "completed", "catalyst": "completed"}
    found = rows(floor)
    assert {row.reason for row in found.values()} == {"unrealized_change_trigger"}
    assert {row.run_id for row in found.values()} == {second["run_id"]}
    assert {(row.last_price, row.last_unrealized is None) for row in found.values()} == {(25.78, False)}
    assert floor.model.subjects["risk"]["memory"].startswith("2010-08-11 verdict on the share BUY")
    assert "last trade note: 2010-08-10 open JNPR: buy" in floor.model.subjects["risk"]["memory"]


def test_one_role_that_is_due_runs_alone_and_the_verdict_rests_on_the_others_last_reports(floor: Floor) -> None:
    hold(floor, "IBM")
    first = researched(floor)["run_id"]
    gain = rows(floor)["IBM", "fundamentals"].last_unrealized
    assert gain == pytest.approx(0.283)
    change(floor, "fundamentals", last_unrealized=gain - 0.07)
    floor.model.stances = {("IBM", "fundamentals"): "REJECT"}
    found = researched(floor)
    assert found["state"] == "done"
    assert ran(found) == {"fundamentals": "unrealized +7%"}
    assert skipped(found) == dict.fromkeys(["quick", "risk", "catalyst"], "looked now")
    assert [step.role for step in steps_of(floor, found["run_id"]) if step.kind == StepKind.REPORT] == ["fundamentals"]
    own = found["run_id"]
    assert rests_on(floor, own) == {"quick": first, "fundamentals": own, "risk": first, "catalyst": first}
    verdict = verdict_of(floor, own)
    # The replay has no company figures: the role's answer on them does not count.
    assert (verdict.rating, verdict.completed) == ("BUY", ["quick", "risk", "catalyst"])
    assert verdict.missing == ["fundamentals: no_data (no data from company_get, news_list)"]
    assert "risk CONFIRMED (high), 0 h before: It is steady." in verdict.summary
    shown = plain(floor.desk("runs", "show", own).out)
    assert "Portfolio research: roles run 1, skipped 3" in shown
    assert re.search(r"IBM +price 128\.30, unrealized \+28\.3%", shown)
    assert re.search(r"ran +fundamentals \(unrealized \+7%\): no_data", shown)
    assert re.search(rf"skipped +quick: {TOMORROW}; looked now *\n +risk: {TOMORROW}", without_time(shown))
    story = floor.desk("runs", "show", own, "--lineage", "IBM").out
    assert story.count(f"of run {first}: the role was not due") == 3
    assert f"of run {own}" not in story


def test_what_is_held_elsewhere_alone_is_researched_when_it_is_due_and_never_traded(floor: Floor) -> None:
    kept, outside = of_feature("tests.tools.holdings.test_keeping"), of_feature("chordesk.tools.holdings.keeping")
    hold(floor, "IBM")
    rows_ = [Holding(at, name, "share", Decimal(7), "USD", name) for at, name in enumerate(("MMM", "IBM", "NOPE"))]
    kept.imported(floor.store, kept.a_read(Statement("", tuple(rows_), dt.date(2010, 8, 9))), "savings")
    try:
        first, again = researched(floor), researched(floor)
        shown = plain(floor.desk("runs", "show", first["run_id"]).out)
    finally:
        with floor.store.session() as session:
            outside.forget(session, ["savings"])
    assert {one["symbol"]: one["origin"] for one in first["candidates"]} == {"IBM": "position", "MMM": "elsewhere"}
    (own, elsewhere), (_, later) = (run["portfolio_research"]["holdings"] for run in (first, again))
    assert (own["unrealized"] is None, elsewhere["unrealized"], elsewhere["missing"]) == (False, None, [ELSEWHERE])
    assert [one["why"] for one in elsewhere["executed_roles_with_reasons"]] == ["initial run"] * len(ROLES)
    assert (later["executed_roles_with_reasons"], len(later["skipped_roles"])) == ([], len(ROLES))
    assert "never traded here" in shown
    assert "savings" not in json.dumps(first)
    assert not any(word in json.dumps(floor.model.subjects) for word in ("savings", "elsewhere", "another broker"))
    with floor.store.read() as session:
        runs = [one["run_id"] for one in (first, again)]
        assert session.exec(select(Order).where(col(Order.run_id).in_(runs))).all() == []


def test_no_data_and_a_refusal_count_as_researched_and_a_failure_does_not(floor: Floor) -> None:
    hold(floor, "IBM")
    floor.model.instead = {"risk": Status(401)}
    first = researched(floor)
    assert first["state"] == "partial"
    assert rows(floor).keys() == {("IBM", role) for role in ("quick", "fundamentals", "catalyst")}
    assert [row["status"] for row in holding(first)["executed_roles_with_reasons"]][2] == "failed"
    floor.model.instead = {}
    second = researched(floor)
    assert ran(second) == {"risk": "initial run"}
    assert verdict_of(floor, second["run_id"]).missing == [
        "fundamentals: no_data (no data from company_get, news_list), 0 h before"
    ]


def test_a_holding_without_a_price_is_looked_at_by_age_alone(floor: Floor) -> None:
    hold(floor, "WYE")
    first = researched(floor)
    assert ran(first) == {"quick": "initial run"}  # nothing can be judged without a price, and no role follows
    assert holding(first)["missing"][0].startswith("price: WYE has not traded since")
    assert {row.last_price for row in rows(floor).values()} == {None}
    shown = plain(floor.desk("research", "--portfolio").out)
    assert re.search(r"WYE +price not known, unrealized unknown", shown)
    assert "price not known now; unrealized not known now" in " ".join(shown.split())
    assert re.search(r"missing price: WYE has not traded since .*: no role becomes due by it", " ".join(shown.split()))
