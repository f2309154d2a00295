"""Brokers by name: the one that the settings name, and the loading of its module."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Protocol, get_args

from chordesk.models.database.store import Store
from chordesk.models.settings import BrokerName, Settings
from chordesk.tools.brokers.protocol import Broker
from chordesk.tools.market.plugins import load_plugin
from chordesk.tools.market.protocol import MarketData

# One module a broker, imported when it is asked for: to add one, write it and add its name to BrokerName. The names of
# one broker's accounts differ after the hyphen.
MODULES = {name: f"chordesk.tools.brokers.{name.partition('-')[0]}" for name in get_args(BrokerName)}


class BrokerModule(Protocol):
    """A broker's module; the extra that installs what it imports has the name of its module."""

    def build(self, settings: Settings, market: MarketData, store: Store, environ: Mapping[str, str]) -> Broker:
        """Return the broker. Raises SettingError when the market prices no fills for it, or when credentials are
        missing or an address is not the broker's."""


def build_broker(
    settings: Settings, market: MarketData, store: Store, environ: Mapping[str, str] | None = None
) -> Broker:
    """Return the settings' broker. Raises UsageError for an unknown name, NotConfigured when the broker's extra is not
    installed, SettingError as its module does.

    environ: where credentials are looked for, and nowhere else; the process environment by default.
    """
    module: BrokerModule = load_plugin("broker", MODULES, settings.broker)
    return module.build(settings, market, store, os.environ if environ is None else environ)
