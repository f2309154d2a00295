from __future__ import annotations

import re

import pytest

from chordesk.models.errors import MarketError, UsageError
from chordesk.tools.market.home import (
    HOME_REMEDY,
    TRADED_REMEDY,
    foreign,
    major_of,
    require_home,
    require_traded,
    untraded,
)
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


@pytest.mark.parametrize(
    ("symbol", "stated", "says"),
    [
        ("^FTSE", {}, "an index"),
        ("GBPUSD=X", {}, "an exchange rate"),
        ("EUR-USD", {}, "an exchange rate"),
        ("SAP.F", {}, "listed in Frankfurt (.F), which the desk does not know"),
        ("LSE:AZN", {}, "on the exchange LSE (London)"),
        ("AZN.L", {"currency": "???"}, "priced in ???, which is no currency that the desk knows"),
        ("AZN.L", {"zone": "America/New_York"}, "traded by the clock of America/New_York, and XLON by that of Europe"),
        ("AZN.L", {"exchange": "TSX"}, "on the exchange TSX (Toronto)"),
        ("AZN.L", {"kind": "MUTUALFUND"}, "a fund without a price on an exchange"),
        ("AAPL", {"currency": "GBp"}, "priced in GBp, a hundredth of GBP"),
    ],
)
def test_what_no_exchange_of_the_table_trades_is_named(symbol: str, stated: dict[str, str], says: str) -> None:
    assert says in (untraded(symbol, **stated) or "")
    with pytest.raises(MarketError) as caught:
        require_traded(symbol, **stated)
    assert caught.value.remedy == TRADED_REMEDY


@pytest.mark.parametrize(
    ("symbol", "stated"),
    [
        ("AZN.L", {"currency": "GBp", "zone": "Europe/London", "exchange": "LSE", "kind": "EQUITY"}),
        ("CSPX.L", {"currency": "USD", "zone": "Europe/London", "exchange": "LSE", "kind": "ETF"}),
        ("7203.T", {"currency": "JPY", "zone": "Asia/Tokyo", "exchange": "JPX", "kind": "EQUITY"}),
        ("0700.HK", {"currency": "HKD", "zone": "Asia/Hong_Kong", "exchange": "HKG"}),
        ("M&M.NS", {"currency": "INR", "zone": "Asia/Kolkata", "exchange": "NSI"}),
        ("BTC-USD", {"currency": "USD", "zone": "UTC", "exchange": "CCC", "kind": "CRYPTOCURRENCY"}),
        ("AAPL", {"currency": "USD", "zone": "America/New_York", "exchange": "NMS"}),
    ],
)
def test_a_listing_as_its_source_states_it_is_traded(symbol: str, stated: dict[str, str]) -> None:
    assert untraded(symbol, **stated) is None


@pytest.mark.parametrize(
    ("stated", "major"),
    [
        ("GBp", ("GBP", 100)),
        ("GBX", ("GBP", 100)),
        ("ZAc", ("ZAR", 100)),
        ("ILA", ("ILS", 100)),
        ("GBP", ("GBP", 1)),
        ("usd", ("USD", 1)),
        ("USDT", ("USDT", 1)),
        ("XYZ", None),
    ],
)
def test_a_minor_unit_has_its_currency(stated: str, major: tuple[str, int] | None) -> None:
    assert major_of(stated) == major


@pytest.mark.parametrize(
    ("text", "says", "remedies"),
    [
        (
            "AAPL,AZN.L,VOD.L",
            "AAPL of XNYS (New York); AZN.L, VOD.L of XLON (London)",
            ["DESK_EXCHANGE=XNYS DESK_UNIVERSE=AAPL", "DESK_EXCHANGE=XLON DESK_UNIVERSE=AZN.L,VOD.L"],
        ),
        (
            "M&M.NS",
            "DESK_EXCHANGE=XNYS, and the universe is M&M.NS of XNSE",
            ["DESK_EXCHANGE=XNSE DESK_UNIVERSE='M&M.NS'"],
        ),
        ("btc/usdt", "BTC-USDT of CRYPTO", ["DESK_EXCHANGE=CRYPTO DESK_UNIVERSE=BTC-USDT"]),
        ("AAPL,^GSPC", "^GSPC is an index", ["leave it out"]),
        ("AAPL,SAP.F", "SAP.F is listed in Frankfurt", ["leave it out"]),
    ],
)
def test_a_universe_that_is_not_of_one_exchange_is_refused(text: str, says: str, remedies: list[str]) -> None:
    with pytest.raises(UsageError, match=re.escape(says)) as caught:
        resolve_universe(text, FarMarket())
    assert all(one in (caught.value.remedy or "") for one in remedies)
