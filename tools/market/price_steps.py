"""Price steps and lots: every price of an order is a multiple of its symbol's step, every quantity of its lot."""

from __future__ import annotations

from decimal import ROUND_FLOOR, Decimal
from functools import lru_cache

from chordesk.models.errors import MarketError
from chordesk.models.exchanges import EXCHANGES, HOME, PriceSteps, exchange_of
from chordesk.tools.decimals import stepped

WHOLE = Decimal(1)


def not_openable(symbol: str) -> str | None:
    """Return why no position in a symbol is opened: its exchange, steps or lot are not known. None if all are."""
    try:
        exchange = exchange_of(symbol)
    except MarketError as error:
        return str(error)
    if len(exchange.steps) != 1:
        why = "each listing there has its own" if exchange.steps else f"no source states those of {exchange.code}"
        return f"the price steps of {symbol} are not known: {why}"
    return None if exchange.lot else f"the lot of {symbol} is not known: no source states one for {exchange.code}"


@lru_cache(maxsize=4096)
def price_steps(symbol: str) -> PriceSteps:
    """Return the price steps of a symbol or of the share that an option contract is on.

    Where they are not known these are the coarsest of the exchange, else those of New York: nothing is opened then, but
    what is held can be closed, and a price that the exchange refuses is reported by it.
    """
    try:
        tables = exchange_of(symbol).steps
    except MarketError:
        tables = ()
    return (tables or EXCHANGES[HOME].steps)[0]


def lot_of(symbol: str) -> Decimal:
    """Return what a buy of a symbol is a multiple of, 1 where that is not known."""
    try:
        return Decimal(exchange_of(symbol).lot or 1)
    except MarketError:
        return WHOLE


def finest_step(symbol: str) -> Decimal:
    """Return the least price of a symbol, which is also the step of its lowest prices."""
    return price_steps(symbol).rows[0][1]


def stepped_price(symbol: str, price: Decimal, rounding: str) -> Decimal:
    """Return a price as a multiple of the symbol's step there, at least one step. rounding: decimal's name of the way,
    by what the price is for: the limit of a buy down and of a sale up, a protective sale up."""
    return max(finest_step(symbol), stepped(price, price_steps(symbol).step(price), rounding))


def coarse_price(symbol: str, price: Decimal, rounding: str) -> Decimal:
    """Return a price as `stepped_price` does, but below the first border of the steps in those above it, where these
    are multiples: a round price below 1 dollar is in cents. It may be 0."""
    steps = price_steps(symbol)
    own, above = steps.step(price), steps.step(max(price, *steps.borders()[:1], Decimal(0)))
    return stepped(price, own if above % own else above, rounding)


def stepped_quantity(symbol: str, quantity: Decimal, *, opens: bool) -> Decimal:
    """Return the most of a quantity that can be traded: in lots where it opens or adds to a position, else in whole
    shares or contracts, since what is left of a lot is sold at once."""
    return stepped(quantity, lot_of(symbol) if opens else WHOLE, ROUND_FLOOR)
