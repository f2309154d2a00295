"""The orders of an analysis: code turns each contract that was selected into an action, and these into a decision.

A contract is sold to open at its bid, as a limit for the day: at the best price that a buyer offers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlmodel import Session, col, select

from chordesk.models.analysis import break_even_texts
from chordesk.models.contracts import MODELLED
from chordesk.models.research import ActionKind, Confidence, TraderAction
from chordesk.models.states import StepKind
from chordesk.models.tables.analysis import Analysis
from chordesk.models.tables.columns import new_id
from chordesk.models.tables.runs import Candidate, Decision, Run
from chordesk.tasks.bootstrap import Desk
from chordesk.tasks.engine.leases import HeldStep
from chordesk.tasks.engine.steps import ClaimedStep, NewStep
from chordesk.tasks.worker.work import Done, Ending

AUTHOR = "code: analyze"


def propose_orders(desk: Desk, step: ClaimedStep, held: HeldStep) -> Ending:
    """Write the decision of a run, with an action for each selected contract; none without any."""
    with desk.store.read() as session:
        run = session.get_one(Run, step.run_id)
        selected = _selected(session, run.id)
    if not selected:
        return Done({"status": "completed", "actions": 0})
    decision = Decision(
        id=new_id(),
        run_id=run.id,
        step_id=step.id,
        account=run.account,
        status="completed",
        actions=[action_of(one, run.params["contracts"]).model_dump(mode="json") for one in selected],
        reasoning=f"{_counted(selected)} selected; code sells each contract to open, at its bid.",
        author=AUTHOR,
    )
    child = NewStep(StepKind.SUBMIT, str(step.parent_id), payload={"decision_id": decision.id})
    return Done({"status": "completed", "actions": len(selected)}, ([decision],), [child])


def _selected(session: Session, run_id: str) -> list[Analysis]:
    chosen = (Analysis.run_id == run_id, Analysis.recommendation == "select", col(Analysis.contract).is_not(None))
    joined = select(Analysis).join(Candidate, col(Candidate.id) == col(Analysis.candidate_id))
    return list(session.exec(joined.where(*chosen).order_by(col(Candidate.rank))).all())


def _counted(selected: Sequence[Analysis]) -> str:
    return "1 analysis" if len(selected) == 1 else f"{len(selected)} analyses"


def action_of(analysis: Analysis, contracts: int) -> TraderAction:
    """Return the action that sells a selected contract; its reasoning has the figures it rests on, and their source."""
    figures = analysis.figures["contract"]
    return TraderAction(
        symbol=analysis.symbol,
        action=ActionKind.OPEN,
        side="sell",
        quantity=float(contracts),
        notional=None,
        order_type="limit",
        limit_price=figures["bid"],
        time_in_force="day",
        contract=analysis.contract,
        confidence=Confidence(analysis.confidence),
        reasoning=_reasoning(analysis, figures),
    )


def _reasoning(analysis: Analysis, figures: dict[str, Any]) -> str:
    source = "modelled, which no market gave" if figures["source"] == MODELLED else figures["source"]
    known = [
        text.format(figures[name])
        for name, text in (
            ("best_strike", "strike {:g}"),
            ("dte", "{} days"),
            ("delta", "delta {:.2f}"),
            ("weekly_roc", "{:.2%} a week"),
            *break_even_texts(figures["contract"]),
        )
        if figures[name] is not None
    ]
    quotes = f"at the middle of bid {figures['bid']:.2f} and ask {figures['ask']:.2f}, quotes {source}"
    warned = [one["text"] for one in analysis.checks if one["state"] == "warn" and one["id"] != "source"]
    risks = f" Stated risks: {'; '.join(warned)}." if warned else ""
    return f"{analysis.strategy} of analysis {analysis.id}: {', '.join(known)}, {quotes}.{risks}"
