"""Bounds of a size by the whole book: what the desk holds and what is held outside, as one account.

The same rules as of the desk's own account, with the whole value as equity: share of one symbol and of one sector,
overlap, correlated heat. They stand beside the own bounds, which stay as they are, and the strictest holds, so that
nothing that is held outside can make a size larger.

Neither can a holding without a value, compared with any value that it may have (v >= 0, the value; W, the whole without
it; u, its heat at a value of 1; L, the limit):

- Share of a symbol or sector: s (W + v) - held rises with v for another symbol, so that v = 0 is the strictest; for the
  same symbol or sector it falls without end, so that nothing more is opened.
- Correlated heat: the new position has room w while |x + v y + w z| <= L (W + v) with |x| <= L W and |y| <= u. For
  u <= L whatever fits at v = 0 fits at any v, by the triangle inequality; above L the limit is passed by a large v
  alone, and nothing is opened.
- Overlap: R (W + v) / (d sqrt(1 + (g + r u v) / (R (W + v)))), where (g + r u v) / (W + v) <= g / W + r u. So it counts
  as if it were as large as the whole book, in the denominator alone.

A short position without a value may be any debt: then nothing is opened. A holding without a ticker, or of which the
heat is not known, adds nothing to the value against which the risk of others is measured.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal

from sqlmodel import select

from chordesk.models.market import parse_contract
from chordesk.models.plans import SizeBound
from chordesk.models.settings import Settings
from chordesk.models.settings.running_desk import is_backtest
from chordesk.models.statements import Kind
from chordesk.models.tables.orders import Position
from chordesk.models.thesis import Pooled
from chordesk.tools.decimals import exact
from chordesk.tools.holdings.keeping import accounts
from chordesk.tools.holdings.valuing import Priced, Worth, priced, symbols_of, worths
from chordesk.tools.market.clock import clock_day
from chordesk.tools.model_tools.portfolio import store_of
from chordesk.tools.portfolio.holdings import companies_of, listing_of, standing_of
from chordesk.tools.portfolio.size_bounds import (
    HEAT,
    OVERLAP,
    SECTOR_SHARE,
    SYMBOL_SHARE,
    Further,
    HeatBook,
    HeldHeat,
    Standing,
    own_bounds,
)
from chordesk.tools.registry import ToolContext
from chordesk.tools.risk.exposure import underlying_of, unit_exposure

RULE = "the whole book"


@dataclass(frozen=True, slots=True)
class Part:
    """A holding outside the desk, as far as it counts. symbol: the share that it is about; None where that has no name
    here. value: in account currency, negative when short; None where it is not known. exposure: what counts towards the
    share of its symbol and sector. heat: the money that it may lose; None where it is not known."""

    symbol: str | None
    kind: Kind
    value: float | None
    short: bool = False
    exposure: float = 0.0
    heat: float | None = None
    side: int = 1


@dataclass(frozen=True, slots=True)
class OutsideBook:
    """All that is held outside. companies: of all symbols, also the desk's own, as `Standing.companies`."""

    parts: tuple[Part, ...]
    priced: Priced = field(default_factory=Priced)
    sectors: Mapping[str, str | None] = field(default_factory=dict)
    companies: Mapping[str, str] = field(default_factory=dict)

    @property
    def unknown(self) -> list[Part]:
        return [one for one in self.parts if one.value is None]

    def counted(self, *, heat: bool) -> float:
        """Return the value that counts beside the desk's own equity. heat: only of what has a known heat, is cash, or
        is owed."""
        found = 0.0
        for one in self.parts:
            if one.value is None:
                continue
            is_known = one.heat is not None if heat else one.symbol is not None
            if one.kind == "cash" or one.value < 0 or is_known:
                found += one.value
        return found


