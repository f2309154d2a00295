"""The record of an account: equity against the market, months, trades, and what may be concluded from it."""

from __future__ import annotations

import bisect
import datetime as dt
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from sqlmodel import Session, col, select

from chordesk.models.answers import Frozen
from chordesk.models.database.store import Store
from chordesk.models.errors import DeskError
from chordesk.models.groups import by_key
from chordesk.models.settings.running_desk import is_backtest, research_account
from chordesk.models.states import RunKind
from chordesk.models.tables.orders import Fill, Order
from chordesk.models.tables.runs import Decision, Run, Verdict
from chordesk.tasks.reading.accounts import EquityDay, equity_curve
from chordesk.tools.market.clock import account_day, day_of
from chordesk.tools.market.prices import actions_of
from chordesk.tools.market.protocol import Action, MarketData
from chordesk.tools.prices.price_panel import panel_of
from chordesk.tools.registry import ToolContext
from chordesk.tools.scoring.inference import Estimate, Observation, estimate
from chordesk.tools.scoring.verdict_calibration import lenses_of

if TYPE_CHECKING:
    from chordesk.tools.portfolio.lots import Lot

MOST_DAYS = 5_000


class RecordDay(Frozen):
    """Equity at the last mark of a session day. drawdown: as a fraction of the highest so far. held, equal_weight: what
    the account would be worth in the universe, bought in equal parts on the first day, or kept at equal parts. other:
    equity of the account that it is compared with."""

    day: dt.date
    equity: float
    drawdown: float | None
    held: float | None
    equal_weight: float | None
    other: float | None = None


class MonthRow(Frozen):
    """Returns of a month, as fractions."""

    month: str
    desk: float
    held: float | None
    equal_weight: float | None


class TradeRow(Frozen):
    """Shares bought by one order and sold by one, or still held at the last close. days: of market time; days_held: of
    the calendar. quantity in shares as they were bought; entry_price, exit_price: mean of the fills, without
    commissions, the latter null while they are held; splits: shares at the exit for each one bought, so that the money
    at the exit is quantity x splits x exit_price. profit and staked in account currency, commissions and dividends
    counted; share: of what was staked. entry_reason, exit_reason: of the decision that bought, and of the one that sold
    or the plan's; null where none was given, and exit_reason while they are held."""

    symbol: str
    lenses: list[str]
    bought: dt.date
    until: dt.date
    days_held: int
    sold: bool
    entry: str
    exit: str | None
    quantity: float
    entry_price: float
    exit_price: float | None
    splits: float
    staked: float
    profit: float
    share: float
    entry_reason: str | None
    exit_reason: str | None


class PartReturn(Frozen):
    """The trades of a symbol, or of what a lens put forward, together. Of what several lenses put forward each has an
    equal part of stake and profit, so that lenses sum to the trades. trades, won: those that it has a part in."""

    name: str
    trades: int
    won: int
    staked: float
    profit: float
    share: float


class TrackRecord(Frozen):
    """scored: the account that its verdicts are scored on. lacking: why there is no benchmark. hits: share of the BUY
    verdicts of a year that beat the median name; None before the first outcome. edge: the account's mean return from
    mark to mark, less that of the universe at equal parts; difference: less that of the account `against`, on the days
    of both. said: what may be concluded."""

    account: str
    scored: str
    days: list[RecordDay]
    deepest: float | None
    lacking: str | None
    months: list[MonthRow]
    trades: list[TradeRow]
    symbols: list[PartReturn]
    lenses: list[PartReturn]
    hits: Estimate | None
    edge: Estimate | None
    against: str | None
    difference: Estimate | None
    said: str


@dataclass(frozen=True, slots=True)
class _Kept:
    """What the database has for a record, so that no market is asked within a transaction."""

    account: str
    scored: str
    curve: list[EquityDay]
    result: Mapping[str, Any] | None  # of a backtest
    fills: Sequence[Fill]
    lenses: Mapping[str, Sequence[str]]  # by order
    reasons: Mapping[str, str | None]  # by order


def _kept(session: Session, account: str) -> _Kept:
    scored, result = account, None
    if is_backtest(account):
        newest = select(Run).where(Run.account == account, Run.kind == RunKind.BACKTEST).order_by(col(Run.created_at))
        runs = session.exec(newest).all()
        if runs:
            scored = research_account(account) if runs[-1].params["parallel"] else account
            result = runs[-1].summary.get("backtest")
    fills = session.exec(select(Fill).where(Fill.account == account).order_by(col(Fill.filled_at), col(Fill.id))).all()
    orders = session.exec(select(Order).where(col(Order.id).in_({fill.order_id for fill in fills}))).all()
    return _Kept(
        account=account,
        scored=scored,
        curve=equity_curve(session, account, MOST_DAYS).days,
        result=result,
        fills=fills,
        lenses=_lenses(session, orders),
        reasons={one.id: _reason(session, one) for one in orders},
    )


