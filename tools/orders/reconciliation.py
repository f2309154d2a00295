"""Reconciliation of an account with its broker: find differences, and repair the books where the broker is right."""

from __future__ import annotations

import datetime as dt
import time
from collections import defaultdict
from collections.abc import Collection, Sequence
from decimal import Decimal
from typing import Any

from sqlmodel import Session, col, select

from chordesk.models.database.store import Store
from chordesk.models.errors import OrderError
from chordesk.models.market import multiplier_of
from chordesk.models.orders import PAID_FOR, BrokerAnswer, BrokerState, Settlement
from chordesk.models.settings import Settings
from chordesk.models.states import ORDER_WORKING, OrderState, TradingState
from chordesk.models.tables.columns import utcnow
from chordesk.models.tables.orders import Account, BookedSettlement, Fill, Order, Position, Preview, Reconciliation
from chordesk.tools.brokers.protocol import Broker
from chordesk.tools.decimals import exact, plain
from chordesk.tools.ledger import RENAMED, book_settlement, ensure_account, filled_quantities, value
from chordesk.tools.orders import accounts, audit, halting
from chordesk.tools.orders.booking import book, load_order
from chordesk.tools.orders.checking import ticket_of
from chordesk.tools.orders.halting import disallowed_orders
from chordesk.tools.orders.restating import follow_name, restate
from chordesk.tools.orders.snapshots import Snapshot

# One line of a reconciliation: kind, the figures of the desk and the broker, and `repaired` for corrected books.
Difference = dict[str, Any]

_ALWAYS_CHECKED = (OrderState.SUBMITTING, OrderState.UNKNOWN)
NONE = Decimal(0)


def difference(kind: str, *, repaired: bool = False, **facts: Any) -> Difference:
    return {"kind": kind, **facts, "repaired": repaired}


def diverged_orders(session: Session, state: BrokerState) -> list[str]:
    """Orders that the broker holds in another state: working here and not open there, or filled further."""
    open_there = {order.client_id: exact(order.filled) for order in state.open_orders}
    filled_there = _filled(state)
    named = open_there.keys() | filled_there.keys()
    found, ours = [], _ours(session, state.account, named)
    filled_here = filled_quantities(session, [order.id for order in ours])
    for order in ours:
        there = max(open_there.get(order.id, NONE), filled_there.get(order.id, NONE))
        lost = order.state in ORDER_WORKING and order.id not in open_there
        if lost or order.state in _ALWAYS_CHECKED or there > filled_here[order.id]:
            found.append(order.id)
    return found


def _ours(session: Session, account: str, named: Collection[str]) -> Sequence[Order]:
    working = session.exec(select(Order).where(col(Order.account) == account, col(Order.state).in_(ORDER_WORKING)))
    reported = session.exec(select(Order).where(col(Order.account) == account, col(Order.id).in_(named)))
    rows = {order.id: order for order in (*working, *reported)}
    return sorted(rows.values(), key=lambda order: (order.created_at, order.id))


def _filled(state: BrokerState) -> dict[str, Decimal]:
    found: defaultdict[str, Decimal] = defaultdict(Decimal)
    for row in state.fills:
        if row.client_id is not None:
            found[row.client_id] += exact(row.fill.quantity)
    return dict(found)


def position_here(session: Session, account: str, symbol: str) -> Decimal:
    row = session.get(Position, (account, symbol), populate_existing=True)
    return exact(row.quantity) if row else NONE


def position_there(state: BrokerState, symbol: str) -> Decimal:
    return sum((exact(row.quantity) for row in state.positions if row.symbol == symbol), NONE)


def unexplained(session: Session, state: BrokerState, adopted: Collection[str]) -> list[Difference]:
    found = [
        *position_differences(session, state),
        *unknown_orders(session, state),
        *fill_differences(session, state, adopted),
    ]
    if state.blocked:
        found.append(difference("blocked", broker=state.blocked))
    return found


def position_differences(session: Session, state: BrokerState) -> list[Difference]:
    held = select(Position.symbol, Position.quantity).where(col(Position.account) == state.account)
    here = {symbol: exact(quantity) for symbol, quantity in session.exec(held)}
    found = []
    for symbol in sorted(here.keys() | {row.symbol for row in state.positions}):
        ours, theirs = here.get(symbol, NONE), position_there(state, symbol)
        if ours != theirs:
            found.append(difference("position", symbol=symbol, desk=plain(ours), broker=plain(theirs)))
    return found


