"""The view of a share and the plan of an instrument on it: neither is the other's."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some

from chordesk.agents.verdicts.analysis_view import NEEDED, AccountFacts, Plan, plan, view
from chordesk.models.analysis import AnalysisRequest, RoleReport
from chordesk.models.answers import Confidence, Rating, ReportStatus, Stance
from tests.agents.verdicts.analysis_kit import ANSWERS, CALL, PUT, chart, level, options, report, reports, research

CSP = AnalysisRequest()
LATER = dt.date(2010, 10, 20)  # after the expiry of the put
DATED = AccountFacts(earnings=LATER)
FAILED = {"status": ReportStatus.FAILED, "verdict": None, "confidence": None, "reason": "timeout: no answer"}


def states(found: Plan) -> dict[str, str]:
    return {one.id: one.state for one in found.checks}


def test_three_completed_reports_and_a_contract_are_a_select() -> None:
    found, seen = plan(CSP, reports(), ANSWERS, DATED), view(CSP, reports())
    assert (found.recommendation, found.contract, found.reasons) == ("select", PUT, [])
    assert (seen.rating, seen.confidence) == (Rating.BUY, Confidence.HIGH)
    assert states(found) == dict.fromkeys(
        ("extension", "contract", "quote", "limits", "strike", "liquidity", "source", "earnings"), "ok"
    )
    assert found.figures["contract"]["bid"] == 0.68
    assert found.figures["chart"]["support_levels"][0] == level("S1", 27.25, 4)
    assert found.figures["research"]["earnings_date"] == "2010-10-20"
    strike = next(one for one in found.checks if one.id == "strike")
    assert strike.text == "the strike 26 is below support S1 of 27.25 (4 touches)"
    limits = next(one for one in found.checks if one.id == "limits")
    assert limits.text == "|delta| 0.25, 0.53% a week and 36 days are within the limits"


@pytest.mark.parametrize("role", ["chart", "research"])
def test_a_share_that_is_rejected_is_passed_and_its_plan_quotes_the_report(role: str) -> None:
    given = reports(**{role: {"verdict": Stance.REJECT, "summary": "It falls.\nFast."}})
    found = plan(CSP, given, ANSWERS, DATED)
    assert (found.recommendation, view(CSP, given).rating) == ("reject", Rating.PASS)
    assert found.reasons == [f"{role} rejected it: “It falls. Fast.”"]


def test_no_fitting_contract_rejects_the_plan_and_leaves_the_view_of_the_share() -> None:
    given = reports(options={"verdict": Stance.REJECT, "summary": "No put pays 0.5 % a week."})
    none = options(recommendation="reject", contract=None)
    found = plan(CSP, given, {**ANSWERS, "options": none}, DATED)
    assert (found.recommendation, found.reasons) == (
        "reject", ["options rejected it: “No put pays 0.5 % a week.”"]
    )  # fmt: skip
    assert view(CSP, given) == view(CSP, reports())
    assert view(CSP, given).rating is Rating.BUY


@pytest.mark.parametrize("status", [one for one in ReportStatus if one is not ReportStatus.COMPLETED])
@pytest.mark.parametrize("role", ["chart", "options", "research"])
def test_a_report_that_is_not_completed_is_incomplete_and_never_a_select(role: str, status: ReportStatus) -> None:
    given = reports(**{role: {**FAILED, "status": status}})
    found = plan(CSP, given, ANSWERS, DATED)
    assert found.recommendation == "incomplete"
    assert view(CSP, given).rating is (Rating.BUY if role == "options" else Rating.INSUFFICIENT)
    assert f"{role}: {status} (timeout: no answer)" in found.reasons
    assert {"chart": "chart", "options": "contract", "research": "research"}[role] not in found.figures


@pytest.mark.parametrize("role", ["chart", "options", "research"])
def test_a_report_with_invented_figures_is_incomplete_and_never_a_select(role: str) -> None:
    doubt = {"is_grounded": False, "reason": "3 of 4 figures have no source in its tool answers: 12, 13%, 14"}
    found = plan(CSP, reports(**{role: doubt}), ANSWERS, DATED)
    assert (found.recommendation, found.reasons) == ("incomplete", [f"{role}: {doubt['reason']}"])
    assert view(CSP, reports(**{role: doubt})).rating is (Rating.BUY if role == "options" else Rating.INSUFFICIENT)
    rejected = plan(CSP, reports(**{role: {**doubt, "verdict": Stance.REJECT}}), ANSWERS, DATED)
    assert rejected.recommendation == "reject"


def test_an_analyst_that_did_not_run_is_incomplete() -> None:
    given = [one for one in reports() if one.role != "research"]
    found, seen = plan(CSP, given, ANSWERS, DATED), view(CSP, given)
    assert (found.recommendation, found.reasons) == ("incomplete", ["research: did not run"])
    assert seen.rating is Rating.INSUFFICIENT
    assert "Research: did not run." in seen.summary


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"delta": -0.31}, "outside the limits: |delta| 0.31 is above 0.3"),
        ({"weekly_roc": 0.0049}, "outside the limits: 0.49% a week is below 0.50%"),
        ({"dte": 46}, "outside the limits: 46 days are not 14 to 45"),
        ({"strategy": "covered_call"}, f"{PUT} was chosen for covered_call, and this is csp"),
    ],
)
def test_a_contract_outside_the_limits_is_rejected_by_code(changes: dict[str, Any], reason: str) -> None:
    found = plan(CSP, reports(), {**ANSWERS, "options": options(**changes)}, DATED)
    assert (found.recommendation, found.reasons) == ("reject", [reason])


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"contract": None}, "the options report names no contract"),
        ({"bid": None}, "the contract has no bid and ask to sell at"),
        ({"bid": 0.0}, "the contract has no bid and ask to sell at"),
        ({"delta": None}, "not known of the contract: delta"),
    ],
)
def test_a_contract_without_a_figure_that_is_needed_is_incomplete(changes: dict[str, Any], reason: str) -> None:
    found = plan(CSP, reports(), {**ANSWERS, "options": options(**changes)}, DATED)
    assert (found.recommendation, found.reasons) == ("incomplete", [reason])


@pytest.mark.parametrize(
    ("day", "without", "state"),
    [("2010-09-16", "reject", "warn"), ("2010-09-17", "reject", "warn"), ("2010-09-18", "select", "ok"),
     (None, "incomplete", "warn")],
)  # fmt: skip
def test_a_put_that_lives_past_its_earnings_or_unknown_ones_needs_leave(
    day: str | None, without: str, state: str
) -> None:
    facts = AccountFacts(earnings=dt.date.fromisoformat(day) if day else None, free_shares=100)
    found = plan(CSP, reports(), ANSWERS, facts)
    assert found.recommendation == without
    assert all("--across-earnings" in text for text in found.reasons)
    left = plan(AnalysisRequest(across_earnings=True), reports(), ANSWERS, facts)
    assert (left.recommendation, states(left)["earnings"]) == ("select", state)
    call = {**ANSWERS, "options": options(strategy="covered_call", contract=CALL, best_strike=31.0, delta=0.2)}
    covered = plan(AnalysisRequest(strategy="covered_call"), reports(), call, facts)
    assert (covered.recommendation, states(covered)["earnings"]) == ("select", state)


def test_without_chart_or_research_a_share_is_rated_caution_at_most() -> None:
    given = [report(role) for role in ("chart", "risk", "research", "options")]
    for left_out, text in (("chart", "trend and levels"), ("research", "news and earnings")):
        request = AnalysisRequest(**{left_out: False})
        assert set(request.judges) == {"chart", "risk", "research"} - {left_out}
        seen, found = view(request, given), plan(request, given, ANSWERS, DATED)
        assert (seen.rating, found.recommendation, states(found)[left_out]) == (Rating.CAUTION, "select", "warn")
        assert f"{text} were not looked at" in seen.summary.lower()
    alone = AnalysisRequest(chart=False, research=False)
    assert view(alone, given).rating is Rating.INSUFFICIENT
    assert not alone.proposes


def test_an_order_that_the_collar_would_deny_is_rejected_with_the_reason() -> None:
    wide = {**ANSWERS, "options": options(bid=0.28, ask=0.33, premium=0.305)}
    assert plan(CSP, reports(), wide, DATED).recommendation == "select", "no order is proposed"
    found = plan(CSP, reports(), wide, AccountFacts(collar=0.05, earnings=LATER))
    assert found.recommendation == "reject"
    assert "the bid is 8.2% below their middle, and an order may be at most 5.0% away" in found.reasons[0]
    assert plan(CSP, reports(), wide, AccountFacts(collar=0.09, earnings=LATER)).recommendation == "select"


def test_a_return_that_falls_below_the_limit_at_the_bid_and_contracts_that_are_written_are_stated_risks() -> None:
    thin = {**ANSWERS, "options": options(bid=0.60, ask=0.80, premium=0.70, weekly_roc=0.0053)}
    found = plan(CSP, reports(), thin, AccountFacts(written=3, earnings=LATER))
    warned = {one.id: one.text for one in found.checks if one.state == "warn"}
    assert found.recommendation == "select"
    assert warned["limits"].endswith("at the bid, which an order is sold at, it is 0.45% a week")
    assert warned["written"] == "3 contracts on it are written already"


def test_stated_risks_leave_a_select_a_select() -> None:
    risky = {
        "chart": chart(extension={"atr": 4.5, "risk": "high"}, support_levels=[level("S1", 25.9)]),
        "options": options(liquidity_score="poor", source="modelled"),
        "research": research(),
    }
    found = plan(CSP, reports(), risky, DATED)
    assert found.recommendation == "select"
    warned = {one.id: one.text for one in found.checks if one.state == "warn"}
    assert warned == {
        "extension": "the close is 4.50 average true ranges above its nearest support: high risk",
        "strike": "the strike 26 is above every support of the chart, the highest at 25.90",
        "liquidity": "the contract's liquidity is poor",
        "source": "the quotes are modelled from past prices: no market gave them, and they trade on paper alone",
    }


def test_figures_that_are_not_known_are_unknown_and_not_in_order() -> None:
    bare = {
        "chart": chart(extension=None, support_levels=[]),
        "options": options(liquidity_score="unknown", source=None),
        "research": research(earnings_date=None),
    }
    unknown = {id for id, state in states(plan(CSP, reports(), bare)).items() if state == "unknown"}
    assert unknown == {"extension", "strike", "liquidity", "source", "earnings"}


def test_a_covered_call_needs_its_shares_and_a_resistance_below_its_strike() -> None:
    request = AnalysisRequest(strategy="covered_call", contracts=2)
    answers = {**ANSWERS, "options": options(strategy="covered_call", contract=CALL, best_strike=31.0, delta=0.2)}
    found = plan(request, reports(), answers, AccountFacts(free_shares=200))
    assert (found.recommendation, states(found)["strike"]) == ("select", "ok")
    assert next(one.text for one in found.checks if one.id == "strike") == (
        "the strike 31 is above resistance R2 of 30.15 (2 touches)"
    )
    near = {**answers, "options": {**answers["options"], "best_strike": 29.0}}
    assert states(plan(request, reports(), near, AccountFacts(free_shares=200)))["strike"] == "warn"
    short = plan(request, reports(), answers, AccountFacts(free_shares=199))
    assert (short.recommendation, short.reasons) == (
        "reject", ["199 shares are free to cover calls, 200 are needed"],
    )  # fmt: skip


def test_shares_are_judged_by_chart_and_research_alone() -> None:
    request = AnalysisRequest(strategy="equity")
    given = [report("chart"), report("research")]
    found = plan(request, given, ANSWERS)
    assert (found.recommendation, found.contract, view(request, given).rating) == ("select", None, Rating.BUY)
    assert states(found) == {"extension": "ok"}


statuses = some.sampled_from(ReportStatus)
stances = some.sampled_from(Stance)


@some.composite
def some_reports(draw: some.DrawFn) -> list[RoleReport]:
    found = []
    for role in draw(some.lists(some.sampled_from(("chart", "risk", "options", "research")), unique=True)):
        status = draw(statuses)
        done = status is ReportStatus.COMPLETED
        stance = draw(stances) if done else None
        confidence = draw(some.sampled_from(Confidence)) if done else None
        found.append(report(role, status=status, verdict=stance, confidence=confidence))
    return found


number = some.none() | some.floats(-2, 60)


@given(
    given=some_reports(),
    with_research=some.booleans(),
    changes=some.fixed_dictionaries({}, optional={"delta": number, "weekly_roc": number, "bid": number, "dte": number,
                                                  "contract": some.sampled_from([None, PUT])}),
    free=some.none() | some.sampled_from([0.0, 99.0, 100.0]),
    leave=some.booleans(),
)  # fmt: skip
def test_a_view_is_the_same_for_each_instrument_and_a_select_has_all_that_it_needs(
    given: list[RoleReport], with_research: bool, changes: dict[str, Any], free: float | None, leave: bool
) -> None:
    views = []
    for strategy in ("csp", "covered_call", "equity"):
        request = AnalysisRequest(strategy=strategy, research=with_research, across_earnings=leave)
        answers = {**ANSWERS, "options": options(strategy=strategy, **changes)}
        found = plan(request, given, answers, AccountFacts(free_shares=free))
        views.append(view(request, given))
        rejected = any(one.verdict is Stance.REJECT for one in given if one.role in request.roles)
        assert (found.recommendation == "reject") >= rejected
        assert (found.recommendation == "select") == (not found.reasons)
        if found.recommendation != "select":
            continue
        assert {one.role for one in given if one.status is ReportStatus.COMPLETED} >= set(request.roles)
        needed = {one.id: one.state for one in found.checks if one.id in NEEDED}
        assert set(needed.values()) <= {"ok", "warn"}
        if strategy != "equity":
            assert {"contract", "quote", "limits", "earnings"} <= set(needed)
            assert found.contract == PUT
    assert views[0] == views[1] == views[2]
