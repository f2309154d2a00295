"""Questions of event markets, from a loopback stand-in of their venues: once each, with or without a price."""

from __future__ import annotations

import datetime as dt

import pytest
from sqlmodel import select

from chordesk.models.database.store import Store
from chordesk.models.errors import MarketUnavailable, UsageError
from chordesk.models.settings import Settings
from chordesk.models.tables.board import Question
from chordesk.tools.questions.importing import import_markets, import_one, import_term, refresh
from chordesk.tools.questions.medians import Resolved
from chordesk.tools.questions.resolving import settle
from chordesk.tools.venues.factory import build_venue
from tests.fakes.venues import FarVenues, Fault, in_days, kalshi_row, manifold_row, polymarket_row
from tests.tools.event_positions.markets import NOW, market_of


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
    report = import_term(store, build_venue("manifold", venue_settings), "rain", 10, "Ann")
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


def test_a_market_without_a_price_is_a_question_without_a_baseline(
    store: Store, far: FarVenues, venue_settings: Settings
) -> None:
    far.kalshi["K-1"] = kalshi_row("K-1", "Will it rain?", "0.0100", "0.9900")
    report = import_one(store, build_venue("kalshi", venue_settings), "K-1", "Ann")
    assert report.unpriced == 1
    (row,) = stored(store).values()
    assert (row.baseline, row.state) == (None, "open")
    assert row.baseline_source == "no price: no price between a bid of 0.01 and an ask of 0.99"


def test_importing_again_refreshes_the_price_and_the_closing(
    store: Store, far: FarVenues, venue_settings: Settings
) -> None:
    far.polymarket["7"] = polymarket_row("7", "Will it rain?", 0.2, 0.24)
    venue = build_venue("polymarket", venue_settings)
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
    venue = build_venue("manifold", venue_settings)
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


@pytest.mark.parametrize("kind", ["html", "half"])
def test_a_venue_that_answers_otherwise_writes_nothing(
    store: Store, far: FarVenues, venue_settings: Settings, kind: str
) -> None:
    far.kalshi["K-1"] = kalshi_row("K-1", "Will it rain?")
    far.faults["/trade-api"] = Fault(kind)
    with pytest.raises(MarketUnavailable, match="Kalshi"):
        import_one(store, build_venue("kalshi", venue_settings), "K-1", "Ann")
    assert stored(store) == {}


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
