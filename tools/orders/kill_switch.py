"""The kill switch: halt every account of the desk at once, and let one trade again.

The command and the HTTP service both call it. It needs neither Redis nor a worker nor a model.
"""

from __future__ import annotations

import datetime as dt
import os
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Protocol

from sqlalchemy.exc import SQLAlchemyError
from sqlmodel import Session, col, select

from chordesk.models.database.store import Store
from chordesk.models.errors import DatabaseDown, DeskError, MarketError, OrderError
from chordesk.models.exchanges import HOME, exchange_code
from chordesk.models.market import Quote, multiplier_of, parse_contract
from chordesk.models.orders import BrokerPosition, DenialCode, Denied
from chordesk.models.settings import Settings
from chordesk.models.states import ORDER_WORKING, OrderState, RunKind
from chordesk.models.tables.columns import utcnow
from chordesk.models.tables.orders import Order, Preview
from chordesk.models.tables.runs import Decision
from chordesk.tools.brokers.protocol import Broker
from chordesk.tools.decimals import exact, plain
from chordesk.tools.ledger import account_money, ensure_account, filled_quantities, value
from chordesk.tools.market.fx import listed_in
from chordesk.tools.market.price_steps import market_terms
from chordesk.tools.market.prices import AVERAGE_COST, at_cost, quote_of
from chordesk.tools.market.protocol import MarketData
from chordesk.tools.orders import accounts, audit, audit_watch, booking, halting
from chordesk.tools.orders.accounts import FencingLease
from chordesk.tools.orders.booking import advance, load_order, open_orders
from chordesk.tools.orders.checking import SizedOrder, ticket_of
from chordesk.tools.orders.drafting import order_id, write_decision
from chordesk.tools.orders.flow import cancel_open
from chordesk.tools.orders.previews import terms_of, write_preview
from chordesk.tools.orders.reconciliation import position_here, settle
from chordesk.tools.orders.snapshots import take_snapshot
from chordesk.tools.orders.stops import working_protection
from chordesk.tools.orders.submitting import SubmissionContext, book_answer, deny_and_record, poll
from chordesk.tools.rates import exit_rate
from chordesk.tools.risk.amounts import exit_note, is_current, within_collar
from chordesk.tools.risk.codes import deny
from chordesk.tools.risk.exposure import underlying_of

if TYPE_CHECKING:
    from chordesk.tools.orders.kept_positions import Kept


def write_orders(
    session: Session,
    context: SubmissionContext,
    held: Sequence[BrokerPosition],
    quotes: Mapping[str, Quote],
    by: str,
    why: str,
) -> list[str]:
    """Write orders that close these positions, approved by the person; return their ids. They are market orders; one
    whose last price is old is a limit order within its collar, as every exit is."""
    ensure_account(session, context.broker.name, context.settings.starting_cash, context.settings.currency)
    actions = [_action(row, why) for row in held]
    account, author = context.broker.name, ("person", by)
    decision = write_decision(session, context.market, account, RunKind.FLATTEN, author, why, actions)
    now = context.market.clock.now()
    ids = []
    for ordinal, row in enumerate(held):
        order = _order(decision, ordinal, row, now)
        note = _limit(context, order, quotes[row.symbol], now)
        session.add(order)
        session.flush()
        booking.state(session, order, None)
        _approve(session, context, order, quotes[row.symbol], decision, note)
        ids.append(order.id)
    return ids


def _action(row: BrokerPosition, why: str) -> dict[str, object]:
    return {
        "symbol": underlying_of(row.symbol),
        "action": "close",
        "side": _side(row),
        "quantity": abs(row.quantity),
        "notional": None,
        "orderType": "market",
        "limitPrice": None,
        "contract": _contract(row),
        "confidence": "high",
        "reasoning": why,
    }


def _side(row: BrokerPosition) -> str:
    return "sell" if row.quantity > 0 else "buy"


