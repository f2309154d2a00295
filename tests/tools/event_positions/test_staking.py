"""The stakes of a run at the venues' stand-ins."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from chordesk.models.database.store import Store
from chordesk.models.settings import Settings
from chordesk.tools.event_positions import Staked, event_ledger, stake_run
from chordesk.tools.venues.factory import build_venues
from tests.fakes.venues import FarVenues, Fault, book_of, kalshi_row, manifold_row, polymarket_row
from tests.tools.event_positions.test_ledger import add_question
from tests.tools.ledger_rows import add_run


@pytest.fixture
def far() -> Iterator[FarVenues]:
    server = FarVenues()
    server.start()
    server.kalshi["KX-1"] = kalshi_row("KX-1", "Will it rain?", "0.3800", "0.4000")
    server.polymarket["7"] = polymarket_row("7", "Will it snow?", 0.50, 0.52)
    server.books["71"] = book_of([("0.50", "500")], [("0.52", "500")])
    server.manifold["m1"] = manifold_row("m1", "Will it hail?", 0.30)
    yield server
    server.end()


@pytest.fixture
def settings(far: FarVenues, tmp_path: Path) -> Settings:
    return far.settings(tmp_path)


def asked(store: Store) -> tuple[str, dict[str, str]]:
    """A run and one question of each venue, and of the desk: their ids by source."""
    with store.session() as session:
        run = add_run(session)
        ids = {"kalshi": "KX-1", "polymarket": "7", "manifold": "m1", "desk": "AAPL"}
        questions = {source: add_question(session, name, source=source).id for source, name in ids.items()}
        return run.id, questions


def test_each_venue_is_staked_at_its_own_prices(store: Store, far: FarVenues, settings: Settings) -> None:
    """Kalshi has 80 contracts at 0.40; Polymarket sells YES at 0.52 + 0.009984; Manifold's pool believes 0.30."""
    run_id, ids = asked(store)
    beliefs = {ids["desk"]: 0.9, ids["kalshi"]: 0.9, ids["polymarket"]: 0.6, ids["manifold"]: 0.2}
    kalshi, polymarket, manifold = stake_run(store, settings, run_id, beliefs, build_venues(settings))
    assert kalshi.position is not None
    assert (kalshi.position.side, kalshi.position.shares) == ("yes", 80)
    assert kalshi.position.cost == pytest.approx(32 + 1.35)  # 0.07 * 80 * 0.24 = 1.344
    assert polymarket.position is not None
    assert polymarket.position.cost == pytest.approx(250 * (0.6 - 0.529984) / (1 - 0.529984), abs=0.01)
    assert manifold.position is not None
    assert (manifold.position.side, manifold.position.fee) == ("no", 0)
    with store.read() as session:
        assert len(event_ledger(session, "paper", 1000).positions) == 3


def test_a_repeated_call_asks_and_opens_nothing_again(store: Store, far: FarVenues, settings: Settings) -> None:
    run_id, ids = asked(store)
    first = stake_run(store, settings, run_id, {ids["kalshi"]: 0.9}, build_venues(settings))
    count = len(far.asked)
    again = stake_run(store, settings, run_id, {ids["kalshi"]: 0.9}, build_venues(settings))
    assert [one.position.id for one in again if one.position] == [one.position.id for one in first if one.position]
    assert len(far.asked) == count


def test_the_reason_for_no_position_is_given(store: Store, far: FarVenues, settings: Settings) -> None:
    run_id, ids = asked(store)
    far.faults["/v0/"] = Fault("status", status=503)
    far.kalshi["KX-1"].update(status="closed")
    only = build_venues(settings.model_copy(update={"venues": ("manifold", "kalshi")}))
    beliefs = {ids["kalshi"]: 0.9, ids["polymarket"]: 0.6, ids["manifold"]: 0.2}
    assert stake_run(store, settings, run_id, beliefs, only) == [
        Staked(ids["kalshi"], None, "the question is open, its market closed"),
        Staked(ids["polymarket"], None, "polymarket is not read: DESK_VENUES does not name it"),
        Staked(ids["manifold"], None, "Manifold does not answer: HTTP 503"),
    ]


def test_a_market_without_a_price_has_no_stake(store: Store, far: FarVenues, settings: Settings) -> None:
    run_id, ids = asked(store)
    far.kalshi["KX-1"].update(yes_bid_dollars="0.0000", yes_ask_dollars="1.0000")
    found = stake_run(store, settings, run_id, {ids["kalshi"]: 0.9}, build_venues(settings))
    assert [one.reason for one in found] == ["kalshi has no offers"]
