"""Protection: shares without a standing stop, and the protective orders that are placed for them, one each: the stop of
a rule or of the position's plan, and the exit once that plan is over."""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from decimal import Decimal

import structlog
from sqlmodel import Session, and_, col, func, select

from chordesk.models.errors import DeskError, FencedOff, MarketError
from chordesk.models.events import DESK
from chordesk.models.exchanges import HOME, exchange_code
from chordesk.models.notice_channels import NoticeKind
from chordesk.models.notices import is_noted, note
from chordesk.models.order_terms import parse_protection
from chordesk.models.orders import Denied
from chordesk.models.plans import ExitReason, PositionPlan
from chordesk.models.settings import Settings
from chordesk.models.settings.running_desk import is_backtest, is_paper
from chordesk.models.states import OrderState, RunKind, TradingState
from chordesk.models.tables.columns import utcnow
from chordesk.models.tables.orders import Account, Order, Position, Trading
from chordesk.models.tables.runs import Decision
from chordesk.models.tables.runtime import Notice
from chordesk.tools.decimals import exact, money, plain
from chordesk.tools.ledger import account_money, value
from chordesk.tools.market.clock import account_day, day_of
from chordesk.tools.market.price_steps import Terms, market_terms
from chordesk.tools.market.prices import doubt, quote_of
from chordesk.tools.market.protocol import MarketData
from chordesk.tools.orders import accounts, audit, booking, halting, mandates
from chordesk.tools.orders.accounts import books_day
from chordesk.tools.orders.booking import advance
from chordesk.tools.orders.checking import SizedOrder, ticket_of
from chordesk.tools.orders.drafting import write_decision
from chordesk.tools.orders.previews import terms_of, write_preview
from chordesk.tools.orders.restating import ActionsOf, first_stop, known_actions, reference_cost
from chordesk.tools.orders.snapshots import Snapshot, take_snapshot
from chordesk.tools.orders.stops import (
    ProtectiveStop,
    ShareHolding,
    holdings,
    left_of_each,
    planned_stop,
    stop_for,
    trailed,
    working_protection,
)
from chordesk.tools.orders.submitting import SubmissionContext, book_answer, ensure_reconciled, withdraw
from chordesk.tools.position_plans import plan_now
from chordesk.tools.rates import exit_rate
from chordesk.tools.risk.amounts import is_current

# After a refusal of the broker it is not asked again about the same symbol for so long.
REFUSED_FOR = dt.timedelta(minutes=15)
_UNANSWERED = (OrderState.SUBMITTING.value, OrderState.UNKNOWN.value)


@dataclass(frozen=True, slots=True)
class Unprotected:
    """Shares that ought to be protected and are not, with the reason. free: those among them that a stop could hold."""

    symbol: str
    quantity: float
    free: float
    why: str


@dataclass(frozen=True, slots=True)
class Book:
    """An account's positions in shares, the orders that opened them, and its working protective orders with what is
    left of each, at one time. actions: those since the positions' first fills, by symbol; without them plans and costs
    are in shares of their day."""

    holdings: Sequence[ShareHolding]
    openers: Mapping[str, Order]
    stops: Sequence[Order]
    left: Mapping[str, Decimal]
    actions: ActionsOf = field(default_factory=dict)
    terms: Mapping[str, Terms] = field(default_factory=dict)  # of listings, where their symbols tell too little

    def plan(self, holding: ShareHolding) -> PositionPlan | None:
        return plan_now(self.opener(holding), self.actions.get(holding.symbol, ()))

    def reference(self, holding: ShareHolding) -> Decimal:
        return reference_cost(holding, self.actions.get(holding.symbol, ()))

    def opener(self, holding: ShareHolding) -> Order | None:
        return self.openers.get(holding.opened_by or "")

    def stops_of(self, symbol: str) -> list[Order]:
        return [stop for stop in self.stops if stop.symbol == symbol]


