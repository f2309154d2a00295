"""The regime and base rates of a day: figures as pandas has them, of nothing later than the clock."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from chordesk.models.errors import MarketUnavailable
from chordesk.tools.market.clock import ReplayClock
from chordesk.tools.market.replay.market import ReplayData, ReplayMarket
from chordesk.tools.prices.price_panel import panel_of
from chordesk.tools.scoring.market_regime import base_rates, rates_of, regime_of, regime_row
from tests.tools.conftest import MakeContext
from tests.tools.market.far_market import FarMarket, daily


def test_the_regime_is_what_pandas_computes_of_the_closes(data: ReplayData, make_context: MakeContext) -> None:
    panel = panel_of(make_context(ReplayMarket(data, ReplayClock(data.sessions[200]))))
    found, frame = regime_of(panel), pd.DataFrame(panel.close.T, index=list(panel.days))
    daily_moves = (frame / frame.shift(1) - 1).mean(axis=1, skipna=True).fillna(0)
    index = (1 + daily_moves).cumprod()
    logs = np.log(index).diff().rolling(20).std() * 252**0.5
    month = frame / frame.shift(20) - 1
    assert found.date == data.sessions[200]
    assert found.change20 == pytest.approx(index.iloc[-1] / index.iloc[-21] - 1, abs=1e-4)
    assert found.from_average50 == pytest.approx(index.iloc[-1] / index.iloc[-50:].mean() - 1, abs=1e-4)
    assert found.volatility20 == pytest.approx(logs.iloc[-1], abs=1e-4)
    assert found.volatility_percentile == pytest.approx((logs.dropna() <= logs.iloc[-1] + 1e-12).mean(), abs=0.006)
    assert found.dispersion20 == pytest.approx(month.iloc[-1].std(ddof=0), abs=1e-4)
    assert found.rose20 == pytest.approx((month.iloc[-1].dropna() > 0).mean(), abs=1e-4)


def test_a_later_day_of_the_data_changes_nothing(data: ReplayData, make_context: MakeContext) -> None:
    cut = data.sessions[150]
    keep = data.columns.day <= cut.toordinal()
    start = np.r_[0, np.cumsum(np.add.reduceat(keep, data.columns.start[:-1]))]
    has = np.diff(start) > 0
    figures = [getattr(data.columns, name)[keep] for name in ("day", "open", "high", "low", "close", "volume")]
    short = data.with_columns(type(data.columns)(data.columns.symbols[has], np.unique(start), *figures))
    whole, early = (make_context(ReplayMarket(one, ReplayClock(cut))) for one in (data, short))
    assert regime_row(whole) == regime_row(early)
    assert base_rates(whole, ["AAPL", "HAL"]) == base_rates(early, ["AAPL", "HAL"])


@pytest.mark.parametrize("day", [150, 200, 244])
def test_the_base_rates_of_the_sample_average_one_half_over_its_names(
    data: ReplayData, make_context: MakeContext, day: int
) -> None:
    panel = panel_of(make_context(ReplayMarket(data, ReplayClock(data.sessions[day]))))
    rates = rates_of(panel)
    whole = [one.beat.share for row in range(len(panel.place)) if (one := rates.of(row, 10)) is not None]
    assert len(whole) > 400
    assert np.mean(whole) == pytest.approx(0.5, abs=1e-6)
    assert 0.45 < min(whole) <= max(whole) < 0.55, "no state of this year tells names far apart"


def test_a_market_that_does_not_answer_has_no_regime_and_says_why(make_context: MakeContext) -> None:
    market = FarMarket({"A": daily("A", [1.0] * 90)}, trouble={"A": MarketUnavailable("away")})
    context = make_context(market)
    assert regime_row(context) == {"missing": "away"}
    assert base_rates(context, ["A"]) == {}
