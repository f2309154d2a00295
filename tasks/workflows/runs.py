"""The beginning and the end of every run: its row with its first steps, and the step that closes it."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from functools import reduce
from operator import or_
from typing import Annotated, Any, get_args

from pydantic import Field, StringConstraints, TypeAdapter, ValidationError
from sqlmodel import Session, select

from chordesk.agents.prompting import require_contexts, require_prompts
from chordesk.models import features
from chordesk.models.answers import Frozen
from chordesk.models.errors import UsageError
from chordesk.models.settings import Settings
from chordesk.models.settings.running_desk import in_run, snapshot
from chordesk.models.states import RunState, StepKind
from chordesk.models.tables.columns import new_id, utcnow
from chordesk.models.tables.runs import Run, Step
from chordesk.models.text import utc
from chordesk.tasks.bootstrap import Desk
from chordesk.tasks.engine import graph, kinds, policy
from chordesk.tasks.engine.kinds import StepSpec
from chordesk.tasks.engine.leases import HeldStep
from chordesk.tasks.engine.steps import ClaimedStep, NewStep, ReadyStep
from chordesk.tasks.engine.summary import run_state, summarise, without_reports
from chordesk.tasks.worker.dispatch import send
from chordesk.tasks.worker.endings import Done, Ending
from chordesk.tasks.worker.messages import DeskApp
from chordesk.tasks.worker.order_pass import meet_past_sessions
from chordesk.tools.ledger import ensure_account
from chordesk.tools.market.protocol import MarketData

Writer = Callable[[Session, Run, str], list[NewStep]]
Look = Callable[[Run], None]
ID = r"^[0-9A-Za-z_.-]+$"
Person = Annotated[
    str,
    StringConstraints(min_length=1, max_length=80, pattern=r"^\w[\w .,'@+-]*$"),
    Field(description="the person's name, for the record: the token does not identify a person"),
]
# No name of a file: a universe of the command line may be one.
Symbol = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9-]{0,9}(\.[A-Za-z]{1,2})?$")]


class Request(Frozen):
    """A request of a program to start a run. Each kind of run has its own, with `kind` and further fields."""

    kind: str
    by: Person
    budget_tokens: int | None = Field(default=None, ge=1, description="of the run, in place of the desk's")

    def open(self, app: DeskApp, look: Look | None = None) -> Run:
        """Open the run with the settings of the app's desk, and return it as it begins. look: as of `open_run`."""
        raise NotImplementedError

    @classmethod
    def like(cls, run: Run, settings: Settings) -> dict[str, Any]:
        """Return what a person gave to start the run, by the names of the fields. settings: those of the desk, whose
        values need not be given."""
        return {name: value for name, value in run.params.items() if name in cls.model_fields and value is not None}


def with_budget(tokens: int | None, look: Look | None = None) -> Look:
    """Return what gives a run that is not written yet its budget, and then looks at it."""

    def budgeted(run: Run) -> None:
        if tokens is not None:
            run.settings = {**(run.settings or {}), "budget_run_tokens": tokens}
        if look is not None:
            look(run)

    return budgeted


def own_symbols(run: Run, settings: Settings) -> dict[str, Any]:
    """Return the symbols of a run, empty where they are those of the desk's own universe: that may have other members
    on another day."""
    universe = run.params.get("universe")
    return {} if universe in (None, settings.universe) else {"symbols": run.params["symbols"]}


def request_like(run: Run, settings: Settings) -> dict[str, Any]:
    """Return the request that starts another run like this one, but for who asks. Raises UsageError for a kind of run
    that no request starts."""
    for made in kinds.requests():
        if run.kind in get_args(made.model_fields["kind"].annotation):
            budget = (run.settings or {}).get("budget_run_tokens")
            more = {"budget_tokens": budget} if budget and budget != settings.budget_run_tokens else {}
            return {"kind": run.kind, **made.like(run, settings), **more}
    raise UsageError(f"no request starts a run of the kind {run.kind}", remedy="`desk --help` names its command")


class _Planned(Exception):
    def __init__(self, run: Run) -> None:
        self.run = run


