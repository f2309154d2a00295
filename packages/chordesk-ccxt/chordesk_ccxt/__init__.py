"""Crypto by ccxt: a market of any of its venues, and balances at two of them."""

from chordesk.plugins import Feature, HoldingsSource, MarketEntry

FEATURE = Feature(
    name="ccxt",
    needs=">=0.2,<1",
    markets={"ccxt": MarketEntry("chordesk_ccxt.market")},
    holdings={
        name: HoldingsSource(
            f"chordesk_ccxt.holdings:{name}",
            name.capitalize(),
            credentials=(f"{name.upper()}_READ_KEY", f"{name.upper()}_READ_SECRET"),
            options=("CCXT_STAND_IN",),
        )
        for name in ("kraken", "binance")
    },
    settings_schema="chordesk_ccxt.settings:CcxtSettings",
)