def unknown_orders(session: Session, state: BrokerState) -> list[Difference]:
    found, own = [], _named(session, [row.client_id for row in state.open_orders])
    for row in state.open_orders:
        order = own.get(row.client_id)
        if order is not None and order.account == state.account and order.state in ORDER_WORKING:
            continue
        ours = "no such order" if order is None else f"state {order.state}"
        theirs = f"open: {row.side} {plain(row.quantity)}"
        found.append(difference("order", id=row.client_id, symbol=row.symbol, desk=ours, broker=theirs))
    return found


def _named(session: Session, ids: Collection[str]) -> dict[str, Order]:
    rows = session.exec(select(Order).where(col(Order.id).in_(ids))).all() if ids else ()
    return {order.id: order for order in rows}


def fill_differences(session: Session, state: BrokerState, adopted: Collection[str]) -> list[Difference]:
    """Return fills of orders that are not ours, and of ours beyond what could be booked."""
    filled = _filled(state)
    found, own, filled_here = [], _named(session, filled), filled_quantities(session, filled)
    for row in state.fills:
        key = f"{row.broker_order_id}/{row.fill.id}"
        if key in adopted or row.client_id in own:
            continue
        details = f"{row.side} {plain(row.fill.quantity)} at {plain(row.fill.price)}"
        found.append(difference("fill", id=key, symbol=row.symbol, desk="no such order", broker=details))
    for client_id, theirs in sorted(filled.items()):
        order, key = own.get(client_id), f"{client_id}/{plain(theirs)}"
        ours = filled_here[client_id]
        if order is not None and theirs > ours and key not in adopted:
            desk = f"{order.state}, {plain(ours)} filled"
            found.append(difference("fill", id=key, symbol=order.symbol, desk=desk, broker=f"{plain(theirs)} filled"))
    return found


_LOOK = "; look into it at the broker, then `desk reconcile --adopt` takes the account over as it is"
_OVER = "; the two agree again"


def halt_reason(found: Sequence[Difference]) -> str:
    """Return the differences and their remedy as one sentence."""
    listed = "; ".join(describe_difference(row) for row in found)
    return f"the broker's account is not what the desk's orders explain: {listed}{_LOOK}"


def describe_difference(row: Difference) -> str:
    what = str(row["kind"]).removeprefix("adopted_").replace("_", " ")
    if row["kind"] == "blocked":
        return str(row["broker"])
    if row["kind"] == "settlement":
        return f"{row['event']} {row['symbol']}: {plain(row['quantity'])} at {plain(row['price'])}"
    on = f" {row['symbol']}" if "symbol" in row else ""
    return f"{what}{on}: {row['desk']} here, {row['broker']} at the broker"


# A broker's lists do not change all at once, and another process may be booking: one observation is not enough.
ATTEMPTS = 3
PAUSE_SECONDS = 1.0
REMEMBERED = dt.timedelta(days=7)
_DAY = dt.timedelta(days=1)
_CENT = Decimal("0.01")
_NOT_ADOPTED = ("order", "blocked")


def reconcile(store: Store, settings: Settings, broker: Broker, owner: str, adopt: bool = False) -> Reconciliation:
    """Compare account, positions, open orders and fills with the broker's, record differences, and repair the books
    where the broker is right: states and fills of our orders, option events, cash.

    A position, a fill or an open order that no order of ours explains halts the account, and so does a broker that has
    blocked it. adopt: take the account over as it is, with its positions, cash and past fills, but not with open orders
    that are not ours. Raises ServiceError, MarketError or OrderError when the broker does not answer.
    """
    with store.session() as session:
        ensure_account(session, broker.name, settings.starting_cash, settings.currency)
    repaired: list[Difference] = []
    for attempt in range(ATTEMPTS):
        if attempt:
            time.sleep(PAUSE_SECONDS)
        state = broker.state()
        _keep_currency(store, state)
        repaired += _update_orders(store, settings, broker, state)
        repaired += settle(store, settings, state)
        with store.read() as session:
            left = unexplained(session, state, _adopted(session, state.account))
        if not left:
            break
    if adopt:
        repaired += _adopt(store, settings, state)
        left = [row for row in left if row["kind"] in _NOT_ADOPTED]
    elif not left:
        repaired += _repair_cash(store, settings, state)
    return _write_result(store, settings, broker.name, owner, repaired, left)


def _keep_currency(store: Store, state: BrokerState) -> None:
    """Take the currency that the broker keeps the account in, before anything is booked. Raises OrderError where it is
    another than that of the books: what is booked already cannot be counted in it."""
    with store.session() as session:
        head = session.get_one(Account, state.account, with_for_update=True)
        if head.currency == state.currency:
            return
        for table in (Fill, BookedSettlement, Position):
            if session.exec(select(table.account).where(col(table.account) == head.name).limit(1)).first() is not None:
                raise OrderError(
                    f"the broker keeps account {head.name} in {state.currency}, and its books are in {head.currency}",
                    remedy="open another DESK_HOME for an account in another currency",
                )
        head.currency = state.currency
        session.add(head)


