"""The ledger of an account: cash and positions, their value, and the booking of fills."""

from __future__ import annotations

import datetime as dt
from collections.abc import Collection, Mapping
from decimal import Decimal
from typing import Any, Protocol

from sqlalchemy import bindparam, or_
from sqlalchemy import select as sa_select
from sqlalchemy.exc import IntegrityError
from sqlmodel import Session, col, select

from chordesk.models.errors import MarketError, OrderError
from chordesk.models.exchanges import exchange_code
from chordesk.models.market import Quote, multiplier_of
from chordesk.models.money import DOLLAR, Duty, FxRate, Money, pair_name
from chordesk.models.orders import PAID_FOR, AccountView, BrokerFill, HeldPosition, Settlement
from chordesk.models.settings import Settings
from chordesk.models.tables.orders import Account, BookedSettlement, Fill, Position
from chordesk.tools.books import Books, Rated, average_cost, books_of, duties_sum, in_base, rated_of
from chordesk.tools.decimals import exact
from chordesk.tools.market.clock import day_of, zone_of
from chordesk.tools.market.fx import Converting


class Quoter(Protocol):
    """Source of prices: a market, or quotes read beforehand."""

    def quote(self, symbol: str) -> Quote:
        """Return the last price known now; raises MarketError when there is none."""


def ensure_account(session: Session, name: str, cash: float, currency: str = DOLLAR) -> Account:
    """Return an account, opened with so much of a currency where it is not there yet."""
    account = session.get(Account, name)
    if account is not None:
        return account
    try:
        with session.begin_nested():
            account = Account(name=name, cash=cash, opening_cash=cash, currency=currency)
            session.add(account)
    except IntegrityError:  # another process opened it a moment ago
        account = None
    return account or _account(session, name)


def _account(session: Session, name: str, *, lock: bool = False) -> Account:
    account = session.get(Account, name, with_for_update=lock)
    if account is None:
        raise OrderError(f"there is no account {name!r}", remedy="ensure_account opens one")
    return account


def account_money(session: Session, settings: Settings, name: str) -> Money:
    """Return what an account counts in: its own currency, and of one that is not opened yet that of the settings."""
    head = session.get(Account, name)
    days = dt.timedelta(days=settings.max_fx_age)
    return Money(head.currency if head is not None else settings.currency, days)


def currency_of_account(session: Session, name: str) -> str:
    """Return what the amounts of an account are in; dollars of one that is not there."""
    head = session.get(Account, name)
    return head.currency if head is not None else DOLLAR


_POSITIONS = select(Position).where(col(Position.account) == bindparam("account")).order_by(Position.symbol)


def value(session: Session, market: Quoter, account: str, at: dt.datetime | None = None) -> AccountView:
    """Return cash, positions and equity: the one valuation, of every view, limit and report.

    A position counts at the last price that the market knew by its now; one without a price, whose price is that of
    another contract, or whose currency has no rate into the account's, makes equity None.
    equity = cash + sum of quantity x price x multiplier x rate. at: the market time, when the account may have moved
    since, as in a replay that was set back; by default the books as they stand. Raises OrderError when there is no such
    account.
    """
    head = _account(session, account)
    if at is None or not _moved_since(session, account, at):
        rows = session.exec(_POSITIONS, params={"account": account}).all()
        cash, held = head.cash, [_unpriced(row) for row in rows]
    else:
        books = books_of(session, account, head.opening_cash, at)
        cash = float(books.cash)
        held = [_of_books(books, symbol) for symbol in sorted(books.held)]
    has_contracts = any(multiplier_of(one.symbol) != 1 for one in held)
    adjusted = adjusted_contracts(session, account) if has_contracts else {}
    positions = [_priced(market, one, head.currency, adjusted.get(one.symbol)) for one in held]
    worth = [worth_of(one) for one in positions]
    known = [one for one in worth if one is not None]
    equity = float(sum(known, exact(cash))) if len(known) == len(worth) else None
    return AccountView(account=account, cash=cash, equity=equity, positions=positions, currency=head.currency)


def _after(table: Any, moment: Any) -> Any:
    own = col(table.account) == bindparam("account")
    return select(table.id).where(own, col(moment) > bindparam("at")).exists()


_MOVED = sa_select(or_(_after(Fill, Fill.filled_at), _after(BookedSettlement, BookedSettlement.settled_at)))


def _moved_since(session: Session, account: str, at: dt.datetime) -> bool:
    return session.scalar(_MOVED, {"account": account, "at": at}) is True


