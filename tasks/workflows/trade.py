"""The trader's turn on all verdicts of a run, then orders by code alone, then the end of the run."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import Annotated, Any, Literal

import structlog
from pydantic import StringConstraints
from sqlmodel import Session, col, select

from chordesk.agents.subjects import JudgedSymbol, sizing_row, trader_subject
from chordesk.agents.thesis_pooling import told
from chordesk.agents.verdicts.research_verdict import (
    cap_confidence,
    ground_decision,
    kept_because,
    note,
    rejects,
    supported_actions,
    way_of,
    with_rogue_calls,
)
from chordesk.agents.verdicts.trader_sizes import bounded_actions
from chordesk.models import features
from chordesk.models.analysis import WRITES
from chordesk.models.answers import ActionKind, Grounding, Refused, ReportStatus, Skipped
from chordesk.models.database.lookup import by_prefix
from chordesk.models.errors import FencedOff, Postponed, SettingError, UsageError
from chordesk.models.groups import by_key
from chordesk.models.settings import Settings
from chordesk.models.states import RUN_FINAL, RunKind, RunState, StepKind
from chordesk.models.tables.orders import Account, Fill, Order, Position
from chordesk.models.tables.runs import (
    Analysis,
    Candidate,
    Decision,
    Report,
    Run,
    Turn,
    Verdict,
    VerdictReport,
    research_run,
)
from chordesk.models.thesis import Pooled
from chordesk.tasks.bootstrap import Desk
from chordesk.tasks.engine import budgets
from chordesk.tasks.engine.kinds import StepSpec, Workflow
from chordesk.tasks.engine.leases import HeldStep
from chordesk.tasks.engine.steps import ClaimedStep, NewStep
from chordesk.tasks.reading.memory import trader_memory
from chordesk.tasks.worker.endings import Done, Ending
from chordesk.tasks.worker.messages import DeskApp
from chordesk.tasks.worker.order_pass import run_context, stand_aside
from chordesk.tasks.workflows.concluding import role_report
from chordesk.tasks.workflows.runs import ID, Look, Request, moment, new_run, open_run
from chordesk.tools.market.actions import growth_since
from chordesk.tools.market.clock import clock_day, day_of
from chordesk.tools.market.prices import actions_of
from chordesk.tools.market.protocol import MarketData
from chordesk.tools.model_tools.portfolio import portfolio_get
from chordesk.tools.orders.drafting import last_notes
from chordesk.tools.orders.flow import process_decision
from chordesk.tools.portfolio.holdings import standing_of
from chordesk.tools.portfolio.size_bounds import sizing, stress
from chordesk.tools.registry import Arguments, ToolContext
from chordesk.tools.risk.exposure import underlying_of
from chordesk.tools.scoring.verdict_calibration import odds_of_run

log = structlog.get_logger(__name__)

CLOCK_SKEW = dt.timedelta(minutes=5)  # of two hosts


def open_trade(app: DeskApp, source_run: str, look: Look | None = None) -> Run:
    desk = app.desk
    with desk.store.read() as session:
        source = session.get(Run, source_run)
        if source is None:
            raise UsageError(f"there is no run {source_run}", remedy="`desk runs list` shows them")
        check_source(source, desk.market)
        cut = budgets.cut_short(session, source_run)
        verdicts = session.exec(select(Verdict).where(Verdict.run_id == source_run)).all()
    if cut is not None and not desk.settings.trade_on_partial:
        remedy = "start a run with a larger budget, or set DESK_TRADE_ON_PARTIAL=true"
        raise UsageError(f"run {source_run} was cut short: {cut}", remedy=remedy)
    if not verdicts:
        raise UsageError(f"run {source_run} has no verdicts to trade on", remedy="`desk runs show RUN` has the reason")
    run = new_run(desk, RunKind.TRADE, {"source_run": source_run}, parent=source_run)
    return open_run(app, run, lambda session, row, finish: [NewStep(StepKind.DECIDE, finish)], look)


def check_source(source: Run, market: MarketData) -> None:
    """Raises UsageError for a run without all verdicts, or with those of another market or a later day."""
    require_same_market(source, market)
    strategy = source.params.get("strategy") if source.kind == RunKind.ANALYZE else None
    if strategy in WRITES:
        reason = f"run {source.id} analysed for {strategy}: code makes its orders, and no trader decides on them"
        raise UsageError(reason, remedy=f"`desk runs show {source.id}` has them; --strategy equity is for the trader")
    if source.kind == RunKind.TRADE:
        origin = source.params["source_run"]
        raise UsageError(f"run {source.id} is a trade itself", remedy=f"`desk trade {origin}` trades on its research")
    if source.state not in RUN_FINAL:
        raise UsageError(f"run {source.id} is still running", remedy="trade on it when it has ended")
    if source.state == RunState.STOPPED:
        raise UsageError(f"run {source.id} was stopped", remedy="`desk research SYMBOL...` starts a run to trade on")


def require_same_market(run: Run, market: MarketData) -> None:
    """Raises UsageError when a run looked at another market than this process does, or at a later time."""
    now = market.clock.now()
    if run.market != market.name or run.market_now - now > CLOCK_SKEW:
        seen, here = moment(run.market, run.market_now), moment(market.name, now)
        raise UsageError(f"run {run.id} looked at {seen}; this is {here}", remedy="trade on the same market and day")


def _of_features(session: Session, run_id: str) -> dict[str, Any]:
    """Return what features tell the trader of a run; of a package that fails, that it is missing."""
    found: dict[str, Any] = {}
    for feature, functions in features.parts("brief", kind=Callable):
        for function in functions:
            try:
                found |= features.call(feature, function, session, run_id)
            except SettingError as error:
                found[feature.name] = {"missing": error.args[0]}
    return found


def run_trader(desk: Desk, step: ClaimedStep, held: HeldStep) -> Ending:
    with desk.store.read() as session:
        run = session.get_one(Run, step.run_id)
        verdicts, against = _verdicts(session, run), _spoken_against(session, run)
        stated = _concluded(session, run)
        _keep(session, run.account, verdicts, {symbol: pooled for symbol, (pooled, _) in stated.items()})
        source = research_run(run)
        cut, more = budgets.cut_short(session, source), _of_features(session, source)
    settings = desk.settings_of(run.id)
    allowed = settings.trade_on_partial
    if cut is not None and not allowed:
        return Done({"status": "skipped", "reason": cut})
    if not verdicts:
        return Done({"status": "skipped", "reason": "no verdict to decide on"})
    context = desk.tool_context(run.id)
    concluded = _in_todays_shares(context.market, verdicts, stated)
    portfolio = portfolio_get(context, Arguments())["portfolio"]
    earlier = _notes(desk, context, [row["symbol"] for row in portfolio["positions"]], verdicts)
    standing, day = standing_of(context, concluded), clock_day(context.clock)
    for one in verdicts:
        one["sizing"] = sizing_row(sizing(one["symbol"], concluded[one["symbol"]], standing))
    subject = trader_subject(run.account, verdicts, portfolio, settings, earlier, day=day, stress=stress(standing))
    brief = {**subject, **more}
    # With DESK_TRADE_ON_PARTIAL the one turn of the trader is wanted though the budget is used up.
    memory = partial(trader_memory, context=context)
    turned = held.turns.run("trader", run.account, brief, memory=memory, budgeted=not allowed)
    if isinstance(turned.outcome, Skipped):
        return Done({"status": "skipped", "reason": turned.outcome.reason}, (turned.turns,))
    turn, value, status = turned.last_turn, turned.value, turned.outcome.outcome
    reason = None if value else turned.reason
    if turn is None:
        return Done({"status": status, "reason": reason}, error=reason or status)
    rated = {one["symbol"]: (one["rating"], one["confidence"]) for one in verdicts}
    actions, reasoning = cap_confidence(value.get("actions", []), rated), value.get("reasoning") or reason or ""
    if actions:
        found = ground_decision({"actions": actions, "reasoning": reasoning}, turned.recorded, brief)
        actions = _supported(actions, verdicts, against, portfolio, found)
        actions = bounded_actions(actions, concluded, standing, day)
        reasoning += note(found)
    if (rogue := turned.rogue_note) is not None:
        actions, reasoning = with_rogue_calls(actions), f"{reasoning} ({rogue}.)"
    decision = _decision(run, step, turn, status, actions, reasoning)
    rows = (*turned.rows, [decision])
    if not value:
        error = None if isinstance(turned.outcome, Refused) else reason or status
        return Done({"status": status, "reason": reason}, rows, error=error)
    child = NewStep(StepKind.SUBMIT, str(step.parent_id), payload={"decision_id": decision.id})
    notes = [f"the trader's model had no room in its context for {line}" for line in turned.left_out]
    result = {"status": status, "actions": len(actions), **turned.left_out_entry, **({"notes": notes} if notes else {})}
    return Done(result, rows, [child])


def _decision(
    run: Run, step: ClaimedStep, turn: Turn, status: str, actions: list[dict[str, Any]], reasoning: str
) -> Decision:
    return Decision(
        run_id=run.id, step_id=step.id, turn_id=turn.id, account=run.account, status=status, actions=actions,
        reasoning=reasoning, author=turn.model,
    )  # fmt: skip


def _in_todays_shares(
    market: MarketData, verdicts: Iterable[JudgedSymbol], stated: Mapping[str, tuple[Pooled, dt.date]]
) -> dict[str, Pooled]:
    """Return the conclusions with their levels after the actions since their verdicts, and write these to the rows."""
    concluded = {symbol: _restated(market, symbol, *found) for symbol, found in stated.items()}
    for one in verdicts:
        if one.get("pooled", {}).get("invalidation_price"):
            level = concluded[one["symbol"]].invalidation_price
            one["pooled"] = {**one["pooled"], "invalidation_price": level}
    return concluded


def _supported(
    actions: Sequence[Mapping[str, Any]],
    verdicts: Iterable[JudgedSymbol],
    against: Collection[str],
    portfolio: Mapping[str, Any],
    found: Grounding,
) -> list[dict[str, Any]]:
    rows = list(verdicts)
    ratings = {one["symbol"]: one["rating"] for one in rows}
    held = {underlying_of(row["symbol"]) for row in portfolio["positions"]}
    return supported_actions(
        actions, ratings, against, held, found, {one["symbol"]: one["kept"] for one in rows if "kept" in one}
    )


def _notes(desk: Desk, context: ToolContext, held: list[str], verdicts: list[JudgedSymbol]) -> dict[str, list[str]]:
    symbols = [*map(underlying_of, held), *(one["symbol"] for one in verdicts)]
    with desk.store.read() as session:
        return last_notes(session, context.settings, context.account, symbols, context.clock.now())


def _verdicts(session: Session, run: Run) -> list[JudgedSymbol]:
    # Those of the run itself are on what is held and was not screened; they come after the source's.
    source = research_run(run)
    rows = session.exec(
        select(Verdict, Candidate.instrument, Analysis)
        .join(Candidate, col(Candidate.id) == col(Verdict.candidate_id))
        .join(Analysis, col(Analysis.verdict_id) == col(Verdict.id), isouter=True)
        .where(col(Verdict.run_id).in_({source, run.id}))
        .order_by(col(Verdict.run_id) == run.id, col(Candidate.rank))
    ).all()
    odds = odds_of_run(session, source)
    reports = _reports(session, [verdict.id for verdict, *_ in rows])
    return [
        _judged(verdict, instrument, plan, odds(verdict), reports.get(verdict.id, ()))
        for verdict, instrument, plan in rows
    ]


def _keep(session: Session, account: str, verdicts: Iterable[JudgedSymbol], concluded: Mapping[str, Pooled]) -> None:
    """Say of verdicts on held shares why they are kept."""
    held = set(session.exec(select(Position.symbol).where(Position.account == account)))
    reduced = _reduced_at(session, account)
    for one in verdicts:
        symbol, rejected = one["symbol"], bool(one.get("against"))
        why = kept_because(one["rating"], concluded[symbol], rejected, reduced.get(symbol)) if symbol in held else None
        if why is not None:
            one["kept"] = why


_CHANGES = (ActionKind.OPEN, ActionKind.ADD, ActionKind.REDUCE)


def _reduced_at(session: Session, account: str) -> dict[str, float]:
    """Return the pooled probability on which a held share was reduced, by symbol, where that was its last order that
    filled."""
    held = select(Position.symbol).where(Position.account == account)
    last = (
        select(Order.symbol, Order.action, Verdict.pooled)
        .join(Verdict, col(Verdict.id) == col(Order.verdict_id))
        .where(Order.account == account, col(Order.symbol).in_(held), col(Order.action).in_(_CHANGES))
        .where(select(Fill.id).where(col(Fill.order_id) == col(Order.id)).exists())
        .order_by(col(Order.market_at), col(Order.created_at))
    )
    newest = {symbol: (action, pooled) for symbol, action, pooled in session.exec(last)}
    return {
        symbol: pooled["probability"]
        for symbol, (action, pooled) in newest.items()
        if action == ActionKind.REDUCE and pooled and pooled.get("probability") is not None
    }


def _reports(session: Session, verdicts: Sequence[str]) -> Mapping[str, list[Report]]:
    """Return the completed reports that verdicts rest on, by verdict."""
    pairs = session.exec(
        select(VerdictReport.verdict_id, Report)
        .join(Report, col(Report.id) == col(VerdictReport.report_id))
        .where(col(VerdictReport.verdict_id).in_(verdicts), Report.status == ReportStatus.COMPLETED)
        .order_by(col(Report.role))  # a prompt does not depend on who was faster
    )
    return by_key(pairs)


def _concluded(session: Session, run: Run) -> dict[str, tuple[Pooled, dt.date]]:
    """Return what the theses of each verdict came to and the exchange's day of its prices, by symbol; an empty one for
    a verdict of stances."""
    rows = session.exec(
        select(Verdict.symbol, Verdict.pooled, Run.market_now)
        .join(Run, col(Run.id) == col(Verdict.run_id))
        .where(col(Verdict.run_id).in_({research_run(run), run.id}))
    ).all()
    return {symbol: (Pooled.model_validate(pooled or {}), day_of(seen, symbol)) for symbol, pooled, seen in rows}


def _restated(market: MarketData, symbol: str, pooled: Pooled, day: dt.date) -> Pooled:
    """Return a conclusion of a day with its level in shares of now: a split since would put it above the price."""
    level = pooled.invalidation_price
    if level is None or (growth := growth_since(actions_of(market, symbol, day), day)) == 1:
        return pooled
    return pooled.model_copy(update={"invalidation_price": round(level / growth, 4)})


def _spoken_against(session: Session, run: Run) -> set[str]:
    found = session.exec(
        select(Report, Verdict)
        .join(VerdictReport, col(VerdictReport.report_id) == col(Report.id))
        .join(Verdict, col(Verdict.id) == col(VerdictReport.verdict_id))
        .where(col(Verdict.run_id).in_({research_run(run), run.id}), Report.status == ReportStatus.COMPLETED)
    ).all()
    judged = ((report, way_of(role_report(report), by_theses=verdict.pooled is not None)) for report, verdict in found)
    return {report.symbol for report, way in judged if way == "down"}


def _judged(
    verdict: Verdict, instrument: str, plan: Analysis | None, probability: float | None, reports: Sequence[Report]
) -> JudgedSymbol:
    judged = JudgedSymbol(
        symbol=verdict.symbol,
        instrument=instrument,
        rating=verdict.rating,
        confidence=verdict.confidence,
        summary=verdict.summary,
        keyRisks=verdict.key_risks,
        missing=verdict.missing,
    )
    if probability is not None:
        judged["probability"] = round(probability, 4)
    if plan is not None:
        names = {"strategy", "recommendation", "contract", "reasons"}
        judged["plan"] = plan.model_dump(include=names)  # type: ignore[typeddict-item]
    if verdict.pooled is not None:
        judged["pooled"] = verdict.pooled
    if against := [row.role for row in reports if rejects(role_report(row))]:
        judged["against"] = against
    if theses := {row.role: row.thesis for row in reports if row.thesis is not None}:
        judged["theses"] = told(theses, {row.role: row.answer for row in reports if row.answer is not None})
    return judged


def submit_orders(desk: Desk, step: ClaimedStep, held: HeldStep) -> Ending:
    decision_id = step.payload["decision_id"]
    try:
        to = run_context(desk, step.run_id)
        orders = process_decision(desk.store, to.settings, to.market, to.broker, decision_id, to.lease)
    except FencedOff as error:
        log.error("orders.fenced_off", decision=decision_id, error=str(error))
        raise Postponed(f"the process that submits for the account: {error.args[0]}", 0.0) from None
    return Done({"orders": orders})


class TradeRequest(Request):
    """The trader's decision on the verdicts of an earlier run."""

    kind: Literal["trade"]
    run: Annotated[str, StringConstraints(max_length=64, pattern=ID)]

    @classmethod
    def like(cls, run: Run, settings: Settings) -> dict[str, Any]:
        return {"run": run.params.get("source_run", "")}

    def open(self, app: DeskApp, look: Look | None = None) -> Run:
        with app.desk.store.read() as session:
            source = by_prefix(session, Run, self.run).id
        return open_trade(app, source, look)


