"""Price steps and lots: every price of an order is a multiple of its listing's step, every quantity of its lot.

What a listing states comes first, then the table of its exchange, and where the exchange has several tables the one
that a month of prices fits. By the symbol alone less is known: then nothing is opened, and what is held can be closed.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from decimal import ROUND_FLOOR, Decimal
from functools import lru_cache

from chordesk.models.day_limits import DayBand, day_limit_of
from chordesk.models.errors import MarketError
from chordesk.models.exchanges import CRYPTO, EXCHANGES, HOME, Exchange, PriceSteps, exchange_of, fitting_steps
from chordesk.models.market import Listing
from chordesk.tools.decimals import exact, plain, stepped
from chordesk.tools.market.prices import traded_bars
from chordesk.tools.market.protocol import Bars, MarketData

WHOLE = Decimal(1)
LEAST_PART = Decimal("0.00000001")  # of a coin, where no source states a step
COARSE_REMEDY = "put step right in listings.csv"
_MONTH = 20  # sessions
_PLACES = 4


@dataclass(frozen=True, slots=True)
class Terms:
    """How orders in a listing are sized and priced. lot: what a purchase is a multiple of, least: the smallest one;
    part: what a sale is a multiple of, since what is left of a lot is sold at once. why_not: why nothing is opened,
    None where all is known."""

    steps: PriceSteps
    lot: Decimal
    least: Decimal
    part: Decimal
    why_not: str | None = None

    def price(self, price: Decimal, rounding: str) -> Decimal:
        """Return a price as a multiple of the step there, at least one step. rounding: decimal's name of the way, by
        what the price is for: the limit of a buy down and of a sale up, a protective sale up."""
        return max(self.steps.rows[0][1], stepped(price, self.steps.step(price), rounding))

    def quantity(self, quantity: Decimal, *, opens: bool) -> Decimal:
        """Return the most of a quantity that can be traded: in lots where it opens or adds to a position; 0 for less
        than the least."""
        found = stepped(quantity, self.lot if opens else self.part, ROUND_FLOOR)
        return Decimal(0) if opens and found < self.least else found


def listing_terms(listing: Listing, prices: Iterable[Decimal] = ()) -> Terms:
    """Return the terms of a listing. prices: a month of its opens, highs, lows and closes, by which the table is found
    where the exchange has several."""
    symbol, exchange, why = listing.symbol, None, None
    try:
        exchange = exchange_of(symbol)
    except MarketError as error:
        why = str(error)
    steps = _steps_of(listing, exchange, prices)
    board = next((one for one in exchange.boards if symbol.startswith(one.prefixes)), None) if exchange else None
    part = listing.quantity_step
    if listing.kind == "crypto" and part == 1 and listing.lot is None:
        part = LEAST_PART  # no source states one: what is held can be sold to the last part
    lot = Decimal(board.lot) if board else listing.lot
    least = max(listing.least_amount or Decimal(0), Decimal(board.least) if board else Decimal(0))
    if exchange is not None and steps is None:
        several = "each listing there has its own, and a month of its prices fits none"
        reason = several if exchange.steps else f"no source states those of {exchange.code}"
        why = f"the price steps of {symbol} are not known: {reason}; state step in listings.csv"
    elif why is None and lot is None and part in (WHOLE, LEAST_PART):
        why = f"the lot of {symbol} is not known: no source states one for {listing.exchange}"
        why += "; state lot in listings.csv"
    tables = exchange.steps if exchange is not None else ()
    return Terms(steps or (tables or EXCHANGES[HOME].steps)[0], lot or part, max(least, lot or part), part, why)


def _steps_of(listing: Listing, exchange: Exchange | None, prices: Iterable[Decimal]) -> PriceSteps | None:
    if listing.price_step is not None:
        return PriceSteps(((Decimal(0), listing.price_step),))
    if exchange is None:
        return None
    return exchange.steps[0] if len(exchange.steps) == 1 else fitting_steps(exchange, prices)


@lru_cache(maxsize=4096)
def symbol_terms(symbol: str) -> Terms:
    """Return the terms of a symbol by its form alone, or of the share that an option contract is on.

    Where its steps are not known they are the coarsest of the exchange, else those of New York: nothing is opened then,
    but what is held can be closed, and a price that the exchange refuses is reported by it.
    """
    return listing_terms(Listing(symbol=symbol))


def market_terms(market: MarketData, listing: Listing) -> Terms:
    """Return the terms of a listing of a market, by its prices where its exchange has several tables. Nothing is opened
    at a stated step above the price: no price of the listing is a multiple of it."""
    exchange = EXCHANGES[listing.exchange]
    if listing.price_step is not None:
        found = listing_terms(listing)
        why = _too_coarse(listing.symbol, found.steps, _last_close(market, listing.symbol))
        return found if why is None else replace(found, why_not=why)
    if len(exchange.steps) < 2:
        return listing_terms(listing)
    try:
        return listing_terms(listing, _prices(traded_bars(market, listing.symbol, _MONTH)))
    except MarketError:
        return listing_terms(listing)


def _last_close(market: MarketData, symbol: str) -> float | None:
    try:
        closes = traded_bars(market, symbol, 1).close
    except MarketError:
        return None
    return float(closes[-1]) if len(closes) and not math.isnan(closes[-1]) else None


def _too_coarse(symbol: str, steps: PriceSteps, price: float | None) -> str | None:
    if price is None or (step := steps.step(exact(price))) <= exact(price):
        return None
    return f"the price step of {symbol} is stated as {plain(step)}, above its price of {plain(price)}; {COARSE_REMEDY}"


def _prices(bars: Bars) -> list[Decimal]:
    """Return the prices of bars as they were traded; none where a split or a dividend has changed them. A source may
    state them with more figures than they have: no step is finer than the last that is kept."""
    if bars.adjusted:
        return []
    columns = (bars.last(_MONTH).open, bars.last(_MONTH).high, bars.last(_MONTH).low, bars.last(_MONTH).close)
    return [exact(round(value, _PLACES)) for column in columns for value in map(float, column) if not math.isnan(value)]


def not_openable(symbol: str, terms: Terms | None = None) -> str | None:
    """Return why no position in a symbol is opened: its exchange, steps or lot are not known. None if all are."""
    return (terms or symbol_terms(symbol)).why_not


def price_steps(symbol: str) -> PriceSteps:
    return symbol_terms(symbol).steps


def lot_of(symbol: str) -> Decimal:
    """Return what a buy of a symbol is a multiple of, 1 where that is not known."""
    return symbol_terms(symbol).lot


def finest_step(symbol: str) -> Decimal:
    """Return the least price of a symbol, which is also the step of its lowest prices."""
    return price_steps(symbol).rows[0][1]


def fill_step(symbol: str, price: Decimal) -> Decimal:
    """Return what a price at which a symbol fills is a multiple of: in New York, where fills lie between the steps of
    orders, the finest step, and so where it is not known which of several tables holds."""
    try:
        exchange = exchange_of(symbol)
    except MarketError:
        return finest_step(symbol)
    one_table = exchange.code not in (HOME, CRYPTO) and len(exchange.steps) == 1
    return exchange.steps[0].step(price) if one_table else finest_step(symbol)


def stepped_price(symbol: str, price: Decimal, rounding: str) -> Decimal:
    """Return a price as a multiple of the symbol's step there, as `Terms.price` does."""
    return symbol_terms(symbol).price(price, rounding)


