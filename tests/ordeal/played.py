"""Backtests that one process plays, beside a bare pandas loop over the same bars."""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from chordesk.models.settings.sources import load_settings
from chordesk.models.states import RUN_FINAL, RunState
from chordesk.models.tables.runs import Run
from chordesk.tools.market.protocol import MarketData
from chordesk.tools.market.universe import resolve_universe
from tests import homes
from tests.databases import make_database
from tests.parts import of_feature

FIRST = dt.date(2010, 3, 1)
EIGHT = ("AAPL", "CF", "GE", "HAL", "IBM", "JPM", "KO", "PFE")
HISTORY, STAKE = 120, 10_000.0


@dataclass(frozen=True, slots=True)
class PlayedPace:
    """CPU seconds of one walk. Seconds of a clock would be those of a machine's other work."""

    names: int
    sessions: int
    desk: float
    pandas: float

    @property
    def a_minute(self) -> float:
        """Sessions of a minute on one processor of its own."""
        return 60 * self.sessions / self.desk


def played_paces(sessions: int) -> Iterator[PlayedPace]:
    """Yield the pace with 8 names and with 100, the latter over a fifth of the sessions."""
    with homes.owned() as home:
        settings = load_settings({"DESK_HOME": str(home), "DESK_LOG_LEVEL": "WARNING"}, home)
        make_database(settings.database)
        player = of_feature("chordesk.tasks.measure.playing:Player")(settings)
        try:
            desk = player.app.desk
            days = [day for day in desk.market.recorded() if day >= FIRST]  # type: ignore[attr-defined]
            hundred = resolve_universe("sp500", desk.market_for(FIRST))[:100]
            desk.warm()
            for names, number in ((EIGHT, sessions), (hundred, max(2, sessions // 5))):
                spent = _played(player, names, days[:number])
                yield PlayedPace(
                    len(names), number, spent, _looped(desk.market_for(days[number]), names, days[:number])
                )
        finally:
            player.close()


def _played(player: Any, names: Sequence[str], days: Sequence[dt.date]) -> float:
    began = time.process_time()
    run = of_feature("chordesk.tasks.measure.backtest:open_backtest")(
        player.app, days[0], days[-1], universe=",".join(names)
    )
    player.add(run)
    while True:
        with player.app.desk.store.read() as session:
            row = session.get_one(Run, run.id)
        if row.state in RUN_FINAL:
            assert (row.state, row.summary["missing"]) == (RunState.DONE, [])
            return time.process_time() - began
        player.play(1.0)


def _looped(market: MarketData, names: Sequence[str], days: Sequence[dt.date]) -> float:
    """Compute each name's indicators on each session, and fill what a rule of them buys and sells at the next open."""
    frames = {}
    for name in names:
        bars = market.bars(name, 10_000)
        columns = {part: getattr(bars, part) for part in ("open", "high", "low", "close", "volume")}
        frames[name] = pd.DataFrame(columns, index=bars.dates)
    began, held, cash = time.process_time(), dict.fromkeys(names, 0.0), 100_000.0
    for day in days:
        for name, frame in frames.items():
            seen = frame[: frame.index.searchsorted(day, side="right")].tail(HISTORY)
            after = frame[frame.index.searchsorted(day, side="right") :]
            rises = _rises(seen)
            if after.empty or rises == bool(held[name]):
                continue
            price = float(after["open"].iloc[0]) * (1.0005 if rises else 0.9995)
            shares = STAKE // price if rises else -held[name]
            held[name] += shares
            cash -= shares * price
    return time.process_time() - began


def _rises(bars: pd.DataFrame) -> bool:
    """Whether the indicators that the desk's signals have are for a name: averages, MACD, RSI, bands, range, volume."""
    close, change = bars["close"], bars["close"].diff()
    short, long = close.rolling(20).mean(), close.rolling(50).mean()
    macd = close.ewm(span=12).mean() - close.ewm(span=26).mean()
    gain, loss = change.clip(lower=0).ewm(alpha=1 / 14).mean(), (-change.clip(upper=0)).ewm(alpha=1 / 14).mean()
    rsi = 100 - 100 / (1 + gain / loss)
    upper = short + 2 * close.rolling(20).std()
    before = close.shift()
    ranges = pd.concat(
        [bars["high"] - bars["low"], (bars["high"] - before).abs(), (bars["low"] - before).abs()], axis=1
    )
    atr = ranges.max(axis=1).ewm(alpha=1 / 14).mean()
    traded = bars["volume"] / bars["volume"].rolling(20).mean()
    last = [part.iloc[-1] for part in (short, long, macd, macd.ewm(span=9).mean(), rsi, upper, atr, traded)]
    average, slow, line, signal, strength, band, spread, volume = map(float, last)
    return average > slow and line > signal and strength < 80 and close.iloc[-1] < band + spread and volume > 0.1
