"""The core's acts that may be proposed: start and stop runs, halt, approve and deny.

A run that is proposed makes no order: it is of a kind that can be kept from it, and is. The budget of a run is the
desk's own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, StringConstraints
from sqlmodel import Session

from chordesk.models.database.lookup import ACTS, by_prefix
from chordesk.models.errors import DeskError, NotConfigured, NotWaiting, ServiceError, UsageError
from chordesk.models.orders import BrokerPosition
from chordesk.models.settings.running_desk import is_backtest
from chordesk.models.states import ORDER_WORKING, RUN_FINAL, ApprovalState, OrderState, TradingState
from chordesk.models.tables.orders import Order
from chordesk.models.tables.runs import Run
from chordesk.models.text import one_line
from chordesk.tasks import schedules
from chordesk.tasks.approval_requests import WaitingOrder, WaitingRequest, answer_in, asked_of, waiting
from chordesk.tasks.asking.wishes import approving, halting, starting, stopping
from chordesk.tasks.engine import kinds, requests
from chordesk.tasks.proposals import (
    Confirmed,
    Office,
    Proposable,
    ProposalArguments,
    ProposalCard,
    ProposalOutcome,
    ProposalScope,
)
from chordesk.tasks.worker.messages import DeskApp, WorkerNotifier
from chordesk.tools.decimals import money, plain

Text = Annotated[str, StringConstraints(min_length=1, max_length=80)]
Id = Annotated[str, StringConstraints(pattern=r"^[0-9A-Za-z_.=^-]{1,64}$")]
Name = Annotated[str, StringConstraints(pattern=f"^{schedules.NAME_RULE}$")]
Fields = dict[str, str | bool | int | float | list[str]]
BUDGET = "budget_tokens"


class Start(ProposalArguments):
    """A run. given: the fields that POST /runs takes of its kind."""

    run: Text
    symbols: list[Id] = Field(default_factory=list, max_length=20)
    given: Fields = Field(default_factory=dict, max_length=12)


class OneRun(ProposalArguments):
    run: Id


class Nothing(ProposalArguments):
    """No arguments."""


class OneQuestion(ProposalArguments):
    """What waits for a person: the id of an order, its approval or a request, or the symbol of the one order."""

    id: Id
    why: Annotated[str, StringConstraints(max_length=200)] | None = None


def without_orders(kind: str, symbols: Sequence[str], given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a run that makes no order. Raises UsageError for a kind that cannot be kept from it, and for
    a budget of its own."""
    workflow = kinds.workflow_of(kind)
    if requests.lack_of(kind) is not None or workflow is None or workflow.without_orders is None:
        quiet = [one for one in requests.startable() if _fixed(one) is not None]
        reason = f"a run of the kind {one_line(kind, 40)} is not proposed"
        raise UsageError(reason, remedy=f"choose among {', '.join(quiet)}; the terminal starts others")
    if BUDGET in given:
        raise UsageError("a run that is proposed has the desk's own budget", remedy=f"leave {BUDGET} out")
    fixed = dict(workflow.without_orders)
    if wrong := [name for name in fixed if given.get(name, fixed[name]) != fixed[name]]:
        raise UsageError(f"a run that is proposed makes no order: {wrong[0]}", remedy=f"leave {wrong[0]} out")
    return {**given, **({"symbols": list(symbols)} if symbols else {}), **fixed}


def _fixed(kind: str) -> Mapping[str, Any] | None:
    workflow = kinds.workflow_of(kind)
    return workflow.without_orders if workflow is not None and workflow.request is not None else None


def word_start(office: Office, asked: Start) -> ProposalCard:
    from chordesk.tasks.reading.outlook import spending
    from chordesk.tasks.workflows.runs import planned

    given = without_orders(asked.run, asked.symbols, asked.given)
    request = requests.made(asked.run, given, "a proposal")
    try:
        app = forecasting(office)
        run = planned(app, request)
        with office.store.read() as session:
            cost = f"forecast: {spending(session, office.settings, run).said}"
        symbols = run.params.get("symbols") or []
    except UsageError:
        raise
    except DeskError as error:
        cost, symbols = f"forecast: not known: {error.args[0]}", asked.symbols
    which = f"of {listed(symbols)}" if symbols else "of the desk's own symbols"
    shown = [f"{name}: {_said(value)}" for name, value in asked.given.items() if name != "symbols"]
    return ProposalCard(
        title=f"start the run {asked.run} {which}",
        lines=[*shown, f"account {office.account}; the run makes no order"],
        cost=cost, arguments=asked.model_dump(),
    )  # fmt: skip


