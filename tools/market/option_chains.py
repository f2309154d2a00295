"""Sources of option chains beside a live market's own: which one the settings name, and the loading of its module."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from chordesk.models.errors import SettingError
from chordesk.models.settings import Settings
from chordesk.tools.market.plugins import load_plugin
from chordesk.tools.market.protocol import OptionMarket, Shares

MARKETS_OWN = "market"
# To add one: write its module, with `build(settings, shares)` and `require_credentials(environ)`, and name it here and
# in the setting. An extra that it imports is named as the source is before its hyphen.
MODULES = {"alpaca": "chordesk.tools.alpaca.chains", "alpaca-opra": "chordesk.tools.alpaca.chains"}


def build_chains(settings: Settings, shares: Shares) -> OptionMarket:
    """Return the source that the settings name beside a market; no request is made. Raises NotConfigured when its extra
    is not installed, SettingError as its module does."""
    made: OptionMarket = source_module(settings).build(settings, shares)
    return made


def source_module(settings: Settings) -> Any:
    return load_plugin("option_chains", MODULES, settings.option_chains)


def require_live(settings: Settings, market: str, replays: bool) -> None:
    """Raise SettingError for another source of chains beside a market that stands on a past day: it has the chains of
    now alone."""
    if settings.option_chains == MARKETS_OWN or not replays or market != settings.market:
        return
    reason = (
        f"DESK_OPTION_CHAINS={settings.option_chains} is for a live market, and DESK_MARKET={market} is of the past"
    )
    raise SettingError(reason, remedy=f"set DESK_MARKET=yahoo, or DESK_OPTION_CHAINS={MARKETS_OWN}")


def require_chains(settings: Settings, environ: Mapping[str, str]) -> None:
    """Check that the source of chains has its credentials. Raises SettingError naming what is missing."""
    if settings.option_chains != MARKETS_OWN:
        source_module(settings).require_credentials(environ)