def _lenses(session: Session, orders: Sequence[Order]) -> dict[str, Sequence[str]]:
    verdicts = {one.id: one for one in session.exec(select(Verdict).where(
        col(Verdict.id).in_({order.verdict_id for order in orders})
    ))}  # fmt: skip
    found = lenses_of(session, {one.run_id for one in verdicts.values()})
    return {
        order.id: sorted(found.get((verdicts[order.verdict_id].run_id, order.symbol), ()))
        for order in orders
        if order.verdict_id in verdicts
    }


def _reason(session: Session, order: Order) -> str | None:
    if order.exit_reason is not None:
        return order.exit_reason
    return session.get_one(Decision, order.decision_id).reason_of(order.ordinal)


def track_record(
    store: Store, context: ToolContext, account: str, market: MarketData | None, against: str | None = None
) -> TrackRecord:
    """market: of the account; None where this process has none of it. against: the account that it is compared with."""
    from chordesk.tasks.reading.scores import kept_scores  # every process that shows accounts loads this module

    with store.read() as session:
        kept = _kept(session, account)
        other = _kept(session, against) if against is not None else None
    verdicts = kept_scores(store, kept.scored, context.settings.model_cutoffs, "rating").rows
    days, lacking = _days(kept, context, market)
    if other is not None:
        theirs = {one.day: one.equity for one in other.curve}
        days = [one.model_copy(update={"other": theirs.get(one.day)}) for one in days]
    trades = _trades(kept, market)
    edge = _edge([(one.equity, one.equal_weight) for one in days])
    return TrackRecord(
        account=kept.account,
        scored=kept.scored,
        days=days,
        deepest=max((one.drawdown for one in days if one.drawdown is not None), default=None),
        lacking=lacking,
        months=list(_months(days)),
        trades=trades,
        symbols=_parts((trade.symbol, trade, 1) for trade in trades),
        lenses=by_lens(trades),
        hits=next((row.rate for row in verdicts if row.name == "BUY"), None),
        edge=edge,
        against=against,
        difference=_edge([(one.equity, one.other) for one in days]),
        said=_said(kept, days, edge),
    )


def _days(kept: _Kept, context: ToolContext, market: MarketData | None) -> tuple[list[RecordDay], str | None]:
    marks, lacking = kept.curve, None
    known: dict[dt.date, tuple[float, float]] = {}
    if is_backtest(kept.account):
        rows = (kept.result or {}).get("curve") or []
        visited = {row["day"] for row in rows}
        marks = [one for one in marks if not rows or one.day.isoformat() in visited]
        known = {dt.date.fromisoformat(row["day"]): (row["held"], row["equal_weight"]) for row in rows}
        lacking = None if rows else "the benchmarks are counted when the backtest has ended"
    elif market is None:
        lacking = "this service has the market of its own account alone"
    elif marks:
        try:
            known = _benchmarks(marks, replace(context, market=market, clock=market.clock))
        except DeskError as error:
            lacking = str(error.args[0])
    nothing = (None, None)
    return [
        RecordDay(
            day=one.day, equity=one.equity, drawdown=one.drawdown,
            held=known.get(one.day, nothing)[0], equal_weight=known.get(one.day, nothing)[1],
        )
        for one in marks
    ], lacking  # fmt: skip


def _benchmarks(marks: Sequence[EquityDay], context: ToolContext) -> dict[dt.date, tuple[float, float]]:
    from chordesk.tools.prices.close_table import CloseTable, buy_and_hold, equal_weight

    panel = panel_of(context)
    whole = CloseTable(panel.days, list(panel.place), panel.close.T).at(panel.days).table
    days = [one.day for one in marks if panel.days[0] <= one.day]
    if not days:
        return {}
    rows = [bisect.bisect_right(panel.days, day) - 1 for day in days]
    table, capital = CloseTable(days, list(panel.place), whole[rows]), marks[-len(days)].opening
    return dict(zip(days, zip(buy_and_hold(table, capital), equal_weight(table, capital), strict=True), strict=True))


def _months(days: Sequence[RecordDay]) -> Iterable[MonthRow]:
    last = {f"{one.day:%Y-%m}": one for one in days}
    before = days[0] if days else None
    for month, one in last.items():
        assert before is not None
        yield MonthRow(
            month=month,
            desk=one.equity / before.equity - 1,
            held=_change(before.held, one.held),
            equal_weight=_change(before.equal_weight, one.equal_weight),
        )
        before = one


def _change(before: float | None, after: float | None) -> float | None:
    return after / before - 1 if before and after is not None else None


