"""options_unusual: rules on volume, and what they cannot be applied to."""

from __future__ import annotations

import datetime as dt
import math
from typing import Any

import pytest

from chordesk.models.database.store import Store
from chordesk.models.market import MODELLED
from chordesk.models.tables.orders import OptionMark
from chordesk.tools.market.clock import ReplayClock
from chordesk.tools.market.replay.market import ModelledReplay, ReplayData
from tests.tools.conftest import Call, MakeContext, reasons
from tests.tools.market.far_market import TODAY
from tests.tools.options.chains import APRIL, ChainMarket, fair_chain, known_bars, market, row

PUT, CALL = "AAA240419P00095000", "AAA240419C00105000"


def mark(store: Store, back: int, source: str = "far", symbol: str = "AAA", **figures: float) -> None:
    """Store the mark of so many days before today."""
    with store.session() as session:
        session.add(OptionMark(symbol=symbol, day=TODAY - dt.timedelta(days=back), source=source, **figures))


def stored(store: Store, days: int, iv: float, **given: str) -> None:
    """Marks of so many days before today, their volatility rising to `iv` on the last."""
    for back in range(1, days + 1):
        mark(store, back, at_the_money_iv=iv - 0.001 * back, **given)


def test_volume_over_open_interest(call: Call) -> None:
    listed = [
        row(PUT, 1.0, 1.1, volume=2000.0, open_interest=1000.0),
        row(CALL, 1.0, 1.1, volume=500.0, open_interest=0.0),
        row("AAA240419C00110000", 1.0, 1.1, volume=99.0, open_interest=1.0),  # too few
        row("AAA240419C00115000", 1.0, 1.1, volume=1999.0, open_interest=1000.0),  # not twice
        row("AAA240419C00120000", 1.0, 1.1, volume=5000.0, open_interest=None),
    ]
    answer = call(market({"AAA": listed}), "options_unusual", symbols=["AAA"])
    found = [(one["contract"], one["volumeToInterest"], one["fromSpot"]) for one in answer.payload["contracts"]]
    assert found == [(PUT, 2.0, -0.05), (CALL, None, 0.05)]
    assert reasons(answer)["openInterest"] == "not known of 1 contracts with volume"
    assert answer.payload["rules"]["contract"] == "volume of 100 or more, and at least 2 times the open interest"
    (total,) = answer.payload["volumes"]
    assert (total["putVolume"], total["callVolume"], total["putCallRatio"]) == (2000.0, 7598.0, 0.26)


def test_volume_over_its_own_past(make_context: MakeContext, call: Call, store: Store) -> None:
    listed = [row(PUT, 1.0, 1.1, volume=400.0), row(CALL, 1.0, 1.1, volume=150.0)]
    context = make_context(market({"AAA": listed}), store)
    for back, volume in enumerate((100.0, 200.0, 300.0, 150.0), start=1):
        mark(store, back, put_volume=volume, call_volume=100.0)
    early = call(context, "options_unusual", symbols=["AAA"])
    (total,) = early.payload["volumes"]
    assert (total["putVolumeToUsual"], total["putUnusual"]) == (None, None)
    assert reasons(early)["usual put volume"] == "not available: 4 of 5 days of its own history are stored"
    mark(store, 5, put_volume=250.0, call_volume=100.0)
    (total,) = call(context, "options_unusual", symbols=["AAA"]).payload["volumes"]
    assert (total["putVolumeToUsual"], total["putUnusual"]) == (2.0, True)
    assert (total["callVolumeToUsual"], total["callUnusual"]) == (1.5, False)


def test_a_modelled_chain_has_no_volume(data: ReplayData, make_context: MakeContext, call: Call) -> None:
    context = make_context(ModelledReplay(data, ReplayClock(dt.date(2010, 8, 12)), 0.04))
    answer = call(context, "options_unusual", symbols=["MMM"])
    assert not answer.has_data
    assert (answer.payload["contracts"], answer.payload["volumes"]) == ([], [])
    assert reasons(answer) == {"volume": "not available: modelled chains have none"}


def only(answer: Any) -> dict[str, Any]:
    (found,) = answer.payload["volatilities"]
    assert isinstance(found, dict)
    return found


@pytest.fixture
def known() -> ChainMarket:
    """AAA with bars of known volatility, and a chain at a volatility of 30 %."""
    return market(histories={"AAA": known_bars("AAA")})


