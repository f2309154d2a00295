"""Market beyond the wire that knows companies: rows of a test, whatever the clock."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from chordesk.models.company import (
    EarningsDate,
    Filing,
    Holder,
    InsiderTrade,
    PriceTargets,
    RatingChange,
    ShortInterest,
    Statement,
)
from tests.tools.market.far_market import FarMarket


@dataclass(eq=False)
class CompanyMarket(FarMarket):
    """rows by symbol; a symbol without any has none."""

    reports: Mapping[str, Sequence[EarningsDate]] = field(default_factory=dict)
    shorts: Mapping[str, Sequence[ShortInterest]] = field(default_factory=dict)
    changes: Mapping[str, Sequence[RatingChange]] = field(default_factory=dict)
    targets: Mapping[str, Sequence[PriceTargets]] = field(default_factory=dict)
    trades: Mapping[str, Sequence[InsiderTrade]] = field(default_factory=dict)
    held: Mapping[str, Sequence[Holder]] = field(default_factory=dict)
    filed: Mapping[str, Sequence[Filing]] = field(default_factory=dict)
    stated: Mapping[str, Sequence[Statement]] = field(default_factory=dict)

    def earnings(self, symbol: str) -> Sequence[EarningsDate]:
        self._ask(symbol)
        return self.reports.get(symbol, ())

    def short_interest(self, symbol: str) -> Sequence[ShortInterest]:
        self._ask(symbol)
        return self.shorts.get(symbol, ())

    def rating_changes(self, symbol: str) -> Sequence[RatingChange]:
        self._ask(symbol)
        return self.changes.get(symbol, ())

    def price_targets(self, symbol: str) -> Sequence[PriceTargets]:
        self._ask(symbol)
        return self.targets.get(symbol, ())

    def insider_trades(self, symbol: str) -> Sequence[InsiderTrade]:
        self._ask(symbol)
        return self.trades.get(symbol, ())

    def holders(self, symbol: str) -> Sequence[Holder]:
        self._ask(symbol)
        return self.held.get(symbol, ())

    def filings(self, symbol: str) -> Sequence[Filing]:
        self._ask(symbol)
        return self.filed.get(symbol, ())

    def statements(self, symbol: str) -> Sequence[Statement]:
        self._ask(symbol)
        return self.stated.get(symbol, ())
