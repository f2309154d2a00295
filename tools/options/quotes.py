"""Quotes of a chain, checked: rows that cannot be used are left out and counted, and the rest say why they lack a
price."""

from __future__ import annotations

import datetime as dt
import math
from collections import Counter, defaultdict
from collections.abc import Sequence

from chordesk.models.contracts import ChainRow, OptionChain, root_of
from chordesk.tools.registry import Gaps

_SHOWN = 3


def usable_rows(chain: OptionChain, today: dt.date, gaps: Gaps) -> list[ChainRow]:
    """Return each contract on the symbol that has not expired, once. What is left out goes into `gaps`: expired
    contracts, those of another share, names that are no contracts, and contracts that are listed with differing
    quotes; and so does what the source could not give."""
    for what, reason in chain.lacks:
        gaps.add(what, reason, chain.symbol)
    if chain.unread:
        _note(gaps, chain.symbol, "contracts not read", chain.unread, "no OCC symbols on it")
    found: dict[str, list[ChainRow]] = defaultdict(list)
    expired, foreign = [], []
    for row in chain.rows:
        if row.contract.underlying != root_of(chain.symbol):
            foreign.append(row.contract.symbol)
        elif row.contract.expiry < today:
            expired.append(row.contract.symbol)
        else:
            found[row.contract.symbol].append(row)
    differing = [name for name, rows in found.items() if any(row != rows[0] for row in rows)]
    for what, names, reason in (
        ("contracts of another share", foreign, "listed on another share"),
        ("expired contracts", expired, f"expired before {today}"),
        ("duplicate contracts", differing, "listed more than once with differing quotes, none of which is taken"),
    ):
        if names:
            _note(gaps, chain.symbol, what, names, reason)
    return [rows[0] for name, rows in found.items() if name not in set(differing)]


def mid_of(row: ChainRow) -> tuple[float | None, str | None]:
    """Return (the price midway between bid and ask, None), or (None, why there is none): the last trade does not stand
    for it, and neither does an ask without a bid."""
    bid, ask = row.bid, row.ask
    if bid is None or ask is None or not (math.isfinite(bid) and math.isfinite(ask)):
        return None, "no quote"
    if bid < 0 or ask < 0:
        return None, "a negative quote"
    if bid == 0:
        return None, "no bid"
    if bid > ask:
        return None, "a crossed quote, its bid above its ask"
    return (bid + ask) / 2, None


def counted(reasons: Sequence[str]) -> str:
    """Return reasons with their number, the most frequent first, such as: 3 no bid, 1 no quote."""
    return ", ".join(f"{count} {reason}" for reason, count in Counter(reasons).most_common())


def _note(gaps: Gaps, symbol: str, what: str, names: Sequence[str], reason: str) -> None:
    shown = ", ".join(sorted(set(names))[:_SHOWN])
    more = len(set(names)) - _SHOWN
    gaps.add(what, f"{len(names)} rows {reason}: {shown}{f' and {more} more' if more > 0 else ''}", symbol)
