"""The broker that the settings name."""

from __future__ import annotations

import importlib
import os
from collections.abc import Mapping

from models.errors import NotConfigured
from models.settings import Settings
from models.store import Store
from tools.brokers.paper import PaperBroker
from tools.brokers.protocol import Broker
from tools.market.protocol import MarketData


def build_broker(
    settings: Settings, market: MarketData, store: Store, environ: Mapping[str, str] | None = None
) -> Broker:
    """Raises SettingError when the market prices no fills for paper, or when credentials are missing or an address is
    not the broker's; NotConfigured when the broker's extra is not installed.

    environ: where credentials are looked for, and nowhere else; the process environment by default.
    """
    if settings.broker == "paper":
        return PaperBroker(store, market, settings)
    try:
        # An extra: nothing of it is loaded by a desk that trades on paper.
        module = importlib.import_module("tools.brokers.alpaca")
    except ModuleNotFoundError as missing:
        raise NotConfigured(
            f"not available: configure Alpaca with `pip install chordesk[alpaca]` ({missing.name} is not installed)"
        ) from None
    broker: Broker = module.AlpacaBroker(settings, market.clock, os.environ if environ is None else environ)
    return broker
