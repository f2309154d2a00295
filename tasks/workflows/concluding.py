"""The conclusion of a candidate: its reports are reduced to a verdict, by code alone. A BUY may go to the skeptic
first."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Sequence
from statistics import median_low
from typing import Any

from sqlmodel import Session, col, select

from chordesk.agents.grounding.report import counted
from chordesk.agents.roles import (
    SKEPTIC,
    after,
    rejecting,
    required_roles,
    validators,
)
from chordesk.agents.subjects import own_request
from chordesk.agents.thesis_pooling import Basis, anonymous, rule_of
from chordesk.agents.verdicts.analysis_view import AccountFacts, plan
from chordesk.agents.verdicts.research_verdict import conclude, with_rogue
from chordesk.models.analysis import PLANNERS, WRITES, AnalysisRequest, RoleReport, VerdictResult
from chordesk.models.answers import (
    Rating,
    ReportStatus,
    Stance,
    is_grounded,
)
from chordesk.models.settings import Settings
from chordesk.models.states import StepKind
from chordesk.models.tables.columns import new_id
from chordesk.models.tables.runs import Analysis, Report, Run, Step, Verdict, VerdictReport
from chordesk.models.thesis import kept_thesis
from chordesk.tasks.bootstrap import Desk
from chordesk.tasks.engine import budgets
from chordesk.tasks.engine.leases import HeldStep
from chordesk.tasks.engine.steps import ClaimedStep, NewStep
from chordesk.tasks.engine.summary import GOES_ON
from chordesk.tasks.worker.endings import Done, Ending
from chordesk.tools import rogue_calls
from chordesk.tools.market.clock import day_of
from chordesk.tools.market.earnings import next_earnings
from chordesk.tools.market.protocol import MarketData
from chordesk.tools.portfolio.holdings import free_shares, written_contracts
from chordesk.tools.questions.asking import verdict_question
from chordesk.tools.questions.theses import crossing
from chordesk.tools.rates import cost_to_trade
from chordesk.tools.scoring.market_regime import HORIZONS, base_rates


def reduce_to_verdict(desk: Desk, step: ClaimedStep, held: HeldStep) -> Ending:
    with desk.store.read() as session:
        required = session.get_one(Run, step.run_id).params.get("required_roles", required_roles(desk.settings))
        own = select(Report).where(Report.run_id == step.run_id, Report.symbol == step.subject)
        found: Sequence[Report] = session.exec(own).all()
        joins = [step.id, *filter(None, [step.payload.get("before")])]
        steps: Sequence[Step] = session.exec(select(Step).where(col(Step.parent_id).in_(joins))).all()
        stored = step.payload.get("stored")
        lent = session.exec(select(Report).where(col(Report.id).in_(stored))).all() if stored else []
        from chordesk.tasks.workflows.reusing import reports_of, same_question

        reused = reports_of(session, steps)
    # Reports that were begun beside a role which then rejected are not used, as if they had waited for it.
    unused = _unused([*found, *reused])
    found = [row for row in found if row.role not in unused]
    earlier = [*lent, *(row for row in reused if row.role not in unused)]
    steps = [row for row in steps if row.role not in unused]
    market = desk.market_of(step.run_id)
    now = market.clock.now()
    known = validators()  # a stored report may be of a role that no longer exists: these come last
    reports = sorted((*found, *earlier), key=lambda row: known.index(row.role) if row.role in known else len(known))
    given = [earlier_report(row, market) if row in earlier else role_report(row) for row in reports]
    rule = rule_of(desk.settings_of(step.run_id).conclude)
    every = given + lost_reports(steps, {row.role for row in reports})
    basis = basis_of(desk, step.run_id, str(step.subject), given)
    reduced = conclude(every, required, rule, desk.role_weights(step.run_id), basis)
    with desk.store.read() as session:
        rogue = rogue_calls.of_candidate(session, step.payload["candidate_id"], [row.id for row in reports])
        argued = _argued(session, desk.settings_of(step.run_id), step, reduced)
    if argued:
        theses = anonymous(row.thesis for row in reports if row.thesis is not None)
        return Done({"rating": reduced.rating, "asks": SKEPTIC}, children=_skeptic_steps(step, reduced, theses))
    reduced = with_rogue(reduced, rogue_calls.note(rogue))
    verdict = verdict_row(step, reduced, now)
    plans = [] if (made := _plan(desk, step, verdict, reports, given)) is None else [made]
    links = [VerdictReport(verdict_id=verdict.id, report_id=row.id) for row in reports]
    if found or not reused:
        question = verdict_question(market, desk.settings_of(step.run_id), verdict)
    else:
        question = same_question(verdict.id, verdict.symbol, reused)
    return Done({"rating": reduced.rating}, ([verdict], links, plans), also=question)


def basis_of(desk: Desk, run_id: str, symbol: str, reports: Iterable[RoleReport]) -> Basis:
    """Return what code knows of a share: the base rate at the horizon nearest to what its theses state, and what it
    costs to buy and to sell it at its last close."""
    context = desk.tool_context(run_id)
    horizons = [one.thesis.horizon for one in reports if one.thesis is not None and one.thesis.horizon is not None]
    horizon = median_low(horizons) if horizons else HORIZONS[0]
    rates = base_rates(context, [symbol]).get(symbol, ())
    rate = min(rates, key=lambda one: abs(one.horizon - horizon), default=None)
    closes = [one.thesis.close for one in reports if one.thesis is not None and one.thesis.close is not None]
    cost = cost_to_trade(context.market, symbol, closes[0] if closes else None, context.settings)
    return Basis(cost=cost) if rate is None else Basis(rate.beat.share, rate.move, cost)


def verdict_row(step: ClaimedStep, reduced: VerdictResult, now: dt.datetime) -> Verdict:
    ids = {"run_id": step.run_id, "candidate_id": step.payload["candidate_id"], "symbol": step.subject}
    return Verdict(id=new_id(), market_at=now, **ids, **reduced.model_dump())


def _plan(
    desk: Desk, step: ClaimedStep, verdict: Verdict, reports: Sequence[Report], given: Sequence[RoleReport]
) -> Analysis | None:
    """Return the plan of a contract where the options analyst was asked for one; a plan of shares is the trader's."""
    roles = {report.role for report in reports}
    asked = own_request(desk.settings_of(step.run_id))
    if roles.isdisjoint(PLANNERS) or asked.strategy not in WRITES:
        return None
    asked = asked.model_copy(update={"chart": "chart" in roles, "research": "research" in roles})
    return plan_row(desk, step, verdict, asked, reports, given)


