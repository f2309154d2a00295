"""The reducer, branch by branch and at each boundary."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chordesk.agents.grounding.report import counted
from chordesk.agents.roles import required_roles
from chordesk.agents.verdicts.research_verdict import COMPANY, cap_confidence, deciding_rule
from chordesk.agents.verdicts.research_verdict import reduce_reports as reduce_with
from chordesk.models.analysis import RoleReport, VerdictResult
from chordesk.models.answers import Confidence, Rating, ReportStatus, Stance
from chordesk.models.settings import Settings
from tests.parts import needs

OK, CARE, NO = Stance.CONFIRMED, Stance.CAUTION, Stance.REJECT
HIGH, MEDIUM, LOW = Confidence.HIGH, Confidence.MEDIUM, Confidence.LOW
ROLES = ("quick", "fundamentals", "risk", "catalyst")
ABSENT = [status for status in ReportStatus if status is not ReportStatus.COMPLETED]


def done(role: str, verdict: Stance, confidence: Confidence = HIGH, *risks: str) -> RoleReport:
    status = ReportStatus.COMPLETED
    return RoleReport(
        role=role, status=status, verdict=verdict, confidence=confidence, summary=f"{role} says", key_risks=list(risks)
    )


def absent(role: str, status: ReportStatus = ReportStatus.FAILED, reason: str | None = "timeout") -> RoleReport:
    return RoleReport(role=role, status=status, reason=reason)


def reduce_reports(reports: list[RoleReport], required: tuple[str, ...] = ()) -> VerdictResult:
    """The verdict where no role is required, unless a test names some."""
    return reduce_with(reports, required)


def all_of(*stances: Stance) -> list[RoleReport]:
    return [done(role, stance) for role, stance in zip(ROLES, stances, strict=False)]


@pytest.mark.parametrize(
    ("stances", "rating"),
    [
        ((), Rating.INSUFFICIENT),
        ((OK,), Rating.INSUFFICIENT),
        ((CARE,), Rating.INSUFFICIENT),
        ((NO,), Rating.PASS),
        ((OK, OK), Rating.BUY),
        ((OK, CARE), Rating.CAUTION),
        ((CARE, CARE), Rating.CAUTION),
        ((OK, NO), Rating.PASS),
        ((CARE, NO), Rating.PASS),
        ((OK, OK, OK), Rating.BUY),
        ((OK, OK, CARE), Rating.HOLD),
        ((OK, CARE, CARE), Rating.CAUTION),
        ((CARE, CARE, CARE), Rating.CAUTION),
        ((OK, OK, NO), Rating.PASS),
        ((OK, OK, OK, OK), Rating.BUY),
        ((OK, OK, OK, CARE), Rating.HOLD),
        ((OK, OK, CARE, CARE), Rating.CAUTION),
        ((OK, CARE, CARE, CARE), Rating.CAUTION),
        ((CARE, CARE, CARE, NO), Rating.PASS),
    ],
)
def test_rating(stances: tuple[Stance, ...], rating: Rating) -> None:
    for order in set(itertools.permutations(stances)):
        assert reduce_reports(all_of(*order)).rating is rating


@pytest.mark.parametrize("status", ABSENT)
def test_reports_that_are_not_completed_do_not_vote(status: ReportStatus) -> None:
    reports = [done("quick", OK), absent("fundamentals", status), absent("risk", status), absent("catalyst", status)]
    assert reduce_reports(reports).rating is Rating.INSUFFICIENT
    assert reduce_reports([*reports[:3], done("catalyst", OK)]).rating is Rating.BUY
    assert reduce_reports([done("quick", CARE), done("catalyst", OK), *reports[1:3]]).rating is Rating.CAUTION


def test_a_verdict_on_a_report_that_is_not_completed_is_not_counted() -> None:
    no_data = RoleReport(role="risk", status=ReportStatus.NO_DATA, verdict=NO, confidence=HIGH, reason="not available")
    assert reduce_reports([done("quick", OK), done("catalyst", OK), no_data]).rating is Rating.BUY


@pytest.mark.parametrize(
    ("stated", "gone", "expected"),
    [
        ((HIGH, HIGH), False, HIGH),
        ((HIGH, MEDIUM), False, MEDIUM),
        ((MEDIUM, LOW), False, LOW),
        ((HIGH, LOW), False, LOW),
        ((HIGH, HIGH), True, MEDIUM),
        ((HIGH, MEDIUM), True, MEDIUM),
        ((HIGH, LOW), True, LOW),
        ((), True, LOW),
        ((), False, LOW),
    ],
)
def test_confidence(stated: tuple[Confidence, ...], gone: bool, expected: Confidence) -> None:
    reports = [done(role, OK, confidence) for role, confidence in zip(ROLES, stated, strict=False)]
    result = reduce_reports([*reports, absent("catalyst")] if gone else reports)
    assert result.confidence is expected


@pytest.mark.parametrize("status", ABSENT)
def test_missing_names_role_status_and_reason(status: ReportStatus) -> None:
    result = reduce_reports([done("quick", OK), absent("risk", status, "because"), absent("catalyst", status, None)])
    assert result.missing == [f"risk: {status.value} (because)", f"catalyst: {status.value} (no reason given)"]
    assert f"risk: {status.value} (because)" in result.summary
    assert result.completed == ["quick"]


def test_risks_are_kept_once_in_order_and_only_of_completed_reports() -> None:
    gone = RoleReport(role="catalyst", status=ReportStatus.REFUSED, key_risks=["unsaid"], reason="refused")
    reports = [done("quick", OK, HIGH, "b", "a"), done("risk", CARE, HIGH, "a", "c"), gone]
    assert reduce_reports(reports).key_risks == ["b", "a", "c"]


def test_a_report_of_an_earlier_run_counts_like_any_other_and_its_age_is_stated() -> None:
    earlier = done("risk", CARE).model_copy(update={"age_hours": 20.4})
    gone = absent("catalyst", ReportStatus.NO_DATA, "no headlines").model_copy(update={"age_hours": 3.0})
    result = reduce_reports([done("quick", OK), earlier, gone])
    assert (result.rating, result.completed) == (Rating.CAUTION, ["quick", "risk"])
    assert "risk CAUTION (high), 20 h before: risk says" in result.summary
    assert "quick CONFIRMED (high): quick says" in result.summary
    assert result.missing == ["catalyst: no_data (no headlines), 3 h before"]


def test_a_role_reports_once() -> None:
    with pytest.raises(ValueError, match="more than one report of quick"):
        reduce_reports([done("quick", OK), done("quick", NO)])


@pytest.mark.parametrize("gap", ["verdict", "confidence"])
def test_a_completed_report_without_verdict_or_confidence(gap: str) -> None:
    with pytest.raises(ValueError, match="risk has no verdict or no confidence"):
        reduce_reports([done("quick", OK), done("risk", OK).model_copy(update={gap: None})])


reports_strategy = st.lists(
    st.tuples(st.sampled_from(Stance), st.sampled_from(Confidence), st.sampled_from(ReportStatus)), max_size=4
).map(
    lambda rows: [
        done(role, stance, confidence) if status is ReportStatus.COMPLETED else absent(role, status)
        for role, (stance, confidence, status) in zip(ROLES, rows, strict=False)
    ]
)


RISK = ("risk",)


@pytest.mark.parametrize(
    ("reports", "required", "rating"),
    [
        ([done("quick", OK), done("catalyst", OK), done("risk", OK)], RISK, Rating.BUY),
        ([done("quick", OK), done("catalyst", OK), absent("risk", ReportStatus.REFUSED)], RISK, Rating.HOLD),
        ([done("quick", OK), done("catalyst", OK), absent("risk", ReportStatus.FAILED)], RISK, Rating.HOLD),
        ([done("quick", OK), done("catalyst", OK), absent("risk", ReportStatus.NO_DATA)], RISK, Rating.HOLD),
        ([done("quick", OK), done("catalyst", OK), absent("risk", ReportStatus.SKIPPED)], RISK, Rating.HOLD),
        ([done("quick", OK), done("catalyst", OK)], RISK, Rating.HOLD),
        ([done("quick", OK), done("catalyst", OK)], (), Rating.BUY),
        ([done("quick", OK), done("catalyst", OK), absent("risk")], ("quick",), Rating.BUY),
        ([done("quick", OK), done("catalyst", OK), done("risk", OK)], ("risk", "fundamentals"), Rating.HOLD),
        ([done("quick", OK), done("catalyst", CARE), done("fundamentals", OK), absent("risk")], RISK, Rating.HOLD),
        # A CAUTION can be opened, too, where a person allows it.
        ([done("quick", CARE), done("catalyst", OK), absent("risk")], RISK, Rating.HOLD),
        ([done("quick", NO), absent("risk")], RISK, Rating.PASS),
        ([done("quick", OK), absent("risk")], RISK, Rating.INSUFFICIENT),
        ([], RISK, Rating.INSUFFICIENT),
        # A role that may end the research does not consent by its failure.
        ([absent("quick"), *all_of(OK, OK, OK, OK)[1:]], required_roles(Settings()), Rating.HOLD),
        ([absent("quick"), *all_of(OK, OK, OK, OK)[1:]], required_roles(Settings(required_roles="risk")), Rating.BUY),
    ],
)
def test_without_a_required_role_no_verdict_moves_money_but_a_rejection(
    reports: list[RoleReport], required: tuple[str, ...], rating: Rating
) -> None:
    assert reduce_with(reports, required).rating is rating


def sourced(role: str, figures: int | None) -> RoleReport:
    return done(role, OK).model_copy(update={"sourced": figures})


@pytest.mark.parametrize(
    ("reports", "required", "rating", "named"),
    [
        ([sourced("quick", 0), sourced("risk", 2), sourced("catalyst", 0)], RISK, Rating.BUY, None),
        ([sourced("quick", 9), sourced("risk", 1), sourced("catalyst", 9)], RISK, Rating.HOLD, "risk"),
        ([sourced("quick", 0), sourced("risk", 0)], ("quick", "risk"), Rating.HOLD, "quick, risk"),
        # A report of an older version, or of a graph, was not counted.
        ([sourced("quick", 0), sourced("risk", None)], RISK, Rating.BUY, None),
        # Where none is required, one that has them is enough.
        ([sourced("quick", 0), sourced("catalyst", 2)], (), Rating.BUY, None),
        ([sourced("quick", 1), sourced("catalyst", 0)], (), Rating.HOLD, "quick, catalyst"),
    ],
)
def test_a_buy_rests_on_figures_of_the_tools(
    reports: list[RoleReport], required: tuple[str, ...], rating: Rating, named: str | None
) -> None:
    result = reduce_with(reports, required)
    assert result.rating is rating
    line = f"Not BUY: {named} without 2 figures that stand in a tool's answer, on which a BUY rests."
    assert (line in result.summary.splitlines()) is (named is not None)
    if named is not None:
        assert deciding_rule(result.rating, dict.fromkeys(result.completed, OK), result.summary) in line


@pytest.mark.parametrize(
    ("stance", "is_grounded", "counts"),
    [
        (OK, True, OK),
        (OK, False, CARE),
        (CARE, False, CARE),
        (NO, False, NO),
        (None, False, None),
        ("CONFIRMED", False, CARE),
    ],
)
def test_invented_figures_confirm_nothing(stance: str | None, is_grounded: bool, counts: str | None) -> None:
    assert counted(stance, is_grounded=is_grounded) == counts


@pytest.mark.parametrize("status", ABSENT)
def test_a_buy_on_prices_alone_is_of_low_confidence(status: ReportStatus) -> None:
    gone = [absent(role, status) for role in COMPANY]
    result = reduce_with([done("quick", OK), done("risk", OK), *gone], RISK)
    assert (result.rating, result.confidence) == (Rating.BUY, LOW)
    assert "Low confidence: none of fundamentals, catalyst, research had any data." in result.summary
    for one in COMPANY:
        seen = [done(one, OK), *(report for report in gone if report.role != one)]
        result = reduce_with([done("quick", OK), done("risk", OK), *seen], RISK)
        assert (result.rating, result.confidence) == (Rating.BUY, MEDIUM)
        assert "Low confidence" not in result.summary
    unasked = reduce_with([done("quick", OK), done("risk", OK)], RISK)
    assert (unasked.rating, unasked.confidence) == (Rating.BUY, LOW)
    held = reduce_with([done("quick", OK), done("overview", OK), done("risk", CARE), *gone], RISK)
    assert (held.rating, held.confidence) == (Rating.HOLD, MEDIUM)


def an_action(symbol: str, confidence: str) -> dict[str, str]:
    return {"symbol": symbol, "action": "open", "confidence": confidence, "reasoning": "It rises."}


@pytest.mark.parametrize("asked", ["high", "medium", "low"])
@pytest.mark.parametrize("judged", ["high", "medium", "low"])
def test_an_action_is_as_confident_as_its_verdict_at_most(asked: str, judged: str) -> None:
    order = ["low", "medium", "high"]
    (capped,) = cap_confidence([an_action("IBM", asked)], {"IBM": ("BUY", judged), "GE": ("BUY", "low")})
    assert capped["confidence"] == min(asked, judged, key=order.index)
    if order.index(asked) > order.index(judged):
        assert capped["reasoning"] == f"It rises. (The confidence was {asked}; that of the verdict BUY is {judged}.)"
    else:
        assert capped == an_action("IBM", asked)


def test_an_action_on_a_holding_without_a_verdict_stays_as_it_is() -> None:
    assert cap_confidence([an_action("IBM", "high")], {}) == [an_action("IBM", "high")]


@given(reports_strategy)
def test_order_does_not_matter_and_nothing_tradable_rests_on_one_report(reports: list[RoleReport]) -> None:
    result = reduce_reports(reports)
    turned = reduce_reports(reports[::-1])
    assert (turned.rating, turned.confidence) == (result.rating, result.confidence)
    assert len(result.completed) + len(result.missing) == len(reports)
    if result.rating in (Rating.BUY, Rating.HOLD, Rating.CAUTION):
        assert len(result.completed) >= 2
    if result.missing:
        assert result.confidence is not HIGH
    if result.rating is Rating.BUY:
        assert {report.verdict for report in reports if report.status is ReportStatus.COMPLETED} == {OK}


RULES = [
    ((OK, NO, CARE), "any REJECT is a PASS: fundamentals"),
    ((OK,), "1 completed reports; fewer than 2 decide nothing"),
    ((OK, CARE), "1 of 2 reports are CAUTION, at least half: fundamentals"),
    ((OK, OK, CARE), "any CAUTION is a HOLD: risk"),
    ((OK, OK), "all 2 completed reports are CONFIRMED"),
]


@pytest.mark.parametrize(("stances", "rule"), RULES)
def test_the_rule_that_decided_a_verdict_is_named(stances: tuple[Stance, ...], rule: str) -> None:
    verdict = reduce_reports(all_of(*stances))
    assert deciding_rule(verdict.rating, dict(zip(ROLES, stances, strict=False)), verdict.summary) == rule


GRAPH = "tradingagents"


@needs("graphs")
@pytest.mark.parametrize("own", [(), (done("quick", OK),), (done("quick", CARE),), (absent("risk"), done("quick", OK))])
def test_no_order_rests_on_a_graph_alone(own: tuple[RoleReport, ...]) -> None:
    found = reduce_reports([*own, done(GRAPH, OK)])
    assert found.rating is Rating.INSUFFICIENT
    assert "No order rests on tradingagents: 2 reports of other roles are needed." in found.summary
    stances = {one.role: str(one.verdict) for one in (*own, done(GRAPH, OK)) if one.verdict}
    why = f"{len(stances) - 1} completed reports beside tradingagents; fewer than 2 decide nothing"
    assert deciding_rule(found.rating, stances, found.summary) == why


@pytest.mark.parametrize(("stance", "rating"), [(OK, Rating.BUY), (CARE, Rating.HOLD), (NO, Rating.PASS)])
def test_a_graph_takes_part_beside_the_desks_own_roles(stance: Stance, rating: Rating) -> None:
    found = reduce_reports([done("fundamentals", OK), done("risk", OK), done(GRAPH, stance, MEDIUM)])
    assert (found.rating, found.confidence) == (rating, MEDIUM)
    assert found.completed == ["fundamentals", "risk", GRAPH]
