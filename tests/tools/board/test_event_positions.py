"""Positions in event markets: fills, stakes, the ledger, and the stakes of a run."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlmodel import Session, col, select

from chordesk.models.database.store import Store
from chordesk.models.questions import QuestionState
from chordesk.models.settings import Settings
from chordesk.models.tables.board import EventPosition, Question
from chordesk.tools.board.event_positions import (
    MOST_HEAT,
    EventFill,
    NoStake,
    Purse,
    Staked,
    best_price,
    event_ledger,
    fill_of,
    open_event_position,
    purse_of,
    settle_event_positions,
    sized,
    stake_run,
)
from chordesk.tools.board.venue_questions import VenueResolver, import_one
from chordesk.tools.board.venues.kalshi import FEE as KALSHI
from chordesk.tools.board.venues.markets import NO_FEE, BookLevel, EventBook, FeeTerms, Pool, Side, VenueMarket
from chordesk.tools.board.venues.named_venues import build_venues
from chordesk.tools.ledger import ensure_account
from chordesk.tools.market.replay.market import ReplayMarket
from chordesk.tools.portfolio.size_bounds import full_kelly
from chordesk.tools.questions.resolving import resolve_due
from tests.fakes import venues as fakes
from tests.fakes.venues import FarVenues, Fault, kalshi_row, manifold_row, polymarket_row
from tests.patience import PATIENCE
from tests.tools.ledger_rows import add, add_run

NOW = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)


def market_of(venue: str = "kalshi", market_id: str = "KX-1", **changes: Any) -> VenueMarket:
    """An open market with Kalshi's fee."""
    fields: dict[str, Any] = {
        "venue": venue,
        "id": market_id,
        "question": "Will it rain?",
        "url": "",
        "rules": "",
        "state": "open",
        "outcome": None,
        "closes_at": NOW + dt.timedelta(days=30),
        "probability": 0.5,
        "basis": "",
        "bid": None,
        "ask": None,
        "volume": None,
        "as_of": NOW,
        "fee": KALSHI,
    }
    return VenueMarket(**(fields | changes))


def pool_market(yes: float = 1000, no: float = 1000, p: float = 0.5) -> VenueMarket:
    """An open market of Manifold with this pool."""
    price = p * no / ((1 - p) * yes + p * no)
    return market_of("manifold", "m1", fee=NO_FEE, pool=Pool(yes, no, p), probability=price, play_money=True)


def book_of(bids: list[tuple[float, float]], asks: list[tuple[float, float]]) -> EventBook:
    """A book of (price, size), the best level first."""
    sides = [tuple(BookLevel(price, size) for price, size in side) for side in (bids, asks)]
    return EventBook(sides[0], sides[1], NOW)


SHALLOW = book_of([(0.38, 100)], [(0.40, 50), (0.45, 1000)])


@pytest.mark.parametrize(
    ("market", "book", "side", "stake", "shares", "cost", "fee"),
    [
        # 50 at 0.40 + 0.0168 cost 20.84, and 29.16 left buy 62 at 0.45 + .017325: 20 + 27.9 + 0.84 + 1.08 (1.074) =
        # 49.82, and one more would cost 0.45 + fee beyond 50.
        (market_of(), SHALLOW, "yes", 50, 112, 49.82, 1.92),
        (market_of(), SHALLOW, "no", 6.40, 10, 6.37, 0.17),  # NO costs 1 - 0.38 = 0.62, and a fee of 0.16492
        (market_of(), book_of([], [(0.40, 5)]), "yes", 50, 5, 2.09, 0.09),
        # At 0.40 + 0.04 * 0.24 = 0.4096, 10 buy 24.414, of which 24.41.
        (market_of(fee=FeeTerms(0.04)), SHALLOW, "yes", 10, 24.41, 24.41 * 0.4096, 24.41 * 0.0096),
        (pool_market(100, 100), None, "yes", 100, 150, 100, 0),
    ],
)
def test_a_stake_buys_by_the_venue_s_own_formula(
    market: VenueMarket, book: EventBook | None, side: Side, stake: float, shares: float, cost: float, fee: float
) -> None:
    fill = fill_of(market, book, side, stake)
    assert fill is not None
    assert (fill.shares, fill.cost, fill.fee) == pytest.approx((shares, cost, fee))
    assert fill.effective == pytest.approx(cost / shares)


