"""What an account stands at: holdings, open orders, listings of one company."""

from __future__ import annotations

import math

from chordesk.models.market import Listing
from chordesk.models.thesis import Pooled
from chordesk.tools.portfolio.holdings import standing_of
from chordesk.tools.portfolio.size_bounds import sizing
from tests.tools.held_account import (
    Hold,
    hold,  # noqa: F401
)
from tests.tools.market.far_market import FarMarket, daily


class Named(FarMarket):
    def listing(self, symbol: str) -> Listing:
        names = {"A": "Under Armour Inc Class A", "C": "Under Armour, Inc. Class C"}
        return Listing(symbol=symbol, name=names.get(symbol), sector="Apparel" if symbol in names else None)


def waves() -> FarMarket:
    """A and C swing together, B goes its own way: each moves by 1 % of log price a session."""
    swing = [0.01 if at % 2 else -0.01 for at in range(60)]
    slow = [0.01 if at // 2 % 2 else -0.01 for at in range(60)]
    closes = {name: [100.0 * math.exp(sum(one[:at])) for at in range(61)] for name, one in (("A", swing), ("B", slow))}
    return FarMarket({name: daily(name, closes["A" if name == "C" else name]) for name in "ABC"})


def test_holdings_cash_and_companies(hold: Hold) -> None:  # noqa: F811
    market = Named(waves().histories)
    close = float(market.histories["A"].close[-1])
    now = standing_of(hold(market, ("A", 5_000 / close), cash=95_000.0), ["B", "C"])
    assert (now.free_cash, now.held) == (95_000, {"A"})
    assert now.companies == {"A": "A", "B": "B", "C": "A"}
    twin, other = sizing("C", Pooled(), now), sizing("B", Pooled(), now)
    assert (twin.overlap[0].same_company, other.overlap[0].same_company) == (True, False)
    rooms = {one.rule: one.most for one in twin.bounds}
    assert rooms["share of one symbol"] is not None
    assert abs(rooms["share of one symbol"] - 5_000) < 1
    assert twin.most is not None
    assert other.most is not None
    assert twin.most < other.most, "it moves with what is held"
