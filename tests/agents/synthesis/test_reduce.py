"""The synthesis: when a symbol is selected, rejected, or not judged, and the verdict that follows."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as some

from chordesk.agents.synthesis import NEEDED, AccountFacts, synthesise
from chordesk.models.analysis import AnalysisRequest
from chordesk.models.answers import Confidence, Rating, ReportStatus, Stance
from chordesk.models.reports import RoleReport
from tests.agents.synthesis.kit import ANSWERS, CALL, PUT, chart, level, options, report, reports, research

CSP = AnalysisRequest()
FAILED = {"status": ReportStatus.FAILED, "verdict": None, "confidence": None, "reason": "timeout: no answer"}


def states(found: Any) -> dict[str, str]:
    return {one.id: one.state for one in found.checks}


def test_three_completed_reports_and_a_contract_are_a_select() -> None:
    found = synthesise(CSP, reports(), ANSWERS)
    assert (found.recommendation, found.contract, found.reasons) == ("select", PUT, [])
    assert (found.verdict.rating, found.verdict.confidence) == (Rating.BUY, Confidence.HIGH)
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


@pytest.mark.parametrize("role", ["chart", "options", "research"])
def test_a_rejection_is_quoted_as_the_reports_own_text_and_passes(role: str) -> None:
    done = {"chart": 1, "options": 2, "research": 3}[role]
    given = reports(**{role: {"verdict": Stance.REJECT, "summary": "It falls.\nFast."}})[:done]
    answers = {one.role: ANSWERS[one.role] for one in given}
    if role == "options":
        answers["options"] = options(recommendation="reject", contract=None)
    found = synthesise(CSP, given, answers)
    assert (found.recommendation, found.verdict.rating) == ("reject", Rating.PASS)
    assert found.reasons == [f"{role} rejected it: “It falls. Fast.”"]


@pytest.mark.parametrize("status", [one for one in ReportStatus if one is not ReportStatus.COMPLETED])
@pytest.mark.parametrize("role", ["chart", "options", "research"])
def test_a_report_that_is_not_completed_is_incomplete_and_never_a_select(role: str, status: ReportStatus) -> None:
    found = synthesise(CSP, reports(**{role: {**FAILED, "status": status}}), ANSWERS)
    assert (found.recommendation, found.verdict.rating) == ("incomplete", Rating.INSUFFICIENT)
    assert f"{role}: {status} (timeout: no answer)" in found.reasons
    assert {"chart": "chart", "options": "contract", "research": "research"}[role] not in found.figures


@pytest.mark.parametrize("role", ["chart", "options", "research"])
def test_a_report_with_invented_figures_is_incomplete_and_never_a_select(role: str) -> None:
    doubt = {"is_grounded": False, "reason": "3 of 4 figures have no source in its tool answers: 12, 13%, 14"}
    found = synthesise(CSP, reports(**{role: doubt}), ANSWERS)
    assert (found.recommendation, found.verdict.rating) == ("incomplete", Rating.INSUFFICIENT)
    assert found.reasons == [f"{role}: {doubt['reason']}"]
    rejected = synthesise(CSP, reports(**{role: {**doubt, "verdict": Stance.REJECT}}), ANSWERS)
    assert rejected.recommendation == "reject"


def test_an_analyst_that_did_not_run_is_incomplete() -> None:
    found = synthesise(CSP, reports()[:2], ANSWERS)
    assert (found.recommendation, found.reasons) == ("incomplete", ["research: did not run"])
    assert found.verdict.rating is Rating.INSUFFICIENT
    first, second, *_ = found.verdict.summary.splitlines()
    assert first == "INSUFFICIENT from 2 of 2 reports."
    assert second == "By the reports alone HOLD. Research: did not run."


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
    found = synthesise(CSP, reports(), {**ANSWERS, "options": options(**changes)})
    assert (found.recommendation, found.reasons, found.verdict.rating) == ("reject", [reason], Rating.PASS)


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
    found = synthesise(CSP, reports(), {**ANSWERS, "options": options(**changes)})
    assert (found.recommendation, found.reasons, found.verdict.rating) == ("incomplete", [reason], Rating.INSUFFICIENT)


def test_earnings_before_expiry_are_at_most_caution() -> None:
    early = research(earnings_date="2010-09-01", earnings_before_expiry=True)
    found = synthesise(CSP, reports(), {**ANSWERS, "research": early})
    assert (found.recommendation, found.verdict.rating) == ("select", Rating.CAUTION)
    assert "earnings are due on 2010-09-01, before the expiry on 2010-09-17" in [one.text for one in found.checks]
    assert "Earnings are due on 2010-09-01" in found.verdict.summary
    unknown = synthesise(CSP, reports(), {**ANSWERS, "research": research(earnings_date=None)})
    assert (states(unknown)["earnings"], unknown.verdict.rating) == ("unknown", Rating.CAUTION)
    assert "No source has the date of the next earnings" in unknown.verdict.summary


def test_a_contract_without_a_chart_is_at_most_caution_and_alone_nothing_to_trade_on() -> None:
    request = AnalysisRequest(strategy="csp", chart=False)
    assert request.roles == ("options", "research")
    done = {name: ANSWERS[name] for name in request.roles}
    found = synthesise(request, reports()[1:], done)
    assert (found.recommendation, found.verdict.rating, states(found)["chart"]) == ("select", Rating.CAUTION, "warn")
    alone = synthesise(AnalysisRequest(chart=False, research=False), reports()[1:2], done)
    assert (alone.recommendation, alone.contract) == ("select", PUT)
    assert alone.verdict.rating is Rating.INSUFFICIENT
    assert not AnalysisRequest(chart=False, research=False).proposes


def test_an_order_that_the_collar_would_deny_is_rejected_with_the_reason() -> None:
    wide = {**ANSWERS, "options": options(bid=0.28, ask=0.33, premium=0.305)}
    assert synthesise(CSP, reports(), wide).recommendation == "select", "no order is proposed"
    found = synthesise(CSP, reports(), wide, AccountFacts(collar=0.05))
    assert (found.recommendation, found.verdict.rating) == ("reject", Rating.PASS)
    assert "the bid is 8.2% below their middle, and an order may be at most 5.0% away" in found.reasons[0]
    assert synthesise(CSP, reports(), wide, AccountFacts(collar=0.09)).recommendation == "select"


def test_a_return_that_falls_below_the_limit_at_the_bid_and_contracts_that_are_written_are_stated_risks() -> None:
    thin = {**ANSWERS, "options": options(bid=0.60, ask=0.80, premium=0.70, weekly_roc=0.0053)}
    found = synthesise(CSP, reports(), thin, AccountFacts(written=3))
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
    found = synthesise(CSP, reports(), risky)
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
        "research": research(earnings_date=None, earnings_before_expiry=None),
    }
    found = synthesise(CSP, reports(), bare)
    unknown = {id for id, state in states(found).items() if state == "unknown"}
    assert unknown == {"extension", "strike", "liquidity", "source", "earnings"}


def test_a_covered_call_needs_its_shares_and_a_resistance_below_its_strike() -> None:
    request = AnalysisRequest(strategy="covered_call", contracts=2)
    answers = {**ANSWERS, "options": options(strategy="covered_call", contract=CALL, best_strike=31.0, delta=0.2)}
    found = synthesise(request, reports(), answers, AccountFacts(free_shares=200))
    assert (found.recommendation, states(found)["strike"]) == ("select", "ok")
    assert next(one.text for one in found.checks if one.id == "strike") == (
        "the strike 31 is above resistance R2 of 30.15 (2 touches)"
    )
    low = synthesise(
        request,
        reports(),
        {**answers, "options": {**answers["options"], "best_strike": 29.0}},
        AccountFacts(free_shares=200),
    )
    assert states(low)["strike"] == "warn"
    short = synthesise(request, reports(), answers, AccountFacts(free_shares=199))
    assert (short.recommendation, short.reasons) == (
        "reject", ["199 shares are free to cover calls, 200 are needed"],
    )  # fmt: skip
    nothing = synthesise(request, [], {}, AccountFacts(free_shares=0))
    assert (nothing.recommendation, nothing.verdict.rating) == ("reject", Rating.PASS)


def test_shares_are_judged_by_chart_and_research_alone() -> None:
    request = AnalysisRequest(strategy="equity")
    found = synthesise(request, [report("chart"), report("research")], ANSWERS)
    assert (found.recommendation, found.contract, found.verdict.rating) == ("select", None, Rating.BUY)
    assert states(found) == {"extension": "ok"}


def test_without_research_a_verdict_is_at_most_caution() -> None:
    request = AnalysisRequest(research=False)
    found = synthesise(request, reports()[:2], ANSWERS)
    assert (found.recommendation, found.verdict.rating) == ("select", Rating.CAUTION)
    assert states(found)["research"] == "warn"
    assert "news and earnings were not looked at" in found.verdict.summary.lower()


statuses = some.sampled_from(ReportStatus)
stances = some.sampled_from(Stance)


@some.composite
def some_reports(draw: some.DrawFn) -> list[RoleReport]:
    found = []
    for role in draw(some.lists(some.sampled_from(("chart", "options", "research")), unique=True)):
        status = draw(statuses)
        done = status is ReportStatus.COMPLETED
        stance = draw(stances) if done else None
        confidence = draw(some.sampled_from(Confidence)) if done else None
        found.append(report(role, status=status, verdict=stance, confidence=confidence))
    return found


number = some.none() | some.floats(-2, 60)


@given(
    given=some_reports(),
    strategy=some.sampled_from(["csp", "covered_call", "equity"]),
    with_chart=some.booleans(),
    with_research=some.booleans(),
    changes=some.fixed_dictionaries({}, optional={"delta": number, "weekly_roc": number, "bid": number, "dte": number,
                                                  "contract": some.sampled_from([None, PUT])}),
    free=some.none() | some.sampled_from([0.0, 99.0, 100.0]),
)  # fmt: skip
def test_a_select_has_all_its_reports_no_rejection_and_no_check_that_fails(
    given: list[RoleReport],
    strategy: Any,
    with_chart: bool,
    with_research: bool,
    changes: dict[str, Any],
    free: float | None,
) -> None:
    assume(strategy != "equity" or with_chart)
    request = AnalysisRequest(strategy=strategy, chart=with_chart, research=with_research)
    answers = {**ANSWERS, "options": options(strategy=strategy, **changes)}
    found = synthesise(request, given, answers, AccountFacts(free_shares=free))
    assert found == synthesise(request, list(given), dict(answers), AccountFacts(free_shares=free))
    rejected = any(one.verdict is Stance.REJECT for one in given)
    assert (found.recommendation == "reject") >= rejected
    assert (found.recommendation == "select") == (not found.reasons)
    tradable = found.verdict.rating not in (Rating.PASS, Rating.INSUFFICIENT)
    completed = [one for one in given if one.status is ReportStatus.COMPLETED]
    assert tradable == (found.recommendation == "select" and len(completed) > 1)
    if found.recommendation != "select":
        return
    assert {one.role for one in given if one.status is ReportStatus.COMPLETED} >= set(request.roles)
    needed = {one.id: one.state for one in found.checks if one.id in NEEDED}
    assert set(needed.values()) <= {"ok", "warn"}
    if strategy != "equity":
        assert {"contract", "quote", "limits"} <= set(needed)
        assert found.contract == PUT
