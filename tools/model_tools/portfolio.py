"""portfolio_get: the account's cash and positions, valued at what is known now."""

from __future__ import annotations

import datetime as dt
from typing import Any, NotRequired

from typing_extensions import TypedDict

from chordesk.models.database.store import Store
from chordesk.models.errors import NotConfigured
from chordesk.models.orders import AccountView, HeldPosition
from chordesk.models.tables.orders import Account
from chordesk.tools.decimals import rounded
from chordesk.tools.ledger import account_money, value, worth_of
from chordesk.tools.market.clock import day_of
from chordesk.tools.market.prices import Quotes, lapse
from chordesk.tools.registry import Answer, Arguments, Gaps, ToolContext, ToolSpec, payload
from chordesk.tools.risk.exposure import cover_of, held_in, underlying_of


class PositionRow(TypedDict):
    symbol: str
    quantity: float
    averageCost: float
    marketPrice: float | None
    priceDate: dt.date | None
    marketValue: float | None
    share: float | None
    boundByCalls: NotRequired[float]


class Portfolio(TypedDict):
    account: str
    cash: float
    equity: float | None
    buyingPower: float
    positions: list[PositionRow]


class PortfolioAnswer(Answer):
    portfolio: Portfolio


def portfolio_get(context: ToolContext, arguments: Arguments) -> dict[str, Any]:
    """Return cash, equity, buying power and positions in the account's currency; null is unknown. A position without a
    price of the market's latest session is valued at its last one, of `priceDate`, and is in `missing`."""
    gaps = Gaps()
    account = valued(context, gaps)
    if account is None:
        gaps.add("account", "not opened yet: these are the figures it opens with (DESK_STARTING_CASH)")
        cash = context.settings.starting_cash
        account = AccountView(account=context.account, cash=cash, equity=cash, positions=[])
    rows = [_position(held, account.equity) for held in account.positions]
    for row in rows:
        if bound := float(cover_of(held_in(row["symbol"], account.positions)).shares):
            row["boundByCalls"] = bound
    portfolio = {
        "account": context.account,
        "cash": rounded(account.cash, 2),
        "equity": rounded(account.equity, 2),
        "buyingPower": rounded(max(account.cash, 0.0), 2),
        "positions": rows,
    }
    return payload(context, gaps, available=True, portfolio=portfolio)


def store_of(context: ToolContext) -> Store:
    if context.store is None:
        raise NotConfigured("not available: this home has no database yet; run `desk up`, or set DESK_DATABASE_URL")
    return context.store


def valued(context: ToolContext, gaps: Gaps, only: str | None = None) -> AccountView | None:
    """Return the account as the context's market values it, with `only` the positions in one symbol alone; None before
    there is one. A position without a price has a gap, and so has one whose price is not of the market's latest
    session, which names its day."""
    with store_of(context).read() as session:
        head = session.get(Account, context.account)
        if head is None:
            return None
        found = value(
            session,
            Quotes(context.market, account_money(session, context.settings, context.account)),
            context.account,
            context.clock.now(),
        )
    held = [one for one in found.positions if only in (None, underlying_of(one.symbol))]
    for one in held:
        day = day_of(one.priced_at, one.symbol) if one.priced_at else None
        why = one.missing if day is None else lapse(day, context.clock.session())
        if why is not None:
            gaps.add("marketPrice", why, one.symbol)
    return found.model_copy(update={"positions": held})


def _position(held: HeldPosition, equity: float | None) -> dict[str, Any]:
    worth = worth_of(held)
    return {
        "symbol": held.symbol,
        "quantity": held.quantity,
        "averageCost": round(held.average_cost, 4),
        "marketPrice": rounded(held.market_price),
        "priceDate": day_of(held.priced_at, held.symbol).isoformat() if held.priced_at else None,
        "marketValue": None if worth is None else rounded(float(worth), 2),
        "share": round(float(worth) / equity, 4) if worth is not None and equity else None,
    }


PORTFOLIO_GET = ToolSpec(
    name="portfolio_get",
    description=(
        "The account: cash, equity, buyingPower, and positions with quantity, averageCost, marketPrice and its day "
        "(priceDate), marketValue and share of equity (a fraction); boundByCalls are shares that cover written calls "
        "and cannot be sold before these are bought back. A position whose price is not of the market's latest session "
        "is in `missing` and valued at that older price. Null is unknown; `missing` has the reason."
    ),
    arguments=Arguments,
    function=portfolio_get,
    answer=PortfolioAnswer,
    data=False,
)