@pytest.mark.parametrize("stake", [0, -5, 0.3])
def test_too_little_buys_nothing(stake: float) -> None:
    assert fill_of(market_of(), SHALLOW, "yes", stake) is None


def test_without_offers_or_a_known_fee_nothing_is_for_sale() -> None:
    for market, book in ((market_of(), None), (market_of(), book_of([], [])), (market_of(fee=None), SHALLOW)):
        assert best_price(market, book, "yes") is None
        assert fill_of(market, book, "yes", 50) is None


def test_the_best_price_has_its_fee() -> None:
    assert best_price(market_of(), SHALLOW, "yes") == pytest.approx(0.4168)
    assert best_price(market_of(), SHALLOW, "no") == pytest.approx(0.62 + 0.07 * 0.62 * 0.38)
    assert best_price(pool_market(750, 250), None, "no") == pytest.approx(0.75)


@given(stake=st.floats(0.01, 5000), side=st.sampled_from(("yes", "no")), pooled=st.booleans())
def test_a_fill_costs_at_most_its_stake_and_a_larger_one_is_no_cheaper(stake: float, side: Side, pooled: bool) -> None:
    market, book = (pool_market(), None) if pooled else (market_of(fee=FeeTerms(0.04)), SHALLOW)
    small, large = fill_of(market, book, side, stake), fill_of(market, book, side, 2 * stake)
    if small is None or large is None:
        assert small is None
        return
    assert small.cost <= stake + 1e-6
    assert large.shares >= small.shares
    assert large.effective >= small.effective - 1e-9
    assert large.effective < 1


BOOK = book_of([(0.38, 1e6)], [(0.40, 1e6)])
FREE = market_of("polymarket", "7", fee=NO_FEE)


def purse(bankroll: float = 1000, heat: float = 0.0, **held: float) -> Purse:
    sides: dict[Side, float] = {"yes": held.get("yes", 0.0), "no": held.get("no", 0.0)}
    return Purse(bankroll, heat, sides)


def bought(
    market: VenueMarket, book: EventBook | None, belief: float, money: Purse, fraction: float = 0.25
) -> EventFill:
    fill = sized(market, book, belief, money, fraction)
    assert isinstance(fill, EventFill), fill
    return fill


@pytest.mark.parametrize(
    ("belief", "money", "reason"),
    [
        (0.39, purse(), "no edge for 0.390: yes costs 0.400, no costs 0.620"),
        (0.60, purse(0), "the bankroll is spent: 0.00"),
        (0.60, purse(heat=0.5), "open positions hold 50% of the bankroll, the limit is 50%"),
        (0.60, purse(yes=90), "Kelly allows no more than is held already"),
        (0.60, purse(no=10), "the other side is held already, and yes would undo it"),
        (0.4001, purse(1), "Kelly allows no more than is held already"),
    ],
)
def test_the_reason_for_no_stake_is_stated(belief: float, money: Purse, reason: str) -> None:
    found = sized(FREE, BOOK, belief, money, 0.25)
    assert isinstance(found, NoStake)
    assert reason in found.reason


def test_a_fee_takes_an_edge_away() -> None:
    assert isinstance(sized(FREE, BOOK, 0.41, purse(), 0.25), EventFill)
    assert isinstance(sized(market_of(), BOOK, 0.41, purse(), 0.25), NoStake)


def test_a_stake_that_moves_the_price_is_smaller() -> None:
    """A pool of 1,000 and 1,000, believed 0.60: at 0.5 the stake would be 50; it is less, by what it costs itself."""
    market = pool_market()
    fill = bought(market, None, 0.60, purse())
    assert 40 < fill.cost < 50
    assert fill.cost == pytest.approx(0.25 * full_kelly(0.60, fill.effective) * 1000, abs=1e-3)


