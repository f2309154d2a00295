"""Research on one candidate: the quick report alone, then the other roles as a flat chord, and their verdict."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from statistics import median_low
from types import MappingProxyType
from typing import Any, Literal

from pydantic import Field, StrictBool
from sqlmodel import Session, col, func, select

from chordesk.agents.conclusion import Basis, anonymous, rule_of
from chordesk.agents.grounding.report import capped, grounding_of, lack
from chordesk.agents.role_models import role_models, turns_at_once
from chordesk.agents.roles import (
    GRAPH_ROLES,
    ROLES,
    SKEPTIC,
    after,
    default_roles,
    following,
    rejecting,
    required_roles,
    research_roles,
    roots,
    validators,
)
from chordesk.agents.runner import RoleRun
from chordesk.agents.subjects import (
    AnalystSubject,
    ResearchSubject,
    SkepticSubject,
    analyst_subject,
    skeptic_subject,
    validator_subject,
)
from chordesk.agents.synthesis import AccountFacts, plan
from chordesk.agents.verdict import conclude, counted, with_rogue
from chordesk.models import features
from chordesk.models.analysis import PLANNERS, WRITES, AnalysisRequest, RoleReport, VerdictResult
from chordesk.models.answers import (
    ROGUE_CONFIDENCE,
    Grounding,
    Instrument,
    Rating,
    ReportStatus,
    Skipped,
    Stance,
    is_grounded,
)
from chordesk.models.errors import DeskError
from chordesk.models.settings import Settings
from chordesk.models.states import RunKind, RunState, StepKind, StepState
from chordesk.models.tables.columns import new_id
from chordesk.models.tables.orders import Account
from chordesk.models.tables.runs import Analysis, Candidate, Report, Run, Step, Verdict, VerdictReport
from chordesk.models.telemetry_events import ReportGrounded
from chordesk.models.thesis import kept_thesis
from chordesk.tasks.bootstrap import Desk
from chordesk.tasks.engine import budgets, kinds
from chordesk.tasks.engine.kinds import StepSpec, Workflow
from chordesk.tasks.engine.leases import HeldStep
from chordesk.tasks.engine.steps import ClaimedStep, NewStep
from chordesk.tasks.engine.summary import GOES_ON
from chordesk.tasks.reading.accounts import PLANS, DueReason
from chordesk.tasks.reading.memory import symbol_memory
from chordesk.tasks.worker.messages import DeskApp
from chordesk.tasks.worker.turns import (
    last_turn,
    left_out,
    retry_of,
    rogue_note,
    run_role,
    skipped,
    status_of,
    value_of,
)
from chordesk.tasks.worker.work import Done, Ending
from chordesk.tasks.workflows.portfolio import LOOKED, look_at, plan_portfolio, reviewed
from chordesk.tasks.workflows.runs import Look, Request, Symbol, new_run, open_run
from chordesk.tools import rogue_calls
from chordesk.tools.holdings import free_shares, written_contracts
from chordesk.tools.market.clock import exchange_day
from chordesk.tools.market.earnings import next_earnings
from chordesk.tools.market.prices import no_current_price
from chordesk.tools.market.protocol import MarketData
from chordesk.tools.market.universe import resolve_universe
from chordesk.tools.questions.asking import universe_of_verdicts, verdict_question
from chordesk.tools.questions.resolving import crossing, thesis_question
from chordesk.tools.regime import HORIZONS, base_rates
from chordesk.tools.registry import ToolContext
from chordesk.tools.risk.exposure import round_trip


def open_research(app: DeskApp, symbols: Sequence[str], look: Look | None = None) -> Run:
    found = resolve_universe(",".join(symbols), app.desk.market)
    return _open(app, found, "manual", lambda run, symbol: all_roles(run, DueReason.MANUAL), look=look)


def open_portfolio(app: DeskApp, *, force: bool = False, look: Look | None = None) -> Run:
    """Of each holding the roles that are due, or all of them. Raises UsageError when nothing is held."""
    plans = {one.symbol: one for one in plan_portfolio(app.desk, force=force)}

    def asked(run: Run, symbol: str) -> RequestedRoles:
        due, skipped = plans[symbol].due, plans[symbol].skipped
        stored = [one.report_id for one in skipped if one.report_id]
        return RequestedRoles({one.role: one.reason for one in due}, stored)

    kept = {PLANS: [one.model_dump(mode="json") for one in plans.values()]}
    return _open(app, plans, "position", asked, kept, look)


def _open(
    app: DeskApp,
    symbols: Iterable[str],
    origin: Literal["manual", "position"],
    asked: Callable[[Run, str], RequestedRoles],
    extra: Mapping[str, Any] = MappingProxyType({}),
    look: Look | None = None,
) -> Run:
    """asked: returns the roles of a symbol. extra: parameters of the run besides those of all research."""
    desk = app.desk
    params = {"symbols": list(symbols), **researchers(desk.settings), "trade": False, **extra}

    def write(session: Session, run: Run, finish: str) -> list[NewStep]:
        candidates = unscreened(run.id, symbols, origin, first=1)
        session.add_all(candidates)
        session.flush()
        capital, spare = session.get_one(Account, run.account).cash, spare_turns(session, desk.settings, run.id)
        return candidate_steps(candidates, partial(asked, run), capital, finish, spare=spare)

    return open_run(app, new_run(desk, RunKind.RESEARCH, params), write, look)


def researchers(settings: Settings) -> dict[str, list[str]]:
    """Research roles and those that a BUY requires. Raises SettingError, and UsageError for a graph that cannot be
    played."""
    for role in research_roles(settings):
        if role in GRAPH_ROLES and GRAPH_ROLES[role].requires:
            features.part("graph_roles", role, GRAPH_ROLES[role].requires, kind=Callable)(settings)
    return {"roles": list(research_roles(settings)), "required_roles": list(required_roles(settings))}


def unscreened(
    run_id: str, symbols: Iterable[str], origin: Literal["manual", "position"], first: int
) -> list[Candidate]:
    same: dict[str, Any] = {"instrument": Instrument.EQUITY, "origin": origin, "score": 0.0}
    return [Candidate(run_id=run_id, symbol=symbol, rank=rank, **same) for rank, symbol in enumerate(symbols, first)]


@dataclass(frozen=True, slots=True)
class RequestedRoles:
    """The roles of one candidate."""

    roles: Mapping[str, str]  # the roles to run, each with its reason
    stored: Sequence[str] = ()  # ids of reports of earlier runs that count in the verdict, of roles that do not run now


def all_roles(run: Run, reason: str) -> RequestedRoles:
    return RequestedRoles(dict.fromkeys(run.params.get("roles", default_roles()), reason))


def candidate_steps(
    candidates: Sequence[Candidate],
    asked: Callable[[str], RequestedRoles],
    capital: float,
    parent: str,
    theses: Mapping[str, list[dict[str, str]]] | None = None,
    *,
    spare: int = 0,
) -> list[NewStep]:
    """Return the first steps of each candidate: its conclusion, and reports of the roles that follow no other role.

    The conclusion waits for the reports; without any it is ready at once. asked: the roles of a symbol.
    theses: the lenses' theses by symbol. capital: buying power in account currency. spare: number of idle turns; those
    that the first reports leave over start the roles that a rejection would skip.
    """
    steps: list[NewStep] = []
    spare -= sum(len(roots(asked(candidate.symbol).roles)) for candidate in candidates)
    for candidate in candidates:
        wanted = asked(candidate.symbol)
        concluded: dict[str, Any] = {"candidate_id": candidate.id, "stored": list(wanted.stored)}
        roles = {role: reason for role, reason in wanted.roles.items() if role != SKEPTIC}
        payload: dict[str, Any] = {
            "candidate_id": candidate.id,
            "instrument": candidate.instrument,
            "theses": (theses or {}).get(candidate.symbol, []),
            "capital": capital,
            "roles": roles,
        }
        if len(roles) < len(wanted.roles):
            concluded[SKEPTIC] = payload
        first = roots(roles)
        early = beside(roles)
        if early and len(early) <= spare:
            first, spare = (*first, *early), spare - len(early)
            payload["beside"] = list(early)
        join = NewStep(StepKind.CONCLUDE, parent, candidate.symbol, payload=concluded, waits=bool(first))
        steps += [join, *(_first_step(join.id, candidate.symbol, role, payload) for role in first)]
    return steps


def _first_step(parent: str, symbol: str, role: str, payload: dict[str, Any]) -> NewStep:
    if role in GRAPH_ROLES:
        play = features.part("graph_roles", role, GRAPH_ROLES[role].step, kind=Callable)
        step: NewStep = play(parent, symbol, payload)
        return step
    return NewStep(StepKind.REPORT, parent, symbol, role, payload)


def run_report(desk: Desk, step: ClaimedStep, held: HeldStep) -> Ending:
    """Run one role on one candidate, store its report, and start the roles that follow it."""
    symbol, payload = step.subject, step.payload
    context = desk.tool_context(step.run_id)
    look = look_at(desk, context, symbol)
    run = _run(desk, step, held, context)
    again = retry_of(desk, step, run)
    if again is not None:
        return again
    status, reason = status_of(run)
    grounding = grounding_of(run) if status is ReportStatus.COMPLETED else None
    report = _report(step, run, context, grounding)
    if report is not None and grounding is not None:
        announce(desk, step, grounding)
    children: list[NewStep] = []
    stance = report.verdict if report is not None else None
    early, cancels = payload.get("beside", ()), None
    roles = payload.get("roles", default_roles())
    if stance == Stance.REJECT and step.role in rejecting():
        cancels = f"{step.role} rejected it" if early and ends_all(roles, step.role) else None
    elif _goes_on(step, run, status):
        later = [role for role in following(roles, step.role) if role not in early]
        children = [_first_step(str(step.parent_id), symbol, role, payload) for role in later]
    error = reason if status is ReportStatus.FAILED else None
    result = {"status": status, "verdict": stance, "reason": reason, **left_out(run)}
    rows = (*run.rows, [report] if report is not None else [])
    writers = []
    if report is not None:
        writers.append(thesis_question(context.market, context.settings, report))
        if look is not None and status in LOOKED:
            writers.append(reviewed(context, step, report, look))
    return Done(result, rows, children, error=error, also=_all(writers), cancels=cancels)


def _all(writers: Iterable[Callable[[Session], None] | None]) -> Callable[[Session], None] | None:
    known = [one for one in writers if one is not None]

    def write(session: Session) -> None:
        session.flush()  # what is written refers to the report
        for one in known:
            one(session)

    return write if known else None


def _goes_on(step: ClaimedStep, run: RoleRun, status: ReportStatus) -> bool:
    """Not without a price, and where all reports are needed, not without this one."""
    if step.payload.get("all_needed"):
        return status is ReportStatus.COMPLETED
    return not (isinstance(run.outcome, Skipped) and run.outcome.no_data)


def _run(desk: Desk, step: ClaimedStep, held: HeldStep, context: ToolContext) -> RoleRun:
    """Without a price of the latest session there is no turn: nothing could be judged or traded."""
    symbol = step.subject
    unpriced = no_current_price(context.market, symbol)
    if unpriced is not None:
        return skipped(desk, step, step.role, symbol, Skipped(reason=unpriced, no_data=True))
    brief = brief_of(desk, step, context)
    memory = partial(symbol_memory, context=context, symbol=symbol)
    return run_role(desk, step, held, step.role, symbol, brief, memory=memory)


def _report(step: ClaimedStep, run: RoleRun, context: ToolContext, grounding: Grounding | None) -> Report | None:
    """Its confidence is capped by its grounding and by rogue calls; None without a turn."""
    turn = last_turn(run)
    if turn is None:
        return None
    status, reason = status_of(run)
    value = value_of(run)
    used = value if status is ReportStatus.COMPLETED else {}
    rogue = rogue_note(run)
    stance = counted(used.get("verdict"), is_grounded=grounding is None or grounding.is_grounded)
    return Report(
        run_id=step.run_id,
        step_id=step.id,
        candidate_id=step.payload["candidate_id"],
        turn_id=turn.id,
        symbol=step.subject,
        role=step.role,
        status=status,
        verdict=stance,
        confidence=ROGUE_CONFIDENCE if used and rogue else capped(used.get("confidence"), grounding),
        summary=value.get("summary", ""),
        key_risks=used.get("key_risks", []),
        answer=value or None,
        answer_schema=ROLES[step.role].answer.__name__ if value else None,
        grounding=grounding.model_dump(mode="json") if grounding is not None else None,
        thesis=_thesis(run, context) if status is ReportStatus.COMPLETED else None,
        reason=reason or "; ".join(filter(None, (rogue, _doubt(used, stance, grounding)))) or None,
        author=turn.model,
        market_at=context.clock.now(),
    )


def _thesis(run: RoleRun, context: ToolContext) -> dict[str, Any] | None:
    """Return the thesis of a completed report as it is kept."""
    if run.thesis is None:
        return None
    try:
        benchmark = universe_of_verdicts(context.market, context.settings)
    except DeskError:
        benchmark = context.settings.universe
    return run.thesis.model_copy(update={"benchmark": benchmark}).model_dump(mode="json")


def _doubt(answer: Mapping[str, Any], stance: str | None, grounding: Grounding | None) -> str | None:
    """Return in one line why a completed report counts for less than it says; None where it counts in full."""
    why = lack(grounding)
    if why is None or stance == answer.get("verdict"):
        return why
    return f"{why}; so its {answer['verdict']} counts as {stance}"


def announce(desk: Desk, step: ClaimedStep, grounding: Grounding) -> None:
    figures = [one.figure for one in grounding.unsupported]
    event = ReportGrounded(
        run_id=step.run_id, mode="research", role=step.role, symbol=step.subject, figures=grounding.figures,
        supported=grounding.supported, share=grounding.share, unsupported=figures,
    )  # fmt: skip
    desk.telemetry.emit(event)


def reduce_to_verdict(desk: Desk, step: ClaimedStep, held: HeldStep) -> Ending:
    with desk.store.read() as session:
        required = session.get_one(Run, step.run_id).params.get("required_roles", required_roles(desk.settings))
        own = select(Report).where(Report.run_id == step.run_id, Report.symbol == step.subject)
        found: Sequence[Report] = session.exec(own).all()
        joins = [step.id, *filter(None, [step.payload.get("before")])]
        steps: Sequence[Step] = session.exec(select(Step).where(col(Step.parent_id).in_(joins))).all()
        stored = step.payload.get("stored")
        earlier = session.exec(select(Report).where(col(Report.id).in_(stored))).all() if stored else []
    # Reports that were begun beside a role which then rejected are not used, as if they had waited for it.
    unused = _unused(found)
    found = [row for row in found if row.role not in unused]
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
    question = verdict_question(market, desk.settings_of(step.run_id), verdict)
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
    cost = round_trip(closes[0] if closes else None, context.settings)
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
    first, last = exchange_day(row.market_at), market.clock.session()
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


def research_turns(params: Mapping[str, Any], settings: Settings, held: int = 0) -> dict[str, int]:
    """Return the turns of each role, as of `kinds.Workflow`: of a portfolio those of the roles that are due."""
    if PLANS in params:
        return dict(Counter(due["role"] for plan in params[PLANS] for due in plan["due"] if due["role"] in ROLES))
    return {role: len(params["symbols"]) for role in params["roles"] if role in ROLES}


class ResearchRequest(Request):
    """Research on some symbols, or, without any, on what the account holds; force: also roles that are not due."""

    kind: Literal["research"]
    symbols: list[Symbol] | None = Field(default=None, min_length=1, max_length=500)
    force: StrictBool = False

    def open(self, app: DeskApp, look: Look | None = None) -> Run:
        if self.symbols:
            return open_research(app, self.symbols, look)
        return open_portfolio(app, force=self.force, look=look)


WORKFLOWS = (
    Workflow(
        RunKind.RESEARCH,
        "research",
        (
            StepSpec(
                *(StepKind.REPORT, "research", run_report, "research", "reports"),
                turn=True,
                fan_out="chord",
                body=StepKind.CONCLUDE,
                after="`merge` or the run; the `report` of the role that its own follows",
                writes=("report", "question", "thesis_question"),
            ),
            StepSpec(
                *(StepKind.CONCLUDE, "ops", reduce_to_verdict, "research", "verdicts"),
                spine=True,
                join=True,
                after="every `report` on its candidate",
                writes=("verdict", "verdict_report", "analysis", "question", "verdict_question"),
            ),
        ),
        turns=research_turns,
        request=ResearchRequest,
    ),
)


def spare_turns(session: Session, settings: Settings, run_id: str) -> int:
    """Return how many turns of one worker are idle now; 0 without DESK_SPECULATE or when half a budget is used."""
    if not settings.speculate or not budgets.has_spare(session, settings, run_id):
        return 0
    limits = (turns_at_once(settings, model) for model in role_models(settings).values())
    slots = min([settings.codex_turns, *(limit for limit in limits if limit is not None)])
    due = session.exec(
        select(func.count())
        .select_from(Step)
        .join(Run, col(Run.id) == col(Step.run_id))
        .where(col(Run.state) == RunState.RUNNING, col(Step.state).in_((StepState.READY, StepState.RUNNING)))
        .where(col(Step.kind).in_(kinds.kinds_of(lambda spec: spec.turn)))
    ).one()
    return max(slots - due, 0)


def beside(roles: Iterable[str]) -> tuple[str, ...]:
    """Roles that wait only for the rejection of one that starts at once, without graphs, which are many turns."""
    given = tuple(roles)
    found = (later for first in roots(given) if first in rejecting() for later in following(given, first))
    return tuple(role for role in found if role not in GRAPH_ROLES and not _reads(role, given))


def ends_all(roles: Iterable[str], role: str) -> bool:
    """Return whether the REJECT of a role ends the whole research of a candidate: all its other roles come after."""
    given = set(roles)
    return given - {role} <= after(given, role)


def _reads(role: str, given: Sequence[str]) -> bool:
    return role in ROLES and not set(given).isdisjoint(ROLES[role].reads)


def brief_of(desk: Desk, step: ClaimedStep, context: ToolContext) -> ResearchSubject | SkepticSubject | AnalystSubject:
    """Return the subject of a step that reports on a candidate, of the type that its role has. The step's payload has
    instrument, theses and capital; for an analyst it may have `analysis`, an AnalysisRequest."""
    role, payload, settings = ROLES[step.role], step.payload, context.settings
    found = validator_subject(step.subject, payload["instrument"], payload["theses"], settings, payload["capital"])
    if role.subject is SkepticSubject:
        return skeptic_subject(found, **payload["argued"])
    if role.subject is not AnalystSubject:
        return found
    request = None
    if step.role in PLANNERS:
        asked = payload.get("analysis")
        request = AnalysisRequest.model_validate(asked) if asked is not None else own_request(settings)
    with desk.store.read() as session:
        earlier = completed_answers(session, step.run_id, step.subject, role.reads)
    return analyst_subject(found, request, earlier)


def own_request(settings: Settings) -> AnalysisRequest:
    """Return what the options analyst is asked for where no person asked: a put that cash secures where the settings
    allow options, else shares."""
    return AnalysisRequest(strategy="csp" if settings.options_allowed else "equity")


def completed_answers(session: Session, run_id: str, symbol: str, roles: Sequence[str]) -> dict[str, dict[str, Any]]:
    rows = session.exec(
        select(Report)
        .where(
            Report.run_id == run_id,
            Report.symbol == symbol,
            Report.status == ReportStatus.COMPLETED,
            col(Report.role).in_(roles),
        )
        .order_by(col(Report.role))
    ).all()
    return {row.role: row.answer for row in rows if row.answer is not None}


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
