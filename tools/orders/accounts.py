"""The accounts of the database, what only an account's own broker can end, its equity marks, and the process that may
submit."""

from __future__ import annotations

import datetime as dt
import threading
import time
from dataclasses import dataclass
from decimal import Decimal
from functools import cache

from sqlalchemy import bindparam, exists, func, union_all
from sqlalchemy import select as columns
from sqlalchemy.exc import IntegrityError
from sqlmodel import Session, col, select
from sqlmodel.sql.expression import SelectOfScalar

from chordesk.models.database.store import Store
from chordesk.models.errors import FencedOff
from chordesk.models.market import plain_name
from chordesk.models.orders import AccountView
from chordesk.models.settings import REPLAYING, Settings
from chordesk.models.settings.running_desk import is_backtest
from chordesk.models.states import ORDER_WORKING, OrderState, TradingState
from chordesk.models.tables.columns import utcnow
from chordesk.models.tables.orders import Account, EquityMark, Fill, Order, Position, Submitter, Trading
from chordesk.models.tables.runs import Run
from chordesk.models.text import utc_seconds
from chordesk.tools.decimals import exact
from chordesk.tools.ledger import rates_of
from chordesk.tools.market.clock import account_day
from chordesk.tools.market.factory import MarketKey, build_market, market_at
from chordesk.tools.market.protocol import MarketData


def account_names(session: Session, own: str) -> list[str]:
    """`own` first, then every other account but those of backtests."""
    names: set[str] = set()
    for column in (Account.name, Submitter.account, Trading.account):
        names.update(session.exec(select(column)))
    traded = session.exec(select(func.min(Order.account))).one()
    while traded is not None:  # from one name to the next by the index: orders are many and accounts few
        names.add(traded)
        traded = session.exec(select(func.min(Order.account)).where(col(Order.account) > traded)).one()
    return [own, *sorted(name for name in names - {own} if not is_backtest(name))]


def unfinished(session: Session, account: str, positions: bool) -> list[str]:
    """What only the account's own broker can end: its working orders and, if asked, its positions."""
    left = []
    working = select(Order.id).where(col(Order.account) == account, col(Order.state).in_(ORDER_WORKING))
    if not positions:
        working = working.where(col(Order.protects).is_(None))
    if ids := session.exec(working.order_by(col(Order.id))).all():
        left.append(f"open orders {', '.join(ids)}")
    if not positions:
        return left
    held = select(Position.symbol).where(col(Position.account) == account, col(Position.quantity) != 0)
    if symbols := session.exec(held.order_by(col(Position.symbol))).all():
        left.append(f"positions {', '.join(symbols)}")
    return left


_MAY_HAVE_FILLED = (OrderState.CANCELLED, OrderState.EXPIRED, OrderState.REJECTED)
_EVER = dt.datetime.min.replace(tzinfo=dt.UTC)


def last_trade(session: Session, account: str) -> Order | None:
    """The last order in market time that the broker works on or filled in part."""
    found = session.exec(_newest_order((*ORDER_WORKING, OrderState.FILLED)), params={"account": account}).first()
    # Most of these have no fills: none before the one found is looked at.
    given = {"account": account, "since": found.market_at if found is not None else _EVER}
    later = session.exec(_newest_order(_MAY_HAVE_FILLED), params=given).first()
    return found if later is None or (found is not None and _newer(found, later)) else later


@cache
def _newest_order(states: tuple[OrderState, ...]) -> SelectOfScalar[Order]:
    """Return the query of the newest order in one of these states. One state after the other, so that an index names
    the newest, and those that were never sent are not looked at."""
    newest = (col(Order.market_at).desc(), col(Order.id))
    some = []
    for state in states:
        rows = select(Order.id).where(col(Order.account) == bindparam("account"), col(Order.state) == state.value)
        if state in _MAY_HAVE_FILLED:
            filled = exists().where(col(Fill.order_id) == col(Order.id))
            rows = rows.where(col(Order.market_at) >= bindparam("since"), filled)
        some.append(columns(rows.order_by(*newest).limit(1).subquery()))
    return select(Order).where(col(Order.id).in_(union_all(*some))).order_by(*newest).limit(1)


