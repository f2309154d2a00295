"""The replay's prices by another name."""

from __future__ import annotations

import datetime as dt

from chordesk.plugins import ReplayClock, ReplayMarket, Settings, replay_data


class EchoMarket(ReplayMarket):
    name = "echo"


def build(settings: Settings, day: dt.date | None) -> EchoMarket:
    return EchoMarket(replay_data(settings.home), ReplayClock(day or settings.replay_date))
