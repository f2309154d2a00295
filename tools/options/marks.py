"""The desk's own history of option figures: one mark a symbol, day and source, kept when a tool has asked."""

from __future__ import annotations

import datetime as dt
import statistics
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from sqlalchemy.exc import IntegrityError
from sqlmodel import col, select

from chordesk.models.contracts import ChainRow, OptionChain
from chordesk.models.database.store import Store
from chordesk.models.tables.options import OptionMark
from chordesk.tools.market.clock import exchange_day
from chordesk.tools.options.chains import UsableChain

LEAST_DAYS = 60  # of history that a rank needs
LEAST_VOLUME_DAYS = 5  # of history that a usual volume needs
_LOOK_BACK = dt.timedelta(days=365)


@dataclass(frozen=True, slots=True)
class Past:
    """Marks of one symbol and source, of the year before a day."""

    rows: tuple[OptionMark, ...] = field(default=())

    def rank(self, iv: float | None) -> tuple[float | None, int]:
        """Return (where `iv` stands between the lowest, 0, and the highest, 1, of the stored days and itself, and the
        number of stored days). None before there are LEAST_DAYS, and where all are the same."""
        known = [row.at_the_money_iv for row in self.rows if row.at_the_money_iv is not None]
        if iv is None or len(known) < LEAST_DAYS:
            return None, len(known)
        low, high = min(*known, iv), max(*known, iv)
        return ((iv - low) / (high - low) if high > low else None), len(known)

    def usual_volume(self, kind: str) -> tuple[float | None, int]:
        """Return (the median of the stored days' volumes of puts or calls, and of how many days). None before there
        are LEAST_VOLUME_DAYS."""
        every = [row.put_volume if kind == "put" else row.call_volume for row in self.rows]
        known = [volume for volume in every if volume is not None]
        return (statistics.median(known) if len(known) >= LEAST_VOLUME_DAYS else None), len(known)


def mark_of(found: UsableChain, at_the_money_iv: float | None) -> OptionMark:
    """Return the mark of a chain of 7 to 60 days, on the day of its quotes: old ones are no second day of history."""
    totals = {
        f"{kind}_{name}": _total(found.rows, kind, figure)
        for kind in ("put", "call")
        for name, figure in (("volume", _volume), ("open_interest", _interest))
    }
    head = {"symbol": found.chain.symbol, "day": exchange_day(found.chain.at), "source": found.chain.source}
    return OptionMark.model_validate({**head, "at_the_money_iv": at_the_money_iv, **totals})


def past(store: Store | None, chains: Sequence[OptionChain]) -> dict[str, Past]:
    """Return the stored marks of each chain's symbol and source, of the year before its quotes' day; none without a
    database."""
    found: dict[str, list[OptionMark]] = defaultdict(list)
    sources = {chain.symbol: chain.source for chain in chains}
    days = {chain.symbol: exchange_day(chain.at) for chain in chains}
    if store is not None and sources:
        question = select(OptionMark).where(
            col(OptionMark.symbol).in_(sources),
            col(OptionMark.day) < max(days.values()),
            col(OptionMark.day) >= min(days.values()) - _LOOK_BACK,
        )
        with store.read() as session:
            for row in session.exec(question.order_by(col(OptionMark.day))):
                day = days[row.symbol]
                if row.source == sources[row.symbol] and day - _LOOK_BACK <= row.day < day:
                    found[row.symbol].append(row)
    return {symbol: Past(tuple(found[symbol])) for symbol in sources}


def keep(store: Store | None, marks: Sequence[OptionMark]) -> None:
    """Store the marks in place of older ones of the same day. One that another process stores at the same time is as
    good."""
    if store is None or not marks:
        return
    try:
        with store.session() as session:
            for mark in marks:
                session.merge(mark)
    except IntegrityError:
        return


def _volume(row: ChainRow) -> float | None:
    return row.volume


def _interest(row: ChainRow) -> float | None:
    return row.open_interest


def _total(rows: Sequence[ChainRow], kind: str, figure: Callable[[ChainRow], float | None]) -> float | None:
    known = [value for row in rows if row.contract.kind == kind and (value := figure(row)) is not None]
    return sum(known) if known else None