def _newer(one: Order, other: Order) -> bool:
    return one.market_at > other.market_at or (one.market_at == other.market_at and one.id < other.id)


def books_day(session: Session, account: str) -> dt.date | None:
    """The account's day to which its books have come; None without a trade."""
    last = last_trade(session, account)
    if last is None:
        return None
    moments = [last.market_at]
    if plain_name(session.get_one(Run, last.run_id).market) in REPLAYING:
        fills = select(func.max(Fill.filled_at)).where(col(Fill.account) == account)
        moments += [moment for moment in session.exec(fills) if moment is not None]
    return account_day(max(moments))


def last_mark_day(session: Session, account: str, until: dt.date = dt.date.max) -> dt.date | None:
    """Return the last day with an equity mark, up to a day; None without one."""
    marks = select(func.max(EquityMark.day)).where(col(EquityMark.account) == account, col(EquityMark.day) <= until)
    return session.exec(marks).one()


def books_market(session: Session, account: str) -> MarketKey | None:
    """The market of the account's last trade, on that day. Raises UsageError when there is no such market any more."""
    last = last_trade(session, account)
    if last is None:
        return None
    run = session.get_one(Run, last.run_id)
    key, day = market_at(run.market, run.market_now, run.settings), books_day(session, account)
    return key if key.day is None or day is None else key._replace(day=max(key.day, day))


def account_market(store: Store, settings: Settings) -> MarketData:
    """The settings' market, on the day to which the account's books have come where it replays one."""
    with store.read() as session:
        key = books_market(session, settings.account)
    return build_market(settings, key if key is not None and plain_name(key.name) == settings.market else None)


def halted_accounts(session: Session) -> list[Trading]:
    rows = select(Trading).where(col(Trading.state) == TradingState.HALTED.value)
    return list(session.exec(rows.order_by(col(Trading.account))).all())


@dataclass(frozen=True, slots=True)
class EquityLevels:
    """Levels that losses are measured from, in account currency."""

    # equity at the last observation of the session before, or at today's first where that session has none
    opening: float | None
    high_water: float | None
    since: str = ""  # which of the two, as words


def equity_levels(
    session: Session, view: AccountView, now: dt.datetime, previous: dt.date | None, *, keep: bool
) -> EquityLevels:
    """Return the levels of now's day, this observation included; `keep` writes them. previous: the market's session
    before now's day, None when it is not known. Later days than now's, which a replay that was set back has seen, do
    not count. The caller holds the account's row, so that two observations at once do not both make the day's mark."""
    day, account, equity = account_day(now), view.account, view.equity
    mark = session.get(EquityMark, (account, day), populate_existing=True)
    before = session.exec(
        select(EquityMark)
        .where(col(EquityMark.account) == account, col(EquityMark.day) < day)
        .order_by(col(EquityMark.day).desc())
        .limit(1)
    ).first()
    last = before.last if before is not None and before.day == previous else None
    since = f"today's first mark, for the session before ({previous or 'not known'}) has none"
    if last is not None:
        since = f"the last mark of {previous}"
    if mark is None and equity is None:
        return EquityLevels(last, before.high_water if before else None, since)
    known = [before.high_water] if before else []
    if equity is not None:
        known.append(equity)
    if mark is None:
        opening = known[-1] if last is None else last
        mark = EquityMark(account=account, day=day, opening=opening, last=opening, high_water=opening)
    marks = EquityLevels(mark.opening, max(mark.high_water, *known) if known else mark.high_water, since)
    if keep and equity is not None:
        mark.last, mark.high_water, mark.updated_at = equity, marks.high_water or equity, utcnow()
        mark.rates = rates_of(view)
        session.add(mark)
        session.flush()
    return marks


