"""`GET /holdings`: all accounts as one portfolio. Amounts and names of accounts are for the desk's owner alone."""

from __future__ import annotations

import dataclasses
from typing import Annotated

from fastapi import APIRouter, Query, Request

from chordesk.models.errors import NotFound, UsageError
from chordesk.models.holdings.settings import HoldingsSettings
from chordesk.models.settings.schema import own_settings
from chordesk.tasks.named_tokens import CALLER, OWNER, Caller
from chordesk.tasks.web.context import Context
from chordesk.tasks.web.security import JsonRoute
from chordesk.tools.holdings.portfolio_view import PortfolioView, portfolio_view

router = APIRouter(tags=["holdings"], route_class=JsonRoute)


@router.get("/holdings")
def holdings(
    context: Context,
    request: Request,
    amounts: Annotated[
        bool, Query(description="with amounts and names of accounts, for the desk's owner alone")
    ] = False,
) -> PortfolioView:
    """Show all accounts as one portfolio, as of the account's market now: weights, sectors, currencies, concentration,
    correlation, worst days, and what is missing."""
    require_shared(request.scope[CALLER], context.settings.book, amounts=amounts)
    desk = context.desk
    market = desk.account_market()
    seen = dataclasses.replace(desk.tool_context(), market=market, clock=market.clock)
    view = portfolio_view(seen, own_settings(context.settings, HoldingsSettings).stale_sessions)
    return view if amounts else without_amounts(view)


def require_shared(caller: Caller, book: str, *, amounts: bool) -> None:
    """Raise unless a caller may see the whole book: the owner in any case, others what a model may be told of it, which
    is weights where DESK_BOOK says so, and never amounts."""
    if caller.scopes == OWNER.scopes:
        return
    if amounts:
        raise UsageError("amounts are for the desk's owner alone", remedy="leave amounts out; weights need no more")
    if book != "weights":
        raise NotFound(
            f"DESK_BOOK={book}: the whole book is for the desk's owner alone",
            remedy="ask with the home's own token, or let the owner start `desk up` with DESK_BOOK=weights",
        )


def without_amounts(view: PortfolioView) -> PortfolioView:
    """Return the view with weights alone: no values, and accounts by number."""
    names = {one.account: one.account if one.own else f"outside {at}" for at, one in enumerate(view.accounts)}
    accounts = [one.model_copy(update={"account": names[one.account], "value": None}) for one in view.accounts]
    holdings = [
        one.model_copy(update={"accounts": [names[each] for each in one.accounts], "value": None, "doubt": ""})
        for one in view.holdings
    ]
    return view.model_copy(update={"value": None, "accounts": accounts, "holdings": holdings})
