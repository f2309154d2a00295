"""The replay's prices by another name."""

import datetime as dt

from chordesk.plugins import ReplayClock, ReplayMarket, Settings, replay_data


class ToyMarket(ReplayMarket):
    name = "toy"


def build(settings: Settings, day: dt.date | None) -> ToyMarket:
    return ToyMarket(replay_data(settings.home), ReplayClock(day or settings.replay_date))