def open_close(app: DeskApp, position: str, by: str, why: str, look: Look | None = None) -> Run:
    """Open a run that closes a position of the desk's own account by an order that passes every check, the person's
    approval where the settings want one, and the trade worker. by: the person."""
    from chordesk.tools.orders.closing import closing_action  # a person's request alone needs it

    with app.desk.store.read() as session:
        action = closing_action(session, app.desk.settings, position, why)
    run = new_run(app.desk, RunKind.CLOSE, {"symbols": [action["symbol"]], "position": position})
    run.provider, run.model = "person", by

    def write(session: Session, row: Run, finish: str) -> list[NewStep]:
        # Asked again where nothing else can write: of two requests at once, the second one sees the first.
        session.get_one(Account, row.account, with_for_update=True)
        now = closing_action(session, app.desk.settings, position, why, own=row.id)
        decision = Decision(
            run_id=row.id, step_id=finish, account=row.account, status="completed", actions=[now], reasoning=why,
            author=by,
        )  # fmt: skip
        session.add(decision)
        session.flush()
        return [NewStep(StepKind.SUBMIT, finish, payload={"decision_id": decision.id})]

    return open_run(app, run, write, look)


WORKFLOWS = (
    Workflow(
        RunKind.TRADE,
        "trader",
        (
            StepSpec(
                *(StepKind.DECIDE, "research", run_trader, "trader", "trader"),
                turn=True,
                spine=True,
                also_in=(RunKind.SCREEN,),
                after="every `conclude`, or the run; with rounds of voices their `tally`",
                writes=("decision",),
            ),
            StepSpec(
                *(StepKind.SUBMIT, "trade", submit_orders, "trader", "orders"),
                spine=True,
                released=stand_aside,
                also_in=(RunKind.SCREEN, RunKind.ANALYZE, RunKind.CLOSE, RunKind.FLATTEN, RunKind.PROTECT),
                after="`decide` or `propose`",
                writes=(
                    *("order", "order_check", "preview", "approval", "fill", "position"),
                    *("decision", "trader_note", "equity_mark"),
                ),
            ),
        ),
        turns=lambda _params, _settings, _held: {"trader": 1},
        request=TradeRequest,
        by_hand="it decides on the verdicts of one earlier run",
    ),
    Workflow(RunKind.CLOSE),  # a person's
    # A person's, and the desk's own: their one step is written when it is done.
    Workflow(RunKind.FLATTEN),
    Workflow(RunKind.PROTECT),
)
