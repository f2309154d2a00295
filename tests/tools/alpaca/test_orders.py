"""Option orders on paper at the quotes of Alpaca's chain, which the run's tools have shown."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from chordesk.models.market import Quote
from chordesk.models.settings import Settings
from chordesk.tools.market.alpaca_chains import AlpacaChains, AlpacaData
from tests.fakes.alpaca import Alpaca
from tests.fakes.alpaca_options import snapshot
from tests.patience import PATIENCE
from tests.tools.alpaca.conftest import KEYS
from tests.tools.orders.conftest import new_desk
from tests.tools.orders.desk import Desk, action
from tests.tools.orders.tape import Tape

__all__ = ["new_desk"]

PUT = "AAA100918P00090000"
ALLOWED: dict[str, Any] = {
    "stock_only": False, "options_mode": "both", "max_symbol_share": 1, "max_order_notional": 1e6,
    "max_symbol_notional": 1e6, "starting_cash": 1e6, "max_price_collar": 0.2,
}  # fmt: skip


@dataclass
class Live(Tape):
    options: Any = None

    def dividend_yield(self, symbol: str) -> float | None:
        return None

    def option_quote(self, contract: str) -> Quote:
        found: Quote = self.options.option_quote(contract)
        return found


def test_previews_and_paper_meet_the_quotes_of_the_chain(
    alpaca: Alpaca, new_desk: Callable[..., Desk], tmp_path: Path
) -> None:
    market = Live({"AAA": 92.0})
    wire = AlpacaData(alpaca.url, KEYS, "indicative", PATIENCE)
    market.options = AlpacaChains(Settings(home=tmp_path, option_chains="alpaca"), market, wire)
    market.clock.day = None
    at = market.clock.now().astimezone(dt.UTC).isoformat()
    alpaca.options.snapshots["AAA"] = {PUT: snapshot(1.9, 2.1, at)}
    desk = new_desk(market, **ALLOWED)
    terms = {"side": "sell", "quantity": 1.0, "orderType": "limit", "limitPrice": 1.9, "contract": PUT}
    (sold,) = desk.run(action(**terms), instrument="option")
    assert (sold.state, [fill.price for fill in desk.fills()]) == ("filled", [1.9])
    chain = market.options.chain("AAA", dt.date(2010, 9, 1), dt.date(2010, 10, 1))
    (row,) = chain.rows
    assert (row.contract.symbol, row.bid) == (PUT, 1.9)
