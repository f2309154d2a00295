"""The synthesis of a symbol, reduced from the analysts' reports. Pure: the same reports give the same synthesis."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from chordesk.agents.synthesis.checks import CAUTIONS, NEEDED, UNKNOWN_ACCOUNT, AccountFacts, Answer, checks_of
from chordesk.agents.verdict import reduce_reports
from chordesk.models.analysis import AnalysisCheck, AnalysisRequest, Recommendation
from chordesk.models.research import Frozen, Rating, ReportStatus, RoleReport, Stance, VerdictResult

QUOTED_CHARS = 200  # of a report's own text in a reason
# Fields of the reports that are kept with a synthesis.
_CHART = (
    "recommendation", "interval", "first", "last", "close", "atr14", "adx14", "trend", "extension", "support_levels",
    "resistance_levels", "confluence",
)  # fmt: skip
_CONTRACT = (
    "contract", "best_strike", "best_expiration", "dte", "bid", "ask", "premium", "roc", "weekly_roc", "annualized_roc",
    "delta", "gamma", "theta", "vega", "iv", "iv_hv_ratio", "break_even", "pop", "liquidity_score", "source", "greeks",
    "premium_quality",
)  # fmt: skip
_RESEARCH = ("news_risk", "earnings_risk", "short_interest_risk", "earnings_date", "earnings_before_expiry")


class Synthesis(Frozen):
    """What code concludes of the reports on one symbol. reasons: why it is not `select`; verdict: of the desk, which a
    rejection by code makes PASS, a synthesis that is incomplete INSUFFICIENT, and a check of CAUTIONS at most
    CAUTION."""

    recommendation: Recommendation
    contract: str | None
    figures: dict[str, Any]
    checks: list[AnalysisCheck]
    reasons: list[str]
    verdict: VerdictResult


def synthesise(
    request: AnalysisRequest,
    reports: Sequence[RoleReport],
    answers: Mapping[str, Answer],
    account: AccountFacts = UNKNOWN_ACCOUNT,
) -> Synthesis:
    """Return the synthesis of the reports on one symbol.

    reject: a completed report rejects, or a check that a selection needs fails. incomplete: otherwise, an analyst of
    the strategy has no completed report or one whose figures have no source, or such a check cannot be made. select:
    else.

    answers: of reports, by role, with the figures that code filled in; those of a report that is not completed count
    for nothing.
    """
    completed = {report.role for report in reports if report.status is ReportStatus.COMPLETED}
    used = {role: answer for role, answer in answers.items() if role in completed}
    roles = request.roles
    verdict, checks = reduce_reports(reports, roles), checks_of(request, used, account)
    against = [*_rejections(reports), *(one.text for one in checks if one.id in NEEDED and one.state == "fail")]
    unfounded = [*verdict.missing, *_ungrounded(reports)]
    lacking = [*unfounded, *_not_run(roles, reports), *_unknown(checks, request, completed)]
    recommendation: Recommendation = "reject" if against else "incomplete" if lacking else "select"
    reasons = against or lacking
    return Synthesis(
        recommendation=recommendation,
        contract=used.get("options", {}).get("contract"),
        figures=_figures(used),
        checks=checks,
        reasons=reasons,
        verdict=_rated(verdict, recommendation, reasons, checks),
    )


def _rejections(reports: Sequence[RoleReport]) -> list[str]:
    """Return a reason for each report that rejects, in the report's own text."""
    return [
        f"{report.role} rejected it: “{_cut(report.summary)}”"
        for report in reports
        if report.status is ReportStatus.COMPLETED and report.verdict is Stance.REJECT
    ]


def _ungrounded(reports: Sequence[RoleReport]) -> list[str]:
    return [
        f"{report.role}: {report.reason}"
        for report in reports
        if report.status is ReportStatus.COMPLETED and not report.is_grounded
    ]


def _cut(text: str) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= QUOTED_CHARS else f"{flat[: QUOTED_CHARS - 1].rstrip()}…"


def _not_run(roles: Sequence[str], reports: Sequence[RoleReport]) -> list[str]:
    reported = {report.role for report in reports}
    return [f"{role}: did not run" for role in roles if role not in reported]


def _unknown(checks: Sequence[AnalysisCheck], request: AnalysisRequest, completed: set[str]) -> list[str]:
    """Return what keeps a contract from being selected; nothing before its report is completed."""
    if "options" not in request.roles or "options" not in completed:
        return []
    return [one.text for one in checks if one.id in NEEDED and one.state == "unknown"]


def _figures(answers: Mapping[str, Answer]) -> dict[str, Any]:
    named = {"chart": ("chart", _CHART), "options": ("contract", _CONTRACT), "research": ("research", _RESEARCH)}
    return {
        name: {field: answers[role].get(field) for field in fields}
        for role, (name, fields) in named.items()
        if role in answers
    }


def _rated(
    verdict: VerdictResult, recommendation: Recommendation, reasons: Sequence[str], checks: Sequence[AnalysisCheck]
) -> VerdictResult:
    """Return the verdict with the rating that the synthesis allows; its summary names the reason of a change."""
    rating, why = verdict.rating, "; ".join(reasons)
    if recommendation == "reject":
        rating = Rating.PASS
    elif recommendation == "incomplete":
        rating = Rating.INSUFFICIENT
    elif rating in (Rating.BUY, Rating.HOLD) and (risk := _warned(checks, CAUTIONS)):
        rating, why = Rating.CAUTION, risk
    if rating is verdict.rating:
        return verdict
    first, *rest = verdict.summary.splitlines()
    changed = first.replace(verdict.rating.value, rating.value, 1)
    summary = "\n".join((changed, f"By the reports alone {verdict.rating.value}. {why[:1].upper()}{why[1:]}.", *rest))
    return verdict.model_copy(update={"rating": rating, "summary": summary})


def _warned(checks: Sequence[AnalysisCheck], ids: frozenset[str]) -> str | None:
    return next((one.text for one in checks if one.id in ids and one.state in ("warn", "unknown")), None)
