"""A listing that is not in US dollars in New York is refused by name, wherever its price would enter."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import pytest

from chordesk.models.errors import MarketError, SettingError, UsageError
from chordesk.tools.market.listing import elsewhere
from chordesk.tools.market.universe import resolve_universe
from chordesk.tools.market.yahoo.market import build_yahoo
from tests.fakes.yahoo import FarYahoo
from tests.tools.market.far_market import TODAY, FarClock, FarMarket
from tests.tools.market.files.folders import HEADER, sessions, walk, write_table
from tests.tools.market.files.folders import market as folder_market


@pytest.mark.parametrize("symbol", ["AAPL", "BRK.B", "BRK-B", "BF.A", "A", "NA", "GOOG", "USD", "BTC", "T", "HEI-A"])
def test_what_trades_in_new_york_passes(symbol: str) -> None:
    assert elsewhere(symbol, currency="USD", zone="America/New_York", kind="ETF") is None
    assert elsewhere(symbol) is None, "what a source does not state counts as New York's"


@pytest.mark.parametrize(
    ("symbol", "stated", "why"),
    [
        ("AZN.L", {}, "AZN.L is listed at London (.L)"),
        ("7203.T", {}, "Tokyo"),
        ("0700.HK", {"currency": "HKD"}, "Hong Kong (.HK), in HKD"),
        ("SHOP.TO", {"currency": "USD"}, "Toronto"),
        ("BTC-USD", {"currency": "USD", "kind": "CRYPTOCURRENCY"}, "a pair of currencies, a cryptocurrency"),
        ("EURUSD=X", {}, "an exchange rate"),
        ("ES=F", {}, "a future"),
        ("^GSPC", {}, "an index"),
        ("AZN", {"currency": "GBp"}, "AZN is in GBp"),
        ("SHOP", {"currency": "USD", "zone": "America/Toronto"}, "in the time zone America/Toronto"),
    ],
)
def test_what_does_not_is_named_with_where_it_trades(symbol: str, stated: dict[str, str], why: str) -> None:
    assert why in str(elsewhere(symbol, **stated))


@pytest.mark.parametrize(
    ("symbol", "meta", "why"),
    [
        ("AZN.L", {"currency": "GBp", "exchangeTimezoneName": "Europe/London"}, "London"),
        ("AZN", {"currency": "GBp"}, "in GBp"),
        ("SHOP", {"currency": "CAD", "exchangeTimezoneName": "America/Toronto"}, "in CAD, in the time zone"),
        ("GSPC", {"instrumentType": "INDEX"}, "an index"),
    ],
)
def test_yahoo_gives_no_price_of_it(tmp_path: Path, symbol: str, meta: dict[str, Any], why: str) -> None:
    far = FarYahoo()
    far.charts[symbol] = [(TODAY - dt.timedelta(days=back), 91, 92, 90, 91, 1000) for back in range(9, -1, -1)]
    far.metas[symbol] = meta
    far.start()
    try:
        market = build_yahoo(tmp_path, FarClock(), far.session())
        for ask in (market.quote, market.fill_price, lambda name: market.bars(name, 5)):
            with pytest.raises(MarketError, match=f"{symbol} is .*{why}.*US dollars in New York"):
                ask(symbol)
    finally:
        far.shutdown()
        far.server_close()


def test_a_data_folder_of_them_is_refused(tmp_path: Path) -> None:
    days = sessions("2020-01-02", 5)
    for symbol in ("AAPL", "AZN.L"):
        write_table(tmp_path / "bars" / f"{symbol}.csv", HEADER, walk(days))
    with pytest.raises(SettingError, match=r"AZN\.L is listed at London"):
        folder_market(tmp_path / "home", tmp_path, days[-1])


def test_a_universe_of_them_is_refused() -> None:
    with pytest.raises(UsageError, match=r"AZN\.L \(listed at London \(\.L\)\), BTC-USD \(a pair of currencies\)"):
        resolve_universe("AAPL,AZN.L,BTC-USD", FarMarket({}))
