from __future__ import annotations

import pytest

from chordesk.models.errors import MarketError, UsageError
from chordesk.tools.market.home import HOME_REMEDY, foreign, require_home
from chordesk.tools.market.universe import resolve_universe
from tests.tools.market.far_market import FarMarket


@pytest.mark.parametrize(
    ("symbol", "stated", "says"),
    [
        ("AZN.L", {}, "AZN.L is listed in London (.L)"),
        ("sap.de", {}, "listed in Frankfurt"),
        ("7203.T", {}, "listed in Tokyo"),
        ("RELIANCE.NS", {}, "listed in Mumbai"),
        ("BTC-USD", {}, "a pair of currencies (priced in USD)"),
        ("BTC/USDT", {}, "priced in USDT"),
        ("EURUSD=X", {}, "an exchange rate"),
        ("GC=F", {}, "a future"),
        ("^GSPC", {}, "an index"),
        ("AZN", {"currency": "GBp"}, "AZN is priced in GBp, a hundredth of GBP"),
        (
            "SHOP",
            {"currency": "CAD", "zone": "America/Toronto"},
            "priced in CAD, traded by the clock of America/Toronto",
        ),
        ("SAP", {"exchange": "XETR"}, "on the exchange XETR (Frankfurt)"),
        ("VTSAX", {"currency": "USD", "kind": "MUTUALFUND"}, "a fund without a price on an exchange"),
        ("AAA", {"currency": "USX"}, "priced in USX, a hundredth of USD"),
        ("BTCUSDT", {}, "a pair of currencies (priced in USDT)"),
        ("EURUSD", {}, "a pair of currencies (priced in USD)"),
        ("ETH-PERP", {}, "a perpetual future"),
        ("AZN.LON", {}, "listed in London (.LON)"),
        ("LSE:AZN", {}, "on the exchange LSE (London)"),
        ("7203 JT Equity", {}, "listed in Tokyo (JT)"),
        ("SHOP", {"exchange": "Toronto Stock Exchange"}, "on the exchange Toronto Stock Exchange (Toronto)"),
    ],
)
def test_what_is_not_dollars_in_new_york_is_named(symbol: str, stated: dict[str, str], says: str) -> None:
    assert says in (foreign(symbol, **stated) or "")
    with pytest.raises(MarketError) as caught:
        require_home(symbol, **stated)
    assert caught.value.remedy == HOME_REMEDY


@pytest.mark.parametrize(
    "symbol",
    [
        "AAPL",
        "BRK.B",
        "BRK-B",
        "BF.A",
        "LEN-B",
        "BAC-PL",
        "BAC.PR.L",
        "ABC.U",
        "ABC-UN",
        "ABC.WS",
        "A.B.C",
        "T",
        "L",
        "RDS.A",
        "USD",
        "USDT",
        "AAPL US EQUITY",
    ],
)
def test_classes_units_and_preferred_shares_of_new_york_are_not(symbol: str) -> None:
    assert foreign(symbol) is None
    for exchange in ("NYSE", "NMS", "PCX", "BTS", "PNK", "XNAS", "New York Stock Exchange", "NYSE Euronext", ""):
        assert foreign(symbol, currency="USD", zone="America/New_York", exchange=exchange, kind="EQUITY") is None


@pytest.mark.parametrize("text", ["AAPL,AZN.L", "RELIANCE.NS", "BTC/USDT", "btc-usd"])
def test_a_universe_with_a_foreign_name_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match=r"the universe has .* is (listed in|a pair)") as caught:
        resolve_universe(text, FarMarket())
    assert caught.value.remedy == HOME_REMEDY
