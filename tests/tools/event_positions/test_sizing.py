"""Stakes against values computed by hand, and what must hold for any belief."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chordesk.tools.event_positions import MOST_HEAT, EventFill, NoStake, Purse, sized
from chordesk.tools.position_sizing import full_kelly
from chordesk.tools.venues.markets import NO_FEE, EventBook, Side, VenueMarket
from tests.tools.event_positions.markets import book_of, market_of, pool_market

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


def test_a_stake_on_yes() -> None:
    """(0.60 - 0.40) / 0.60 = 1/3, a quarter of it 83.33 of 1,000: 208.33 shares at 0.40."""
    fill = bought(FREE, BOOK, 0.60, purse())
    assert (fill.side, fill.shares, fill.cost) == ("yes", 208.33, pytest.approx(83.332))


def test_a_stake_on_no() -> None:
    """NO at 0.62, believed 0.80: 0.18 / 0.38 = 0.473684, a quarter of it 118.42."""
    fill = bought(FREE, BOOK, 0.20, purse())
    assert (fill.side, fill.cost) == ("no", pytest.approx(118.42, abs=0.01))


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


@pytest.mark.parametrize(
    ("market", "book", "reason"),
    [
        (FREE, None, "polymarket has no offers"),
        (FREE, book_of([], []), "polymarket has no offers"),
        (market_of("polymarket", "7", fee=None), BOOK, "polymarket does not state its fee"),
    ],
)
def test_a_market_that_sells_nothing_is_named(market: VenueMarket, book: EventBook | None, reason: str) -> None:
    assert sized(market, book, 0.6, purse(), 0.25) == NoStake(reason)


def test_a_fee_takes_an_edge_away() -> None:
    assert isinstance(sized(FREE, BOOK, 0.41, purse(), 0.25), EventFill)
    assert isinstance(sized(market_of(), BOOK, 0.41, purse(), 0.25), NoStake)


def test_the_heat_that_is_left_caps_a_stake() -> None:
    fill = bought(FREE, BOOK, 0.60, purse(heat=0.46))
    assert fill.cost == pytest.approx(40)


def test_earlier_stakes_on_the_same_side_count() -> None:
    fill = bought(FREE, BOOK, 0.60, purse(yes=50))
    assert fill.cost == pytest.approx(33.33, abs=0.01)


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