def _contract(row: BrokerPosition) -> str | None:
    return row.symbol if parse_contract(row.symbol) else None


def _order(decision: Decision, ordinal: int, row: BrokerPosition, now: dt.datetime) -> Order:
    return Order(
        id=order_id(decision.id, ordinal),
        run_id=decision.run_id,
        decision_id=decision.id,
        ordinal=ordinal,
        account=decision.account,
        symbol=underlying_of(row.symbol),
        action="close",
        side=_side(row),
        quantity=abs(row.quantity),
        order_type="market",
        contract=_contract(row),
        multiplier=multiplier_of(row.symbol),
        state=OrderState.DRAFTED.value,
        market_at=now,
    )


def _limit(context: SubmissionContext, order: Order, quote: Quote, now: dt.datetime) -> str | None:
    """Set a limit within the collar of an old price and return the reason; None if it stays at market."""
    if quote.source == AVERAGE_COST or is_current(quote, now, context.settings):
        return None
    order.order_type = "limit"
    limit = within_collar(order.symbol, order.side or "", quote.price, context.settings.max_price_collar)
    order.limit_price = _on_steps(context, order, limit)
    return exit_note(quote, order.limit_price, True, listed_in(context.market, order.symbol))


def _on_steps(context: SubmissionContext, order: Order, limit: float) -> float:
    """Return a limit as a price of its listing, never worse: outside New York its symbol may not tell the steps."""
    if exchange_code(order.symbol) == HOME or order.contract:
        return limit
    try:
        terms = market_terms(context.market, context.market.listing(order.symbol))
    except MarketError:
        return limit
    return float(terms.price(exact(limit), ROUND_FLOOR if order.side == "buy" else ROUND_CEILING))


def _approve(
    session: Session, context: SubmissionContext, order: Order, quote: Quote, decision: Decision, note: str | None
) -> None:
    settings, by = context.settings, decision.author
    names = ("run_id", "decision_id", "ordinal", "account", "symbol", "contract", "action", "side", "quantity")
    asked = {name: getattr(order, name) for name in names}
    audit.record(session, settings, "drafted", order=order.id, by=by, why=decision.reasoning, **asked)
    terms = terms_of(session, settings, context.market.name, context.broker.name)
    base = account_money(session, settings, order.account).base
    fx = exit_rate(session, order.account, order.contract or order.symbol, base)
    sized = SizedOrder(ticket_of(order), quote.price, quote.at, fx=fx)
    made = write_preview(session, settings, order, sized, order.market_at, terms, note)
    advance(session, order, OrderState.APPROVED)
    audit.record(session, settings, "approved", order=order.id, payload_hash=made.payload_hash, by=by)


CANCEL_SECONDS = 15.0
FILL_SECONDS = 5.0  # a broker acknowledges a market order first and fills it a moment later
PAUSE_SECONDS = 0.5


class Flattened(NamedTuple):
    """orders: ids of the closing orders. left: ids of orders whose cancellation the broker did not confirm, so that
    nothing is closed on their symbols. others: what the broker holds besides, which no order of the desk bought. kept:
    what is held and will not be closed by these orders."""

    orders: list[str]
    left: list[str]
    others: list[BrokerPosition]
    kept: list[Kept]


