"""divergence: prices of one question at two venues; an arbitrage only once a person confirmed the pair."""

from __future__ import annotations

import datetime as dt

import pytest

from chordesk.models.board import BoardQuestion, implied
from chordesk.models.database.store import Store
from chordesk.models.settings import Settings
from chordesk.models.tables.board import Question
from chordesk.tools.board.registry import Tombstone
from chordesk.tools.market.replay.market import ReplayMarket
from chordesk.tools.venues.pairs import confirm_pair
from tests.fakes.venues import FarVenues, Fault, book_of, kalshi_row, manifold_row, polymarket_row
from tests.tools.conftest import MakeContext
from tests.tools.harvest import boards
from tests.tools.harvest.boards import dormant, ended, harvested
from tests.tools.harvest.venue_boards import live_board
from tests.tools.venues.test_pairs import question, stored

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
            question("kalshi", TITLE, CLOSES, external_id="KX-1"),
            question("polymarket", TITLE, CLOSES, external_id="7"),
            question("manifold", TITLE, CLOSES, external_id="m1"),
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
        assert (one.direction, one.confidence, implied(one)) == ("neutral", None, None)
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
    asked: list[Question],
    store: Store,
    venue_settings: Settings,
    market: ReplayMarket,
    make_context: MakeContext,
) -> None:
    replayed = boards.board(make_context(market, store, venues=("kalshi",)), "IBM")
    assert dormant("divergence", replayed) == "event markets have no history here: a replay knows no venue"
    assert "set DESK_VENUES" in dormant("divergence", live_board(venue_settings, store, venues=()))
    assert "DESK_DATABASE_URL" in dormant("divergence", live_board(venue_settings, None))
    other = live_board(venue_settings, store, boards.question("Q1"))
    assert dormant("divergence", other) == "no question of the board has a likely pair at another venue"