@given(
    belief=st.floats(0, 1),
    bid=st.integers(2, 95),
    size=st.floats(1, 1e4),
    fraction=st.floats(0.05, 1),
    heat=st.floats(0, 0.6),
    pooled=st.booleans(),
)
def test_a_stake_is_within_kelly_and_heat(
    belief: float, bid: int, size: float, fraction: float, heat: float, pooled: bool
) -> None:
    book = book_of([(bid / 100, size)], [((bid + 2) / 100, size), ((bid + 3) / 100, size)])
    market, offers = (pool_market(1000 - 10 * bid, 10 * bid), None) if pooled else (market_of(), book)
    found = sized(market, offers, belief, purse(heat=heat), fraction)
    if isinstance(found, NoStake):
        return
    wins = belief if found.side == "yes" else 1 - belief
    assert found.cost <= fraction * full_kelly(wins, found.effective) * 1000 + 1e-6
    assert found.cost <= (MOST_HEAT - heat) * 1000 + 1e-6
    assert wins > found.effective


SETTINGS = Settings()


def free_market(market_id: str = "7") -> VenueMarket:
    return market_of("polymarket", market_id, fee=NO_FEE)


def add_question(session: Session, external_id: str = "7", **changes: Any) -> Question:
    fields: dict[str, Any] = {
        "source": "polymarket",
        "external_id": external_id,
        "text": "Will it rain?",
        "rule": {"kind": "venue", "venue": "polymarket", "id": external_id},
        "opens_at": NOW,
        "closes_at": NOW + dt.timedelta(days=30),
        "state": "open",
    }
    return add(session, Question(**(fields | changes)))


def opened(session: Session, run_id: str, question: Question, probability: float = 0.6) -> EventPosition | NoStake:
    return open_event_position(
        session,
        SETTINGS,
        run_id=run_id,
        question=question,
        probability=probability,
        market=free_market(question.external_id),
        book=BOOK,
        at=NOW,
    )


def position(session: Session, run_id: str, question: Question, probability: float = 0.6) -> EventPosition:
    row = opened(session, run_id, question, probability)
    assert isinstance(row, EventPosition), row
    return row


def ended(session: Session, question: Question, outcome: float | None) -> Question:
    question.state = QuestionState.VOID if outcome is None else QuestionState.RESOLVED
    question.outcome = outcome
    return add(session, question)


def settle_all(session: Session) -> list[EventPosition]:
    """Pay out what can be on every question, and return it."""
    questions = session.exec(select(Question).order_by(col(Question.id))).all()
    return [row for question in questions for row in settle_event_positions(session, question, "paper")]


def test_a_position_is_opened_once_a_run_and_question(store: Store) -> None:
    with store.session() as session:
        question, run = add_question(session), add_run(session)
        row = position(session, run.id, question)
        assert (row.account, row.side, row.probability, row.shares) == ("paper", "yes", 0.6, 208.33)
        assert (row.price, row.fee, row.cost) == (pytest.approx(0.4), 0.0, pytest.approx(83.332))
        assert (row.payout, row.opened_at) == (None, NOW)
        assert position(session, run.id, question, 0.9).id == row.id
        assert len(event_ledger(session, "paper", 1000).positions) == 1


@pytest.mark.parametrize(
    ("changes", "market", "reason"),
    [
        ({"source": "desk"}, free_market(), "the question is of desk, which is no venue"),
        ({}, free_market("8"), "the market polymarket 8 is not that of the question"),
        ({"state": "resolved", "outcome": 1.0}, free_market(), "the question is resolved, its market open"),
        ({}, market_of("polymarket", "7", state="closed"), "the question is open, its market closed"),
    ],
)
def test_nothing_is_staked_on_another_or_an_ended_question(
    store: Store, changes: dict[str, Any], market: VenueMarket, reason: str
) -> None:
    with store.session() as session:
        question, run = add_question(session, **changes), add_run(session)
        found = open_event_position(
            session, SETTINGS, run_id=run.id, question=question, probability=0.6, market=market, book=BOOK
        )
        assert found == NoStake(reason)


@pytest.mark.parametrize(
    ("probability", "outcome", "payout"),
    [(0.6, 1.0, 208.33), (0.6, 0.0, 0.0), (0.6, 0.25, 52.0825), (0.2, 0.0, 191.0), (0.2, 0.25, 143.25)],
)
def test_a_position_pays_its_shares_times_its_outcome(
    store: Store, probability: float, outcome: float, payout: float
) -> None:
    with store.session() as session:
        question, run = add_question(session), add_run(session)
        row = position(session, run.id, question, probability)
        assert settle_event_positions(session, question, "paper") == []
        assert [
            paid.id for paid in settle_event_positions(session, ended(session, question, outcome), "paper", NOW)
        ] == [row.id]
        assert row.payout == pytest.approx(payout)
        assert row.closed_at == NOW