def part_of(worth: Worth, known: Priced) -> Part:
    """Return a holding as it counts. A bought contract can lose its value; a written put counts as its strike, and a
    written call binds no shares of the desk's."""
    row, symbol, value = worth.outside.row, worth.symbol, worth.value
    contract = parse_contract(worth.outside.symbol) if worth.outside.symbol else None
    short = row.quantity < 0
    if row.kind == "cash" or symbol is None:
        return Part(symbol, row.kind, value, short)
    if contract is None:
        unit = known.units.get(symbol)
        heat = None if value is None or unit is None else abs(value) * unit
        return Part(symbol, row.kind, value, short, abs(value or 0.0), heat, -1 if short else 1)
    rises = (contract.kind == "call") != short
    if not short:
        return Part(symbol, row.kind, value, False, value or 0.0, value, 1 if rises else -1)
    unit, close = known.units.get(symbol), known.closes.get(symbol)
    shares = float(-row.quantity) * 100
    heat = None if unit is None or close is None else shares * close * unit * worth.rate
    exposure = float(-row.quantity) * float(unit_exposure(contract.symbol, "sell", Decimal(0))) * worth.rate
    return Part(symbol, row.kind, value, True, exposure, heat, 1 if rises else -1)


def whole_bound(book: OutsideBook, symbol: str, pooled: Pooled, now: Standing) -> float | None:
    """Return the most money of one more long position in a symbol by the whole book; None where none of its rules has
    a figure."""
    found = tightest(book, symbol, pooled, now)
    return None if found is None else found[0]


def tightest(book: OutsideBook, symbol: str, pooled: Pooled, now: Standing) -> tuple[float, str] | None:
    """Return (that most, what leaves no more)."""
    equity = now.heat.equity
    if equity is None or equity <= 0:
        return None
    if any(one.short for one in book.unknown):
        return 0.0, "a debt outside has no value"
    values = {heat: equity + book.counted(heat=heat) for heat in (False, True)}
    if min(values.values()) <= 0:
        return 0.0, "the whole owes as much as it is worth"
    by_value = _whole(book, now, values[False], synthetic=False)
    by_heat = _whole(book, now, values[True], synthetic=False)
    pressed = _whole(book, now, values[True], synthetic=True)
    found = [
        *_of(own_bounds(symbol, pooled, by_value), SYMBOL_SHARE, SECTOR_SHARE),
        *_of(own_bounds(symbol, pooled, by_heat), HEAT),
        *_of(own_bounds(symbol, pooled, pressed), OVERLAP),
    ]
    if _is_unmeasured(book, symbol, now):
        found.append((0.0, "a like holding has no value"))
    return min(found, default=None)


def _of(bounds: Sequence[SizeBound], *rules: str) -> list[tuple[float, str]]:
    return [(one.most, one.rule) for one in bounds if one.rule in rules and one.most is not None]


def _whole(book: OutsideBook, now: Standing, value: float, *, synthetic: bool) -> Standing:
    """Return the standing of the whole. synthetic: what has no value counts as large as the whole."""
    equity = now.heat.equity or 0.0
    rows = [replace(row, heat=row.heat * equity / value) for row in now.heat.rows]
    for one in book.parts:
        if one.symbol is None or one.kind == "cash":
            continue
        if one.value is not None and one.heat is not None:
            rows.append(HeldHeat(one.symbol, one.heat / value, one.side, abs(one.value)))
        elif synthetic and one.value is None and (unit := book.priced.units.get(one.symbol)) is not None:
            rows.append(HeldHeat(one.symbol, unit, one.side, value))
    own = now.heat
    heat = HeatBook(
        value, tuple(rows), own.missing, own.assumed, {**book.priced.returns, **own.returns},
        {**book.priced.units, **own.units}, own.closes, own.traded, own.rates,
    )  # fmt: skip
    return replace(
        now,
        heat=heat,
        exposures=_exposures(book, now),
        sectors={**book.sectors, **now.sectors},
        companies={**now.companies, **book.companies},
        free_cash=None,
        further=(),
    )


def _exposures(book: OutsideBook, now: Standing) -> dict[str, Decimal] | None:
    """Return money by symbol. A fund of no sector is none of each sector, as a share of an unknown one is."""
    if now.exposures is None:
        return None
    return with_outside(book, now.exposures)


