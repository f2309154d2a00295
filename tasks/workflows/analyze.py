"""The analysis of symbols: chart, options and research analysts one after the other, a synthesis by code, a text around
it by a model, and a proposed order for each contract that was selected.

A symbol's reports are children of its synthesis, one at a time; a rejection leaves the rest out. The text is a step of
its own that nothing but the end of the run waits for.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

from pydantic import Field
from sqlmodel import Session, col, select

from chordesk.agents.grounding.report import grounding_of
from chordesk.agents.roles import roots
from chordesk.agents.subjects import synthesis_subject
from chordesk.agents.thesis_pooling import rule_of
from chordesk.agents.verdicts.analysis_view import view
from chordesk.agents.verdicts.research_verdict import with_rogue
from chordesk.models.analysis import WRITES, AnalysisRequest, Depth, break_even_texts
from chordesk.models.answers import ActionKind, Confidence, Instrument, ReportStatus
from chordesk.models.errors import DeskError, NotConfigured, UsageError
from chordesk.models.market import MODELLED, SHARES_PER_CONTRACT
from chordesk.models.plans import DecidedAction, PositionPlan
from chordesk.models.settings import Settings
from chordesk.models.settings.running_desk import with_values
from chordesk.models.states import RunKind, StepKind
from chordesk.models.tables.columns import new_id
from chordesk.models.tables.orders import Account
from chordesk.models.tables.runs import Analysis, Candidate, Decision, Report, Run, Step, Verdict, VerdictReport
from chordesk.tasks.bootstrap import Desk
from chordesk.tasks.engine.kinds import StepSpec, Workflow
from chordesk.tasks.engine.leases import HeldStep
from chordesk.tasks.engine.steps import ClaimedStep, NewStep
from chordesk.tasks.worker.endings import Done, Ending
from chordesk.tasks.worker.messages import DeskApp
from chordesk.tasks.workflows.concluding import basis_of, lost_reports, plan_row, role_report, verdict_row
from chordesk.tasks.workflows.research import unscreened
from chordesk.tasks.workflows.runs import Look, Request, Symbol, new_run, open_run
from chordesk.tools import rogue_calls
from chordesk.tools.market.earnings import next_earnings
from chordesk.tools.market.protocol import ChainSource, MarketData
from chordesk.tools.market.universe import resolve_universe
from chordesk.tools.portfolio.holdings import free_shares
from chordesk.tools.questions.asking import verdict_question

# The orders of an analysis: code turns each contract that was selected into an action, and these into a decision.
#
# A contract is sold to open at its bid, as a limit for the day: at the best price that a buyer offers.

AUTHOR = "code: analyze"


def propose_orders(desk: Desk, step: ClaimedStep, held: HeldStep) -> Ending:
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


# Exits of a written contract: bought back at half of its premium or at three times it, and looked at a week before it
# expires, when the premium that is left no longer pays for a move of the share.
PROFIT_SHARE, STOP_MULTIPLE, DAYS_LEFT = 0.5, 3.0, dt.timedelta(days=7)


def plan_of(figures: Mapping[str, Any]) -> PositionPlan:
    """Return the exits of a contract that is sold at its bid."""
    bid, last = figures["bid"], dt.date.fromisoformat(figures["best_expiration"]) - DAYS_LEFT
    stop, target = round(bid * STOP_MULTIPLE, 2), round(bid * (1 - PROFIT_SHARE), 2)
    return PositionPlan(entry=bid, stop=stop, target=target, ends=last)


def action_of(analysis: Analysis, contracts: int) -> DecidedAction:
    """Return the action that sells a selected contract; its reasoning has the figures it rests on, and their source."""
    figures = analysis.figures["contract"]
    return DecidedAction(
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
        plan=plan_of(figures),
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


REASON = "analysis"  # of each of its roles


def open_analysis(
    app: DeskApp, symbols: Sequence[str], request: AnalysisRequest, depth: Depth | None = None, look: Look | None = None
) -> Run:
    """Start an analysis of symbols that a person named. depth: None is that of the settings.

    What the request does not name is fitted to the market: without chains the shares are analysed, without a source of
    news and earnings the research is left out; the run's parameter `lacks` has a line on each, and `named` what the
    request named.

    Raises UsageError for a symbol that the market does not carry, and for what was named and cannot be judged.
    """
    desk = app.desk
    found = resolve_universe(",".join(symbols), desk.market)
    named = sorted(request.model_fields_set)
    request, lacks = fitted(desk.market, request, found)
    settings = with_values(desk.settings, {"depth": depth}) if depth is not None else desk.settings
    roles = request.roles
    params = {
        "symbols": found,
        "roles": list(roles),
        "required_roles": list(roles),
        "depth": settings.depth,
        **({"lacks": lacks, "named": named} if lacks else {}),
        **request.model_dump(mode="json"),
    }

    def write(session: Session, run: Run, finish: str) -> list[NewStep]:
        candidates = unscreened(run.id, found, "manual", first=1)
        for candidate in candidates:
            candidate.instrument = Instrument.OPTION if request.strategy in WRITES else Instrument.EQUITY
        session.add_all(candidates)
        session.flush()
        return _first_steps(session, run, candidates, request, finish)

    return open_run(app, new_run(desk, RunKind.ANALYZE, params, settings=settings), write, look)


def fitted(market: MarketData, request: AnalysisRequest, symbols: Sequence[str]) -> tuple[AnalysisRequest, list[str]]:
    """The request as the market can answer it, with a line on what cannot be judged. Raises UsageError where that was
    named."""
    given, lacks = request.model_fields_set, list[str]()
    if request.strategy in WRITES and not isinstance(market, ChainSource):
        what = f"the {market.name} market has no option chains"
        modelled = "DESK_REPLAY_OPTIONS=modelled for modelled ones, or " if market.clock.day is not None else ""
        chosen = f"start the desk with {modelled}DESK_MARKET set to a market with chains, such as yahoo"
        if "strategy" in given or not request.chart:
            raise UsageError(
                f"the strategy {request.strategy} needs option chains, and {what}",
                remedy=f"{chosen}; or choose --strategy equity",
            )
        request = request.model_copy(update={"strategy": "equity"})
        lacks.append(f"{what}: the shares are analysed; for a contract {chosen}")
    if request.strategy == "csp" and not request.across_earnings and market.clock.day is not None:
        dated = any(next_earnings(market, symbol) is not None for symbol in symbols)
        what = f"no source of the {market.name} market has a day of earnings ahead of any of them"
        remedy = (
            "give --across-earnings as your leave to write a put all the same, or add earnings.csv to a data folder"
        )
        if not dated and ("strategy" in given or not request.chart):  # shares alone need the chart
            raise UsageError(f"a put needs to know when earnings are due: {what}", remedy=remedy)
        if not dated:
            request = request.model_copy(update={"strategy": "equity"})
            lacks.append(f"{what}: the shares are analysed, and no put; {remedy}")
    if request.research and not _has_sources(market, symbols):
        what = f"the {market.name} market has no headlines, earnings, ratings, short interest or insiders' trades"
        remedy = "add headlines.csv or earnings.csv to a data folder, or set DESK_MARKET=yahoo"
        if "research" in given:
            raise UsageError(f"research would have no data: {what}", remedy=f"leave it out; or {remedy}")
        request = request.model_copy(update={"research": False})
        lacks.append(f"{what}: no research, at most CAUTION and so no order is sent; {remedy}")
    return AnalysisRequest.model_validate(request.model_dump()), lacks


def _has_sources(market: MarketData, symbols: Sequence[str]) -> bool:
    return market.clock.day is None or any(_carries(market, ask, symbols[0]) for ask in _SOURCES)


def _carries(market: MarketData, ask: str, symbol: str) -> bool:
    if (source := getattr(market, ask, None)) is None:
        return False
    try:
        source(symbol, *((1,) if ask == "headlines" else ()))
    except NotConfigured:
        return False
    except DeskError:
        return True
    return True


_SOURCES = ("headlines", "earnings", "short_interest", "rating_changes", "insider_trades", "filings")


def _first_steps(
    session: Session, run: Run, candidates: Sequence[Candidate], request: AnalysisRequest, finish: str
) -> list[NewStep]:
    capital = session.get_one(Account, run.account).cash
    steps, parent = list[NewStep](), finish
    if request.proposes:
        propose = NewStep(StepKind.PROPOSE, finish, waits=True)
        steps, parent = [propose], propose.id
    for candidate in candidates:
        roles = request.roles if _is_possible(session, run, candidate, request) else request.judges
        first = roots(roles)
        payload = {"candidate_id": candidate.id, "finish": finish, "capital": capital}
        join = NewStep(StepKind.SYNTHESIZE, parent, candidate.symbol, payload=payload, waits=True)
        asked = _report_payload(candidate, roles, request, capital)
        steps += [join, *(NewStep(StepKind.REPORT, join.id, candidate.symbol, role, asked) for role in first)]
    return steps


def _is_possible(session: Session, run: Run, candidate: Candidate, request: AnalysisRequest) -> bool:
    """Return whether the options analyst's turn could lead to a selection: a covered call needs its shares first."""
    if request.strategy != "covered_call":
        return True
    return free_shares(session, run.account, candidate.symbol) >= request.contracts * SHARES_PER_CONTRACT


