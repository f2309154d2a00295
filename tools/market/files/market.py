"""The files market: a user's own data, seen from 15:55 New York of one of their sessions (DESK_REPLAY_DATE).

It has what its folder has. It raises NotConfigured for what no file of the folder gives.
"""

from __future__ import annotations

import datetime as dt

from models.errors import MarketError, NotConfigured
from models.market import Headline, Listing
from models.settings import Settings
from tools.market.clock import ReplayClock
from tools.market.files.data import FilesData, files_data
from tools.market.protocol import MarketClock
from tools.market.replay.market import (
    UNIVERSE,
    ReplayMarket,
    WithModelledChains,
    asks_for_modelled,
    require_session,
)
from tools.market.replay.modelled import ModelledChains

REPLAYS = True
NAME = "files"


def build(settings: Settings, day: dt.date | None) -> FilesMarket:
    """Return a view of the settings' folder at that day; the data are shared. Raises SettingError when there is no
    such folder, it has errors, its data lack the day, or modelled options meet a broker that is not paper."""
    data = files_data(settings)
    day = day or settings.replay_date
    require_session(day, data.sessions, f"the data of {data.folder.path}")
    if asks_for_modelled(settings):
        return ModelledFiles(data, ReplayClock(day), settings.risk_free_rate)
    return FilesMarket(data, ReplayClock(day))


class FilesMarket(ReplayMarket):
    """MarketData of a data folder, cut at the clock's session. Its name has the version of the data, so that a run on
    other files is a run on another market."""

    def __init__(self, data: FilesData, clock: MarketClock) -> None:
        super().__init__(data, clock)
        self.name = f"{NAME}-{data.version}"
        self._files = data

    def universe(self, name: str) -> list[Listing]:
        """Return the folder's own universe, by whatever name a market's universe is asked for: the symbols of
        universe.csv, or all, as far as they have bars by now."""
        if name != UNIVERSE:
            raise MarketError(f"no universe named {name!r}; {UNIVERSE} is all of a folder's own symbols here")
        return [listing for listing in super().universe(name) if listing.symbol in self._files.members]

    def headlines(self, symbol: str, limit: int) -> list[Headline]:
        raise NotConfigured("not available: configure DESK_DATA with a file headlines.csv or headlines.jsonl")

    def section(self, symbol: str, section: str) -> dict[str, float | str | None]:
        raise NotConfigured(f"not available: a data folder has no {section}; configure DESK_MARKET=yahoo for it")


class ModelledFiles(WithModelledChains, FilesMarket):
    """Files market with modelled option chains in place of the folder's own. rate: interest a year, 0.04 is 4 %."""

    def __init__(self, data: FilesData, clock: MarketClock, rate: float) -> None:
        super().__init__(data, clock)
        self._chains = ModelledChains(self, rate)
