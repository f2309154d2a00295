"""Charts of hours and quarters of an hour: the tools, what is missing, and the picture."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass, field

from chordesk.tools.market.prices import MINUTES, IntradayInterval, intraday_of, slots
from chordesk.tools.market.protocol import Intraday
from chordesk.tools.toolsets import MAX_OUTPUT_BYTES
from tests.tools.charts.samples import walk
from tests.tools.conftest import Call, MakeContext
from tests.tools.market.far_market import TODAY, FarClock, FarMarket, NowClock

CLOCK = NowClock(dt.time(14, 10), TODAY - dt.timedelta(days=1))
NOW = CLOCK.now()
TOOLS = ("chart_study_get", "price_history_get", "chart_render")


@dataclass(eq=False)
class HourMarket(FarMarket):
    """Random walks in bars of part of a session. lost: places of the bars that are not there, from the last."""

    clock: FarClock = field(default_factory=lambda: CLOCK)
    lost: tuple[int, ...] = ()
    factor: float = 1.0

    def intraday(self, symbol: str, interval: IntradayInterval, sessions: int) -> Intraday:
        self._ask(symbol)
        minutes = MINUTES[interval]
        starts = slots(NOW, minutes, sessions)
        bars = walk(3, len(starts))
        names = ("open", "high", "low", "close", "volume")
        rows = {name: list(getattr(bars, name)) for name in names}
        half = len(starts) // 2
        for name in names[:4]:
            rows[name][half:] = [value * self.factor for value in rows[name][half:]]
        kept = [place for place in range(len(starts)) if len(starts) - 1 - place not in self.lost]
        rows = {name: [values[place] for place in kept] for name, values in rows.items()}
        return intraday_of(symbol, rows, [starts[place] for place in kept], minutes, sessions, NOW, True)


def test_hours_have_figures_with_their_times(call: Call) -> None:
    answer = call(HourMarket(), "chart_study_get", symbols=["A"], interval="hour", sessions=30)
    (row,) = answer.payload["studies"]
    assert (row["interval"], row["bars"], row["barIncomplete"]) == ("hour", 29 * 7 + 5, True)
    assert row["to"] == "2024-03-15T13:30-04:00"
    swing = row["swings"][-1]
    moment = dt.datetime.fromisoformat(swing["date"])
    assert swing["id"] == f"{swing['kind'][0].upper()}{moment:%y%m%d%H%M}"
    assert moment < dt.datetime.fromisoformat(swing["confirmed"]) <= NOW
    assert len({one["id"] for one in row["swings"]}) == len(row["swings"])
    assert None not in (row["atr14"], row["adx14"], row["trend"], row["support"])
    assert answer.payload["missing"] == []


def test_the_bars_fit_in_an_answer(make_context: MakeContext, call: Call) -> None:
    context = make_context(HourMarket())
    answer = call(context, "price_history_get", symbols=["A"], interval="15min", sessions=20)
    (found,) = answer.payload["histories"]
    assert (found["barIncomplete"], found["adjusted"]) == (True, False)
    assert len(found["rows"]) == 19 * 26 + 19
    assert found["rows"][-1][0] == "2024-03-15T14:00-04:00"
    assert len(answer.text().encode()) < MAX_OUTPUT_BYTES
    more = call(context, "price_history_get", symbols=["A", "B"], interval="15min", sessions=20)
    assert "2 symbols of 520 quarters of an hour are 1040 rows, more than 520" in more.payload["error"]
