"""`desk orders`: list orders, and show one with all that it rests on."""

from __future__ import annotations

from typing import Annotated

import typer

from chordesk.models.states import OrderState
from chordesk.tasks.cli.output import emit
from chordesk.tasks.cli.render.orders import order_list, order_report
from chordesk.tasks.cli.shell import Json, opened
from chordesk.tasks.views.order_view import find_order, list_orders, order_view
from chordesk.tasks.views.run_view import find_run
from chordesk.tools.orders.audit_reading import check_logs, entries_of

commands = typer.Typer(name="orders", help="What was recommended, and what became of it.", no_args_is_help=True)


@commands.command("list")
def list_(
    run: Annotated[str | None, typer.Option(help="Of this run: its id, or the beginning of it.")] = None,
    symbol: Annotated[str | None, typer.Option(help="On this symbol.")] = None,
    state: Annotated[OrderState | None, typer.Option(help="In this state.")] = None,
    limit: Annotated[int, typer.Option(help="How many, the newest first.", min=1, max=1000)] = 20,
    as_json: Json = False,
) -> None:
    """List orders, the newest first."""
    with opened()[1].read() as session:
        run_id = find_run(session, run).id if run else None
        ticker = symbol.strip().upper() if symbol else None
        rows = list_orders(session, run_id, ticker, state.value if state else None, limit)
    plain = [{**order.model_dump(), "notional_previewed": p.notional if p else None} for order, p in rows]
    nothing = "no such orders; every trading action of a decision makes one"
    emit(plain, lambda _: order_list(rows) if rows else nothing, as_json=as_json)


@commands.command()
def show(
    order: Annotated[str, typer.Argument(help="An order's id, or the beginning of it.")],
    as_json: Json = False,
) -> None:
    """Show an order as it stands: size, checks, preview, approval, fills, and what it rests on."""
    settings, store = opened()
    with store.read() as session:
        found = order_view(session, find_order(session, order))
    entries = entries_of(check_logs(store, settings), found["order"]["id"])
    emit({**found, "log": entries}, lambda _: order_report(found, len(entries), settings.home), as_json=as_json)