def flatten(context: SubmissionContext, by: str, why: str, *, everything: bool = False) -> Flattened:
    """Cancel open orders and close the positions that the desk's ledger has, as far as the broker shows them.
    everything: close what else the broker shows, too.

    This process takes the account's lease, so that a trade worker submits nothing meanwhile, and releases it at the
    end. The orders are rows like any other, of a decision that a person made. Raises FencedOff when another process
    takes the account, and the broker's error when it does not show its positions.
    """
    from chordesk.tools.orders.kept_positions import kept_positions, not_there  # a flatten alone asks

    token = context.lease.acquire()
    left = _cancelled(context)
    with context.store.read() as session:
        busy = {order.symbol: order for order in (load_order(session, id_) for id_ in left)}
    shown = _shown(context)
    with context.store.read() as session:
        closing, others = (shown, []) if everything else own_and_others(session, context.broker.name, shown)
        lacking = list(not_there(session, context.broker.name, shown))
    orderable = _orderable(context, closing)
    held = [row for row in orderable if underlying_of(row.symbol) not in busy]
    held.sort(key=lambda row: row.quantity > 0)  # written calls are bought back before the shares that cover them go
    quotes = {row.symbol: _price(context, row) for row in held}
    with context.store.session() as session:
        accounts.require(session, context.broker.name, token)
        ids = write_orders(session, context, held, quotes, by, why) if held else []
    bought_back = sum(row.quantity < 0 for row in held)
    for group in (ids[:bought_back], ids[bought_back:]):
        for id_ in group:
            _send(context, id_)
        _await_fills(context, group)
    with context.store.session() as session:
        accounts.release(session, context.broker.name, token)
    with context.store.read() as session:
        sent = [load_order(session, id_) for id_ in ids]
        unknown = {order.contract or order.symbol: order for order in sent if order.state == OrderState.UNKNOWN}
    kept = [*kept_positions(closing, orderable, busy, unknown), *lacking]
    return Flattened(ids, left, others, kept)


def _shown(context: SubmissionContext) -> list[BrokerPosition]:
    """The broker's positions. Those that option events and splits of today left are the desk's once they are booked."""
    state = context.broker.state()
    settle(context.store, context.settings, state)
    return [row for row in state.positions if row.quantity]


def _orderable(context: SubmissionContext, rows: Sequence[BrokerPosition]) -> list[BrokerPosition]:
    """Return positions as far as an order can close them. A fee that was taken in coins leaves part of a step, which a
    venue refuses; without the listing's own terms the position is tried as it is."""
    found = []
    for row in rows:
        if parse_contract(row.symbol) is None and exchange_code(row.symbol) != HOME:
            with suppress(MarketError):
                terms = market_terms(context.market, context.market.listing(row.symbol))
                whole = terms.quantity(abs(exact(row.quantity)), opens=False)
                row = row.model_copy(update={"quantity": float(whole if row.quantity > 0 else -whole)})
        if row.quantity:
            found.append(row)
    return found


def own_and_others(
    session: Session, account: str, shown: Sequence[BrokerPosition]
) -> tuple[list[BrokerPosition], list[BrokerPosition]]:
    """Split the broker's positions into what the desk's ledger has and the rest, which the desk never bought: a person
    may have an account for more than the desk."""
    from chordesk.tools.orders.kept_positions import common_part

    own, others = [], []
    for row in shown:
        theirs, ours = exact(row.quantity), position_here(session, account, row.symbol)
        common = common_part(theirs, ours)
        own += [row.model_copy(update={"quantity": float(common)})] if common else []
        if theirs != common:
            others.append(row.model_copy(update={"quantity": float(theirs - common)}))
    return own, others


def survey(
    settings: Settings,
    open_store: Callable[[], Store],
    connect: Callable[[Store], tuple[MarketData, Broker]],
) -> tuple[list[BrokerPosition], list[BrokerPosition]]:
    """Return what a flatten would close and what else the broker shows, for a person who is to confirm it. Raises
    DeskError where that cannot be known."""
    try:
        store = open_store()
        _, broker = connect(store)
        shown = [row for row in broker.state().positions if row.quantity]
        with store.read() as session:
            return own_and_others(session, broker.name, shown)
    except SQLAlchemyError as error:
        raise DatabaseDown(_no_answer(error)) from None


def listed(rows: Sequence[BrokerPosition]) -> str:
    return ", ".join(f"{row.symbol} {plain(row.quantity)}" for row in rows)


