"""Routes of accounts: state, positions, equity and ledger of one at a time."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Query

from chordesk.tasks.views.trading.account import (
    AccountDetail,
    AccountState,
    account_detail,
    find_account,
    held_symbols,
    list_accounts,
)
from chordesk.tasks.views.trading.equity import EquityCurve, equity_curve
from chordesk.tasks.views.trading.ledger_view import LedgerRow, ledger
from chordesk.tasks.web.context import Context
from chordesk.tasks.web.schemas import Limit
from chordesk.tasks.web.security import JsonRoute
from chordesk.tools.orders.snapshots import take_snapshot

router = APIRouter(tags=["accounts"], route_class=JsonRoute)

Name = Annotated[str, Path(max_length=64, pattern=r"^[0-9A-Za-z_.-]+$", description="the account's name")]
Days = Annotated[int, Query(ge=1, le=5000, description="how many session days, the newest")]
Skip = Annotated[int, Query(ge=0, le=10_000, description="how many to skip first")]


@router.get("/accounts")
def accounts(context: Context) -> list[AccountState]:
    """List the accounts, this service's own first: cash, trading state, equity at the last mark, and whether the books
    agreed with the broker's."""
    with context.store.read() as session:
        return list_accounts(session, context.settings)


@router.get("/accounts/{account}")
def account(context: Context, account: Name) -> AccountDetail:
    """Show an account: positions at the market's prices with the orders that protect them, exposure by sector, and the
    last comparison with the broker. An account of another broker is shown without prices."""
    with context.store.read() as session:
        name = find_account(session, context.settings, account)
        symbols = held_symbols(session, name)
    own = name == context.settings.account
    snapshot = take_snapshot(context.desk.account_market(), symbols) if own else None
    with context.store.read() as session:
        return account_detail(session, context.settings, name, snapshot)


@router.get("/accounts/{account}/equity")
def equity(context: Context, account: Name, days: Days = 260) -> EquityCurve:
    """Show an account's equity by session day, with change and drawdown; money paid in or out counts as neither."""
    with context.store.read() as session:
        return equity_curve(session, find_account(session, context.settings, account), days)


@router.get("/accounts/{account}/ledger")
def movements(context: Context, account: Name, limit: Limit = 100, offset: Skip = 0) -> list[LedgerRow]:
    """List an account's fills and option events, the newest first, with what each did to its cash."""
    with context.store.read() as session:
        return ledger(session, find_account(session, context.settings, account), limit, offset)
