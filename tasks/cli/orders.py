"""`desk orders`: the orders there are, and all there is to know of one."""

from __future__ import annotations

from typing import Annotated

import typer

from models.setting_sources import load_settings
from models.states import OrderState
from models.store import Store, require_current
from tasks.cli.output import console, print_json
from tasks.cli.render_orders import order_list, order_report
from tasks.order_view import find_order, list_orders, order_view
from tasks.run_view import find_run
from tools.orders.auditing import check_logs, entries_of

Json = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]


def register(app: typer.Typer) -> None:
    orders = typer.Typer(help="What was recommended, and what became of it.", no_args_is_help=True)
    orders.command("list")(list_)
    orders.command("show")(show)
    app.add_typer(orders, name="orders")


def list_(
    run: Annotated[str | None, typer.Option(help="Of this run: its id, or the beginning of it.")] = None,
    symbol: Annotated[str | None, typer.Option(help="On this symbol.")] = None,
    state: Annotated[OrderState | None, typer.Option(help="In this state.")] = None,
    limit: Annotated[int, typer.Option(help="How many, the newest first.", min=1, max=1000)] = 20,
    as_json: Json = False,
) -> None:
    """List orders, the newest first."""
    settings = load_settings()
    require_current(settings.database)
    with Store(settings.database).read() as session:
        run_id = find_run(session, run).id if run else None
        ticker = symbol.strip().upper() if symbol else None
        rows = list_orders(session, run_id, ticker, state.value if state else None, limit)
    if as_json:
        print_json([{**order.model_dump(), "notional_previewed": p.notional if p else None} for order, p in rows])
    elif rows:
        console().print(order_list(rows))
    else:
        console().print("no such orders; every trading action of a decision makes one")


def show(
    order: Annotated[str, typer.Argument(help="An order's id, or the beginning of it.")],
    as_json: Json = False,
) -> None:
    """Show an order as it stands: size, checks, preview, approval, fills, and what it rests on."""
    settings = load_settings()
    require_current(settings.database)
    store = Store(settings.database)
    with store.read() as session:
        found = order_view(session, find_order(session, order))
    entries = entries_of(check_logs(store, settings), found["order"]["id"])
    if as_json:
        print_json({**found, "log": entries})
    else:
        console().print(order_report(found, len(entries)), highlight=False)
