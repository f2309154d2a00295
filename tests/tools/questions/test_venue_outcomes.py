"""Outcomes from a loopback stand-in of the venues, in passes over what is due."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest
from sqlmodel import Session

from chordesk.models.database.store import Store
from chordesk.models.settings import Settings
from chordesk.models.tables.board import Question
from chordesk.tools.market.replay.market import ReplayData
from chordesk.tools.questions.importing import import_markets, import_one, resolution_of, watched
from chordesk.tools.questions.resolving import ResolveReport, resolve_due
from chordesk.tools.venues.factory import build_venues
from tests.fakes.venues import FarVenues, Fault, kalshi_row, manifold_row
from tests.tools.event_positions.markets import NOW, market_of
from tests.tools.questions.rows import ASKED, CLOSED, desk_questions, on

PASSED = dt.datetime(2020, 1, 1, tzinfo=dt.UTC)


@pytest.fixture
def asked(store: Store, far: FarVenues, venue_settings: Settings) -> dict[str, str]:
    """Questions of two venues, by the venues' ids; the second has closed."""
    far.manifold["m"] = manifold_row("m", "Will it rain?", 0.3)
    far.kalshi["K-1"] = kalshi_row("K-1", "Will it snow?")
    ids = {}
    for name, market in (("manifold", "m"), ("kalshi", "K-1")):
        (line,) = import_one(store, build_venues(venue_settings)[name], market, "Ann").questions
        ids[market] = line.question.id
    with store.session() as session:
        row = session.get_one(Question, ids["K-1"])
        row.opens_at, row.closes_at = PASSED - dt.timedelta(days=1), PASSED
    del far.kalshi["K-1"]["close_time"]
    return ids


def passed(store: Store, data: ReplayData, settings: Settings, **options: Any) -> ResolveReport:
    return resolve_due(store, on(data, ASKED), "paper", venues=build_venues(settings), **options)


def stored(store: Store, id_: str) -> Question:
    with store.read() as session:
        return session.get_one(Question, id_)


def test_a_deadline_without_an_outcome_leaves_it_open_with_a_note(
    store: Store, data: ReplayData, venue_settings: Settings, far: FarVenues, asked: dict[str, str]
) -> None:
    far.kalshi["K-1"] = kalshi_row("K-1", "Will it snow?", status="closed", close_time="2020-01-01T00:00:00Z")
    report = passed(store, data, venue_settings)
    assert [row.id for row in report.waiting] == [asked["K-1"]]
    assert (stored(store, asked["K-1"]).note or "").startswith("kalshi has its market K-1 closed at ")
    assert stored(store, asked["m"]).note is None


def test_an_outcome_comes_from_the_venue_with_its_evidence(
    store: Store, data: ReplayData, venue_settings: Settings, far: FarVenues, asked: dict[str, str]
) -> None:
    """Of the one that has closed, and of the other before its deadline."""
    far.kalshi["K-1"] = kalshi_row(
        "K-1", "Will it snow?", status="finalized", result="no", settlement_value_dollars="0.0000"
    )
    far.manifold["m"] = manifold_row("m", "Will it rain?", isResolved=True, resolution="MKT", resolutionProbability=0.4)
    report = passed(store, data, venue_settings)
    assert {row.id: row.outcome for row in report.resolved} == {asked["K-1"]: 0.0, asked["m"]: 0.4}
    evidence = stored(store, asked["K-1"]).evidence
    assert evidence is not None
    assert (evidence["source"], evidence["market"], evidence["outcome"]) == ("kalshi", "K-1", 0.0)
    assert evidence["rules"].startswith("If the official figure is above")
    assert passed(store, data, venue_settings).resolved == ()


def test_a_cancelled_market_is_void(
    store: Store, data: ReplayData, venue_settings: Settings, far: FarVenues, asked: dict[str, str]
) -> None:
    far.manifold["m"] = manifold_row("m", "Will it rain?", isResolved=True, resolution="CANCEL")
    (row,) = passed(store, data, venue_settings).resolved
    assert row.outcome is None
    assert (stored(store, asked["m"]).state, stored(store, asked["m"]).outcome) == ("void", None)