def test_a_void_question_gives_back_what_was_paid(store: Store) -> None:
    with store.session() as session:
        question, run = add_question(session), add_run(session)
        row = position(session, run.id, question)
        settle_event_positions(session, ended(session, question, None), "paper")
        assert row.payout == row.cost
        assert event_ledger(session, "paper", 1000).bankroll == 1000


def test_only_the_accounts_own_positions_are_paid(store: Store) -> None:
    with store.session() as session:
        question, run = add_question(session), add_run(session)
        position(session, run.id, question)
        assert settle_event_positions(session, ended(session, question, 1.0), "alpaca-paper") == []


def test_the_bankroll_is_the_start_and_what_was_realised(store: Store) -> None:
    """Won 208.33 - 83.332; of 1,124.998 the next stake is a twelfth, 93.75."""
    with store.session() as session:
        first, second = add_question(session), add_question(session, "8")
        position(session, add_run(session).id, first)
        settle_event_positions(session, ended(session, first, 1.0), "paper")
        row = position(session, add_run(session).id, second)
        assert row.cost == pytest.approx(1124.998 / 12, abs=0.01)
        ledger = event_ledger(session, "paper", 1000)
        assert (ledger.realised, ledger.staked) == (pytest.approx(124.998), row.cost)
        assert [held.question.id for held in ledger.positions] == [second.id, first.id]
        assert [held.question.id for held in event_ledger(session, "paper", 1000, only_open=True).positions] == [
            second.id
        ]


def test_open_positions_use_heat_up_to_its_limit(store: Store) -> None:
    """Each of 0.75 at 0.40 wants 145.8; the fourth gets what is left of 500, the fifth nothing."""
    with store.session() as session:
        costs = []
        for number in range(5):
            question = add_question(session, f"q{number}")
            row = opened(session, add_run(session).id, question, 0.75)
            costs.append(row.cost if isinstance(row, EventPosition) else row)
        assert costs[:3] == [pytest.approx(145.83, abs=0.01)] * 3
        assert costs[3] == pytest.approx(62.5, abs=0.02)
        assert costs[4] == NoStake("open positions hold 50% of the bankroll, the limit is 50%")
        assert purse_of(session, "paper", 1000, "none").heat <= 0.5


def test_later_runs_add_only_what_kelly_still_allows(store: Store) -> None:
    with store.session() as session:
        question = add_question(session)
        position(session, add_run(session).id, question)
        again = opened(session, add_run(session).id, question)
        assert again == NoStake("Kelly allows no more than is held already")
        more = position(session, add_run(session).id, question, 0.7)
        assert more.cost == pytest.approx(125 - 83.33, abs=0.01)


@pytest.fixture
def far() -> Iterator[FarVenues]:
    server = FarVenues()
    server.start()
    server.kalshi["KX-1"] = kalshi_row("KX-1", "Will it rain?", "0.3800", "0.4000")
    server.polymarket["7"] = polymarket_row("7", "Will it snow?", 0.50, 0.52)
    server.books["71"] = fakes.book_of([("0.50", "500")], [("0.52", "500")])
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
    kalshi, polymarket, manifold = stake_run(store, settings, run_id, beliefs, build_venues(settings), {})
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
    first = stake_run(store, settings, run_id, {ids["kalshi"]: 0.9}, build_venues(settings), {})
    count = len(far.asked)
    again = stake_run(store, settings, run_id, {ids["kalshi"]: 0.9}, build_venues(settings), {})
    assert [one.position.id for one in again if one.position] == [one.position.id for one in first if one.position]
    assert len(far.asked) == count