_FILLED = select(Fill.order_id, Fill.quantity).where(col(Fill.order_id).in_(bindparam("orders", expanding=True)))


def filled_quantities(session: Session, orders: Collection[str]) -> Mapping[str, Decimal]:
    found = dict.fromkeys(orders, Decimal(0))
    for order_id, quantity in session.exec(_FILLED, params={"orders": list(found)}).all() if found else ():
        found[order_id] += exact(quantity)
    return found


def bought_on(session: Session, account: str, symbol: str, day: dt.date) -> Decimal:
    """Return what was bought of a symbol on a day of its exchange."""
    hours = zone_of(exchange_code(symbol))
    start = dt.datetime.combine(day, dt.time.min, hours)
    which = col(Fill.account) == account, col(Fill.symbol) == symbol, col(Fill.side) == "buy"
    ends = start + dt.timedelta(days=1)
    rows = session.exec(select(Fill.quantity).where(*which, col(Fill.filled_at) >= start, col(Fill.filled_at) < ends))
    return sum(map(exact, rows), Decimal(0))


RENAMED = "renamed"  # in the id of a leg: NEW/day/renamed/OLD/symbol


def former_names(session: Session, account: str) -> dict[str, str]:
    """Return the new symbol of each that an account's books followed to another name."""
    of_names = (col(BookedSettlement.account) == account, col(BookedSettlement.kind) == "converted")
    rows = session.exec(select(BookedSettlement.id).where(*of_names, col(BookedSettlement.id).contains(f"/{RENAMED}/")))
    parts = (one.split("/") for one in rows)
    return {old: new for new, _, _, old, _ in parts}


def adjusted_contracts(session: Session, account: str) -> dict[str, dt.date]:
    """Return the contracts of an account that deliver other than 100 shares, with the day of the split since which."""
    mine = (col(BookedSettlement.account) == account, col(BookedSettlement.kind) == "adjusted")
    rows = session.exec(select(BookedSettlement).where(*mine).order_by(col(BookedSettlement.settled_at).desc()))
    return {row.symbol: day_of(row.settled_at, row.symbol) for row in rows}


def not_standard(symbol: str, day: dt.date) -> str:
    """Return why an adjusted contract has no price: what is quoted under its name delivers 100 shares."""
    return f"{symbol} delivers other than 100 shares since the split of {day}: it has no price, and ends at its expiry"


def _unpriced(row: Position) -> HeldPosition:
    names = ("symbol", "quantity", "average_cost", "currency", "cost_base")
    return HeldPosition(**{name: getattr(row, name) for name in names})


def _of_books(books: Books, symbol: str) -> HeldPosition:
    (quantity, cost), base = books.held[symbol], books.bases.get(symbol)
    of_base = {"currency": base.currency, "cost_base": float(base.rate)} if base is not None else {}
    return HeldPosition.model_validate(
        {"symbol": symbol, "quantity": float(quantity), "average_cost": float(cost), **of_base}
    )


def _priced(market: Quoter, held: HeldPosition, base: str, adjusted: dt.date | None) -> HeldPosition:
    if adjusted is not None:
        return held.model_copy(update={"missing": not_standard(held.symbol, adjusted)})
    try:
        quote = market.quote(held.symbol)
    except MarketError as error:
        return held.model_copy(update={"missing": str(error)})
    found = {"market_price": quote.price, "priced_at": quote.at, "source": quote.source}
    if held.currency is not None:
        try:
            found["fx"] = rate_of(market, held.currency, base)
        except MarketError as error:
            found["missing"] = str(error)
    return held.model_copy(update=found)


def rate_of(market: Quoter, currency: str, base: str) -> FxRate:
    """Return the rate of a currency into an account's. Raises MarketError where it is not known."""
    if not isinstance(market, Converting) or market.money.base != base:
        raise MarketError(f"no rate of {pair_name(currency, base)} was read")
    return market.rate(currency)


def worth_of(held: HeldPosition) -> Decimal | None:
    """Return what a position is worth in the account's currency; None without a price, or without its rate."""
    if held.market_price is None or (held.currency is not None and held.fx is None):
        return None
    worth = exact(held.quantity) * exact(held.market_price) * exact(multiplier_of(held.symbol))
    return worth if held.fx is None else worth * exact(held.fx.rate)


def rates_of(view: AccountView) -> dict[str, list[Any]] | None:
    """Return the rates that an account was valued at by currency: rate, time and source; None without any."""
    rated = (one.fx for one in view.positions if one.fx is not None)
    return {fx.currency: [fx.rate, fx.at.isoformat(), fx.source] for fx in rated} or None