def latest(session: Session, account: str) -> Reconciliation | None:
    rows = select(Reconciliation).where(col(Reconciliation.account) == account)
    newest = rows.order_by(col(Reconciliation.at).desc(), col(Reconciliation.id).desc())
    return session.exec(newest.limit(1)).first()


def _update_orders(store: Store, settings: Settings, broker: Broker, state: BrokerState) -> list[Difference]:
    """Book the broker's state of our orders. Those that may not fill any more are cancelled: on paper, a look fills
    them."""
    with store.read() as session:
        ids = diverged_orders(session, state)
        disallowed = disallowed_orders(session, settings, broker.name)
    found = []
    unpriced = Snapshot(utcnow(), {}, {})  # only equity needs prices, and nothing here uses equity
    for order_id in ids:
        with store.read() as session:
            order = load_order(session, order_id)
            preview = session.exec(select(Preview).where(col(Preview.order_id) == order_id)).first()
            view = value(session, unpriced, order.account)
        if preview is None:
            continue
        ticket = ticket_of(order)
        found_there = broker.cancel(ticket) if order_id in disallowed else broker.lookup(ticket, preview, view)
        answer = found_there or _expire_unknown(order, settings)
        if answer is not None:
            found += _book_answer(store, settings, order_id, answer)
    return found


def _expire_unknown(order: Order, settings: Settings) -> BrokerAnswer | None:
    """Return the end of an order that the broker does not know a day later. None before that. A protective order is
    needed, and ends once the broker would know it if it had come: its description says when. One that the broker knew
    and no longer knows may stand all the same, as after the broker's restart: it has a day from then."""
    if order.state != OrderState.UNKNOWN:
        return None
    waits, since = _DAY, order.sent_at or order.updated_at
    if order.broker_order_id is not None:
        since = order.updated_at
    elif order.protects is not None:
        waits = dt.timedelta(seconds=settings.sends_to.knows_within)
    if utcnow() - since < waits:
        return None
    message = "the broker never knew this order, and its time is over"
    if order.broker_order_id is not None:
        message = f"the broker knew this order as {order.broker_order_id}, and has not for a day"
    return BrokerAnswer(status="expired", broker_order_id=None, fills=[], message=message)


def _book_answer(store: Store, settings: Settings, order_id: str, answer: BrokerAnswer) -> list[Difference]:
    try:
        with store.session() as session:
            order = load_order(session, order_id)
            was, before = order.state, filled_quantities(session, [order_id])[order_id]
            book(session, settings, order, answer)
            after = filled_quantities(session, [order_id])[order_id]
    except OrderError:
        return []  # what cannot be booked shows as an unexplained fill or position
    if order.state == was and after == before:
        return []
    desk, theirs = f"{was}, {plain(before)} filled", f"{answer.status}, {plain(after)} filled"
    symbol = order.contract or order.symbol
    return [difference("order_state", repaired=True, order=order_id, symbol=symbol, desk=desk, broker=theirs)]


def settle(store: Store, settings: Settings, state: BrokerState) -> list[Difference]:
    """Book option events, splits, dividends and delistings that are not booked yet; working orders follow splits and
    dividends."""
    found = []
    for leg in state.settlements:
        with store.session() as session:
            head = session.get_one(Account, state.account, with_for_update=True)
            if session.get(BookedSettlement, (head.name, leg.id)) is not None or not _due(session, state, leg):
                continue
            book_settlement(session, head.name, leg)
            if f"/{RENAMED}/{leg.symbol}/" in leg.id:
                follow_name(session, settings, head.name, leg)
            if leg.growth != 1:
                restate(session, settings, head.name, leg)
            columns = leg.model_dump(exclude={"at", "ratio", "growth"})
            session.add(BookedSettlement(account=head.name, settled_at=leg.at, **columns))
            facts = {**leg.model_dump(mode="json", exclude={"kind"}), "event": leg.kind}
            audit.record(session, settings, "settlement", account=head.name, **facts)
        found.append(difference("settlement", repaired=True, **facts))
    return found


