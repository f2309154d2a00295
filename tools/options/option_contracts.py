"""Option contracts for tools: chains fetched within a call's time, their quotes checked, liquidity, Greeks, returns,
and the desk's own history of marks."""

from __future__ import annotations

import datetime as dt
import math
import statistics
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, NotRequired

from sqlalchemy.exc import IntegrityError
from sqlmodel import col, select
from typing_extensions import TypedDict

from chordesk.models.database.store import Store
from chordesk.models.market import MODELLED, ChainRow, Greeks, OptionChain, root_of
from chordesk.models.tables.orders import OptionMark
from chordesk.tools.decimals import rounded
from chordesk.tools.market.clock import clock_day, day_of
from chordesk.tools.market.option_pricing import (
    DAYS_A_YEAR,
    MODEL,
    Terms,
    WrittenReturns,
    greeks,
    implied_volatility,
    profit_probability,
    written_returns,
)
from chordesk.tools.market.prices import chain_of
from chordesk.tools.prices.daily_bars import by_symbol
from chordesk.tools.registry import Gaps, ToolContext

# Quotes of a chain, checked: rows that cannot be used are left out and counted, and the rest say why they lack a
# price.

_SHOWN = 3


def usable_rows(chain: OptionChain, today: dt.date, gaps: Gaps) -> list[ChainRow]:
    """Each unexpired contract once. Others (another share's, no contract, differing quotes) are named in `gaps`."""
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
    """Return (the middle of bid and ask, None) or (None, the reason): the last trade does not stand for it."""
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


CHAIN = "option chain"  # what is missing, in an answer's gaps


class UsableChain(NamedTuple):
    """A chain and those of its rows that can be used."""

    chain: OptionChain
    rows: list[ChainRow]


def usable_chains(
    context: ToolContext, symbols: Sequence[str], first: int, last: int, gaps: Gaps
) -> Iterator[UsableChain]:
    """first, last: days to expiry. A market without chains is one gap for all symbols."""
    today = clock_day(context.clock)
    days = today + dt.timedelta(days=first), today + dt.timedelta(days=last)

    def ask(symbol: str) -> UsableChain:
        return usable_chain(context, symbol, *days, gaps)

    yield from (found for _, found in by_symbol(context, symbols, CHAIN, gaps, ask))


def usable_chain(context: ToolContext, symbol: str, first: dt.date, last: dt.date, gaps: Gaps) -> UsableChain:
    chain = chain_of(context.market, symbol, first, last)
    today, quoted = clock_day(context.clock), day_of(chain.at, chain.symbol)
    if quoted < today:
        reason = f"its quotes are of {quoted}, {(today - quoted).days} days before {today}"
        gaps.add("quotes of today", reason, symbol)
    found = usable_rows(chain, today, gaps)
    return UsableChain(chain, [row for row in found if first <= row.contract.expiry <= last])


Liquidity = Literal["good", "fair", "poor", "unknown"]
DEFINITION = (
    "good: spread at most 5% of mid or $.05, open interest 500 or more, volume 50 or more; fair: at most 10% or $.10, "
    "open interest 100 or more; else poor; unknown where a figure that decides is missing"
)
_SLACK = 1e-9  # quotes are decimal cents: 1.05 - 1.00 is more than .05 as a binary fraction


def liquidity_of(row: ChainRow, mid: float | None) -> Liquidity:
    """Return the grade of DEFINITION. mid: None where the quote is not one to trade at, which is poor."""
    if row.bid is None and row.ask is None:
        return "unknown"
    if mid is None or row.bid is None or row.ask is None:
        return "poor"
    spread = row.ask - row.bid
    if not _within(spread, mid, 0.10):
        return "poor"
    if row.open_interest is None:
        return "unknown"
    if row.open_interest < 100:
        return "poor"
    if not _within(spread, mid, 0.05) or row.open_interest < 500:
        return "fair"
    if row.volume is None:
        return "unknown"
    return "good" if row.volume >= 50 else "fair"


