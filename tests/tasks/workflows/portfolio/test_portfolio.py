"""When a role is due on a holding, and why: every case, and what holds for all of them."""

from __future__ import annotations

import datetime as dt
import threading
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlmodel import select

from chordesk.agents.roles import default_roles
from chordesk.models.answers import Stance
from chordesk.models.database.store import Store
from chordesk.models.states import RunState, StepState
from chordesk.models.tables.columns import new_id
from chordesk.models.tables.runs import Report
from chordesk.models.tables.runtime import RoleSchedule
from chordesk.tasks.reading.accounts import PLANS, DueReason, DueRole, HoldingPlan, portfolio_research
from chordesk.tasks.workflows.holding_reviews import (
    AGE,
    HoldingSnapshot,
    NotDue,
    due,
    plan,
    record_look,
    schedule_rows,
)
from chordesk.tools.portfolio.holdings import Holding
from tests.builders import MARKET_NOW, a_report, a_run, a_step, a_turn
from tests.patience import PATIENCE

HOUR = dt.timedelta(hours=1)
MOVE = 0.05


def look(price: float | None = 100.0, unrealized: float | None = 0.02, *, hours: float = 0.0) -> HoldingSnapshot:
    """A look so many hours before now."""
    return HoldingSnapshot(MARKET_NOW - hours * HOUR, price, unrealized)


LAST = look(hours=3)
CASES = [
    (None, look(), DueReason.INITIAL_RUN, "initial run"),
    (look(hours=-1), look(), DueReason.INITIAL_RUN, "initial run"),  # in replay: a look of a later day
    (LAST, look(100.0, 0.09), DueReason.UNREALIZED_CHANGE, "unrealized +7%"),
    (LAST, look(100.0, -0.0325), DueReason.UNREALIZED_CHANGE, "unrealized -5.25%"),
    (LAST, look(100.0, 0.07), DueReason.UNREALIZED_CHANGE, "unrealized +5%"),
    (LAST, look(95.0, 0.02), DueReason.PRICE_MOVE, "price -5%"),
    (LAST, look(105.0, None), DueReason.PRICE_MOVE, "price +5%"),
    (LAST, look(112.5, 0.12), DueReason.UNREALIZED_CHANGE, "unrealized +10%"),  # the first that holds
    (look(hours=24), look(), DueReason.AGE_TIMEOUT, "24 h old"),
    (look(None, None, hours=24 * 9), look(), DueReason.AGE_TIMEOUT, "9 d old"),
]


@pytest.mark.parametrize(("last", "now", "reason", "text"), CASES)
def test_a_role_is_due_for_each_reason(
    last: HoldingSnapshot | None, now: HoldingSnapshot, reason: DueReason, text: str
) -> None:
    assert due(last, now, MOVE) == (reason, text)
    assert due(last, now, MOVE, asked=True) == (DueReason.MANUAL, "manual")


@pytest.mark.parametrize(
    ("last", "now", "blind"),
    [
        (LAST, look(104.9, 0.069), ()),
        (LAST, look(None, 0.069), ("price not known now",)),
        (look(100.0, None, hours=3), look(100.0, 2.0), ("unrealized not known at the last look",)),
        (LAST, look(None, None), ("price not known now", "unrealized not known now")),
        (look(0.0, hours=3), look(), ("price not known at the last look",)),
    ],
)
def test_a_role_that_is_not_due_names_its_time_and_what_cannot_make_it_due(
    last: HoldingSnapshot, now: HoldingSnapshot, blind: tuple[str, ...]
) -> None:
    assert due(last, now, MOVE) == NotDue(last.at + 24 * HOUR, blind)


figures = st.none() | st.floats(0.01, 10_000)
gains = st.none() | st.floats(-1, 10)
times = st.floats(-100, 1000).map(lambda hours: MARKET_NOW + hours * HOUR)
looks = st.builds(HoldingSnapshot, times, figures, gains)
fractions = st.floats(0.001, 1)


