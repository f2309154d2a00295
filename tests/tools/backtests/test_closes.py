"""Closes as a table: those of the market, on the days that were asked for."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import numpy as np

from chordesk.models.settings import Settings
from chordesk.tools.backtests import closes_of
from chordesk.tools.market.factory import MarketKey, build_market

DAYS = [dt.date(2010, 3, day) for day in (1, 2, 5)]


def test_closes_are_those_of_the_market_on_their_days(tmp_path: Path) -> None:
    market = build_market(Settings(home=tmp_path), MarketKey("replay", DAYS[-1]))
    found = closes_of(market, ["IBM", "NOPE", "KO"], DAYS)
    for row, day in enumerate(DAYS):
        then = build_market(Settings(home=tmp_path), MarketKey("replay", day))
        assert found.table[row, 0] == then.quote("IBM").price
        assert found.table[row, 2] == then.quote("KO").price
    assert np.isnan(found.table[:, 1]).all()


def test_gaps_are_filled_by_the_close_before_them_alone(tmp_path: Path) -> None:
    market = build_market(Settings(home=tmp_path), MarketKey("replay", DAYS[-1]))
    found = closes_of(market, ["IBM"], DAYS)
    found.table[0, 0] = found.table[2, 0] = np.nan
    assert np.isnan(found.carried()[0, 0])
    assert found.carried()[2, 0] == found.table[1, 0]
