"""The stake of one event position: a fraction of Kelly at what it really costs, within the heat that is left."""

from __future__ import annotations

from dataclasses import dataclass

from chordesk.tools.event_positions.fills import EventFill, best_price, fill_of
from chordesk.tools.stakes.kelly import full_kelly, kelly_bet
from chordesk.tools.venues.markets import EventBook, Side, VenueMarket

MOST_HEAT = 0.5  # of the bankroll in open positions together; each can lose all that it cost
LEAST_STAKE = 0.01
_HALVINGS = 50


@dataclass(frozen=True, slots=True)
class Purse:
    """What there is to stake. bankroll: the start and what was realised; heat: share of it that open positions cost;
    held: cost of those on the same question, by side."""

    bankroll: float
    heat: float
    held: dict[Side, float]

    @property
    def heat_left(self) -> float:
        return max(MOST_HEAT - self.heat, 0.0)


@dataclass(frozen=True, slots=True)
class NoStake:
    """Why nothing is staked."""

    reason: str


def sized(
    market: VenueMarket, book: EventBook | None, probability: float, purse: Purse, fraction: float
) -> EventFill | NoStake:
    """Return what to buy for a belief in YES.

    The stake s satisfies s <= l * (p - q(s)) / (1 - q(s)) * bankroll, q(s) being what a share costs on average when s
    is spent: a large stake is dearer a share. What is held of the same side counts towards it, since both win or lose
    together.
    """
    if purse.bankroll <= 0:
        return NoStake(f"the bankroll is spent: {purse.bankroll:.2f}")
    prices: dict[Side, float | None] = {"yes": best_price(market, book, "yes"), "no": best_price(market, book, "no")}
    if not any(price is not None for price in prices.values()):
        return NoStake(_unsold(market, book))
    bet = kelly_bet(probability, prices["yes"], prices["no"], fraction)
    if bet is None:
        shown = ", ".join(f"{side} costs {price:.3f}" for side, price in prices.items() if price is not None)
        return NoStake(f"no edge for {probability:.3f}: {shown}")
    side: Side = "yes" if bet.side == "YES" else "no"
    if purse.held.get("no" if side == "yes" else "yes"):
        return NoStake(f"the other side is held already, and {side} would undo it")
    limit = min(bet.stake * purse.bankroll - purse.held.get(side, 0.0), purse.heat_left * purse.bankroll)
    if limit < LEAST_STAKE:
        return NoStake(
            "Kelly allows no more than is held already"
            if purse.heat_left * purse.bankroll >= LEAST_STAKE
            else _hot(purse)
        )
    fill = _largest(market, book, side, bet.probability, purse, fraction, limit)
    return fill or NoStake(f"a stake of {limit:.2f} buys no whole share of {side}")


def _largest(
    market: VenueMarket,
    book: EventBook | None,
    side: Side,
    wins: float,
    purse: Purse,
    fraction: float,
    limit: float,
) -> EventFill | None:
    """Return the fill of the largest stake up to the limit that Kelly still allows at its own average price."""

    def allowed(fill: EventFill) -> bool:
        target = fraction * full_kelly(wins, fill.effective) * purse.bankroll
        return fill.cost + purse.held.get(side, 0.0) <= target + 1e-9

    whole = fill_of(market, book, side, limit)
    if whole is not None and allowed(whole):
        return whole
    low, high, best = 0.0, limit, None
    for _ in range(_HALVINGS):
        stake = (low + high) / 2
        fill = fill_of(market, book, side, stake)
        if fill is not None and not allowed(fill):
            high = stake
        else:
            low, best = stake, fill or best
    return best


def _unsold(market: VenueMarket, book: EventBook | None) -> str:
    if market.pool is None and book is not None and market.fee is None:
        return f"{market.venue} does not state its fee"
    return f"{market.venue} has no offers"


def _hot(purse: Purse) -> str:
    return f"open positions hold {purse.heat:.0%} of the bankroll, the limit is {MOST_HEAT:.0%}"
