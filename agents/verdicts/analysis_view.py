"""The view of a share and the plan of an instrument on it, reduced from the analysts' reports.

Pure: the same reports give the same view and the same plan. The view does not know the instrument.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from chordesk.agents.thesis_pooling import STANCES, Basis, Rule
from chordesk.agents.verdicts.research_verdict import ALONE, conclude
from chordesk.models.analysis import (
    WRITES,
    AnalysisCheck,
    AnalysisRequest,
    CheckState,
    Recommendation,
    RoleReport,
    VerdictResult,
)
from chordesk.models.answers import Frozen, Rating, ReportStatus, Stance
from chordesk.models.market import MODELLED, SHARES_PER_CONTRACT

Answer = Mapping[str, Any]

# Checks that a selection needs: one of them that fails rejects, one that is unknown leaves it incomplete.
NEEDED = frozenset({"contract", "quote", "limits", "shares", "earnings"})
LEAVE = "--across-earnings gives leave"
_EXTENDED: Mapping[str, CheckState] = {"high": "warn", "moderate": "ok", "low": "ok"}
_LIQUID: Mapping[str, CheckState] = {"good": "ok", "fair": "ok", "poor": "warn"}
_LIMITS = {"max_delta", "min_weekly_roc", "min_days", "max_days"}
_SLACK = 1e-9  # limits and figures are decimals


class AccountFacts(Frozen):
    """What the checks need of the account, its limits and the market."""

    # shares of the symbol that cover no written call yet, None where it does not matter
    free_shares: float | None = None
    written: float = 0.0  # contracts on it that are written already
    # largest distance of an order's price from the middle of the quotes, as a fraction, None where no order is proposed
    collar: float | None = None
    earnings: dt.date | None = None  # the company's next day of them, None where no source has it


UNKNOWN_ACCOUNT = AccountFacts()


def checks_of(request: AnalysisRequest, answers: Mapping[str, Answer], account: AccountFacts) -> list[AnalysisCheck]:
    return list(_checks(request, answers, account))


def _checks(request: AnalysisRequest, answers: Mapping[str, Answer], account: AccountFacts) -> Iterator[AnalysisCheck]:
    chart, options = answers.get("chart"), answers.get("options")
    if request.strategy == "covered_call":
        yield _shares(request, account.free_shares)
    if chart is not None:
        yield _extension(chart)
    yield from (_check(role, "warn", text, {}) for role, text in left_out(request))
    if options is None or options.get("recommendation") != "select":
        return
    yield _contract(request, options)
    yield _quote(options, account.collar)
    yield _limits(request, options)
    if account.written:
        text = f"{account.written:g} contract{'s' if account.written != 1 else ''} on it are written already"
        yield _check("written", "warn", text, {"written": account.written})
    if chart is not None:
        yield _strike(request, chart, options)
    yield _liquidity(options)
    yield _source(options)
    yield _earnings(request, options, account.earnings)


def _shares(request: AnalysisRequest, free: float | None) -> AnalysisCheck:
    needed = request.contracts * SHARES_PER_CONTRACT
    figures = {"free": free, "needed": needed}
    if free is None:
        return _check("shares", "unknown", "how many shares are held is not known", figures)
    state: CheckState = "ok" if free >= needed else "fail"
    return _check("shares", state, f"{free:g} shares are free to cover calls, {needed:g} are needed", figures)


def _extension(chart: Answer) -> AnalysisCheck:
    measured = chart.get("extension")
    if not measured:
        return _check("extension", "unknown", "the distance from the nearest support is not known", {})
    atr, risk = measured["atr"], measured["risk"]
    far = f"{atr:.2f} average true ranges" if atr is not None else "a distance that is not known"
    return _check("extension", _EXTENDED[risk], f"the close is {far} above its nearest support: {risk} risk", measured)


def _contract(request: AnalysisRequest, options: Answer) -> AnalysisCheck:
    named = options.get("contract")
    if named is None:
        return _check("contract", "unknown", "the options report names no contract", {})
    kind = WRITES.get(request.strategy)
    if kind is not None and options.get("strategy") not in (None, request.strategy):
        text = f"{named} was chosen for {options['strategy']}, and this is {request.strategy}"
        return _check("contract", "fail", text, {"contract": named})
    return _check("contract", "ok", f"{named} occurs in an option answer of its turn", {"contract": named})


def _quote(options: Answer, collar: float | None) -> AnalysisCheck:
    bid, ask = options.get("bid"), options.get("ask")
    figures = {"bid": bid, "ask": ask, "collar": collar}
    if not bid or ask is None:
        return _check("quote", "unknown", "the contract has no bid and ask to sell at", figures)
    away = 1 - bid / ((bid + ask) / 2)
    if collar is not None and away > collar + _SLACK:
        text = (
            f"bid {bid:.2f}, ask {ask:.2f} a share: the bid is {away:.1%} below their middle, and an order may be at "
        )
        return _check("quote", "fail", f"{text}most {collar:.1%} away (DESK_MAX_PRICE_COLLAR)", figures)
    return _check("quote", "ok", f"bid {bid:.2f}, ask {ask:.2f} a share", figures)


def _limits(request: AnalysisRequest, options: Answer) -> AnalysisCheck:
    delta, weekly, days = options.get("delta"), options.get("weekly_roc"), options.get("dte")
    figures = {"delta": delta, "weeklyRoc": weekly, "dte": days, **request.model_dump(include=_LIMITS)}
    if delta is None or weekly is None or days is None:
        lacking = [name for name in ("delta", "weeklyRoc", "dte") if figures[name] is None]
        return _check("limits", "unknown", f"not known of the contract: {', '.join(lacking)}", figures)
    window = f"{request.min_days} to {request.max_days}"
    outside = {
        f"|delta| {abs(delta):.2f} is above {request.max_delta:g}": abs(delta) > request.max_delta + _SLACK,
        f"{weekly:.2%} a week is below {request.min_weekly_roc:.2%}": weekly < request.min_weekly_roc - _SLACK,
        f"{days} days are not {window}": not request.min_days <= days <= request.max_days,
    }
    broken = [text for text, wrong in outside.items() if wrong]
    if broken:
        return _check("limits", "fail", "outside the limits: " + ", ".join(broken), figures)
    text = f"|delta| {abs(delta):.2f}, {weekly:.2%} a week and {days} days are within the limits"
    bid, mid = options.get("bid"), options.get("premium")
    at_bid = weekly * bid / mid if bid and mid else None
    if at_bid is not None and at_bid < request.min_weekly_roc - _SLACK:
        text = f"{text}; at the bid, which an order is sold at, it is {at_bid:.2%} a week"
        return _check("limits", "warn", text, {**figures, "weeklyRocAtBid": round(at_bid, 6)})
    return _check("limits", "ok", text, figures)


def _strike(request: AnalysisRequest, chart: Answer, options: Answer) -> AnalysisCheck:
    """Check that a level of the chart lies between the price and the strike, so that it has to break first."""
    noun = "support" if request.strategy == "csp" else "resistance"
    strike, levels = options.get("best_strike"), chart.get(f"{noun}_levels") or []
    figures = {"strike": strike, noun: [{"id": one["id"], "price": one["price"]} for one in levels]}
    if strike is None or not levels:
        why = f"the chart report names no {noun}" if strike is not None else "the strike is not known"
        return _check("strike", "unknown", f"the strike has nothing to stand against: {why}", figures)
    shown = f"the strike {strike:g}"
    if request.strategy == "csp":
        between = [one for one in levels if one["price"] >= strike]
        lacking = f"{shown} is above every support of the chart, the highest at {_highest(levels):.2f}"
    else:
        between = [one for one in levels if one["price"] <= strike]
        lacking = f"{shown} is below every resistance of the chart, the lowest at {_lowest(levels):.2f}"
    if not between:
        return _check("strike", "warn", lacking, figures)
    nearest = min(between, key=lambda one: abs(one["price"] - strike))
    side = "below" if request.strategy == "csp" else "above"
    at = "at" if nearest["price"] == strike else side
    text = f"{shown} is {at} {noun} {nearest['id']} of {nearest['price']:.2f}{_touches(nearest)}"
    return _check("strike", "ok", text, figures)


def _highest(levels: Sequence[Answer]) -> float:
    return max(float(one["price"]) for one in levels)


def _lowest(levels: Sequence[Answer]) -> float:
    return min(float(one["price"]) for one in levels)


def _touches(level: Answer) -> str:
    count = level.get("touches")
    return f" ({count} touch{'es' if count != 1 else ''})" if count is not None else ""


def _liquidity(options: Answer) -> AnalysisCheck:
    score = str(options.get("liquidity_score"))
    if score not in _LIQUID:
        return _check("liquidity", "unknown", "the contract's liquidity is not known", {"liquidity": None})
    return _check("liquidity", _LIQUID[score], f"the contract's liquidity is {score}", {"liquidity": score})


def _source(options: Answer) -> AnalysisCheck:
    source = options.get("source")
    if source is None:
        return _check("source", "unknown", "the source of the quotes is not known", {"source": None})
    if source == MODELLED:
        text = "the quotes are modelled from past prices: no market gave them, and they trade on paper alone"
        return _check("source", "warn", text, {"source": source})
    return _check("source", "ok", f"the quotes are from {source}", {"source": source})


def _earnings(request: AnalysisRequest, options: Answer, day: dt.date | None) -> AnalysisCheck:
    """Check whether the contract's life spans a day of earnings. A put needs a person's leave for that, and where no
    day is known; a call on shares that are held adds nothing to what they can lose."""
    ends = options.get("best_expiration")
    figures = {"earnings": day.isoformat() if day is not None else None, "expiry": ends}
    leave = request.strategy != "csp" or request.across_earnings
    given = "; leave was given" if request.strategy == "csp" else ""
    if day is None or ends is None:
        text = "no source has the date of the next earnings"
        return _check("earnings", *(("warn", text + given) if leave else ("unknown", f"{text}: {LEAVE}")), figures)
    if day > dt.date.fromisoformat(ends):
        return _check("earnings", "ok", f"the next earnings, {day}, are after the expiry on {ends}", figures)
    text = f"earnings are due on {day}, before the expiry on {ends}"
    return _check("earnings", *(("warn", text + given) if leave else ("fail", f"{text}: {LEAVE}")), figures)


def left_out(request: AnalysisRequest) -> list[tuple[str, str]]:
    """Return the analysts that a request leaves out, each with what was not looked at: without them a share is rated
    CAUTION at most."""
    asked = (
        ("chart", request.chart, "trend and levels were not looked at"),
        ("research", request.research, "news and earnings were not looked at"),
    )
    return [(role, text) for role, wanted, text in asked if not wanted]


def _check(id: str, state: CheckState, text: str, figures: Mapping[str, Any]) -> AnalysisCheck:
    return AnalysisCheck(id=id, state=state, text=text, figures=dict(figures))


QUOTED_CHARS = 200  # of a report's own text in a reason
# Fields of the reports that are kept with a synthesis.
_CHART = (
    "recommendation", "interval", "first", "last", "close", "atr14", "adx14", "trend", "extension", "support_levels",
    "resistance_levels", "confluence",
)  # fmt: skip
_CONTRACT = (
    "contract", "best_strike", "best_expiration", "dte", "bid", "ask", "premium", "roc", "weekly_roc", "annualized_roc",
    "delta", "gamma", "theta", "vega", "iv", "iv_hv_ratio", "put_skew", "term_slope", "iv_rank", "break_even", "pop",
    "liquidity_score", "source", "greeks", "premium_quality",
)  # fmt: skip
_RESEARCH = ("news_risk", "earnings_risk", "short_interest_risk", "earnings_date")


def view(
    request: AnalysisRequest,
    reports: Sequence[RoleReport],
    rule: Rule = STANCES,
    weights: Mapping[str, float] | None = None,
    basis: Basis | None = None,
) -> VerdictResult:
    """Return the verdict on a share: that of the reports of its judges. It is INSUFFICIENT where one of them has no
    completed report, or one whose figures have no source, and CAUTION at most where one was left out."""
    judging = [report for report in reports if report.role in request.judges]
    verdict = conclude(judging, request.judges, rule, weights, basis)
    lacking = [*verdict.missing, *_ungrounded(judging), *_not_run(request.judges, judging)]
    if verdict.rating is Rating.PASS:
        return verdict
    if lacking:
        return _rated(verdict, Rating.INSUFFICIENT, "; ".join(lacking))
    if verdict.rating in (Rating.BUY, Rating.HOLD) and (unseen := left_out(request)):
        return _rated(verdict, Rating.CAUTION, unseen[0][1])
    return verdict


class Plan(Frozen):
    """What code concludes of an instrument on a share. reasons: why it is not `select`."""

    recommendation: Recommendation
    contract: str | None
    figures: dict[str, Any]
    checks: list[AnalysisCheck]
    reasons: list[str]


def plan(
    request: AnalysisRequest,
    reports: Sequence[RoleReport],
    answers: Mapping[str, Answer],
    account: AccountFacts = UNKNOWN_ACCOUNT,
) -> Plan:
    """Return the plan on one symbol.

    reject: a completed report rejects, or a check that a selection needs fails. incomplete: otherwise, an analyst of
    the strategy has no completed report or one whose figures have no source, or such a check cannot be made. select:
    else.

    answers: of reports, by role, with the figures that code filled in; those of a report that is not completed count
    for nothing.
    """
    asked = [report for report in reports if report.role in request.roles]
    completed = {report.role for report in asked if report.status is ReportStatus.COMPLETED}
    used = {role: answer for role, answer in answers.items() if role in completed}
    checks = checks_of(request, used, account)
    against = [*_rejections(reports), *(one.text for one in checks if one.id in NEEDED and one.state == "fail")]
    absent = [f"{one.role}: {one.status} ({one.reason})" for one in asked if one.role not in completed]
    lacking = [*absent, *_ungrounded(asked), *_not_run(request.roles, asked), *_unknown(checks, request, completed)]
    return Plan(
        recommendation="reject" if against else "incomplete" if lacking else "select",
        contract=used.get("options", {}).get("contract"),
        figures=_figures(used),
        checks=checks,
        reasons=against or lacking,
    )


def _rejections(reports: Sequence[RoleReport]) -> list[str]:
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


def _rated(verdict: VerdictResult, rating: Rating, why: str) -> VerdictResult:
    """Return the verdict with another rating; its summary names the reason."""
    first, *rest = verdict.summary.splitlines()
    changed = first.replace(verdict.rating.value, rating.value, 1)
    summary = "\n".join((changed, f"{ALONE} {verdict.rating.value}. {why[:1].upper()}{why[1:]}.", *rest))
    return verdict.model_copy(update={"rating": rating, "summary": summary})