def with_outside(book: OutsideBook, own: Mapping[str, Decimal]) -> dict[str, Decimal]:
    """Return money by symbol, own and outside."""
    found = dict(own)
    for one in book.parts:
        if one.symbol is not None and one.kind != "cash" and one.exposure:
            found[one.symbol] = found.get(one.symbol, Decimal(0)) + exact(one.exposure)
    return found


def _is_unmeasured(book: OutsideBook, symbol: str, now: Standing) -> bool:
    """Whether a holding without a value may fill a limit that the symbol shares."""
    if may_fill(book, symbol, {**now.companies, **book.companies}, {**book.sectors, **now.sectors}, now.limits):
        return True
    held = (one.symbol for one in book.unknown if one.symbol is not None and one.kind != "cash")
    return any(book.priced.units.get(name, 0.0) > now.limits.max_drawdown for name in held)


def may_fill(
    book: OutsideBook,
    symbol: str,
    companies: Mapping[str, str],
    sectors: Mapping[str, str | None],
    limits: Settings,
) -> bool:
    """Whether a holding without a value may fill the share of the symbol or of its sector."""
    for one in book.unknown:
        if one.symbol is None or one.kind == "cash":
            continue
        if companies.get(one.symbol, one.symbol) == companies.get(symbol, symbol):
            return True
        alike = book.sectors.get(one.symbol) in (sectors.get(symbol), None)
        if one.kind == "share" and limits.max_sector_share < 1 and alike:
            return True
    return False


def further(book: OutsideBook) -> Further:
    def bounds(symbol: str, pooled: Pooled, now: Standing) -> list[SizeBound]:
        most = whole_bound(book, symbol, pooled, now)
        # A model may read it: it names nothing that is held outside.
        return [] if most is None else [SizeBound(rule=RULE, most=most, why="own and outside holdings together")]

    return bounds


def outside_book(context: ToolContext, wanted: Sequence[str], own: Sequence[str] = ()) -> OutsideBook | None:
    """Return what is held outside, as the context's market values it; None where there is nothing, and in a backtest.
    wanted, own: further symbols whose companies and sectors count."""
    if context.settings.book == "off" or is_backtest(context.account) or context.store is None:
        return None
    with store_of(context).read() as session:
        found = accounts(session, clock_day(context.clock))
    if not any(one.positions for one in found):
        return None
    names = symbols_of(found)
    known = priced(context, list(dict.fromkeys([*names, *wanted])))
    parts = tuple(part_of(one, known) for one in worths(context, found, known))
    listings = {symbol: listing_of(context, symbol) for symbol in sorted({*names, *wanted, *own})}
    funds = {one.symbol for one in parts if one.kind not in ("share", "option")}
    sectors = {
        symbol: one.sector or (f"the fund {symbol}" if symbol in funds else None) for symbol, one in listings.items()
    }
    return OutsideBook(parts, known, sectors, companies_of(listings, known.returns))


def bounds(context: ToolContext, symbols: Sequence[str]) -> Further | None:
    """Return the bounds of sizes by the whole book; None where nothing is held outside."""
    book = book_of(context, symbols)
    return None if book is None else further(book)


def book_of(context: ToolContext, symbols: Sequence[str]) -> OutsideBook | None:
    """Return what is held outside, beside what the account holds and these symbols; None as of `outside_book`."""
    if context.settings.book == "off" or is_backtest(context.account) or context.store is None:
        return None
    with store_of(context).read() as session:
        held = session.exec(select(Position.symbol).where(Position.account == context.account)).all()
    return outside_book(context, symbols, [underlying_of(one) for one in held])


def room_for(context: ToolContext, symbol: str) -> tuple[float, str] | None:
    """Return (the most money that the whole book leaves for a purchase of a symbol now, what leaves no more); None
    where it is not known, or nothing is held outside."""
    now = standing_of(context, [symbol])
    book = outside_book(context, [symbol], list(now.held))
    return None if book is None else tightest(book, symbol, Pooled(), now)