def coarse_price(symbol: str, price: Decimal, rounding: str) -> Decimal:
    """Return a price as `stepped_price` does, but below the first border of the steps in those above it, where these
    are multiples: a round price below 1 dollar is in cents. It may be 0."""
    steps = price_steps(symbol)
    own, above = steps.step(price), steps.step(max(price, *steps.borders()[:1], Decimal(0)))
    return stepped(price, own if above % own else above, rounding)


def stepped_quantity(symbol: str, quantity: Decimal, *, opens: bool) -> Decimal:
    return symbol_terms(symbol).quantity(quantity, opens=opens)


def day_band(symbol: str, closes: Sequence[float], terms: Terms | None = None) -> DayBand | None:
    """Return the range of a symbol's prices on the day after its last close; None where there is no limit, or no close.

    The base is the close before, moved by no more than the limit, and each end is a price of the exchange.
    """
    row = day_limit_of(symbol)
    known = [value for value in closes if not math.isnan(value)]
    if row is None or not known or (away := row.away(base := exact(known[-1]))) is None:
        return None
    steps = (terms or symbol_terms(symbol)).steps
    low, high = base - away, base + away
    ends = [stepped(one, steps.step(one), row.rounding(up=one > base)) for one in (low, high)]
    return DayBand(base, max(ends[0], steps.rows[0][1]), ends[1])
