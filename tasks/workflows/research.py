"""Research on some symbols or on what the account holds: the first steps of each candidate. The quick report comes
alone, then the other roles as a flat chord (`reporting`), and their verdict (`concluding`)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import Any, Literal

from pydantic import Field, StrictBool
from sqlmodel import Session, col, func, select

from chordesk.agents.role_models import role_models, turns_at_once
from chordesk.agents.roles import (
    GRAPH_ROLES,
    ROLES,
    SKEPTIC,
    beside,
    default_roles,
    required_roles,
    research_roles,
    roots,
)
from chordesk.models import features
from chordesk.models.answers import (
    Instrument,
)
from chordesk.models.settings import Settings
from chordesk.models.states import RunKind, RunState, StepKind, StepState
from chordesk.models.tables.orders import Account
from chordesk.models.tables.runs import Candidate, Run, Step
from chordesk.tasks.engine import budgets, kinds
from chordesk.tasks.engine.kinds import StepSpec, Workflow
from chordesk.tasks.engine.steps import NewStep
from chordesk.tasks.reading.accounts import PLANS, DueReason
from chordesk.tasks.worker.messages import DeskApp
from chordesk.tasks.workflows.concluding import reduce_to_verdict
from chordesk.tasks.workflows.holding_reviews import plan_portfolio, reviewing
from chordesk.tasks.workflows.reporting import report_step, run_report
from chordesk.tasks.workflows.runs import Look, Request, Symbol, new_run, open_run
from chordesk.tools.market.universe import resolve_universe
from chordesk.tools.portfolio.holdings import ELSEWHERE


def open_research(app: DeskApp, symbols: Sequence[str], look: Look | None = None) -> Run:
    found = resolve_universe(",".join(symbols), app.desk.market)
    return _open(app, found, "manual", lambda run, symbol: all_roles(run, DueReason.MANUAL), look=look)


def open_portfolio(app: DeskApp, *, force: bool = False, look: Look | None = None) -> Run:
    """Of each holding, of the account and elsewhere, the roles that are due, or all of them. Raises UsageError when
    nothing is held."""
    plans = {one.symbol: one for one in plan_portfolio(app.desk, force=force)}

    def asked(run: Run, symbol: str) -> RequestedRoles:
        due, skipped = plans[symbol].due, plans[symbol].skipped
        stored = [one.report_id for one in skipped if one.report_id]
        return RequestedRoles({one.role: one.reason for one in due}, stored)

    kept = {PLANS: [one.model_dump(mode="json") for one in plans.values()]}
    elsewhere = [name for name, one in plans.items() if ELSEWHERE in one.missing]
    return _open(app, plans, "position", asked, kept, look, elsewhere)


def _open(
    app: DeskApp,
    symbols: Iterable[str],
    origin: Literal["manual", "position"],
    asked: Callable[[Run, str], RequestedRoles],
    extra: Mapping[str, Any] = MappingProxyType({}),
    look: Look | None = None,
    elsewhere: Collection[str] = (),
) -> Run:
    """asked: returns the roles of a symbol. extra: parameters of the run besides those of all research. elsewhere:
    symbols that are held by other accounts alone."""
    desk = app.desk
    params = {"symbols": list(symbols), **researchers(desk.settings), "trade": False, **extra}

    def write(session: Session, run: Run, finish: str) -> list[NewStep]:
        candidates = unscreened(run.id, symbols, origin, first=1)
        for one in candidates:
            one.origin = "elsewhere" if one.symbol in elsewhere else origin
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
        steps += [join, *(report_step(join.id, candidate.symbol, role, payload) for role in first)]
    return steps


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
                *(StepKind.REPORT, "research", reviewing(run_report), "research", "reports"),
                turn=True,
                fan_out="chord",
                body=StepKind.CONCLUDE,
                also_in=(RunKind.SCREEN, RunKind.TRADE, RunKind.ANALYZE),
                after="`merge` or the run; the `report` of the role that its own follows",
                writes=("report", "report_basis", "question", "thesis_question", "role_schedule"),
            ),
            StepSpec(
                *(StepKind.CONCLUDE, "ops", reduce_to_verdict, "research", "verdicts"),
                spine=True,
                join=True,
                also_in=(RunKind.SCREEN, RunKind.TRADE),
                after="every `report` on its candidate",
                writes=("verdict", "verdict_report", "analysis", "question", "verdict_question"),
            ),
        ),
        turns=research_turns,
        request=ResearchRequest,
        without_orders={},
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