def _cancelled(context: SubmissionContext) -> list[str]:
    """Cancel open orders and wait for their end: they must not fill beside the orders that close their positions."""
    until = time.monotonic() + CANCEL_SECONDS
    left = cancel_open(context, protective=True)
    while left and time.monotonic() < until:
        time.sleep(PAUSE_SECONDS)
        for id_ in left:
            poll(context, take_snapshot(context.market, ()), id_)
        with context.store.read() as session:
            left = [order.id for order in open_orders(session, context.broker.name) if order.state in ORDER_WORKING]
    return left


def _await_fills(context: SubmissionContext, ids: Sequence[str]) -> None:
    """Poll until the closing orders have ended. In simulated time their end comes with a later session."""
    if context.market.clock.day is not None:
        return
    until = time.monotonic() + FILL_SECONDS
    while time.monotonic() < until:
        with context.store.read() as session:
            open_ = [id_ for id_ in ids if load_order(session, id_).state in ORDER_WORKING]
        if not open_:
            return
        time.sleep(PAUSE_SECONDS)
        for id_ in open_:
            poll(context, take_snapshot(context.market, ()), id_)


def _price(context: SubmissionContext, row: BrokerPosition) -> Quote:
    """Return the last price; without one the average cost: an emergency does not wait for a quote."""
    try:
        return quote_of(context.market, row.symbol)
    except MarketError:
        return at_cost(row.symbol, row.average_cost, context.market.clock.now())


def _send(context: SubmissionContext, id_: str) -> None:
    """Send one of these orders, once, if it still only reduces the position that the broker shows."""
    token = context.lease.acquire()
    shown = {row.symbol: row.quantity for row in context.broker.state().positions}
    with context.store.session() as session:
        order = load_order(session, id_)
        accounts.require(session, order.account, token)
        denied = _would_open(order, exact(shown.get(order.contract or order.symbol, 0.0)))
        if denied is not None:
            deny_and_record(session, context.settings, order, denied)
            return
        found = session.exec(select(Preview).where(col(Preview.order_id) == id_)).one()
        advance(session, order, OrderState.SUBMITTING, fence=token, sent_at=utcnow())
        audit.record(session, context.settings, "submitting", order=id_, fence=token, payload_hash=found.payload_hash)
        ticket, view = ticket_of(order), value(session, take_snapshot(context.market, ()), order.account)
    book_answer(context, id_, lambda: context.broker.submit(ticket, found, view))


def _would_open(order: Order, held: Decimal) -> Denied | None:
    quantity = exact(order.quantity or 0)
    against = held if order.side == "sell" else -held
    if quantity <= against:
        return None
    reason = f"the broker shows {plain(held)} {order.contract or order.symbol} by now; flatten again"
    limit = f"at most {plain(max(against, Decimal(0)))}"
    return deny(DenialCode.REDUCING, reason, f"{order.side} {plain(quantity)}", limit)


HALTED = "halted by a person"
RESUMED = "resumed by a person"


def confirmation(account: str, *, everything: bool = False) -> str:
    """Return the words by which a person confirms that the desk's positions of an account are closed at market, or all
    that its broker shows."""
    return f"flatten all of {account}" if everything else f"flatten {account}"


class HaltListener(Protocol):
    """Receiver of each step of a halt as it is done: a database that hangs must not hide what is in force already."""

    def file_written(self, path: Path) -> None: ...

    def account_halted(self, account: str, denied: Sequence[str]) -> None:
        """Receive an account and the ids of its orders that were denied before they were sent."""

    def orders_left_to_worker(self) -> None:
        """Note that this process cannot reach the broker: the trade worker cancels open orders."""

    def orders_cancelled(self, left: Sequence[str], protective: Sequence[str]) -> None:
        """Receive the ids of orders that the broker has not confirmed as cancelled, and of protective orders, which
        were left in force."""

    def positions_closed(self, orders: Sequence[Order], filled: Mapping[str, Decimal]) -> None:
        """Receive each order that closes a position, filled or not, and by id how much of it is."""

    def others_left(self, positions: Sequence[BrokerPosition]) -> None:
        """Receive what the broker holds besides, none of which the desk bought: it was not closed."""

    def failed(self, error: DeskError) -> None: ...


