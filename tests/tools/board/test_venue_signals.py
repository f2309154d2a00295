"""Signals of event venues and funding rates, with the wires of a far side on loopback."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest

from chordesk.models.database.store import Store
from chordesk.models.questions import BoardQuestion, implied
from chordesk.models.settings import Settings
from chordesk.models.tables.board import Question
from chordesk.tools.board.harvest_context import HarvestContext, symbols_of
from chordesk.tools.board.harvesters import Tombstone
from chordesk.tools.board.venue_signals import labels_of
from chordesk.tools.board.venues.pairs import confirm_pair
from chordesk.tools.market.clock import LiveClock
from chordesk.tools.market.replay.market import ReplayMarket
from chordesk.tools.registry import ToolContext
from tests.fakes.venues import FarVenues, Fault, book_of, kalshi_row, manifold_row, paid_row, polymarket_row
from tests.tools.board import boards
from tests.tools.board.boards import SECONDS, board, dormant, ended, harvested, question
from tests.tools.board.venues.test_pairs import question as pair_question
from tests.tools.board.venues.test_pairs import stored
from tests.tools.board.venues.test_wires import predicted
from tests.tools.conftest import MakeContext
from tests.tools.market.far_market import FarMarket


def live_board(settings: Settings, store: Store | None, *questions: BoardQuestion, **changes: Any) -> HarvestContext:
    market = FarMarket(clock=LiveClock())  # type: ignore[arg-type]
    tool = ToolContext(market, market.clock, store, settings.model_copy(update=changes), "paper", None)
    return HarvestContext(tool, questions, symbols_of(questions), SECONDS)


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


def about_coins(text: str, *symbols: str, label: str = "Q1") -> BoardQuestion:
    return question(label, *symbols, text=text)


def test_a_coin_of_a_question_comes_first(rates: FarVenues, venue_settings: Settings) -> None:
    context = live_board(
        venue_settings, None, about_coins("Will Ethereum close above $5,000 in May?"), venues=("hyperliquid",)
    )
    ether, bitcoin = harvested("funding", context)
    assert (ether.subjects, bitcoin.subjects) == (("Q1",), ("BTC",))
    assert ether.data["annual"] == pytest.approx(0.0003 * 8760)
    assert ether.data["spread"] == pytest.approx(0.0002 * 8760)
    # 100 payments of .01 % with a deviation of .001 %: .02 % above is 20 deviations, or 19.9 by the sample's.
    assert ether.data["z"] == pytest.approx(20 * (99 / 100) ** 0.5, abs=0.01)
    assert (ether.data["sameSign"], ether.data["payments"]) == (101, 101)
    assert (ether.direction, ether.confidence) == ("bearish", 0.1)
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
    assert bool(labels_of("BTC", [about_coins(text, *symbols)])) == named


def test_a_history_that_fails_is_missing(rates: FarVenues, venue_settings: Settings) -> None:
    context = live_board(venue_settings, None, about_coins("ETH up?"), venues=("hyperliquid",))
    rates.paid["ETH"] = [{**row, "fundingRate": 0.0003} for row in rates.paid["ETH"]]  # a number where it sends texts
    ether, _ = harvested("funding", context)
    assert ether.data["missing"] == ["ETH"]
    assert (ether.confidence, ether.data["payments"]) == (None, 0)


def test_a_wire_that_is_away_is_offline(rates: FarVenues, venue_settings: Settings) -> None:
    rates.faults["/info"] = Fault("html")
    found = ended("funding", live_board(venue_settings, None, about_coins("ETH up?"), venues=("hyperliquid",)))
    assert isinstance(found, Tombstone)
    assert found.retryable


def test_off_or_in_a_replay_it_is_dormant(
    market: ReplayMarket, make_context: MakeContext, venue_settings: Settings
) -> None:
    assert (
        dormant("funding", live_board(venue_settings, None))
        == "funding rates are not read: DESK_VENUES does not name hyperliquid"
    )
    replayed = board(make_context(market, venues=("hyperliquid",)), "IBM")
    assert dormant("funding", replayed) == "funding rates have no history here: a replay knows none"


TITLE = "Will it rain in May?"
CLOSES = dt.datetime.now(dt.UTC) + dt.timedelta(days=30)


@pytest.fixture
def asked(far: FarVenues, store: Store) -> list[Question]:
    """Kalshi asks 0.40 for YES, Polymarket bids 0.50 for it; Manifold has it at 0.30, for play money."""
    far.kalshi["KX-1"] = kalshi_row("KX-1", TITLE, "0.3800", "0.4000")
    far.polymarket["7"] = polymarket_row("7", TITLE, 0.50, 0.52)
    far.books["71"] = book_of([("0.50", "60")], [("0.52", "100")])
    far.manifold["m1"] = manifold_row("m1", TITLE, 0.30)
    with store.session() as session:
        return stored(
            session,
            pair_question("kalshi", TITLE, CLOSES, external_id="KX-1"),
            pair_question("polymarket", TITLE, CLOSES, external_id="7"),
            pair_question("manifold", TITLE, CLOSES, external_id="m1"),
        )


def shown(label: str, row: Question) -> BoardQuestion:
    return boards.question(label, id=row.id, text=row.text)


def confirmed(store: Store, first: Question, second: Question, inverse: bool = False) -> None:
    with store.session() as session:
        confirm_pair(session, first, second, "Ada", inverse=inverse)


def test_without_a_person_it_is_a_divergence(asked: list[Question], store: Store, venue_settings: Settings) -> None:
    context = live_board(venue_settings, store, shown("Q1", asked[0]), shown("Q2", asked[1]))
    first, *others = harvested("divergence", context)
    assert len(others) == 2
    for one in (first, *others):
        assert (one.direction, one.confidence, implied(one, 0.5)) == ("neutral", None, None)
        assert one.data["why"] == "no person confirmed the pair"
        assert "no arbitrage" in one.headline
        assert one.data["pair"] == "suggested"
        assert TITLE not in one.headline, "a title is outside text"
    assert sorted(sorted(one.subjects) for one in (first, *others)) == [["Q1"], ["Q1", "Q2"], ["Q2"]]
    assert abs(first.data["gap"]) == pytest.approx(0.21)


def test_a_confirmed_pair_is_an_arbitrage_after_costs(
    asked: list[Question], store: Store, venue_settings: Settings
) -> None:
    confirmed(store, asked[0], asked[1])
    first, *_ = harvested("divergence", live_board(venue_settings, store, shown("Q1", asked[0])))
    assert (first.direction, first.subjects) == ("arb", ("Q1",))
    assert first.data["shares"] == 60
    assert 0 < first.data["edge"] < 0.1
    assert first.confidence is not None
    net = first.data["edge"]
    assert first.confidence == pytest.approx(net / (net + 0.02) * 60 / 160, abs=2e-3)
    assert "an arbitrage" in first.headline
    assert first.probability == pytest.approx((0.39 + 0.51) / 2), "the mean of both prices of one question"


def test_an_inverse_pair_has_no_mean(asked: list[Question], store: Store, venue_settings: Settings) -> None:
    confirmed(store, asked[0], asked[1], inverse=True)
    found = harvested("divergence", live_board(venue_settings, store, shown("Q1", asked[0])))
    (one,) = [one for one in found if one.data["pair"] == "confirmed"]
    assert one.probability is None
    assert "each the other's inverse" in one.headline


def test_play_money_is_no_arbitrage_and_no_forecast(
    asked: list[Question], store: Store, venue_settings: Settings
) -> None:
    confirmed(store, asked[1], asked[2])
    found = harvested("divergence", live_board(venue_settings, store, shown("Q1", asked[2])))
    (one,) = [one for one in found if one.data["pair"] == "confirmed"]
    assert (one.direction, one.data["why"], one.data["playMoney"]) == (
        "neutral",
        "manifold is play money",
        ["manifold"],
    )
    assert one.probability is None


def test_a_venue_that_fails_is_missing_and_all_of_them_are_offline(
    far: FarVenues, asked: list[Question], store: Store, venue_settings: Settings
) -> None:
    context = live_board(venue_settings, store, shown("Q1", asked[0]), shown("Q3", asked[2]))
    far.faults["/v0/"] = Fault("html")
    (one,) = harvested("divergence", context)
    assert len(one.data["missing"]) == 2
    assert any("Q3 (manifold)" in name for name in one.data["missing"])
    far.faults |= {path: Fault("html") for path in ("/trade-api/", "/markets")}
    found = ended("divergence", context)
    assert isinstance(found, Tombstone)
    assert found.retryable
    assert "could not be read" in found.reason


def test_without_venues_a_pair_or_the_present_it_is_dormant(
    asked: list[Question], store: Store, venue_settings: Settings, market: ReplayMarket, make_context: MakeContext
) -> None:
    replayed = boards.board(make_context(market, store, venues=("kalshi",)), "IBM")
    assert dormant("divergence", replayed) == "event markets have no history here: a replay knows no venue"
    assert "set DESK_VENUES" in dormant("divergence", live_board(venue_settings, store, venues=()))
    assert "DESK_DATABASE_URL" in dormant("divergence", live_board(venue_settings, None))
    other = live_board(venue_settings, store, boards.question("Q1"))
    assert dormant("divergence", other) == "no question of the board has a likely pair at another venue"
