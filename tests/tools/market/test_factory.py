from __future__ import annotations

import datetime as dt
from pathlib import Path

import pytest

from chordesk.models.errors import NotConfigured, SettingError
from chordesk.models.settings import Settings
from chordesk.tools.market.alpaca_chains import AlpacaChains
from chordesk.tools.market.clock import LiveClock
from chordesk.tools.market.factory import MarketKey, build_market
from chordesk.tools.market.prices import quote_of
from chordesk.tools.market.replay.market import ReplayData, ReplayMarket
from chordesk.tools.market.yahoo.market import YahooChains, YahooMarket


def test_markets_are_built_at_their_date_and_without_a_request(replay_home: Path, data: ReplayData) -> None:
    live = build_market(Settings(home=replay_home, market="yahoo"))
    assert isinstance(live, YahooMarket)
    assert isinstance(live.clock, LiveClock)
    for day in data.sessions:
        market = build_market(Settings(home=replay_home, replay_date=day))
        assert isinstance(market, ReplayMarket)
        assert market.clock.now().date() == day


@pytest.mark.parametrize("chains", ["alpaca", "alpaca-opra"])
def test_chains_of_now_are_for_a_live_market(chains: str, replay_home: Path) -> None:
    with pytest.raises(SettingError, match=f"DESK_OPTION_CHAINS={chains} is for a live market, and DESK_MARKET=replay"):
        build_market(Settings(home=replay_home, option_chains=chains))
    live = Settings(home=replay_home, option_chains=chains, market="yahoo")
    past = build_market(live, MarketKey("replay", dt.date(2010, 8, 12)))  # of a run that another desk opened
    assert past.name == "replay"


def test_another_source_of_chains_stands_beside_the_shares(replay_home: Path) -> None:
    made = build_market(Settings(home=replay_home, option_chains="alpaca-opra", market="yahoo"))
    assert isinstance(made, YahooMarket)
    assert isinstance(made.options, AlpacaChains)
    assert made.options.name == "alpaca opra"
    with pytest.raises(NotConfigured, match="ALPACA_DATA_API_KEY and ALPACA_DATA_SECRET_KEY"):
        quote_of(made, "AAPL240419P00040000")
    own = build_market(Settings(home=replay_home, market="yahoo"))
    assert isinstance(own, YahooMarket)
    assert isinstance(own.options, YahooChains)
