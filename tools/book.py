"""The account's holdings as bets: the heat of each and of all together, and what is left for one more."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from chordesk.models.contracts import multiplier_of, parse_contract
from chordesk.models.errors import UsageError
from chordesk.tools.market.protocol import Floats
from chordesk.tools.model_tools.portfolio import portfolio_get
from chordesk.tools.model_tools.signals import technical_rows
from chordesk.tools.price_panel import correlations, log_returns
from chordesk.tools.registry import Arguments, Gaps, ToolContext
from chordesk.tools.risk import underlying_of

ATRS_AT_RISK = 2


def share_heat(value: float, atr14: float, price: float, equity: float) -> float:
    """Return value * 2 * ATR14 / price / equity of a holding of shares; a short one has heat as a long one has."""
    return abs(value) * ATRS_AT_RISK * atr14 / _positive(price, "price") / _positive(equity, "equity")


def contract_heat(stake: float, equity: float) -> float:
    """Return the stake over equity: a contract can lose all that was paid for it."""
    return stake / _positive(equity, "equity")


def correlated_heat(heats: Floats, correlation: Floats) -> float:
    """Return sqrt(h' C h) for n heats and their n x n correlation: their sum when all move as one."""
    return math.sqrt(max(0.0, float(heats @ correlation @ heats)))


def effective_bets(heats: Floats, correlation: Floats) -> float | None:
    """Return (sum h)^2 / h' C h, the number of equal independent bets of that spread; None without heat."""
    spread = float(heats @ correlation @ heats)
    return float(heats.sum()) ** 2 / spread if spread > 0 else None


def _positive(value: float, name: str) -> float:
    if not value > 0:
        raise UsageError(f"{name} {value:g} is not above 0", remedy=f"heat needs the {name}; leave it out as missing")
    return value


@dataclass(frozen=True, slots=True)
class HeldHeat:
    """A position."""

    symbol: str  # the share that it is about
    heat: float  # share of equity
    side: int  # 1 where it gains when the share rises, else -1
    value: float  # in account currency, positive


@dataclass(frozen=True)
class HeatBook:
    """Holdings with a known heat."""

    equity: float | None  # None when it is not known
    rows: tuple[HeldHeat, ...]
    missing: tuple[str, ...]  # positions without a price or an ATR
    assumed: tuple[str, ...]  # symbols without 60 returns, which count as moving with all others
    returns: dict[str, Floats]
    units: dict[str, float]  # heat of a position in shares worth all equity, 2 * ATR14 / price, by symbol
    closes: dict[str, float] = field(default_factory=dict)  # last ones, likewise

    @cached_property
    def heats(self) -> Floats:
        return np.array([row.heat for row in self.rows])

    @cached_property
    def correlation(self) -> Floats:
        """Correlation of the positions' gains: that of their shares, turned round for opposite sides."""
        sides = np.array([row.side for row in self.rows])
        names = [row.symbol for row in self.rows]
        return correlations(self.returns, names, 1.0) * np.outer(sides, sides)

    @property
    def heat(self) -> float:
        return float(self.heats.sum())

    @property
    def correlated(self) -> float:
        return correlated_heat(self.heats, self.correlation) if self.rows else 0.0

    @property
    def bets(self) -> float | None:
        return effective_bets(self.heats, self.correlation) if self.rows else None

    def with_new(self, symbol: str) -> Floats | None:
        """Return the correlation of each position with a long one in a symbol; None without returns of that."""
        if symbol not in self.returns:
            return None
        names = [*(row.symbol for row in self.rows), symbol]
        sides = np.array([row.side for row in self.rows])
        return np.asarray(correlations(self.returns, names, 1.0)[-1, :-1] * sides, dtype=np.float64)

    def with_position(self, symbol: str, value: float) -> HeatBook:
        """Return the book with so much money more in shares of a symbol, negative when short; as it is where their heat
        is not known."""
        if symbol not in self.units or not self.equity:
            return self
        heat = abs(value) * self.units[symbol] / self.equity
        return replace(self, rows=(*self.rows, HeldHeat(symbol, heat, 1 if value > 0 else -1, abs(value))))


def heat_book(tool: ToolContext, others: Sequence[str]) -> HeatBook:
    """Return the holdings of the account. others: further symbols whose returns and units are needed."""
    portfolio: dict[str, Any] = portfolio_get(tool, Arguments())["portfolio"]
    equity, positions = portfolio["equity"], portfolio["positions"]
    names = list(dict.fromkeys([*(underlying_of(row["symbol"]) for row in positions), *others]))
    technicals = {row["symbol"]: row for row in technical_rows(tool, names, Gaps())}
    units = {name: share_heat(1.0, row["atr14"], row["close"], 1.0) for name, row in technicals.items() if row["atr14"]}
    rows, missing = [], []
    for row in positions:
        found = _heat_of(row, equity, units, technicals) if equity is not None and equity > 0 else None
        if found is None:
            missing.append(row["symbol"])
        else:
            rows.append(found)
    returns = log_returns(tool, names)
    assumed = sorted({row.symbol for row in rows} - returns.keys())
    closes = {name: row["close"] for name, row in technicals.items()}
    return HeatBook(equity, tuple(rows), tuple(missing), tuple(assumed), returns, units, closes)


def _heat_of(
    row: dict[str, Any], equity: float, units: dict[str, float], technicals: dict[str, Any]
) -> HeldHeat | None:
    """Return the heat of a position; a bought contract can lose its value, a written one counts as its shares."""
    symbol, value, quantity = underlying_of(row["symbol"]), row["marketValue"], row["quantity"]
    contract = parse_contract(row["symbol"])
    if value is None:
        return None
    if contract is not None and quantity > 0:
        return HeldHeat(symbol, contract_heat(value, equity), 1 if contract.kind == "call" else -1, value)
    if symbol not in units:
        return None
    if contract is None:
        return HeldHeat(symbol, abs(value) * units[symbol] / equity, 1 if quantity > 0 else -1, abs(value))
    shares = abs(quantity) * multiplier_of(row["symbol"]) * technicals[symbol]["close"]
    return HeldHeat(symbol, shares * units[symbol] / equity, -1 if contract.kind == "call" else 1, abs(value))


def room(book: HeatBook, with_new: Floats, unit: float, limit: float) -> float:
    """Return the largest share of equity w that one more position may have while the correlated heat stays within a
    limit: h'Ch + 2 w u (c'h) + (w u)^2 = limit^2, u its heat at w = 1, c its correlation with those held."""
    over = book.correlated**2 - limit**2
    if over >= 0:
        return 0.0
    along = float(with_new @ book.heats) if len(book.rows) else 0.0
    return (-along + math.sqrt(along * along - over)) / unit
