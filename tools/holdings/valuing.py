"""What outside accounts are worth in US dollars at a market's now, and why a holding has no value."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal

from chordesk.models.errors import DeskError
from chordesk.models.exchanges import currency_of
from chordesk.models.holdings.statements import Holding
from chordesk.models.market import multiplier_of, parse_contract
from chordesk.tools.holdings.keeping import Outside, OutsideAccount
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
    """A holding with its value in US dollars, negative when short; None where it is not known, and then why. by: market
    or file. doubt: what speaks against the value."""

    outside: Outside
    value: float | None
    by: str = ""
    why: str = ""
    doubt: str = ""

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


def worths(context: ToolContext, accounts: Sequence[OutsideAccount], known: Priced) -> list[Worth]:
    rates = _rates(accounts)
    return [_worth(context, each, known, rates) for one in accounts for each in one.positions]


def _rates(accounts: Iterable[OutsideAccount]) -> dict[str, Decimal]:
    """Return US dollars for one of each currency: of the newest account that states it."""
    found: dict[str, Decimal] = {"USD": Decimal(1)}
    for one in sorted(accounts, key=lambda each: each.as_of):
        found.update({each.row.currency: each.row.rate for each in one.positions if each.row.rate is not None})
    return found


def _worth(context: ToolContext, outside: Outside, known: Priced, rates: Mapping[str, Decimal]) -> Worth:
    row, symbol = outside.row, outside.symbol
    rate = row.rate or rates.get(row.currency)
    stated = _stated(row, symbol, rate)
    if row.kind != "cash" and symbol is not None and parse_contract(symbol) is None:
        close, money = known.closes.get(symbol), _currency(symbol)
        # Where the file states no value, its currency says nothing of the listing that a person named.
        is_valued = row.value is not None or row.price is not None
        own = rate if money == row.currency else None if is_valued else rates.get(money or "")
        if close is not None and own is not None:
            shares = float(row.quantity) * _splits(context, symbol, outside.as_of)
            value = shares * close * float(own)
            return Worth(outside, value, "market", doubt=_doubt(value, stated))
    if stated is not None:
        return Worth(outside, float(stated), "file")
    if rate is None:
        return Worth(outside, None, why=f"no rate of {row.currency}: import it with --rate {row.currency}=...")
    why = f"the market has no price of {symbol}" if symbol else "it has no ticker (desk holdings map)"
    return Worth(outside, None, why=f"{why}, and the file states none")


def _stated(row: Holding, symbol: str | None, rate: Decimal | None) -> Decimal | None:
    """Return what a file says that a row is worth, in US dollars."""
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
