"""Figures of all past sessions at once are those that a screen on the day has."""

from __future__ import annotations

import datetime as dt

import numpy as np
import pytest

from chordesk.tools.lenses.figures import PRICE_FIGURES, read_panel
from chordesk.tools.lenses.past import PastFigures, figures_of, unbroken
from chordesk.tools.market.clock import ReplayClock
from chordesk.tools.market.prices import history_of
from chordesk.tools.market.protocol import Bars
from chordesk.tools.market.replay.market import ReplayData, ReplayMarket
from chordesk.tools.model_tools.signals import exact_signals
from tests.tools.conftest import MakeContext

NAMES = ["AAPL", "IBM", "GE", "KO", "XOM"]


@pytest.mark.parametrize("place", [3, 40, 61, 140, 235])
def test_each_figure_is_the_days_own(data: ReplayData, make_context: MakeContext, place: int) -> None:
    days = data.sessions
    last = ReplayMarket(data, ReplayClock(days[-1]))
    symbols = [listing.symbol for listing in last.universe("sp500")][::7] + NAMES
    past = PastFigures(last, symbols, days)
    tables = past.tables(PRICE_FIGURES, [place])
    context = make_context(ReplayMarket(data, ReplayClock(days[place])))
    panel = read_panel(context, symbols, PRICE_FIGURES)
    for name in PRICE_FIGURES:
        np.testing.assert_allclose(tables[name][place], panel.columns[name], atol=1e-9, err_msg=f"{name} {days[place]}")


def made(count: int, seed: int) -> Bars:
    random = np.random.default_rng(seed)
    close = 50 * np.exp(np.cumsum(random.normal(0, 0.02, count)))
    high, low = close * 1.01, close * 0.99
    days = [dt.date(2015, 1, 1) + dt.timedelta(days=at) for at in range(count)]
    volume = random.integers(0, 5, count) * 1000.0
    return Bars("IBM", days, False, close * (1 + random.normal(0, 0.005, count)), high, low, close, volume)


@pytest.mark.parametrize("gone", [0, 3])
def test_a_longer_history_counts_its_last_252_sessions(gone: int) -> None:
    bars = made(400, seed=gone + 1)
    sessions = list(bars.dates)
    lost = set(np.random.default_rng(5).choice(np.arange(20, 390), gone, replace=False).tolist())
    kept = [at for at in range(400) if at not in lost]
    part = Bars("IBM", [sessions[at] for at in kept], False, *(
        getattr(bars, name)[kept] for name in ("open", "high", "low", "close", "volume")
    ))  # fmt: skip
    values, whole = figures_of(part, "IBM"), unbroken(np.array(kept))
    assert whole.sum() > 20
    for at in np.flatnonzero(whole)[::9]:
        day = kept[at]
        cut = slice(max(0, at - 251), at + 1)
        seen = Bars("IBM", part.dates[cut], False, *(
            getattr(part, name)[cut] for name in ("open", "high", "low", "close", "volume")
        ))  # fmt: skip
        own = exact_signals(history_of(seen, sessions[max(0, day - 251) : day + 1])).model_dump(by_alias=True)
        for name in set(values) - {"splitLike"}:
            expected = np.nan if own[name] is None else own[name]
            np.testing.assert_allclose(values[name][at], expected, atol=1e-9, err_msg=f"{name} at {at}")
