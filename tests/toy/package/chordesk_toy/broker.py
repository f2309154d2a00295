"""The paper broker with an account of its own."""

from collections.abc import Mapping

from chordesk.models.database.store import Store
from chordesk.models.settings import Settings
from chordesk.tools.brokers.paper import PaperBroker
from chordesk.tools.market.protocol import MarketData


def build(settings: Settings, market: MarketData, store: Store, environ: Mapping[str, str]) -> PaperBroker:
    return PaperBroker(store, market, settings, "toy")
