"""Markets and sources of option chains by name, and the loading of their modules."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol

from chordesk.models import features
from chordesk.models.errors import NotConfigured, SettingError, UsageError
from chordesk.models.exchanges import HOME
from chordesk.models.features import require_source
from chordesk.models.market import plain_name
from chordesk.models.settings import MARKETS, REPLAYING, Settings
from chordesk.tools.market.clock import exchange_day
from chordesk.tools.market.protocol import MarketData, OptionMarket, Shares


def load_plugin(noun: str, modules: Mapping[str, str], name: str) -> Any:
    """Raises UsageError for an unknown name, NotConfigured for a missing extra, SettingError for a module that cannot
    be loaded."""
    if name not in modules:
        remedy = f"choose among {', '.join(modules)}, or {features.remedy_for(f'{noun}s', name)}"
        raise UsageError(f"there is no {noun} {name!r}", remedy=remedy)
    require_source(name.partition("-")[0])
    try:
        return features.part(f"{noun}s", name, modules[name], kind="build")
    except ModuleNotFoundError as missing:
        command = f"pip install chordesk[{name.partition('-')[0]}]"
        reason = f"DESK_{noun.upper()}={name} with `{command}` ({missing.name} is not installed)"
        raise NotConfigured(f"not available: configure {reason}") from None


MARKETS_OWN = "market"
# To add one: write its module, with `build(settings, shares)` and `require_credentials(environ)`, and name it here and
# in the setting. An extra that it imports is named as the source is before its hyphen.
CHAIN_MODULES = {"alpaca": "chordesk.tools.market.alpaca_chains", "alpaca-opra": "chordesk.tools.market.alpaca_chains"}


def build_chains(settings: Settings, shares: Shares) -> OptionMarket:
    """No request is made. Raises NotConfigured when its extra is not installed, SettingError as its module does."""
    made: OptionMarket = source_module(settings).build(settings, shares)
    return made


def source_module(settings: Settings) -> Any:
    return load_plugin("option_chains", CHAIN_MODULES, settings.option_chains)


def require_live(settings: Settings, market: str, replays: bool) -> None:
    """Raise SettingError for another source of chains beside a past day: it has the chains of now alone."""
    if settings.option_chains == MARKETS_OWN or not replays or market != settings.market:
        return
    reason = (
        f"DESK_OPTION_CHAINS={settings.option_chains} is for a live market, and DESK_MARKET={market} is of the past"
    )
    raise SettingError(reason, remedy=f"set DESK_MARKET=yahoo, or DESK_OPTION_CHAINS={MARKETS_OWN}")


def require_chains(settings: Settings, environ: Mapping[str, str]) -> None:
    if settings.option_chains != MARKETS_OWN:
        source_module(settings).require_credentials(environ)


class MarketModule(Protocol):
    """A market's module; an extra that it imports has the market's name."""

    def build(self, settings: Settings, day: dt.date | None) -> MarketData:
        """Return the market, on that day if it replays. Raises SettingError when it has no such day, NotConfigured
        when its extra is not installed."""


class MarketKey(NamedTuple):
    """A market by name, and the day that it replays; None for one in real time. The name of a market of own data may
    end with their version, as a run keeps it: files-0a1b2c3d. exchange: of its clock."""

    name: str
    day: dt.date | None
    exchange: str = HOME

    def __str__(self) -> str:
        at = "" if self.exchange == HOME else f" on {self.exchange}"
        return f"{self.name}{at}" if self.day is None else f"{self.name}{at} of {self.day}"


def configured_market(settings: Settings) -> MarketKey:
    day = settings.replay_date if settings.market in REPLAYING else None
    return MarketKey(settings.market, day, settings.exchange)


def market_at(name: str, now: dt.datetime, kept: Mapping[str, Any] | None = None) -> MarketKey:
    """Return the market of a run by its columns. kept: its settings, which state its exchange; without one it is of New
    York, as all runs were."""
    exchange = (kept or {}).get("exchange", HOME)
    return MarketKey(name, exchange_day(now, exchange) if plain_name(name) in REPLAYING else None, exchange)


def build_market(settings: Settings, key: MarketKey | None = None) -> MarketData:
    """Return a market, by default the settings' own. Raises UsageError for an unknown name, SettingError when the
    market has no such day, its data are not those of the name, or it is not live while another source of option chains
    is set, NotConfigured when its extra is not installed."""
    key = key or configured_market(settings)
    module = _market_module(key.name)
    require_live(settings, plain_name(key.name), plain_name(key.name) in REPLAYING)
    if key.exchange != settings.exchange:
        settings = settings.model_copy(update={"exchange": key.exchange})
    market = features.built(lambda: module.build(settings, key.day))
    if market.clock.exchange != key.exchange:
        raise SettingError(
            f"DESK_EXCHANGE={key.exchange}, and the {plain_name(key.name)} market is of {market.clock.exchange} alone",
            remedy=f"set DESK_EXCHANGE={market.clock.exchange}, or DESK_MARKET=yahoo or files",
        )
    if key.name not in (market.name, plain_name(key.name)):
        reason = f"the data here are {market.name}, those asked for were {key.name}: a file of DESK_DATA has changed"
        raise SettingError(reason, remedy="put the former files back, or open a new run on these")
    return market


def _market_module(name: str) -> MarketModule:
    modules = {known: market.module for known, market in MARKETS.items()}
    module: MarketModule = load_plugin("market", modules, plain_name(name))
    return module
