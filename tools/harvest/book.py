"""The account's holdings as heat: what a bad day of each puts at risk, alone and together."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from chordesk.models.contracts import multiplier_of, parse_contract
from chordesk.tools.harvest.prices.comoves import correlations, log_returns
from chordesk.tools.market.protocol import Floats
from chordesk.tools.portfolio import portfolio_get
from chordesk.tools.registry import Arguments, Gaps, ToolContext
from chordesk.tools.risk import underlying_of
from chordesk.tools.stakes.heat import contract_heat, correlated_heat, effective_bets, share_heat
from chordesk.tools.technicals import technical_rows


@dataclass(frozen=True, slots=True)
class HeldHeat:
    """A position. symbol: the share that it is about; heat: share of equity; side: 1 where it gains when the share
    rises, else -1; value: in account currency, positive."""

    symbol: str
    heat: float
    side: int
    value: float


@dataclass(frozen=True)
class HeatBook:
    """Holdings with a known heat. equity: None when it is not known. missing: positions without a price or an ATR;
    assumed: symbols without 60 returns, which count as moving with all others."""

    equity: float | None
    rows: tuple[HeldHeat, ...]
    missing: tuple[str, ...]
    assumed: tuple[str, ...]
    returns: dict[str, Floats]
    units: dict[str, float]

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


def heat_book(tool: ToolContext, others: Sequence[str]) -> HeatBook:
    """Return the holdings of the account. others: symbols of which returns and units are wanted beside those held.

    units: heat of a position in shares worth all equity, 2 * ATR14 / price, by symbol.
    """
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
    return HeatBook(equity, tuple(rows), tuple(missing), tuple(assumed), returns, units)


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
