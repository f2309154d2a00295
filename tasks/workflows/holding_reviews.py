"""Research over what the account holds: which roles are due and why, the plan of a run, its result, and the
schedule."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial, wraps
from typing import Any

from sqlmodel import Session, col, select

from chordesk.agents.roles import after, rejecting, research_roles, validators
from chordesk.models.answers import ReportStatus, Stance
from chordesk.models.errors import UsageError
from chordesk.models.tables.columns import dialect_insert, utcnow
from chordesk.models.tables.runs import Report, Run
from chordesk.models.tables.runtime import RoleSchedule
from chordesk.models.text import span
from chordesk.tasks.bootstrap import Desk
from chordesk.tasks.engine.leases import HeldStep
from chordesk.tasks.engine.steps import ClaimedStep
from chordesk.tasks.reading.accounts import PLANS, DueReason, DueRole, HoldingPlan, SkippedRole, signed
from chordesk.tasks.worker.endings import Done, Ending, Handler
from chordesk.tasks.worker.order_pass import meet_past_sessions
from chordesk.tools.market.actions import growth_since
from chordesk.tools.market.clock import account_day, day_of
from chordesk.tools.market.prices import actions_of
from chordesk.tools.market.protocol import MarketData
from chordesk.tools.orders.protection import held_plans
from chordesk.tools.portfolio.holdings import Holding, held_elsewhere, holding_elsewhere, holdings, holds
from chordesk.tools.registry import ToolContext

AGE = dt.timedelta(hours=24)  # market time after which a role looks at a holding again, whatever the figures


@dataclass(frozen=True, slots=True)
class HoldingSnapshot:
    """A holding at one review, past or present: market time and figures.

    price in account currency, unrealized as a share of the cost; None where it was not known.
    """

    at: dt.datetime
    price: float | None
    unrealized: float | None


@dataclass(frozen=True, slots=True)
class NotDue:
    due_at: dt.datetime  # market time at which its age makes the role due, if no figure does so before
    blind: tuple[str, ...]  # the figures that cannot, and why


def due(
    last: HoldingSnapshot | None,
    now: HoldingSnapshot,
    move: float,
    *,
    asked: bool = False,
    review: str | None = None,
) -> tuple[DueReason, str] | NotDue:
    """Return why a role is due, with the figure in a text, or when it is next.

    move: since the last review, of the price as a fraction of it, or of the gain as a share of the cost. last: None
    when the role never reviewed the holding; a review of later than now counts as none. asked: a person wants it.
    review: day of its plan's review. A figure that is missing at either review triggers nothing.
    """
    if asked:
        return (DueReason.MANUAL, "manual")
    if last is None or last.at > now.at:
        return (DueReason.INITIAL_RUN, "initial run")
    gained, moved = _difference(last.unrealized, now.unrealized), _move(last.price, now.price)
    if _reaches(gained, move):
        return (DueReason.UNREALIZED_CHANGE, f"unrealized {signed(gained)}")
    if _reaches(moved, move):
        return (DueReason.PRICE_MOVE, f"price {signed(moved)}")
    if review is not None and account_day(last.at).isoformat() < review <= account_day(now.at).isoformat():
        return (DueReason.PLAN_REVIEW, f"review of its plan on {review}")
    if now.at - last.at >= AGE:
        return (DueReason.AGE_TIMEOUT, f"{span((now.at - last.at).total_seconds())} old")
    figures = (("price", last.price, now.price, moved), ("unrealized", last.unrealized, now.unrealized, gained))
    blind = tuple(_blind(name, today) for name, _, today, change in figures if change is None)
    return NotDue(last.at + AGE, blind)


def _difference(then: float | None, now: float | None) -> float | None:
    return None if then is None or now is None else now - then


def _move(then: float | None, now: float | None) -> float | None:
    return None if not then or now is None else now / then - 1


def _reaches(change: float | None, limit: float) -> bool:
    # A move from 100 to 95 is one of 5 %, whatever its last binary digit.
    return change is not None and round(abs(change), 12) >= limit


def _blind(name: str, now: float | None) -> str:
    return f"{name} not known {'now' if now is None else 'at the last look'}"


# Why a role runs on a symbol that a screen brought up: it runs then whether it is due or not.
SCREENED = "screen"
# Statuses that count as a review. A role that had no data, or declined, would do so again at once; one that failed or
# was skipped has reviewed nothing.
LOOKED = frozenset({ReportStatus.COMPLETED, ReportStatus.NO_DATA, ReportStatus.REFUSED})

_KEY = ("account", "market", "symbol", "role")


def schedule_rows(
    session: Session, account: str, market: str, now: dt.datetime
) -> Mapping[tuple[str, str], RoleSchedule]:
    """By symbol and role, without rows of later than now: a replay's table may have the future."""
    own = (RoleSchedule.account == account, RoleSchedule.market == market, col(RoleSchedule.last_at) <= now)
    return {(row.symbol, row.role): row for row in session.exec(select(RoleSchedule).where(*own)).all()}


