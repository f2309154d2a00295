"""What outside accounts are worth in the desk's currency at a market's now, and why a holding has no value."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal

from chordesk.models.errors import DeskError, MarketError
from chordesk.models.exchanges import currency_of
from chordesk.models.market import multiplier_of, parse_contract
from chordesk.models.money import DOLLAR, Money
from chordesk.models.statements import Holding
from chordesk.tools.decimals import exact
from chordesk.tools.holdings.keeping import Outside, OutsideAccount
from chordesk.tools.market.clock import clock_day
from chordesk.tools.market.fx import rate_into
from chordesk.tools.market.prices import splits_since
from chordesk.tools.market.protocol import Floats
from chordesk.tools.model_tools.signals import technical_rows
from chordesk.tools.portfolio.size_bounds import share_heat
from chordesk.tools.prices.price_panel import log_returns
from chordesk.tools.registry import Gaps, ToolContext
from chordesk.tools.risk.exposure import underlying_of

MOVED = 2.5  # times by which a price differs from the file's, from which a split since is likely


@dataclass(frozen=True, slots=True)
class Priced:
    """What a market knows of symbols now. units: heat of a position in shares as a share of its value, 2 ATR14 over the
    price."""

    closes: Mapping[str, float] = field(default_factory=dict)
    units: Mapping[str, float] = field(default_factory=dict)
    returns: Mapping[str, Floats] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Worth:
    """A holding with its value in account currency, negative when short; None where it is not known, and then why. by:
    market or file. doubt: what speaks against the value. rate: account currency for one of the row's, 1 where that is
    not known."""

    outside: Outside
    value: float | None
    by: str = ""
    why: str = ""
    doubt: str = ""
    rate: float = 1.0

    @property
    def symbol(self) -> str | None:
        """The share that it is about; None of cash, and of what the market has no name for."""
        return underlying_of(self.outside.symbol) if self.outside.symbol else None


def priced(context: ToolContext, symbols: Iterable[str]) -> Priced:
    names = list(dict.fromkeys(symbols))
    rows = {row["symbol"]: row for row in technical_rows(context, names, Gaps())} if names else {}
    return Priced(
        {name: row["close"] for name, row in rows.items()},
        {name: share_heat(1.0, row["atr14"], row["close"], 1.0) for name, row in rows.items() if row["atr14"]},
        log_returns(context, names) if names else {},
    )


def symbols_of(accounts: Iterable[OutsideAccount]) -> list[str]:
    """Return the shares that outside holdings are about, each once."""
    held = (each.symbol for one in accounts for each in one.positions if each.symbol and each.row.kind != "cash")
    return list(dict.fromkeys(underlying_of(symbol) for symbol in held))


class Rates:
    """What one unit of a currency is worth in the account's: as the market knows it now, else as files or people said.

    A file states US dollars, so that for an account in another currency its rate is crossed over the dollar."""

    def __init__(self, context: ToolContext, accounts: Sequence[OutsideAccount]) -> None:
        self._market = context.market
        self._money = Money(context.settings.currency, dt.timedelta(days=context.settings.max_fx_age))
        self._dollars: dict[str, Decimal] = {DOLLAR: Decimal(1)}  # of the newest account that states it
        for one in sorted(accounts, key=lambda each: each.as_of):
            self._dollars.update({each.row.currency: each.row.rate for each in one.positions if each.row.rate})
        self._known: dict[str, Decimal | None] = {self._money.base: Decimal(1)}

    def now(self, currency: str) -> Decimal | None:
        """Return the market's rate, else what the newest account stated, so that a currency has one rate in a view;
        None where nobody knows one."""
        found = self._of_market(currency)
        return found if found is not None else self._stated(self._dollars.get(currency))

    def _stated(self, dollars: Decimal | None) -> Decimal | None:
        if dollars is None:
            return None
        of_dollar = self._of_market(DOLLAR)
        if of_dollar is None and (own := self._dollars.get(self._money.base)):
            of_dollar = 1 / own
        return None if of_dollar is None else dollars * of_dollar

    def _of_market(self, currency: str) -> Decimal | None:
        if currency not in self._known:
            try:
                self._known[currency] = exact(rate_into(self._market, currency, self._money).rate)
            except MarketError:
                self._known[currency] = None
        return self._known[currency]


def worths(context: ToolContext, accounts: Sequence[OutsideAccount], known: Priced) -> list[Worth]:
    rates, today = Rates(context, accounts), clock_day(context.clock)
    return [_worth(context, each, known, rates, today) for one in accounts for each in one.positions]


def _worth(context: ToolContext, outside: Outside, known: Priced, rates: Rates, today: dt.date) -> Worth:
    row, symbol = outside.row, outside.symbol
    rate = rates.now(row.currency)
    stated = _stated(row, symbol, rate)
    unit = 1.0 if rate is None else float(rate)
    contract = parse_contract(symbol) if symbol is not None else None
    if contract is not None and contract.expiry < today:  # the file's value was that of a day before
        why = f"it expired on {contract.expiry}, and what it became is not known: import a newer file"
        return Worth(outside, None, why=why, rate=unit)
    if row.kind != "cash" and symbol is not None and contract is None:
        close, money = known.closes.get(symbol), _currency(symbol)
        # Where the file states no value, its currency says nothing of the listing that a person named.
        is_valued = row.value is not None or row.price is not None
        own = rates.now(money) if money is not None and (money == row.currency or not is_valued) else None
        if close is not None and own is not None:
            shares = float(row.quantity) * _splits(context, symbol, outside.as_of)
            value = shares * close * float(own)
            return Worth(outside, value, "market", doubt=_doubt(value, stated), rate=unit)
    if stated is not None:
        return Worth(outside, float(stated), "file", rate=unit)
    if rate is None:
        return Worth(outside, None, why=f"no rate of {row.currency}: import it with --rate {row.currency}=...")
    why = f"the market has no price of {symbol}" if symbol else "it has no ticker (desk holdings map)"
    return Worth(outside, None, why=f"{why}, and the file states none", rate=unit)


def _stated(row: Holding, symbol: str | None, rate: Decimal | None) -> Decimal | None:
    """Return what a file says that a row is worth, in account currency."""
    if rate is None:
        return None
    if row.kind == "cash":
        return row.quantity * rate
    if row.value is not None:
        return row.value * rate
    size = Decimal(str(multiplier_of(symbol))) if symbol else Decimal(1)
    return None if row.price is None else row.quantity * row.price * size * rate


def _currency(symbol: str) -> str | None:
    try:
        return currency_of(symbol)
    except DeskError:
        return None


def _splits(context: ToolContext, symbol: str, day: dt.date) -> float:
    try:
        return splits_since(context.market, symbol, day)
    except DeskError:
        return 1.0


def _doubt(value: float, stated: Decimal | None) -> str:
    if not stated or not value:
        return ""
    times = abs(value / float(stated))
    if 1 / MOVED < times < MOVED:
        return ""
    return f"{times:.2f} times the file's value: perhaps a split since, or another share of this name"