def test_known_volatilities(make_context: MakeContext, call: Call, known: ChainMarket) -> None:
    answer = call(make_context(known, risk_free_rate=0.0), "volatility_get", symbols=["AAA"])
    found = only(answer)
    assert (found["hv20"], found["hv60"], found["yangZhang20"]) == (0.335, 0.2361, 0.3282)
    assert (found["hvRank"], found["hvRankSessions"]) == (0.721, 252)
    assert (found["expiry"], found["dte"], found["strike"]) == (APRIL.isoformat(), 35, 100.0)
    assert found["iv"] == pytest.approx(0.3, abs=1e-3)
    assert found["ivHvRatio"] == pytest.approx(0.3 / 0.335004, abs=1e-3)
    # Brenner and Subrahmanyam 1988: a straddle at the money is about .8 sigma sqrt(T).
    assert found["impliedMove"] == pytest.approx(0.7979 * 0.3 * math.sqrt(35 / 365), abs=1e-3)
    assert found["putSkew"] == pytest.approx(0.0, abs=1e-3)
    assert found["putSkewStrike"] == 95.0
    assert (found["ivRank"], found["ivRankDays"]) == (None, 0)
    assert found["termSlope"] is None
    assert reasons(answer) == {
        "ivRank": "not available: 0 of 60 days of its own history are stored",
        "termSlope": "of 1 expiries 1 has a volatility at the money, and a slope needs two",
    }


def test_the_term_structure_is_that_of_the_expiries_at_the_money(
    make_context: MakeContext, call: Call, known: ChainMarket
) -> None:
    near = TODAY + dt.timedelta(days=14)
    known.rows = {"AAA": [*fair_chain(), *fair_chain(volatility=0.45, expiries=[near])]}
    found = only(call(make_context(known, risk_free_rate=0.0), "volatility_get", symbols=["AAA"]))
    assert [days for days, _ in found["termStructure"]] == [14, 35]
    assert found["iv"] == pytest.approx(0.3, abs=1e-3)
    assert found["termSlope"] == pytest.approx(0.3 - 0.45, abs=2e-3)


def test_the_rank_needs_history_of_its_own(
    make_context: MakeContext, call: Call, known: ChainMarket, store: Store
) -> None:
    context = make_context(known, store, risk_free_rate=0.0)
    stored(store, 59, 0.34)
    stored(store, 300, 0.9, source=MODELLED)
    stored(store, 300, 0.9, symbol="BBB")
    found = only(call(context, "volatility_get", symbols=["AAA"]))
    assert (found["ivRank"], found["ivRankDays"]) == (None, 59)
    mark(store, 60, at_the_money_iv=0.2)
    mark(store, 400, at_the_money_iv=9.0)
    answer = call(context, "volatility_get", symbols=["AAA"])
    # From .2 to .339, and .3 is today's; the mark of more than a year ago does not count.
    assert only(answer)["ivRank"] == pytest.approx((0.3 - 0.2) / (0.339 - 0.2), abs=2e-3)
    assert only(answer)["ivRankDays"] == 60
    assert "ivRank" not in reasons(answer)


def test_quotes_of_an_earlier_day_leave_the_mark_of_that_day(
    make_context: MakeContext, call: Call, known: ChainMarket, store: Store
) -> None:
    """Asked for again on a later day, they are no second day of history, and none of their own."""
    day = TODAY - dt.timedelta(days=1)
    known.quoted = known.clock.now() - dt.timedelta(days=1)
    stored(store, 59, 0.34)
    for tool in ("volatility_get", "options_unusual", "volatility_get"):
        found = call(make_context(known, store), tool, symbols=["AAA"])
    assert only(found)["ivRankDays"] == 58
    with store.read() as session:
        assert session.query(OptionMark).where(OptionMark.day == TODAY).all() == []
        assert session.query(OptionMark).where(OptionMark.day == day).count() == 1


def test_a_mark_of_today_or_later_is_no_history(
    make_context: MakeContext, call: Call, known: ChainMarket, store: Store
) -> None:
    """A replay of an earlier day does not see what a later one has stored."""
    for ahead in range(80):
        mark(store, -ahead, at_the_money_iv=0.5)
    found = only(call(make_context(known, store), "volatility_get", symbols=["AAA"]))
    assert (found["ivRank"], found["ivRankDays"]) == (None, 0)


def test_a_chain_without_a_price_at_the_money(call: Call, known: ChainMarket) -> None:
    put, call_ = "AAA240419P00100000", "AAA240419C00100000"
    known.rows = {"AAA": [row(put, 2.0, 1.0), row(call_, 2.0, 2.1), row("AAA240419P00050000", 0.0, 0.1)]}
    answer = call(known, "volatility_get", symbols=["AAA"])
    assert (only(answer)["iv"], only(answer)["impliedMove"], only(answer)["putSkew"]) == (None, None, None)
    gaps = reasons(answer)
    assert gaps["iv"] == f"not at the money of 2024-04-19: {put}: a crossed quote, its bid above its ask"
    assert gaps["putSkew"] == "no put of 2024-04-19 with a delta within 0.1 of -0.25 has a volatility"
    known.rows = {"AAA": [row(put, 2.0, 2.1)]}
    assert reasons(call(known, "volatility_get", symbols=["AAA"]))["iv"].startswith("no strike of")
    known.rows = {"AAA": []}
    answer = call(known, "volatility_get", symbols=["AAA"])
    assert reasons(answer)["iv"] == "no contract expires in 7 to 60 days"