def record_look(
    session: Session, account: str, market: str, symbol: str, role: str, look: HoldingSnapshot, **details: str
) -> None:
    """Write a review in the caller's transaction, in place of the one before. details: its reason, run and report."""
    values: dict[str, Any] = {"account": account, "market": market, "symbol": symbol, "role": role, **details}
    values |= {"last_at": look.at, "last_price": look.price, "last_unrealized": look.unrealized, "updated_at": utcnow()}
    # Two runs may end a review at once: the second must find the row, not fail on it.
    new = dialect_insert(session, RoleSchedule)
    changes = {name: new.excluded[name] for name in values if name not in _KEY}
    session.connection().execute(new.on_conflict_do_update(index_elements=list(_KEY), set_=changes), values)


def look_at(desk: Desk, context: ToolContext, symbol: str) -> HoldingSnapshot | None:
    """Return a holding as it is now; None for what the account does not hold, and the run is not about as a holding of
    another account."""
    with desk.store.read() as session:
        own = holds(session, context.account, symbol)
        run = session.get(Run, context.run_id) if context.run_id and not own else None
        planned = run is not None and symbol in (one["symbol"] for one in run.params.get(PLANS, ()))
    if not own and not planned:
        return None
    found = holdings(context, only=symbol) if own else [holding_elsewhere(context, symbol)]
    return HoldingSnapshot(context.clock.now(), found[0].price, found[0].unrealized) if found else None


def reviewing(report: Handler) -> Handler:
    """Let the step of a report be a review where the account holds its symbol: the figures are those from before the
    role's turn, and the schedule has them with the report."""

    @wraps(report)
    def run(desk: Desk, step: ClaimedStep, held: HeldStep) -> Ending:
        context = desk.tool_context(step.run_id)
        look = look_at(desk, context, step.subject)
        ending = report(desk, step, held)
        if look is None or not isinstance(ending, Done):
            return ending
        written = [row for rows in ending.rows for row in rows if isinstance(row, Report)]
        reviews = [writer for row in written if (writer := review_writer(context, step, row, look)) is not None]
        return replace(ending, also=partial(_after, ending.also, reviews)) if reviews else ending

    return run


def _after(
    first: Callable[[Session], object] | None, reviews: Iterable[Callable[[Session], None]], session: Session
) -> object:
    found = first(session) if first is not None else None
    session.flush()  # a review refers to its report
    for write in reviews:
        write(session)
    return found


def review_writer(
    context: ToolContext, step: ClaimedStep, report: Report, look: HoldingSnapshot | None
) -> Callable[[Session], None] | None:
    """Return the writer of a holding's review, for the transaction that ends the step; None for a symbol that is not
    held, and for a report that reviewed nothing."""
    if look is None or report.status not in LOOKED:
        return None
    place = (context.account, context.market.name, report.symbol, report.role)
    reason = step.payload.get("roles", {}).get(report.role, DueReason.MANUAL)
    details = {"reason": reason, "run_id": step.run_id, "report_id": report.id}
    return lambda session: record_look(session, *place, look, **details)


