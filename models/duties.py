"""Duties and fees of exchanges beside a broker's commission, as rows of a table.

Each row has the page that states it and the day from which it is known, and is charged at any time: what was due
earlier is not kept. A fee that no page states is left out, and never guessed.
"""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from decimal import Decimal
from typing import Literal

from chordesk.models.exchanges import HOME, exchange_code, suffix_of

Side = Literal["buy", "sell"]
BOTH: tuple[Side, ...] = ("buy", "sell")
ALL_KINDS = ("share", "etf")
ZERO = Decimal(0)


@dataclass(frozen=True, slots=True, kw_only=True)
class DutyRow:
    """One duty of an order. percent: of what is paid or got for the shares; flat: added once where that is above a sum;
    both sums are of the listing's currency. suffixes: of symbols, where it is not due on all of the exchange."""

    exchanges: tuple[str, ...]
    name: str
    sides: tuple[Side, ...]
    percent: str = "0"
    flat: str = "0"
    above: str = "0"
    kinds: tuple[str, ...] = ("share",)
    suffixes: tuple[str, ...] = ()
    source: str
    stated: dt.date

    @property
    def rate(self) -> Decimal:
        return Decimal(self.percent) / 100

    def due(self, worth: Decimal) -> Decimal:
        """Return the duty of an order of which so much is filled."""
        return worth * self.rate + (Decimal(self.flat) if worth > Decimal(self.above) else ZERO)


_CHINA = ("XSHG", "XSHE")
_SEEN = dt.date(2026, 11, 29)
_A_SHARES = "CFSG, charges of A-shares, seen 2026-11-29"
_HKEX = "HKEX, Fees, Transaction, seen 2026-11-29"
_NSE = "Basant Securities, list of charges of NSE equity delivery, from 2024-10-01 on"
_KOREA = "Ministry of Economy and Finance, by Chosun Biz and Yonhap of 2025-12-01"
_TAIWAN = "TWSE, Transaction costs and taxes, seen 2026-11-29"
_NEW_YEAR, _OCTOBER = dt.date(2026, 1, 1), dt.date(2024, 10, 1)