def _trades(kept: _Kept, market: MarketData | None) -> list[TradeRow]:
    """The newest first; those without a market end at their last sale."""
    if not kept.fills or market is None:
        return []
    from chordesk.tools.portfolio.lots import lots_of
    from chordesk.tools.prices.close_table import closes_of

    first = account_day(kept.fills[0].filled_at)
    names = sorted({fill.symbol for fill in kept.fills})
    days = {account_day(fill.filled_at) for fill in kept.fills}
    span = (market.clock.session() - first).days + 1
    for name in names:
        try:
            days.update(day for day in market.bars(name, span).dates if day >= first)
        except DeskError:
            continue
    closes = closes_of(market, names, sorted(days))
    actions = {name: actions_of(market, name, first) for name in names}
    lots = lots_of(kept.fills, closes, actions)
    fills = by_key((fill.order_id, fill) for fill in kept.fills)
    found = [_trade(kept, lot, closes.days, fills, actions[lot.symbol]) for lot in _merged(lots)]
    return sorted(found, key=lambda one: (one.until, one.bought, one.symbol), reverse=True)


def _merged(lots: Iterable[Lot]) -> Iterable[Lot]:
    """Lots of the same two orders as one: an order may fill in parts."""
    found: dict[tuple[str, str, str], Lot] = {}
    for lot in lots:
        key = (lot.symbol, lot.entry, lot.exit)
        one = found.get(key)
        found[key] = (
            lot
            if one is None
            else replace(
                one, staked=one.staked + lot.staked, profit=one.profit + lot.profit, shares=one.shares + lot.shares
            )
        )
    return found.values()


def _trade(
    kept: _Kept,
    lot: Lot,
    days: Sequence[dt.date],
    fills: Mapping[str, Sequence[Fill]],
    actions: Sequence[Action],
) -> TradeRow:
    bought, until = days[lot.bought], days[lot.until]
    first, last = _splits_after(actions, bought), _splits_after(actions, until)
    exits = [fill for fill in fills.get(lot.exit, ()) if fill.symbol == lot.symbol]
    return TradeRow.of(
        lot,
        lenses=list(kept.lenses.get(lot.entry, ())),
        bought=bought,
        until=until,
        days_held=(until - bought).days,
        exit=lot.exit or None,
        quantity=lot.shares / first,
        entry_price=first * _mean_price(fills[lot.entry], actions),
        exit_price=last * _mean_price(exits, actions) if exits else None,
        splits=first / last,
        share=lot.profit / lot.staked if lot.staked else 0.0,
        entry_reason=kept.reasons.get(lot.entry),
        exit_reason=kept.reasons.get(lot.exit),
    )


def _splits_after(actions: Sequence[Action], day: dt.date) -> float:
    """Return how many shares of the last day one of this day has become."""
    return math.prod(action.split for action in actions if action.day > day)


def _mean_price(fills: Sequence[Fill], actions: Sequence[Action]) -> float:
    """Return the mean price of an order's fills, of a share of the last day: an order may fill on both sides of a
    split."""
    shares = [fill.quantity * _splits_after(actions, day_of(fill.filled_at, fill.symbol)) for fill in fills]
    return math.fsum(fill.quantity * fill.price for fill in fills) / math.fsum(shares)


def by_lens(trades: Iterable[TradeRow]) -> list[PartReturn]:
    return _parts((lens, trade, len(trade.lenses) or 1) for trade in trades for lens in trade.lenses or ["none"])


def _parts(named: Iterable[tuple[str, TradeRow, int]]) -> list[PartReturn]:
    """named: a name, a trade of it, and how many names share the trade."""
    found = [
        PartReturn(
            name=name,
            trades=len(rows),
            won=sum(row.profit > 0 for row, _ in rows),
            staked=(staked := math.fsum(row.staked / sharing for row, sharing in rows)),
            profit=(profit := math.fsum(row.profit / sharing for row, sharing in rows)),
            share=profit / staked if staked else 0.0,
        )
        for name, rows in by_key((name, (trade, sharing)) for name, trade, sharing in named).items()
    ]
    return sorted(found, key=lambda one: (-one.profit, one.name))


def _edge(values: Sequence[tuple[float, float | None]]) -> Estimate | None:
    """Return the mean return from one value to the next, less that of the other value beside it."""
    known = [(own, other) for own, other in values if own > 0 and other]
    steps = (
        Observation(own / before - other / beside, at, at)
        for at, ((before, beside), (own, other)) in enumerate(pairwise(known))
    )
    return estimate(steps)


def _said(kept: _Kept, days: Sequence[RecordDay], edge: Estimate | None) -> str:
    if kept.result is not None and (conclusion := kept.result.get("conclusion")):
        return str(conclusion)
    if len(days) < 2:
        return "Nothing can be concluded yet: equity is marked on fewer than two session days."
    whole = days[-1].equity / days[0].equity - 1
    market = _change(days[0].equal_weight, days[-1].equal_weight)
    against = f" against {market:+.2%} of the universe at equal parts" if market is not None else ""
    head = f"{whole:+.2%} over {len(days)} session days{against}"
    if edge is None or edge.low is None or edge.high is None:
        return f"{head}: whether that is more than chance cannot be told from so few."
    if edge.low <= 0 <= edge.high:
        return f"{head}: it cannot be told from chance ({edge.low:+.3%} to {edge.high:+.3%} from mark to mark)."
    return f"{head}: {'better' if edge.mean > 0 else 'worse'} than chance explains, on one stretch of one market."
