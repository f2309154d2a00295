"""What outside accounts add to other commands: `desk research --portfolio --weakest N`, and `desk orders whole`."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from chordesk.models.errors import UsageError
from chordesk.tasks.cli.output import warn
from chordesk.tasks.cli.shell import Json

ALL = 0


def weakest(
    portfolio: bool,
    force: bool,
    budget: int | None,
    wait: bool,
    yes: bool,
    dry_run: bool,
    as_json: bool,
    weakest: Annotated[
        int | None,
        typer.Option(
            min=ALL, max=150,
            help="With --portfolio: of all accounts, the so many shares that rose least in 60 sessions; 0 for all.",
        ),
    ] = None,
) -> dict[str, Any]:  # fmt: skip
    """Research holdings of all accounts in place of the account's own, and end the command."""
    if weakest is None:
        if portfolio:
            _say_left_out()
        return {}
    if not portfolio:
        raise UsageError("--weakest goes with --portfolio", remedy="desk research --portfolio --weakest 3")
    if force:
        raise UsageError("--force goes with the account's own holdings", remedy="leave out --force: all roles run")
    import dataclasses

    from chordesk.models.holdings.settings import HoldingsSettings
    from chordesk.models.settings.schema import own_settings
    from chordesk.tasks.cli.start import connected, forecast, see
    from chordesk.tasks.workflows.research import open_research
    from chordesk.tools.holdings import portfolio_view

    app = connected()
    desk = app.desk
    if desk.settings.book == "off":
        raise UsageError("DESK_BOOK=off: other accounts are not used", remedy="start `desk up` with DESK_BOOK=size")
    market = desk.account_market()
    context = dataclasses.replace(desk.tool_context(), market=market, clock=market.clock)
    stale = own_settings(desk.settings, HoldingsSettings).stale_sessions
    found, unknown = portfolio_view.weakest(context, weakest or 150, stale)
    if not found:
        raise UsageError("no account holds a share whose prices are known", remedy="desk holdings import FILE")
    warn([f"left out, without 60 sessions of prices: {', '.join(unknown)}"] if unknown else [])
    look = forecast(app, budget, yes=yes, dry_run=dry_run, as_json=as_json)
    see(app, open_research(app, found, look), wait=wait, as_json=as_json)
    raise typer.Exit()


def _say_left_out() -> None:
    """Say what is held elsewhere and has no price here: it is not researched."""
    from chordesk.tasks.holdings.commands import looking
    from chordesk.tools.holdings.portfolio_view import shares_elsewhere

    with looking() as (context, _):
        _, left = shares_elsewhere(context)
    warn([f"left out, held elsewhere without a price here: {', '.join(left)}"] if left else [])


commands = typer.Typer()


@commands.command()
def whole(
    order: Annotated[str, typer.Argument(help="An order's id, or the beginning of it.")], as_json: Json = False
) -> None:
    """Show what an order does to the whole book: all accounts together, before and after it."""
    from sqlmodel import select

    from chordesk.models.database.lookup import by_prefix
    from chordesk.models.tables.orders import Order, Preview
    from chordesk.tasks.cli.shell import opened
    from chordesk.tasks.holdings.commands import what_if

    with opened()[1].read() as session:
        row = by_prefix(session, Order, order)
        made = session.exec(select(Preview).where(Preview.order_id == row.id)).first()
        symbol, side, is_share = row.symbol, row.side, not (row.contract or row.legs)
        amount = made.notional if made is not None else row.notional
    if not is_share or not amount:
        what = "it is no order of shares" if not is_share else "it has no preview yet, so that its size is not known"
        raise UsageError(f"order {row.id}: {what}", remedy="`desk holdings what-if SYMBOL MONEY` shows any amount")
    what_if(symbol, float(amount), sell=side == "sell", as_json=as_json)