@given(st.none() | looks, looks, fractions)
def test_each_reason_needs_its_change(last: HoldingSnapshot | None, now: HoldingSnapshot, move: float) -> None:
    """By exact arithmetic, give or take the last digits of a float."""
    found = due(last, now, move)
    if last is None or last.at > now.at:
        assert found == (DueReason.INITIAL_RUN, "initial run")
        return
    aged = now.at - last.at >= AGE
    moves = None if last.price is None or now.price is None else abs(Fraction(now.price) / Fraction(last.price) - 1)
    changes = (
        None if last.unrealized is None or now.unrealized is None else abs(Fraction(now.unrealized - last.unrealized))
    )
    near = Fraction(1, 10**9)
    if isinstance(found, NotDue):
        assert found.due_at == last.at + AGE
        assert found.due_at > now.at
        assert moves is None or moves < move + near
        assert changes is None or changes < move + near
        assert [line.split()[0] for line in found.blind] == [
            name for name, change in (("price", moves), ("unrealized", changes)) if change is None
        ]
    elif found[0] is DueReason.PRICE_MOVE:
        assert moves is not None
        assert moves > move - near
        assert changes is None or changes < move + near
    elif found[0] is DueReason.UNREALIZED_CHANGE:
        assert changes is not None
        assert changes > move - near
    else:
        assert found[0] is DueReason.AGE_TIMEOUT
        assert aged


@given(looks, looks, fractions, st.floats(0, 1000))
def test_once_due_it_stays_so_while_the_figures_stay(
    last: HoldingSnapshot, now: HoldingSnapshot, move: float, hours: float
) -> None:
    later = HoldingSnapshot(now.at + hours * HOUR, now.price, now.unrealized)
    if not isinstance(due(last, now, move), NotDue) and last.at <= now.at:
        assert not isinstance(due(last, later, move), NotDue)


DAY = dt.timedelta(days=1)
OURS = ("paper", "replay")


def record(store: Store, role: str, look: HoldingSnapshot, *, into: tuple[str, str] = OURS, **changes: Any) -> None:
    details = {"reason": DueReason.INITIAL_RUN, "run_id": "run", "report_id": new_id(), **changes}
    with store.session() as session:
        record_look(session, *into, "IBM", role, look, **details)


def rows(store: Store, now: dt.datetime = MARKET_NOW) -> dict[tuple[str, str], RoleSchedule]:
    with store.read() as session:
        return dict(schedule_rows(session, *OURS, now))


def test_another_account_another_market_and_a_later_day_are_not_seen(store: Store) -> None:
    for other in (("alpaca-paper", "replay"), ("paper", "yahoo")):
        record(store, "risk", HoldingSnapshot(MARKET_NOW, 1.0, 1.0), into=other)
    record(store, "quick", HoldingSnapshot(MARKET_NOW + dt.timedelta(seconds=1), 1.0, 1.0))
    assert rows(store) == {}
    assert rows(store, MARKET_NOW + DAY).keys() == {("IBM", "quick")}
    with store.read() as session:
        assert len(session.exec(select(RoleSchedule)).all()) == 3


def test_two_runs_that_end_a_look_at_once_leave_one(store: Store) -> None:
    together = threading.Barrier(8)
    errors: list[BaseException] = []

    def write(number: int) -> None:
        try:
            together.wait(PATIENCE)
            record(store, "risk", HoldingSnapshot(MARKET_NOW, float(number), 0.0), report_id=str(number))
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=write, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    assert errors == []
    (row,) = rows(store).values()
    assert row.report_id == f"{row.last_price:.0f}"


ROLES = default_roles()
IBM = Holding("IBM", ("IBM",), 128.0, 0.1)
Rows = dict[tuple[str, str], RoleSchedule]


def row(role: str, *, hours: float = 3, price: float | None = 128.0, gain: float | None = 0.1) -> RoleSchedule:
    return RoleSchedule(
        account="paper", market="replay", symbol="IBM", role=role, run_id="run", report_id=f"report-{role}",
        reason="initial_run", last_at=MARKET_NOW - hours * HOUR, last_price=price, last_unrealized=gain,
    )  # fmt: skip


def report(role: str, **changes: Any) -> Report:
    values = {"status": "completed", "verdict": Stance.CONFIRMED, "confidence": "high", "market_at": MARKET_NOW}
    return Report(
        id=f"report-{role}", run_id="run", step_id="s", candidate_id="c", turn_id="t", symbol="IBM", role=role,
        author="x", **{**values, **changes},
    )  # fmt: skip


def seen(*rows: RoleSchedule, **changes: Report) -> tuple[Rows, dict[str, Report]]:
    reports = {name: changes.get(name) or report(name) for name in (found.role for found in rows)}
    return {("IBM", found.role): found for found in rows}, {kept.id: kept for kept in reports.values()}


