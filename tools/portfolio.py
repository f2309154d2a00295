"""portfolio_get: the account's cash and positions, valued at what is known now."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlmodel import col, select

from models.contracts import multiplier_of
from models.database.store import Store
from models.errors import DeskError, NotConfigured
from models.tables.orders import Account, Fill, Position
from tools.decimals import exact, rounded
from tools.market.quotes import quote_of
from tools.registry import Arguments, Gaps, ToolContext, ToolSpec, payload
from tools.risk import cover_of, underlying_of

Prices = Mapping[str, float | None]


@dataclass(frozen=True, slots=True)
class Ledger:
    """The account's rows. `ahead` are fills at a time after now: an order of today that fills at the next open."""

    account: Account | None
    positions: Sequence[Position]
    ahead: Sequence[Fill]


def portfolio_get(context: ToolContext, arguments: Arguments) -> dict[str, Any]:
    """Return cash, equity, buying power and positions in the account's currency; null is unknown.

    A fill later than now is held already, but its price is not known yet: it is valued at the price known now, in cash
    as in equity, and the position's average cost is null.
    """
    gaps = Gaps()
    holdings = ledger_of(context)
    prices = prices_of(context, holdings, gaps)
    cash = _cash(context, holdings, prices, gaps)
    values = {row.symbol: _value(row, prices[row.symbol]) for row in holdings.positions}
    equity = _sum([cash, *values.values()])
    if holdings.ahead:
        names = ", ".join(sorted({fill.symbol for fill in holdings.ahead}))
        gaps.add("averageCost", f"{names}: filled at the next open, at a price that is not known yet")
    rows = [_position(row, holdings, prices[row.symbol], values[row.symbol], equity) for row in holdings.positions]
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
        held = select(Position).where(Position.account == context.account).order_by(col(Position.symbol))
        ahead = select(Fill).where(Fill.account == context.account, col(Fill.filled_at) > context.clock.now())
        return Ledger(account, session.exec(held).all(), session.exec(ahead).all())


def prices_of(context: ToolContext, holdings: Ledger, gaps: Gaps) -> dict[str, float | None]:
    """Return prices per share or contract unit as the market quotes them, by symbol; null with a gap where there is
    none."""
    symbols = sorted({row.symbol for row in holdings.positions} | {fill.symbol for fill in holdings.ahead})
    prices: dict[str, float | None] = {}
    for symbol in symbols:
        try:
            prices[symbol] = quote_of(context.market, symbol).price
        except DeskError as error:
            gaps.add("marketPrice", error, symbol)
            prices[symbol] = None
    return prices


def _cash(context: ToolContext, holdings: Ledger, prices: Prices, gaps: Gaps) -> float | None:
    """Return ledger cash, with each fill of the future taken back and booked again at the price known now."""
    if holdings.account is None:
        gaps.add("account", "not opened yet: these are the figures it opens with (DESK_STARTING_CASH)")
        return context.settings.starting_cash
    cash: float | None = holdings.account.cash
    for fill in holdings.ahead:
        price = prices[fill.symbol]
        units = (1 if fill.side == "buy" else -1) * fill.quantity * multiplier_of(fill.symbol)
        cash = None if cash is None or price is None else cash + units * (fill.price - price)
    return cash


def _position(
    row: Position, holdings: Ledger, price: float | None, value: float | None, equity: float | None
) -> dict[str, Any]:
    ahead = any(fill.symbol == row.symbol for fill in holdings.ahead)
    return {
        "symbol": row.symbol,
        "quantity": row.quantity,
        "averageCost": None if ahead else round(row.average_cost, 4),
        "marketPrice": rounded(price),
        "marketValue": rounded(value, 2),
        "share": round(value / equity, 4) if value is not None and equity else None,
    }


def _bound(symbol: str, positions: Sequence[Position]) -> float:
    """Return the shares of a symbol that stand against written calls: they are not free to be sold."""
    book = {row.symbol: exact(row.quantity) for row in positions if underlying_of(row.symbol) == symbol}
    return float(cover_of(book).shares)


def _value(row: Position, price: float | None) -> float | None:
    return None if price is None else row.quantity * price * multiplier_of(row.symbol)


def _sum(amounts: Sequence[float | None]) -> float | None:
    known = [amount for amount in amounts if amount is not None]
    return sum(known) if len(known) == len(amounts) else None


PORTFOLIO_GET = ToolSpec(
    name="portfolio_get",
    description=(
        "The account: cash, equity, buyingPower, and positions with quantity, averageCost, marketPrice, marketValue "
        "and share of equity (a fraction); boundByCalls are shares that cover written calls and cannot be sold before "
        "these are bought back. Null is unknown; `missing` says why."
    ),
    hint="cash, equity, buying power and positions of the account now; no arguments.",
    arguments=Arguments,
    function=portfolio_get,
    data=False,
)
