"""The play money of an episode: staked where its venues are read, never in a replay."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest
from sqlmodel import select

from chordesk.models.database.store import Store
from chordesk.models.settings import Settings
from chordesk.models.tables.board import EpisodeQuestion, KarmaEntry
from chordesk.models.tables.runs import Run
from chordesk.tasks.board.episode.opening import one_a_pair
from chordesk.tasks.board.episode.tally import book_skill, stake
from chordesk.tasks.bootstrap import Desk
from chordesk.tools.board.event_positions import event_ledger
from chordesk.tools.board.venues.pairs import confirm_pair
from chordesk.tools.market.clock import LiveClock, ReplayClock
from chordesk.tools.market.protocol import MarketClock, MarketData
from chordesk.tools.questions.medians import Resolved
from chordesk.tools.questions.resolving import settle
from chordesk.tools.questions.stored_questions import Chosen
from chordesk.tools.registry import ToolContext
from tests.databases import make_database
from tests.fakes.venues import FarVenues, kalshi_row, manifold_row
from tests.tools.board.test_event_positions import add_question
from tests.tools.ledger_rows import add_run
from tests.tools.questions.rows import ASKED, add_forecast, person_question
from tests.tools.scoring.rows import a_signal


@pytest.fixture
def far() -> Iterator[FarVenues]:
    server = FarVenues()
    server.kalshi["KX-1"] = kalshi_row("KX-1", "Will it rain?", "0.3800", "0.4000")
    server.manifold["m1"] = manifold_row("m1", "Will it hail?", 0.30)
    server.start()
    yield server
    server.end()


def desk_of(home: Path, far: FarVenues, **more: Any) -> Desk:
    make_database(f"sqlite:///{home / 'desk.db'}")
    fields: dict[str, Any] = {
        "home": home,
        "venues": ("kalshi",),
    }
    return Desk(Settings(**(fields | more)), "booking-test")


def context_of(desk: Desk, clock: MarketClock) -> ToolContext:
    """A context in which no market is asked for anything."""
    return ToolContext(cast(MarketData, None), clock, desk.store, desk.settings, "paper", None)


def asked(desk: Desk) -> tuple[str, list[str]]:
    with desk.store.session() as session:
        ids = (("KX-1", "kalshi"), ("m1", "manifold"), ("AAPL", "desk"))
        return add_run(session).id, [add_question(session, name, source=source).id for name, source in ids]


def test_a_live_episode_stakes_its_aggregates_once_and_notes_the_rest(tmp_path: Path, far: FarVenues) -> None:
    desk = desk_of(tmp_path, far)
    run_id, (rain, hail, relative) = asked(desk)
    for _ in range(2):
        notes = stake(desk, context_of(desk, LiveClock()), run_id, {rain: 0.9, hail: 0.9, relative: 0.9})
        assert notes == [f"no play money on question {hail}: manifold is not read: DESK_VENUES does not name it"]
        with desk.store.read() as session:
            assert [held.question.id for held in event_ledger(session, "paper", 1000).positions] == [rain]


def test_no_stake_opposes_an_arbitrage_that_the_desk_reports(tmp_path: Path, far: FarVenues) -> None:
    desk = desk_of(tmp_path, far)
    run_id, (rain, *_) = asked(desk)
    with desk.store.session() as session:
        session.add(EpisodeQuestion(run_id=run_id, question_id=rain, label="Q1"))
        data = {"first": "polymarket", "second": "kalshi", "firstSide": "YES", "secondSide": "NO"}
        run = session.get_one(Run, run_id)
        a_signal(session, run, "divergence", 0.6, "Q1", direction="arb", data=data)
    notes = stake(desk, context_of(desk, LiveClock()), run_id, {rain: 0.9})
    assert notes == [
        f"no play money on question {rain}: the desk reports an arbitrage that buys no, and the belief would buy yes"
    ]


def test_questions_that_are_one_are_forecast_once(store: Store) -> None:
    with store.session() as session:
        first, second, other = (
            add_question(session, name, source=source)
            for name, source in (("KX-1", "kalshi"), ("7", "polymarket"), ("m1", "manifold"))
        )
        chosen = [Chosen(one, "") for one in (first, second, other)]
        assert one_a_pair(session, chosen) == chosen
        confirm_pair(session, second, first, "Ann", inverse=True)
        assert one_a_pair(session, chosen) == [chosen[0], chosen[2]]


def test_skill_waits_for_the_tally_of_a_board_under_way(store: Store) -> None:
    early = ReplayClock(ASKED).now() + dt.timedelta(days=2)
    with store.session() as session:
        run, question = add_run(session, state="running"), person_question(session)
        session.add(EpisodeQuestion(run_id=run.id, question_id=question.id, label="Q1"))
        add_forecast(session, run, question, probability=0.8, baseline=0.3)
        settle(session, question.id, Resolved(1.0, {}), "Ann", early)
        book_skill(session, question, "paper")
        assert session.exec(select(KarmaEntry)).all() == [], "no citation is judged yet"
        run.state = "done"
        session.flush()
        for _ in range(2):
            book_skill(session, question, "paper")
        (entry,) = session.exec(select(KarmaEntry)).all()
        assert entry.amount == pytest.approx(100 * (0.7**2 - 0.2**2))
        assert entry.market_at == early, "it was resolved before its deadline"


def test_a_replay_asks_no_venue(tmp_path: Path, far: FarVenues) -> None:
    desk = desk_of(tmp_path, far)
    run_id, (rain, *_) = asked(desk)
    assert stake(desk, context_of(desk, ReplayClock(desk.settings.replay_date)), run_id, {rain: 0.9}) == []
    assert far.asked == []