def _due(session: Session, state: BrokerState, leg: Settlement) -> bool:
    """Return whether the leg accounts for our missing position: one from before the account was adopted is included
    already. What pays cash alone, a split, and what a split adjusts are due once."""
    if leg.kind in ("split", "adjusted", *PAID_FOR) or (f"/{RENAMED}/" in leg.id and not leg.quantity):
        return True
    ours = position_here(session, state.account, leg.symbol)
    lacking, quantity = position_there(state, leg.symbol) - ours, exact(leg.quantity)
    return lacking * quantity > 0 and abs(quantity) <= abs(lacking)


def _adopted(session: Session, account: str) -> frozenset[str]:
    since = utcnow() - REMEMBERED
    rows = session.exec(
        select(Reconciliation).where(col(Reconciliation.account) == account, col(Reconciliation.at) >= since)
    )
    return frozenset(line["id"] for row in rows for line in row.differences if line["kind"] == "adopted_fill")


def _adopt(store: Store, settings: Settings, state: BrokerState) -> list[Difference]:
    """Make positions, cash and past fills of the account the desk's own."""
    with store.session() as session:
        head = session.get_one(Account, state.account, with_for_update=True)
        before = _cost(session, head)
        fills = fill_differences(session, state, _adopted(session, head.name))
        moved = position_differences(session, state)
        for row in moved:
            _set_position(session, state, row["symbol"])
        found = [
            *({**row, "kind": "adopted_position", "repaired": True} for row in moved),
            *({**row, "kind": "adopted_fill", "repaired": True} for row in fills),
            *_set_cash(session, head, state),
        ]
        session.flush()
        accounts.shift_marks(session, head.name, _cost(session, head) - before)
        audit.record(session, settings, "adopted", account=head.name, differences=found)
    return found


def _cost(session: Session, head: Account) -> Decimal:
    rows = session.exec(select(Position).where(col(Position.account) == head.name)).all()
    costs = ((row, row.average_cost if row.currency is None else row.cost_base) for row in rows)
    held = (exact(row.quantity) * exact(cost or 0) * exact(multiplier_of(row.symbol)) for row, cost in costs)
    return exact(head.cash) + sum(held, Decimal(0))


def _set_position(session: Session, state: BrokerState, symbol: str) -> None:
    row = session.get(Position, (state.account, symbol), with_for_update=True, populate_existing=True)
    theirs = next((each for each in state.positions if each.symbol == symbol and each.quantity), None)
    if theirs is None:
        if row is not None:
            session.delete(row)
        return
    row = row or Position(account=state.account, symbol=symbol, quantity=0, average_cost=0, filled_at=utcnow())
    row.quantity, row.average_cost = theirs.quantity, theirs.average_cost
    foreign = theirs.currency not in (None, state.currency)
    row.currency, row.cost_base = (theirs.currency, theirs.cost_base) if foreign else (None, None)
    session.add(row)


def _repair_cash(store: Store, settings: Settings, state: BrokerState) -> list[Difference]:
    """Not while an order's fills may still be under way, which the broker's figure includes already."""
    with store.session() as session:
        head = session.get_one(Account, state.account, with_for_update=True)
        working = col(Order.account) == head.name, col(Order.state).in_(ORDER_WORKING)
        if session.exec(select(Order.id).where(*working)).first() is not None:
            return []
        before = exact(head.cash)
        found = _set_cash(session, head, state)
        if found:
            accounts.shift_marks(session, head.name, exact(head.cash) - before)
            audit.record(session, settings, "cash", account=head.name, differences=found)
    return found


def _set_cash(session: Session, head: Account, state: BrokerState) -> list[Difference]:
    here, there = exact(head.cash), exact(state.cash)
    if abs(here - there) < _CENT:
        return []
    head.cash = state.cash
    session.add(head)
    return [difference("cash", repaired=True, desk=plain(here), broker=plain(there))]


def _write_result(
    store: Store, settings: Settings, account: str, owner: str, repaired: list[Difference], left: list[Difference]
) -> Reconciliation:
    with store.read() as session:
        state, _ = halting.trading_state(session, settings, account)
    done = None
    if left and state is not TradingState.HALTED:
        done = halting.halt(store, account, halt_reason(left), owner)
    with store.session() as session:
        row = latest(session, account)
        if row is None or row.differences or repaired or left or row.owner != owner:
            row = Reconciliation(account=account, owner=owner, agreed=not left, differences=[*repaired, *left])
            facts = {"agreed": row.agreed, "differences": row.differences}
            audit.record(session, settings, "reconciled", account=account, by=owner, **facts)
        row.at = utcnow()  # repeated agreement is one row, or there would be one a minute
        session.add(row)
        if done is not None:
            halting.record(session, settings, done)
        if not left:
            halting.reword(session, account, _LOOK, _OVER)  # what is done is not to be done again
    return row
