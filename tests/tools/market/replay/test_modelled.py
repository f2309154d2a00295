"""Modelled chains of a replay: only on demand, labelled, without look-ahead, consistent in themselves."""

from __future__ import annotations

import datetime as dt
import math
import re
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from chordesk.models.errors import MarketError, NotConfigured, SettingError
from chordesk.models.market import MODELLED, ChainRow, OptionChain, contract_of
from chordesk.models.settings import Settings
from chordesk.tools.market.clock import ReplayClock, exchange_hours
from chordesk.tools.market.option_pricing import yang_zhang
from chordesk.tools.market.prices import chain_of
from chordesk.tools.market.protocol import ChainSource, MarketData, OptionSource
from chordesk.tools.market.replay.market import ModelledChains, ModelledReplay, ReplayData, build, monthly_expiries
from tests.examples import examples
from tests.tools.market.far_market import FarMarket, daily
from tests.tools.market.test_no_look_ahead import future_removed, future_spoiled

TODAY = dt.date(2010, 5, 5)
MONTHS = (dt.date(2010, 5, 1), dt.date(2010, 7, 31))
QUIET = settings(max_examples=examples(30), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.fixture
def modelled(data: ReplayData) -> ModelledReplay:
    return ModelledReplay(data, ReplayClock(TODAY), rate=0.04)


def test_a_replay_has_no_chain_unless_it_is_asked_for(replay_home: Path) -> None:
    plain = build(Settings(home=replay_home), TODAY)
    assert not isinstance(plain, ChainSource | OptionSource)
    with pytest.raises(NotConfigured, match=r"the replay market has no option chains; configure DESK_MARKET=yahoo.*"):
        chain_of(plain, "AAPL", *MONTHS)
    asked = build(Settings(home=replay_home, replay_options="modelled"), TODAY)
    market: MarketData = asked
    assert isinstance(market, ChainSource)
    assert isinstance(market, OptionSource)
    assert chain_of(market, "AAPL", *MONTHS).source == MODELLED


def test_modelled_quotes_are_for_paper_alone(replay_home: Path) -> None:
    for broker in ("alpaca-paper", "alpaca-live"):
        settings = Settings(home=replay_home, replay_options="modelled", broker=broker)
        with pytest.raises(SettingError, match=f"is for paper alone, and DESK_BROKER={broker}"):
            build(settings, TODAY)


def test_the_chain_is_made_of_known_figures(modelled: ModelledReplay) -> None:
    chain = modelled.chain("AAPL", *MONTHS)
    bars = modelled.bars("AAPL", 21)
    assert (chain.symbol, chain.at, chain.source, chain.spot) == ("AAPL", modelled.clock.now(), "modelled", 255.985)
    expiries = {row.contract.expiry for row in chain.rows}
    assert expiries == {dt.date(2010, 5, 21), dt.date(2010, 6, 18), dt.date(2010, 7, 16)}
    realised = yang_zhang(bars.open, bars.high, bars.low, bars.close, 20)
    assert realised is not None
    nearest = min(chain.rows, key=lambda row: abs(float(row.contract.strike) - chain.spot))
    assert nearest.iv == pytest.approx(1.1 * realised, rel=0.05)
    assert all(row.volume is None and row.open_interest is None and row.last is None for row in chain.rows)
    assert len({row.contract.symbol for row in chain.rows}) == len(chain.rows)


def listed(market: ModelledReplay, symbol: str) -> OptionChain | str:
    """Return a hundred days of a chain, or why there is none."""
    today = market.clock.now().date()
    try:
        return market.chain(symbol, today, today + dt.timedelta(days=100))
    except MarketError as error:
        return str(error)


def pairs(rows: tuple[ChainRow, ...]) -> Iterator[tuple[ChainRow, ChainRow]]:
    """Yield the put and the call of each expiry and strike."""
    puts = {(row.contract.expiry, row.contract.strike): row for row in rows if row.contract.kind == "put"}
    for row in rows:
        if row.contract.kind == "call":
            yield puts[row.contract.expiry, row.contract.strike], row


def between(row: ChainRow) -> float:
    assert row.bid is not None
    assert row.ask is not None
    assert row.ask - row.bid >= 0.0499
    return (row.bid + row.ask) / 2


@QUIET
@given(choice=st.data())
def test_quotes_are_free_of_arbitrage(data: ReplayData, choice: st.DataObject) -> None:
    """Puts and calls of one strike have one volatility and differ by the forward or an exercise now; prices move one
    way along strikes; none is below its intrinsic value."""
    market = ModelledReplay(data, ReplayClock(choice.draw(st.sampled_from(data.sessions[30:]))), rate=0.03)
    symbol = choice.draw(st.sampled_from(["AAPL", "MSFT", "F", "MMM", "XOM"]))
    today = market.clock.now().date()
    chain = listed(market, symbol)
    if isinstance(chain, str):
        assert re.search(r"has bars of \d+ of the last 21 sessions|no bar of", chain)
        return
    assert chain.rows
    for put, call in pairs(chain.rows):
        strike, years = float(put.contract.strike), (put.contract.expiry - today).days / 365
        assert put.iv == call.iv
        forward = chain.spot - strike * math.exp(-0.03 * years)
        apart = between(call) - between(put)
        assert chain.spot - strike - 0.051 <= apart <= forward + 0.051, "an American put may be exercised now"
        assert (put.ask or 0) >= strike - chain.spot
        assert (call.ask or 0) >= chain.spot - strike
    for kind, sign in (("put", 1), ("call", -1)):
        for expiry in {row.contract.expiry for row in chain.rows}:
            line = [row for row in chain.rows if row.contract.expiry == expiry and row.contract.kind == kind]
            asks = np.array([row.ask for row in sorted(line, key=lambda row: row.contract.strike)])
            assert (sign * np.diff(asks) >= -0.011).all()


@QUIET
@given(choice=st.data(), seed=st.integers(0, 2**32 - 1))
def test_no_quote_depends_on_a_later_row(data: ReplayData, choice: st.DataObject, seed: int) -> None:
    today = choice.draw(st.sampled_from(data.sessions[30:]))
    symbol = choice.draw(st.sampled_from(["AAPL", "MSFT", "MMM"]))
    true = listed(ModelledReplay(data, ReplayClock(today), 0.04), symbol)
    for other in (future_spoiled(data, today, seed), future_removed(data, today)):
        assert listed(ModelledReplay(other, ReplayClock(today), 0.04), symbol) == true


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("AAPL100416P00250000", "AAPL100416P00250000 expired on 2010-04-16"),
        ("AAPL100520P00250000", "modelled chains have monthly expiries alone"),
        ("AAPL100521P00251000", "strikes near 251 are 10 apart"),
        ("AAPL", "AAPL is no OCC symbol"),
        ("ZZZZ100521P00250000", "unknown symbol ZZZZ"),
        ("AAPL120120P00250000", "modelled chains have monthly expiries alone"),
    ],
)
def test_a_contract_that_no_chain_lists_is_named(modelled: ModelledReplay, name: str, why: str) -> None:
    with pytest.raises(MarketError, match=why):
        modelled.option_quote(name)


