"""The accounts of the database, and the orders and positions that only an account's own broker can end."""

from __future__ import annotations

import datetime as dt

from sqlalchemy import and_, exists, func, or_
from sqlmodel import Session, col, select

from chordesk.models.database.store import Store
from chordesk.models.market import plain_name
from chordesk.models.settings import Settings
from chordesk.models.settings.accounts import is_backtest
from chordesk.models.states import ORDER_WORKING, TradingState
from chordesk.models.tables.orders import Account, Fill, Order, Position, Submitter, Trading
from chordesk.models.tables.runs import Run
from chordesk.tools.market.clock import exchange_day
from chordesk.tools.market.factory import MarketKey, build_market, market_at
from chordesk.tools.market.protocol import MarketData


def account_names(session: Session, own: str) -> list[str]:
    """Return `own` first, then every other account that has a row; without those of backtests, on which nothing is at
    stake."""
    names: set[str] = set()
    for column in (Account.name, Submitter.account, Order.account, Trading.account):
        names.update(session.exec(select(column).distinct()))
    return [own, *sorted(name for name in names - {own} if not is_backtest(name))]


def unfinished(session: Session, account: str, positions: bool) -> list[str]:
    """Return what only the account's own broker can end, as text: its working orders and, if asked, its positions with
    the orders that protect them."""
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


def last_trade(session: Session, account: str) -> Order | None:
    """Return the order that is last in market time, of those the broker works on or filled at least in part; None when
    there is none. The account's books are as of its market time."""
    traded = or_(col(Order.state).in_(ORDER_WORKING), exists().where(col(Fill.order_id) == col(Order.id)))
    rows = select(Order).where(col(Order.account) == account, traded)
    return session.exec(rows.order_by(col(Order.market_at).desc(), col(Order.id)).limit(1)).first()


def books_day(session: Session, account: str) -> dt.date | None:
    """Return the exchange's day to which the account's books have come: that of its last trade, or of a later session
    in which an order that rested was filled; None without a trade."""
    last = last_trade(session, account)
    rests = or_(
        col(Order.time_in_force) == "cls", and_(col(Order.time_in_force) == "gtc", col(Order.order_type) != "market")
    )
    filled = session.exec(
        select(func.max(Fill.filled_at))
        .join(Order, col(Order.id) == col(Fill.order_id))
        .where(col(Order.account) == account, rests)
    ).one()
    moments = [moment for moment in (last.market_at if last else None, filled) if moment is not None]
    return exchange_day(max(moments)) if moments else None


def books_market(session: Session, account: str) -> MarketKey | None:
    """Return the market of the account's last trade, on the day to which its books have come; None without a trade.
    Raises UsageError when there is no such market any more."""
    last = last_trade(session, account)
    if last is None:
        return None
    run = session.get_one(Run, last.run_id)
    key, day = market_at(run.market, run.market_now), books_day(session, account)
    return key if key.day is None or day is None else key._replace(day=max(key.day, day))


def account_market(store: Store, settings: Settings) -> MarketData:
    """Return the settings' market, on the day to which the account's books have come where it replays one. Raises
    SettingError or NotConfigured as the market does."""
    with store.read() as session:
        key = books_market(session, settings.account)
    return build_market(settings, key if key is not None and plain_name(key.name) == settings.market else None)


def halted_accounts(session: Session) -> list[Trading]:
    """Return the rows of halted accounts by name."""
    rows = select(Trading).where(col(Trading.state) == TradingState.HALTED.value)
    return list(session.exec(rows.order_by(col(Trading.account))).all())