def read_book(session: Session, account: str, symbol: str | None = None, known: Book | None = None) -> Book:
    """known: whose actions and terms were read beforehand."""
    held = holdings(session, account, symbol)
    opened = [one.opened_by for one in held if one.opened_by]
    openers = session.exec(select(Order).where(col(Order.id).in_(opened))).all() if opened else []
    stops = working_protection(session, account, symbol)
    book = Book(held, {one.id: one for one in openers}, stops, left_of_each(session, stops))
    return book if known is None else _by(book, known.actions, known.terms)


def _by(book: Book, actions: ActionsOf, terms: Mapping[str, Terms]) -> Book:
    """Return a book with what a market knows of its listings. What is free is then a multiple of the listing's part: a
    fee that was taken in coins leaves less than one, and no stop of it would be taken."""
    held = [
        replace(one, free=terms[one.symbol].quantity(one.free, opens=False)) if one.symbol in terms else one
        for one in book.holdings
    ]
    return replace(book, holdings=held, actions=actions, terms=terms)


def unprotected(session: Session, settings: Settings, book: Book | None = None) -> list[Unprotected]:
    """Return the account's positions in shares without a standing stop for their whole quantity, by symbol, of those
    that DESK_PROTECT or their plan give one. book: as it was read already."""
    book = book or read_book(session, settings.account)
    found = (_uncovered(session, settings, one, book) for one in book.holdings)
    return [row for row in found if row is not None]


def left_bare(session: Session, settings: Settings) -> list[Unprotected]:
    """Return what stands without a stop once the account is halted: what none holds now, and what an order that a halt
    cancels has taken it from. Shares that written calls bind have none anyway."""
    book = read_book(session, settings.account)
    ordered = booking.open_orders(session, settings.account)
    ending = {one.symbol for one in ordered if one.protects is None and one.contract is None}
    return [row for row in unprotected(session, settings, book) if row.free or row.symbol in ending]


def _uncovered(session: Session, settings: Settings, holding: ShareHolding, book: Book) -> Unprotected | None:
    if standing_stop(settings, book, holding) is None:
        plan = book.plan(holding)
        if parse_protection(settings.protect) is None and (plan is None or plan.stop is None):
            return None
        at = plain(book.reference(holding))
        why = f"no price of its steps lies between 0 and its cost of {at}; put step right in listings.csv, or sell it"
        return Unprotected(holding.symbol, float(abs(holding.held)), float(holding.free), why)
    stops = book.stops_of(holding.symbol)
    standing = sum((book.left[stop.id] for stop in stops if stop.state not in _UNANSWERED), Decimal(0))
    lacking, bound = abs(holding.held) - standing, abs(holding.held) - holding.free
    if lacking <= 0:
        return None
    reasons = [f"the broker's answer on stop {stop.id} is not known" for stop in stops if stop.state in _UNANSWERED]
    if lacking > bound and not reasons:
        reasons.append(obstacle(session, settings, holding.symbol) or "the next pass over the orders places it")
    if bound:
        reasons.append(f"{plain(bound)} are in other orders, bound by written calls or no whole share")
    free = max(lacking - bound, Decimal(0))
    return Unprotected(holding.symbol, float(lacking), float(free), "; ".join(reasons))


def standing_stop(settings: Settings, book: Book, holding: ShareHolding) -> ProtectiveStop | None:
    """Return the stop that a position should have at its broker; None where neither rule nor plan gives one."""
    rule = parse_protection(settings.protect)
    bare = replace(_closing(holding), terms=book.terms.get(holding.symbol))
    of_rule = stop_for(rule, bare, book.reference(holding)) if rule is not None else None
    return planned_stop(book.plan(holding), of_rule, bare)


HeldPlan = tuple[ShareHolding, Order, PositionPlan]


def held_plans(session: Session, account: str, market: MarketData | None = None) -> list[HeldPlan]:
    """Return the positions that have a plan, by symbol, with the order that opened or last added to each. market: whose
    actions the plans follow; without it their prices are those of their day."""
    book = read_book(session, account)
    return _plans(book if market is None else replace(book, actions=known_actions(market, book.holdings)))


