"""Resolution of what is due: once, from named data, never from later than the market's day, with its bookings."""

from __future__ import annotations

import datetime as dt
import statistics
import threading
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlmodel import Session, func, select

from chordesk.models.database.store import Store
from chordesk.models.questions import BeatsMedian
from chordesk.models.tables.board import Episode, EpisodeQuestion, EventPosition, KarmaEntry, Question
from chordesk.models.tables.runs import Run
from chordesk.tools.market.clock import ReplayClock, exchange_hours
from chordesk.tools.market.replay.market import ReplayData
from chordesk.tools.questions.medians import Closes, Pending, RelativeOutcomes, Resolved, beats, span_of
from chordesk.tools.questions.resolving import book_late, is_under_way, keep_open, resolve_due, settle, unbooked
from tests.examples import examples
from tests.tools.conftest import Raw
from tests.tools.ledger_rows import add, add_run
from tests.tools.market.far_market import FarMarket, daily
from tests.tools.market.test_no_look_ahead import future_removed, future_spoiled
from tests.tools.questions.rows import ASKED, CLOSED, add_forecast, add_skill, desk_questions, on, person_question

MEDIANS = settings(max_examples=examples(60), deadline=None)


def rule(symbol: str, day: dt.date = ASKED, sessions: int = 10, universe: str = "sp500") -> BeatsMedian:
    return BeatsMedian(symbol=symbol, universe=universe, day=day, sessions=sessions)


@pytest.mark.parametrize(
    ("symbol", "first", "last", "outcome"),
    [
        ("AAPL", 208.99, 223.84, 1.0),  # +7.1056 %
        ("JPM", 41.83, 43.07, 1.0),  # +2.9644 %, above the median by half a thousandth
        ("WMT", 53.90, 55.42, 0.0),  # +2.8200 %, below it by one thousandth
        ("XOM", 65.40, 66.30, 0.0),
        ("IBM", 128.57, 127.83, 0.0),
    ],
)
def test_outcomes_checked_by_hand(data: ReplayData, symbol: str, first: float, last: float, outcome: float) -> None:
    """Closes of 2010-03-01 and 2010-03-15 as the package's file has them; the median of the 500 names that have both,
    computed from the file by the csv module alone, is +2.9128571647 %."""
    found = RelativeOutcomes(on(data, CLOSED)).of(rule(symbol))
    assert isinstance(found, Resolved)
    assert found.outcome == outcome
    assert found.evidence["source"] == "daily closes of the replay market"
    assert found.evidence["first"] == {"session": "2010-03-01", "close": first}
    assert found.evidence["last"] == {"session": "2010-03-15", "close": last}
    assert found.evidence["median"] == pytest.approx(0.029128571647204615, abs=1e-12)
    assert found.evidence["with_both_closes"] == 500
    assert found.evidence["members"] == found.evidence["without"] + 500
    assert found.evidence["prices"] == "not adjusted: a split shows as a move"


@MEDIANS
@given(choice=st.data())
def test_the_median_is_that_of_the_file(data: ReplayData, raw: Raw, choice: st.DataObject) -> None:
    """Against the file read a second way, over any two of its sessions."""
    first, last = sorted(choice.draw(st.lists(st.sampled_from(data.sessions), min_size=2, max_size=2, unique=True)))
    market = on(data, last)
    names = [listing.symbol for listing in market.universe("sp500")]
    found = span_of(market, names, first, last)
    for symbol in names:
        assert (found.closes[symbol].first is not None) == (first in raw[symbol])
    changes = [one.change for one in found.closes.values() if one.change is not None]
    assert found.median == pytest.approx(statistics.median(changes), abs=1e-12)
    assert found.with_both == len(changes)


@MEDIANS
@given(changes=st.lists(st.floats(-0.9, 3, allow_nan=False), min_size=1, max_size=40))
def test_the_universe_beats_its_own_median_half_of_the_time(changes: list[float]) -> None:
    median = float(np.median(changes))
    outcomes = [beats(change, median) for change in changes]
    assert set(outcomes) <= {0.0, 0.5, 1.0}
    assert sum(outcome == 1 for outcome in outcomes) <= len(changes) / 2
    assert sum(outcome == 0 for outcome in outcomes) <= len(changes) / 2
    assert all((change > median) == (outcome == 1) for change, outcome in zip(changes, outcomes, strict=True))


