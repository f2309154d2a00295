from __future__ import annotations

import datetime as dt
import importlib
from pathlib import Path

import pytest

from chordesk.models.errors import NotConfigured, SettingError
from chordesk.models.settings import REPLAYING, Settings
from chordesk.tools.market.alpaca_chains import AlpacaChains
from chordesk.tools.market.clock import LiveClock, ReplayClock
from chordesk.tools.market.factory import MODULES, MarketKey, build_market
from chordesk.tools.market.prices import quote_of
from chordesk.tools.market.replay.market import ReplayData, ReplayMarket
from chordesk.tools.market.yahoo.market import YahooChains, YahooMarket


def settings(home: Path, **changes: object) -> Settings:
    return Settings(home=home, **changes)


def test_the_replay_is_built_at_its_date(replay_home: Path) -> None:
    market = build_market(settings(replay_home, replay_date=dt.date(2010, 3, 1)))
    assert isinstance(market, ReplayMarket)
    assert isinstance(market.clock, ReplayClock)
    assert market.clock.now().isoformat() == "2010-03-01T15:55:00-05:00"


def test_yahoo_is_built_without_a_request(tmp_path: Path) -> None:
    market = build_market(settings(tmp_path, market="yahoo"))
    assert isinstance(market, YahooMarket)
    assert isinstance(market.clock, LiveClock)


@pytest.mark.parametrize(
    ("day", "why", "near"),
    [
        ("2010-08-14", "is no session of the New York Stock Exchange", "2010-08-13 and 2010-08-16"),
        ("2010-07-05", "is no session of the New York Stock Exchange", "2010-07-02 and 2010-07-06"),
        ("2010-08-18", "is a session that the replay's data lack", "2010-08-17 and 2010-08-19"),
        ("2009-11-03", "is a session that the replay's data lack", "2009-10-28 and 2009-11-05"),
        ("2010-08-21", "is outside the replay's data (2009-08-21 to 2010-08-20)", "2010-08-20"),
        ("2009-08-20", "is outside the replay's data (2009-08-21 to 2010-08-20)", "2009-08-21"),
    ],
)
def test_a_date_that_cannot_be_replayed_is_refused(replay_home: Path, day: str, why: str, near: str) -> None:
    with pytest.raises(SettingError) as caught:
        build_market(settings(replay_home, replay_date=day))
    assert str(caught.value) == f"DESK_REPLAY_DATE={day} {why} (the nearest that can be replayed: {near})"


def test_every_session_of_the_data_can_be_replayed(replay_home: Path, data: ReplayData) -> None:
    for day in data.sessions:
        assert build_market(settings(replay_home, replay_date=day)).clock.now().date() == day


@pytest.mark.parametrize("chains", ["alpaca", "alpaca-opra"])
def test_chains_of_now_are_for_a_live_market(chains: str, replay_home: Path) -> None:
    with pytest.raises(SettingError, match=f"DESK_OPTION_CHAINS={chains} is for a live market, and DESK_MARKET=replay"):
        build_market(settings(replay_home, option_chains=chains))
    live = settings(replay_home, option_chains=chains, market="yahoo")
    past = build_market(live, MarketKey("replay", dt.date(2010, 8, 12)))  # of a run that another desk opened
    assert past.name == "replay"


def test_another_source_of_chains_stands_beside_the_shares(replay_home: Path) -> None:
    made = build_market(settings(replay_home, option_chains="alpaca-opra", market="yahoo"))
    assert isinstance(made, YahooMarket)
    assert isinstance(made.options, AlpacaChains)
    assert made.options.name == "alpaca opra"
    with pytest.raises(NotConfigured, match="ALPACA_DATA_API_KEY and ALPACA_DATA_SECRET_KEY"):
        quote_of(made, "AAPL240419P00040000")
    own = build_market(settings(replay_home, market="yahoo"))
    assert isinstance(own, YahooMarket)
    assert isinstance(own.options, YahooChains)


def test_markets_that_replay_are_those_that_the_settings_name() -> None:
    assert {name for name, path in MODULES.items() if importlib.import_module(path).REPLAYS} == REPLAYING