def planned(
    rows: Rows, reports: dict[str, Report], holding: Holding = IBM, *, asked: bool = False, roles: Any = ROLES
) -> HoldingPlan:
    return plan(holding, rows, reports, MARKET_NOW, MOVE, roles, asked=asked)


def why(found: HoldingPlan) -> dict[str, str]:
    return {one.role: one.why for one in found.due}


def test_each_role_has_a_reason_or_a_time_of_its_own() -> None:
    rows = [row("quick"), row("fundamentals", gain=0.03), row("risk", price=100.0), row("catalyst", hours=24)]
    found = planned(*seen(*rows))
    assert why(found) == {"fundamentals": "unrealized +7%", "risk": "price +28%", "catalyst": "24 h old"}
    (quick,) = found.skipped
    assert (quick.role, quick.due_at) == ("quick", MARKET_NOW + 21 * HOUR)
    assert (quick.why, quick.report_id) == ("looked 3 h ago", "report-quick")


def test_an_unknown_price_makes_no_role_due_and_is_reported() -> None:
    blind = Holding("IBM", ("IBM",), None, None, ("price: gone", "unrealized: gone"))
    found = planned(*seen(*(row(role, price=1.0, gain=9.0) for role in ROLES)), blind)
    assert found.due == []
    assert {one.why for one in found.skipped} == {"looked 3 h ago; price not known now; unrealized not known now"}
    assert found.missing == ["price: gone", "unrealized: gone"]


def test_a_look_without_its_report_is_none() -> None:
    """A verdict would have nothing to rest on."""
    rows, reports = seen(*map(row, ROLES))
    del reports["report-risk"]
    assert why(planned(rows, reports)) == {"risk": "initial run"}


def test_a_rejection_of_the_first_role_holds_the_others_back_until_it_is_due_again() -> None:
    rejected = report("quick", verdict=Stance.REJECT)
    found = planned(*seen(row("quick"), row("risk"), quick=rejected))
    assert found.due == []
    not_due = {one.role: (one.due_at, one.why, one.report_id) for one in found.skipped}
    at = MARKET_NOW + 21 * HOUR
    assert not_due == {
        "quick": (at, "looked 3 h ago", "report-quick"),
        "risk": (at, "looked 3 h ago", "report-risk"),
        "fundamentals": (at, "quick rejected it", None),
        "catalyst": (at, "quick rejected it", None),
    }
    again = planned(*seen(row("quick", hours=25), quick=rejected))
    assert why(again) == {
        "quick": "25 h old", "fundamentals": "initial run", "risk": "initial run", "catalyst": "initial run",
    }  # fmt: skip


def test_a_rejection_of_a_later_role_holds_back_those_after_it_alone() -> None:
    roles = ("quick", "fundamentals", "chart", "options", "research")
    rejected = report("chart", verdict=Stance.REJECT)
    found = planned(*seen(row("quick"), row("chart"), chart=rejected), roles=roles)
    assert why(found) == {"fundamentals": "initial run"}
    held = {one.role: one.why for one in found.skipped if one.report_id is None}
    assert held == {"options": "chart rejected it", "research": "chart rejected it"}


def test_a_role_whose_report_counts_again_says_so_and_ends_the_research_as_it_did(store: Store) -> None:
    due = [DueRole(role=role, reason=DueReason.PRICE_MOVE, why="price +5%") for role in ("quick", "risk")]
    one = HoldingPlan(symbol="IBM", price=128.0, unrealized=0.1, missing=[], due=due, skipped=[])
    with store.session() as session:
        old = a_step(session, a_run(session), role="quick", subject="IBM", state=StepState.DONE)
        kept = a_report(session, old, a_turn(session, old), "IBM", verdict=Stance.REJECT)
        run = a_run(session, state=RunState.DONE, params={PLANS: [one.model_dump(mode="json")]})
        found = {"status": "reused", "report_id": kept.id, "reason": "reused from run 1, 3 h ago"}
        a_step(session, run, role="quick", subject="IBM", state=StepState.DONE, result=found)
        made = portfolio_research(session, run)
    assert made is not None
    (holding,) = made.holdings
    assert [(row.role, row.status, row.verdict) for row in holding.executed_roles_with_reasons] == [
        ("quick", "reused", Stance.REJECT)
    ]
    assert [(row.role, row.why) for row in holding.skipped_roles] == [("risk", "still due: quick rejected it")]
