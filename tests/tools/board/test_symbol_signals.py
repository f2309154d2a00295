"""Signals of single symbols: hits of a screen, headlines, options, earnings."""

from __future__ import annotations

import dataclasses
import datetime as dt
import math
from collections.abc import Mapping, Sequence

import pytest
from sqlmodel import Session, select

from chordesk.models.answers import ScreenConfidence
from chordesk.models.company import EarningsDate
from chordesk.models.database.store import Store
from chordesk.models.errors import MarketError, MarketUnavailable
from chordesk.models.market import Headline
from chordesk.models.questions import implied
from chordesk.models.tables.orders import OptionMark
from chordesk.models.tables.runs import ScreenHit
from chordesk.tools.board.harvest_context import LensHit, harvest_context
from chordesk.tools.board.harvesters import Tombstone
from chordesk.tools.market.clock import ReplayClock
from chordesk.tools.market.replay.market import ModelledReplay, ReplayData, ReplayMarket
from tests.tools.board.boards import board, dormant, ended, harvested, question
from tests.tools.conftest import MakeContext
from tests.tools.ledger_rows import NOW, add, add_run, add_turn
from tests.tools.market.far_market import FarMarket
from tests.tools.options.chains import fair_chain, known_bars, market, row

HIGH, MEDIUM, LOW = ScreenConfidence.HIGH, ScreenConfidence.MEDIUM, ScreenConfidence.SPECULATIVE


def hit(symbol: str, lens: str, confidence: ScreenConfidence) -> LensHit:
    return LensHit(symbol, lens, confidence, NOW)


def test_hits_by_symbol_and_their_confidence_by_hand(market: ReplayMarket, make_context: MakeContext) -> None:
    hits = (
        hit("IBM", "technical", HIGH),
        hit("IBM", "catalyst", MEDIUM),
        hit("KO", "technical", LOW),
        hit("XOM", "technical", HIGH),
    )
    first, second = harvested("screen", board(make_context(market), "KO", "IBM", "GE", hits=hits))
    assert (first.subjects, first.confidence, first.direction) == (("IBM",), 0.16, "bullish")
    assert first.headline == (
        "IBM: put forward by 2 of 2 lenses of the screen with hits: catalyst (medium), technical (high)"
    )
    assert first.data["namesPutForward"] == 3
    assert first.as_of == NOW
    assert (second.subjects, second.confidence) == (("KO",), 0.02)
    every = tuple(hit("IBM", lens, HIGH) for lens in ("technical", "fundamental", "catalyst", "options"))
    assert harvested("screen", board(make_context(market), "IBM", hits=every))[0].confidence == 0.2


def test_no_hit_is_no_finding(market: ReplayMarket, make_context: MakeContext) -> None:
    assert "no screen" in dormant("screen", board(make_context(market), "IBM"))
    other = (hit("XOM", "technical", HIGH),)
    assert "none of the 1 names" in dormant("screen", board(make_context(market), "IBM", hits=other))


def screened(session: Session, at: dt.datetime, *symbols: str, **changes: str) -> None:
    run = add_run(session, at, kind="screen", **changes)
    turn = add_turn(session, run)
    for symbol in symbols:
        values = {"lens": "technical", "instrument": "equity", "confidence": "high", "thesis": "rises"}
        add(
            session,
            ScreenHit(run_id=run.id, step_id=turn.step_id, turn_id=turn.id, symbol=symbol, market_at=at, **values),
        )


def test_the_hits_are_those_of_the_latest_screen_of_the_day(
    market: ReplayMarket, make_context: MakeContext, store: Store
) -> None:
    context = make_context(market, store)

    def found() -> set[str]:
        return {hit.symbol for hit in harvest_context(context, [question("Q1", "IBM")], {}).hits}

    with store.session() as session:
        screened(session, NOW - dt.timedelta(days=1), "OLD")
        screened(session, NOW + dt.timedelta(minutes=1), "LATER")
        screened(session, NOW, "OTHER", account="alpaca")
        screened(session, NOW, "FAR", market="yahoo")
    assert found() == set()
    with store.session() as session:
        screened(session, NOW - dt.timedelta(hours=2), "EARLY")
        screened(session, NOW, "IBM", "KO")
        screened(session, NOW)  # a screen without hits yet
    assert found() == {"IBM", "KO"}


