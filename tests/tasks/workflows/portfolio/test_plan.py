"""Which roles run on a holding, from the schedule's rows and the reports that they name."""

from __future__ import annotations

import datetime as dt
from typing import Any

from chordesk.agents.roles import default_roles
from chordesk.models.answers import Stance
from chordesk.models.tables.runs import Report
from chordesk.models.tables.runtime import RoleSchedule
from chordesk.tasks.workflows.portfolio import DueReason, HoldingPlan, Limits, plan
from chordesk.tools.holdings import Holding
from tests.builders import MARKET_NOW

HOUR = dt.timedelta(hours=1)
ROLES = default_roles()
LIMITS = Limits(24 * HOUR, price_move=0.05, unrealized_change=0.05)
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
    return plan(holding, rows, reports, MARKET_NOW, LIMITS, roles, asked=asked)


def why(found: HoldingPlan) -> dict[str, str]:
    return {one.role: one.why for one in found.due}


def test_a_new_holding_is_looked_at_by_everyone() -> None:
    found = planned({}, {})
    assert [(one.role, one.reason) for one in found.due] == [(role, DueReason.INITIAL_RUN) for role in ROLES]
    assert found.skipped == []


def test_each_role_has_a_reason_or_a_time_of_its_own() -> None:
    rows = [row("quick"), row("fundamentals", gain=0.03), row("risk", price=100.0), row("catalyst", hours=24)]
    found = planned(*seen(*rows))
    assert why(found) == {"fundamentals": "unrealized +7%", "risk": "price +28%", "catalyst": "24 h old"}
    (quick,) = found.skipped
    assert (quick.role, quick.due_at) == ("quick", MARKET_NOW + 21 * HOUR)
    assert (quick.why, quick.report_id) == ("looked 3 h ago", "report-quick")


def test_when_nothing_is_due_each_role_has_its_time() -> None:
    found = planned(*seen(*map(row, ROLES)))
    assert found.due == []
    assert [one.role for one in found.skipped] == list(ROLES)
    assert {one.due_at for one in found.skipped} == {MARKET_NOW + 21 * HOUR}


def test_a_person_may_want_everyone() -> None:
    found = planned(*seen(*map(row, ROLES)), asked=True)
    assert [(one.role, one.reason) for one in found.due] == [(role, DueReason.MANUAL) for role in ROLES]


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


def test_a_plan_goes_through_the_run_s_parameters_unchanged() -> None:
    found = planned(*seen(row("quick"), row("risk", price=100.0)))
    assert HoldingPlan.model_validate(found.model_dump(mode="json")) == found
