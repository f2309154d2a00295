"""funding: annual rates, z-scores and persistence of the coins that questions name."""

from __future__ import annotations

import datetime as dt

import pytest

from chordesk.models.board import BoardQuestion, implied
from chordesk.models.settings import Settings
from chordesk.tools.board.registry import Tombstone
from chordesk.tools.board.venue_signals import labels_of
from chordesk.tools.market.replay.market import ReplayMarket
from tests.fakes.venues import FarVenues, Fault, paid_row
from tests.tools.conftest import MakeContext
from tests.tools.harvest.boards import board, dormant, ended, harvested, question
from tests.tools.harvest.venue_boards import live_board
from tests.tools.venues.wires.test_hyperliquid import predicted


@pytest.fixture
def rates(far: FarVenues) -> FarVenues:
    """Ether pays .03 % every hour after a hundred hours around .01 %; bitcoin has no history."""
    far.predicted = [
        ["BTC", [["HlPerp", predicted("0.0000125")], ["BinPerp", predicted("0.0001", fundingIntervalHours=8)]]],
        ["ETH", [["HlPerp", predicted("0.0003")], ["BinPerp", predicted("0.0008", fundingIntervalHours=8)]]],
        ["SOL", [["BinPerp", None]]],
    ]
    now = dt.datetime.now(dt.UTC) - dt.timedelta(minutes=5)
    past = ["0.0003", *(["0.00009", "0.00011"] * 50)]
    far.paid["ETH"] = [paid_row("ETH", now - dt.timedelta(hours=hour), rate) for hour, rate in enumerate(past)][::-1]
    return far


def asked(text: str, *symbols: str, label: str = "Q1") -> BoardQuestion:
    return question(label, *symbols, text=text)


def test_a_coin_of_a_question_comes_first(rates: FarVenues, venue_settings: Settings) -> None:
    context = live_board(venue_settings, None, asked("Will Ethereum close above $5,000 in May?"), funding=True)
    ether, bitcoin = harvested("funding", context)
    assert (ether.subjects, bitcoin.subjects) == (("Q1",), ("BTC",))
    assert ether.data["annual"] == pytest.approx(0.0003 * 8760)
    assert ether.data["spread"] == pytest.approx(0.0002 * 8760)
    # 100 payments of .01 % with a deviation of .001 %: .02 % above is 20 deviations, or 19.9 by the sample's.
    assert ether.data["z"] == pytest.approx(20 * (99 / 100) ** 0.5, abs=0.01)
    assert (ether.data["sameSign"], ether.data["payments"]) == (101, 101)
    assert (ether.direction, ether.confidence, implied(ether)) == ("bearish", 0.1, 0.45)
    assert ether.headline == (
        "ETH funding is +262.8% a year at HlPerp; 101 of the last 101 payments had its sign, z-score +19.9 in 30 days; "
        "venues differ by 175.2%"
    )
    assert (bitcoin.direction, bitcoin.confidence) == ("neutral", None)
    assert "no payment of the last 30 days is known" in bitcoin.headline


@pytest.mark.parametrize(
    ("text", "symbols", "named"),
    [
        ("Will Bitcoin reach $200k?", (), True),
        ("BTC above 200k?", (), True),
        ("Will bitcoin fall below $50k?", (), False),
        ("Will BTC beat the median?", ("BTC",), False),
        ("Will the btc trail open?", (), False),
        ("Will Ethereum reach $9k?", (), False),
    ],
)
def test_coins_are_named_by_name_or_ticker_and_not_by_shares(text: str, symbols: tuple[str, ...], named: bool) -> None:
    assert bool(labels_of("BTC", [asked(text, *symbols)])) == named


def test_a_history_that_fails_is_missing(rates: FarVenues, venue_settings: Settings) -> None:
    context = live_board(venue_settings, None, asked("ETH up?"), funding=True)
    rates.paid["ETH"] = [{**row, "fundingRate": 0.0003} for row in rates.paid["ETH"]]  # a number where it sends texts
    ether, _ = harvested("funding", context)
    assert ether.data["missing"] == ["ETH"]
    assert (ether.confidence, ether.data["payments"]) == (None, 0)


def test_a_wire_that_is_away_is_offline(rates: FarVenues, venue_settings: Settings) -> None:
    rates.faults["/info"] = Fault("html")
    found = ended("funding", live_board(venue_settings, None, asked("ETH up?"), funding=True))
    assert isinstance(found, Tombstone)
    assert found.retryable


def test_off_or_in_a_replay_it_is_dormant(
    market: ReplayMarket, make_context: MakeContext, venue_settings: Settings
) -> None:
    assert dormant("funding", live_board(venue_settings, None)) == "funding rates are not read: set DESK_FUNDING=1"
    replayed = board(make_context(market, funding=True), "IBM")
    assert dormant("funding", replayed) == "funding rates have no history here: a replay knows none"
