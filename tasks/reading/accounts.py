"""One account for people: cash, positions with their value and protection, exposure, equity over time, and the
ledger."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from enum import StrEnum
from typing import Any, Literal

from sqlmodel import Session, col, select

from chordesk.models.answers import Frozen, ReportStatus, Stance
from chordesk.models.errors import MarketError, NotFound
from chordesk.models.market import Quote, multiplier_of
from chordesk.models.money import DOLLAR
from chordesk.models.orders import PAID_FOR, HeldPosition, SettlementKind
from chordesk.models.plans import PositionPlan
from chordesk.models.settings import Settings
from chordesk.models.settings.running_desk import is_backtest
from chordesk.models.states import REUSED, RUN_FINAL, STEP_FINAL, TradingState
from chordesk.models.tables.columns import Row
from chordesk.models.tables.orders import Account, BookedSettlement, EquityMark, Fill, Order, Position, Reconciliation
from chordesk.models.tables.runs import Report, Run, Step
from chordesk.tools.books import costs_of, in_base, rated_of, worth_of_fill
from chordesk.tools.decimals import exact
from chordesk.tools.ledger import currency_of_account, gains_of, value, worth_of
from chordesk.tools.orders.accounts import account_names
from chordesk.tools.orders.halting import trading_state
from chordesk.tools.orders.protection import held_plans, unprotected
from chordesk.tools.orders.reconciliation import describe_difference, latest
from chordesk.tools.orders.snapshots import Snapshot
from chordesk.tools.orders.stops import left_of, working_protection
from chordesk.tools.risk.exposure import converted, underlying_of, unit_exposure, without_rate

PLANS = "portfolio"  # where a run's parameters hold its plans
PENDING = "pending"


class DueReason(StrEnum):
    """Reasons why a role runs, in the order of the checks: the first that holds is given."""

    MANUAL = "manual"  # a person wants it, due or not
    INITIAL_RUN = "initial_run"
    UNREALIZED_CHANGE = "unrealized_change_trigger"
    PRICE_MOVE = "price_move_trigger"
    PLAN_REVIEW = "plan_review"  # the review date of its plan came after the last look
    AGE_TIMEOUT = "age_timeout"


class DueRole(Frozen):
    """why: the reason with its figure, such as `unrealized +7%`."""

    role: str
    reason: DueReason
    why: str


class SkippedRole(Frozen):
    """A role that does not run. due_at: market time at which it is due at the latest. why: since when, and what cannot
    make it due earlier. report_id: its last report, on which the verdict rests instead."""

    role: str
    due_at: dt.datetime
    why: str
    report_id: str | None = None


class HoldingPlan(Frozen):
    """One holding as it stood when the run was opened; fields as of `tools.portfolio.holdings.Holding`."""

    symbol: str
    price: float | None
    unrealized: float | None
    missing: list[str]
    due: list[DueRole]
    skipped: list[SkippedRole]


class ExecutedRole(DueRole):
    """status: of its report, or `pending`, or of its step when that left none; `reused` where its earlier report counts
    again."""

    status: str
    verdict: str | None


class HoldingResult(Frozen):
    """One holding.

    price in account currency and unrealized as a share of the cost, as of the run's opening; `missing` has why one is
    null, and such a figure can make no role due.
    """

    symbol: str
    price: float | None
    unrealized: float | None
    missing: list[str]
    executed_roles_with_reasons: list[ExecutedRole]
    skipped_roles: list[SkippedRole]


class PortfolioResearchResult(Frozen):
    holdings: list[HoldingResult]


def portfolio_research(session: Session, run: Run) -> PortfolioResearchResult | None:
    if PLANS not in run.params:
        return None
    reports = {(row.symbol, row.role): row for row in session.exec(select(Report).where(Report.run_id == run.id)).all()}
    steps = {(row.subject, row.role): row for row in session.exec(select(Step).where(Step.run_id == run.id)).all()}
    again = [row.result["report_id"] for row in steps.values() if _is_reused(row)]
    lent = session.exec(select(Report).where(col(Report.id).in_(again))).all() if again else ()
    reports |= {(row.symbol, row.role): row for row in lent}
    plans = map(HoldingPlan.model_validate, run.params[PLANS])
    return PortfolioResearchResult(holdings=[_holding(run, plan, reports, steps) for plan in plans])


def _holding(
    run: Run, plan: HoldingPlan, reports: Mapping[tuple[str, str], Report], steps: Mapping[tuple[str, str], Step]
) -> HoldingResult:
    ended = run.state in RUN_FINAL or steps[plan.symbol, ""].state in STEP_FINAL
    executed: list[ExecutedRole] = []
    skipped: list[SkippedRole] = []
    for role in plan.due:
        key = (plan.symbol, role.role)
        report = reports.get(key)
        why = _why_not(report, key in steps, _rejected_by(plan.symbol, role.role, reports)) if ended else None
        if why is not None:
            skipped.append(SkippedRole(role=role.role, due_at=run.market_now, why=f"still due: {why}"))
        else:
            executed.append(_executed(role, report, steps.get(key)))
    figures = plan.model_dump(exclude={"due", "skipped"})
    return HoldingResult(**figures, executed_roles_with_reasons=executed, skipped_roles=[*skipped, *plan.skipped])


def _rejected_by(symbol: str, role: str, reports: Mapping[tuple[str, str], Report]) -> str | None:
    from chordesk.agents.roles import after, rejecting, validators  # they load every tool

    found = (reports.get((symbol, first)) for first in rejecting() if role in after(validators(), first))
    return next((row.role for row in found if row is not None and row.verdict == Stance.REJECT), None)


def _why_not(report: Report | None, begun: bool, rejected_by: str | None) -> str | None:
    if report is not None:
        return report.reason or "it was skipped" if report.status == ReportStatus.SKIPPED else None
    if begun and not rejected_by:
        return None
    return f"{rejected_by} rejected it" if rejected_by else "the run ended before"


def _executed(role: DueRole, report: Report | None, step: Step | None) -> ExecutedRole:
    status = report.status if report is not None else PENDING
    if step is not None and _is_reused(step):
        status = REUSED
    elif report is None and step is not None and step.state in STEP_FINAL:
        status = step.state
    verdict = report.verdict if report is not None else None
    return ExecutedRole(**role.model_dump(), status=status, verdict=verdict)


def _is_reused(step: Step) -> bool:
    return step.result.get("status") == REUSED


def signed(change: float | None) -> str:
    return "unknown" if change is None else f"{100 * change:+.3g}%"


class EquityDay(Frozen):
    """Equity on one session day of the market, in account currency.

    opening: at the last mark of the session before, or at the day's first where that has none; equity: at its last
    mark; change and change_share: since the opening; high_water: the highest so far; drawdown: the fall from it, as a
    fraction of it. Shares are None where they would be of nothing.
    """

    day: dt.date
    opening: float
    equity: float
    change: float
    change_share: float | None
    high_water: float
    drawdown: float | None
    marked_at: dt.datetime


class EquityNow(EquityDay):
    """The newest day. current: it is the market's day; otherwise the account has no mark of that day yet, or its books
    are ahead. currency: of the account."""

    current: bool
    currency: str = DOLLAR


class EquityCurve(Frozen):
    """days: in ascending order, at most as many as were asked for; deepest: the largest drawdown among them, None
    without a day. currency: of the account."""

    account: str
    currency: str = DOLLAR
    days: list[EquityDay]
    deepest: float | None


def equity_now(session: Session, account: str, day: dt.date) -> EquityNow | None:
    """Return the newest day of the account's books, None without a mark. day: the market's; in a replay that was set
    back the books are ahead of it."""
    marks = _marks(session, account, 1)
    if not marks:
        return None
    currency = currency_of_account(session, account)
    return EquityNow(**dict(_day(marks[0])), current=marks[0].day == day, currency=currency)


def equity_curve(session: Session, account: str, most: int, until: dt.date = dt.date.max) -> EquityCurve:
    """Money paid in or out has moved earlier marks, so it is neither gain nor loss. until: the last day."""
    days = [_day(mark) for mark in reversed(_marks(session, account, most, until))]
    falls = [one.drawdown for one in days if one.drawdown is not None]
    currency = currency_of_account(session, account)
    return EquityCurve(account=account, currency=currency, days=days, deepest=max(falls, default=None))


def _marks(session: Session, account: str, most: int, until: dt.date = dt.date.max) -> Sequence[EquityMark]:
    own = col(EquityMark.account) == account, col(EquityMark.day) <= until
    return session.exec(select(EquityMark).where(*own).order_by(col(EquityMark.day).desc()).limit(most)).all()


def _day(mark: EquityMark) -> EquityDay:
    equity, opening, high = exact(mark.last), exact(mark.opening), exact(mark.high_water)
    return EquityDay.of(
        mark,
        equity=mark.last,
        change=float(equity - opening),
        change_share=float((equity - opening) / opening) if opening > 0 else None,
        drawdown=float((high - equity) / high) if high > 0 else None,
        marked_at=mark.updated_at,
    )


class ProtectiveOrder(Frozen):
    """An order that protects a position. left: shares that it may still sell, or buy back."""

    order: Row[Order]
    left: float


def protective_order(session: Session, order: Order) -> ProtectiveOrder:
    return ProtectiveOrder(order=order, left=float(left_of(session, order)))


OTHERS = "this service has the market of its own account alone"
ZERO = Decimal(0)


class AccountState(Frozen):
    """An account's books and state. own: this service trades on it; open: it has a ledger; cash is None without one.
    equity: at the newest mark, None without one. currency: of its amounts."""

    account: str
    currency: str = DOLLAR
    own: bool
    open: bool
    cash: float | None
    positions: int
    trading: TradingState
    why: str
    equity: EquityDay | None
    agreed: bool | None
    reconciled_at: dt.datetime | None


class PositionValue(HeldPosition):
    """A position. value: in account currency, negative when short; share: of the account's equity; gain: value less
    cost, gain_share: of the cost; gain_of_currency: the part of gain that the currency made, and not the price, None in
    the account's own. What rests on a missing price is None. plan: in shares and prices of now where the market is
    known; order_id: the order that opened it or last added to it; days: of the calendar since then, in market time."""

    underlying: str
    sector: str | None
    value: float | None
    share: float | None
    gain: float | None
    gain_share: float | None
    gain_of_currency: float | None
    protected_by: list[ProtectiveOrder]
    plan: PositionPlan | None = None
    order_id: str | None = None
    days: int | None = None


class SectorExposure(Frozen):
    """Exposure of one sector, None where it is not known; of a written put its strike. share: of the equity."""

    sector: str | None
    exposure: float
    share: float | None
    symbols: list[str]


class ReconciledState(Frozen):
    """The last comparison with the broker. differences: each in one line, put right or open."""

    at: dt.datetime
    owner: str
    agreed: bool
    differences: list[str]
    rows: list[dict[str, Any]]


class LackingStop(Frozen):
    """Shares without the stop that DESK_PROTECT asks for, and why."""

    symbol: str
    quantity: float
    why: str


class AccountDetail(AccountState):
    """An account with its positions at the market's prices now. value: cash and positions; None where a price is
    missing, and `missing` names each. gross: exposure of all positions; None in that case too. as_of: the market's
    time, None for an account of another broker, which is not priced here."""

    opened_at: dt.datetime | None
    opening_cash: float | None
    value: float | None
    as_of: dt.datetime | None
    holdings: list[PositionValue]
    gross: float | None
    sectors: list[SectorExposure]
    reconciliation: ReconciledState | None
    unprotected: list[LackingStop]
    missing: dict[str, str]


def list_accounts(session: Session, settings: Settings) -> list[AccountState]:
    return [account_state(session, settings, name) for name in account_names(session, settings.account)]


def find_account(session: Session, settings: Settings, name: str) -> str:
    known = account_names(session, settings.account)
    if name in known or (is_backtest(name) and session.get(Account, name) is not None):
        return name
    raise NotFound(f"there is no account {name!r}", remedy=f"there are {', '.join(known)}")


def account_state(session: Session, settings: Settings, name: str) -> AccountState:
    row, compared = session.get(Account, name), latest(session, name)
    trading, why = trading_state(session, settings, name)
    held = session.exec(select(Position.symbol).where(col(Position.account) == name)).all()
    marks = _marks(session, name, 1)
    return AccountState(
        currency=row.currency if row else settings.currency,
        account=name,
        own=name == settings.account,
        open=row is not None,
        cash=row.cash if row else None,
        positions=len(held),
        trading=trading,
        why=why,
        equity=_day(marks[0]) if marks else None,
        agreed=compared.agreed if compared else None,
        reconciled_at=compared.at if compared else None,
    )


def held_symbols(session: Session, name: str) -> set[str]:
    held = session.exec(select(Position.symbol).where(col(Position.account) == name)).all()
    return {*held, *map(underlying_of, held)}


def account_detail(session: Session, settings: Settings, name: str, snapshot: Snapshot | None) -> AccountDetail:
    """Return an account at the prices of a snapshot; None for one of another broker."""
    row, state = session.get(Account, name), account_state(session, settings, name)
    view = value(session, snapshot or _Elsewhere(), name) if row else None
    positions, total = (view.positions, view.equity) if view else ([], None)
    stops = working_protection(session, name)
    plans = {holding.symbol: (order, plan) for holding, order, plan in held_plans(session, name)}
    holdings = [_position(session, one, total, snapshot, stops, plans.get(one.symbol)) for one in positions]
    sectors = _sectors(positions, snapshot, total)
    return AccountDetail(
        **dict(state),
        opened_at=row.opened_at if row else None,
        opening_cash=row.opening_cash if row else None,
        value=total,
        as_of=snapshot.now if snapshot else None,
        holdings=holdings,
        gross=sum(one.exposure for one in sectors) if sectors is not None else None,
        sectors=sectors or [],
        reconciliation=_reconciled(latest(session, name)),
        unprotected=[LackingStop.of(one) for one in unprotected(session, settings)] if state.own else [],
        missing={one.symbol: one.missing for one in holdings if one.missing is not None},
    )


class _Elsewhere:
    """The prices of an account that this process has no market of."""

    def quote(self, symbol: str) -> Quote:
        raise MarketError(OTHERS)


def _position(
    session: Session, held: HeldPosition, total: float | None, snapshot: Snapshot | None, stops: list[Order],
    planned: tuple[Order, PositionPlan] | None,
) -> PositionValue:  # fmt: skip
    order, plan = planned or (None, None)
    worth = worth_of(held)
    gains, units = gains_of(held), exact(held.quantity) * exact(multiplier_of(held.symbol))
    cost = units * exact(held.average_cost if held.currency is None else held.cost_base or 0)
    gain = None if gains is None else sum(gains, ZERO)
    underlying = underlying_of(held.symbol)
    return PositionValue.of(
        held,
        underlying=underlying,
        sector=snapshot.sector(underlying) if snapshot else None,
        value=_figure(worth),
        share=float(worth / exact(total)) if worth is not None and total else None,
        gain=_figure(gain),
        gain_share=float(gain / abs(cost)) if gain is not None and cost else None,
        gain_of_currency=_figure(gains[1]) if gains is not None and held.currency is not None else None,
        protected_by=[protective_order(session, stop) for stop in stops if stop.symbol == held.symbol],
        plan=plan,
        order_id=order.id if order is not None else None,
        days=(snapshot.now.date() - order.market_at.date()).days
        if snapshot is not None and order is not None
        else None,
    )


def _figure(amount: Decimal | None) -> float | None:
    return None if amount is None else float(amount)


def _sectors(
    positions: Iterable[HeldPosition], snapshot: Snapshot | None, total: float | None
) -> list[SectorExposure] | None:
    amounts: dict[str | None, Decimal] = {}
    names: dict[str | None, set[str]] = {}
    for row in positions:
        if row.market_price is None or without_rate(row):
            return None
        sector = snapshot.sector(underlying_of(row.symbol)) if snapshot else None
        side = "buy" if row.quantity >= 0 else "sell"
        own = abs(exact(row.quantity)) * unit_exposure(row.symbol, side, exact(row.market_price))
        exposure = converted(own, row.fx)
        amounts[sector] = amounts.get(sector, ZERO) + exposure
        names.setdefault(sector, set()).add(underlying_of(row.symbol))
    rows = [
        SectorExposure(
            sector=sector,
            exposure=float(amount),
            share=float(amount / exact(total)) if total else None,
            symbols=sorted(names[sector]),
        )
        for sector, amount in amounts.items()
    ]
    return sorted(rows, key=lambda one: (-one.exposure, one.sector or ""))


def _reconciled(row: Reconciliation | None) -> ReconciledState | None:
    if row is None:
        return None
    lines = [f"{'put right' if one['repaired'] else 'open'}: {describe_difference(one)}" for one in row.differences]
    return ReconciledState.of(row, differences=lines, rows=row.differences)


class LedgerRow(Frozen):
    """One movement: a fill with its run, or a settlement. at: market time; quantity: signed; cash: what it added to the
    account's cash, negative when it was paid, commission and duties included."""

    kind: Literal["fill"] | SettlementKind
    at: dt.datetime
    quantity: float
    cash: float
    row: Row[Fill] | Row[BookedSettlement]
    run_id: str | None