@MEDIANS
@given(choice=st.data(), seed=st.integers(0, 2**32 - 1))
def test_no_outcome_is_known_before_its_last_session(data: ReplayData, choice: st.DataObject, seed: int) -> None:
    """At any day a question that closes later is open, and one that has closed has the outcome it keeps, whatever the
    file has of later days."""
    today, day = choice.draw(st.sampled_from(data.sessions)), choice.draw(st.sampled_from(data.sessions))
    asked = rule(choice.draw(st.sampled_from(["AAPL", "IBM", "XOM"])), day, choice.draw(st.integers(1, 20)))
    markets = [on(some, today) for some in (data, future_spoiled(data, today, seed), future_removed(data, today))]
    found = [RelativeOutcomes(market).of(asked) for market in markets]
    assert found[0] == found[1] == found[2]
    if exchange_hours().after(day, asked.sessions) > today:
        assert isinstance(found[0], Pending)
    if isinstance(found[0], Resolved):
        assert found[0].evidence["last"]["session"] <= str(today)


def test_a_missing_last_bar_keeps_it_open_and_is_named(data: ReplayData) -> None:
    """BNI was bought in February 2010: it has no bar in March."""
    found = RelativeOutcomes(on(data, dt.date(2010, 2, 24))).of(rule("BNI", dt.date(2010, 2, 9)))
    assert found == Pending("the replay market has no bar of BNI of 2010-02-24")


def test_a_name_that_is_traded_no_more_resolves_by_its_last_trade(data: ReplayData) -> None:
    asked, market = rule("BNI", dt.date(2010, 2, 9)), on(data, dt.date(2010, 3, 15))
    last = market.bars("BNI", 1)
    for pays in (1.0, 0.0):
        found = RelativeOutcomes(market, pays).of(asked)
        assert isinstance(found, Resolved)
        assert found.evidence["last"] == {"session": str(last.dates[-1]), "close": float(last.close[-1]) * pays}
    assert found.outcome == 0.0, "a total loss beats no median"


def test_the_median_has_the_members_of_the_first_day_and_those_that_left_since(data: ReplayData) -> None:
    """BNI, which was bought in February 2010, is a member of the day that a question is asked on."""
    asked, market = rule("AAPL", dt.date(2010, 2, 9)), on(data, dt.date(2010, 3, 15))
    found = [RelativeOutcomes(market, pays).of(asked) for pays in (1.0, 0.0)]
    there = market.on(ReplayClock(asked.day)).universe("sp500")
    assert "BNI" in {listing.symbol for listing in there}
    for one in found:
        assert isinstance(one, Resolved)
        assert one.evidence["members"] == len(there)
    span = span_of(market, [listing.symbol for listing in there], asked.day, dt.date(2010, 2, 24))
    assert (span.closes["BNI"].ended, span.closes["BNI"].change) == (dt.date(2010, 2, 12), pytest.approx(0.0, abs=0.05))


def test_bars_of_less_than_half_of_the_universe_are_not_enough() -> None:
    histories = {"AAA": daily("AAA", [1.0, 2.0, 3.0]), "BBB": daily("BBB", [1.0, 2.0, 3.0])}
    market = FarMarket(histories)
    first, last = dt.date(2024, 3, 14), dt.date(2024, 3, 15)
    half = span_of(market, ["AAA", "BBB", "CCC", "DDD"], first, last)
    less = span_of(market, ["AAA", "BBB", "CCC", "DDD", "EEE"], first, last)
    assert (half.is_enough, less.is_enough) == (True, False)
    assert half.with_both == less.with_both == 2
    found = RelativeOutcomes(market).of(rule("AAA", first, 1, "AAA,BBB,CCC,DDD,EEE"))
    assert isinstance(found, Pending)
    assert "closes of 2024-03-14 and 2024-03-15 of 2 of 5 members" in found.note