def _within(spread: float, mid: float, limit: float) -> bool:
    """Return whether a spread is within a share of mid, or within as many dollars."""
    return spread <= limit * max(mid, 1.0) + _SLACK


MODELLED_NOTE = (
    "modelled, no market's quotes: volatility at the money is 1.1 times the Yang-Zhang volatility of 20 sessions, with "
    "a fitted smile; volume and open interest are not known"
)


@dataclass(frozen=True, slots=True)
class ContractFigures:
    """One contract with its figures; None is unknown, and `problem` is the reason."""

    row: ChainRow
    source: str
    days: int
    mid: float | None
    spread: float | None  # as a fraction of mid
    iv: float | None
    greeks: Greeks | None
    basis: Literal["market", "computed", "modelled"] | None  # where iv and Greeks come from
    returns: WrittenReturns | None
    probability: float | None  # of the writer's profit, risk-neutral
    liquidity: Liquidity
    problem: str | None

    def payload(self) -> dict[str, Any]:
        row, contract, found, returns = self.row, self.row.contract, self.greeks, self.returns
        shown = {
            "contract": contract.symbol,
            "kind": contract.kind,
            "expiry": contract.expiry.isoformat(),
            "dte": self.days,
            "strike": float(contract.strike),
            "bid": row.bid,
            "ask": row.ask,
            "mid": rounded(self.mid),
            "spread": rounded(self.spread),
            "volume": row.volume,
            "openInterest": row.open_interest,
            "iv": rounded(self.iv),
            "delta": rounded(found.delta if found else None),
            "gamma": rounded(found.gamma if found else None, 5),
            "theta": rounded(found.theta if found else None),
            "vega": rounded(found.vega if found else None),
            "roc": rounded(returns.roc if returns else None, 5),
            "rocWeekly": rounded(returns.weekly if returns else None, 5),
            "rocAnnual": rounded(returns.annual if returns else None),
            "breakEven": rounded(returns.break_even if returns else None),
            "pop": rounded(self.probability),
            "liquidity": self.liquidity,
            "source": self.source,
            "greeks": self.basis,
        }
        return shown if self.problem is None else {**shown, "problem": self.problem}


def contract_figures(row: ChainRow, chain: OptionChain, rate: float) -> ContractFigures:
    days = (row.contract.expiry - day_of(chain.at, chain.symbol)).days
    terms = terms_of(row, chain, rate)
    mid, problem = mid_of(row)
    if mid is not None and mid < terms.intrinsic - _half_spread(row):
        mid, problem = None, f"its price {mid:.2f} is below its intrinsic value {terms.intrinsic:.2f}"
    iv, found, basis, why = _greeks(row, chain, terms, mid)
    returns = written_returns(terms, mid, days) if mid is not None else None
    probability = profit_probability(terms, mid, iv) if mid is not None and iv is not None and days > 0 else None
    return ContractFigures(
        row=row,
        source=chain.source,
        days=days,
        mid=mid,
        spread=(row.ask - row.bid) / mid if mid and row.ask is not None and row.bid is not None else None,
        iv=iv,
        greeks=found,
        basis=basis,
        returns=returns,
        probability=probability,
        liquidity=liquidity_of(row, mid),
        problem=problem or why,
    )


def terms_of(row: ChainRow, chain: OptionChain, rate: float) -> Terms:
    days = max((row.contract.expiry - day_of(chain.at, chain.symbol)).days, 0)
    contract = row.contract
    return Terms(
        contract.kind, chain.spot, float(contract.strike), days / DAYS_A_YEAR, rate, chain.dividend_yield or 0.0
    )


class ChainInputs(TypedDict):
    """What the computed figures of a chain rest on."""

    symbol: str
    source: str
    quotedAt: dt.datetime
    spot: float
    model: str
    rate: float
    dividendYield: float | None
    expiries: list[dt.date]
    openInterestOf: NotRequired[dt.date]
    note: NotRequired[str]