def test_a_resolution_that_changes_is_shown_and_changes_nothing(
    store: Store, data: ReplayData, venue_settings: Settings, far: FarVenues, asked: dict[str, str]
) -> None:
    booked: list[str] = []

    def book(session: Session, question: Question, account: str) -> None:
        booked.append(question.id)

    far.manifold["m"] = manifold_row("m", "Will it rain?", isResolved=True, resolution="YES")
    assert len(passed(store, data, venue_settings, on_resolved=[book]).resolved) == 1
    far.manifold["m"] = manifold_row("m", "Will it rain?", isResolved=True, resolution="NO")
    for _ in range(2):
        report = passed(store, data, venue_settings, on_resolved=[book])
        assert report.resolved == ()
        assert [row.note for row in report.changed] == ["manifold gave m the outcome 1.0 and now gives it 0.0"]
    found = stored(store, asked["m"])
    assert (found.outcome, found.state, booked) == (1.0, "resolved", [asked["m"]])
    assert found.evidence is not None
    assert len(found.evidence["changes"]) == 1


def test_a_pass_brings_the_present_price(
    store: Store, data: ReplayData, venue_settings: Settings, far: FarVenues, asked: dict[str, str]
) -> None:
    far.manifold["m"] = manifold_row("m", "Will it rain?", 0.8)
    passed(store, data, venue_settings)
    assert stored(store, asked["m"]).baseline == pytest.approx(0.8)


@pytest.mark.parametrize("kind", ["html", "half", "status"])
def test_a_venue_that_fails_holds_up_nothing_else(
    store: Store, data: ReplayData, venue_settings: Settings, far: FarVenues, asked: dict[str, str], kind: str
) -> None:
    with store.session() as session:
        desk_questions(session, on(data, ASKED), ["AAPL"], "sp500", 10)
    far.faults["/trade-api"] = Fault(kind)
    far.manifold["m"] = manifold_row("m", "Will it rain?", isResolved=True, resolution="YES")
    report = resolve_due(store, on(data, CLOSED), "paper", venues=build_venues(venue_settings))
    assert len(report.resolved) == 2
    (row,) = report.waiting
    assert row.id == asked["K-1"]
    assert row.note.startswith("Kalshi")
    assert stored(store, asked["K-1"]).state == "open"


def test_without_wires_questions_of_venues_are_left_alone(
    store: Store, data: ReplayData, asked: dict[str, str], far: FarVenues
) -> None:
    before = len(far.asked)
    report = resolve_due(store, on(data, ASKED), "paper")
    assert (report.resolved, report.waiting, len(far.asked)) == ((), (), before)


def test_one_question_alone_can_be_looked_at(
    store: Store, data: ReplayData, venue_settings: Settings, far: FarVenues, asked: dict[str, str]
) -> None:
    before = len(far.asked)
    far.manifold["m"] = manifold_row("m", "Will it rain?", isResolved=True, resolution="YES")
    report = passed(store, data, venue_settings, only=asked["m"])
    assert [row.id for row in report.resolved] == [asked["m"]]
    assert len(far.asked) == before + 1
    assert stored(store, asked["K-1"]).note is None


def test_the_watch_is_of_what_is_open_and_what_has_just_ended(store: Store) -> None:
    with store.session() as session:
        for name, days in (("late", -1), ("soon", 1), ("later", 9)):
            market = market_of(
                market_id=name, closes_at=NOW + dt.timedelta(days=days), as_of=NOW - dt.timedelta(days=3)
            )
            import_markets(session, [market], "Ann")
        for name, days in (("ended", -2), ("old", -20)):
            (line,) = import_markets(session, [market_of(market_id=name)], "Ann")
            row = session.get_one(Question, line.question.id)
            row.state, row.outcome, row.resolved_at = "resolved", 1.0, NOW + dt.timedelta(days=days)
        session.flush()
        assert [row.external_id for row in watched(session, ["kalshi"], NOW)] == ["late", "soon", "later", "ended"]
        assert watched(session, [], NOW) == []


def test_a_resolved_market_without_an_outcome_is_none() -> None:
    assert "resolved at" in resolution_of(market_of(state="resolved", outcome=None)).note  # type: ignore[union-attr]
