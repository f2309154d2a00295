from __future__ import annotations

import datetime as dt

import pytest

from chordesk.models.errors import MarketError
from chordesk.tools.market.replay.market import ReplayMarket
from tests.tools.conftest import Call, MakeContext, Raw
from tests.tools.market.far_market import TODAY, FarMarket, daily


@pytest.mark.parametrize(("direction", "sign"), [("up", 1), ("down", -1)])
def test_movers_are_the_day_s_largest(market: ReplayMarket, raw: Raw, call: Call, direction: str, sign: int) -> None:
    answer = call(market, "sp500_movers", direction=direction, limit=15)
    assert answer.has_data
    today = dt.date(2010, 8, 12)
    changes = {}
    for symbol, rows in raw.items():
        days = sorted(day for day in rows if day <= today)
        if len(days) > 1 and days[-1] == today:
            changes[symbol] = round(rows[days[-1]].close / rows[days[-2]].close - 1, 4)
    wanted = sorted((change for change in changes.values() if change * sign > 0), key=lambda change: -change * sign)
    movers = answer.payload["movers"]
    assert [row["change"] for row in movers] == wanted[:15]
    assert all(changes[row["symbol"]] == row["change"] for row in movers)
    assert answer.payload["session"] == "2010-08-12"
    whole = {symbol for symbol, rows in raw.items() if today in rows}
    assert (answer.payload["compared"], answer.payload["notCompared"]["count"]) == (493, 31)
    named = set(call(market, "sp500_movers", direction=direction, limit=31).payload["notCompared"]["symbols"])
    assert named == raw.keys() - whole
    assert {"CHRW", "ISRG", "MSFT", "MYL", "NTAP", "WIN", "WYNN"} <= named
    reason = "31 of 524 names have no bar of the session, or none before it"
    assert {"what": "bars", "reason": reason} in answer.payload["missing"]
    assert answer.payload["previousSession"] == "2010-08-11"


def test_only_the_newest_session_moves(call: Call) -> None:
    bars = {name: daily(name, close) for name, close in {"NEW": [100, 101], "FLAT": [100, 100], "FIRST": [100]}.items()}
    market = FarMarket({**bars, "OLD": daily("OLD", [100, 150], TODAY - dt.timedelta(days=1))})
    answer = call(market, "sp500_movers", direction="up")
    assert [row["symbol"] for row in answer.payload["movers"]] == ["NEW"]
    assert answer.payload["compared"] == 2
    assert answer.payload["notCompared"] == {"count": 2, "symbols": ["FIRST", "OLD"]}


def test_the_own_move_of_a_name_that_is_asked_for(market: ReplayMarket, raw: Raw, call: Call) -> None:
    """A validator needs its name's own move: WYNN, which has no bar of the day, is on no list of it."""
    answer = call(market, "sp500_movers", direction="down", limit=1, symbols=["ibm", "CSCO", "WYNN"])
    ibm, cisco = answer.payload["asked"]
    days = sorted(day for day in raw["IBM"] if day <= dt.date(2010, 8, 12))[-2:]
    assert ibm["change"] == round(raw["IBM"][days[1]].close / raw["IBM"][days[0]].close - 1, 4)
    assert (ibm["symbol"], "changeSessions" in ibm) == ("IBM", False)
    assert (cisco["symbol"], cisco["changeSessions"], cisco["gap"]) == ("CSCO", 2, None)  # no bar of the 11th
    assert len(answer.payload["movers"]) == 1
    reason = "no bar of 2010-08-12, the market's latest session; the last is of 2010-08-11"
    assert {"symbol": "WYNN", "what": "bars", "reason": reason} in answer.payload["missing"]
    alone = call(market, "sp500_movers", direction="down", symbols=["WYNN"]).payload
    assert alone["asked"] == []


def test_the_universe_in_pages(market: ReplayMarket, make_context: MakeContext, call: Call) -> None:
    context = make_context(market)
    pages = [call(context, "universe_list", offset=offset, limit=250).payload for offset in (0, 250, 500)]
    symbols = [row["symbol"] for page in pages for row in page["listings"]]
    assert symbols == [listing.symbol for listing in market.universe("sp500")]
    assert {page["total"] for page in pages} == {524}
    assert pages[0]["missing"] == [{"what": "sector", "reason": "the source names none for 82 of 524 listings"}]
    beyond = call(context, "universe_list", offset=600)
    assert beyond.payload["available"] is False


def test_the_universe_by_sector_and_an_own_one(market: ReplayMarket, make_context: MakeContext, call: Call) -> None:
    answer = call(market, "universe_list", sector=" energy")
    assert answer.payload["total"] == len(answer.payload["listings"]) > 30
    assert {row["sector"] for row in answer.payload["listings"]} == {"Energy"}
    assert not answer.has_data  # it is about the desk's list, not about the market
    far = FarMarket(trouble={"B": MarketError("no such name B")})
    own = call(make_context(far, universe="a,b"), "universe_list")
    assert own.payload["listings"] == [{"symbol": "A", "name": "A Inc."}, {"symbol": "B"}]
    assert {"symbol": "B", "what": "listing", "reason": "no such name B"} in own.payload["missing"]