def test_a_contract_on_its_last_day_is_worth_an_exercise(data: ReplayData) -> None:
    market = ModelledReplay(data, ReplayClock(dt.date(2010, 5, 21)), 0.04)
    spot = market.quote("AAPL").price
    strike = Decimal(math.ceil(spot / 10) * 10)
    put = contract_of("AAPL", dt.date(2010, 5, 21), "put", strike)
    assert market.option_quote(put.symbol).price == pytest.approx(float(strike) - spot, abs=0.01)
    call = market.option_quote(contract_of("AAPL", dt.date(2010, 5, 21), "call", strike).symbol)
    assert (call.bid, call.ask) == (None, 0.05)


def test_a_name_without_a_volatility_has_no_chain(data: ReplayData) -> None:
    early = ModelledReplay(data, ReplayClock(data.sessions[10]), 0.04)
    with pytest.raises(MarketError, match="can be modelled: it has bars of 11 of the last 21 sessions"):
        early.chain("AAPL", *MONTHS)
    flat = ModelledChains(FarMarket({"A": daily("A", [10.0] * 21)}), 0.04)
    with pytest.raises(MarketError, match="its price did not move in 20 sessions"):
        flat.chain("A", *MONTHS)
    stale = ModelledChains(FarMarket({"A": daily("A", [10.0, 11.0] * 12, last=dt.date(2024, 3, 14))}), 0.04)
    with pytest.raises(MarketError, match="no bar of 2024-03-15"):
        stale.chain("A", *MONTHS)
    with pytest.raises(MarketError, match="its contracts would bear another name"):
        ModelledChains(FarMarket(), 0.04).chain("BRK.B", *MONTHS)


def test_expiries_are_third_fridays_or_the_session_before() -> None:
    found = monthly_expiries(dt.date(2014, 3, 1), dt.date(2014, 5, 31))
    # Good Friday of 2014 was the third Friday of April.
    assert found == [dt.date(2014, 3, 21), dt.date(2014, 4, 17), dt.date(2014, 5, 16)]
    assert all(exchange_hours().is_session(day) for day in found)
    assert monthly_expiries(dt.date(2010, 8, 21), dt.date(2010, 9, 1)) == []