def _plans(book: Book) -> list[HeldPlan]:
    found = ((holding, book.opener(holding), book.plan(holding)) for holding in book.holdings)
    return [(holding, order, plan) for holding, order, plan in found if order is not None and plan is not None]


def _closing(holding: ShareHolding, end: PlanEnd | None = None) -> ProtectiveStop:
    """Return the order that closes a position at market."""
    side, reason = "sell" if holding.held > 0 else "buy", end.reason if end is not None else None
    at = holding.cost if end is None else end.price
    return ProtectiveStop(holding.symbol, side, holding.free, None, at, None, reason)


@dataclass(frozen=True, slots=True)
class PlanEnd:
    """The plan of a position is over, at a price of now."""

    reason: ExitReason
    price: Decimal


Ends = Mapping[str, PlanEnd]


def plan_ends(context: SubmissionContext, book: Book) -> Ends:
    """Return the positions whose plan is over now, by symbol; none while its exchange is closed. One without a price of
    now waits for it, behind its standing stop; one whose price may be of other shares waits for the next session."""
    plans = _plans(book)
    _note_reviews(context, plans)
    found: dict[str, PlanEnd] = {}
    if not plans:
        return found
    now = context.market.clock.now()
    for holding, _, plan in plans:
        if not _is_open(context, holding.symbol):
            continue
        try:
            quote = quote_of(context.market, holding.symbol)
        except MarketError:
            continue
        reason = ending(plan, day_of(now, holding.symbol), exact(quote.price), long=holding.held > 0)
        if reason is None or not is_current(quote, now, context.settings):
            continue
        if (why := doubt(context.market, holding.symbol, quote.price)) is not None:
            log.warning("orders.plan_waits", symbol=holding.symbol, reason=reason, why=why)
        else:
            found[holding.symbol] = PlanEnd(reason, exact(quote.price))
    return found


def _is_open(context: SubmissionContext, symbol: str) -> bool:
    try:
        return context.market.clock.is_open(exchange_code(symbol))
    except MarketError:
        return False


def _note_reviews(context: SubmissionContext, plans: Sequence[HeldPlan]) -> None:
    """Note each review that has come, once."""
    account, now = context.broker.name, context.market.clock.now()
    today = account_day(now).isoformat()
    due = [(order, plan.review) for _, order, plan in plans if plan.review is not None and plan.review <= today]
    if not due or is_backtest(account):
        return
    with context.store.session() as session:
        for order, review in due:
            if not is_noted(session, key := review_key(order)):
                facts = {"account": account, "order": order.id, "review": review}
                kind = NoticeKind.PLAN_REVIEW.value
                made = Notice(
                    key=key, kind=kind, subject=order.symbol, facts=facts, run_id=order.run_id, occurred_at=utcnow()
                )
                note(session, made)


def review_key(order: Order) -> str:
    return f"{NoticeKind.PLAN_REVIEW.value}:{order.id}"


def ending(plan: PositionPlan, day: dt.date, price: Decimal, *, long: bool) -> ExitReason | None:
    """Return why the plan of a position is over on a day, at its last price; None while it is not."""
    if plan.stop is not None and (price <= plan.stop if long else price >= plan.stop):
        return ExitReason.INVALIDATION
    if plan.target is not None and (price >= plan.target if long else price <= plan.target):
        return ExitReason.TARGET
    return ExitReason.HORIZON if plan.ends is not None and day >= plan.ends else None


def wanted_order(settings: Settings, book: Book, holding: ShareHolding, ends: Ends) -> ProtectiveStop | None:
    """Return the protective order that a position should have now: its exit once its plan is over, else its standing
    stop, which is its exit where its price has come there. On paper a stop that the price has passed is met at once; a
    broker may refuse it."""
    stop, end = standing_stop(settings, book, holding), ends.get(holding.symbol)
    if end is None:
        return stop
    if end.reason is ExitReason.INVALIDATION and stop is not None:
        if _stands(book, holding, stop):
            return stop
        if is_paper(settings.account):
            return replace(stop, reason=ExitReason.INVALIDATION)
    return _closing(holding, end)