@dataclass(frozen=True, slots=True)
class HaltRequest:
    """A person's request. by: the name for the record. close_positions: also sell or buy back the desk's positions;
    everything: and what else the broker shows."""

    by: str
    why: str = HALTED
    close_positions: bool = False
    everything: bool = False


@dataclass(frozen=True, slots=True)
class HaltResult:
    """The end of a halt."""

    in_force: bool  # by the file, or on at least one account
    complete: bool  # nothing failed and nothing is left open


def halt(
    settings: Settings,
    request: HaltRequest,
    open_store: Callable[[], Store],
    connect: Callable[[Store], tuple[MarketData, Broker]],
    listener: HaltListener,
) -> HaltResult:
    """Halt every account, deny waiting orders, cancel open orders of this process's broker and, if asked, close its
    positions. open_store and connect are called when they are needed, and may raise DeskError."""
    running = _Halt(settings, request, connect, listener)
    running.write_file()
    # The file and the database stand in for each other, and nothing waits for the audit log.
    with audit.best_effort() as unrecorded:
        store = running.opened(open_store)
        if store is not None:
            running.halt_accounts(store)
            running.end_orders(store)
            running.name_bare(store)
            running.name_other_accounts(store)
    if unrecorded:
        running.fail(_not_recorded(unrecorded))
    return HaltResult(running.filed or running.halted > 0, running.complete)


