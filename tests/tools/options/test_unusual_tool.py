"""options_unusual: rules on volume, and what they cannot be applied to."""

from __future__ import annotations

import datetime as dt
from typing import Any

from chordesk.models.database.store import Store
from chordesk.models.tables.orders import OptionMark
from chordesk.tools.market.clock import ReplayClock
from chordesk.tools.market.replay.market import ModelledReplay, ReplayData
from tests.tools.conftest import Call, MakeContext
from tests.tools.market.far_market import TODAY
from tests.tools.options.chains import market, row

PUT, CALL = "AAA240419P00095000", "AAA240419C00105000"


def gaps_of(answer: Any) -> dict[str, str]:
    return {gap["what"]: gap["reason"] for gap in answer.payload["missing"]}


def test_volume_over_open_interest(make_context: MakeContext, call: Call) -> None:
    listed = [
        row(PUT, 1.0, 1.1, volume=2000.0, open_interest=1000.0),
        row(CALL, 1.0, 1.1, volume=500.0, open_interest=0.0),
        row("AAA240419C00110000", 1.0, 1.1, volume=99.0, open_interest=1.0),  # too few
        row("AAA240419C00115000", 1.0, 1.1, volume=1999.0, open_interest=1000.0),  # not twice
        row("AAA240419C00120000", 1.0, 1.1, volume=5000.0, open_interest=None),
    ]
    answer = call(make_context(market({"AAA": listed})), "options_unusual", symbols=["AAA"])
    found = [(one["contract"], one["volumeToInterest"], one["fromSpot"]) for one in answer.payload["contracts"]]
    assert found == [(PUT, 2.0, -0.05), (CALL, None, 0.05)]
    assert gaps_of(answer)["openInterest"] == "not known of 1 contracts with volume"
    assert answer.payload["rules"]["contract"] == "volume of 100 or more, and at least 2 times the open interest"
    (total,) = answer.payload["volumes"]
    assert (total["putVolume"], total["callVolume"], total["putCallRatio"]) == (2000.0, 7598.0, 0.26)


def test_volume_over_its_own_past(make_context: MakeContext, call: Call, store: Store) -> None:
    listed = [row(PUT, 1.0, 1.1, volume=400.0), row(CALL, 1.0, 1.1, volume=150.0)]
    context = make_context(market({"AAA": listed}), store)
    with store.session() as session:
        for back, volume in enumerate((100.0, 200.0, 300.0, 150.0), start=1):
            day = TODAY - dt.timedelta(days=back)
            session.add(OptionMark(symbol="AAA", day=day, source="far", put_volume=volume, call_volume=100.0))
    early = call(context, "options_unusual", symbols=["AAA"])
    (total,) = early.payload["volumes"]
    assert (total["putVolumeToUsual"], total["putUnusual"]) == (None, None)
    assert gaps_of(early)["usual put volume"] == "not available: 4 of 5 days of its own history are stored"
    with store.session() as session:
        day = TODAY - dt.timedelta(days=5)
        session.add(OptionMark(symbol="AAA", day=day, source="far", put_volume=250.0, call_volume=100.0))
    (total,) = call(context, "options_unusual", symbols=["AAA"]).payload["volumes"]
    assert (total["putVolumeToUsual"], total["putUnusual"]) == (2.0, True)
    assert (total["callVolumeToUsual"], total["callUnusual"]) == (1.5, False)


def test_a_limit_is_stated(make_context: MakeContext, call: Call) -> None:
    listed = [row(f"AAA240419P{strike:05d}000", 1.0, 1.1, volume=1e4) for strike in range(90, 96)]
    answer = call(make_context(market({"AAA": listed})), "options_unusual", symbols=["AAA"], limit=2)
    assert len(answer.payload["contracts"]) == 2
    assert gaps_of(answer)["rows"] == "6 contracts are unusual, 2 are shown"


def test_a_modelled_chain_has_no_volume(data: ReplayData, make_context: MakeContext, call: Call) -> None:
    context = make_context(ModelledReplay(data, ReplayClock(dt.date(2010, 8, 12)), 0.04))
    answer = call(context, "options_unusual", symbols=["MMM"])
    assert not answer.has_data
    assert (answer.payload["contracts"], answer.payload["volumes"]) == ([], [])
    assert gaps_of(answer) == {"volume": "not available: modelled chains have none"}