def forecasting(office: Office) -> DeskApp:
    """Return an app that sends nothing, and so needs no Redis: runs are planned with it."""
    app = DeskApp("forecast", broker="memory://", set_as_current=False)
    app.desk = office.desk()
    return app


def listed(symbols: Sequence[str]) -> str:
    more = f" and {len(symbols) - 5} more" if len(symbols) > 5 else ""
    return f"{', '.join(symbols[:5])}{more}"


def _said(value: Any) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def _start(office: Office, act: Confirmed) -> ProposalOutcome | None:
    """Open the run, of which there is one in the database however often this is called."""
    from chordesk.tasks.workflows.scheduled import open_once, run_of

    if office.app is None:
        return None
    asked: Start = act.arguments
    app, schedule = office.app(), f"proposal:{act.id}"
    run_id = run_of(app, schedule, ONCE)
    if run_id is None:
        given = without_orders(asked.run, asked.symbols, asked.given)
        request = requests.made(asked.run, given, act.by)
        run_id = open_once(app, request, schedule, ONCE) or run_of(app, schedule, ONCE)
    if run_id is None:
        return None
    return ProposalOutcome(f"run {run_id} has begun", run_id=run_id)


ONCE = "once"


def _run_of(session: Session, office: Office, id_: str) -> Run:
    run = by_prefix(session, Run, id_, least=ACTS)
    if run.account != office.account and not is_backtest(run.account):
        raise UsageError(f"run {run.id} is of the account {run.account}", remedy=f"this desk has {office.account}")
    return run


def _word_stop(office: Office, asked: OneRun) -> ProposalCard:
    from chordesk.tasks.reading.run_details import outcome

    with office.store.read() as session:
        run = _run_of(session, office, asked.run)
        if run.state in RUN_FINAL:
            raise NotWaiting(f"run {run.id} has ended: it is {run.state}", remedy="`desk runs list` shows what runs")
        line = outcome(session, run)
    return ProposalCard(
        title=f"stop run {run.id[:8]} of the kind {run.kind}",
        lines=[one_line(line, 200), "its turns are interrupted, and none of its orders is submitted"],
        arguments={"run": run.id},
    )


def _bound_run(session: Session, office: Office, asked: OneRun) -> dict[str, str]:
    run = _run_of(session, office, asked.run)
    return {f"run {run.id[:8]}": "has ended" if run.state in RUN_FINAL else "goes on"}


def _stop(session: Session, office: Office, act: Confirmed) -> ProposalOutcome:
    from chordesk.tasks.engine.steps import open_runs_below
    from chordesk.tasks.worker.control import mark

    run = act.arguments.run
    for inner in open_runs_below(session, [run]):
        mark(session, inner)
    found = mark(session, run)
    return ProposalOutcome(
        f"run {run[:8]} was over: it is {found.state}" if found.over else f"run {run[:8]} is stopping"
    )


def _after_stop(office: Office, asked: OneRun) -> None:
    """Tell the workers; else they read it within a third of a lease."""
    with suppress(ServiceError):
        WorkerNotifier(office.settings).stop([asked.run])


def _word_halt(office: Office, asked: Nothing) -> ProposalCard:
    from chordesk.tools.ledger import currency_of_account
    from chordesk.tools.orders.accounts import account_names
    from chordesk.tools.orders.booking import open_orders
    from chordesk.tools.orders.protection import left_bare

    with office.store.read() as session:
        names = account_names(session, office.account)
        orders = [row for row in waiting(session) if isinstance(row, WaitingOrder)]
        sent = [one for name in names for one in open_orders(session, name) if one.state in ORDER_WORKING]
        unsent = sum(one.state == OrderState.APPROVED for name in names for one in open_orders(session, name))
        bare = ", ".join(f"{plain(one.quantity)} {one.symbol}" for one in left_bare(session, office.settings))
        currency = currency_of_account(session, office.account)
    stops = sum(one.protects is not None for one in sent)
    total = sum(row.approval.notional for row in orders if row.order.account == office.account)
    return ProposalCard(
        title=f"halt trading of every account: {listed(names)}",
        lines=[
            f"waiting orders that are denied: {len(orders)}, {money(total)} {currency} of them on {office.account}",
            *([f"approved orders that are not sent any more: {unsent}"] if unsent else []),
            f"open orders that the trade worker cancels: {len(sent) - stops}; protective stops that stay: {stops}",
            *([f"ATTENTION, without a stop until trading resumes: {bare}"] if bare else []),
            "no position is closed",
            "only the terminal or the page lets the desk trade again",
        ],
        arguments={},
    )


