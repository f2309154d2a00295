"""The accounts of the database, and the orders and positions that only an account's own broker can end."""

from __future__ import annotations

from sqlalchemy import exists, or_
from sqlmodel import Session, col, select

from models.database.store import Store
from models.settings import Settings
from models.states import ORDER_WORKING, TradingState
from models.tables.orders import Account, Fill, Order, Position, Submitter, Trading
from models.tables.runs import Run
from tools.market.factory import build_market, market_at
from tools.market.protocol import MarketData


def account_names(session: Session, own: str) -> list[str]:
    """Return `own` first, then every other account that has a row."""
    names: set[str] = set()
    for column in (Account.name, Submitter.account, Order.account, Trading.account):
        names.update(session.exec(select(column).distinct()))
    return [own, *sorted(names - {own})]


def unfinished(session: Session, account: str, positions: bool) -> list[str]:
    """Return what only the account's own broker can end, as text: its working orders and, if asked, its positions."""
    left = []
    working = select(Order.id).where(col(Order.account) == account, col(Order.state).in_(ORDER_WORKING))
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


def account_market(store: Store, settings: Settings) -> MarketData:
    """Return the settings' market, on the day to which the account's books have come where it replays one. Raises
    SettingError or NotConfigured as the market does."""
    with store.read() as session:
        last = last_trade(session, settings.account)
        run = session.get_one(Run, last.run_id) if last is not None else None
    same = run is not None and run.market == settings.market
    return build_market(settings, market_at(run.market, run.market_now) if run is not None and same else None)


def halted_accounts(session: Session) -> list[Trading]:
    """Return the rows of halted accounts by name."""
    rows = select(Trading).where(col(Trading.state) == TradingState.HALTED.value)
    return list(session.exec(rows.order_by(col(Trading.account))).all())
