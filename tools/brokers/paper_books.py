"""The paper broker's own books: made anew from the fills each time, so that they check the ledger."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass, field
from decimal import Decimal

from sqlmodel import Session, col, select

from chordesk.models.contracts import OptionContract, multiplier_of, parse_contract
from chordesk.models.errors import MarketError
from chordesk.models.orders import AccountFill, BrokerFill, BrokerOrder, BrokerPosition, Settlement
from chordesk.models.states import OrderState
from chordesk.models.tables.orders import Account, BookedSettlement, Fill, Order
from chordesk.models.trading.legs import legs_of
from chordesk.tools.decimals import exact
from chordesk.tools.ledger import average_cost
from chordesk.tools.market.clock import NEW_YORK, exchange_hours
from chordesk.tools.market.protocol import MarketData

_RESTING = (OrderState.SUBMITTED.value, OrderState.PARTIALLY_FILLED.value)
_SESSIONS_BACK = 30


@dataclass(slots=True)
class Books:
    """cash, and by symbol the signed quantity and its average cost per share."""

    cash: Decimal
    held: dict[str, tuple[Decimal, Decimal]] = field(default_factory=dict)

    def move(self, symbol: str, signed: Decimal, price: Decimal, commission: Decimal = Decimal(0)) -> None:
        self.cash -= signed * price * exact(multiplier_of(symbol)) + commission
        before, average = self.held.get(symbol, (Decimal(0), Decimal(0)))
        after = before + signed
        if after:
            self.held[symbol] = (after, exact(average_cost(before, average, signed, price)))
        else:
            self.held.pop(symbol, None)

    def positions(self) -> list[BrokerPosition]:
        rows = sorted(self.held.items())
        return [
            BrokerPosition(symbol=name, quantity=float(held), average_cost=float(cost)) for name, (held, cost) in rows
        ]


def books_of(session: Session, account: str, opening_cash: float) -> Books:
    """Return opening cash with the account's fills and settlements booked; `opening_cash` counts while it has no
    row."""
    head = session.get(Account, account)
    books = Books(exact(head.opening_cash if head else opening_cash))
    fills = session.exec(select(Fill).where(col(Fill.account) == account)).all()
    settled = session.exec(select(BookedSettlement).where(col(BookedSettlement.account) == account)).all()
    rows: list[Fill | BookedSettlement] = [*fills, *settled]
    for row in sorted(rows, key=lambda row: (row.created_at, row.id)):
        if isinstance(row, Fill):
            sign = 1 if row.side == "buy" else -1
            books.move(row.symbol, sign * exact(row.quantity), exact(row.price), exact(row.commission))
        else:
            books.move(row.symbol, exact(row.quantity), exact(row.price))
    return books


def fills_of(session: Session, order_id: str) -> list[BrokerFill]:
    """Return the fills of an order, in the order they were booked."""
    order = session.get(Order, order_id)
    names = ("symbol", "side") if order is not None and order.legs else ()
    rows = session.exec(select(Fill).where(col(Fill.order_id) == order_id).order_by(col(Fill.created_at), col(Fill.id)))
    return [
        BrokerFill(
            quantity=row.quantity, price=row.price, commission=row.commission, at=row.filled_at,
            **{name: getattr(row, name) for name in names},
        )
        for row in rows
    ]  # fmt: skip


def resting(session: Session, account: str) -> list[BrokerOrder]:
    rows = session.exec(select(Order).where(col(Order.account) == account, col(Order.state).in_(_RESTING)))
    return [_open_order(session, order) for order in rows]


def _open_order(session: Session, order: Order) -> BrokerOrder:
    filled = sum(exact(fill.quantity) for fill in fills_of(session, order.id))
    ids = {"client_id": order.id, "broker_order_id": order.broker_order_id or f"paper-{order.id}"}
    whole = sum(leg.ratio for leg in legs_of(order.legs)) or 1
    quantity = float(exact(order.quantity or 0) * whole)
    traded = {"symbol": order.contract or order.symbol, "side": order.side, "quantity": quantity}
    return BrokerOrder.model_validate({**ids, **traded, "filled": float(filled)})


def recent_fills(session: Session, account: str, since: dt.datetime) -> list[AccountFill]:
    rows = session.exec(
        select(Fill, Order)
        .join(Order, col(Order.id) == col(Fill.order_id))
        .where(col(Fill.account) == account, col(Fill.filled_at) >= since)
    ).all()
    return [_account_fill(fill, order) for fill, order in rows]


def _account_fill(fill: Fill, order: Order) -> AccountFill:
    names = {"id", "quantity", "price", "commission"}
    booked = {**fill.model_dump(include=names), "at": fill.filled_at}
    ids = {"client_id": order.id, "broker_order_id": order.broker_order_id or f"paper-{order.id}"}
    return AccountFill.model_validate({**ids, "symbol": fill.symbol, "side": fill.side, "fill": booked})


def settlements(books: Books, market: MarketData) -> list[Settlement]:
    """Return the settlements of contracts past their expiry; one without a known close of its underlying waits.

    A written put that ends in the money is assigned: its shares are bought at the strike. A bought contract that ends
    in the money is closed at what it is worth, as brokers that sell out before the exercise do.
    """
    found: list[Settlement] = []
    for symbol, (held, _) in sorted(books.held.items()):
        contract = parse_contract(symbol)
        if contract is None or market.clock.now().date() <= contract.expiry:
            continue
        close = _close_at(contract, market)
        if close is not None:
            found += _ended(contract, held, *close)
    return found


def _close_at(contract: OptionContract, market: MarketData) -> tuple[Decimal, dt.datetime] | None:
    """Return the underlying's close on the expiry's session, if the bars at hand have it: the session of that day, or
    the last one before a day without."""
    try:
        bars = market.bars(contract.underlying, _SESSIONS_BACK)
        session = exchange_hours().last_closed(dt.datetime.combine(contract.expiry, dt.time.max, NEW_YORK))
    except MarketError:
        return None
    closes = dict(zip(bars.dates, bars.close, strict=True))
    if session not in closes:
        return None
    at = dt.datetime.combine(contract.expiry, dt.time(16), market.clock.now().tzinfo)
    return exact(float(closes[session])), at


def _ended(contract: OptionContract, held: Decimal, close: Decimal, at: dt.datetime) -> list[Settlement]:
    worth = close - contract.strike if contract.kind == "call" else contract.strike - close

    def leg(kind: str, symbol: str, quantity: Decimal, price: Decimal) -> Settlement:
        amounts = {"quantity": float(quantity), "price": float(price)}
        names = {"id": f"{contract.symbol}/{symbol}", "kind": kind, "symbol": symbol}
        return Settlement.model_validate({**names, **amounts, "at": at})

    if worth <= 0:
        return [leg("expired", contract.symbol, -held, Decimal(0))]
    if held > 0:
        return [leg("exercised", contract.symbol, -held, worth)]
    shares = -held * exact(multiplier_of(contract.symbol)) * (1 if contract.kind == "put" else -1)
    return [
        leg("assigned", contract.symbol, -held, Decimal(0)),
        leg("delivered", contract.underlying, shares, contract.strike),
    ]
