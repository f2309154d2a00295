"""screen: hits of the account's latest screen of the market day, by lens."""

from __future__ import annotations

import datetime as dt

from sqlmodel import Session

from chordesk.models.answers import ScreenConfidence
from chordesk.models.database.store import Store
from chordesk.models.tables.runs import ScreenHit
from chordesk.tools.board.context import LensHit, harvest_context
from chordesk.tools.market.replay.market import ReplayMarket
from tests.tools.conftest import MakeContext
from tests.tools.harvest.boards import board, dormant, harvested, question
from tests.tools.ledger_rows import NOW, add, add_run, add_turn

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
        add(session, ScreenHit(run_id=run.id, step_id=turn.step_id, turn_id=turn.id, symbol=symbol, **values))


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