def _stands(book: Book, holding: ShareHolding, stop: ProtectiveStop | None) -> bool:
    working = book.stops_of(holding.symbol)
    return stop is not None and any(stop.is_that_of(order, book.left[order.id]) for order in working)


def obstacle(session: Session, settings: Settings, symbol: str) -> str | None:
    if not settings.trader_live:
        return "live trading is off (TRADER_LIVE is not 1)"
    state, why = halting.trading_state(session, settings, settings.account)
    if state is TradingState.HALTED:
        return f"trading is halted: {why or 'no reason given'}"
    last = session.exec(
        select(Order)
        .where(col(Order.account) == settings.account, col(Order.symbol) == symbol, col(Order.protects).is_not(None))
        .order_by(col(Order.updated_at).desc())
        .limit(1)
    ).first()
    if last is not None and last.state == OrderState.REJECTED and utcnow() - last.updated_at < REFUSED_FOR:
        minutes = f"{REFUSED_FOR / dt.timedelta(minutes=1):.0f} min"
        return f"the broker refused order {last.id}: {last.message}; it is asked again after {minutes}"
    if not settings.real_money:
        return None
    found = mandates.in_force(session, settings, settings.account)
    if isinstance(found, Denied):
        return found.reason
    return None if found.allows(symbol) else f"mandate {found.version} does not name {symbol}"


log = structlog.get_logger(__name__)

# Ordinals of protective orders within the decision of the order that they protect; actions have smaller ones.
FIRST_ORDINAL = 10_000
POLICY = "protection"


def place(context: SubmissionContext, symbol: str, snapshot: Snapshot, ends: Ends, known: Book) -> Unprotected | None:
    """Place the protective order of a symbol's free shares, unless one works already; return why it was not placed.

    It can only close a position, so rules on entries do not apply: it is sized under the account's lock, and needs that
    trading is not halted and, for real money, a mandate.
    """
    token = context.lease.acquire()
    with context.store.session() as session:
        accounts.require(session, context.broker.name, token)
        session.get(Account, context.broker.name, with_for_update=True)
        book = read_book(session, context.broker.name, symbol, known)
        stop, holding = _wanted(session, context, book, ends)
        if stop is None or holding is None or book.stops:
            return None
        why = obstacle(session, context.settings, symbol)
        if why is not None:
            return Unprotected(symbol, float(stop.quantity), float(stop.quantity), why)
        order = _write(session, context, stop, book.opener(holding))
        terms = terms_of(session, context.settings, context.market.name, context.broker.name)
        base = account_money(session, context.settings, order.account).base
        fx = exit_rate(session, order.account, symbol, base, snapshot)
        sized = SizedOrder(ticket_of(order), float(stop.reference), order.market_at, fx=fx)
        made = write_preview(session, context.settings, order, sized, order.market_at, terms)
        advance(session, order, OrderState.APPROVED)
        audit.record(
            session, context.settings, "approved", order=order.id, payload_hash=made.payload_hash, policy=POLICY
        )
        advance(session, order, OrderState.SUBMITTING, fence=token, sent_at=utcnow())
        facts = {"fence": token, "payload_hash": made.payload_hash}
        audit.record(session, context.settings, "submitting", order=order.id, **facts)
        ticket, view, order_id = ticket_of(order), value(session, snapshot, order.account), order.id
    book_answer(context, order_id, lambda: context.broker.submit(ticket, made, view))
    return None


def _wanted(
    session: Session, context: SubmissionContext, book: Book, ends: Ends
) -> tuple[ProtectiveStop | None, ShareHolding | None]:
    holding = next(iter(book.holdings), None)
    if holding is None or not holding.free or (stop := wanted_order(context.settings, book, holding, ends)) is None:
        return None, holding
    before = _trail_before(session, context.broker.name, holding, stop)
    if before is None:
        return stop, holding
    return stop.raised(trailed(context.market, before, first_stop(session, before))), holding


