"""(k) what charts cost a worker: pictures a second from several threads, CPU of a picture and of a study."""

from __future__ import annotations

import datetime as dt
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

from chordesk.models.settings import Settings
from chordesk.tools.market.clock import ReplayClock
from chordesk.tools.market.replay.market import ReplayMarket, replay_data
from chordesk.tools.model_tools.charts import (
    MOST_STUDY_SYMBOLS,
    RenderArguments,
    StudyArguments,
    chart_render,
    chart_study_get,
)
from chordesk.tools.registry import ToolContext
from chordesk.tools.toolsets import warm

DAY, THREADS = dt.date(2010, 7, 30), 4


class ChartCost(NamedTuple):
    """Pictures a second of one process, CPU in milliseconds of a picture and of a study of 126 sessions."""

    rate: float
    picture_ms: float
    study_ms: float
    symbols: int


def chart_cost(rounds: int) -> ChartCost:
    """Measure charts of 90 names of the replay, so many times over."""
    with tempfile.TemporaryDirectory() as home:
        context = _context(Path(home))
        names = [listing.symbol for listing in context.market.universe("sp500")][: 3 * MOST_STUDY_SYMBOLS]
        parts = [names[first : first + MOST_STUDY_SYMBOLS] for first in range(0, len(names), MOST_STUDY_SYMBOLS)]
        warm()
        _draw(context, names[0])
        began = time.perf_counter()
        picture = _cpu(lambda: _draw_all(context, names * rounds))
        rate = len(names) * rounds / (time.perf_counter() - began)
        study = _cpu(lambda: [chart_study_get(context, StudyArguments(symbols=part)) for part in parts * rounds])
    count = len(names) * rounds
    return ChartCost(rate, picture / count * 1000, study / count * 1000, len(names))


def _context(home: Path) -> ToolContext:
    market = ReplayMarket(replay_data(home), ReplayClock(DAY))
    return ToolContext(market, market.clock, None, Settings(home=home), "paper", None)


def _draw_all(context: ToolContext, names: list[str]) -> None:
    with ThreadPoolExecutor(THREADS) as pool:
        list(pool.map(lambda name: _draw(context, name), names))


def _draw(context: ToolContext, name: str) -> None:
    chart_render(context, RenderArguments(symbols=[name]))


def _cpu(work: Callable[[], object]) -> float:
    before = time.process_time()
    work()
    return time.process_time() - before
