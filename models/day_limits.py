"""How far a price may be from the close before on one day, by exchange, as rows of a table with source and day.

Where an exchange has no row its prices have no such limit, or it is not known here. That of a share under special
treatment in China is narrower, and no source here tells which these are.
"""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_UP, Decimal
from typing import NamedTuple

from chordesk.models.exchanges import exchange_code

_YEN = (
    (100, 30), (200, 50), (500, 80), (700, 100), (1_000, 150), (1_500, 300), (2_000, 400), (3_000, 500), (5_000, 700),
    (7_000, 1_000), (10_000, 1_500), (15_000, 3_000), (20_000, 4_000), (30_000, 5_000), (50_000, 7_000),
    (70_000, 10_000), (100_000, 15_000), (150_000, 30_000), (200_000, 40_000), (300_000, 50_000), (500_000, 70_000),
    (700_000, 100_000), (1_000_000, 150_000), (1_500_000, 300_000), (2_000_000, 400_000),
)  # fmt: skip


class DayBand(NamedTuple):
    """The lowest and the highest price of a day. base: the close before."""

    base: Decimal
    low: Decimal
    high: Decimal


@dataclass(frozen=True, slots=True, kw_only=True)
class DayLimit:
    """percent: of the base, either way; or bands: (below, how far), by the base. prefixes: of symbols, the rest of the
    exchange has a row without any. nearest: whether the ends are rounded to the nearest step, else inwards."""

    exchanges: tuple[str, ...]
    percent: str = ""
    bands: tuple[tuple[int, int], ...] = ()
    prefixes: tuple[str, ...] = ()
    nearest: bool = False
    source: str
    stated: dt.date

    def away(self, base: Decimal) -> Decimal | None:
        if self.percent:
            return base * Decimal(self.percent) / 100
        return next((Decimal(far) for below, far in self.bands if base < below), None)

    def rounding(self, *, up: bool) -> str:
        return ROUND_HALF_UP if self.nearest else ROUND_FLOOR if up else ROUND_CEILING


_STAR = "SSE, STAR Market, Special trading arrangements, seen 2026-11-29"
_CHINEXT = "BOCHK, A-shares of STAR and ChiNext, seen 2026-11-28"
_SZSE = "SZSE, Trading overview, 2018-10-09"
_SEEN = dt.date(2026, 11, 29)
DAY_LIMITS: tuple[DayLimit, ...] = (
    DayLimit(exchanges=("XSHG",), percent="20", prefixes=("688", "689"), nearest=True, source=_STAR, stated=_SEEN),
    DayLimit(exchanges=("XSHG",), percent="10", nearest=True, source=_STAR, stated=_SEEN),
    DayLimit(exchanges=("XSHE",), percent="20", prefixes=("300", "301"), nearest=True, source=_CHINEXT, stated=_SEEN),
    DayLimit(exchanges=("XSHE",), percent="10", nearest=True, source=_SZSE, stated=dt.date(2018, 10, 9)),
    DayLimit(exchanges=("XKRX",), percent="30", source="KRX, Price limit, seen 2026-11-28", stated=_SEEN),
    DayLimit(
        exchanges=("XTKS",), bands=_YEN, source="JPX, Trading rules of domestic stocks, 06, seen 2026-11-29",
        stated=_SEEN,
    ),
)  # fmt: skip


def day_limit_of(symbol: str) -> DayLimit | None:
    code = exchange_code(symbol)
    ours = (row for row in DAY_LIMITS if code in row.exchanges)
    return next((row for row in ours if not row.prefixes or symbol.startswith(row.prefixes)), None)