def planned(app: DeskApp, asked: Request) -> Run:
    """Return the run that a request would open, without writing it. Raises what opening it would."""

    def look(run: Run) -> None:
        raise _Planned(run)

    try:
        return asked.open(app, with_budget(asked.budget_tokens, look))
    except _Planned as found:
        return found.run


def request_type() -> Any:
    """Return the type of all requests, which `kind` tells apart."""
    return Annotated[reduce(or_, kinds.requests()), Field(discriminator="kind")]


def request_of(text: str) -> Request:
    """Read a request from JSON. Raises UsageError."""
    try:
        return TypeAdapter[Request](request_type()).validate_json(text)
    except ValidationError as error:
        wrong = (f"{'.'.join(map(str, one['loc'][1:])) or 'the request'}: {one['msg']}" for one in error.errors())
        raise UsageError("; ".join(wrong), remedy="give what POST /runs takes") from None


def new_run(
    desk: Desk,
    kind: str,
    params: dict[str, Any],
    *,
    parent: str | None = None,
    schedule: str | None = None,
    slot: str | None = None,
    settings: Settings | None = None,
    account: str | None = None,
    market: MarketData | None = None,
) -> Run:
    """Return the row of a run that this process opens. slot: at most one run of a schedule has it. settings, account,
    market: those of the run, where they are not this process's; its deadline is of the settings."""
    now = utcnow()
    return Run(
        id=new_id(),
        kind=kind,
        state=RunState.RUNNING,
        account=account or desk.settings.account,
        **label_of(desk, market),
        params=params,
        settings=snapshot(settings or desk.settings),
        schedule=schedule,
        slot=slot,
        parent_run_id=parent,
        created_at=now,
        deadline_at=now + dt.timedelta(minutes=(settings or desk.settings).run_deadline_minutes),
    )


def open_run(app: DeskApp, run: Run, write: Writer, look: Look | None = None) -> Run:
    """Write a run with its first steps in one transaction, send them and return the run. write: adds the workflow's own
    rows and returns the first steps; called with the session, the run and the id of its finish step, which is their
    parent. look: sees the run before it is written, may change its settings, and raises to stop it. Raises UsageError
    for a role whose smallest prompt its model cannot hold, for settings of a feature that is switched off, and for a
    kind of a package whose tables cannot be used."""
    desk = app.desk
    if (unready := features.unready().get(kinds.feature_of(run.kind) or "")) is not None:
        raise UsageError(str(unready), remedy=unready.remedy)
    settings = in_run(desk.settings, run.settings, run.account)
    features.require_served(settings)
    require_prompts(settings)
    require_contexts(settings, kinds.turns_of(run.kind, run.params, settings))
    if look is not None:
        look(run)
    meet_past_sessions(desk, run.account)
    finish = new_id()
    ready: list[ReadyStep] = []
    with desk.store.session() as session:
        ensure_account(session, run.account, desk.settings.starting_cash, desk.settings.currency)
        graph.open_run(session, run, finish, policy.STEP_ATTEMPTS)
        first = write(session, run, finish)
        ready = graph.add(session, run.id, first, policy.STEP_ATTEMPTS)
    send(app, ready)
    return run


def close_run_step(desk: Desk, step: ClaimedStep, held: HeldStep) -> Ending:
    with desk.store.read() as session:
        run = session.get_one(Run, step.run_id)
        steps = session.exec(select(Step).where(Step.run_id == run.id, Step.id != step.id)).all()
        state, notes = run_state(steps)
        if (why := without_reports(session, run.id)) is not None:
            state, notes = RunState.FAILED, [why, *notes]
        summary = summarise(session, run, desk.settings)
    return Done({"state": state}, also=lambda one: graph.close_run(one, run.id, state, summary, notes, sends=True))


FINISH = StepSpec(StepKind.FINISH, "ops", close_run_step, join=True, after="every step of the run", writes=("run",))


def label_of(desk: Desk, market: MarketData | None = None) -> dict[str, Any]:
    """Return the provider, model, market and market time of a run. market: where it is on another day than this
    process."""
    market = market or desk.market
    return {
        "provider": desk.settings.provider,
        "model": desk.settings.model_label,
        "market": market.name,
        "market_now": market.clock.now(),
    }


def moment(market: str, at: dt.datetime) -> str:
    """Return a market and its time as text."""
    return f"{market} at {utc(at)}"