def test_the_reason_for_no_position_is_given(store: Store, far: FarVenues, settings: Settings) -> None:
    run_id, ids = asked(store)
    far.faults["/v0/"] = Fault("status", status=503)
    far.kalshi["KX-1"].update(status="closed")
    only = build_venues(settings.model_copy(update={"venues": ("manifold", "kalshi")}))
    beliefs = {ids["kalshi"]: 0.9, ids["polymarket"]: 0.6, ids["manifold"]: 0.2}
    assert stake_run(store, settings, run_id, beliefs, only, {}) == [
        Staked(ids["kalshi"], None, "the question is open, its market closed"),
        Staked(ids["polymarket"], None, "polymarket is not read: DESK_VENUES does not name it"),
        Staked(ids["manifold"], None, "Manifold does not answer: HTTP 503"),
    ]


def test_a_market_without_a_price_has_no_stake(store: Store, far: FarVenues, settings: Settings) -> None:
    run_id, ids = asked(store)
    far.kalshi["KX-1"].update(yes_bid_dollars="0.0000", yes_ask_dollars="1.0000")
    found = stake_run(store, settings, run_id, {ids["kalshi"]: 0.9}, build_venues(settings), {})
    assert [one.reason for one in found] == ["kalshi has no offers"]


def test_a_position_is_paid_by_the_first_outcome_and_keeps_it(
    store: Store, far: FarVenues, settings: Settings, market: ReplayMarket
) -> None:
    venues = build_venues(settings)
    question = import_one(store, venues["kalshi"], "KX-1", "Ada").questions[0].question.id
    with store.session() as session:
        run_id = add_run(session).id
    (staked,) = stake_run(store, settings, run_id, {question: 0.9}, venues, {})
    assert staked.position is not None

    def resolve() -> tuple[int, int, float]:
        report = resolve_due(
            store, market, "paper", on_resolved=(settle_event_positions,), resolvers=[VenueResolver(venues)]
        )
        with store.read() as session:
            ledger = event_ledger(session, "paper", 1000)
        return len(report.resolved), len(report.changed), round(ledger.realised, 2)

    assert resolve() == (0, 0, 0.0)
    far.kalshi["KX-1"].update(status="determined", result="yes")
    assert resolve() == (0, 0, 0.0)
    far.kalshi["KX-1"].update(status="finalized", settlement_value_dollars="1.0000")
    assert resolve() == (1, 0, round(80 - staked.position.cost, 2))
    far.kalshi["KX-1"].update(result="no", settlement_value_dollars="0.0000")
    assert resolve() == (0, 1, round(80 - staked.position.cost, 2))
    assert resolve()[0] == 0
    with store.read() as session:
        row = session.get_one(Question, question)
        assert (row.outcome, row.note) == (1.0, "kalshi gave KX-1 the outcome 1.0 and now gives it 0.0")


@pytest.mark.postgres
@pytest.mark.no_cover
def test_two_workers_at_once_stake_once_within_the_heat_and_pay_once(postgres_url: str) -> None:
    stores = [Store(postgres_url), Store(postgres_url)]
    try:
        stake_and_settle_at_once(stores)
    finally:
        for store in stores:
            store.close()


def stake_and_settle_at_once(stores: list[Store]) -> None:
    with stores[0].session() as session:
        ensure_account(session, "paper", 1000)
        runs = [add_run(session) for _ in range(6)]
        questions = [add_question(session, f"q{number}") for number in range(6)]
    together = Barrier(len(stores))

    def stake(store: Store) -> None:
        for run, question in zip(runs, questions, strict=True):
            together.wait(PATIENCE)
            with store.session() as session:
                opened(session, run.id, question, 0.75)

    def settle(store: Store) -> int:
        together.wait(PATIENCE)
        with store.session() as session:
            return len(settle_all(session))

    with ThreadPoolExecutor(len(stores)) as pool:
        list(pool.map(stake, stores))
        with stores[0].session() as session:
            ledger = event_ledger(session, "paper", 1000)
            assert ledger.staked <= 500
            rows: list[EventPosition] = [held.position for held in ledger.positions]
            assert len({row.question_id for row in rows}) == len(rows) == 4
            for question in questions:
                ended(session, session.get_one(Question, question.id), 1.0)
        assert sum(pool.map(settle, stores)) == 4
    with stores[0].session() as session:
        question = add_question(session, "later")
        assert position(session, add_run(session).id, question).cost > 0
