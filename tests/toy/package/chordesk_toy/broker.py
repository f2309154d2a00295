"""The paper broker with an account of its own."""

from collections.abc import Mapping

from chordesk.plugins import MarketData, PaperBroker, Settings, Store


def build(settings: Settings, market: MarketData, store: Store, environ: Mapping[str, str]) -> PaperBroker:
    return PaperBroker(store, market, settings, "toy")
