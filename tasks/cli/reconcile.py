"""`desk reconcile`: compare the account with its broker now, or take it over as it is."""

from __future__ import annotations

from typing import Annotated

import typer

from models.order_tables import Reconciliation
from models.setting_sources import load_settings
from models.states import TradingState
from models.store import Store, require_current
from tasks.cli.output import console, print_json
from tasks.cli.person import whoami
from tools.brokers.factory import build_broker
from tools.market.factory import build_market
from tools.orders import halting
from tools.orders.differences import line
from tools.orders.reconcile import reconcile as compare

DIFFERS = 1


def register(app: typer.Typer) -> None:
    app.command()(reconcile)


def reconcile(
    adopt: Annotated[
        bool, typer.Option("--adopt", help="Take positions, cash and past fills over as the broker has them.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for programs.")] = False,
) -> None:
    """Compare positions, open orders, fills and cash with the broker; exit code 1 when they differ."""
    settings = load_settings()
    require_current(settings.database)
    store = Store(settings.database)
    broker = build_broker(settings, build_market(settings), store)
    found = compare(store, settings, broker, f"desk reconcile {whoami()}", adopt)
    with store.read() as session:
        trading = halting.trading_state(session, settings, found.account)
    if as_json:
        print_json({**found.model_dump(), "trading": trading[0], "why": trading[1]})
    else:
        show(found, *trading)
    raise typer.Exit(0 if found.agreed else DIFFERS)


def show(found: Reconciliation, state: TradingState, why: str) -> None:
    """What was found, one line each, and whether the account may trade."""
    out = console()
    whether = "agrees with" if found.agreed else "differs from"
    out.print(f"account {found.account} {whether} its broker at {found.at:%Y-%m-%d %H:%M:%S} UTC", highlight=False)
    for row in found.differences:
        done = "put right" if row["repaired"] else "OPEN"
        out.print(f"  {done:9}  {line(row)}", highlight=False, soft_wrap=True, markup=False)
    if state is not TradingState.ACTIVE:
        out.print(f"trading is {state}: {why}", highlight=False, soft_wrap=True, markup=False)
    if found.agreed and state is TradingState.HALTED:
        out.print("`desk resume` lets it go on", highlight=False)
