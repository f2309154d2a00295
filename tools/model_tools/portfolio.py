"""portfolio_get: the account's cash and positions, valued at what is known now."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import select
from sqlmodel import col

from chordesk.models.contracts import multiplier_of
from chordesk.models.database.store import Store
from chordesk.models.errors import DeskError, NotConfigured
from chordesk.models.market import Quote
from chordesk.models.tables.orders import Account, Fill, Position
from chordesk.tools.decimals import exact, rounded
from chordesk.tools.market.clock import exchange_day
from chordesk.tools.market.prices import lapse, quote_of
from chordesk.tools.registry import Arguments, Gaps, ToolContext, ToolSpec, payload
from chordesk.tools.risk import cover_of, underlying_of

Marks = Mapping[str, Quote | None]


@dataclass(frozen=True, slots=True)
class Ledger:
    """The account's rows. `ahead` are fills at a time after now: an order of today that fills at the next open."""

    account: Account | None
    positions: Sequence[Position]
    ahead: Sequence[Fill]


def portfolio_get(context: ToolContext, arguments: Arguments) -> dict[str, Any]:
    """Return cash, equity, buying power and positions in the account's currency; null is unknown.

    A position without a price of the market's latest session is valued at its last one, of `priceDate`, and is in
    `missing`. A fill later than now is held already, but its price is not known yet: it is valued at the price known
    now, in cash as in equity, and the position's average cost is null.
    """
    gaps = Gaps()
    holdings = ledger_of(context)
    marks = marks_of(context, holdings, gaps)
    cash = _cash(context, holdings, marks, gaps)
    values = {row.symbol: _value(row, marks[row.symbol]) for row in holdings.positions}
    equity = _sum([cash, *values.values()])
    if holdings.ahead:
        names = ", ".join(sorted({fill.symbol for fill in holdings.ahead}))
        gaps.add("averageCost", f"{names}: filled at the next open, at a price that is not known yet")
    rows = [_position(row, holdings, marks[row.symbol], values[row.symbol], equity) for row in holdings.positions]
    for row in rows:
        if bound := _bound(row["symbol"], holdings.positions):
            row["boundByCalls"] = bound
    portfolio = {
        "account": context.account,
        "cash": rounded(cash, 2),
        "equity": rounded(equity, 2),
        "buyingPower": rounded(None if cash is None else max(cash, 0.0), 2),
        "positions": rows,
    }
    return payload(context, gaps, available=True, portfolio=portfolio)


def store_of(context: ToolContext) -> Store:
    if context.store is None:
        raise NotConfigured("not available: configure DESK_DATABASE_URL")
    return context.store


def ledger_of(context: ToolContext) -> Ledger:
    with store_of(context).read() as session:
        account = session.get(Account, context.account)
        held = select(Position).where(col(Position.account) == context.account).order_by(col(Position.symbol))
        later = (col(Fill.account) == context.account, col(Fill.filled_at) > context.clock.now())
        return Ledger(account, session.scalars(held).all(), session.scalars(select(Fill).where(*later)).all())


def marks_of(context: ToolContext, holdings: Ledger, gaps: Gaps) -> dict[str, Quote | None]:
    """Return the last quotes per share or contract unit, by symbol. A missing quote is null, with a gap; a quote of an
    earlier session has a gap that names its day."""
    symbols = sorted({row.symbol for row in holdings.positions} | {fill.symbol for fill in holdings.ahead})
    marks: dict[str, Quote | None] = {}
    for symbol in symbols:
        marks[symbol] = None
        try:
            marks[symbol] = found = quote_of(context.market, symbol)
            why = lapse(exchange_day(found.at), context.clock.session())
        except DeskError as error:
            why = str(error)
        if why is not None:
            gaps.add("marketPrice", why, symbol)
    return marks


def _cash(context: ToolContext, holdings: Ledger, marks: Marks, gaps: Gaps) -> float | None:
    """Return ledger cash, with each fill of the future taken back and booked again at the price known now."""
    if holdings.account is None:
        gaps.add("account", "not opened yet: these are the figures it opens with (DESK_STARTING_CASH)")
        return context.settings.starting_cash
    cash: float | None = holdings.account.cash
    for fill in holdings.ahead:
        mark = marks[fill.symbol]
        units = (1 if fill.side == "buy" else -1) * fill.quantity * multiplier_of(fill.symbol)
        cash = None if cash is None or mark is None else cash + units * (fill.price - mark.price)
    return cash


def _position(
    row: Position, holdings: Ledger, mark: Quote | None, value: float | None, equity: float | None
) -> dict[str, Any]:
    ahead = any(fill.symbol == row.symbol for fill in holdings.ahead)
    return {
        "symbol": row.symbol,
        "quantity": row.quantity,
        "averageCost": None if ahead else round(row.average_cost, 4),
        "marketPrice": mark and rounded(mark.price),
        "priceDate": mark and exchange_day(mark.at).isoformat(),
        "marketValue": rounded(value, 2),
        "share": round(value / equity, 4) if value is not None and equity else None,
    }


def _bound(symbol: str, positions: Sequence[Position]) -> float:
    """Return the shares of a symbol that stand against written calls: they are not free to be sold."""
    book = {row.symbol: exact(row.quantity) for row in positions if underlying_of(row.symbol) == symbol}
    return float(cover_of(book).shares)


def _value(row: Position, mark: Quote | None) -> float | None:
    return None if mark is None else row.quantity * mark.price * multiplier_of(row.symbol)


def _sum(amounts: Sequence[float | None]) -> float | None:
    known = [amount for amount in amounts if amount is not None]
    return sum(known) if len(known) == len(amounts) else None


PORTFOLIO_GET = ToolSpec(
    name="portfolio_get",
    description=(
        "The account: cash, equity, buyingPower, and positions with quantity, averageCost, marketPrice and its day "
        "(priceDate), marketValue and share of equity (a fraction); boundByCalls are shares that cover written calls "
        "and cannot be sold before these are bought back. A position whose price is not of the market's latest session "
        "is in `missing` and valued at that older price. Null is unknown; `missing` has the reason."
    ),
    hint="cash, equity, buying power and positions of the account now; no arguments.",
    arguments=Arguments,
    function=portfolio_get,
    data=False,
)