def shift_marks(session: Session, account: str, by: Decimal) -> None:
    """Move every mark by money that came or went without being earned or lost, such as a deposit or a withdrawal."""
    for mark in session.exec(select(EquityMark).where(col(EquityMark.account) == account)):
        mark.opening = float(exact(mark.opening) + by)
        mark.last = float(exact(mark.last) + by)
        mark.high_water = float(exact(mark.high_water) + by)
        session.add(mark)


# Fencing: one row an account names the only process that may submit. Tokens only grow, so an older holder is locked
# out for good.

UNOWNED = ""  # owner of a released account, which the next process may take


def take(store: Store, account: str, owner: str) -> int:
    """Make `owner` the only submitter for the account; return its token, one more than the last."""
    with store.session() as session:
        row = _row(session, account)
        row.token, row.owner, row.taken_at = row.token + 1, owner, utcnow()
        session.add(row)
        return row.token


def _row(session: Session, account: str) -> Submitter:
    row = session.get(Submitter, account, with_for_update=True, populate_existing=True)
    if row is not None:
        return row
    try:
        with session.begin_nested():
            row = Submitter(account=account, token=0, owner=UNOWNED)
            session.add(row)
    except IntegrityError:  # another process made it a moment ago
        row = None
    return row or session.get_one(Submitter, account, with_for_update=True, populate_existing=True)


def require(session: Session, account: str, token: int) -> None:
    """Raise FencedOff when another token than this is in force. Called in the transaction that moves an order to
    `submitting`: the lock on the row keeps others from taking the account between this check and the commit."""
    row = session.get(Submitter, account, with_for_update={"read": True}, populate_existing=True)
    if row is None or row.token != token:
        raise _fenced_off(account, token, row)


def _fenced_off(account: str, token: int, row: Submitter | None) -> FencedOff:
    now = f"{row.token}, taken by {row.owner or 'no process'} at {utc_seconds(row.taken_at)}" if row else "none"
    return FencedOff(f"token {token} of account {account} is no longer in force; the one that is: {now}")


def release(session: Session, account: str, token: int | None = None) -> None:
    """Let the next process take the account; the present holder has to take it anew. token: release that one only,
    and leave the account alone when another is in force."""
    row = session.get(Submitter, account, with_for_update=True, populate_existing=True)
    if row is not None and token in (None, row.token):
        row.token, row.owner, row.taken_at = row.token + 1, UNOWNED, utcnow()
        session.add(row)


class FencingLease:
    """A process's right to submit for an account. It is taken with the first order, once: a process that was fenced
    off takes it again only after the account was released."""

    def __init__(self, store: Store, account: str, owner: str) -> None:
        self.account = account
        self.owner = owner
        self._store = store
        self._token: int | None = None
        self._reconciled_at: float | None = None
        self._off = False
        self._lock = threading.Lock()

    @property
    def is_fenced_off(self) -> bool:
        return self._off

    def acquire(self) -> int:
        with self._lock:
            if self._token is None or not self._holds(self._token):
                self._token = take(self._store, self.account, self.owner)
                self._reconciled_at = None  # another process may have traded meanwhile
            self._off = False
            return self._token

    def release(self) -> None:
        with self._lock:
            token, self._token = self._token, None
        if token is not None:
            with self._store.session() as session:
                release(session, self.account, token)

    def mark_reconciled(self) -> None:
        self._reconciled_at = time.monotonic()

    def seconds_since_reconciled(self) -> float | None:
        return None if self._reconciled_at is None else time.monotonic() - self._reconciled_at

    def _holds(self, token: int) -> bool:
        with self._store.read() as session:
            row = session.get(Submitter, self.account)
        if row is not None and row.token == token:
            return True
        if row is not None and row.owner == UNOWNED:
            return False
        self._off = True
        raise _fenced_off(self.account, token, row)
