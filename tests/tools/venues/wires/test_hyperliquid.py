from __future__ import annotations

import datetime as dt
from typing import Any

import pytest

from chordesk.models.errors import MarketUnavailable
from chordesk.tools.venues.hyperliquid import FundingRate, Hyperliquid
from tests.fakes.venues import FarVenues, paid_row

NEXT = 1_767_225_600_000
AT = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)


@pytest.fixture
def venue(far: FarVenues) -> Hyperliquid:
    return Hyperliquid(far.url)


def predicted(rate: Any, **more: Any) -> dict[str, Any]:
    return {"fundingRate": rate, "nextFundingTime": NEXT, **more}


def test_rates_of_three_venues_come_in_one_answer(far: FarVenues, venue: Hyperliquid) -> None:
    far.predicted = [
        [
            "BTC",
            [
                ["BinPerp", predicted("0.0001", fundingIntervalHours=8)],
                ["HlPerp", predicted("0.0000125")],
                ["BybitPerp", predicted("-0.0002")],
            ],
        ],
        ["NEW", [["BinPerp", None], ["HlPerp", predicted("0.00005")]]],
    ]
    found = venue.predicted()
    assert found["BTC"] == (
        FundingRate("BinPerp", 0.0001, 8.0, AT),
        FundingRate("HlPerp", 0.0000125, 1.0, AT),
        FundingRate("BybitPerp", -0.0002, None, AT),
    )
    assert [rate.venue for rate in found["NEW"]] == ["HlPerp"]
    assert far.asked == [("/info", {"type": "predictedFundings"})]


@pytest.mark.parametrize(
    "answer",
    [
        [["BTC", [["HlPerp", predicted(0.0001)]]]],
        [["BTC", [["HlPerp", {"fundingRate": "0.0001"}]]]],
        [["BTC", [["HlPerp"]]]],
        [["BTC"]],
        {"BTC": []},
        "BTC",
    ],
)
def test_an_answer_that_is_not_as_documented_is_an_error(far: FarVenues, venue: Hyperliquid, answer: Any) -> None:
    far.predicted = answer
    with pytest.raises(MarketUnavailable, match="Hyperliquid's answer could not be read: "):
        venue.predicted()


def test_history_is_read_page_by_page(far: FarVenues, venue: Hyperliquid) -> None:
    hours = [AT + dt.timedelta(hours=hour) for hour in range(720)]
    far.paid["BTC"] = [paid_row("BTC", at, f"{number / 1e6:.6f}") for number, at in enumerate(hours)]
    paid = venue.history("BTC", AT, hours[-1])
    assert [one.at for one in paid] == hours
    assert paid[719].rate == pytest.approx(719e-6)
    assert len(far.asked) == 2


def test_a_coin_that_is_unknown_has_no_history(venue: Hyperliquid) -> None:
    assert venue.history("NONE", AT, AT + dt.timedelta(days=1)) == ()


def test_a_rate_that_is_a_number_is_an_error(far: FarVenues, venue: Hyperliquid) -> None:
    far.paid["BTC"] = [{**paid_row("BTC", AT, "0.1"), "fundingRate": 0.1}]
    with pytest.raises(MarketUnavailable, match=r"Hyperliquid's answer could not be read: 0\.fundingRate: "):
        venue.history("BTC", AT, AT + dt.timedelta(days=1))
