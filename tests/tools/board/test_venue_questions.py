"""Questions of event venues: imported, refreshed, and resolved from a loopback stand-in."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest
from sqlmodel import select

from chordesk.models.database.store import Store
from chordesk.models.errors import UsageError
from chordesk.models.settings import Settings
from chordesk.models.tables.board import Question
from chordesk.tools.board.venue_questions import (
    VenueResolver,
    import_markets,
    import_one,
    import_term,
    refresh,
    watched,
)
from chordesk.tools.board.venues.named_venues import build_venue, build_venues
from chordesk.tools.market.replay.market import ReplayData
from chordesk.tools.questions.medians import Resolved
from chordesk.tools.questions.resolving import ResolveReport, resolve_due, settle
from tests.fakes.venues import FarVenues, Fault, in_days, kalshi_row, manifold_row, polymarket_row
from tests.tools.board.test_event_positions import NOW, market_of
from tests.tools.questions.rows import ASKED, CLOSED, desk_questions, on


def stored(store: Store) -> dict[str, Question]:
    with store.read() as session:
        return {row.external_id: row for row in session.exec(select(Question))}


def test_open_markets_on_a_term_become_questions(store: Store, far: FarVenues, venue_settings: Settings) -> None:
    far.manifold = {
        "a": manifold_row("a", "Will it rain in May?", 0.3),
        "b": manifold_row("b", "Will it snow in May?"),
        "c": manifold_row("c", "Which city will it rain in?", outcomeType="MULTIPLE_CHOICE"),
        "d": manifold_row("d", "Rain for ever?", closeTime=None),
        "e": manifold_row("e", "Rain yesterday?", closeTime=int(in_days(-1).timestamp() * 1000)),
    }
    report = import_term(store, build_venue("manifold"), "rain", 10, "Ann")
    assert [(line.came, line.question.text, line.question.baseline) for line in report.questions] == [
        ("new", "Will it rain in May?", 0.3)
    ]
    assert report.left_out["with other than two outcomes"] == 1
    assert sum(report.left_out.values()) == 3
    (row,) = stored(store).values()
    assert (row.source, row.market, row.external_id, row.author) == ("manifold", "", "a", "Ann")
    assert row.rule == {"kind": "venue", "venue": "manifold", "id": "a"}
    assert row.baseline_source.startswith("manifold: ")
    assert row.url == "https://manifold.markets/person/a"
    assert row.opens_at < row.closes_at


def test_a_question_names_its_event_where_the_venue_says_that_one_outcome_wins(
    store: Store, far: FarVenues, venue_settings: Settings
) -> None:
    far.kalshi = {name: kalshi_row(name, "Who wins?", event_ticker=name[0]) for name in ("A-1", "A-2", "B-1")}
    far.exclusive = {"A"}
    far.polymarket = {
        "1": polymarket_row("1", "Who wins?", negRisk=True, negRiskMarketID="0xe"),
        "2": polymarket_row("2", "Who wins?", negRisk=False, negRiskMarketID=""),
    }
    for venue in ("kalshi", "polymarket"):
        import_term(store, build_venue(venue), "wins", 10, "Ann")
    assert {name: row.event for name, row in stored(store).items()} == {
        "A-1": "A",
        "A-2": "A",
        "B-1": None,
        "1": "0xe",
        "2": None,
    }


def test_a_market_without_a_price_is_a_question_without_a_baseline(
    store: Store, far: FarVenues, venue_settings: Settings
) -> None:
    far.kalshi["K-1"] = kalshi_row("K-1", "Will it rain?", "0.0100", "0.9900")
    report = import_one(store, build_venue("kalshi"), "K-1", "Ann")
    assert report.unpriced == 1
    (row,) = stored(store).values()
    assert (row.baseline, row.state) == (None, "open")
    assert row.baseline_source == "no price: no price between a bid of 0.01 and an ask of 0.99"


def test_importing_again_refreshes_the_price_and_the_closing(
    store: Store, far: FarVenues, venue_settings: Settings
) -> None:
    far.polymarket["7"] = polymarket_row("7", "Will it rain?", 0.2, 0.24)
    venue = build_venue("polymarket")
    (first,) = import_one(store, venue, "7", "Ann").questions
    far.polymarket["7"] = polymarket_row("7", "Will it rain?", 0.6, 0.64, endDate="2099-01-01T00:00:00Z")
    (again,) = import_one(store, venue, "7", "Bob").questions
    assert (first.question.id, first.came) == (again.question.id, "new")
    assert (again.came, again.question.baseline) == ("refreshed", pytest.approx(0.62))
    (row,) = stored(store).values()
    assert (row.closes_at.year, row.author) == (2099, "Ann")


def test_a_closed_market_is_refused_unless_it_is_a_question(
    store: Store, far: FarVenues, venue_settings: Settings
) -> None:
    far.manifold["a"] = manifold_row("a", "Rain?")
    venue = build_venue("manifold")
    import_one(store, venue, "a", "Ann")
    for id_ in ("a", "b"):
        far.manifold[id_] = manifold_row(id_, "Rain?", isResolved=True, resolution="YES")
    (line,) = import_one(store, venue, "a", "Ann").questions
    assert line.came == "refreshed"
    assert stored(store)["a"].note == f"manifold has resolved it: desk questions resolve {line.question.id}"
    assert stored(store)["a"].state == "open"
    with pytest.raises(UsageError, match="manifold has its market b resolved: no forecast"):
        import_one(store, venue, "b", "Ann")
    assert set(stored(store)) == {"a"}


def test_a_long_or_odd_text_is_kept_on_one_line(store: Store) -> None:
    with store.session() as session:
        import_markets(session, [market_of(question=f"Will\x1b[2J it\nrain{'x' * 600}?")], "Ann")
    (row,) = stored(store).values()
    assert row.text.startswith("Will [2J it rain")
    assert len(row.text) == 500


def test_an_outcome_stays_when_its_venue_takes_it_back(store: Store) -> None:
    """Each contradiction is added to the evidence once, and later ones after it."""
    with store.session() as session:
        (line,) = import_markets(session, [market_of()], "Ann")
        settle(session, line.question.id, Resolved(1.0, {"source": "kalshi"}), "code", NOW + dt.timedelta(days=1))
    later = NOW + dt.timedelta(days=2)
    for _ in range(2):
        with store.session() as session:
            other = market_of(state="resolved", outcome=0.0, as_of=later, probability=None)
            assert [one.came for one in import_markets(session, [other], "Ann")] == ["changed"]
    (row,) = stored(store).values()
    assert (row.state, row.outcome) == ("resolved", 1.0)
    assert row.note == "kalshi gave KX-1 the outcome 1.0 and now gives it 0.0"
    assert row.evidence is not None
    assert row.evidence["changes"] == [{"at": later.isoformat(), "state": "resolved", "outcome": 0.0}]
    with store.session() as session:
        import_markets(session, [market_of(as_of=later)], "Ann")
    (row,) = stored(store).values()
    assert row.evidence is not None
    assert [change["state"] for change in row.evidence["changes"]] == ["resolved", "open"]


@pytest.mark.parametrize(
    ("source", "days", "came"),
    [("kalshi", 2, "changed"), ("kalshi", 0, "ended"), ("a person, Bob", 2, "ended")],
    ids=["taken back", "read before it was resolved", "void by a person"],
)
def test_only_a_later_statement_of_the_venue_itself_contradicts(
    store: Store, source: str, days: int, came: str
) -> None:
    with store.session() as session:
        (line,) = import_markets(session, [market_of()], "Ann")
        settle(session, line.question.id, Resolved(None, {"source": source}), "code", NOW + dt.timedelta(days=1))
        question = session.get_one(Question, line.question.id)
        assert refresh(question, market_of(as_of=NOW + dt.timedelta(days=days))) == came


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
    return resolve_due(store, on(data, ASKED), "paper", resolvers=[VenueResolver(build_venues(settings))], **options)


def stored_by_id(store: Store, id_: str) -> Question:
    with store.read() as session:
        return session.get_one(Question, id_)


def test_a_deadline_without_an_outcome_leaves_it_open_with_a_note(
    store: Store, data: ReplayData, venue_settings: Settings, far: FarVenues, asked: dict[str, str]
) -> None:
    far.kalshi["K-1"] = kalshi_row("K-1", "Will it snow?", status="closed", close_time="2020-01-01T00:00:00Z")
    report = passed(store, data, venue_settings)
    assert [row.id for row in report.waiting] == [asked["K-1"]]
    assert (stored_by_id(store, asked["K-1"]).note or "").startswith("kalshi has its market K-1 closed at ")
    assert stored_by_id(store, asked["m"]).note is None


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
    evidence = stored_by_id(store, asked["K-1"]).evidence
    assert evidence is not None
    assert (evidence["source"], evidence["market"], evidence["outcome"]) == ("kalshi", "K-1", 0.0)
    assert evidence["rules"].startswith("If the official figure is above")
    assert passed(store, data, venue_settings).resolved == ()


def test_a_pass_brings_the_present_price(
    store: Store, data: ReplayData, venue_settings: Settings, far: FarVenues, asked: dict[str, str]
) -> None:
    far.manifold["m"] = manifold_row("m", "Will it rain?", 0.8)
    passed(store, data, venue_settings)
    assert stored_by_id(store, asked["m"]).baseline == pytest.approx(0.8)


@pytest.mark.parametrize("kind", ["html", "half", "status"])
def test_a_venue_that_fails_holds_up_nothing_else(
    store: Store, data: ReplayData, venue_settings: Settings, far: FarVenues, asked: dict[str, str], kind: str
) -> None:
    with store.session() as session:
        desk_questions(session, on(data, ASKED), ["AAPL"], "sp500", 10)
    far.faults["/trade-api"] = Fault(kind)
    far.manifold["m"] = manifold_row("m", "Will it rain?", isResolved=True, resolution="YES")
    report = resolve_due(store, on(data, CLOSED), "paper", resolvers=[VenueResolver(build_venues(venue_settings))])
    assert len(report.resolved) == 2
    (row,) = report.waiting
    assert row.id == asked["K-1"]
    assert row.note.startswith("Kalshi")
    assert stored_by_id(store, asked["K-1"]).state == "open"


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
