"""Markets by name: which one the settings or a run name, and the loading of its module."""

from __future__ import annotations

import datetime as dt
from typing import NamedTuple, Protocol, get_args

from chordesk.models.errors import SettingError
from chordesk.models.market import plain_name
from chordesk.models.settings import MarketName, Settings
from chordesk.tools.market.clock import exchange_day
from chordesk.tools.market.option_chains import require_live
from chordesk.tools.market.plugins import load_plugin
from chordesk.tools.market.protocol import MarketData

# One module a market, imported when the market is first asked for: to add one, write it and add its name to MarketName.
MODULES = {name: f"chordesk.tools.market.{name}.market" for name in get_args(MarketName)}


class MarketModule(Protocol):
    """A market's module; an extra that it imports has the market's name. REPLAYS: its clock stands still on one day;
    otherwise it is real time."""

    REPLAYS: bool

    def build(self, settings: Settings, day: dt.date | None) -> MarketData:
        """Return the market, on that day if it replays. Raises SettingError when it has no such day, NotConfigured
        when its extra is not installed."""


class MarketKey(NamedTuple):
    """A market by name, and the day that it replays; None for one in real time. The name of a market of own data may
    end with their version, as a run keeps it: files-0a1b2c3d."""

    name: str
    day: dt.date | None

    def __str__(self) -> str:
        return self.name if self.day is None else f"{self.name} of {self.day}"


def configured_market(settings: Settings) -> MarketKey:
    """Return the market of the settings."""
    return MarketKey(settings.market, settings.replay_date if _module(settings.market).REPLAYS else None)


def market_at(name: str, now: dt.datetime) -> MarketKey:
    """Return the market of a run. now: the run's market time. Raises UsageError for an unknown name."""
    return MarketKey(name, exchange_day(now) if _module(name).REPLAYS else None)


def build_market(settings: Settings, key: MarketKey | None = None) -> MarketData:
    """Return a market, by default the settings' own. Raises UsageError for an unknown name, SettingError when the
    market has no such day, its data are not those of the name, or it is not live while another source of option chains
    is set, NotConfigured when its extra is not installed."""
    key = key or configured_market(settings)
    module = _module(key.name)
    require_live(settings, plain_name(key.name), module.REPLAYS)
    market = module.build(settings, key.day)
    if key.name not in (market.name, plain_name(key.name)):
        reason = f"the data here are {market.name}, those asked for were {key.name}: a file of DESK_DATA has changed"
        raise SettingError(reason, remedy="put the former files back, or open a new run on these")
    return market


def _module(name: str) -> MarketModule:
    module: MarketModule = load_plugin("market", MODULES, plain_name(name))
    return module
