"""portfolio_get: the account's cash and positions, valued at what is known now."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable
from typing import Any, NotRequired

from typing_extensions import TypedDict

from chordesk.models.database.store import Store
from chordesk.models.errors import MarketError, NotConfigured
from chordesk.models.money import DOLLAR
from chordesk.models.orders import AccountView, HeldPosition
from chordesk.models.tables.orders import Account
from chordesk.tools.decimals import rounded
from chordesk.tools.ledger import account_money, gains_of, value, worth_of
from chordesk.tools.market.clock import day_of
from chordesk.tools.market.fx import MarketRates, listed_in
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
    currency: NotRequired[str]
    rate: NotRequired[float | None]
    gainOfPrice: NotRequired[float | None]
    gainOfCurrency: NotRequired[float | None]


class Portfolio(TypedDict):
    account: str
    cash: float
    equity: float | None
    buyingPower: float
    currency: NotRequired[str]
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
        own = context.settings.currency
        account = AccountView(account=context.account, cash=cash, equity=cash, positions=[], currency=own)
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
        **({} if account.currency == DOLLAR else {"currency": account.currency}),
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
        **_foreign(held),
    }


def _foreign(held: HeldPosition) -> dict[str, Any]:
    """Return the facts of a position in another currency than the account's."""
    if held.currency is None:
        return {}
    gains = gains_of(held)
    of_price, of_currency = map(float, gains) if gains is not None else (None, None)
    return {
        "currency": held.currency,
        "rate": held.fx.rate if held.fx is not None else None,
        "gainOfPrice": rounded(of_price, 2),
        "gainOfCurrency": rounded(of_currency, 2),
    }


def rates_by_symbol(context: ToolContext, symbols: Iterable[str]) -> dict[str, tuple[str, float | None]]:
    """Return the currency of each symbol whose prices are not in the account's, with its rate, None where it is not
    known."""
    with store_of(context).read() as session:
        money = account_money(session, context.settings, context.account)
    rates = MarketRates(context.market, money)
    found: dict[str, tuple[str, float | None]] = {}
    for symbol in symbols:
        if (currency := listed_in(context.market, symbol)) == money.base:
            continue
        try:
            found[symbol] = (currency, rates.rate(currency).rate)
        except MarketError:
            found[symbol] = (currency, None)
    return found


PORTFOLIO_GET = ToolSpec(
    name="portfolio_get",
    description=(
        "The account: cash, equity, buyingPower, and positions with quantity, averageCost, marketPrice and its day "
        "(priceDate), marketValue and share of equity (a fraction); boundByCalls are shares that cover written calls "
        "and cannot be sold before these are bought back. A position whose price is not of the market's latest session "
        "is in `missing` and valued at that older price. Prices and cost of a row with a `currency` are in that, its "
        "other figures in the account's by `rate`. Null is unknown; `missing` has the reason."
    ),
    arguments=Arguments,
    function=portfolio_get,
    answer=PortfolioAnswer,
    data=False,
)