def ledger(session: Session, account: str, limit: int, offset: int) -> list[LedgerRow]:
    most = offset + limit
    fills = session.exec(
        select(Fill, Order.run_id)
        .join(Order, col(Order.id) == col(Fill.order_id))
        .where(col(Fill.account) == account)
        .order_by(col(Fill.filled_at).desc(), col(Fill.id).desc())
        .limit(most)
    ).all()
    events = session.exec(
        select(BookedSettlement)
        .where(col(BookedSettlement.account) == account)
        .order_by(col(BookedSettlement.settled_at).desc(), col(BookedSettlement.id).desc())
        .limit(most)
    ).all()
    rows = [*(_filled(fill, run_id) for fill, run_id in fills), *(_settled(row) for row in events)]
    return sorted(rows, key=lambda one: (one.at, one.row.id), reverse=True)[offset:most]


def _filled(fill: Fill, run_id: str) -> LedgerRow:
    signed = fill.quantity if fill.side == "buy" else -fill.quantity
    worth = worth_of_fill(fill) if fill.side == "sell" else -worth_of_fill(fill)
    cash = float(worth - costs_of(fill))
    return LedgerRow(kind="fill", at=fill.filled_at, quantity=signed, cash=cash, row=fill, run_id=run_id)


def _settled(row: BookedSettlement) -> LedgerRow:
    signed = exact(row.quantity) * (1 if row.kind in PAID_FOR else -1)
    paid = signed * exact(row.price) * exact(multiplier_of(row.symbol))
    cash = float(in_base(paid, rated_of(row, row.symbol)))
    return LedgerRow.of(row, at=row.settled_at, cash=cash, row=row, run_id=None)