def _report_payload(
    candidate: Candidate, roles: Sequence[str], request: AnalysisRequest, capital: float
) -> dict[str, Any]:
    return {
        "candidate_id": candidate.id,
        "instrument": Instrument.EQUITY,  # who judges the share does not know of a contract
        "theses": [],
        "capital": capital,
        "roles": dict.fromkeys(roles, REASON),
        "analysis": request.model_dump(mode="json"),
        "all_needed": True,
    }


def synthesise_reports(desk: Desk, step: ClaimedStep, held: HeldStep) -> Ending:
    """Reduce a symbol's reports to its verdict and its plan; then, if that is a select, ask for the text."""
    with desk.store.read() as session:
        run = session.get_one(Run, step.run_id)
        request = request_of(run)
        rows = session.exec(select(Report).where(Report.run_id == run.id, Report.symbol == step.subject)).all()
        steps = session.exec(select(Step).where(Step.parent_id == step.id)).all()
        rogue = rogue_calls.of_candidate(session, step.payload["candidate_id"], [row.id for row in rows])
    market = desk.market_of(step.run_id)
    reports = sorted(rows, key=lambda row: request.roles.index(row.role))
    given = [*map(role_report, reports), *lost_reports(steps, {row.role for row in reports})]
    rule = rule_of(desk.settings_of(step.run_id).conclude)
    basis = basis_of(desk, step.run_id, str(step.subject), given)
    reduced = view(request, given, rule, desk.role_weights(step.run_id), basis)
    rated = with_rogue(reduced, rogue_calls.note(rogue))
    verdict = verdict_row(step, rated, market.clock.now())
    analysis = plan_row(desk, step, verdict, request, reports, given)
    links = [VerdictReport(verdict_id=verdict.id, report_id=row.id) for row in reports]
    described = analysis.recommendation == "select" and run.params["depth"] != "quick"
    result = {"recommendation": analysis.recommendation, "rating": verdict.rating}
    text = [_description(step, analysis)] if described else []
    question = verdict_question(market, desk.settings_of(step.run_id), verdict)
    return Done(result, ([verdict], links, [analysis]), text, also=question)


