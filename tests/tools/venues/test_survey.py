from __future__ import annotations

import datetime as dt

import pytest
from sqlmodel import Session

from chordesk.models.database.store import Store
from chordesk.models.settings import Settings
from chordesk.tools.venues.factory import build_venues
from chordesk.tools.venues.pairs import PairedQuestions, confirm_pair, list_pairs, suggest_pairs, survey_pairs
from tests.fakes.venues import FarVenues, Fault, book_of, kalshi_row, manifold_row, polymarket_row
from tests.tools.venues.test_pairs import question, stored

TITLE = "Will it rain in May?"
CLOSES = dt.datetime.now(dt.UTC) + dt.timedelta(days=30)


@pytest.fixture
def rows(far: FarVenues) -> FarVenues:
    """Kalshi asks 0.40 for YES, Polymarket bids 0.50 for it, Manifold has it at 0.30."""
    far.kalshi["KX-1"] = kalshi_row("KX-1", TITLE, "0.3800", "0.4000")
    far.polymarket["7"] = polymarket_row("7", TITLE, 0.50, 0.52)
    far.books["71"] = book_of([("0.50", "60")], [("0.52", "100")])
    far.manifold["m1"] = manifold_row("m1", TITLE, 0.30)
    return far


def paired(session: Session, *confirmed: str) -> list[PairedQuestions]:
    """The pairs of three questions, of which those between `confirmed` venues are confirmed."""
    questions = stored(
        session,
        question("kalshi", TITLE, CLOSES, external_id="KX-1"),
        question("polymarket", TITLE, CLOSES, external_id="7"),
        question("manifold", TITLE, CLOSES, external_id="m1"),
    )
    suggest_pairs(session)
    chosen = [one for one in questions if one.source in confirmed]
    if len(chosen) == 2:
        confirm_pair(session, chosen[0], chosen[1], "Ada")
    return list_pairs(session)


def test_a_confirmed_pair_with_an_edge_comes_first(store: Store, rows: FarVenues, venue_settings: Settings) -> None:
    with store.session() as session:
        survey = survey_pairs(paired(session, "kalshi", "polymarket"), build_venues(venue_settings), 0.04)
    first, *others = survey.compared
    assert {market.venue for market in first.markets} == {"kalshi", "polymarket"}
    assert first.comparison.kind == "arbitrage"
    assert first.comparison.edge is not None
    assert first.comparison.edge.shares == 60
    assert [one.comparison.basis for one in others] == ["no person confirmed the pair"] * 2
    assert abs(others[0].comparison.gap or 0) == pytest.approx(0.21)
    assert survey.failed == {}


def test_books_are_read_of_confirmed_pairs_alone(store: Store, rows: FarVenues, venue_settings: Settings) -> None:
    with store.session() as session:
        survey = survey_pairs(paired(session), build_venues(venue_settings), 0.04)
    assert {one.comparison.kind for one in survey.compared} == {"divergence"}
    assert rows.asked_for("/book") == 0


def test_play_money_is_never_an_arbitrage(store: Store, rows: FarVenues, venue_settings: Settings) -> None:
    with store.session() as session:
        survey = survey_pairs(paired(session, "polymarket", "manifold"), build_venues(venue_settings), 0.04)
    assert {one.comparison.kind for one in survey.compared} == {"divergence"}
    assert "manifold is play money" in {one.comparison.basis for one in survey.compared}


def test_a_venue_that_fails_ends_its_own_pairs_alone(store: Store, rows: FarVenues, venue_settings: Settings) -> None:
    rows.faults["/v0/"] = Fault("html")
    with store.session() as session:
        survey = survey_pairs(paired(session), build_venues(venue_settings), 0.04)
    assert len(survey.compared) == 1
    assert len(survey.failed) == 2
    assert all("Manifold's answer could not be read" in reason for reason in survey.failed.values())


def test_a_venue_that_is_not_read_is_named(store: Store, rows: FarVenues, venue_settings: Settings) -> None:
    venues = build_venues(venue_settings.model_copy(update={"venues": ("kalshi",)}))
    with store.session() as session:
        survey = survey_pairs(paired(session)[:1], venues, 0.04)
    assert next(iter(survey.failed.values())).startswith("not available: configure DESK_VENUES with ")


def test_a_pair_that_was_resolved_meanwhile_is_a_divergence(
    store: Store, rows: FarVenues, venue_settings: Settings
) -> None:
    rows.kalshi["KX-1"].update(status="finalized", result="yes")
    with store.session() as session:
        found = survey_pairs(paired(session, "kalshi", "polymarket"), build_venues(venue_settings), 0.04)
    bases = {one.comparison.basis for one in found.compared}
    assert "kalshi is resolved" in bases