def plan_portfolio(desk: Desk, *, force: bool = False) -> list[HoldingPlan]:
    """Of the account's holdings, then of those elsewhere. Raises UsageError when nothing is held."""
    account, now = desk.settings.account, desk.market.clock.now()
    meet_past_sessions(desk, account)
    context = desk.tool_context()
    held = holdings(context)
    held += held_elsewhere(context, [one.symbol for one in held])
    if not held:
        remedy = "`desk research SYMBOL...` researches symbols that you name"
        raise UsageError(f"the account {account} holds nothing: there is nothing to research", remedy=remedy)
    with desk.store.read() as session:
        rows = schedule_rows(session, account, desk.market.name, now)
        reports = _last_reports(session, rows.values())
        reviews = {one.symbol: kept.review for one, _, kept in held_plans(session, account)}
    move, roles = desk.settings.price_move, research_roles(desk.settings)
    seen = {key: _restated(desk.market, row) for key, row in rows.items()}
    return [plan(one, seen, reports, now, move, roles, asked=force, review=reviews.get(one.symbol)) for one in held]


def _restated(market: MarketData, row: RoleSchedule) -> RoleSchedule:
    """Return a review with its price in shares of now: a split alone is no move."""
    if row.last_price is None or not (actions := actions_of(market, row.symbol, day_of(row.last_at, row.symbol))):
        return row
    price = row.last_price / growth_since(actions, day_of(row.last_at, row.symbol))
    return RoleSchedule(**{**row.model_dump(), "last_price": price})


def _last_reports(session: Session, rows: Iterable[RoleSchedule]) -> Mapping[str, Report]:
    ids = [row.report_id for row in rows if row.report_id is not None]
    return {report.id: report for report in session.exec(select(Report).where(col(Report.id).in_(ids))).all()}


def plan(
    holding: Holding,
    rows: Mapping[tuple[str, str], RoleSchedule],
    reports: Mapping[str, Report],
    now: dt.datetime,
    move: float,
    roles: Sequence[str],
    *,
    asked: bool = False,
    review: str | None = None,
) -> HoldingPlan:
    """Return the plan of one holding.

    rows: the schedule's, by symbol and role; reports: the rows' reports, by id. roles: the desk's research roles.
    asked: every role runs. review: as of `due`.
    """
    seen = HoldingSnapshot(now, holding.price, holding.unrealized)
    found: list[DueRole] = []
    skipped: list[SkippedRole] = []
    for role in roles:
        row = rows.get((holding.symbol, role))
        report = reports.get(row.report_id or "") if row else None
        # A review without its report does not count: a verdict has nothing to rest on.
        last = HoldingSnapshot(row.last_at, row.last_price, row.last_unrealized) if row and report else None
        answer = due(last, seen, move, asked=asked, review=review)
        if not isinstance(answer, NotDue):
            found.append(DueRole(role=role, reason=answer[0], why=answer[1]))
        elif last is not None and report is not None:
            why = "; ".join((f"looked {span((now - last.at).total_seconds())} ago", *answer.blind))
            skipped.append(SkippedRole(role=role, due_at=answer.due_at, why=why, report_id=report.id))
    found, skipped = _held_back(found, skipped, reports)
    missing, figures = list(holding.missing), {"price": holding.price, "unrealized": holding.unrealized}
    return HoldingPlan(symbol=holding.symbol, **figures, missing=missing, due=found, skipped=skipped)


def _held_back(
    found: list[DueRole], skipped: list[SkippedRole], reports: Mapping[str, Report]
) -> tuple[list[DueRole], list[SkippedRole]]:
    """Skip the roles after one that ends the research with a REJECT, rejected last and is not due again."""
    stored = (one for one in skipped if one.role in rejecting())
    held: list[SkippedRole] = []
    for last in [one for one in stored if reports[one.report_id or ""].verdict == Stance.REJECT]:
        ended, why = after(validators(), last.role), f"{last.role} rejected it"
        held += [SkippedRole(role=one.role, due_at=last.due_at, why=why) for one in found if one.role in ended]
        found = [one for one in found if one.role not in ended]
    return found, [*skipped, *held]