def _halt(office: Office, act: Confirmed) -> ProposalOutcome:
    """Halt, unless that was done: an account that trades again since has had its halt, and so has one that is halted
    since and of which nothing waits. A process that ended in the middle of it has left the rest to do."""
    from chordesk.models.tables.orders import Trading
    from chordesk.tools.orders import kill_switch

    with office.store.read() as session:
        row = session.get(Trading, office.account)
        waits = any(isinstance(one, WaitingOrder) for one in waiting(session))
    if row is not None and row.since >= act.at and (row.state != TradingState.HALTED or not waits):
        return ProposalOutcome(f"trading was halted; by now it is {row.state}, by {one_line(row.by, 80)}")
    told = Told()
    request = kill_switch.HaltRequest(act.by, f"halted by a person, proposal {act.id[:8]}")
    result = kill_switch.halt(office.settings, request, lambda: office.store, no_broker, told)
    first = "trading is halted" if result.in_force else "NOTHING IS HALTED"
    return ProposalOutcome("; ".join((first, *told.lines)), done=result.in_force)


def no_broker(store: Any) -> Any:
    raise NotConfigured("the trade worker has the broker's keys")


class Told:
    """Listener that words each step of a halt."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def file_written(self, path: Path) -> None:
        """The first words say that it is in force."""

    def account_halted(self, account: str, denied: Sequence[str]) -> None:
        self.lines.append(f"account {account} halted; waiting orders denied: {len(denied)}")

    def orders_left_to_worker(self) -> None:
        self.lines.append("the trade worker cancels open orders; protective stops stay")

    def orders_cancelled(self, left: Sequence[str], protective: Sequence[str]) -> None:
        """No broker is asked here."""

    def positions_closed(self, orders: Sequence[Order], filled: Mapping[str, Any]) -> None:
        """Nothing is closed."""

    def others_left(self, positions: Sequence[BrokerPosition]) -> None:
        """Nothing is closed."""

    def failed(self, error: DeskError) -> None:
        if not isinstance(error, NotConfigured):
            self.lines.append(one_line(str(error.args[0]), 200))


def _asked(session: Session, office: Office, id_: str) -> WaitingOrder | WaitingRequest:
    """Return what waits by its id, or the one order on a symbol that waits. Raises DeskError for what waits for nobody,
    and for an order of another account."""
    rows = waiting(session)
    on = [row for row in rows if isinstance(row, WaitingOrder) and row.order.symbol == id_.upper()]
    if len(on) > 1:
        ids = ", ".join(row.order.id for row in on)
        raise UsageError(f"{len(on)} orders on {id_.upper()} wait", remedy=f"name one: {ids}")
    found = on[0] if on else asked_of(session, id_)
    if isinstance(found, WaitingOrder) and found.order.account != office.account:
        reason = f"order {found.order.id} is of the account {found.order.account}"
        raise UsageError(reason, remedy=f"this desk has {office.account}")
    return found


def _word_answer(office: Office, asked: OneQuestion, *, approve: bool) -> ProposalCard:
    word = "approve" if approve else "deny"
    with office.store.read() as session:
        row = _asked(session, office, asked.id)
    if row.approval.state != ApprovalState.PENDING:
        remedy = "`desk approvals` lists what waits"
        raise NotWaiting(f"{asked.id} waits for no person: it is {row.approval.state}", remedy=remedy)
    why = [f"your reason: {asked.why}"] if asked.why else []
    if isinstance(row, WaitingRequest):
        if approve and row.approval.detail.get("questions"):
            raise UsageError("the request has questions", remedy="answer it on the page, or by desk approve --answer")
        title = f"{word} what {row.approval.role} asks for, a {row.approval.kind}"
        lines = [row.what, f"request {row.approval.id[:8]}, run {row.approval.run_id[:8]}"]
    else:
        order = row.order
        amount = f"{money(row.approval.notional)} {row.currency} on {order.account}"
        title = f"{word} an order: {order.side or order.action} {plain(order.quantity or 0)} "
        title += f"{order.contract or order.symbol}, {amount}"
        kind = "real money" if office.settings.real_money else "play money"
        lines = [f"{kind}; {_terms(order)}", f"the trader's reason: {row.why or 'none was given'}"]
        lines += _further(row)
        lines += ["it goes to the broker as it was previewed" if approve else "the order is denied"]
    whole = {"id": row.approval.id, **({"why": asked.why} if asked.why else {})}
    return ProposalCard(title=title, lines=[*lines, *why], arguments=whole)


def _terms(order: Order) -> str:
    prices = [(name, getattr(order, f"{name}_price")) for name in ("limit", "stop")]
    terms = [f"{name} {money(price)}" for name, price in prices if price is not None]
    return ", ".join([order.order_type or "no type", *terms, order.time_in_force or "no time in force"])


def _further(row: WaitingOrder) -> list[str]:
    from chordesk.tools.rogue_calls import note

    told = note(row.rogue)
    lines = [f"ATTENTION, it rests on {told}"] if told is not None else []
    return [*lines, f"order {row.order.id[:8]}, preview {row.approval.payload_hash[:12]}"]


def _bound_answer(session: Session, office: Office, asked: OneQuestion) -> dict[str, str]:
    row = _asked(session, office, asked.id)
    state = f"it {'waits' if row.approval.state == ApprovalState.PENDING else f'is {row.approval.state}'}"
    if isinstance(row, WaitingOrder):
        return {"the preview": row.approval.payload_hash, "the order": f"{state}, order {row.order.state}"}
    return {"the request": state}


def _answer(session: Session, office: Office, act: Confirmed, *, approve: bool) -> ProposalOutcome:
    asked: OneQuestion = act.arguments
    row = _asked(session, office, asked.id)
    expect = row.approval.payload_hash if isinstance(row, WaitingOrder) else None
    why = asked.why or (None if approve else "denied by a person")
    found = answer_in(session, office.settings, asked.id, approve=approve, by=act.by, why=why, expect=expect)
    if found.state is ApprovalState.EXPIRED:
        return ProposalOutcome(found.too_late, done=False)
    then = "; it is sent within a minute" if approve and found.order is not None else ""
    return ProposalOutcome(f"{found.subject} is {found.state}{then}")


def _after_answer(office: Office, asked: OneQuestion) -> None:
    with suppress(DeskError):
        WorkerNotifier(office.settings).trade()


def _word_approve(office: Office, asked: OneQuestion) -> ProposalCard:
    return _word_answer(office, asked, approve=True)


def _word_deny(office: Office, asked: OneQuestion) -> ProposalCard:
    return _word_answer(office, asked, approve=False)


def _approve(session: Session, office: Office, act: Confirmed) -> ProposalOutcome:
    return _answer(session, office, act, approve=True)


def _deny(session: Session, office: Office, act: Confirmed) -> ProposalOutcome:
    return _answer(session, office, act, approve=False)


START = Proposable(ProposalScope.START, Start, word_start, apart=_start, read=starting, names=("symbols",), opens=True)
STOP = Proposable(
    ProposalScope.STOP,
    OneRun,
    _word_stop,
    act=_stop,
    bound=_bound_run,
    after=_after_stop,
    read=stopping,
    names=("run",),
)
HALT = Proposable(ProposalScope.HALT, Nothing, _word_halt, apart=_halt, read=halting)
APPROVE = Proposable(
    ProposalScope.DECIDE, OneQuestion, _word_approve, act=_approve, bound=_bound_answer, after=_after_answer,
    read=approving("approve"), names=("id",),
)  # fmt: skip
DENY = Proposable(
    ProposalScope.DECIDE, OneQuestion, _word_deny, act=_deny, bound=_bound_answer, read=approving("deny"), names=("id",)
)
