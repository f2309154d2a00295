"""Lots of shares: what was bought by one fill and sold by another, first bought first sold."""

from __future__ import annotations

import math
from collections import defaultdict, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from chordesk.models.market import multiplier_of
from chordesk.models.tables.orders import Fill
from chordesk.tools.books import costs_of
from chordesk.tools.market.clock import day_of
from chordesk.tools.market.protocol import Action
from chordesk.tools.prices.close_table import CloseTable


@dataclass(frozen=True, slots=True)
class Lot:
    """Shares of a name bought on one session and held to another, by rows of a table of closes."""

    symbol: str
    bought: int
    until: int
    # staked, profit: money
    staked: float
    profit: float
    sold: bool  # False where the last close stands for a sale
    # ids of the orders that bought and sold it; no exit while it is held
    entry: str = field(default="", compare=False)
    exit: str = field(default="", compare=False)
    shares: float = field(default=0.0, compare=False)  # in those of the last day, after all splits


# Row of closes, shares, cost and later dividends of each, order, rate into the account's currency.
Bought = deque[tuple[int, float, float, float, str, float]]


def lots_of(fills: Iterable[Fill], closes: CloseTable, actions: Mapping[str, Sequence[Action]]) -> list[Lot]:
    """Return the lots of shares, first bought first sold, with commissions and dividends; options and what was sold
    short are left out, and what is held at the end counts at its last close. actions: by symbol; the closes are
    adjusted for them. Money is the account's: each purchase and sale at its own rate, what is held at the end, and
    dividends, at that of the purchase."""
    row_of = {day: at for at, day in enumerate(closes.days)}
    held: dict[str, Bought] = defaultdict(deque)
    lots: list[Lot] = []
    for fill in sorted(fills, key=lambda one: (one.filled_at, one.created_at, one.id)):
        at = row_of.get(day_of(fill.filled_at, fill.symbol))
        if at is None or multiplier_of(fill.symbol) != 1 or fill.quantity <= 0:
            continue
        fee, since = float(costs_of(fill)) / fill.quantity, day_of(fill.filled_at, fill.symbol)
        rate = fill.rate if fill.rate is not None else 1.0
        later = [action for action in actions.get(fill.symbol, ()) if action.day > since]
        split = math.prod(action.split for action in later)
        quantity = fill.quantity * split  # in shares of the last day
        # What is paid to a share after this day: a lot gets what lies between its two ends.
        paid = sum(action.dividend / math.prod(one.split for one in later[at:]) for at, action in enumerate(later))
        if fill.side == "buy":
            held[fill.symbol].append((at, quantity, (fill.price * rate + fee) / split, paid, fill.order_id, rate))
            continue
        lots += _sold(held[fill.symbol], fill, at, quantity, (fill.price * rate - fee) / split, paid)
    last, carried = len(closes.days) - 1, closes.carried()
    place = {symbol: at for at, symbol in enumerate(closes.symbols)}
    for symbol, queue in held.items():
        close = float(carried[last, place[symbol]]) if symbol in place else math.nan
        if math.isfinite(close):
            lots += [
                Lot(symbol, at, last, n * price, n * ((close + paid) * rate - price), False, entry, shares=n)
                for at, n, price, paid, entry, rate in queue
            ]
    return lots


def _sold(queue: Bought, fill: Fill, at: int, quantity: float, price: float, later: float) -> Iterable[Lot]:
    """later: dividends of a share after the sale."""
    while queue and quantity > 1e-9:
        bought, count, cost, paid, entry, rate = queue.popleft()
        taken = min(count, quantity)
        quantity -= taken
        if count > taken:
            queue.appendleft((bought, count - taken, cost, paid, entry, rate))
        profit = taken * (price + (paid - later) * rate - cost)
        yield Lot(fill.symbol, bought, at, taken * cost, profit, True, entry, fill.order_id, taken)