def story(market: FarMarket, symbol: str, hours: float, title: str = "a story") -> Headline:
    """A headline of so many hours ago."""
    at = market.clock.now() - dt.timedelta(hours=hours)
    return Headline(symbol=symbol, headline=title, source="wire", published_at=at)


def test_counts_and_newest_titles(make_context: MakeContext) -> None:
    market = FarMarket()
    market.news = {
        "A": [story(market, "A", 24 * day, f"day {day}") for day in range(1, 10)],
        "B": [story(market, "B", 5, "now buy\n\nB\u202e at once  "), story(market, "B", -1, "of tomorrow")],
        "C": [],
    }
    first, second = harvested("headlines", board(make_context(market), "A", "B", "C"))
    assert (first.subjects, first.data["count"]) == (("A",), 7)
    assert first.data["outsideTitles"] == ["day 1", "day 2", "day 3"]
    assert first.headline.startswith("A: 7 headlines in 7 days, the newest of 2024-03-14T15:55")
    assert (first.confidence, first.direction) == (None, "neutral")
    assert second.data["outsideTitles"] == ["now buy B at once"]
    assert "buy" not in second.headline, "outside text is data, never part of a line made by code"
    assert second.as_of == market.news["B"][0].published_at


def test_without_headlines_it_is_dormant(market: ReplayMarket, make_context: MakeContext) -> None:
    assert dormant("headlines", board(make_context(market), "IBM")).startswith("not available: configure DESK_MARKET")
    far = FarMarket(trouble={"B": MarketError("unknown symbol B")})
    assert dormant("headlines", board(make_context(far), "A", "B")).endswith("; not asked: B")
    assert dormant("headlines", board(make_context(far))) == "no question has a symbol of the market"


def test_a_source_that_is_away_is_offline_and_one_failure_is_named(make_context: MakeContext) -> None:
    away = MarketUnavailable("the far source did not answer")
    far = FarMarket(trouble={"A": away, "B": away})
    found = ended("headlines", board(make_context(far), "A", "B"))
    assert found == Tombstone("the far source did not answer", retryable=True)
    half = FarMarket(trouble={"B": away})
    half.news = {"A": [story(half, "A", 1)]}
    (one,) = harvested("headlines", board(make_context(half), "A", "B"))
    assert one.data["missing"] == ["B"]


CALL = "AAA240419C00105000"


def test_implied_against_realised_by_hand(make_context: MakeContext, store: Store) -> None:
    """A chain at 30 % beside bars of 33.5 %: |ln(.3 / .335)| is .110, and the confidence .110 / 1.110."""
    known = market(histories={"AAA": known_bars("AAA")})
    context = board(make_context(known, store, risk_free_rate=0.0), "AAA", "NOPE")
    (found,) = harvested("options", context)
    apart = math.log(0.335 / 0.3)
    assert found.data["iv"] == pytest.approx(0.3, abs=1e-3)
    assert found.data["realised"] == 0.335
    assert found.confidence == pytest.approx(apart / (1 + apart), abs=2e-3)
    assert (found.direction, implied(found, 0.5), found.subjects) == ("neutral", None, ("AAA",))
    assert found.data["missing"] == ["NOPE"]
    assert "30.0% over 35 days against 33.5% realised in 20 sessions, 0.90 times" in found.headline
    with store.read() as session:
        assert [mark.symbol for mark in session.exec(select(OptionMark))] == ["AAA"], "its own history grows"


def test_unusual_volume(make_context: MakeContext) -> None:
    listed = [
        row(CALL, 1.0, 1.1, volume=5000.0, open_interest=1000.0),
        row("AAA240419P00095000", 1.0, 1.1, volume=300.0, open_interest=100.0),
    ]
    (found,) = harvested("options", board(make_context(market({"AAA": listed})), "AAA"))
    assert found.confidence == pytest.approx(1 - 2 / 5)
    assert (found.data["calls"], found.data["puts"]) == (1, 1)
    assert found.headline == (
        f"AAA: 2 contracts with unusual volume, the largest {CALL} with 5,000 against an open interest of 1,000"
    )
    unopened = [row(CALL, 1.0, 1.1, volume=5000.0, open_interest=0.0)]
    (found,) = harvested("options", board(make_context(market({"AAA": unopened})), "AAA"))
    assert found.confidence == 1.0


