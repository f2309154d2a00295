"""The plan of an instrument on a share, as a run keeps it beside its verdict."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence

from sqlmodel import Session

from chordesk.agents.synthesis import AccountFacts, plan
from chordesk.models.analysis import AnalysisRequest, RoleReport
from chordesk.models.tables.columns import new_id
from chordesk.models.tables.runs import Analysis, Report, Run, Verdict
from chordesk.tasks.bootstrap import Desk
from chordesk.tasks.engine.steps import ClaimedStep
from chordesk.tools.holdings import free_shares, written_contracts
from chordesk.tools.market.earnings import next_earnings


def plan_row(
    desk: Desk,
    step: ClaimedStep,
    verdict: Verdict,
    request: AnalysisRequest,
    reports: Sequence[Report],
    given: Sequence[RoleReport],
) -> Analysis:
    """Return the plan that the reports on a symbol allow. given: the reports, with those that were lost."""
    earnings = next_earnings(desk.market_of(step.run_id), step.subject)
    with desk.store.read() as session:
        account = _account(desk, session, session.get_one(Run, step.run_id), step.subject, request, earnings)
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


def _account(
    desk: Desk, session: Session, run: Run, symbol: str, request: AnalysisRequest, earnings: dt.date | None
) -> AccountFacts:
    return AccountFacts(
        free_shares=free_shares(session, run.account, symbol) if request.strategy == "covered_call" else None,
        written=written_contracts(session, run.account, symbol),
        collar=desk.settings_of(run.id).max_price_collar if request.proposes else None,
        earnings=earnings,
    )