def _argued(session: Session, settings: Settings, step: ClaimedStep, reduced: VerdictResult) -> bool:
    """Return whether a conclusion goes to the skeptic first: a BUY by theses, while less than half a budget is used."""
    asked = step.payload.get(SKEPTIC) is not None and reduced.pooled is not None and reduced.rating is Rating.BUY
    return asked and budgets.has_spare(session, settings, step.run_id)


def _skeptic_steps(step: ClaimedStep, reduced: VerdictResult, theses: list[dict[str, Any]]) -> list[NewStep]:
    """Return the skeptic's report, and the conclusion that waits for it."""
    payload = dict(step.payload)
    candidate = payload.pop(SKEPTIC)
    payload["before"] = step.id
    # A run has one step of each kind, subject and role.
    join = NewStep(StepKind.CONCLUDE, str(step.parent_id), step.subject, SKEPTIC, payload, waits=True)
    assert reduced.pooled is not None, "a BUY by theses is pooled"
    argued = {"theses": theses, "pooled": reduced.pooled.model_dump(mode="json")}
    report = NewStep(StepKind.REPORT, join.id, step.subject, SKEPTIC, {**candidate, "roles": {}, "argued": argued})
    return [join, report]


def _unused(reports: Sequence[Report]) -> set[str]:
    ended = (row.role for row in reports if row.role in rejecting() and row.verdict == Stance.REJECT)
    return set().union(*(after(validators(), role) for role in ended))


def earlier_report(row: Report, market: MarketData) -> RoleReport:
    """Return a report of an earlier run as the verdict's input, with what has come of its thesis since."""
    thesis, age = kept_thesis(row.thesis), market.clock.now() - row.market_at
    first, last = day_of(row.market_at, row.symbol), market.clock.session()
    crossed = None if thesis is None else crossing(market, row.symbol, thesis, first, last)
    known = {"age_hours": age.total_seconds() / 3600, "crossed_on": None if isinstance(crossed, str) else crossed}
    return role_report(row).model_copy(update=known)


def role_report(row: Report) -> RoleReport:
    """Return a row as the verdict's input."""
    counts = row.grounding or {}
    stands = is_grounded(counts.get("figures", 0), counts.get("supported", 0))
    report = RoleReport.model_validate(row, from_attributes=True)
    known = {"is_grounded": stands, "sourced": counts.get("sourced")}
    # A report of an older version was not counted yet.
    return report.model_copy(update={**known, "verdict": counted(report.verdict, is_grounded=stands)})


def lost_reports(steps: Sequence[Step], reported: set[str]) -> list[RoleReport]:
    return [
        RoleReport(role=step.role, status=ReportStatus.FAILED, reason=step.error or "no report was left")
        for step in steps
        if step.role not in reported and not step.result.get(GOES_ON)
    ]


def plan_row(
    desk: Desk,
    step: ClaimedStep,
    verdict: Verdict,
    request: AnalysisRequest,
    reports: Sequence[Report],
    given: Sequence[RoleReport],
) -> Analysis:
    """Return the planned that the reports on a symbol allow. given: the reports, with those that were lost."""
    earnings = next_earnings(desk.market_of(step.run_id), step.subject)
    with desk.store.read() as session:
        account = _facts(desk, session, session.get_one(Run, step.run_id), step.subject, request, earnings)
    answers = {row.role: row.answer for row in reports if row.answer is not None}
    return Analysis(
        id=new_id(),
        run_id=step.run_id,
        candidate_id=verdict.candidate_id,
        symbol=step.subject,
        verdict_id=verdict.id,
        strategy=request.strategy,
        rating=verdict.rating,
        confidence=verdict.confidence,
        key_risks=verdict.key_risks,
        **plan(request, given, answers, account).model_dump(mode="json"),
    )


def _facts(
    desk: Desk, session: Session, run: Run, symbol: str, request: AnalysisRequest, earnings: dt.date | None
) -> AccountFacts:
    return AccountFacts(
        free_shares=free_shares(session, run.account, symbol) if request.strategy == "covered_call" else None,
        written=written_contracts(session, run.account, symbol),
        collar=desk.settings_of(run.id).max_price_collar if request.proposes else None,
        earnings=earnings,
    )
