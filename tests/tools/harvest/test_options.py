"""options: implied against realised volatility, unusual volume, and nothing of modelled chains."""

from __future__ import annotations

import datetime as dt
import math

import pytest
from sqlmodel import select

from chordesk.models.board import implied
from chordesk.models.database.store import Store
from chordesk.models.errors import MarketUnavailable
from chordesk.models.tables.orders import OptionMark
from chordesk.tools.board.registry import Tombstone
from chordesk.tools.market.clock import ReplayClock
from chordesk.tools.market.replay.market import ModelledReplay, ReplayData, ReplayMarket
from tests.tools.conftest import MakeContext
from tests.tools.harvest.boards import board, dormant, ended, harvested
from tests.tools.options.chains import fair_chain, known_bars, market, row

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
    assert (found.direction, implied(found), found.subjects) == ("neutral", None, ("AAA",))
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


def test_a_source_that_is_away_is_offline(make_context: MakeContext) -> None:
    away = market({"AAA": fair_chain()}, trouble={"AAA": MarketUnavailable("the chains are away")})
    assert ended("options", board(make_context(away), "AAA")) == Tombstone("the chains are away", retryable=True)


def test_old_quotes_are_as_old_as_they_are(make_context: MakeContext) -> None:
    known = market(histories={"AAA": known_bars("AAA")})
    known.quoted = known.clock.now() - dt.timedelta(days=2)
    (found,) = harvested("options", board(make_context(known), "AAA"))
    assert found.as_of == known.quoted
