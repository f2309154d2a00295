"""Some sessions of a US desk in this process: its clock, what tools answer, and orders from the decision to the fill.

`python -m tests.golden.ledger` writes the file anew. A change that another exchange or currency needs leaves it as it
is: read the difference before you commit one. `tests/golden/desk.py` compares the whole desk at work.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import hashlib
import json
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from chordesk.agents.roles import TOOLS
from chordesk.tools.market.clock import LiveClock, ReplayClock, exchange_day, exchange_hours
from chordesk.tools.market.replay.market import ReplayMarket, replay_data
from chordesk.tools.registry import ToolContext
from chordesk.tools.toolsets import TurnTools
from tests.databases import template
from tests.golden.desk import lines_of
from tests.tools.orders.desk import action, make_desk

FILE = Path(__file__).parent / "expected" / "us_desk.txt"
FIRST = dt.date(2009, 11, 24)  # the Tuesday before Thanksgiving, whose Friday ends at 13:00
DAYS = (dt.date(2009, 11, 25), dt.date(2009, 11, 27), dt.date(2009, 12, 24), dt.date(2010, 3, 15), dt.date(2010, 8, 12))
SYMBOLS = ["AAPL", "KO", "F", "JWN", "CHK"]
ASKED: Mapping[str, Mapping[str, Any]] = {
    "signals_get": {"symbols": SYMBOLS},
    "technicals_get": {"symbols": SYMBOLS},
    "volatility_get": {"symbols": SYMBOLS},
    "sp500_movers": {"direction": "up", "limit": 5},
    "company_get": {"symbols": SYMBOLS[:2]},
    "portfolio_get": {},
    "chart_study_get": {"symbols": ["KO"]},
    "news_list": {"symbols": SYMBOLS[:2]},
}
TABLES = ("account", "equity_mark", "fill", "order", "order_check", "position", "preview", "trader_note")
# By day of the play: the trader's actions, each order type, side and way to a size among them.
DECIDED: tuple[tuple[dict[str, Any], ...], ...] = (
    (
        action("KO", quantity=25.0),
        action("JWN", notional=2_345.67),
        action("F", quantity=100.0, orderType="limit", limitPrice=8.8881),
        action("AAPL", quantity=7.0, orderType="limit", limitPrice=150.0, timeInForce="gtc"),
        action("CHK", quantity=40.4, orderType="stop", stopPrice=24.129),
        action("IBM", quantity=1e6),
    ),
    (action("KO", "add", notional=999.99), action("JWN", "reduce", quantity=3.0), action("GE", quantity=11.0)),
    (
        action("KO", "reduce", quantity=5.0, orderType="limit", limitPrice=57.113),
        action("GE", "close", orderType="trailing_stop", trailPercent=2.5, quantity=11.0),
        action("WFC", quantity=12.0, timeInForce="opg"),
        action("X", quantity=12.0, timeInForce="cls"),
    ),
    (action("KO", "close", quantity=37.0), action("F", "close", quantity=100.0, orderType="limit", limitPrice=8.8)),
)


def lines(home: Path) -> list[str]:
    return [*_clock(), *_answers(home), *_orders(home)]


def _clock() -> Iterator[str]:
    hours = exchange_hours()
    for name in ("sessions", "opens", "closes"):
        known = [str(one) for one in getattr(hours, name) if str(one) < "2026"]
        yield f"hours {name} {len(known)} {hashlib.sha256(' '.join(known).encode()).hexdigest()[:16]}"
    for day in DAYS:
        for clock in (ReplayClock(day), ReplayClock(day, at_open=True)):
            told = (clock.now(), clock.is_open(), clock.next_open(), clock.session(), exchange_day(clock.now()))
            yield f"clock {' '.join(map(str, told))}"
    assert LiveClock().day is None


def _answers(home: Path) -> Iterator[str]:
    for day in DAYS[1::3]:
        market = ReplayMarket(replay_data(home), ReplayClock(day))
        desk = make_desk(template(), home / str(day), market)
        context = ToolContext(market, market.clock, desk.store, desk.settings, "paper", None)
        for name, arguments in ASKED.items():
            tools = TurnTools([TOOLS[name]], context, 20.0, lambda sent, got: None, tag="kqz")
            payload = asyncio.run(tools.call(name, dict(arguments))).payload
            yield f"answer {day} {name} {json.dumps(payload, sort_keys=True)}"
        desk.store.close()


def _orders(home: Path) -> Iterator[str]:
    market = ReplayMarket(replay_data(home), ReplayClock(FIRST))
    rules = {"replay_date": FIRST, "slippage_bps": 5.0, "commission_per_share": 0.005, "protect": "stop:8%"}
    desk = make_desk(template(), home / "desk", market, **rules)
    for actions in (*DECIDED, (), (), ()):
        if actions:
            desk.run(*actions)
        desk.next_session()
    desk.store.close()
    yield from lines_of(home / "desk", TABLES)


def written() -> str:
    with tempfile.TemporaryDirectory() as folder:
        return "\n".join(lines(Path(folder))) + "\n"


if __name__ == "__main__":
    FILE.write_text(written(), encoding="utf-8")
