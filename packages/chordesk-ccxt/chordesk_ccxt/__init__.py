"""Crypto by ccxt: a market of any of its venues."""

from chordesk.plugins import Feature, MarketEntry

FEATURE = Feature(
    name="ccxt",
    needs=">=0.2,<1",
    markets={"ccxt": MarketEntry("chordesk_ccxt.market")},
    settings_schema="chordesk_ccxt.settings:CcxtSettings",
)