def request_of(run: Run) -> AnalysisRequest:
    return AnalysisRequest.model_validate({name: run.params[name] for name in AnalysisRequest.model_fields})


def _description(step: ClaimedStep, analysis: Analysis) -> NewStep:
    payload = {"analysis_id": analysis.id, "capital": step.payload["capital"]}
    return NewStep(StepKind.DESCRIBE, step.payload["finish"], step.subject, "synthesis", payload)


def describe(desk: Desk, step: ClaimedStep, held: HeldStep) -> Ending:
    with desk.store.read() as session:
        analysis = session.get_one(Analysis, step.payload["analysis_id"])
        verdict = session.get_one(Verdict, analysis.verdict_id)
        request = request_of(session.get_one(Run, step.run_id))
    settings = desk.settings_of(step.run_id)
    synthesis = {**_as_made(analysis), "reports": verdict.summary}
    brief = synthesis_subject(step.subject, request.strategy, synthesis, settings, step.payload["capital"])
    run = held.turns.run(step.role, step.subject, brief)
    value, turn = run.value, run.last_turn
    if not value or turn is None:
        error = run.reason if run.status is ReportStatus.FAILED else None
        return Done({"status": run.status, "reason": run.reason}, run.rows, error=error)
    text = {"headline": value["headline"], "summary": value["summary"], "turn_id": turn.id, "author": turn.model}
    grounding = grounding_of(run)
    if grounding is not None:
        text["grounding"] = grounding.model_dump(mode="json")
        desk.telemetry.record_grounding(step, grounding)
    return Done({"status": "completed"}, run.rows, also=_writer(analysis.id, text))