DUTIES: tuple[DutyRow, ...] = (
    # Shares of the growth market are free of it: no source here tells which these are, so that it is charged on them.
    DutyRow(exchanges=("XLON",), name="stamp duty", sides=("buy",), percent="0.5", stated=_SEEN,
            source="HMRC, Stamp Duty Reserve Tax: the basics; Barclays, Stamp duty and PTM levy, seen 2026-11-29"),
    DutyRow(exchanges=("XLON",), name="PTM levy", sides=BOTH, flat="1.50", above="10000", stated=dt.date(2024, 12, 2),
            source="Takeover Panel, PTM Levy, Panel Statement 2024/19"),
    # These three are due on companies of the country above a capitalisation (a billion euros; in Italy 500 millions):
    # no source here tells which these are, so that they are charged on all shares of its exchange.
    DutyRow(exchanges=("XPAR",), name="transaction tax", sides=("buy",), percent="0.4", stated=dt.date(2025, 12, 17),
            source="Regfollower, France updates list of companies subject to financial transaction tax, 2025-12"),
    DutyRow(exchanges=("XMIL",), name="transaction tax", sides=("buy",), percent="0.2", stated=_NEW_YEAR,
            source="L. 199/2025, art. 1, 29-31, by NT+ Fisco (Il Sole 24 Ore) of 2026-01-14"),
    DutyRow(exchanges=("XMAD",), name="transaction tax", sides=("buy",), percent="0.2", stated=dt.date(2024, 12, 18),
            source="Agencia Tributaria's list for 2025, by Europa Press of 2024-12-18; in force since 2021-01-16"),
    DutyRow(exchanges=("XHKG",), name="stamp duty", sides=BOTH, percent="0.1", stated=dt.date(2023, 11, 17),
            source="UTrade, Amendment of stamp duty of Hong Kong stocks"),
    DutyRow(exchanges=("XHKG",), name="SFC levy", sides=BOTH, percent="0.0027", kinds=ALL_KINDS, source=_HKEX,
            stated=_SEEN),
    DutyRow(exchanges=("XHKG",), name="AFRC levy", sides=BOTH, percent="0.00015", kinds=ALL_KINDS, source=_HKEX,
            stated=_SEEN),
    DutyRow(exchanges=("XHKG",), name="trading fee", sides=BOTH, percent="0.00565", kinds=ALL_KINDS, source=_HKEX,
            stated=_SEEN),
    DutyRow(exchanges=("XHKG",), name="settlement fee", sides=BOTH, percent="0.0042", kinds=ALL_KINDS,
            source="HKEX, Enhanced stock settlement fee structure, 2025-02-21", stated=dt.date(2025, 6, 30)),
    DutyRow(exchanges=_CHINA, name="stamp duty", sides=("sell",), percent="0.05", source=_A_SHARES, stated=_SEEN),
    DutyRow(exchanges=_CHINA, name="handling fee", sides=BOTH, percent="0.00341", source=_A_SHARES, stated=_SEEN),
    DutyRow(exchanges=_CHINA, name="management fee", sides=BOTH, percent="0.002", source=_A_SHARES, stated=_SEEN),
    DutyRow(exchanges=_CHINA, name="transfer fee", sides=BOTH, percent="0.001", source=_A_SHARES, stated=_SEEN),
    DutyRow(exchanges=("XKRX",), name="transaction tax", sides=("sell",), percent="0.05", suffixes=("KS",),
            source=_KOREA, stated=_NEW_YEAR),
    DutyRow(exchanges=("XKRX",), name="agriculture tax", sides=("sell",), percent="0.15", suffixes=("KS",),
            source=_KOREA, stated=_NEW_YEAR),
    DutyRow(exchanges=("XKRX",), name="transaction tax", sides=("sell",), percent="0.2", suffixes=("KQ",),
            source=_KOREA, stated=_NEW_YEAR),
    DutyRow(exchanges=("XTAI",), name="transaction tax", sides=("sell",), percent="0.3", source=_TAIWAN, stated=_SEEN),
    DutyRow(exchanges=("XTAI",), name="transaction tax", sides=("sell",), percent="0.1", kinds=("etf",),
            source=_TAIWAN, stated=_SEEN),
    DutyRow(exchanges=("XNSE",), name="STT", sides=BOTH, percent="0.1", source=_NSE, stated=_OCTOBER),
    DutyRow(exchanges=("XNSE",), name="stamp duty", sides=("buy",), percent="0.015", source=_NSE, stated=_OCTOBER),
    DutyRow(exchanges=("XNSE",), name="SEBI fee", sides=BOTH, percent="0.0001", source=_NSE, stated=_OCTOBER),
)  # fmt: skip


def rows_of(symbol: str, kind: str, side: str) -> list[DutyRow]:
    """Return the duties of a side of a symbol. kind: as of its listing."""
    if (code := exchange_code(symbol)) == HOME:
        return []
    ours = (row for row in DUTIES if code in row.exchanges and side in row.sides and kind in row.kinds)
    return [row for row in ours if not row.suffixes or suffix_of(symbol) in row.suffixes]


def duties_due(symbol: str, kind: str, side: str, before: Decimal, after: Decimal) -> list[tuple[str, Decimal]]:
    """Return the duties that a fill adds to its order, in the listing's currency: those of all that the order has moved
    after it, less those before, so that the parts of an order come to what one fill would."""
    found = ((row.name, row.due(after) - row.due(before)) for row in rows_of(symbol, kind, side))
    return [(name, amount) for name, amount in found if amount]


def duty_share(symbol: str, kind: str, side: str) -> Decimal:
    """Return what the duties of a side come to as a share of what is traded, without those of a fixed amount."""
    return sum((row.rate for row in rows_of(symbol, kind, side)), ZERO)