def inputs_of(chain: OptionChain, rate: float, today: dt.date) -> dict[str, Any]:
    shown = {
        "symbol": chain.symbol,
        "source": chain.source,
        "quotedAt": chain.at.isoformat(),
        "spot": chain.spot,
        "model": MODEL,
        "rate": rate,
        "dividendYield": chain.dividend_yield,
        "expiries": sorted({row.contract.expiry.isoformat() for row in chain.rows if row.contract.expiry >= today}),
    }
    if chain.interest_day is not None:
        shown["openInterestOf"] = chain.interest_day.isoformat()
    notes = [MODELLED_NOTE] if chain.source == MODELLED else []
    if chain.dividend_yield is None:
        notes.append("dividends are not known; computed figures take none")
    return {**shown, "note": "; ".join(notes)} if notes else shown


def _half_spread(row: ChainRow) -> float:
    """Return what a mid may lie below the intrinsic value while the ask does not."""
    return max(((row.ask or 0.0) - (row.bid or 0.0)) / 2, 0.0)


def _greeks(
    row: ChainRow, chain: OptionChain, terms: Terms, mid: float | None
) -> tuple[float | None, Greeks | None, Literal["market", "computed", "modelled"] | None, str | None]:
    """Return (volatility, Greeks, where they come from, why there are none)."""
    if row.greeks is not None:
        return row.iv, row.greeks, "modelled" if chain.source == MODELLED else "market", None
    if mid is None:
        return None, None, None, None
    iv, why = implied_volatility(terms, mid)
    return (iv, greeks(terms, iv), "computed", None) if iv is not None else (None, None, None, why)


LEAST_DAYS = 60  # of history that a rank needs
LEAST_VOLUME_DAYS = 5  # of history that a usual volume needs
LOOK_BACK = dt.timedelta(days=365)


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
    """The mark of a chain of 7 to 60 days, on the day of its quotes: old ones are not a second day of history."""
    totals = {
        f"{kind}_{figure}": _total(found.rows, kind, figure)
        for kind in ("put", "call")
        for figure in ("volume", "open_interest")
    }
    head = {
        "symbol": found.chain.symbol,
        "day": day_of(found.chain.at, found.chain.symbol),
        "source": found.chain.source,
    }
    return OptionMark.model_validate({**head, "at_the_money_iv": at_the_money_iv, **totals})


def past(store: Store | None, chains: Sequence[OptionChain]) -> dict[str, Past]:
    """Marks of each chain's symbol and source, of the year before its quotes' day; none without a database."""
    found: dict[str, list[OptionMark]] = defaultdict(list)
    sources = {chain.symbol: chain.source for chain in chains}
    days = {chain.symbol: day_of(chain.at, chain.symbol) for chain in chains}
    if store is not None and sources:
        question = select(OptionMark).where(
            col(OptionMark.symbol).in_(sources),
            col(OptionMark.day) < max(days.values()),
            col(OptionMark.day) >= min(days.values()) - LOOK_BACK,
        )
        with store.read() as session:
            for row in session.exec(question.order_by(col(OptionMark.day))):
                day = days[row.symbol]
                if row.source == sources[row.symbol] and day - LOOK_BACK <= row.day < day:
                    found[row.symbol].append(row)
    return {symbol: Past(tuple(found[symbol])) for symbol in sources}


def keep(store: Store | None, marks: Sequence[OptionMark]) -> None:
    """An older mark of the same day is replaced. One that another process stores at the same time is as good."""
    if store is None or not marks:
        return
    try:
        with store.session() as session:
            for mark in marks:
                session.merge(mark)
    except IntegrityError:
        return


def _total(rows: Sequence[ChainRow], kind: str, figure: str) -> float | None:
    known = [value for row in rows if row.contract.kind == kind and (value := getattr(row, figure)) is not None]
    return sum(known) if known else None