def _as_made(analysis: Analysis) -> dict[str, Any]:
    names = {"recommendation", "rating", "confidence", "contract", "figures", "checks", "reasons", "key_risks"}
    return analysis.model_dump(mode="json", include=names)


def _writer(analysis_id: str, text: dict[str, Any]) -> Callable[[Session], None]:
    """Return the writer of an analysis' text, for the transaction that ends the step."""

    def write(session: Session) -> None:
        row = session.exec(select(Analysis).where(col(Analysis.id) == analysis_id)).one()
        row.sqlmodel_update(text)
        session.add(row)

    return write


def analysis_turns(params: Mapping[str, Any], settings: Settings, held: int = 0) -> dict[str, int]:
    count = len(params["symbols"])
    text = {"synthesis": count} if params["depth"] != "quick" else {}
    return {**dict.fromkeys(params["roles"], count), **text}


class AnalyzeRequest(AnalysisRequest, Request):
    """An analysis of symbols. Fields that are left out have the defaults of `desk analyze`; depth that of the settings.
    min_weekly_roc: fraction, 0.005 is 0.5 % a week; days: calendar days to expiry; contracts: of one order."""

    kind: Literal["analyze"]
    symbols: list[Symbol] = Field(min_length=1, max_length=500)
    depth: Depth | None = None

    @classmethod
    def like(cls, run: Run, settings: Settings) -> dict[str, Any]:
        found = super().like(run, settings)
        named = {"symbols", "depth", *run.params.get("named", found)}  # the rest is fitted to the market anew
        return {name: value for name, value in found.items() if name in named}

    def open(self, app: DeskApp, look: Look | None = None) -> Run:
        fields = set(AnalysisRequest.model_fields)
        request = AnalysisRequest(**self.model_dump(include=fields, exclude_unset=True))
        return open_analysis(app, self.symbols, request, self.depth, look)


WORKFLOWS = (
    Workflow(
        RunKind.ANALYZE,
        "research",
        (
            StepSpec(
                *(StepKind.SYNTHESIZE, "ops", synthesise_reports, "research", "analyses"),
                spine=True,
                join=True,
                after="every `report` on its symbol",
                writes=("verdict", "verdict_report", "analysis", "question", "verdict_question"),
            ),
            StepSpec(
                *(StepKind.DESCRIBE, "research", describe, "research", "texts"),
                turn=True,
                after="`synthesize`",
                writes=("analysis",),
            ),
            StepSpec(
                *(StepKind.PROPOSE, "ops", propose_orders, "trader"),
                spine=True,
                join=True,
                after="every `synthesize`",
                writes=("decision",),
            ),
        ),
        turns=analysis_turns,
        request=AnalyzeRequest,
        without_orders={"orders": False},
    ),
)