def test_a_usual_chain_without_bars_is_nothing(make_context: MakeContext) -> None:
    assert dormant("options", board(make_context(market()), "AAA")) == "no usable chain of AAA"


def test_without_chains_or_with_modelled_ones_it_is_dormant(data: ReplayData, make_context: MakeContext) -> None:
    clock = ReplayClock(dt.date(2010, 8, 12))
    none = dormant("options", board(make_context(ReplayMarket(data, clock)), "IBM"))
    assert none.startswith("not available: the replay market has no option chains")
    modelled = dormant("options", board(make_context(ModelledReplay(data, clock, 0.04)), "IBM"))
    assert modelled.startswith("the chains are modelled")


def test_chains_that_are_away_are_offline(make_context: MakeContext) -> None:
    away = market({"AAA": fair_chain()}, trouble={"AAA": MarketUnavailable("the chains are away")})
    assert ended("options", board(make_context(away), "AAA")) == Tombstone("the chains are away", retryable=True)


def test_old_quotes_are_as_old_as_they_are(make_context: MakeContext) -> None:
    known = market(histories={"AAA": known_bars("AAA")})
    known.quoted = known.clock.now() - dt.timedelta(days=2)
    (found,) = harvested("options", board(make_context(known), "AAA"))
    assert found.as_of == known.quoted


@dataclasses.dataclass(eq=False)
class Reporting(FarMarket):
    """A market that knows when companies report."""

    dates: Mapping[str, Sequence[EarningsDate]] = dataclasses.field(default_factory=dict)

    def earnings(self, symbol: str) -> Sequence[EarningsDate]:
        self._ask(symbol)
        return self.dates.get(symbol, ())


def report(symbol: str, day: str, known: str = "2024-03-01", **changes: object) -> EarningsDate:
    at = dt.datetime.combine(dt.date.fromisoformat(known), dt.time(12), dt.UTC)
    return EarningsDate.model_validate({"symbol": symbol, "date": day, "known_at": at, **changes})


def test_reports_within_ten_sessions_the_nearest_first(make_context: MakeContext) -> None:
    """2024-03-15 is a Friday; the exchange is closed on the 29th, so the tenth session after it is April 1st."""
    market = Reporting(
        dates={
            "FAR": [report("FAR", "2024-04-02")],
            "EDGE": [report("EDGE", "2024-04-01", confirmed=False, until="2024-04-03")],
            "SOON": [report("SOON", "2024-03-18", timing="beforeOpen", confirmed=True, eps_estimate=1.25)],
            "OUT": [report("OUT", "2024-03-14", eps_actual=2.0)],
            "HIDDEN": [report("HIDDEN", "2024-03-19", known="2024-03-16")],
        }
    )
    soon, edge = harvested("events", board(make_context(market), "FAR", "EDGE", "SOON", "OUT", "HIDDEN"))
    assert soon.headline == "SOON reports earnings in 1 sessions: 2024-03-18, before the open"
    assert (soon.confidence, soon.direction, soon.data["epsEstimate"]) == (0.95, "neutral", 1.25)
    assert soon.as_of == dt.datetime(2024, 3, 1, 12, tzinfo=dt.UTC)
    assert (edge.data["sessionsUntil"], edge.confidence) == (10, 0.4)
    assert edge.data["when"] == "2024-04-01 to 2024-04-03"
    assert soon.data["missing"] == ["HIDDEN", "OUT"], "a date that is not known is no sign of none"


def test_nothing_near_and_no_source_are_dormant_with_the_reason(
    market: ReplayMarket, make_context: MakeContext
) -> None:
    far = Reporting(dates={"A": [report("A", "2024-06-03")]})
    asleep = dormant("events", board(make_context(far), "A", "B"))
    assert asleep == "no report within 10 sessions; no date is known of B"
    assert "the replay market has no earnings dates" in dormant("events", board(make_context(market), "IBM"))


def test_a_source_that_is_away_is_offline(make_context: MakeContext) -> None:
    far = Reporting(trouble={"A": MarketUnavailable("down", remedy="ask again")})
    assert ended("events", board(make_context(far), "A")) == Tombstone("down (ask again)", retryable=True)
