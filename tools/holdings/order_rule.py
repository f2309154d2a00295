"""The rule that judges an order by the whole book when it is previewed and again when it is sent.

Of the bounds of a size it holds the two that are limits of the desk's own orders as well: the share of one symbol and
that of one sector, with what is held outside in the exposure and in the equity. Overlap and heat choose a size and deny
nothing, neither here nor in the own account. The own limits are rules of their own, which come first: whatever is held
outside, this one can only deny more.

What has no value denies where it leaves a size of 0 for the same reason (`may_fill`, and a debt), and nowhere else."""

from __future__ import annotations

from decimal import Decimal

from chordesk.models.orders import OrderTicket, RiskContext
from chordesk.models.settings import Settings
from chordesk.tools.decimals import exact
from chordesk.tools.holdings.whole_book import OutsideBook, book_of, may_fill, with_outside
from chordesk.tools.registry import ToolContext
from chordesk.tools.risk.amounts import largest_sector
from chordesk.tools.risk.exposure import exposures

CODE = "holdings_whole_book"
_FIGURE = "a share that is not told"  # on record of each order, also of one that passes


def facts(context: ToolContext, symbol: str) -> OutsideBook | None:
    return book_of(context, [symbol])


def whole_book_rule(ticket: OrderTicket, context: RiskContext, limits: Settings) -> tuple[str, str, str] | None:
    """Deny an order after which the whole would hold more of a symbol or sector than the own account may of its own. It
    names neither amounts nor what is held outside. Without a price of an own position the own limits deny."""
    book, equity, own = context.facts[CODE], context.account.equity, exposures(ticket, context)
    if book is None or equity is None or own is None:
        return None
    symbol = ticket.symbol
    sectors = {**book.sectors, **context.sectors}
    whole = exact(equity) + exact(book.counted(heat=False))
    if not whole.is_finite():
        return "what own and outside holdings are worth is no number", _FIGURE, "a whole above 0"
    found = with_outside(book, own)
    in_symbol = sum((found[name] for name in found if _company(book, name) == _company(book, symbol)), Decimal(0))
    if whole <= 0:
        return "own and outside holdings together owe as much as they are worth", "no equity", "a whole above 0"
    if any(one.short for one in book.unknown):
        return "a debt outside has no value, and may be larger than the whole", _FIGURE, "a known debt"
    most = exact(limits.max_symbol_share)
    if in_symbol > most * whole:
        return _denied(f"{symbol} would be too large a share of the whole book", most)
    if may_fill(book, symbol, book.companies, sectors, limits):
        return _denied(f"{symbol} may be too large a share of the whole book: not all of it has a value", most)
    most = exact(limits.max_sector_share)
    if most < 1:
        named, in_sector = largest_sector(symbol, found, sectors)
        if in_sector > most * whole:
            return _denied(f"{named} would be too large a share of the whole book", most)
    return None


def _company(book: OutsideBook, symbol: str) -> str:
    return book.companies.get(symbol, symbol)


def _denied(reason: str, most: Decimal) -> tuple[str, str, str]:
    limit = f"at most {most:.2%} of own and outside holdings together"
    return reason, _FIGURE, limit