def _trail_before(session: Session, account: str, holding: ShareHolding, stop: ProtectiveStop) -> Order | None:
    """Return the last trail of the same terms since the position was opened: the new one goes on where it stood."""
    if stop.trail_percent is None or holding.since is None:
        return None
    which = [col(Order.account) == account, col(Order.symbol) == stop.symbol, col(Order.protects).is_not(None)]
    which += [col(Order.created_at) >= holding.since, col(Order.trail_percent) == stop.trail_percent]
    newest = select(Order).where(*which, col(Order.side) == stop.side).order_by(col(Order.created_at).desc())
    return session.exec(newest.limit(1)).first()


def _write(session: Session, context: SubmissionContext, stop: ProtectiveStop, opened: Order | None) -> Order:
    """Write the order's row in the decision of the order that opened the position, or in one of its own."""
    account = context.broker.name
    by = f"DESK_PROTECT={context.settings.protect}" if stop.reason is None else f"its plan, {stop.reason}"
    why = f"{by}: {plain(stop.quantity)} {stop.symbol}, {_reference(stop)} {money(stop.reference)}"
    if opened is None:
        author = ("desk", POLICY)
        decision = write_decision(session, context.market, account, RunKind.PROTECT, author, why, [])
    else:
        decision = session.get_one(Decision, opened.decision_id)
    id_ = str(uuid.uuid4())
    order = Order(
        id=id_,
        run_id=decision.run_id,
        decision_id=decision.id,
        verdict_id=opened.verdict_id if opened else None,
        ordinal=_next_ordinal(session, decision.id),
        account=account,
        symbol=stop.symbol,
        action="close",
        side=stop.side,
        quantity=float(stop.quantity),
        order_type=stop.order_type,
        stop_price=None if stop.stop_price is None else float(stop.stop_price),
        trail_percent=stop.trail_percent,
        time_in_force="day" if stop.stop_price is None else "gtc",
        exit_reason=stop.reason,
        protects=opened.id if opened else id_,
        state=OrderState.DRAFTED.value,
        market_at=context.market.clock.now(),
    )
    session.add(order)
    session.flush()
    booking.state(session, order, None)
    names = ("run_id", "decision_id", "account", "symbol", "action", "side", "quantity", "order_type", "protects")
    terms = {name: getattr(order, name) for name in (*names, "stop_price", "trail_percent", "time_in_force")}
    audit.record(session, context.settings, "drafted", order=order.id, by=POLICY, why=why, **terms)
    return order


def _reference(stop: ProtectiveStop) -> str:
    return "at" if stop.stop_price is None else "cost"


def _next_ordinal(session: Session, decision_id: str) -> int:
    last = session.exec(select(func.max(Order.ordinal)).where(col(Order.decision_id) == decision_id)).one()
    return max(FIRST_ORDINAL, (last if last is not None else 0) + 1)


def keep_protected(context: SubmissionContext, snapshot: Snapshot | None = None) -> list[Unprotected]:
    if not context.settings.trader_live or not _has_work(context) or ensure_reconciled(context) is not None:
        return []
    book = _book(context)
    ends = plan_ends(context, book)
    if wrong := misfits(context, book, ends):
        for order_id in wrong:
            withdraw(context, order_id)
        book = _book(context)
    reasons, protected = {}, {order.symbol for order in book.stops}
    if bare := [row for row in book.holdings if row.free and row.symbol not in protected]:
        for holding in bare:
            try:
                taken = snapshot or take_snapshot(context.market, ())
                left = place(context, holding.symbol, taken, ends, book)
            except FencedOff:
                raise
            except DeskError as error:
                left = Unprotected(holding.symbol, float(holding.free), float(holding.free), str(error))
            if left is not None:
                reasons[left.symbol] = left
        book = _book(context)
    with context.store.read() as session:
        found = [reasons.get(row.symbol, row) for row in unprotected(session, context.settings, book) if row.free]
    for row in found:
        log.warning("orders.unprotected", symbol=row.symbol, quantity=row.quantity, why=row.why)
    _note_bare(context, found)
    return found