@dataclass(slots=True)
class _Halt:
    """A halt under way. filed: the HALT file is written; halted: how many accounts are halted in the database."""

    settings: Settings
    request: HaltRequest
    connect: Callable[[Store], tuple[MarketData, Broker]]
    listener: HaltListener
    filed: bool = False
    halted: int = 0
    complete: bool = True

    def fail(self, error: DeskError) -> None:
        self.complete = False
        self.listener.failed(error)

    def write_file(self) -> None:
        try:
            path = halting.write_file(self.settings, self.request.why, self.request.by)
        except OrderError as error:
            self.fail(error)
            return
        self.filed = True
        self.listener.file_written(path)

    def opened(self, open_store: Callable[[], Store]) -> Store | None:
        try:
            return open_store()
        except DeskError as error:
            self.fail(self._not_halted(str(error.args[0])))
            return None

    def halt_accounts(self, store: Store) -> None:
        names: list[str] = [self.settings.account]
        try:
            with store.read() as session:
                names = accounts.account_names(session, self.settings.account)
        except SQLAlchemyError as error:
            self.fail(self._not_halted(f"the other accounts are not known: {_no_answer(error)}"))
        done = [found for name in names if (found := self._halt_account(store, name)) is not None]
        try:
            with store.session() as session:
                for record in done:
                    halting.record(session, self.settings, record)
        except SQLAlchemyError as error:
            self.fail(DatabaseDown(f"the halt is not on record: {type(error).__name__}"))

    def _halt_account(self, store: Store, account: str) -> halting.HaltRecord | None:
        try:
            done = halting.halt(store, account, self.request.why, self.request.by)
        except (DeskError, SQLAlchemyError) as error:
            reason = str(error.args[0]) if isinstance(error, DeskError) else _no_answer(error)
            self.fail(self._not_halted(f"account {account}: {reason}"))
            return None
        self.halted += 1
        self.listener.account_halted(account, done.orders)
        return done

    def _not_halted(self, reason: str) -> DatabaseDown:
        halted = (
            "this host's home is halted by the file alone" if self.filed else "NOTHING IS HALTED: end the trade worker"
        )
        return DatabaseDown(reason, remedy=f"{halted}; run it again when the database answers, to cancel what is open")

    def end_orders(self, store: Store) -> None:
        connected = False
        try:
            market, broker = self.connect(store)
            connected = True
            lease = FencingLease(store, broker.name, f"desk halt {self.request.by} {os.getpid()}")
            context = SubmissionContext(store, self.settings, market, broker, lease)
            if self.request.close_positions:
                done = flatten(context, self.request.by, self.request.why, everything=self.request.everything)
                closing, left = done.orders, done.left
            else:
                done, closing, left = None, None, cancel_open(context)
        except DeskError as error:
            self.fail(error)
            if not connected:
                self.listener.orders_left_to_worker()
            return
        except SQLAlchemyError as error:
            self.fail(DatabaseDown(_no_answer(error)))
            return
        self.complete &= not left
        with store.read() as session:
            kept = [order.id for order in working_protection(session, broker.name) if order.id not in left]
            closed = [load_order(session, id_) for id_ in closing or ()]
            filled = filled_quantities(session, [order.id for order in closed])
        self.listener.orders_cancelled(left, kept)
        if closing is not None:
            self.complete &= all(order.state == OrderState.FILLED for order in closed)
            self.listener.positions_closed(closed, filled)
        for row in done.kept if done is not None else ():
            self.fail(row.error())
        if done is not None and done.others:
            self.listener.others_left(done.others)

    def name_bare(self, store: Store) -> None:
        """Name what is left without its stop: an order that closes withdraws it, and a halt cancels that order."""
        from chordesk.tools.orders.protection import left_bare  # the core's commands load without it

        if self.request.close_positions:
            return
        try:
            with store.read() as session:
                rows = left_bare(session, self.settings)
        except DeskError as error:
            self.fail(error)
            return
        except SQLAlchemyError as error:
            self.fail(DatabaseDown(_no_answer(error)))
            return
        if rows:
            what = ", ".join(f"{plain(row.quantity)} {row.symbol}" for row in rows)
            remedy = "`desk resume` lets the next pass place it, `desk halt --flatten` closes the positions"
            reason = f"no stop stands for {what}, and none is placed while trading is halted"
            self.fail(OrderError(reason, remedy=remedy))

    def name_other_accounts(self, store: Store) -> None:
        close_positions, own = self.request.close_positions, self.settings.account
        try:
            with store.read() as session:
                others = accounts.account_names(session, own)[1:]
                left = {name: accounts.unfinished(session, name, positions=close_positions) for name in others}
        except SQLAlchemyError as error:
            self.fail(DatabaseDown(_no_answer(error)))
            return
        command = "desk halt --flatten" if close_positions else "desk halt"
        for name, open_ in left.items():
            if open_:
                reason = f"the broker of account {name} was not asked, only {own} was: {'; '.join(open_)}"
                self.fail(OrderError(reason, remedy=f"DESK_BROKER={name} {command}"))


def _no_answer(error: SQLAlchemyError) -> str:
    return f"the database does not answer: {type(error).__name__}"


def _not_recorded(errors: Sequence[OrderError]) -> OrderError:
    """One error for all transactions whose lines are missing."""
    more = f", {len(errors)} times in all" if len(errors) > 1 else ""
    reason = f"{errors[0].args[0]}; it was done all the same, and is not on record{more}"
    return OrderError(reason, remedy=errors[0].remedy)


def resume(store: Store, settings: Settings, by: str, why: str = RESUMED, *, reduce_only: bool = False) -> list[str]:
    """Let this process's account trade again, or only give exposure back; return the accounts that stay halted. Raises
    OrderError when the audit log or the HALT file is in the way: the account stays halted then."""
    audit_watch.require_whole(store, settings)
    with store.session() as session:
        halting.resume(session, settings, settings.account, by, why, reduce_only=reduce_only)
        still = [row.account for row in accounts.halted_accounts(session)]
    halting.remove_file(settings)  # last: a process that dies before it leaves the account halted
    return still
