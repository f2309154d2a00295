"""What a flatten leaves of the positions that it was to close: why, and what a person can do about it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from typing import NamedTuple

from sqlmodel import Session, col, select

from chordesk.models.errors import OrderError
from chordesk.models.orders import BrokerPosition
from chordesk.models.states import OrderState
from chordesk.models.tables.orders import Order, Position
from chordesk.tools.decimals import exact, plain
from chordesk.tools.risk.exposure import underlying_of

NONE = Decimal(0)


class Kept(NamedTuple):
    """A position that a flatten was to close and that no order of it closes. quantity: negative when short."""

    symbol: str
    quantity: Decimal
    why: str
    remedy: str

    def error(self) -> OrderError:
        done = "sold" if self.quantity > 0 else "bought back"
        reason = f"{self.symbol}: {plain(abs(self.quantity))} held, not {done}: {self.why}"
        return OrderError(reason, remedy=self.remedy)


def kept_positions(
    closing: Sequence[BrokerPosition],
    orderable: Sequence[BrokerPosition],
    busy: Mapping[str, Order],
    unknown: Mapping[str, Order],
) -> Iterator[Kept]:
    """Yield what was to be closed and is not. orderable: the same positions as far as an order can close them; busy: by
    underlying, an earlier order whose end is not known; unknown: by symbol, a closing order that the broker did not
    answer. Of others, their own lines tell what became of them."""
    possible = {row.symbol: exact(row.quantity) for row in orderable}
    for row in closing:
        held = exact(row.quantity)
        rest = held - possible.get(row.symbol, NONE)
        order = busy.get(underlying_of(row.symbol)) or unknown.get(row.symbol)
        if order is not None:
            yield Kept(row.symbol, held, *_in_the_way(order, row.symbol))
        elif rest:
            remedy = "close it at the venue, if it takes so little"
            yield Kept(row.symbol, rest, "it is less than a step of its listing, which no order can close", remedy)


def _in_the_way(order: Order, symbol: str) -> tuple[str, str]:
    why = f"order {order.id} ({order.side} {plain(order.quantity or 0)}) is {order.state} and may still fill"
    if order.state == OrderState.UNKNOWN:
        return why, (
            f"look for it at the broker; where it is not, close {symbol} there, then `desk reconcile --adopt`. A day "
            "after it was sent `desk reconcile` ends an order that the broker does not know: then flatten again"
        )
    return why, "flatten again when it has ended: `desk reconcile` asks the broker about it"


def not_there(session: Session, account: str, shown: Sequence[BrokerPosition]) -> Iterator[Kept]:
    """Yield what the desk's ledger has and the broker does not show, so that nothing of it can be closed."""
    there = {row.symbol: exact(row.quantity) for row in shown}
    for row in session.exec(select(Position).where(col(Position.account) == account).order_by(col(Position.symbol))):
        ours, theirs = exact(row.quantity), there.get(row.symbol, NONE)
        lacking = ours - common_part(ours, theirs)
        if lacking:
            why = f"the desk's ledger has {plain(ours)}, and the broker shows {plain(theirs)}"
            remedy = "look into it at the broker, then `desk reconcile --adopt` takes over what it shows"
            yield Kept(row.symbol, lacking, why, remedy)


def common_part(one: Decimal, other: Decimal) -> Decimal:
    """Return the part that two quantities of one symbol share; none where one is long and the other short."""
    return min(abs(one), abs(other)).copy_sign(one) if one * other > 0 else NONE