def _note_bare(context: SubmissionContext, rows: Sequence[Unprotected]) -> None:
    """Note each position that a halt leaves without its stop, once a halt: no later pass places it."""
    account = context.broker.name
    if not rows or is_backtest(account):
        return
    with context.store.session() as session:
        state = session.get(Trading, account)
        if state is None or state.state != TradingState.HALTED:
            return
        for row in rows:
            kind, what = NoticeKind.HALT.value, f"{plain(row.quantity)} {row.symbol}"
            facts = {"account": account, "state": state.state, "bare": what, "why": f"no stop stands for {what}"}
            key = f"{kind}:bare:{account}:{row.symbol}:{state.since.isoformat()}"
            if not is_noted(session, key):
                made = Notice(key=key, kind=kind, subject=account, facts=facts, run_id=DESK, occurred_at=utcnow())
                note(session, made)


def _has_work(context: SubmissionContext) -> bool:
    """Return whether there is a rule, a protective order or a held plan, on a day that is not over for the books."""
    with context.store.read() as session:
        if context.settings.protect == "none" and not working_protection(session, context.broker.name):
            held = and_(col(Position.symbol) == col(Order.symbol), col(Position.account) == col(Order.account))
            planned = select(Order.id).join(Position, held).where(col(Order.plan).is_not(None))
            if session.exec(planned.where(col(Order.account) == context.broker.name).limit(1)).first() is None:
                return False
        day = books_day(session, context.broker.name)
    return day is None or account_day(context.market.clock.now()) >= day


def _book(context: SubmissionContext) -> Book:
    with context.store.read() as session:
        book = read_book(session, context.broker.name)
    return _by(book, known_actions(context.market, book.holdings), _terms(context.market, book))


def _terms(market: MarketData, book: Book) -> Mapping[str, Terms]:
    """Return the terms of the listings held outside New York, whose symbols tell them all. Outside any transaction, as
    the actions are; what the market cannot say is left to the symbol."""
    found = {}
    for holding in book.holdings:
        if exchange_code(holding.symbol) != HOME:
            with suppress(MarketError):
                found[holding.symbol] = market_terms(market, market.listing(holding.symbol))
    return found


def misfits(context: SubmissionContext, book: Book, ends: Ends) -> list[str]:
    """Return ids of working protective orders that do not fit their positions, the oldest first. Two on one symbol
    never fit.

    An order that could not be replaced now, as without a mandate, is better than none: it stays unless it would close
    more than is free.
    """
    held = {row.symbol: row for row in book.holdings}
    found = []
    for order in book.stops:
        holding = held.get(order.symbol)
        if (
            holding is None
            or len(book.stops_of(order.symbol)) > 1
            or _closes_more(order, book.left[order.id], holding)
            or not _fits(context, book, order, holding, ends)
        ):
            found.append(order.id)
    return found


def _fits(context: SubmissionContext, book: Book, order: Order, holding: ShareHolding, ends: Ends) -> bool:
    """Return whether a protective order is the one that its position should have, or stays for want of another: what
    was placed under a rule stays without one. An exit that was sent is not taken back."""
    if order.order_type == "market":
        return True
    wanted = wanted_order(context.settings, book, holding, ends)
    if wanted is None or wanted.is_that_of(order, book.left[order.id]):
        return True
    with context.store.read() as session:
        return obstacle(session, context.settings, order.symbol) is not None


def _closes_more(order: Order, left: Decimal, holding: ShareHolding) -> bool:
    """Return whether a protective order could close more than is free, or would open."""
    return left > holding.free or (order.side == "sell") != (holding.held > 0)
