"""Crypto by ccxt: a market of any of its venues; balances and orders at two of them."""

from chordesk.plugins import BrokerEntry, Feature, HoldingsSource, MarketEntry

# As `orders.TAKES`: this module imports only what describes.
_TAKES = {"market": ("day",), "limit": ("day", "gtc", "ioc"), "stop": ("gtc",), "stop_limit": ("gtc",)}


def _broker(venue: str, play_money: bool = False) -> BrokerEntry:
    return BrokerEntry(
        "chordesk_ccxt.broker",
        play_money=play_money,
        credentials=(f"{venue.upper()}_API_KEY", f"{venue.upper()}_API_SECRET"),
        takes=_TAKES,
        options=False,
        # An order is in one of the venue's lists from the moment that it has it.
        knows_within=900.0,
    )


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
    brokers={
        "ccxt-kraken": _broker("kraken"),
        "ccxt-binance": _broker("binance"),
        "ccxt-binance-testnet": _broker("binance_testnet", play_money=True),
    },
    checks=("chordesk_ccxt.doctor_check:CHECK",),
    settings_schema="chordesk_ccxt.settings:CcxtSettings",
)