def gains_of(held: HeldPosition) -> tuple[Decimal, Decimal] | None:
    """Return the gain of price and the gain of currency of a position, in the account's currency; None where its price
    or its rate is not known.

    With the average cost c, of which one unit cost b in the account's currency, the price p and the rate r of now, all
    that a share gained is p r - b = (p - c) r + (c r - b): what its price made, at the rate of now, and what the
    currency made of the money that was paid.
    """
    if held.market_price is None or (held.currency is not None and (held.fx is None or held.cost_base is None)):
        return None
    units = exact(held.quantity) * exact(multiplier_of(held.symbol))
    moved = units * (exact(held.market_price) - exact(held.average_cost))
    if held.fx is None:
        return moved, Decimal(0)
    rate = exact(held.fx.rate)
    return moved * rate, units * (exact(held.average_cost) * rate - exact(held.cost_base or 0))


OF_RATE = ("currency", "rate", "rate_at", "rate_source")


def fill_of(row: Fill) -> BrokerFill:
    """Return a booked fill as a broker reports one."""
    names = ("id", "quantity", "price", "commission", *OF_RATE)
    duties = tuple(Duty(*duty) for duty in row.duties or ())
    return BrokerFill(**{name: getattr(row, name) for name in names}, at=row.filled_at, duties=duties)


def apply_fill(session: Session, account: str, symbol: str, side: str, fill: BrokerFill) -> None:
    """Book one fill of a share or an OCC contract: cash by quantity x price x multiplier x rate, commission and duties,
    the position by its quantity. The average cost moves only when exposure grows, and leaves commission and duties out;
    a position of zero shares goes. The caller's transaction must also hold what makes the fill unique."""
    signed = exact(fill.quantity) * (1 if side == "buy" else -1)
    costs = exact(fill.commission) + duties_sum(fill.duties)
    move(session, account, symbol, signed, exact(fill.price), fill.at, costs, rated_of(fill, symbol))


def move(
    session: Session,
    account: str,
    symbol: str,
    signed: Decimal,
    price: Decimal,
    at: dt.datetime,
    costs: Decimal = Decimal(0),
    rated: Rated | None = None,
) -> None:
    """Change a position by a signed quantity at a price per share, which may be 0 when a contract just ends. costs: in
    the account's currency; rated: of the price, None where it is in that too."""
    head = _account(session, account, lock=True)
    paid = in_base(signed * price * exact(multiplier_of(symbol)), rated)
    head.cash = float(exact(head.cash) - paid - costs)
    session.add(head)
    row = session.get(Position, (account, symbol), with_for_update=True)
    before = exact(row.quantity) if row else Decimal(0)
    after = before + signed
    if after == 0:
        if row is not None:
            session.delete(row)
    else:
        row = row or Position(account=account, symbol=symbol, quantity=0, average_cost=0, filled_at=at)
        row.average_cost = average_cost(before, exact(row.average_cost), signed, price)
        if rated is not None and (row.cost_base is not None or not before):
            row.currency = rated.currency
            row.cost_base = average_cost(before, exact(row.cost_base or 0), signed, price * rated.rate)
        row.quantity = float(after)
        row.filled_at = at
        session.add(row)
    session.flush()


def book_settlement(session: Session, account: str, leg: Settlement) -> None:
    quantity, price, rated = exact(leg.quantity), exact(leg.price), rated_of(leg, leg.symbol)
    if leg.kind in PAID_FOR:
        head = _account(session, account, lock=True)
        head.cash = float(exact(head.cash) + in_base(quantity * price, rated))
        session.add(head)
    elif leg.kind != "split":
        move(session, account, leg.symbol, quantity, price, leg.at, rated=rated)
    elif (row := session.get(Position, (account, leg.symbol), with_for_update=True)) is not None or quantity:
        if row is None:
            row = Position(account=account, symbol=leg.symbol, quantity=0, average_cost=0, filled_at=leg.at)
            row.currency, row.cost_base = (rated.currency, 0.0) if rated is not None else (None, None)
        before = exact(row.quantity)
        if after := before + quantity:
            row.average_cost = float(exact(row.average_cost) * before / after)
            if row.cost_base is not None:
                row.cost_base = float(exact(row.cost_base) * before / after)
            row.quantity = float(after)
            session.add(row)
        else:
            session.delete(row)  # `before` is not zero: the row is in the database
    session.flush()