@pytest.mark.parametrize("odd", [float("nan"), float("inf"), 0.0, -1.0])
def test_a_close_that_is_no_price_counts_as_none(odd: float) -> None:
    histories = {"AAA": daily("AAA", [1.0, odd]), "BBB": daily("BBB", [1.0, 2.0])}
    found = span_of(FarMarket(histories), ["AAA", "BBB"], dt.date(2024, 3, 14), dt.date(2024, 3, 15))
    assert found.closes["AAA"] == Closes(1.0, None, adjusted=True)
    assert found.with_both == 1


NAMES = ["AAPL", "IBM", "XOM"]
QUIET = settings(max_examples=examples(25), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def ask(store: Store, data: ReplayData, day: dt.date = ASKED, sessions: int = 10) -> dict[str, Question]:
    with store.session() as session:
        return {row.subjects[0]: row for row in desk_questions(session, on(data, day), NAMES, "sp500", sessions)}


def stored(store: Store, question: Question) -> Question:
    with store.read() as session:
        return session.get_one(Question, question.id)


def test_a_question_resolves_from_later_bars_with_its_evidence(store: Store, data: ReplayData) -> None:
    asked = ask(store, data)
    report = resolve_due(store, on(data, CLOSED), "paper")
    assert {row.text.split()[1]: row.outcome for row in report.resolved} == {"AAPL": 1.0, "IBM": 0.0, "XOM": 0.0}
    assert report.waiting == ()
    found = stored(store, asked["AAPL"])
    assert (found.state, found.outcome, found.resolved_by, found.note) == ("resolved", 1.0, "code", None)
    assert found.evidence is not None
    assert found.evidence["last"] == {"session": "2010-03-15", "close": 223.84}
    assert found.evidence["as_of"] == ReplayClock(CLOSED).now().isoformat()
    assert resolve_due(store, on(data, CLOSED), "paper").resolved == ()
    assert stored(store, asked["AAPL"]).resolved_at == found.resolved_at


@QUIET
@given(choice=st.data())
def test_a_market_never_resolves_what_closes_after_its_day(
    store: Store, data: ReplayData, choice: st.DataObject
) -> None:
    """Of questions of any days, resolved at any other, none that closes later has an outcome."""
    days = st.sampled_from(data.sessions)
    for _ in range(3):
        ask(store, data, choice.draw(days), choice.draw(st.integers(1, 30)))
    today = choice.draw(days)
    report = resolve_due(store, on(data, today), "paper")
    close = exchange_hours().close_of(today)
    with store.read() as session:
        for row in report.resolved:
            found = session.get_one(Question, row.id)
            assert found.closes_at <= close
            assert found.evidence is not None
            assert found.evidence["last"]["session"] <= str(today)


def test_a_question_without_its_bars_stays_open_with_a_note(store: Store, data: ReplayData) -> None:
    asked = ask(store, data, dt.date(2010, 8, 4))
    report = resolve_due(store, on(data, dt.date(2010, 8, 20)), "paper")
    found = stored(store, asked["AAPL"])
    assert (found.state, found.outcome, found.evidence) == ("open", None, None)
    assert found.note is not None
    assert "2010-08-18" in found.note
    assert {row.note for row in report.waiting} == {found.note}


def test_a_persons_question_waits_for_a_person(store: Store, data: ReplayData) -> None:
    with store.session() as session:
        asked = person_question(session)
    assert resolve_due(store, on(data, ASKED), "paper").waiting == ()
    (row,) = resolve_due(store, on(data, CLOSED), "paper").waiting
    assert row.note == f"it waits for a person: desk questions resolve {asked.id}"
    assert stored(store, asked).state == "open"


def test_an_outcome_and_its_bookings_are_one_transaction(store: Store, data: ReplayData) -> None:
    asked = ask(store, data)
    with store.session() as session:
        add_forecast(session, add_run(session, ReplayClock(ASKED).now()), asked["AAPL"])

    def breaks(session: Session, question: Question, account: str) -> None:
        add_skill(session, question, account)
        raise RuntimeError("killed in the middle")

    with pytest.raises(RuntimeError, match="killed"):
        resolve_due(store, on(data, CLOSED), "paper", on_resolved=[breaks])
    assert stored(store, asked["AAPL"]).state == "open"
    assert entries(store) == 0
    resolve_due(store, on(data, CLOSED), "paper", on_resolved=[add_skill])
    resolve_due(store, on(data, CLOSED), "paper", on_resolved=[add_skill])
    assert stored(store, asked["AAPL"]).state == "resolved"
    assert entries(store) == 1


def entries(store: Store) -> int:
    with store.read() as session:
        return session.exec(select(func.count()).select_from(KarmaEntry)).one()


def test_an_account_is_booked_when_its_own_days_come_to_the_closing(store: Store, data: ReplayData) -> None:
    """Two accounts replay the same days, one ahead of the other: the outcome is there once, and the one behind learns
    it no sooner."""
    asked = ask(store, data)
    with store.session() as session:
        for account in ("ahead", "behind"):
            run = add_run(session, ReplayClock(ASKED).now(), account=account)
            add_forecast(session, run, asked["AAPL"])
    assert len(resolve_due(store, on(data, CLOSED), "ahead", on_resolved=[add_skill]).resolved) == 3
    assert booked(store) == ["ahead"]
    early = resolve_due(store, on(data, dt.date(2010, 3, 12)), "behind", on_resolved=[add_skill])
    assert (early.resolved, early.late, booked(store)) == ((), 0, ["ahead"])
    for late in (1, 0):
        assert resolve_due(store, on(data, CLOSED), "behind", on_resolved=[add_skill]).late == late
    assert booked(store) == ["ahead", "behind"]


def booked(store: Store) -> list[str]:
    with store.read() as session:
        return sorted(session.exec(select(KarmaEntry.account)))


def two_at_once(store: Store, resolve: Callable[[], int]) -> list[int]:
    """Call in two threads that begin together; return what each found."""
    both, found = threading.Barrier(2), list[int]()

    def run() -> None:
        both.wait()
        found.append(resolve())

    threads = [threading.Thread(target=run) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found


def resolve_at_once(first: Store, second: Store, data: ReplayData) -> None:
    """Two workers with stores of their own resolve three questions, and then book for an account that comes later."""
    asked = ask(first, data)
    with first.session() as session:
        for account in ("paper", "other"):
            run = add_run(session, ReplayClock(ASKED).now(), account=account)
            for question in asked.values():
                add_forecast(session, run, question)
    stores = [first, second]
    found = two_at_once(first, lambda: len(_pass(stores.pop(), data, "paper").resolved))
    assert sorted(found) in ([0, 3], [1, 2])
    assert booked(first) == ["paper"] * 3
    stores = [first, second]
    late = two_at_once(first, lambda: _pass(stores.pop(), data, "other").late)
    assert sum(late) == 3
    assert booked(first) == ["other"] * 3 + ["paper"] * 3


def _pass(store: Store, data: ReplayData, account: str):  # type: ignore[no-untyped-def]
    return resolve_due(store, on(data, CLOSED), account, on_resolved=[add_skill])


def test_two_workers_at_once_resolve_and_book_once(store: Store, data: ReplayData) -> None:
    other = Store(store.url)
    try:
        resolve_at_once(store, other, data)
    finally:
        other.close()


LATE = dt.datetime(2030, 1, 1, tzinfo=dt.UTC)


@pytest.mark.parametrize(
    ("outcome", "state"), [(1.0, "resolved"), (0.0, "resolved"), (0.37, "resolved"), (None, "void")]
)
def test_the_first_outcome_stays(store: Store, outcome: float | None, state: str) -> None:
    with store.session() as session:
        asked = person_question(session)
        keep_open(session, asked.id, "no data yet")
    with store.session() as session:
        ended = settle(session, asked.id, Resolved(outcome, {"why": "seen"}), "Ann")
        assert ended is not None
        assert (ended.state, ended.outcome, ended.evidence) == (state, outcome, {"why": "seen"})
        assert (ended.resolved_by, ended.note) == ("Ann", None)
    with store.session() as session:
        assert settle(session, asked.id, Resolved(0.5, {}), "Bob") is None
        keep_open(session, asked.id, "still open?")
    with store.read() as session:
        assert session.get_one(Question, asked.id).model_dump() == ended.model_dump()


def test_missing_bookings_are_found_by_account_and_voice(store: Store) -> None:
    with store.session() as session:
        run = add_run(session)
        asked = {name: person_question(session, name) for name in ("a", "b", "void", "open", "nothing")}
        for name in ("a", "b", "void", "open"):
            add_forecast(session, run, asked[name], "bull")
        add_forecast(session, run, asked["b"], "bear")
        add_forecast(session, add_run(session, account="other"), asked["a"], "bull")
        for name in ("a", "b", "nothing"):
            settle(session, asked[name].id, Resolved(1.0, {}), "Ann")
        settle(session, asked["void"].id, Resolved(None, {}), "Ann")
    assert missing(store, asked, "paper") == ["a", "b"]
    with store.session() as session:
        assert book_late(session, asked["a"].id, "paper", "replay", LATE, [add_skill])
        assert not book_late(session, asked["a"].id, "paper", "replay", LATE, [add_skill])
    assert missing(store, asked, "paper") == ["b"]
    assert missing(store, asked, "other") == ["a"]
    with store.session() as session:
        assert book_late(session, asked["b"].id, "paper", "replay", LATE, [add_skill])
        assert sorted(session.exec(select(KarmaEntry.voice))) == ["bear", "bull", "bull"]
    assert missing(store, asked, "paper") == []


def test_a_board_under_way_is_waited_for(store: Store) -> None:
    with store.session() as session:
        before, run = add_run(session), add_run(session, state="running")
        asked = {"asked": person_question(session)}
        question = asked["asked"].id
        session.add(EpisodeQuestion(run_id=run.id, question_id=question, label="Q1"))
        add_forecast(session, before, asked["asked"], "bull")
        settle(session, question, Resolved(1.0, {}), "Ann")
        assert is_under_way(session, question, "paper")
        assert not is_under_way(session, question, "other")
    assert missing(store, asked, "paper") == []
    with store.session() as session:
        session.add(Episode(run_id=run.id, account="paper", number=1, rounds=2, content="", created_at=run.market_now))
    assert missing(store, asked, "paper") == ["asked"], "its tally is written"
    with store.session() as session:
        session.delete(session.get_one(Episode, run.id))
        session.get_one(Run, run.id).state = "stopped"
    assert missing(store, asked, "paper") == ["asked"], "it ended without one"


def test_an_open_position_waits_even_on_a_void_question(store: Store) -> None:
    with store.session() as session:
        asked = {"void": person_question(session)}
        settle(session, asked["void"].id, Resolved(None, {}), "Ann")
        position = a_position(session, asked["void"])
    assert missing(store, asked, "paper") == ["void"]
    with store.session() as session:
        session.get_one(EventPosition, position.id).payout = 10.0
    assert missing(store, asked, "paper") == []


def a_position(session: Session, question: Question) -> EventPosition:
    stake = {"side": "yes", "probability": 0.6, "shares": 20, "price": 0.5, "fee": 0, "cost": 10}
    run = add_run(session)
    values = {"account": "paper", "run_id": run.id, "question_id": question.id, "opened_at": run.market_now}
    return add(session, EventPosition(**values, **stake))


def missing(store: Store, asked: dict[str, Question], account: str) -> list[str]:
    names = {question.id: name for name, question in asked.items()}
    with store.read() as session:
        return sorted(names[one] for one in unbooked(session, account, "replay", LATE))


@pytest.mark.postgres
@pytest.mark.no_cover
def test_two_workers_at_once_on_a_server_resolve_and_book_once(data: ReplayData, postgres_url: str) -> None:
    first, second = Store(postgres_url), Store(postgres_url)
    try:
        resolve_at_once(first, second, data)
    finally:
        first.close()
        second.close()
