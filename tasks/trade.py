"""The trader's turn on all verdicts of a run, then orders by code alone, then the end of the run."""

from __future__ import annotations

import structlog
from celery import Task, shared_task
from sqlmodel import Session, col, select

from agents.trader import JudgedSymbol, trader_subject
from models.errors import FencedOff, Postponed
from models.research import Refused, Skipped
from models.states import StepKind, StepState
from models.tables import Candidate, Decision, Run, Step, Verdict
from tasks import budgets
from tasks.bootstrap import Desk, desk_of
from tasks.graph import Claimed, NewStep
from tasks.labels import require_market
from tasks.leases import Held
from tasks.memory import trader_memory
from tasks.summary import run_state, summarise
from tasks.trading import stand_aside
from tasks.turns import last_turn, retry_of, run_role, status_of, value_of
from tasks.work import Closing, Done, Ending, work
from tools.orders import process_decision
from tools.orders.notes import last_notes
from tools.portfolio import PortfolioArguments, portfolio_get
from tools.risk import underlying_of

log = structlog.get_logger(__name__)


@shared_task(bind=True, name="desk.decide")  # type: ignore[untyped-decorator]
def decide(self: Task, step_id: str) -> str:
    """The trader's turn."""
    return work(self.app, step_id, deliberate)


@shared_task(bind=True, name="desk.submit")  # type: ignore[untyped-decorator]
def submit(self: Task, step_id: str) -> str:
    """Checks, previews and, when live trading is on, submissions. No model."""
    done = work(self.app, step_id, place)
    stand_aside(desk_of(self.app))
    return done


@shared_task(bind=True, name="desk.finish")  # type: ignore[untyped-decorator]
def finish(self: Task, step_id: str) -> str:
    """Close the run."""
    return work(self.app, step_id, close)


def deliberate(desk: Desk, step: Claimed, held: Held) -> Ending:
    with desk.store.read() as session:
        run = session.get_one(Run, step.run_id)
        verdicts = _verdicts(session, run)
        cut = budgets.cut_short(session, run.params.get("source_run", run.id))
    allowed = desk.settings.trade_on_partial
    if cut is not None and not allowed:
        return Done({"status": "skipped", "reason": cut})
    if not verdicts:
        return Done({"status": "skipped", "reason": "no verdict to decide on"})
    portfolio = portfolio_get(desk.tool_context(run.id), PortfolioArguments())["portfolio"]
    notes, memory = _past(desk, run, [row["symbol"] for row in portfolio["positions"]], verdicts)
    brief = trader_subject(run.account, verdicts, portfolio, desk.settings, notes)
    # Who lets the trader decide on a run that its budget cut short wants the one turn that this takes.
    turned = run_role(desk, step, held, "trader", run.account, brief, memory=memory, budgeted=not allowed)
    again = retry_of(desk, step, turned)
    if again is not None:
        return again
    if isinstance(turned.outcome, Skipped):
        return Done({"status": "skipped", "reason": turned.outcome.reason}, (turned.turns,))
    turn = last_turn(turned)
    value, status = value_of(turned), turned.outcome.outcome
    reason = None if value else status_of(turned)[1]
    if turn is None:
        return Done({"status": status, "reason": reason}, state=StepState.FAILED, error=reason)
    decision = Decision(
        run_id=run.id,
        step_id=step.id,
        turn_id=turn.id,
        account=run.account,
        status=status,
        actions=value.get("actions", []),
        reasoning=value.get("reasoning") or reason or "",
        spoken_by=desk.settings.spoken_by,
    )
    rows = (turned.turns, turned.calls, [decision])
    if not value:
        failed = not isinstance(turned.outcome, Refused)
        state = StepState.FAILED if failed else StepState.DONE
        return Done({"status": status, "reason": reason}, rows, state=state, error=reason if failed else None)
    child = NewStep(StepKind.SUBMIT, str(step.parent_id), payload={"decision_id": decision.id})
    return Done({"status": status, "actions": len(decision.actions)}, rows, [child])


def _past(
    desk: Desk, run: Run, held: list[str], verdicts: list[JudgedSymbol]
) -> tuple[dict[str, list[str]], str | None]:
    """The notes on what is held and judged, and what the account decided last."""
    symbols = [*map(underlying_of, held), *(one.symbol for one in verdicts)]
    with desk.store.read() as session:
        notes = last_notes(session, desk.settings, run.account, symbols, desk.market.clock.now())
        return notes, trader_memory(session, desk.tool_context(run.id))


def _verdicts(session: Session, run: Run) -> list[JudgedSymbol]:
    source = run.params.get("source_run", run.id)
    rows = session.exec(
        select(Verdict, Candidate.instrument)
        .join(Candidate, col(Candidate.id) == col(Verdict.candidate_id))
        .where(Verdict.run_id == source)
        .order_by(col(Candidate.rank))
    ).all()
    return [
        JudgedSymbol(
            symbol=verdict.symbol,
            instrument=instrument,
            rating=verdict.rating,
            confidence=verdict.confidence,
            summary=verdict.summary,
            key_risks=tuple(verdict.key_risks),
            missing=tuple(verdict.missing),
        )
        for verdict, instrument in rows
    ]


def place(desk: Desk, step: Claimed, held: Held) -> Ending:
    # No model speaks here, but it is this worker's clock and market that the orders are priced on.
    require_market(desk, step.run_id)
    decision_id = step.payload["decision_id"]
    try:
        outcomes = process_decision(desk.store, desk.settings, desk.market, desk.broker, decision_id, desk.seat)
    except FencedOff as error:
        log.error("orders.fenced_off", decision=decision_id, error=str(error))
        raise Postponed(f"the process that submits for the account does this: {error.args[0]}", 0.0) from None
    return Done({"orders": [outcome.model_dump(mode="json") for outcome in outcomes]})


def close(desk: Desk, step: Claimed, held: Held) -> Ending:
    with desk.store.read() as session:
        run = session.get_one(Run, step.run_id)
        steps = session.exec(select(Step).where(Step.run_id == run.id, Step.id != step.id)).all()
        state, notes = run_state(steps)
        closing = Closing(state, summarise(session, run, desk.settings), notes)
    return Done({"state": state}, closing=closing)
